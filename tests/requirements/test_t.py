"""Document T, the tutorial chapter: defining, registering, exposing and routing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.definitions.document_t import (
    HELLO,
    SAMPLES,
    SCHEMA,
    handle_hello,
    sample_entry,
)
from tests.support.system.source_folders import forgotten_imports, write
from toolcrib import MCPServer
from toolcrib.definition import ToolDefinition


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("tutorial")


@pytest.fixture
def samples(server: MCPServer) -> MCPServer:
    server.add(SAMPLES)
    return server


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    with forgotten_imports():
        yield


# --- defining -----------------------------------------------------------------------------------------


@pytest.mark.requirement("T-01")
async def test_a_tool_is_defined_registered_exposed_and_routed_to(server: MCPServer) -> None:
    server.add({"hello_world": sample_entry()})
    (definition,) = server.list_tools()
    assert (definition.name, definition.input_schema) == ("hello_world", HELLO)
    assert (await server.call("hello_world", {"name": "Ada"})).text == "Hello, Ada!"


@pytest.mark.requirement("T-03")
def test_all_tools_are_listed_in_one_place(samples: MCPServer) -> None:
    listed = samples.list_tools()
    assert all(isinstance(definition, ToolDefinition) for definition in listed)
    assert [definition.name for definition in listed] == [tool.name for tool in samples.registry]


# --- routing ------------------------------------------------------------------------------------------


@pytest.mark.requirement("T-13")
async def test_handlers_are_routed_to_by_name_and_get_the_server_where_they_ask(
    server: MCPServer,
) -> None:
    async def handle_debug_info(arguments: dict[str, Any], server: MCPServer) -> str:
        return f"{server.name}: {len(server.registry)} tools"

    definitions = [
        {"name": "hello_world", "description": "A simple greeting tool", "schema": HELLO},
        {"name": "debug_info", "description": "Get debug information", "schema": SCHEMA},
    ]
    server.add(definitions, handlers={"hello_world": handle_hello, "debug_info": handle_debug_info})
    assert (await server.call("hello_world")).text == "Hello, World!"
    assert (await server.call("debug_info")).text == "tutorial: 2 tools"


@pytest.mark.requirement("T-14")
def test_the_registry_of_the_document_is_read_as_it_is(server: MCPServer, tmp_path: Path) -> None:
    text = """
        _tool_registry = {}
        def tool(name, description, schema):
            def decorator(handler_func):
                _tool_registry[name] = {"handler": handler_func, "description": description, "schema": schema}
                return handler_func
            return decorator

        @tool("hello_world", "A simple greeting tool", {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Name to greet"}
            }
        })
        async def handle_hello_world(arguments: dict) -> str:
            return "Hello"
    """
    write(tmp_path, {"tutorial_tools.py": text})
    server.add(tmp_path / "tutorial_tools.py", strict=True)
    assert [definition.name for definition in server.list_tools()] == ["hello_world"]


# --- configuration and metadata -----------------------------------------------------------------------
