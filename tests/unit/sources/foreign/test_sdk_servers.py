"""Tools of a server that was written for the official SDK, served as they are."""

from __future__ import annotations

import json
import logging
import runpy
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from mcp.client.client import Client

from tests.unit.sources.foreign.answering_client import GUESTS, running
from toolcrib import MCPServer, Result, collect
from toolcrib.sources import Batch

SHOP, ODD = GUESTS / "sdk_shop.py", GUESTS / "sdk_odd.py"
NAMES = """
add greet place-order stock pack pick labels logo brochure picture receipt refuse crash price who buy poem
folders manual announce sneak late
"""
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("add", {"a": 1}),
    ("add", {"a": 1, "b": 5}),
    ("greet", {"name": "Ada"}),
    ("place-order", {"order": {"item": "tea", "to": {"street": "High"}}}),
    ("stock", {"item": "tea"}),
    ("pack", {"item": "tea", "heavy": True}),
    ("pick", {"size": "large", "colour": "blue", "on": "2026-01-31"}),
    ("labels", {}),
    ("labels", {"tags": ["b", "a"]}),
    ("logo", {}),
    ("brochure", {}),
    ("picture", {}),
    ("receipt", {"total": 2.5}),
    ("who", {"shout": True}),
    ("manual", {}),
    ("refuse", {"why": "late"}),
    ("crash", {"secret": "hunter2"}),
    ("announce", {}),
    ("late", {"numbers": "1"}),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[MCPServer]:
    async with running(SHOP) as server:
        yield server


def data_of(result: Any) -> Any:
    """What a client of theirs reads: the structured data, or the text and pictures."""
    if result.structured_content is not None:
        structured = result.structured_content
        return (
            structured["result"]
            if isinstance(structured, dict) and list(structured) == ["result"]
            else structured
        )
    blocks = [block.model_dump(by_alias=True, exclude_none=True) for block in result.content]
    return blocks[0]["text"] if len(blocks) == 1 and "text" in blocks[0] else blocks


def own_data_of(result: Result) -> Any:
    if result.is_structured:
        structured = result.structured_content
        is_wrapped = isinstance(structured, dict) and list(structured) == ["result"]
        return structured["result"] if is_wrapped else structured
    return result.text if len(result.content) == 1 and result.text else result.content


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def odd_server() -> AsyncIterator[MCPServer]:
    async with running(ODD) as server:
        yield server


@pytest.fixture(scope="module")
def batch() -> Batch:
    return collect(str(SHOP))


class TestWhatIsFound:
    def test_every_tool_that_can_be_served_is_found_in_the_file(self, batch: Batch) -> None:
        names = [tool.name for tool in batch.tools]
        assert names == NAMES.split()

    def test_the_object_itself_can_be_added(self) -> None:
        module = runpy.run_path(str(SHOP))
        server = MCPServer("test")

        report = server.add(module["shop"], namespace="shop")

        assert len(report.registered) == 22
        assert "shop_add" in server.registry

    def test_docstrings_come_back(self, batch: Batch) -> None:
        tool = next(tool for tool in batch.tools if tool.name == "add")

        assert tool.definition.description == "Add two numbers"
        assert tool.definition.input_schema["properties"]["a"]["description"] == "The first one."
        assert tool.definition.source.file == str(SHOP)
        assert tool.definition.source.line == SHOP.read_text().splitlines().index(
            "def add(a: int, b: int = 2) -> int:"
        )

    def test_anything_that_was_written_beside_the_function_stays(self, batch: Batch) -> None:
        tools = {tool.name: tool for tool in batch.tools}

        order, stock = tools["place-order"].definition, tools["stock"].definition
        assert order.title == "Place an order"
        assert order.description == "Order something, said in other words."
        assert stock.title == "Stock"
        assert stock.annotations == {"readOnlyHint": True, "openWorldHint": False}

    def test_resources_and_prompts_are_found_too(self, batch: Batch) -> None:
        assert [item.name for item in batch.resources] == ["shop://manual"]
        assert [item.name for item in batch.prompts] == ["haggle"]
        assert batch.resources[0].source.file == str(SHOP)


@pytest.mark.asyncio(loop_scope="module")
class TestCalls:
    @pytest.mark.parametrize(("name", "arguments"), CALLS)
    async def test_a_call_comes_to_what_it_comes_to_at_home(
        self, server: MCPServer, name: str, arguments: dict[str, Any]
    ) -> None:
        theirs = server.registry.get(name).owner.server
        async with Client(theirs) as client:
            at_home = await client.call_tool(name, arguments)

        here = await server.call(name, arguments)

        assert here.is_error is bool(at_home.is_error)
        assert own_data_of(here) == data_of(at_home)
        assert (here.meta or {}) == {
            key: value for key, value in (at_home.meta or {}).items() if "modelcontextprotocol" not in key
        }

    async def test_words_and_pictures_are_blocks_in_their_order(self, server: MCPServer) -> None:
        result = await server.call("brochure")

        assert [block["type"] for block in result.content] == ["text", "image", "text"]
        assert not result.is_structured

    async def test_arguments_are_checked_by_us(self, server: MCPServer) -> None:
        result = await server.call("stock", {"item": "t"})

        assert result.is_error
        assert "a length of at least 2" in result.text
        assert "pydantic" not in result.text

    async def test_a_crash_is_logged(self, server: MCPServer, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.ERROR, "toolcrib"):
            await server.call("crash", {"secret": "hunter2"})
            server.dispatcher.crashes.flush()

        assert "hunter2" not in caplog.text  # what a tool was given is not for the log
        assert "RuntimeError: password=[redacted]" in caplog.text

    async def test_nothing_of_the_context_is_published(self, server: MCPServer) -> None:
        listed = json.dumps([definition.to_wire() for definition in server.list_tools()])

        assert "ctx" not in listed
        assert "toolcrib_context" not in listed


@pytest.mark.asyncio(loop_scope="module")
class TestOddities:
    @pytest.fixture
    def server(self, odd_server: MCPServer) -> MCPServer:
        return odd_server

    async def test_a_model_beside_a_whole_result_is_its_schema(self, server: MCPServer) -> None:
        result = await server.call("checked", {"a": 2})

        assert server.registry.get("checked").definition.output_schema["required"] == ["total"]
        assert (result.text, result.structured_content) == ("sum", {"total": 2})

    async def test_anyone_who_promised_no_schema_publishes_none(self, server: MCPServer) -> None:
        assert server.registry.get("unstructured").definition.output_schema is None
        assert (await server.call("unstructured", {"a": 2})).structured_content == {"a": 2}

    async def test_an_optional_context_is_given(self, server: MCPServer) -> None:
        assert (await server.call("maybe", {"a": 2})).text == "2 True"

    async def test_a_hint_that_is_refused_here_keeps_their_schema(self, server: MCPServer) -> None:
        tool = server.registry.get("contradicts")

        assert tool.definition.input_schema["properties"]["limit"]["default"] == 10
        assert tool.adoption is not None
        assert tool.adoption.reason.startswith("toolcrib does not take its signature")
        assert (await server.call("contradicts")).structured_content == {"result": 10}
        assert (await server.call("contradicts", {"limit": 4})).is_error

    async def test_a_bound_method_keeps_its_object(self, server: MCPServer) -> None:
        await server.call("pay", {"amount": 2})

        assert (await server.call("pay", {"amount": 3})).structured_content == 5

    async def test_a_name_that_breaks_the_rules_is_refused(self, server: MCPServer) -> None:
        assert "has space" not in server.registry

    async def test_their_meta_is_kept(self, server: MCPServer) -> None:
        assert server.registry.get("nothing").definition.meta == {"odd.example/a": 1}

    async def test_plain_code_may_leave_something_to_await(self, server: MCPServer) -> None:
        assert (await server.call("later", {"a": 2})).structured_content == 3

    async def test_state_alone_means_again(self, server: MCPServer) -> None:
        assert (await server.call("either", {"sure": True})).text == "True again"

    async def test_anyone_who_never_comes_to_an_end_is_stopped(self, server: MCPServer) -> None:
        result = await server.call("restless")

        assert result.is_error
        assert "without coming to a result" in result.text
