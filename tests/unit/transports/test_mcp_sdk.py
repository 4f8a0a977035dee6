"""Our tools on a server of the official SDK, seen by the official client in both eras."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.server import Server
from mcp.server.mcpserver import MCPServer as OfficialServer
from mcp.shared.exceptions import MCPError

from toolcrib import Context, Image, MCPServer, ToolError, ToolRegistry
from toolcrib.errors import ConfigurationError
from toolcrib.transports.mcp_sdk import attach

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
AGE = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}

both_eras = pytest.mark.parametrize("mode", ["legacy", "auto"])


def make_crib(**options: Any) -> MCPServer:
    crib = MCPServer("crib", **options)

    @crib.tool(title="Sum", read_only=True)
    def add(a: int, b: int = 2) -> int:
        """Add two numbers.

        Args:
            a: The first.
        """
        return a + b

    @crib.tool
    def facts() -> dict[str, None]:
        """Nothing is something."""
        return {"nothing": None}

    @crib.tool
    def picture() -> Image:
        """A picture."""
        return Image(b"x")

    @crib.tool
    def refuse() -> str:
        """Fails in words."""
        raise ToolError("no tea")

    @crib.tool
    async def work(steps: int, ctx: Context) -> str:
        """Tells what it does."""
        for step in range(steps):
            ctx.progress(step + 1, steps, "on it")
        ctx.log("warning", {"steps": steps})
        return "done"

    @crib.tool
    async def register(ctx: Context) -> str:
        """Asks twice."""
        name = await ctx.ask("name", "Your name?", NAME)
        age = await ctx.ask("age", "Your age?", AGE)
        return f"{name['name']}, {age['age']}" if name and age else f"{name.action}/{age.action}"

    @crib.tool
    async def complete(ctx: Context) -> str:
        """Asks the client's model, and for its folders."""
        folders = await ctx.folders()
        completion = await ctx.sample("poem", f"a poem on {folders[0].name}")
        return completion.text

    return crib


async def person(_: Any, params: Any) -> types.ElicitResult:
    content: dict[str, Any] = {"name": "Ada"} if "name" in params.message else {"age": 36}
    return types.ElicitResult(action="accept", content=content)


async def model(_: Any, params: Any) -> types.CreateMessageResult:
    words = params.messages[0].content.text
    return types.CreateMessageResult(
        role="assistant", model="m", content=types.TextContent(type="text", text=words.upper())
    )


async def roots(_: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///home", name="home")])


@both_eras
class TestAnswers:
    @pytest.fixture
    def server(self) -> Server[Any]:
        made: Server[Any] = Server("theirs")
        attach(make_crib(), made)
        return made

    async def test_definitions_are_shaped_to_the_clients_era(self, server: Server[Any], mode: str) -> None:
        async with Client(server, mode=mode) as client:
            add, *_ = (await client.list_tools()).tools

        assert (add.name, add.title, add.description) == ("add", "Sum", "Add two numbers")
        assert add.input_schema["properties"]["a"]["description"] == "The first."
        assert add.annotations is not None
        assert add.annotations.read_only_hint is True
        assert add.output_schema is not None
        assert ("result" in add.output_schema.get("properties", ())) is (mode == "legacy")

    async def test_results_are_shaped_to_the_clients_era(self, server: Server[Any], mode: str) -> None:
        async with Client(server, mode=mode) as client:
            result = await client.call_tool("add", {"a": "1"})
            facts = await client.call_tool("facts")
            picture = await client.call_tool("picture")

        assert result.structured_content == ({"result": 3} if mode == "legacy" else 3)
        assert facts.structured_content == {"nothing": None}
        assert picture.content[0].type == "image"

    async def test_arguments_are_checked_by_us(self, server: Server[Any], mode: str) -> None:
        async with Client(server, mode=mode) as client:
            result = await client.call_tool("add", {"c": 1})

        assert result.is_error
        assert isinstance(result.content[0], types.TextContent)
        assert "'a': required, but missing" in result.content[0].text

    async def test_errors_are_results_and_unknown_tools_are_faults(
        self, server: Server[Any], mode: str
    ) -> None:
        async with Client(server, mode=mode) as client:
            refused = await client.call_tool("refuse")
            with pytest.raises(MCPError, match="Unknown tool: nix") as caught:
                await client.call_tool("nix")

        assert refused.is_error
        assert caught.value.code == types.INVALID_PARAMS

    async def test_progress_and_log_lines_come_before_the_reply(self, server: Server[Any], mode: str) -> None:
        seen: list[Any] = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            seen.append((progress, total, message))

        async def log(params: types.LoggingMessageNotificationParams) -> None:
            seen.append((params.level, params.data, params.logger))

        async with Client(server, mode=mode, logging_callback=log, log_level="info") as client:
            await client.call_tool("work", {"steps": 2}, progress_callback=note)

        assert seen == [(1, 2, "on it"), (2, 2, "on it"), ("warning", {"steps": 2}, "work")]

    async def test_a_person_is_asked_twice(self, server: Server[Any], mode: str) -> None:
        async with Client(server, mode=mode, elicitation_callback=person) as client:
            result = await client.call_tool("register")

        assert result.content == [types.TextContent(type="text", text="Ada, 36")]

    async def test_a_model_and_folders_are_asked_for(self, server: Server[Any], mode: str) -> None:
        async with Client(server, mode=mode, sampling_callback=model, list_roots_callback=roots) as client:
            result = await client.call_tool("complete")

        assert result.content == [types.TextContent(type="text", text="A POEM ON HOME")]

    async def test_a_bad_cursor_is_a_fault(self, server: Server[Any], mode: str) -> None:
        async with Client(server, mode=mode) as client:
            with pytest.raises(MCPError, match="Invalid cursor"):
                await client.session.list_tools(params=types.PaginatedRequestParams(cursor="x"))


class TestAsking:
    async def test_a_legacy_client_that_cannot_be_asked_gets_an_error_to_read(self) -> None:
        server: Server[Any] = Server("theirs")
        attach(make_crib(), server)

        async with Client(server, mode="legacy") as client:
            result = await client.call_tool("register")

        assert result.is_error
        assert isinstance(result.content[0], types.TextContent)
        assert "elicitation" in result.content[0].text

    async def test_a_client_of_2026_that_cannot_be_asked_gets_a_fault(self) -> None:
        server: Server[Any] = Server("theirs")
        attach(make_crib(), server)

        async with Client(server) as client:
            with pytest.raises(MCPError) as caught:
                await client.call_tool("register")

        assert caught.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY

    async def test_a_legacy_client_that_fails_to_answer_is_an_error_to_read(self) -> None:
        server: Server[Any] = Server("theirs")
        attach(make_crib(), server)

        async def fail(*_: Any) -> types.ErrorData:
            return types.ErrorData(code=-1, message="window closed")

        async with Client(server, mode="legacy", elicitation_callback=fail) as client:
            result = await client.call_tool("register")

        assert result.is_error
        assert isinstance(result.content[0], types.TextContent)
        assert "window closed" in result.content[0].text

    async def test_answers_that_were_given_cannot_be_changed_on_the_way(self) -> None:
        server: Server[Any] = Server("theirs")
        attach(make_crib(), server)

        async with Client(server, elicitation_callback=person) as client:
            asked = await client.session.call_tool("register", {}, allow_input_required=True)
            assert isinstance(asked, types.InputRequiredResult)
            assert list(asked.input_requests or ()) == ["name"]
            with pytest.raises(MCPError, match="requestState"):
                await client.call_tool("register", {}, request_state=f"{asked.request_state}x")

    async def test_answers_count_for_the_caller_who_gave_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        server: Server[Any] = Server("theirs")
        attach(make_crib(), server)
        caller = "ann"
        monkeypatch.setattr("toolcrib.transports.mcp_sdk.authenticated_principal", lambda _: caller)

        async with Client(server, elicitation_callback=person) as client:
            asked = await client.session.call_tool("register", {}, allow_input_required=True)
            assert isinstance(asked, types.InputRequiredResult)
            caller = "bob"
            with pytest.raises(MCPError, match="requestState"):
                await client.call_tool("register", {}, request_state=asked.request_state)
            caller = "ann"
            await client.call_tool("register", {}, request_state=asked.request_state)


class TestLife:
    @both_eras
    async def test_our_server_runs_as_long_as_theirs(self, mode: str) -> None:
        notes: list[str] = []

        @asynccontextmanager
        async def lifespan(_: Server[Any]) -> AsyncIterator[str]:
            notes.append(f"theirs, ours {crib._running}")
            yield "state"

        crib = make_crib()
        server: Server[Any] = Server("theirs", lifespan=lifespan)
        attach(crib, server)

        async with Client(server, mode=mode) as first:
            async with Client(server, mode=mode) as second:
                await second.list_tools()
            assert crib._running
            assert not (await first.call_tool("add", {"a": 1})).is_error

        assert notes[0] == "theirs, ours True"
        assert not crib._running

    async def test_a_server_that_ran_before_is_left_running(self) -> None:
        crib, server = make_crib(), Server[Any]("theirs")
        attach(crib, server)

        async with crib:
            async with Client(server) as client:
                await client.list_tools()
            assert crib._running

    async def test_a_registry_will_do(self) -> None:
        registry, server = ToolRegistry(), Server[Any]("theirs")
        registry.add(make_crib().registry.get("add"))
        attach(registry, server)

        async with Client(server) as client:
            assert (await client.call_tool("add", {"a": 1})).structured_content == 3

    @both_eras
    async def test_tools_that_were_there_stay_beside_ours(self, mode: str) -> None:
        official = OfficialServer("official")

        @official.tool()
        def theirs(x: int) -> int:
            return x

        @official.tool()
        def add(a: int) -> str:
            return "theirs"

        attach(make_crib(), official)

        async with Client(official, mode=mode) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            own = await client.call_tool("theirs", {"x": 1})
            ours = await client.call_tool("add", {"a": 1})

        assert names.count("add") == 1
        assert names[-1] == "theirs"
        assert own.structured_content == {"result": 1}
        assert ours.content == [types.TextContent(type="text", text="3")]

    def test_anything_else_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="takes a Server of mcp, got str"):
            attach(make_crib(), "server")  # type: ignore[arg-type]

    async def test_a_cancelled_call_is_cancelled_here_too(self) -> None:
        crib, server, started, ended = MCPServer("crib"), Server[Any]("s"), asyncio.Event(), asyncio.Event()

        @crib.tool
        async def forever() -> str:
            """Never ends."""
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return ""

        attach(crib, server)
        async with Client(server, mode="legacy") as client:
            call = asyncio.create_task(client.call_tool("forever"))
            await started.wait()
            call.cancel()
            await asyncio.wait_for(ended.wait(), 5)
