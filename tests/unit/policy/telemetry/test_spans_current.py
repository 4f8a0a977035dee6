"""The span of a call is the current one while its tool runs, and at no other time."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref
from collections.abc import Generator
from typing import Any

import pytest
from opentelemetry import trace

from tests.support.otel_recorder import Traces

from .conftest import conduct, current, make_telemetry, one


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


async def test_what_is_thrown_into_a_call_and_caught_there_does_not_end_it(traces: Traces) -> None:
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


async def test_what_a_call_raises_comes_out_as_it_is(traces: Traces) -> None:
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
