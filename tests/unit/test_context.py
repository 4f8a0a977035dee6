"""The context of a call: its facts, and messages while a tool runs."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import logging
import threading
import time
from collections.abc import Mapping
from typing import Annotated, Any

import pytest

from toolcrib import Context, Depends, MCPServer, Principal, ToolError, testing
from toolcrib.context import Elicitation, Question
from toolcrib.errors import CannotAskError


class Peer:
    """A caller's end that notes what it hears, and on which thread."""

    def __init__(self, answer: Any = "yes") -> None:
        self.answer = answer
        self.heard: list[Any] = []
        self.threads: set[int] = set()

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.threads.add(threading.get_ident())
        self.heard.append((progress, total, message))

    def log(self, level: str, data: Any) -> None:
        self.threads.add(threading.get_ident())
        self.heard.append((level, data))

    async def ask(self, questions: Mapping[str, Question]) -> Any:
        self.threads.add(threading.get_ident())
        self.heard.append(dict(questions))
        await asyncio.sleep(0)
        return dict.fromkeys(questions, self.answer)

    def close_stream(self) -> None:
        self.heard.append("closed")


def make() -> MCPServer:
    server = MCPServer("desk")

    @server.tool
    async def walk(ctx: Context, steps: int = 1) -> str:
        await ctx.progress(1, 2, "half")
        ctx.progress(2, 2)
        await ctx.log("info", {"steps": steps})
        return str(await ctx.ask("sure", "Sure?", {"type": "object"}))

    @server.tool
    def walk_on_a_thread(steps: int, ctx: Context | None = None) -> str:
        assert ctx is not None
        ctx.progress(1, 2, "half")
        ctx.progress(2, 2)
        ctx.log("info", {"steps": steps})
        return str(ctx.ask("sure", "Sure?", {"type": "object"}))

    @server.tool
    async def describe(ctx: Context, a: int = 1) -> dict:
        return {
            "tool": ctx.tool,
            "arguments": dict(ctx.arguments),
            "who": ctx.principal.name,
            "server": ctx.server.name,
            "remaining": ctx.remaining_s,
            "cancelled": ctx.cancelled,
        }

    return server


@pytest.mark.parametrize("name", ["walk", "walk_on_a_thread"])
async def test_a_caller_hears_of_progress_and_is_asked_on_its_own_loop(name: str) -> None:
    peer = Peer()
    result = await make().call(name, {"steps": 3}, channel=peer)
    assert result.text == "yes"
    assert peer.heard == [
        (1, 2, "half"),
        (2, 2, None),
        ("info", {"steps": 3}),
        {"sure": Elicitation("Sure?", {"type": "object"})},
    ]
    assert peer.threads == {threading.get_ident()}


async def test_a_context_knows_the_call() -> None:
    server = make()
    result = await server.call("describe", {"a": 2}, principal=Principal("ada"), timeout_s=5)
    facts = result.structured_content
    assert 0 < facts.pop("remaining") <= 5
    assert facts == {
        "tool": "describe",
        "arguments": {"a": 2},
        "who": "ada",
        "server": "desk",
        "cancelled": False,
    }


async def test_without_a_deadline_nothing_remains_to_be_counted() -> None:
    server = MCPServer(timeout_s=None)
    server.add(_remaining, name="remaining", run="inline")
    assert (await server.call("remaining")).structured_content == {"left": None}


def _remaining(ctx: Context) -> dict:
    return {"left": ctx.remaining_s}


def test_a_deadline_that_passed_leaves_nothing() -> None:
    assert Context("x", {}, deadline=time.monotonic() - 5).remaining_s == 0.0


async def test_a_question_without_await_is_not_taken_for_a_yes() -> None:
    server = MCPServer("desk")

    @server.tool
    async def delete(ctx: Context) -> str:
        """Delete everything."""
        return "deleted" if ctx.ask("sure", "Sure?") else "kept"

    result = await server.call("delete")
    assert "a question must be awaited in async code: `await ctx.ask(...)`" in result.text


FORGETFUL = {
    "drop": lambda ctx: ctx.ask("sure", "Sure?"),
    "keep": lambda ctx: [ctx.ask("sure", "Sure?")],
    "add": lambda ctx: ctx.ask("sure", "Sure?") + 1,
    "attribute": lambda ctx: ctx.ask("sure", "Sure?").side,
    "item": lambda ctx: ctx.ask("sure", "Sure?")["side"],
}


@pytest.mark.parametrize("run", ["auto", "inline"])
@pytest.mark.parametrize("name", FORGETFUL)
async def test_a_call_that_forgets_to_await_a_question_fails_and_says_so(name: str, run: Any) -> None:
    server, forget = MCPServer("desk"), FORGETFUL[name]

    if run == "inline":

        @server.tool(name="act", run="inline")
        def act(ctx: Context) -> str:
            """Act without the answer."""
            forget(ctx)
            return "done"
    else:

        @server.tool(name="act")
        async def act_async(ctx: Context) -> str:
            """Act without the answer."""
            forget(ctx)
            return "done"

    async with testing.connect(server) as client:
        result = await client.call("act")
    assert result.is_error
    assert "a question must be awaited in async code: `await ctx.ask(...)`" in result.text
    gc.collect()  # a coroutine that was never awaited would warn now


async def test_a_question_that_a_failing_tool_has_not_awaited_does_not_hide_its_error() -> None:
    server = MCPServer("desk")

    @server.tool
    async def act(ctx: Context) -> str:
        """Fail before the answer."""
        question = ctx.ask("sure", "Sure?")
        raise ToolError("Out of stock.")
        await question

    assert (await server.call("act")).text == "Out of stock."
    gc.collect()


def get_answer(ctx: Context) -> Any:
    return ctx.ask("first", "First?")


async def test_a_question_may_be_a_task_or_the_value_of_a_dependency() -> None:
    server = MCPServer("desk")

    @server.tool
    async def interview(ctx: Context, first: Annotated[Any, Depends(get_answer)]) -> bool:
        """Ask twice."""
        return bool(first) and bool(await asyncio.create_task(ctx.ask("second", "Second?")))

    async with testing.connect(server, answers={"First": True, "Second": True}) as client:
        assert (await client.call("interview")).structured_content is True


async def test_nobody_can_be_asked_in_process(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "toolcrib"):
        result = await make().call("walk", {"steps": 7})
    assert result.is_error
    assert isinstance(result.error, CannotAskError)
    assert "Cannot ask the user" in result.text
    assert "{'steps': 7}" in caplog.text


async def test_a_caller_that_cannot_be_reached_does_not_end_the_work(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Peer):
        def progress(self, progress: float, total: float | None, message: str | None) -> None:
            raise OSError("gone")

    result = await make().call("walk", channel=Broken())
    assert result.text == "yes"
    assert "could not send a message to its caller" in caplog.text


async def test_a_thread_that_waits_for_an_answer_is_let_go_with_its_caller() -> None:
    asked = asyncio.Event()
    ended = threading.Event()

    class Silent(Peer):
        async def ask(self, questions: Mapping[str, Question]) -> Any:
            asked.set()
            await asyncio.Event().wait()

    server = MCPServer()

    @server.tool
    def wait(ctx: Context) -> str:
        try:
            return str(ctx.ask("k", "?"))
        finally:
            ended.set()

    call = asyncio.create_task(server.call("wait", channel=Silent()))
    await asked.wait()
    await asyncio.sleep(0.05)  # until the thread waits for the answer
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(ended.wait, 5)


async def test_a_question_after_the_end_is_cancelled_and_words_are_dropped() -> None:
    peer = Peer()
    context = Context("x", {}, channel=peer, loop=asyncio.get_running_loop())
    context.cancel()
    context.progress(1)
    assert peer.heard == []

    def ask() -> str:
        try:
            return str(context.ask("k", "?"))
        except BaseException as error:
            return type(error).__name__

    assert await asyncio.to_thread(ask) == "CancelledError"


async def test_a_question_that_is_asked_as_the_call_ends_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Silent(Peer):
        async def ask(self, questions: Mapping[str, Question]) -> Any:
            await asyncio.Event().wait()

    context = Context("x", {}, channel=Silent(), loop=asyncio.get_running_loop())
    ask_on_loop = asyncio.run_coroutine_threadsafe

    def ask_and_end(*args: Any) -> Any:
        future = ask_on_loop(*args)
        context.cancel()
        return future

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", ask_and_end)

    def ask() -> None:
        with pytest.raises(concurrent.futures.CancelledError):
            context.ask("k", "?")

    await asyncio.to_thread(ask)


async def test_a_thread_with_a_loop_of_its_own_awaits_the_answer() -> None:
    peer = Peer()
    context = Context("x", {}, channel=peer, loop=asyncio.get_running_loop())

    async def ask() -> Any:
        context.progress(1)
        return await context.ask("k", "?")

    assert await asyncio.to_thread(lambda: asyncio.run(ask())) == "yes"
    assert peer.threads == {threading.get_ident()}


async def test_a_context_without_a_loop_speaks_directly() -> None:
    peer = Peer()
    context = Context("x", {}, channel=peer)
    context.log("debug", 1)
    assert await context.ask("k", "?") == "yes"
    assert peer.heard[0] == ("debug", 1)


def test_words_to_a_closed_loop_are_dropped() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    peer = Peer()
    Context("x", {}, channel=peer, loop=loop).progress(1)
    assert peer.heard == []
