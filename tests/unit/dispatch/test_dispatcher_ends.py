"""Dispatch at its edges: a server that has stopped, tools that cannot be built, tools that come and go."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.definitions.pydantic_models import Left, Right
from tests.support.servers.policy_server import BEN, Bench, open_bench
from tests.unit.dispatch.running import wait_until
from toolcrib import Context, MCPServer, ToolRegistry
from toolcrib.context import LOCAL, NO_CHANNEL
from toolcrib.dispatch import dispatcher as dispatch
from toolcrib.dispatch.tool_search import CALL, SEARCH
from toolcrib.errors import ThrottledError, ToolBusyError, ToolNotFoundError, ToolTimeoutError
from toolcrib.options import MAX_TIMEOUT_S
from toolcrib.policy import Limit, Policy, Telemetry
from toolcrib.policy.enforcer import PolicyEnforcer
from toolcrib.validation import limits


async def test_who_calls_a_server_that_has_stopped_is_told_so() -> None:
    server = MCPServer()
    runs: list[int] = []
    server.add(lambda: runs.append(1), name="ping")
    async with server:
        assert not (await server.call("ping")).is_error
    for call in (server.call, server.dispatcher.call):
        result = await call("ping")
        assert result.is_error
        assert isinstance(result.error, ToolBusyError)
        assert result.text == "Tool 'ping' cannot run: the server has stopped."
    assert runs == [1]


def test_a_tool_that_cannot_be_built_repeats_nothing_in_headers() -> None:
    server = MCPServer()

    def broken(x: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
        """Has a type that is nowhere."""
        return ""

    server.add(broken)
    assert server.dispatcher.mirrored("broken") is None


async def test_figures_of_tools_that_went_are_forgotten_when_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatch, "KEPT_STATS", 3)
    server = MCPServer(dynamic=True)
    async with server:
        server.add(lambda: "", name="stays")
        await server.call("stays")
        for number in range(6):
            server.add(lambda: "", name=f"goes{number}")
            await server.call(f"goes{number}")
            server.registry.remove(f"goes{number}")
        await server.call("stays")
        assert "goes0" not in server.dispatcher.stats
        assert len(server.dispatcher.stats) <= 2 + 3 + 1
        assert server.dispatcher.stats["stays"].calls == 2


def test_a_call_that_there_is_no_room_for_is_counted_where_nothing_is_recorded() -> None:
    enforcer = PolicyEnforcer(Policy(telemetry=Telemetry(prometheus=True)))
    server = MCPServer()
    server.dispatcher.use(enforcer.pipeline())
    server.dispatcher.reject("add", {"a": 1}, LOCAL, NO_CHANNEL, ToolBusyError("There is no room."))
    assert enforcer.telemetry is not None
    figures = enforcer.telemetry.exposition()[1].decode()
    assert [line for line in figures.splitlines() if "calls_total{" in line and 'outcome="throttled"' in line]
    MCPServer().dispatcher.reject(
        "add", {}, LOCAL, NO_CHANNEL, ToolBusyError("No room.")
    )  # nothing to record


# --- what a policy brings along ---


async def test_a_policy_may_give_less_time_where_a_server_gives_all_the_time() -> None:
    server = MCPServer(timeout_s=None, policy=Policy(limits=[Limit(timeout_s=0.02)]))

    @server.tool
    async def wait() -> None:
        await asyncio.Event().wait()

    assert (await server.call("wait")).text == "Tool 'wait' did not finish within 0.02 s."


async def test_a_tool_that_cannot_run_as_it_is_defined_is_told_by_the_id_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)

    def choose(side: Left | Right) -> str:
        """Choose a side."""
        return "never"

    bench.server.add(choose)
    monkeypatch.setattr(limits, "MAX_CHECKS_PER_VALUE", 1)
    async with bench.server:
        told = (await bench.server.call("choose", {"side": {"a": 1}})).text
    assert f"(reference {bench.records()[-1]['id']})" in told


async def test_a_place_is_taken_until_what_was_left_to_be_awaited_has_ended() -> None:
    server = MCPServer(policy=Policy(limits=[Limit(concurrency=1, timeout_s=0.02)]))
    go_on, ended = asyncio.Event(), asyncio.Event()

    async def stay() -> None:
        while not go_on.is_set():
            with suppress(asyncio.CancelledError):
                await go_on.wait()
        ended.set()

    server.add(lambda: stay(), name="stay", run="inline")
    server.add(lambda: "done", name="other", run="inline")
    assert isinstance((await server.call("stay")).error, ToolTimeoutError)
    assert isinstance((await server.call("other")).error, ThrottledError)
    go_on.set()
    await ended.wait()
    async with asyncio.timeout(10):
        while (await server.call("other")).is_error:
            await asyncio.sleep(0)


async def test_a_call_that_there_is_no_room_for_is_on_the_record_as_it_was_made(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        error = ToolBusyError("There is no room.")
        bench.server.dispatcher.reject("add", {"a": 1}, BEN, NO_CHANNEL, error)
        await bench.server.call("add", {"a": 1}, principal=BEN)
    dropped, called = bench.records()
    assert (dropped["decision"], dropped["code"]) == ("overloaded", "busy")
    same = ("tool", "principal", "arguments_digest")
    assert [dropped[fact] for fact in same] == [called[fact] for fact in same]


# --- by way of the tool that calls others ---


class Ear:
    """A caller's end that notes the progress it hears of."""

    def __init__(self) -> None:
        self.heard: list[float] = []

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.heard.append(progress)


async def test_who_calls_by_way_of_another_tool_hears_of_progress_and_keeps_their_time() -> None:
    server = MCPServer(search="always")
    ear: Any = Ear()

    @server.tool
    async def walk(ctx: Context) -> None:
        await ctx.progress(1)
        await asyncio.Event().wait()

    assert [tool.name for tool in server.list_shown()] == [SEARCH, CALL]
    result = await server.call(CALL, {"name": "walk"}, channel=ear, timeout_s=0.02)
    assert result.text == "Tool 'walk' did not finish within 0.02 s."
    assert ear.heard == [1]


# --- tools that cannot be built ---


async def test_who_calls_a_tool_that_cannot_be_built_is_told_nothing_and_the_log_says_why_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = MCPServer()
    server.add(lambda: 1, name="broken", input_schema={"type": "array"})
    for _ in range(2):
        with pytest.raises(ToolNotFoundError, match=r"^Unknown tool: broken$"):
            await server.call("broken")
    assert caplog.text.count("tool 'broken' is not published") == 1


# --- the end of a dispatcher ---


async def test_threads_end_and_crashes_are_in_the_log_when_a_dispatcher_is_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = set(threading.enumerate())
    registry = ToolRegistry()
    threads: list[threading.Thread] = []

    def fail() -> None:
        threads.append(threading.current_thread())
        raise ValueError("the real reason")

    registry.add(fail)
    dispatcher = dispatch.Dispatcher(registry)
    assert (await dispatcher.call("fail")).is_error
    assert threads[0] not in before
    dispatcher.close()
    assert "the real reason" in caplog.text
    await wait_until(lambda: not threads[0].is_alive())


def test_the_longest_time_that_may_be_asked_for_is_a_time() -> None:
    assert dispatch.Dispatcher(ToolRegistry(), timeout_s=MAX_TIMEOUT_S).timeout_s == MAX_TIMEOUT_S
    with pytest.raises(ValueError, match="timeout_s"):
        dispatch.Dispatcher(ToolRegistry(), timeout_s=MAX_TIMEOUT_S + 1)


async def test_a_call_has_a_minute_unless_somebody_says_otherwise() -> None:
    server = MCPServer()

    @server.tool
    async def count(ctx: Context) -> float:
        assert ctx.remaining_s is not None
        return ctx.remaining_s

    assert 50 < (await server.call("count")).structured_content <= 60
    assert server.dispatcher.timeout_s == 60


@pytest.mark.parametrize(("limit_s", "thinks_s"), [(0.25, 0.4), (None, 0.01)])
@pytest.mark.parametrize("run", ["async", "thread"])
async def test_a_person_may_think_longer_than_the_tool_may_take(
    run: str, limit_s: float | None, thinks_s: float
) -> None:
    server = MCPServer(timeout_s=limit_s)
    later = asyncio.get_running_loop().create_future()

    class Thinker:
        async def ask(self, questions: Any) -> Any:
            asyncio.get_running_loop().call_later(thinks_s, later.set_result, "yes")
            return dict.fromkeys(questions, await later)

    async def ask_now(ctx: Context) -> str:
        return str(await ctx.ask("sure", "Sure?", {"type": "object"}))

    def ask_on_a_thread(ctx: Context) -> str:
        return str(ctx.ask("sure", "Sure?", {"type": "object"}))

    server.add(ask_now if run == "async" else ask_on_a_thread, name="ask")
    channel: Any = Thinker()
    assert (await server.call("ask", channel=channel)).text == "yes"
