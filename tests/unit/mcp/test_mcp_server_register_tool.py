"""`MCPServer.register_tool`: the 23 scenarios that its specification names, then what they imply."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from toolcrib import MCPServer, ToolAlreadyExistsError
from toolcrib.errors import (
    DefinitionError,
    InvalidNameError,
    InvalidSchemaError,
    InvalidToolError,
    RegistrationClosedError,
)

ENGINE = object()
VALID = "Add a memory to the knowledge graph"


class AddMemoryTool:
    name = "add_memory"
    description = VALID
    input_schema: Any = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }

    def __init__(self, core_engine: object = ENGINE) -> None:
        self.core_engine = core_engine

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": arguments["text"]}], "isError": False}


async def execute(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": [], "isError": False}


def a_tool(**attributes: Any) -> Any:
    """A valid tool object, except for what is given; `...` leaves an attribute out."""
    facts: dict[str, Any] = {
        "name": "valid_tool",
        "description": VALID,
        "input_schema": {"type": "object", "properties": {}},
        "execute": execute,
    } | attributes
    return SimpleNamespace(**{key: value for key, value in facts.items() if value is not ...})


@pytest.fixture
def server() -> MCPServer:
    return MCPServer(core_engine=ENGINE)


# --- the scenarios of the specification, under its own names ------------------------------------------


@pytest.mark.requirement("Z-29", "Z-01")
def test_register_tool_success_single(server: MCPServer) -> None:
    assert server.register_tool(AddMemoryTool()) is None  # type: ignore[func-returns-value]
    assert len(server._tools) == 1


@pytest.mark.requirement("Z-30")
def test_register_tool_success_multiple(server: MCPServer) -> None:
    for name in ("add_memory", "search_memory", "get_stats"):
        server.register_tool(a_tool(name=name))
    assert len(server._tools) == 3
    assert list(server._tools) == ["add_memory", "search_memory", "get_stats"]


@pytest.mark.requirement("Z-31")
async def test_register_tool_success_complex_schema(server: MCPServer) -> None:
    schema = {
        "type": "object",
        "properties": {
            "filter": {
                "type": "object",
                "properties": {"range": {"type": "object", "properties": {"from": {"type": "integer"}}}},
            },
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["filter"],
    }
    server.register_tool(a_tool(name="search", input_schema=schema))
    assert server.list_tools()[0].input_schema == schema
    refused = await server.call("search", {"filter": {"range": {"from": "x"}}})
    assert refused.is_error
    assert "filter.range.from" in refused.text


@pytest.mark.requirement("Z-32")
def test_register_tool_name_with_underscores(server: MCPServer) -> None:
    server.register_tool(a_tool(name="search_memory_advanced"))
    assert "search_memory_advanced" in server._tools


@pytest.mark.requirement("Z-33")
def test_register_tool_name_boundary_length(server: MCPServer) -> None:
    server.register_tool(a_tool(name="a" * 50))
    server.register_tool(a_tool(name="b"))
    assert list(server._tools) == ["a" * 50, "b"]


@pytest.mark.requirement("Z-34")
def test_register_tool_empty_name(server: MCPServer) -> None:
    with pytest.raises(ValueError, match="name length must be 1-50"):
        server.register_tool(a_tool(name=""))


@pytest.mark.requirement("Z-35")
def test_register_tool_duplicate_name(server: MCPServer) -> None:
    first = AddMemoryTool()
    server.register_tool(first)
    with pytest.raises(ValueError, match="already registered"):
        server.register_tool(AddMemoryTool())
    assert len(server._tools) == 1
    assert server._tools["add_memory"] is first


@pytest.mark.requirement("Z-36")
@pytest.mark.parametrize("name", ["Add-Memory", "add_memory!", "addMemory", "add memory", "123_add"])
def test_register_tool_invalid_name_pattern(server: MCPServer, name: str) -> None:
    with pytest.raises(ValueError, match=r"invalid.*lowercase"):
        server.register_tool(a_tool(name=name))


@pytest.mark.requirement("Z-37")
def test_register_tool_name_too_long(server: MCPServer) -> None:
    with pytest.raises(ValueError, match="1-50 chars, got 51"):
        server.register_tool(a_tool(name="a" * 51))


@pytest.mark.requirement("Z-38")
def test_register_tool_description_too_short(server: MCPServer) -> None:
    with pytest.raises(ValueError, match="min 10 chars"):
        server.register_tool(a_tool(description="x" * 9))
    server.register_tool(a_tool(description="x" * 10))


@pytest.mark.requirement("Z-39")
def test_register_tool_description_too_long(server: MCPServer) -> None:
    with pytest.raises(ValueError, match="max 500 chars"):
        server.register_tool(a_tool(description="x" * 501))
    server.register_tool(a_tool(description="x" * 500))


@pytest.mark.requirement("Z-40")
def test_register_tool_missing_name(server: MCPServer) -> None:
    with pytest.raises(TypeError, match="must have 'name' and 'description'"):
        server.register_tool(a_tool(name=...))


@pytest.mark.requirement("Z-41")
def test_register_tool_missing_input_schema(server: MCPServer) -> None:
    with pytest.raises(TypeError, match="must have 'input_schema'"):
        server.register_tool(a_tool(input_schema=...))


@pytest.mark.requirement("Z-42")
def test_register_tool_name_wrong_type(server: MCPServer) -> None:
    with pytest.raises(ValueError, match="must be string"):
        server.register_tool(a_tool(name=123))


@pytest.mark.requirement("Z-43")
def test_register_tool_schema_not_object(server: MCPServer) -> None:
    with pytest.raises(ValueError, match="type='object'"):
        server.register_tool(a_tool(input_schema={"type": "array", "items": {}}))


@pytest.mark.requirement("Z-44")
def test_register_tool_schema_missing_properties(server: MCPServer) -> None:
    with pytest.raises(ValueError, match="'properties' field"):
        server.register_tool(a_tool(input_schema={"type": "object"}))


@pytest.mark.requirement("Z-45")
def test_register_tool_schema_not_dict(server: MCPServer) -> None:
    with pytest.raises(ValueError, match="must be dict"):
        server.register_tool(a_tool(input_schema="invalid"))


@pytest.mark.requirement("Z-46")
def test_register_tool_execute_not_async(server: MCPServer) -> None:
    with pytest.raises(ValueError, match="must be async"):
        server.register_tool(a_tool(execute=lambda arguments: {}))


@pytest.mark.requirement("Z-47")
def test_register_tool_missing_execute(server: MCPServer) -> None:
    with pytest.raises(ValueError, match="callable 'execute'"):
        server.register_tool(a_tool(execute=...))


@pytest.mark.requirement("Z-48")
def test_register_tool_after_server_started(server: MCPServer) -> None:
    server._running = True
    with pytest.raises(RuntimeError, match="after server has started"):
        server.register_tool(AddMemoryTool())


@pytest.mark.requirement("Z-49")
async def test_register_tool_appears_in_tools_dict(server: MCPServer) -> None:
    tool = AddMemoryTool()
    server.register_tool(tool)
    assert server._tools["add_memory"] is tool
    assert (await server._tools["add_memory"].execute({"text": "hi"}))["content"][0]["text"] == "hi"
    assert (await server.call("add_memory", {"text": "hi"})).text == "hi"


@pytest.mark.requirement("Z-50")
def test_register_tool_increments_count(server: MCPServer) -> None:
    for count in range(1, 11):
        server.register_tool(a_tool(name=f"tool_{count}"))
        assert len(server._tools) == count


@pytest.mark.requirement("Z-51", "Z-20")
def test_register_tool_logs_registration(server: MCPServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="toolcrib"):
        server.register_tool(AddMemoryTool())
        server.register_tool(a_tool(name="get_stats"))
    events = [(record.levelname, record.getMessage(), vars(record)) for record in caplog.records]
    assert [(level, message) for level, message, _ in events] == [("INFO", "tool_registered")] * 2
    fields = [(facts["tool_name"], facts["total_tools"]) for _, _, facts in events]
    assert fields == [("add_memory", 1), ("get_stats", 2)]


# --- what the scenarios imply -------------------------------------------------------------------------

MESSAGES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"name": ...}, InvalidToolError, "Tool must have 'name' and 'description' attributes"),
    ({"description": ...}, InvalidToolError, "Tool must have 'name' and 'description' attributes"),
    ({"input_schema": ...}, InvalidToolError, "Tool must have 'input_schema' and 'execute' attributes"),
    ({"name": 123}, InvalidToolError, "Tool name must be string, got <class 'int'>"),
    ({"name": None}, InvalidToolError, "Tool name must be string, got <class 'NoneType'>"),
    ({"name": ""}, InvalidNameError, "Tool name length must be 1-50 chars, got 0"),
    ({"name": "!" * 51}, InvalidNameError, "Tool name length must be 1-50 chars, got 51"),
    (
        {"name": "Add-Memory"},
        InvalidNameError,
        "Tool name 'Add-Memory' invalid (must be lowercase, alphanumeric, underscores)",
    ),
    ({"name": "taken"}, ToolAlreadyExistsError, "Tool 'taken' already registered"),
    ({"description": 5}, ValueError, "Tool description must be string"),
    ({"description": "Too short"}, ValueError, "Tool description too short (min 10 chars)"),
    ({"description": "x" * 501}, ValueError, "Tool description too long (max 500 chars)"),
    ({"input_schema": []}, InvalidSchemaError, "Tool input_schema must be dict"),
    ({"input_schema": {}}, InvalidSchemaError, "Tool input_schema must have type='object'"),
    (
        {"input_schema": {"type": "object"}},
        InvalidSchemaError,
        "Tool input_schema must have 'properties' field",
    ),
    (
        {"execute": ...},
        InvalidToolError,
        "Tool must have 'input_schema' and 'execute' attributes: Tool must have callable 'execute' method",
    ),
    ({"execute": "not callable"}, InvalidToolError, "Tool must have callable 'execute' method"),
    ({"execute": print}, InvalidToolError, "Tool execute method must be async"),
]


@pytest.mark.requirement("Z-03", "Z-04", "Z-05", "Z-10", "Z-11", "Z-12", "Z-13", "Z-14", "Z-15", "Z-16")
@pytest.mark.requirement("Z-17", "Z-18", "Z-21", "X-10", "X-11")
@pytest.mark.parametrize(("wrong", "kind", "message"), MESSAGES, ids=[message for _, _, message in MESSAGES])
def test_every_refusal_has_its_words_and_its_type_and_changes_nothing(
    server: MCPServer,
    caplog: pytest.LogCaptureFixture,
    wrong: dict[str, Any],
    kind: type[Exception],
    message: str,
) -> None:
    server.register_tool(a_tool(name="taken"))
    before = (server._tools, server.registry.revision, server.registry.snapshot, len(server.registry))
    heard: list[Any] = []
    server.registry.subscribe(heard.append)
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="toolcrib"), pytest.raises(kind) as refusal:
        server.register_tool(a_tool(**wrong))
    assert str(refusal.value) == message
    assert (server._tools, server.registry.revision, server.registry.snapshot, len(server.registry)) == before
    assert (heard, caplog.records) == ([], [])
    server.register_tool(a_tool(name="next_tool"))


STEPS: list[dict[str, Any]] = [
    {"name": ...},
    {"input_schema": ...},
    {"name": 123},
    {"name": "taken"},
    {"description": "short"},
    {"input_schema": {"type": "array"}},
    {"execute": ...},
]


@pytest.mark.requirement("Z-07")
@pytest.mark.parametrize("step", range(len(STEPS) - 1))
def test_of_two_faults_the_one_that_is_checked_first_is_told(server: MCPServer, step: int) -> None:
    server.register_tool(a_tool(name="taken"))
    with pytest.raises(ValueError) as alone:
        server.register_tool(a_tool(**STEPS[step]))
    for later in STEPS[step + 1 :]:
        with pytest.raises(ValueError) as both:
            server.register_tool(a_tool(**{**later, **STEPS[step]}))
        assert str(both.value) == str(alone.value)


def test_the_servers_state_is_looked_at_before_the_tool(server: MCPServer) -> None:
    server._running = True
    with pytest.raises(RegistrationClosedError):
        server.register_tool(object())  # type: ignore[arg-type]


@pytest.mark.requirement("Z-09")
async def test_a_server_that_shuts_down_says_so(server: MCPServer) -> None:
    await server.start()
    await server.stop()
    with pytest.raises(RuntimeError, match=r"^Server is shutting down, registration not allowed$"):
        server.register_tool(AddMemoryTool())


@pytest.mark.parametrize("name", ["add_memory\n", "\nadd", "add\x00", "ädd", "add\u200b", "_add"])
def test_a_name_must_match_from_end_to_end(server: MCPServer, name: str) -> None:
    with pytest.raises(InvalidNameError, match="invalid"):
        server.register_tool(a_tool(name=name))
    assert not server._tools


@pytest.mark.requirement("Z-55")
def test_a_schema_is_really_checked(server: MCPServer) -> None:
    wrong = {"type": "object", "properties": {"a": {"type": "strin"}}}
    with pytest.raises(InvalidSchemaError, match="invalid"):
        server.register_tool(a_tool(input_schema=wrong))


def test_nothing_about_a_tool_is_found_wrong_later(server: MCPServer) -> None:
    async def takes_nothing() -> dict[str, Any]:
        return {"content": []}

    needs = {"type": "object", "properties": {"text": {"type": "string"}}}
    for wrong in (
        {"description": "Ignore\u202e what you read here"},
        {"output_schema": {"type": "strin"}},
        {"input_schema": needs, "execute": takes_nothing},
    ):
        with pytest.raises(DefinitionError):
            server.register_tool(a_tool(**wrong))
    assert not server._tools


def test_a_name_that_other_sources_took_is_a_duplicate_whatever_its_spelling(server: MCPServer) -> None:
    server.add(lambda: 1, name="Add_Memory")
    server.add(lambda: 2, name="store", aliases=["get_stats"])
    server.registry.disable("add_memory")
    for name in ("add_memory", "get_stats"):
        with pytest.raises(ToolAlreadyExistsError, match=f"(?m)^Tool '{name}' already registered$"):
            server.register_tool(a_tool(name=name, description="short"))


def test_a_tool_with_a_version_leaves_room_for_one_without(server: MCPServer) -> None:
    server.add(lambda: 1, name="add_memory", version="2")
    server.register_tool(AddMemoryTool())
    assert [tool.version for tool in server.registry.versions("add_memory")] == ["2", None]
    with pytest.raises(ToolAlreadyExistsError):
        server.register_tool(AddMemoryTool())


@pytest.mark.requirement("Z-23")
def test_register_all_tools_registers_in_order_and_ends_at_the_first_refusal(server: MCPServer) -> None:
    tools = [a_tool(name="first"), a_tool(name="second"), a_tool(name="Third"), a_tool(name="fourth")]
    with pytest.raises(InvalidNameError):
        server.register_all_tools(tools)
    assert list(server._tools) == ["first", "second"]
    server.register_all_tools(a_tool(name=f"tool_{number}") for number in range(3))
    assert len(server._tools) == 5


def test_a_lenient_server_keeps_this_door_strict() -> None:
    server = MCPServer(on_duplicate="replace", name_rule="mcp")
    server.register_tool(AddMemoryTool())
    with pytest.raises(ToolAlreadyExistsError):
        server.register_tool(AddMemoryTool())
    with pytest.raises(InvalidNameError):
        server.register_tool(a_tool(name="a.b"))
