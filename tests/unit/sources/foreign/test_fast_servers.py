"""Tools of a server that was written for fastmcp, served as they are."""

from __future__ import annotations

import asyncio
import runpy
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from fastmcp import Client, FastMCP
from fastmcp.server.middleware import Middleware

from tests.support.servers.http_servers import serving
from tests.unit.sources.foreign.answering_client import GUESTS, running
from tests.unit.sources.foreign.test_sdk_servers import data_of, own_data_of
from toolcrib import MCPServer, collect
from toolcrib.sources import Batch

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

DESK, ODD = GUESTS / "fast_desk.py", GUESTS / "fast_odd.py"
NAMES = """
add open_ticket open_ticket judge count loose inline numbers stream logo jingle paper mixed whole failed_whole
refuse crash work ask_name ask_contact guard ambient injected injected_plain nested add_ten echo times
opening phone_ring phone_hang_up
"""
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("add", {"a": 1}),
    ("add", {"a": 1, "b": 5}),
    ("open_ticket", {"ticket": {"title": "x", "notes": ["n"]}, "urgent": True}),
    ("judge", {"case": "a good one"}),
    ("count", {"words": ["a", "b"]}),
    ("loose", {"value": 3}),
    ("inline", {"text": "ab"}),
    ("stream", {"upto": 3}),
    ("logo", {}),
    ("jingle", {}),
    ("paper", {}),
    ("mixed", {}),
    ("whole", {"n": 3}),
    ("failed_whole", {}),
    ("refuse", {"why": "late"}),
    ("crash", {}),
    ("ambient", {}),
    ("injected_plain", {"x": 1}),
    ("phone_ring", {"number": "5"}),
    ("phone_hang_up", {}),
    ("add_ten", {"number": 5}),
    ("echo", {"x": 1}),
    ("times", {"x": 4}),
    ("opening", {}),
    ("work", {"steps": 2}),
    ("nested", {"a": 2}),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[MCPServer]:
    async with running(DESK) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def odd_server() -> AsyncIterator[MCPServer]:
    async with running(ODD) as server:
        yield server


@pytest.fixture(scope="module")
def batch() -> Batch:
    return collect(str(DESK))


class TestWhatIsFound:
    def test_every_tool_that_the_server_shows_is_found_with_older_versions(self, batch: Batch) -> None:
        assert [tool.name for tool in batch.tools] == NAMES.split()

    def test_a_mounted_server_in_the_same_file_is_served_through_the_other_alone(self, batch: Batch) -> None:
        names = [tool.name for tool in batch.tools]

        assert "phone_ring" in names
        assert "ring" not in names

    async def test_it_can_be_added_while_a_loop_runs(self) -> None:
        server = MCPServer("test")

        report = server.add(runpy.run_path(str(DESK))["desk"])

        assert len(report.registered) == 31

    def test_every_word_of_a_docstring_comes_back(self, batch: Batch) -> None:
        add = next(tool for tool in batch.tools if tool.name == "add").definition

        assert "Never in a hurry." in add.description
        assert add.input_schema["properties"]["b"]["description"] == "The second one."

    def test_anything_that_was_written_beside_the_function_stays(self, batch: Batch) -> None:
        tools = {(tool.name, tool.version): tool for tool in batch.tools}

        ticket, judge = tools["open_ticket", "2"], tools["judge", None]
        assert ticket.definition.tags == ("desk", "write")
        assert ticket.definition.annotations == {"destructiveHint": False}
        assert judge.definition.description == "Judge, in words of our own."
        assert judge.definition.to_wire()["_meta"] == {"desk.example/cost": 3}
        assert judge.options.timeout_s == 5
        assert tools["inline", None].options.run == "inline"

    def test_a_schema_that_was_written_for_the_output_stays(self, batch: Batch) -> None:
        tools = {tool.name: tool for tool in batch.tools}

        assert tools["count"].definition.output_schema["required"] == ["n"]
        assert tools["loose"].definition.output_schema is None

    def test_nothing_that_is_injected_is_published(self, batch: Batch) -> None:
        tools = {tool.name: tool.definition for tool in batch.tools}

        for name in ("work", "injected", "injected_plain", "ask_contact", "phone_ring"):
            assert (
                not {"ctx", "user", "db", "toolcrib_context"} & tools[name].input_schema["properties"].keys()
            )

    def test_a_transformed_tool_points_at_what_was_written(self, batch: Batch) -> None:
        tool = next(tool for tool in batch.tools if tool.name == "add_ten")

        assert tool.source.file == str(DESK)
        assert list(tool.definition.input_schema["properties"]) == ["number"]
        assert tool.definition.output_schema["properties"]["result"] == {"type": "integer"}

    def test_http_routes_are_an_advice(self) -> None:
        found = [(finding.code, finding.level) for finding in collect(str(ODD)).findings]

        assert found == [("foreign-parts", "advice")]

    def test_a_server_that_cannot_list_its_tools_says_so(self, tmp_path: Any) -> None:
        file = tmp_path / "broken.py"
        file.write_text(
            "from mcp.server.mcpserver import MCPServer\n"
            "server = MCPServer('broken')\n"
            "server._tool_manager._tools = None\n"
        )

        (finding,) = collect(str(file)).findings

        assert (finding.code, finding.level) == ("unreadable-source", "error")
        assert "The tools of server 'broken' cannot be listed" in finding.message


@pytest.mark.asyncio(loop_scope="module")
class TestCalls:
    @pytest.mark.parametrize(("name", "arguments"), CALLS)
    async def test_a_call_comes_to_what_it_comes_to_at_home(
        self, server: MCPServer, name: str, arguments: dict[str, Any]
    ) -> None:
        theirs = server.registry.get(name).owner.server
        async with Client(theirs) as client:
            at_home = await client.call_tool_mcp(name, arguments)

        here = await server.call(name, arguments)

        assert here.is_error is bool(at_home.is_error)
        assert own_data_of(here) == data_of(at_home)

    async def test_an_older_version_answers_to_its_number(self, server: MCPServer) -> None:
        assert (await server.call("open_ticket@1", {"title": "x"})).text == "x"

    @pytest.mark.parametrize("middleware", [[], [Middleware()]], ids=["native", "through its handlers"])
    async def test_a_client_gets_the_version_that_it_asks_for(self, middleware: list[Middleware]) -> None:
        theirs = FastMCP("theirs", middleware=middleware)
        theirs.tool(lambda title: f"first {title}", name="open", version="1")
        theirs.tool(lambda heading: f"second {heading}", name="open", version="2")
        server = MCPServer("test")
        server.add(theirs)
        with serving("own", server) as served:
            async with Client(f"http://127.0.0.1:{served.port}/mcp") as client:
                old = await client.call_tool("open", {"title": "x"}, version="1")
                new = await client.call_tool("open", {"heading": "x"}, version="2")
                newest = await client.call_tool("open", {"heading": "x"})

        shown = [result.content[0].text for result in (old, new, newest)]
        assert shown == ["first x", "second x", "second x"]

    async def test_a_generator_is_gathered(self, server: MCPServer) -> None:
        assert (await server.call("numbers", {"upto": 3})).structured_content == [0, 1, 2]

    async def test_anything_that_is_injected_is_open_during_the_call_and_closed_after_it(
        self, server: MCPServer
    ) -> None:
        origin: Any = server.registry.get("injected").origin

        result = await server.call("injected", {"x": 1})

        assert result.text == "1 ada 1 connect"
        assert origin.__globals__["EVENTS"][-1] == "disconnect"

    async def test_calls_at_the_same_time_do_not_see_each_others_context(self, server: MCPServer) -> None:
        results = await asyncio.gather(*(server.call("work", {"steps": steps}) for steps in (1, 2, 3)))

        assert [result.text[:1] for result in results] == ["1", "2", "3"]


@pytest.mark.asyncio(loop_scope="module")
class TestOddities:
    @pytest.fixture
    def server(self, odd_server: MCPServer) -> MCPServer:
        return odd_server

    async def test_an_api_is_called_only_with_what_its_schema_admits(self, server: MCPServer) -> None:
        tool: Any = server.registry.get("get_pet")
        good = await server.call("get_pet", {"id": 3})
        bad = await server.call("get_pet", {"id": "../admin"})

        assert good.structured_content == {"name": "Rex"}
        assert bad.is_error
        assert tool.definition.description == "One pet"

    async def test_anything_that_is_shared_is_made_once(self, server: MCPServer) -> None:
        first, second = await server.call("pool"), await server.call("pool")

        assert first.text == second.text

    async def test_a_partial_asks_for_what_is_left(self, server: MCPServer) -> None:
        definition = server.registry.get("triple").definition

        assert definition.description == "Scale a number"
        assert list(definition.input_schema["properties"]) == ["x"]
        assert (await server.call("triple", {"x": 2})).structured_content == 6

    async def test_a_strict_server_stays_strict(self, server: MCPServer) -> None:
        assert (await server.call("exact", {"x": "2"})).is_error

    async def test_a_server_in_a_server_in_a_server_is_its_own_in_a_call(self, server: MCPServer) -> None:
        assert (await server.call("mid_in_deep")).text == "inner eve"
