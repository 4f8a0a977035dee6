"""The kinds of functions and settings that other libraries know, one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import mcp_types as types
import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.dependencies import Depends
from fastmcp.exceptions import ToolError
from fastmcp.server import create_proxy
from mcp.server.mcpserver import Context as OfficialContext
from mcp.server.mcpserver import MCPServer as OfficialServer
from mcp.server.mcpserver.exceptions import ToolError as OfficialError

from tests.unit.sources.foreign.answering_client import Person
from toolcrib import MCPServer, collect
from toolcrib.context import Answer
from toolcrib.errors import SourceError
from toolcrib.sources.foreign import reading as fast_module

GIVEN = Depends(lambda: "given")


def serve(theirs: Any) -> MCPServer:
    server = MCPServer("test")
    server.add(theirs)
    return server


def ask(message: str) -> types.InputRequiredResult:
    form = types.ElicitRequestFormParams(
        message=message, requested_schema={"type": "object", "properties": {"n": {"type": "integer"}}}
    )
    return types.InputRequiredResult(input_requests={"n": types.ElicitRequest(params=form)})


class TestFunctions:
    async def test_an_async_generator_is_gathered(self) -> None:
        theirs = FastMCP("t")

        @theirs.tool
        async def count(upto: int) -> AsyncIterator[int]:
            for number in range(upto):
                yield number

        @theirs.tool
        async def inject(upto: int, word: str = GIVEN) -> AsyncIterator[str]:
            for number in range(upto):
                yield f"{word}{number}"

        server = serve(theirs)

        assert (await server.call("count", {"upto": 3})).structured_content == [0, 1, 2]
        assert (await server.call("inject", {"upto": 2})).text == '["given0","given1"]'

    async def test_plain_code_may_ask_by_returning_questions_again_and_again(self) -> None:
        theirs = FastMCP("t")

        @theirs.tool
        def add(ctx: Context) -> Any:
            if ctx.input_responses is None:
                return types.InputRequiredResult(input_requests=ask("One?").input_requests, request_state="0")
            total = int(ctx.request_state or 0) + ctx.input_responses["n"].content["n"]  # type: ignore[union-attr,index,operator]
            if total < 5:
                return types.InputRequiredResult(
                    input_requests=ask("More?").input_requests, request_state=str(total)
                )
            return total

        person = Person(Answer("accept", {"n": 2}), Answer("accept", {"n": 4}))

        assert (await person.call(serve(theirs), "add")).text == "6"
        assert [question.message for question in person.questions] == ["One?", "More?"]  # type: ignore[union-attr]

    @pytest.mark.parametrize("kind", ["plain", "later", "async", "lent", "lent_later"])
    async def test_words_meant_to_be_read_are_shown_however_they_are_raised(self, kind: str) -> None:
        official, fast = OfficialServer("o"), FastMCP("f")

        async def fail() -> None:
            raise ToolError("no tea")

        async def fail_there() -> None:
            raise OfficialError("no tea")

        @official.tool()
        def plain() -> str:
            raise OfficialError("no tea")

        @official.tool()
        def later() -> Any:
            return fail_there()

        official.tool(name="async")(fail_there)

        @fast.tool
        def lent() -> str:
            raise ToolError("no tea")

        @fast.tool
        def lent_later() -> Any:
            return fail()

        server = MCPServer("test")
        server.add(official, fast)

        result = await server.call(kind)

        assert result.is_error
        is_official = kind in ("plain", "later", "async")
        assert result.text == (f"Error executing tool {kind}: no tea" if is_official else "no tea")

    async def test_a_sync_function_runs_on_a_thread_and_sees_its_context(self) -> None:
        official = OfficialServer("o")

        @official.tool()
        def where(ctx: OfficialContext) -> bool:  # type: ignore[type-arg]
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            return bool(ctx.request_id)

        assert (await serve(official).call("where")).text == "true"

    async def test_an_injected_parameter_cannot_be_given_by_a_caller(self) -> None:
        theirs = FastMCP("t")

        @theirs.tool
        def tell(word: str = GIVEN) -> str:
            return word

        result = await serve(theirs).call("tell", {"word": "taken"})

        assert result.is_error
        assert "not a parameter" in result.text

    async def test_a_dependency_fails_as_its_library_says(self) -> None:
        theirs = FastMCP("t")

        def refuse() -> str:
            raise ToolError("not today")

        def crash() -> str:
            raise OSError("password=hunter2")

        refused, crashed = Depends(refuse), Depends(crash)

        @theirs.tool
        def first(word: str = refused) -> str:
            return word

        @theirs.tool
        def second(word: str = crashed) -> str:
            return word

        server = serve(theirs)

        assert (await server.call("first")).text == "not today"
        async with Client(theirs) as client:
            at_home = await client.call_tool_mcp("second", {})
        assert (await server.call("second")).text == at_home.content[0].text


class TestSettings:
    def test_icons_and_hints_are_kept_and_a_hint_that_says_nothing_is_dropped(self) -> None:
        theirs = FastMCP("t")
        notes = types.ToolAnnotations(title="Look", read_only_hint=True, destructive_hint=True)

        @theirs.tool(icons=[types.Icon(src="https://x.example/i.png")], annotations=notes)
        def look() -> str:
            return ""

        (tool,) = collect(theirs).tools

        assert tool.definition.to_wire()["icons"] == [{"src": "https://x.example/i.png"}]
        assert tool.definition.annotations == {"readOnlyHint": True}
        assert tool.definition.title == "Look"

    def test_options_given_here_win(self) -> None:
        theirs = FastMCP("t")
        theirs.tool(lambda x: x, name="x")

        (tool,) = collect(theirs, extra="ignore", tags=["mine"], namespace=True).tools

        assert tool.options.extra == "ignore"
        assert tool.namespace == "t"
        assert tool.definition.tags == ("mine",)

    def test_a_server_that_does_not_answer_in_time_is_not_waited_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fast_module, "LIST_S", 0.05)

        class Slow(FastMCP):
            async def list_tools(self, **_: Any) -> Any:
                await asyncio.sleep(0.5)
                return []

        with pytest.raises(SourceError, match=r"within 0\.05 s"):
            collect(create_proxy(Slow("slow")))
