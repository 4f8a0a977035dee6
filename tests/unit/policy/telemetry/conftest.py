"""Calls to report, and helpers to read what was reported."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from prometheus_client.parser import text_string_to_metric_families

from tests.support.records.otel_recorder import Traces, open_traces
from toolcrib.content import Result
from toolcrib.context import LOCAL, NullChannel
from toolcrib.dispatch.calls import Call, CallRecord
from toolcrib.policy import Telemetry
from toolcrib.policy.telemetry import TelemetryMiddleware


@dataclass
class Wire(NullChannel):
    """The channel of a call, with the id of its request and its trace."""

    request: Any = None
    trace: Any = None


class Running:
    """A call that has begun, and ends when `end` is called."""

    def __init__(
        self, telemetry: TelemetryMiddleware, tool: str | None = "refund", call_id: str = "c0", **said: Any
    ) -> None:
        named: Any = None if tool is None else SimpleNamespace(name=tool, reference=tool)
        record = CallRecord(call_id, None, LOCAL.name, tool or "refund")
        self.call = Call(call_id, "refund", named, {}, LOCAL, Wire(**said), record)
        self._steps = telemetry(self.call, self._run)
        self._steps.send(None)

    async def _run(self, _: Call) -> Result:
        await _pause()
        return Result([])

    def end(self, outcome: str = "ok", code: str | None = None, **facts: Any) -> None:
        set_ending(self.call, outcome, code, **facts)
        with pytest.raises(StopIteration):
            self._steps.send(None)


@types.coroutine
def _pause() -> Generator[None, None, None]:
    yield


def set_ending(call: Call, outcome: str = "ok", code: str | None = None, **facts: Any) -> None:
    call.record.outcome, call.record.code = outcome, code
    for name, value in {"duration_s": 0.02, **facts}.items():
        setattr(call.record, name, value)


def begin(telemetry: TelemetryMiddleware, call_id: str = "c0", **said: Any) -> Running:
    return Running(telemetry, call_id=call_id, **said)


def call(
    telemetry: TelemetryMiddleware,
    outcome: str = "ok",
    code: str | None = None,
    tool: str | None = "refund",
    **facts: Any,
) -> None:
    """A call that begins and ends."""
    Running(telemetry, tool).end(outcome, code, **facts)


def make_telemetry(**options: Any) -> TelemetryMiddleware:
    return TelemetryMiddleware(Telemetry(**options), server="shop", version="1.4")


def read_metrics(telemetry: TelemetryMiddleware) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample by its name and labels, as Prometheus' own reader understands the page."""
    families = text_string_to_metric_families(telemetry.exposition()[1].decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def figure(telemetry: TelemetryMiddleware, name: str, **labels: str) -> float | None:
    return read_metrics(telemetry).get((name, tuple(sorted(labels.items()))))


def one(traces: Traces) -> ReadableSpan:
    [span] = traces.spans
    return span


def current() -> int:
    return trace.get_current_span().get_span_context().span_id


def conduct(telemetry: TelemetryMiddleware, work: Callable[[], Awaitable[Any]]) -> Coroutine[Any, Any, Any]:
    """A call whose tool does this work."""
    made = Call(
        "c0",
        "refund",
        SimpleNamespace(name="refund", reference="refund"),
        {},
        LOCAL,
        Wire(),
        CallRecord("c0", None, "local", "refund"),
    )  # type: ignore[arg-type]
    set_ending(made)
    return telemetry(made, lambda _: work())


@pytest.fixture
def traces() -> Traces:
    found = open_traces()
    found.clear()
    return found
