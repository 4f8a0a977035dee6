"""Middleware: what runs around every call, and in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Context, MCPServer, Result, Tool, ToolError
from toolcrib.content import text_block
from toolcrib.context import LOCAL, Principal
from toolcrib.dispatch.middleware import Call, Next
from toolcrib.errors import ConfigurationError, DeniedError, ToolNotFoundError
from toolcrib.policy import Audit, Limit, Policy, Rule
from toolcrib.policy.audit import open_log

ANA, BEN = Principal("key:ana"), Principal("key:ben")


def add_tools(server: MCPServer) -> MCPServer:
    @server.tool
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def wait(ctx: Context) -> str:
        """Wait for a long time."""
        await asyncio.sleep(60)
        return ctx.principal.name

    return server


class Tracer:
    """Notes what it sees under a name."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name = name
        self.seen = seen

    async def __call__(self, call: Call, next: Next) -> Result:
        self.seen.append(f"{self.name} before {call.name}")
        result = await next(call)
        self.seen.append(f"{self.name} after")
        return result

    def check_arguments(self, call: Call, arguments: Mapping[str, Any]) -> None:
        self.seen.append(f"{self.name} checks {dict(arguments)}")

    async def open(self) -> None:
        self.seen.append(f"{self.name} opens")

    def close(self) -> None:
        self.seen.append(f"{self.name} closes")


async def test_middleware_runs_in_the_order_it_was_added_and_closes_in_reverse() -> None:
    seen: list[str] = []
    server = add_tools(MCPServer(middleware=[Tracer("outer", seen)]))
    server.middleware(Tracer("inner", seen))
    async with server:
        assert (await server.call("add", {"a": "1"})).structured_content == 2
    assert seen == [
        "outer opens",
        "inner opens",
        "outer before add",
        "inner before add",
        "outer checks {'a': 1}",
        "inner checks {'a': 1}",
        "inner after",
        "outer after",
        "inner closes",
        "outer closes",
    ]


async def test_middleware_may_answer_itself_call_again_and_change_the_result() -> None:
    async def cached(call: Call, next: Next) -> Result:
        return Result([text_block("cached")]) if call.name == "wait" else await next(call)

    async def twice(call: Call, next: Next) -> Result:
        await next(call)
        result = await next(call)
        result.content.append(text_block("again"))
        return result

    server = add_tools(MCPServer(middleware=[cached, twice]))
    assert (await server.call("wait")).text == "cached"
    assert (await server.call("add", {"a": 1})).content[-1]["text"] == "again"
    assert server.dispatcher.stats["add"].calls == 2


async def test_middleware_may_shorten_the_time_limit() -> None:
    async def hurry(call: Call, next: Next) -> Result:
        call.shorten(0.02)
        call.shorten(30)
        return await next(call)

    server = add_tools(MCPServer(middleware=[hurry], timeout_s=None))
    assert "did not finish within 0.02 s" in (await server.call("wait")).text


class Private:
    """Shows `wait` to one principal only."""

    def visible(self, principal: Principal, tool: Tool) -> bool:
        return tool.name != "wait" or principal == ANA

    def applies_to(self, tool: Tool) -> bool:
        return tool.name == "wait"

    async def __call__(self, call: Call, next: Next) -> Result:
        assert call.tool is not None
        return Result([text_block(f"{call.tool.name} for {call.principal.name}")])


async def test_a_hidden_tool_is_neither_listed_nor_known() -> None:
    server = add_tools(MCPServer(middleware=[Private()]))
    assert [each.name for each in server.list_tools(ANA)] == ["add", "wait"]
    assert [each.name for each in server.list_tools(BEN)] == ["add"]
    dispatcher = server.dispatcher
    assert dispatcher.view(BEN) is dispatcher.view(LOCAL)
    assert dispatcher.view(ANA) is dispatcher.view(ANA)
    assert dispatcher.depends_on_principal
    with pytest.raises(ToolNotFoundError, match=r"^Unknown tool: wait$"):
        await server.call("wait", principal=BEN)
    assert (await server.call("wait", principal=ANA)).text == "wait for key:ana"
    assert (await server.call("add", {"a": 1}, principal=BEN)).structured_content == 2


class OnlyWait:
    """Applies to `wait` only, and hides `add` all the same."""

    async def __call__(self, call: Call, next: Next) -> Result:
        return Result([text_block("instead")])

    def applies_to(self, tool: Tool) -> bool:
        return tool.name == "wait"

    def check_arguments(self, call: Call, arguments: Mapping[str, Any]) -> None:
        raise ToolError("checked")

    def visible(self, principal: Principal, tool: Tool) -> bool:
        return tool.name == "wait" or principal == ANA


async def test_middleware_that_does_not_apply_to_a_tool_neither_runs_nor_checks() -> None:
    server = add_tools(MCPServer(middleware=[OnlyWait()]))
    assert (await server.call("add", {"a": 1}, principal=ANA)).structured_content == 2
    assert (await server.call("wait", principal=BEN)).text == "instead"
    assert [each.name for each in server.list_tools(BEN)] == ["wait"]
    with pytest.raises(ToolNotFoundError):
        await server.call("add", {"a": 1}, principal=BEN)


async def test_a_refusal_is_a_result_that_people_and_programs_understand() -> None:
    async def refuse(call: Call, next: Next) -> Result:
        raise DeniedError("Not on Sundays.", details={"day": "sunday"})

    result = await add_tools(MCPServer(middleware=[refuse])).call("add", {"a": 1})
    assert result.is_error
    assert result.text == "Not on Sundays."
    assert result.meta == {"toolcrib/refusal": {"code": "denied", "day": "sunday"}}


class LowNumbers:
    async def __call__(self, call: Call, next: Next) -> Result:
        return await next(call)

    async def check_arguments(self, call: Call, arguments: Mapping[str, Any]) -> None:
        if arguments["a"] > 10:
            raise ToolError(f"{arguments['a']} is too high.")


async def test_validated_arguments_are_checked_before_the_tool_runs() -> None:
    server = add_tools(MCPServer(middleware=[LowNumbers()]))
    assert (await server.call("add", {"a": "10"})).structured_content == 11
    result = await server.call("add", {"a": "11"})
    assert (result.is_error, result.text) == (True, "11 is too high.")
    assert "a" in (await server.call("add", {})).text  # validated first


async def test_middleware_that_fails_is_reported_and_tells_the_caller_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(call: Call, next: Next) -> Result:
        raise RuntimeError("secret words")

    async def forgetful(call: Call, next: Next) -> Any:
        await next(call)

    for part, cause in ((broken, "secret words"), (forgetful, "returned NoneType, expected Result")):
        server = add_tools(MCPServer(middleware=[part]))
        result = await server.call("add", {"a": 1})
        assert result.text.startswith("Tool 'add' failed unexpectedly (reference ")
        assert server.dispatcher.crashes.flush()
        assert cause in caplog.text


async def test_added_middleware_runs_inside_the_policy_and_is_part_of_the_record(tmp_path: Path) -> None:
    seen: list[str] = []

    async def refuse_ben(call: Call, next: Next) -> Result:
        seen.append(call.principal.name)
        if call.principal == BEN:
            raise DeniedError("Not you.")
        call.arguments = {"a": 5}
        return await next(call)

    policy = Policy(
        audit=Audit(tmp_path / "audit.db", values=["*"]),
        rules=[Rule(deny=["add"], who=["key:carla"])],
        limits=[Limit(daily=1, tools=["add"], per="principal")],
    )
    server = add_tools(MCPServer(policy=policy, middleware=[refuse_ben]))
    async with server:
        with pytest.raises(ToolNotFoundError):
            await server.call("add", {"a": 1}, principal=Principal("key:carla"))
        for _ in range(2):
            assert (await server.call("add", {"a": 1}, principal=BEN)).text == "Not you."
        assert (await server.call("add", {"a": 1}, principal=ANA)).structured_content == 6
        assert (await server.call("add", {"a": 1}, principal=ANA)).is_error  # the budget is used up
    assert seen == ["key:ben", "key:ben", "key:ana"]
    records = [item for item in open_log(tmp_path / "audit.db").records() if item["kind"] == "call"]
    assert [(item["principal"], item["decision"], item["outcome"]) for item in records] == [
        ("key:carla", "denied", "denied"),
        ("key:ben", "denied", "denied"),
        ("key:ben", "denied", "denied"),
        ("key:ana", "allowed", "ok"),
        ("key:ana", "denied", "throttled"),
    ]
    assert {item["values"]["a"] for item in records} == {1}  # as they were received


async def test_cancellation_goes_through_middleware() -> None:
    seen: list[str] = []
    server = add_tools(MCPServer(middleware=[Tracer("outer", seen)]))
    async with server:
        task = asyncio.create_task(server.call("wait"))
        while not seen[1:]:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_server_whose_middleware_does_not_open_does_not_start() -> None:
    seen: list[str] = []

    class Broken(Tracer):
        async def open(self) -> None:
            raise RuntimeError("no disk")

        def close(self) -> None:
            raise RuntimeError("no disk either")

    server = add_tools(MCPServer(middleware=[Tracer("outer", seen), Broken("inner", seen)]))
    with pytest.raises(RuntimeError, match=r"^no disk$"):
        await server.start()
    assert seen == ["outer opens", "outer closes"]


async def test_middleware_of_a_server_that_never_started_is_not_closed() -> None:
    seen: list[str] = []
    server = add_tools(MCPServer(middleware=[Tracer("outer", seen)]))
    await server.call("add", {"a": 1})
    await server.stop()
    assert "outer closes" not in seen


async def test_a_policy_that_was_used_without_a_start_is_closed(tmp_path: Path) -> None:
    server = add_tools(MCPServer(policy=Policy(audit=Audit(tmp_path / "audit.db"))))
    await server.call("add", {"a": 1})
    await server.stop()
    assert [item["kind"] for item in open_log(tmp_path / "audit.db").records()] == [
        "opened",
        "call",
        "closed",
    ]


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        (None, "must be callable, got NoneType"),
        (Private, r"must be an object, got the class Private"),
        (lambda call: None, "must take two arguments, call and next"),
    ],
)
def test_anything_that_cannot_be_middleware_is_refused(part: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        MCPServer(middleware=[part])


async def test_middleware_is_added_before_the_server_runs() -> None:
    async with add_tools(MCPServer()) as server:
        with pytest.raises(ConfigurationError, match="before the server starts"):
            server.middleware(LowNumbers())


async def test_middleware_added_after_a_call_runs_around_the_next_one() -> None:
    seen: list[str] = []
    server = add_tools(MCPServer())
    await server.call("add", {"a": 1})
    server.middleware(Tracer("late", seen))
    await server.call("add", {"a": 1})
    assert seen == ["late before add", "late checks {'a': 1}", "late after"]


async def test_the_tools_that_search_and_call_others_are_wrapped_too() -> None:
    seen: list[str] = []
    server = add_tools(MCPServer(search="always", middleware=[Tracer("outer", seen), Private()]))
    async with server:
        found = [each.name for each in server.list_shown(BEN)]
        assert found == ["search_tools", "call_tool"]
        assert not (await server.call("search_tools", {"query": "add"}, principal=BEN)).is_error
        called = await server.call("call_tool", {"name": "add", "arguments": {"a": 1}})
        assert called.structured_content == 2
        hidden = await server.call("call_tool", {"name": "wait", "arguments": {}}, principal=BEN)
        assert hidden.is_error
        assert "no tool 'wait'" in hidden.text
    assert [line for line in seen if "before" in line] == [
        "outer before search_tools",
        "outer before add",
        "outer before call_tool",
    ]
