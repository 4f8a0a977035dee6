"""Document T, the tutorial chapter: defining, registering, exposing and routing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.definitions.document_t import (
    ADD,
    HELLO,
    SAMPLES,
    SCHEMA,
    handle_add,
    handle_hello,
    sample_entry,
)
from tests.support.system.source_folders import forgotten_imports, write
from toolcrib import MCPServer, ToolNotFoundError, tool
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


async def test_t_01_a_tool_is_defined_registered_exposed_and_routed_to(server: MCPServer) -> None:
    server.add({"hello_world": sample_entry()})
    (definition,) = server.list_tools()
    assert (definition.name, definition.input_schema) == ("hello_world", HELLO)
    assert (await server.call("hello_world", {"name": "Ada"})).text == "Hello, Ada!"


async def test_t_02_a_schema_carries_types_required_descriptions_and_rules(server: MCPServer) -> None:
    schema = {
        "type": "object",
        "properties": {
            "age": {"type": "integer", "minimum": 0, "maximum": 150, "description": "In years"},
            "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
        },
        "required": ["age"],
    }
    server.add({"rules": {"description": "Keep the rules", "schema": schema, "handler": handle_hello}})
    assert server.list_tools()[0].to_wire() == {
        "name": "rules",
        "description": "Keep the rules",
        "inputSchema": schema,
    }
    for wrong in ({"age": 200}, {"age": -1}, {"age": 1, "code": "abc"}, {"age": "old"}, {}):
        assert (await server.call("rules", wrong)).is_error
    assert not (await server.call("rules", {"age": 30, "code": "ABC"})).is_error


def test_t_03_all_tools_are_listed_in_one_place(samples: MCPServer) -> None:
    listed = samples.list_tools()
    assert all(isinstance(definition, ToolDefinition) for definition in listed)
    assert [definition.name for definition in listed] == [tool.name for tool in samples.registry]


async def test_t_04_the_five_sample_tools_are_there_and_work(samples: MCPServer) -> None:
    names = [definition.name for definition in samples.list_tools()]
    assert names == ["hello_world", "echo", "get_time", "math_add", "debug_info"]
    hello, add = (samples.registry.get(name).definition for name in ("hello_world", "math_add"))
    assert hello.description == "A simple greeting tool"
    assert hello.input_schema["properties"] == HELLO["properties"]
    assert not hello.input_schema.get("required")
    assert add.input_schema == ADD
    assert (await samples.call("hello_world")).text == "Hello, World!"
    assert (await samples.call("echo", {"message": "hi"})).text == "Echo: hi"
    total = await samples.call("math_add", {"a": 10, "b": 5})
    assert (total.text, total.structured_content) == ("10 + 5 = 15", 15)
    assert (await samples.call("get_time", {"format": "iso", "timezone": "Europe/Berlin"})).text[10] == "T"
    facts = (await samples.call("debug_info")).structured_content
    assert (facts["name"], facts["tools"]) == ("tutorial", names)


# --- routing ------------------------------------------------------------------------------------------


async def test_t_07_an_unknown_name_is_a_value_error_with_these_words(server: MCPServer) -> None:
    with pytest.raises(ValueError, match=r"^Unknown tool: no_such_tool$") as refusal:
        await server.call("no_such_tool", {})
    assert isinstance(refusal.value, ToolNotFoundError)


async def test_t_13_handlers_are_routed_to_by_name_and_get_the_server_where_they_ask(
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


async def test_t_14_the_decorator_takes_name_description_and_schema_and_keeps_order(
    server: MCPServer,
) -> None:
    async def hello(arguments: dict[str, Any]) -> str:
        return "hello"

    async def add(arguments: dict[str, Any]) -> str:
        return "add"

    assert server.tool("zz_first", "A simple greeting tool", HELLO)(hello) is hello
    assert tool("aa_second", "Add two numbers together", ADD)(add) is add
    server.add(add)
    assert [definition.name for definition in server.list_tools()] == ["zz_first", "aa_second"]
    assert server.list_tools()[1].input_schema == ADD


def test_t_14_the_registry_of_the_document_is_read_as_it_is(server: MCPServer, tmp_path: Path) -> None:
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


async def test_t_16_definition_and_handler_in_one_entry_cannot_drift(server: MCPServer) -> None:
    server.add(
        {"hello_world": sample_entry(), "math_add": {**sample_entry(), "schema": ADD, "handler": handle_add}}
    )
    assert (await server.call("math_add", {"a": 1, "b": 2})).text == "1 + 2 = 3"
    report = server.add({"lonely": {"description": "Has no handler", "schema": SCHEMA}})
    assert report.errors[0].message.startswith("Tool 'lonely' is defined but has no handler")
    assert "lonely" not in server.registry


# --- configuration and metadata -----------------------------------------------------------------------


def test_t_09_switches_choose_the_sets_and_basic_tools_are_always_there() -> None:
    def names(**switches: bool) -> set[str]:
        server = MCPServer(switches=switches)
        server.add(SAMPLES)
        return {definition.name for definition in server.list_tools()}

    basic, files = {"hello_world", "echo", "get_time", "debug_info"}, {"list_files", "read_file"}
    assert names() == basic | {"math_add"}
    assert names(enable_math_tools=False) == basic
    assert names(enable_math_tools=True, enable_file_tools=True) == basic | files | {"math_add"}


def test_t_10_metadata_is_kept_and_never_sent(server: MCPServer) -> None:
    config = {
        "name": "hello_world",
        "description": "A simple greeting tool",
        "schema": HELLO,
        "category": "basic",
        "version": "1.0",
        "author": "the authors",
    }
    server.add([config], handlers={"hello_world": handle_hello})
    (definition,) = server.list_tools()
    assert (definition.metadata, definition.version) == (
        {"category": "basic", "author": "the authors"},
        "1.0",
    )
    assert definition.to_wire().keys() == {"name", "description", "inputSchema"}
