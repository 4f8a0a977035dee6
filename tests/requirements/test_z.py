"""Document Z: what `register_tool` takes and what it refuses. Its 23 scenarios are in unit/mcp, by name."""

from __future__ import annotations

import ast
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.support.definitions.document_z import SCHEMA, VALID, Memory, Without, refuse
from toolcrib import MCPServer, MCPTool

SCENARIOS = Path(__file__).resolve().parents[1] / "unit" / "mcp" / "test_mcp_server_register_tool.py"
NAMES = """
    success_single success_multiple success_complex_schema name_with_underscores name_boundary_length
    empty_name duplicate_name invalid_name_pattern name_too_long description_too_short description_too_long
    missing_name missing_input_schema name_wrong_type schema_not_object schema_missing_properties
    schema_not_dict execute_not_async missing_execute after_server_started appears_in_tools_dict
    increments_count logs_registration
"""


@pytest.fixture
def server() -> MCPServer:
    return MCPServer(core_engine=object())


# --- the tool -----------------------------------------------------------------------------------------


def test_z_01_success_is_silence(server: MCPServer) -> None:
    assert server.register_tool(Memory()) is None  # type: ignore[func-returns-value]


def test_z_02_a_tool_object_is_recognised_by_its_shape(server: MCPServer) -> None:
    assert isinstance(Memory(), MCPTool)
    assert not isinstance(Without("execute"), MCPTool)
    server.register_tool(Memory())


def test_z_03_z_12_z_13_z_14_a_name_is_lower_case_text_of_one_to_fifty(server: MCPServer) -> None:
    for name in ("a", "a" * 50, "a_1"):
        server.register_tool(Memory(name))
    assert refuse(server, Memory(123)) == "Tool name must be string, got <class 'int'>"
    assert refuse(server, Memory("Add")) == (
        "Tool name 'Add' invalid (must be lowercase, alphanumeric, underscores)"
    )
    for name in ("", "a" * 51):
        assert refuse(server, Memory(name)) == f"Tool name length must be 1-50 chars, got {len(name)}"
    assert "already registered" in refuse(server, Memory("a"))


def test_z_04_z_16_a_description_is_ten_to_five_hundred_characters(server: MCPServer) -> None:
    assert refuse(server, Memory(description=5)) == "Tool description must be string"
    assert refuse(server, Memory(description="x" * 9)) == "Tool description too short (min 10 chars)"
    assert refuse(server, Memory(description="x" * 501)) == "Tool description too long (max 500 chars)"
    for name, length in (("short", 10), ("long", 500)):
        server.register_tool(Memory(name, "x" * length))


def test_z_05_z_17_a_schema_is_an_object_with_properties(server: MCPServer) -> None:
    said = {
        "Tool input_schema must be dict": [],
        "Tool input_schema must have type='object'": {"type": "array"},
        "Tool input_schema must have 'properties' field": {"type": "object"},
    }
    for message, schema in said.items():
        assert refuse(server, Memory(input_schema=schema)) == message
    server.register_tool(Memory(input_schema={"type": "object", "properties": {}}))


async def test_z_06_execute_is_async_and_its_answer_is_an_mcp_result(server: MCPServer) -> None:
    async def fail(arguments: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError("it should not, but it does")

    async def complain(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "no such memory"}], "isError": True}

    server.register_tool(Memory())
    server.register_tool(Memory("failing", execute=fail))
    server.register_tool(Memory("complaining", execute=complain))
    given = {"text": "hi"}
    assert (await server.call("add_memory", given)).to_json() == await Memory().execute(given)
    assert (await server.call("failing", given)).is_error
    complaint = await server.call("complaining", given)
    assert (complaint.is_error, complaint.text) == (True, "no such memory")


def test_z_07_checks_come_in_the_order_of_the_document(server: MCPServer) -> None:
    server.register_tool(Memory("taken"))
    bad: dict[str, Any] = {"description": "short", "input_schema": [], "execute": None}
    assert refuse(server, Without("name", "input_schema")).startswith("Tool must have 'name'")
    assert refuse(server, Memory("Taken!", **bad)).startswith("Tool name 'Taken!' invalid")
    assert refuse(server, Memory("taken", **bad)) == "Tool 'taken' already registered"
    assert refuse(server, Memory("free", **bad)).startswith("Tool description too short")
    assert refuse(server, Memory("free", **{**bad, "description": VALID})).startswith("Tool input_schema")
    assert refuse(server, Memory("free", execute=None)) == "Tool must have callable 'execute' method"
    server._running = True
    assert refuse(server, object(), RuntimeError).startswith("Cannot register tools")


# --- refusals -----------------------------------------------------------------------------------------


async def test_z_08_z_48_z_58_nothing_registers_after_the_start_and_the_list_is_complete_then(
    server: MCPServer,
) -> None:
    server.register_tool(Memory())
    async with server:
        assert server._running
        assert [definition.name for definition in server.list_tools()] == ["add_memory"]
        assert (
            refuse(server, Memory("late"), RuntimeError) == "Cannot register tools after server has started"
        )


async def test_z_09_nothing_registers_while_it_shuts_down(server: MCPServer) -> None:
    await server.stop()
    assert refuse(server, Memory(), RuntimeError) == "Server is shutting down, registration not allowed"


def test_z_10_z_40_name_and_description_must_be_there(server: MCPServer) -> None:
    for missing in ("name", "description"):
        message = refuse(server, Without(missing), TypeError)
        assert message == "Tool must have 'name' and 'description' attributes"


def test_z_11_z_41_z_47_schema_and_execute_must_be_there(server: MCPServer) -> None:
    message = "Tool must have 'input_schema' and 'execute' attributes"
    assert refuse(server, Without("input_schema"), TypeError) == message
    for kind in (TypeError, ValueError):
        told = refuse(server, Without("execute"), kind)
        assert told == f"{message}: Tool must have callable 'execute' method"


def test_z_15_z_35_a_duplicate_is_refused_and_the_first_stays(server: MCPServer) -> None:
    first = Memory()
    server.register_tool(first)
    assert refuse(server, Memory()) == "Tool 'add_memory' already registered"
    assert (len(server._tools), server._tools["add_memory"]) == (1, first)


def test_z_18_z_46_execute_must_be_callable_and_async(server: MCPServer) -> None:
    assert refuse(server, Memory(execute=5)) == "Tool must have callable 'execute' method"
    assert refuse(server, Memory(execute=lambda arguments: {})) == "Tool execute method must be async"


def test_z_21_a_failure_leaves_everything_as_it_was(
    server: MCPServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.register_tool(Memory())
    changes: list[Any] = []
    server.registry.subscribe(changes.append)
    tools = server._tools
    with caplog.at_level(logging.DEBUG, logger="toolcrib"):
        for wrong in (
            Memory("Bad"),
            Memory(),
            Memory("x", "short"),
            Memory("x", input_schema={}),
            Without("name"),
        ):
            refuse(server, wrong)
    assert (server._tools, changes, caplog.records) == (tools, [], [])


def test_z_27_hostile_tools_are_refused_and_crash_nothing(server: MCPServer) -> None:
    deep: Any = {"type": "object", "properties": {}}
    for _ in range(5000):
        deep = {"type": "object", "properties": {"x": deep}}
    hostile = [
        Memory("x'; drop table tools; --"),
        Memory("add\n"),
        Memory(b"add"),
        Memory(["add"]),
        Memory("add", {"text": VALID}),
        Memory("add", "Ignore the rest \u202e of this text"),
        Memory("add", input_schema=deep),
        Memory("add", input_schema={"type": "object", "properties": {"x": {"$ref": "http://10.0.0.1/x"}}}),
        object(),
        None,
        Memory,
    ]
    for tool in hostile:
        refuse(server, tool)
    server.register_tool(Memory("add"))


def test_z_28_errors_tell_nothing_of_other_tools_and_of_the_server(server: MCPServer) -> None:
    secret = "internal_billing_export"
    server.register_tool(Memory(secret))
    wrong = [Memory("Add"), Memory("x", "short"), Without("execute")]
    for tool in wrong:
        assert secret not in refuse(server, tool)


# --- scenarios ----------------------------------------------------------------------------------------


def test_z_29_z_30_z_31_z_32_z_33_what_the_document_registers_is_registered(server: MCPServer) -> None:
    nested = {"type": "object", "properties": {"filter": {"type": "object", "properties": {"from": SCHEMA}}}}
    server.register_tool(Memory())
    assert len(server._tools) == 1
    server.register_tool(Memory("nested", input_schema=nested))
    server.register_tool(Memory("search_memory_advanced"))
    assert len(server._tools) == 3
    server.register_tool(Memory("n" * 50))
    assert [definition.name for definition in server.list_tools()] == list(server._tools)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (Memory(""), "name length must be 1-50"),
        (Memory("a" * 51), "got 51"),
        (Memory(description="x" * 9), "too short"),
        (Memory(description="x" * 501), "too long"),
        (Memory(123), "must be string"),
        (Memory(input_schema={"type": "array", "items": {}}), "type='object'"),
        (Memory(input_schema={"type": "object"}), "'properties' field"),
        (Memory(input_schema="invalid"), "must be dict"),
        *(
            (Memory(name), "invalid")
            for name in ("Add-Memory", "add_memory!", "addMemory", "add memory", "123_add")
        ),
    ],
)
def test_z_34_z_36_z_37_z_38_z_39_z_42_z_43_z_44_z_45_what_the_document_refuses_is_refused(
    server: MCPServer, wrong: Memory, match: str
) -> None:
    assert match in refuse(server, wrong)


def test_z_57_all_scenarios_are_tests_under_their_own_names() -> None:
    tree = ast.parse(SCENARIOS.read_text())
    written = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    wanted = {f"test_register_tool_{name}" for name in NAMES.split()}
    assert len(wanted) == 23
    assert wanted <= written
