"""OpenTelemetry spans of calls."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import weakref
from collections.abc import Generator, Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler, SamplingResult
from opentelemetry.trace import SpanKind, StatusCode

from tests.support.records.otel_recorder import Traces
from toolcrib import __version__
from toolcrib.errors import ConfigurationError
from toolcrib.policy import tracing as spans
from toolcrib.policy.telemetry import TelemetryMiddleware

from .conftest import Running, begin, call, conduct, current, figure, make_telemetry, one

PARENT = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
TRACE_ID, SPAN_ID = 0x0123456789ABCDEF0123456789ABCDEF, 0x0123456789ABCDEF


def test_a_call_is_a_span_with_the_attributes_of_the_conventions(traces: Traces) -> None:
    telemetry = make_telemetry(opentelemetry=True)
    begin(telemetry, "c1", request=7).end(arguments_bytes=12, result_bytes=34)
    span = one(traces)
    assert (span.name, span.kind) == ("tools/call refund", SpanKind.SERVER)
    assert dict(span.attributes or {}) == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "refund",
        "jsonrpc.request.id": "7",
        "toolcrib.call_id": "c1",
        "toolcrib.outcome": "ok",
        "toolcrib.arguments_bytes": 12,
        "toolcrib.result_bytes": 34,
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.parent is None
    assert span.instrumentation_scope is not None
    assert (span.instrumentation_scope.name, span.instrumentation_scope.version) == ("toolcrib", __version__)


def test_anything_that_is_not_known_is_not_said(traces: Traces) -> None:
    telemetry = make_telemetry(opentelemetry=True)
    begin(telemetry).end()
    assert set(one(traces).attributes or {}) == {
        "mcp.method.name",
        "gen_ai.operation.name",
        "gen_ai.tool.name",
        "toolcrib.call_id",
        "toolcrib.outcome",
    }


def test_the_name_of_a_request_has_an_end(traces: Traces) -> None:
    telemetry = make_telemetry(opentelemetry=True)
    begin(telemetry, request="r" * 300).end()
    assert (one(traces).attributes or {})["jsonrpc.request.id"] == "r" * 256


def test_an_unknown_tool_is_a_span_without_its_name(traces: Traces) -> None:
    telemetry = make_telemetry(opentelemetry=True)
    Running(telemetry, None, "c2", request="q", trace=PARENT).end("denied", "unknown-tool")
    span = one(traces)
    assert span.name == "tools/call"
    assert "gen_ai.tool.name" not in (span.attributes or {})
    assert (span.attributes or {})["toolcrib.call_id"] == "c2"
    assert span.parent is not None
    assert span.parent.trace_id == TRACE_ID


@pytest.mark.parametrize(
    ("outcome", "code", "fault"),
    [
        ("error", "invalid-arguments", "invalid-arguments"),
        ("error", None, "tool_error"),
        ("crashed", "crashed", "crashed"),
        ("timeout", "timeout", "timeout"),
        ("throttled", "throttled", "throttled"),
        ("denied", "denied", "denied"),
    ],
)
def test_a_call_that_failed_is_an_error_by_its_code(
    traces: Traces, outcome: str, code: str | None, fault: str
) -> None:
    telemetry = make_telemetry(opentelemetry=True)
    begin(telemetry).end(outcome, code)
    span = one(traces)
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is None
    assert (span.attributes or {})["error.type"] == fault
    assert (span.attributes or {})["toolcrib.outcome"] == outcome


@pytest.mark.parametrize("outcome", ["ok", "input_required", "cancelled", "disconnected"])
def test_a_caller_who_is_asked_or_gives_up_is_not_an_error(traces: Traces, outcome: str) -> None:
    telemetry = make_telemetry(opentelemetry=True)
    begin(telemetry).end(outcome, None)
    assert one(traces).status.status_code is StatusCode.UNSET
    assert "error.type" not in (one(traces).attributes or {})


# --- whose child it is ---------------------------------------------------------------------------------


def test_the_caller_s_span_is_the_parent(traces: Traces) -> None:
    telemetry = make_telemetry(opentelemetry=True)
    begin(telemetry, trace=PARENT).end()
    span = one(traces)
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id, span.parent.is_remote) == (TRACE_ID, SPAN_ID, True)
    assert span.links == ()


def test_anything_that_goes_on_around_the_call_is_a_link_beside_the_caller_s_span(traces: Traces) -> None:
    telemetry = make_telemetry(opentelemetry=True)
    with trace.get_tracer("test").start_as_current_span("request") as around:
        begin(telemetry, trace=PARENT).end()
    span = traces.spans[0]
    assert span.parent is not None
    assert span.parent.trace_id == TRACE_ID
    assert [link.context.span_id for link in span.links] == [around.get_span_context().span_id]


@pytest.mark.parametrize(
    "said",
    [
        None,
        "",
        "garbage",
        "00-" + "0" * 32 + "-0123456789abcdef-01",
        "00-0123456789abcdef0123456789abcdef-" + "0" * 16 + "-01",
        "ff-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
        PARENT + "-extra",
        PARENT.upper(),
        PARENT + " " * 200,
        7,
        {"a": 1},
        b"00",
    ],
)
def test_anything_that_is_not_a_traceparent_is_ignored(
    traces: Traces, said: Any, caplog: pytest.LogCaptureFixture
) -> None:
    telemetry = make_telemetry(opentelemetry=True)
    with trace.get_tracer("test").start_as_current_span("request") as around:
        begin(telemetry, trace=said).end()
    span = traces.spans[0]
    assert span.parent is not None
    assert span.parent.span_id == around.get_span_context().span_id
    assert span.links == ()
    assert caplog.records == []


# --- figures, and trouble --------------------------------------------------------------------------------


def test_durations_are_told_in_the_buckets_of_the_conventions(traces: Traces) -> None:
    telemetry = make_telemetry(opentelemetry=True)
    call(telemetry, tool="timed", duration_s=0.3)
    call(telemetry, "error", None, tool="timed", duration_s=2.5)
    call(telemetry, tool="timed", duration_s=0.1)
    name = "mcp.server.operation.duration"
    points = [each for each in traces.points(name) if each.attributes.get("gen_ai.tool.name") == "timed"]
    usual = {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "timed",
    }
    well, ill = sorted(points, key=lambda each: len(each.attributes))
    assert dict(well.attributes) == usual
    assert (well.count, well.sum) == (2, pytest.approx(0.4))
    assert dict(ill.attributes) == {**usual, "error.type": "tool_error"}
    assert tuple(well.explicit_bounds) == spans.BUCKETS_S


class Broken(Sampler):
    def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
        raise OSError("no sampler today")

    def get_description(self) -> str:
        return "broken"


def set_up(telemetry: TelemetryMiddleware, provider: TracerProvider) -> None:
    assert telemetry._tracing is not None
    telemetry._tracing._tracer = provider.get_tracer("test")


async def test_a_broken_set_up_of_opentelemetry_fails_no_call(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = make_telemetry(opentelemetry=True, prometheus=True)
    set_up(telemetry, TracerProvider(sampler=Broken()))

    async def work() -> int:
        return 3

    assert await conduct(telemetry, work) == 3
    assert await conduct(telemetry, work) == 3
    assert figure(telemetry, "toolcrib_calls_total", tool="refund", outcome="ok", code="") == 2
    assert figure(telemetry, "toolcrib_calls_running") == 0
    said = [record.getMessage() for record in caplog.records]
    assert said == ["OpenTelemetry failed, calls continue without it: OSError"]


def test_a_processor_that_fails_fails_no_call(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(trace.NonRecordingSpan):
        def end(self, end_time: int | None = None) -> None:
            raise OSError("no processor today")

    telemetry = make_telemetry(opentelemetry=True)
    assert telemetry._tracing is not None
    monkeypatch.setattr(
        telemetry._tracing._tracer, "start_span", lambda *_, **__: Failing(trace.INVALID_SPAN_CONTEXT)
    )
    call(telemetry)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_span_that_nobody_samples_is_told_nothing() -> None:
    telemetry = make_telemetry(opentelemetry=True)
    set_up(telemetry, TracerProvider(sampler=ALWAYS_OFF))
    call(telemetry, "error", "crashed")


def run_alone(script: str) -> Sequence[str]:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_only_those_who_report_to_opentelemetry_load_it() -> None:
    loaded = "import sys; print(sorted({n.partition('.')[0] for n in sys.modules} & {'opentelemetry'}))"
    make = (
        "from toolcrib.policy.telemetry import TelemetryMiddleware;"
        "from toolcrib.policy import Telemetry;"
        "TelemetryMiddleware(Telemetry(prometheus=True), server='a', version='1').exposition();"
    )
    assert run_alone(make + loaded) == ["[]"]


def test_it_says_how_to_get_opentelemetry_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "toolcrib.policy.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigurationError, match="opentelemetry-api is not installed") as caught:
        make_telemetry(opentelemetry=True)
    assert caught.value.key == "telemetry.opentelemetry"
    assert caught.value.hint == "pip install 'toolcrib[otel]'"


def test_another_module_that_is_missing_is_another_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "toolcrib.policy.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "toolcrib.dispatch.calls", None)
    with pytest.raises(ModuleNotFoundError, match=r"toolcrib\.dispatch\.calls"):
        make_telemetry(opentelemetry=True)


async def test_spans_of_the_tool_are_below_the_span_of_the_call(traces: Traces) -> None:
    telemetry = make_telemetry(opentelemetry=True)

    async def work() -> str:
        with trace.get_tracer("test").start_as_current_span("first"):
            await asyncio.sleep(0)
            with trace.get_tracer("test").start_as_current_span("inner"):
                await asyncio.sleep(0)
        await asyncio.to_thread(trace.get_tracer("test").start_span("thread").end)
        await asyncio.create_task(touch("task"))
        return "done"

    async def touch(name: str) -> None:
        trace.get_tracer("test").start_span(name).end()

    assert await conduct(telemetry, work) == "done"
    found = {span.name: span for span in traces.spans}
    call_id = found["tools/call refund"].context.span_id
    parents = {name: span.parent.span_id for name, span in found.items() if span.parent is not None}
    assert parents == {
        "first": call_id,
        "inner": found["first"].context.span_id,
        "thread": call_id,
        "task": call_id,
    }
    assert current() == 0


async def test_calls_at_the_same_time_do_not_mix(traces: Traces) -> None:
    telemetry = make_telemetry(opentelemetry=True)

    async def work() -> list[int]:
        seen = []
        for _ in range(3):
            seen.append(current())
            await asyncio.sleep(0)
        return seen

    results = await asyncio.gather(*(conduct(telemetry, work) for _ in range(5)))
    assert {len(set(seen)) for seen in results} == {1}
    assert {seen[0] for seen in results} == {span.context.span_id for span in traces.spans}


async def test_a_call_that_begins_outside_of_a_task_leaves_nothing_behind(traces: Traces) -> None:
    """As `transports.running` does it: the first step is made by hand, the rest by a task."""
    telemetry = make_telemetry(opentelemetry=True)
    bell = asyncio.get_running_loop().create_future()
    seen = []

    async def work() -> int:
        seen.append(current())
        await bell
        seen.append(current())
        return 5

    here = contextvars.copy_context()
    begun = conduct(telemetry, work)
    waits_for = here.run(begun.send, None)  # type: ignore[attr-defined]
    assert here.run(current) == 0
    waits_for._asyncio_future_blocking = False

    class Rest:
        def __await__(self) -> Generator[Any, Any, Any]:
            yield from bell
            return (yield from begun.__await__())

    async def go_on() -> Any:
        return await Rest()

    task = asyncio.create_task(go_on())
    bell.set_result(None)
    assert await task == 5
    assert seen == [one(traces).context.span_id] * 2
    assert current() == 0


async def test_a_cancelled_call_is_cancelled_within_its_span(traces: Traces) -> None:
    telemetry = make_telemetry(opentelemetry=True)
    seen = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append(current())
            raise

    task = asyncio.create_task(conduct(telemetry, work))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [one(traces).context.span_id]


async def test_anything_that_is_thrown_into_a_call_and_caught_there_does_not_end_it(traces: Traces) -> None:
    telemetry = make_telemetry(opentelemetry=True)

    async def work() -> list[int]:
        seen = [current()]
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            seen.append(current())
        return seen

    task = asyncio.create_task(conduct(telemetry, work))
    await asyncio.sleep(0)
    task.cancel()
    assert await task == [one(traces).context.span_id] * 2


async def test_anything_that_a_call_raises_comes_out_as_it_is(traces: Traces) -> None:
    telemetry = make_telemetry(opentelemetry=True)

    async def work() -> None:
        raise LookupError("as it is")

    with pytest.raises(LookupError, match="as it is"):
        await conduct(telemetry, work)
    assert current() == 0


async def test_a_call_that_is_closed_closes_its_work(traces: Traces) -> None:
    telemetry = make_telemetry(opentelemetry=True)
    ended = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(True)

    begun = conduct(telemetry, work)
    begun.send(None)  # type: ignore[attr-defined]
    begun.close()  # type: ignore[attr-defined]
    assert ended == [True]


async def test_an_error_that_was_thrown_in_is_not_kept(traces: Traces) -> None:
    telemetry = make_telemetry(opentelemetry=True)
    bell = asyncio.Event()
    seen: list[weakref.ref[BaseException]] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            seen.append(weakref.ref(error))
        await bell.wait()

    task = asyncio.create_task(conduct(telemetry, work))
    await asyncio.sleep(0)
    gc.disable()
    try:
        task.cancel()
        while not seen:
            await asyncio.sleep(0)
        assert seen[0]() is None
    finally:
        gc.enable()
        bell.set()
        await task
