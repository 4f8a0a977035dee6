"""Servers of other libraries that are called through their own handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
import pytest_asyncio
from fastmcp import FastMCP
from fastmcp.server.auth import require_scopes
from fastmcp.server.middleware import Middleware
from fastmcp.tools import ToolResult
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context
from mcp.server.mcpserver import MCPServer as OfficialServer

from tests.unit.sources.foreign.answering_client import Person
from tests.unit.sources.foreign.test_their_context import (
    TestAsking as AskingTests,
)
from tests.unit.sources.foreign.test_their_context import (
    serve,
)
from toolcrib import MCPServer
from toolcrib.context import Context as OwnContext
from toolcrib.context import Root
from toolcrib.errors import SourceError
from toolcrib.sources import collect
from toolcrib.sources.foreign import bridge
from toolcrib.sources.foreign.sessions import StreamSession

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
ECHO = types.Tool(
    name="echo",
    description="Return the text.",
    input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)


async def list_tools(ctx: Any, params: Any) -> Any:
    return types.ListToolsResult(tools=[ECHO])


async def call_tool(ctx: Any, params: Any) -> Any:
    if params.arguments["text"] == "crash":
        raise RuntimeError("the handler has crashed")
    is_error = params.arguments["text"] == "fail"
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=params.arguments["text"])], is_error=is_error
    )


def low_level(**options: Any) -> Any:
    return Server("low", on_list_tools=list_tools, on_call_tool=call_tool, **options)


@pytest.fixture(params=["direct", "streams"], autouse=True, scope="module")
def _session_kind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run each test with both kinds of sessions: streams are the only one with older versions."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "streams":
            patch.setattr(bridge, "is_direct", lambda _: False)
        yield


# --- servers with everything -------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sdk(_session_kind: None) -> AsyncIterator[MCPServer]:
    async with await serve("sdk_shop.py") as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fast(_session_kind: None) -> AsyncIterator[MCPServer]:
    async with await serve("fast_desk.py") as server:
        yield server


@pytest.mark.asyncio(loop_scope="module")
class TestAsking(AskingTests):
    # A session with a handshake, as all are over streams, knows no questions that are returned.
    test_questions_that_are_returned_are_asked = None  # type: ignore[assignment]
    test_a_resolver_asks_for_what_it_injects = None  # type: ignore[assignment]

    @pytest.mark.parametrize("tool", ["folders"])
    async def test_the_clients_folders_are_asked(
        self, sdk: MCPServer, fast: MCPServer, tool: str, calls_again: bool
    ) -> None:
        person = Person([Root("file:///home", "home")], calls_again=calls_again)
        server = sdk if tool in [each.name for each in sdk.list_tools()] else fast

        assert "file:///home" in (await person.call(server, tool)).text


# --- low-level servers -------------------------------------------------------------------------------


async def test_a_low_level_server_is_listed_and_called() -> None:
    ours = MCPServer("ours")
    report = ours.add(low_level())

    assert [tool.name for tool in report.registered] == ["echo"]
    assert report.registered[0].definition.input_schema["required"] == ["text"]
    async with ours:
        assert (await ours.call("echo", {"text": "hello"})).text == "hello"
        failed = await ours.call("echo", {"text": "fail"})
        assert (failed.is_error, failed.text) == (True, "fail")
        crashed = await ours.call("echo", {"text": "crash"})
        assert crashed.is_error
        refused = await ours.call("echo", {"words": "hello"})
        assert "'text': required, but missing" in refused.text


def test_a_server_that_cannot_start_is_reported() -> None:
    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[Any]:
        raise RuntimeError("no database")
        yield

    with pytest.raises(SourceError, match="cannot be listed: RuntimeError: no database"):
        collect(low_level(lifespan=lifespan))


async def test_a_server_with_resources_but_no_templates_is_listed() -> None:
    async def list_resources(ctx: Any, params: Any) -> Any:
        return types.ListResourcesResult(resources=[types.Resource(uri="file:///a", name="a")])

    batch = collect(low_level(on_list_resources=list_resources))

    assert [tool.name for tool in batch.tools] == ["echo"]
    assert [item.name for item in batch.resources] == ["file:///a"]
    assert not batch.findings


async def test_tags_and_versions_of_fastmcp_are_kept() -> None:
    theirs = FastMCP("own", middleware=[Middleware()])

    @theirs.tool(tags={"danger"}, version="2.0")
    def f() -> int:
        return 1

    (tool,) = collect(theirs).tools
    assert (tool.options.tags, tool.options.version) == (["danger"], "2.0")


async def test_a_tool_with_an_authorization_check_is_hidden_as_by_its_library() -> None:
    theirs = FastMCP("own", middleware=[Middleware()])

    @theirs.tool
    def public() -> int:
        return 1

    @theirs.tool(auth=require_scopes("admin"))
    def private() -> int:
        return 2

    assert [tool.name for tool in collect(theirs).tools] == ["public"]


# --- calls -------------------------------------------------------------------------------------------


class Slow(OfficialServer):
    """Overrides something, so that it is called through its handlers."""

    async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
        return await super().call_tool(*args, **kwargs)


async def test_calls_at_the_same_time_are_told_apart() -> None:
    theirs = Slow("slow")

    @theirs.tool()
    async def work(number: int, ctx: Context) -> int:
        for step in range(3):
            await asyncio.sleep(0)
            await ctx.report_progress(step + 1, 3, str(number))
        return number

    ours = MCPServer("ours")
    ours.add(theirs)
    async with ours:
        people = [Person() for _ in range(5)]
        calls = (person.call(ours, "work", {"number": number}) for number, person in enumerate(people))
        results = await asyncio.gather(*calls)
    assert [result.text for result in results] == ["0", "1", "2", "3", "4"]
    for number, person in enumerate(people):
        assert person.told == [(1, 3, str(number)), (2, 3, str(number)), (3, 3, str(number))]


async def test_questions_at_the_same_time_reach_their_callers() -> None:
    theirs = Slow("slow")

    @theirs.tool()
    async def where(ctx: Context) -> str:
        return str((await ctx.session.list_roots()).roots[0].uri)

    ours = MCPServer("ours")
    ours.add(theirs)
    async with ours:
        people = [Person([Root(f"file:///{number}")]) for number in range(3)]
        results = await asyncio.gather(*(person.call(ours, "where") for person in people))
    assert [result.text for result in results] == ["file:///0", "file:///1", "file:///2"]


async def test_a_cancelled_call_is_cancelled_there() -> None:
    theirs = Slow("slow")
    started, ended = asyncio.Event(), asyncio.Event()

    @theirs.tool()
    async def wait() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    ours = MCPServer("ours")
    ours.add(theirs)
    async with ours:
        call = asyncio.create_task(ours.call("wait", {}))
        await started.wait()
        call.cancel()
        async with asyncio.timeout(5):
            await ended.wait()


async def test_the_lifespan_lasts_as_long_as_the_server() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[dict[str, str]]:
        events.append("begin")
        yield {"color": "blue"}
        events.append("end")

    class Own(FastMCP):
        async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
            return await super().call_tool(*args, **kwargs)

    theirs = Own("own", lifespan=lifespan)

    @theirs.tool
    def shade() -> str:
        return "dark"

    ours = MCPServer("ours")
    ours.add(theirs)
    events.clear()  # of listing
    async with ours:
        assert [(await ours.call("shade", {})).text for _ in range(3)] == ["dark"] * 3
        assert events == ["begin"]
    assert events == ["begin", "end"]


async def test_a_session_that_has_stopped_is_replaced() -> None:
    theirs = Slow("slow")

    @theirs.tool()
    async def f() -> int:
        return 1

    async with bridge.run_server(theirs) as sessions:
        context, call = OwnContext("f", {}), {"name": "f", "arguments": {}}
        assert (await sessions.call("me", "tools/call", call, context))["isError"] is False
        session = await sessions._find("me")
        if isinstance(session, StreamSession):
            session._streams.put(None)
            assert session._running is not None
            await session._running
        assert (await sessions.call("me", "tools/call", call, context))["isError"] is False


def counting() -> MCPServer:
    theirs = Slow("slow")

    @theirs.tool()
    async def double(number: int, ctx: Context) -> int:
        await ctx.report_progress(number, 10)
        return 2 * number

    ours = MCPServer("ours")
    ours.add(theirs)
    return ours


def test_each_event_loop_may_call_a_server() -> None:
    ours = counting()
    for number in range(3):
        person = Person()
        assert asyncio.run(person.call(ours, "double", {"number": number})).text == str(2 * number)
        assert person.told == [(number, 10, None)]


async def test_a_question_is_withdrawn_when_its_call_is_cancelled() -> None:
    theirs = Slow("slow")
    asked, withdrawn = asyncio.Event(), asyncio.Event()

    class Silent(Person):
        async def ask(self, _: Any) -> Any:
            asked.set()
            try:
                await asyncio.sleep(60)
            finally:
                withdrawn.set()

    @theirs.tool()
    async def where(ctx: Context) -> str:
        return str(await ctx.session.list_roots())

    ours = MCPServer("ours")
    ours.add(theirs)
    async with ours:
        call = asyncio.create_task(ours.call("where", {}, channel=Silent()))
        await asked.wait()
        call.cancel()
        async with asyncio.timeout(5):
            await withdrawn.wait()


async def test_the_data_of_an_error_is_kept() -> None:
    theirs = FastMCP("own", middleware=[Middleware()])

    @theirs.tool
    def count() -> int:
        data = {"reason": None, "code": 5}
        return ToolResult(content="bad", structured_content=data, is_error=True)  # type: ignore[return-value]

    ours = MCPServer("ours")
    ours.add(theirs)
    async with ours:
        result = await ours.call("count", {})
    assert (result.is_error, result.structured_content) == (True, {"reason": None, "code": 5})
