"""The one way to call a tool."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import MCPServer, ToolError, ToolNotFoundError
from toolcrib.dispatch.dispatcher import Dispatcher
from toolcrib.dispatch.plans import ToolStats, tool_modules
from toolcrib.errors import DefinitionError
from toolcrib.registry.registry import ToolRegistry


async def test_an_unknown_tool_raises_and_names_no_other() -> None:
    server = MCPServer()
    server.add(lambda: 1, name="secret_tool")
    with pytest.raises(ToolNotFoundError) as refused:
        await server.call("secret_tol")
    assert str(refused.value) == "Unknown tool: secret_tol"


async def test_every_spelling_reaches_the_same_tool() -> None:
    server = MCPServer()
    server.add(lambda: 1, name="Count", aliases=["abandoned_count"], version="2")
    for name in ("Count", "count", "COUNT", "abandoned_count", "Count@2", "count@2"):
        assert (await server.call(name)).structured_content == 1
    assert server.dispatcher.stats["Count"].calls == 6


async def test_a_caller_may_shorten_the_deadline_but_not_extend_it() -> None:
    server = MCPServer(timeout_s=None)
    never = asyncio.Event()

    @server.tool
    async def wait() -> None:
        await never.wait()

    @server.tool(timeout_s=0.05)
    async def wait_shortly() -> None:
        await never.wait()

    assert "0.02 s" in (await server.call("wait", timeout_s=0.02)).text
    assert "0.05 s" in (await server.call("wait_shortly", timeout_s=5)).text
    assert "0.02 s" in (await server.call("wait_shortly", timeout_s=0.02)).text
    for wrong in (0, -1, 10_000):
        with pytest.raises(ValueError, match="timeout_s"):
            await server.call("wait", timeout_s=wrong)


async def test_anything_that_a_plain_function_leaves_to_be_awaited_is_awaited() -> None:
    server = MCPServer()
    loops: list[Any] = []

    async def later(value: Any) -> Any:
        loops.append(asyncio.get_running_loop())
        return value

    async def count() -> AsyncIterator[int]:
        yield 1
        yield 2

    def give(value: int) -> Awaitable[int]:
        return later(value)

    server.add(give)
    server.add(lambda: count(), name="stream")
    server.add(lambda: later(count()), name="late_stream", run="inline")
    assert (await server.call("give", {"value": 3})).structured_content == 3
    assert (await server.call("stream")).structured_content == [1, 2]
    assert (await server.call("late_stream")).structured_content == [1, 2]
    assert loops == [asyncio.get_running_loop()] * 2


async def test_anything_that_is_awaited_later_keeps_to_the_same_deadline() -> None:
    server = MCPServer(timeout_s=0.05)
    never = asyncio.Event()
    server.add(lambda: never.wait(), name="wait")
    result = await server.call("wait")
    assert result.text == "Tool 'wait' did not finish within 0.05 s."


async def test_positional_only_parameters_and_the_server_reach_the_handler() -> None:
    server = MCPServer("desk")

    @server.tool
    def divide(a: int, b: int = 2, /, *, exact: bool = True) -> float:
        return a / b if exact else a // b

    @server.tool("who", "Tell who serves", {"type": "object", "properties": {}})
    async def who(arguments: dict, server: MCPServer) -> str:
        return server.name

    assert (await server.call("divide", {"a": 5})).structured_content == 2.5
    assert (await server.call("divide", {"a": 5, "b": 5, "exact": False})).structured_content == 1
    assert (await server.call("who")).text == "desk"


async def test_a_call_under_way_ends_on_the_code_it_began_with() -> None:
    server = MCPServer(dynamic=True)
    began, go = asyncio.Event(), asyncio.Event()

    async def old() -> str:
        began.set()
        await go.wait()
        return "old"

    server.add(old, name="answer")
    call = asyncio.create_task(server.call("answer"))
    await began.wait()
    server.add(lambda: "new", name="answer", on_duplicate="replace")
    assert (await server.call("answer")).text == "new"
    go.set()
    assert (await call).text == "old"


async def test_removed_tools_are_forgotten_and_others_keep_their_figures() -> None:
    server = MCPServer()
    server.add(lambda: 1, name="stays")
    server.add(lambda: 2, name="goes")
    await server.call("stays")
    await server.call("goes")
    server.registry.remove("goes")
    await server.call("stays")
    with pytest.raises(ToolNotFoundError):
        await server.call("goes")
    assert server.dispatcher.stats["stays"].calls == 2


async def test_the_figures_of_a_tool_count_calls_errors_and_time() -> None:
    server = MCPServer()

    @server.tool
    async def pick(a: int) -> dict:
        return {"content": [], "isError": True} if a else {"content": []}

    await server.call("pick", {"a": 0})
    await server.call("pick", {"a": 1})
    await server.call("pick", {"a": "x"})
    stats = server.dispatcher.stats["pick"]
    assert (stats.calls, stats.errors) == (3, 2)
    assert stats.to_json()["average_ms"] > 0
    assert ToolStats().to_json() == {"calls": 0, "errors": 0, "average_ms": 0.0}


async def test_a_tool_may_call_another() -> None:
    server = MCPServer()

    @server.tool
    async def inner(a: int) -> int:
        if a < 0:
            raise ToolError("no negatives")
        return a * 2

    @server.tool
    async def outer(a: int) -> str:
        result = await server.call("inner", {"a": a})
        return f"inner said {result.text}"

    assert (await server.call("outer", {"a": 2})).text == "inner said 4"
    assert (await server.call("outer", {"a": -1})).text == "inner said no negatives"


def test_one_server_serves_several_loops_and_threads_at_once() -> None:
    server = MCPServer()

    @server.tool
    async def double(a: int) -> int:
        await asyncio.sleep(0)
        return a * 2

    @server.tool
    def triple(a: int) -> int:
        return a * 3

    wrong: list[Any] = []

    async def many() -> None:
        for number in range(50):
            for name, factor in (("double", 2), ("triple", 3)):
                result = await server.call(name, {"a": number})
                if result.structured_content != number * factor:
                    wrong.append(result)

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert server.dispatcher.stats["double"].calls + server.dispatcher.stats["triple"].calls <= 400


class Unspeakable(ToolError):
    def __str__(self) -> str:
        raise ValueError("secret")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolError("plain words"), "plain words"),
        (ToolError("größer ✓"), "größer ✓"),
        (ToolError("half \ud800 a character"), "half ? a character"),
        (ToolError(""), "ToolError"),
        (Unspeakable("x"), "Tool 'fail' failed, and its error message cannot be sent."),
        (ToolError("x" * 20_000_000), "Tool 'fail' failed, and its error message cannot be sent."),
        (ExceptionGroup("group", [ToolError("the only one")]), "the only one"),
    ],
)
async def test_the_words_of_an_author_arrive_as_far_as_they_can_be_sent(error: Exception, text: str) -> None:
    server = MCPServer()

    @server.tool
    async def fail() -> None:
        raise error

    assert (await server.call("fail")).text == text


async def test_two_errors_at_once_are_a_crash() -> None:
    server = MCPServer()

    @server.tool
    async def fail() -> None:
        raise ExceptionGroup("group", [ToolError("one"), ToolError("two")])

    assert "failed unexpectedly" in (await server.call("fail")).text


async def test_anything_that_is_wrong_with_another_tool_is_not_told_to_the_caller_of_this_one() -> None:
    server = MCPServer()

    @server.tool
    async def outer() -> None:
        raise DefinitionError("bad", tool="inner", hint="see the secret tool")

    @server.tool
    async def own() -> None:
        raise DefinitionError("bad", tool="own", hint="mend it")

    assert "secret" not in (await server.call("outer")).text
    assert "see the log of the server" in (await server.call("outer")).text
    assert "mend it" in (await server.call("own")).text


async def test_a_reference_leads_from_the_reply_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server = MCPServer()

    @server.tool
    async def fail() -> None:
        raise ValueError("the real reason")

    with caplog.at_level(logging.ERROR, "toolcrib"):
        result = await server.call("fail")
        server.dispatcher.crashes.flush(5)
    reference = result.text.rpartition(" ")[2].strip(").")
    assert reference in caplog.text
    assert "the real reason" in caplog.text
    assert "the real reason" not in result.text


async def test_a_file_that_was_loaded_by_its_path_runs_in_a_process(tmp_path: Path) -> None:
    file = tmp_path / "heavy-tools.py"  # a name that no import statement can say
    file.write_text(
        "import os\nfrom toolcrib import tool\n\n\n@tool(run='process')\ndef where(n: int) -> dict:\n"
        "    return {'pid': os.getpid(), 'n': n}\n"
    )
    server = MCPServer()
    server.add(str(file))
    assert tool_modules(server.registry.get("where"))[0][1] == str(file)
    outcome = (await server.call("where", {"n": "4"})).structured_content
    assert outcome["n"] == 4
    assert outcome["pid"] != os.getpid()
    server.dispatcher.close()


async def test_a_dispatcher_needs_no_server() -> None:
    registry = ToolRegistry()
    registry.add(_nothing)
    dispatcher = Dispatcher(registry)
    assert (await dispatcher.call("_nothing")).to_json() == {"content": [], "isError": False}
    assert [tool.name for tool in dispatcher.view()] == ["_nothing"]
    dispatcher.close()


def _nothing() -> None: ...
