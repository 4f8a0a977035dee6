"""Document T, the tutorial chapter: validating, testing, and what to do when something is wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from tests.support.definitions.document_t import ADD, HELLO, SAMPLES, handle_add, handle_hello, sample_entry
from tests.support.system.source_folders import forgotten_imports, write
from toolcrib import Context, MCPServer, ToolError, collect, validate_tool_schema


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


# --- validation ---------------------------------------------------------------------------------------


@pytest.mark.requirement("T-15")
def test_required_may_be_left_out(server: MCPServer) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    validate_tool_schema(schema)
    server.add({"hello_world": {**sample_entry(), "schema": schema}}, strict=True)
    assert server.list_tools()[0].input_schema == schema


# --- the document's own tests -------------------------------------------------------------------------


@pytest.mark.requirement("T-19")
async def test_every_tool_answers_an_empty_call_or_says_what_is_missing(samples: MCPServer) -> None:
    for definition in samples.list_tools():
        result = await samples.call(definition.name, {})
        assert result.content
        assert not result.is_error or "required" in result.text or "missing" in result.text


# --- when something is wrong --------------------------------------------------------------------------


@pytest.mark.requirement("T-20")
def test_the_log_counts_the_good_names_the_bad_and_the_good_are_served(
    server: MCPServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="toolcrib"):
        report = server.add({"good": sample_entry(), "bad": {"description": "x"}, "fine": sample_entry()})
    assert "Successfully registered 2 tools" in caplog.messages
    assert f"Error during tool registration: {report.errors[0]}" in caplog.messages
    assert [definition.name for definition in server.list_tools()] == ["good", "fine"]


@pytest.mark.requirement("T-21")
def test_a_tool_that_does_not_appear_is_explained(server: MCPServer, tmp_path: Path) -> None:
    text = "from toolcrib import tool\n@tool\ndef found(): ...\n"
    write(tmp_path, {"added.py": text, "unmarked.py": "def lost(): ...", "failing.py": "1 / 0"})
    assert collect(tmp_path / "unmarked.py").findings[0].message == "1 function found, none marked"
    report = server.add(tmp_path, {"invalid": {**sample_entry(), "schema": {"type": "strin"}}})
    assert "ZeroDivisionError" in report.errors[0].message
    assert (report.errors[0].file, report.errors[0].line) == (str(tmp_path / "failing.py"), 1)
    (finding,) = server.registry.check()
    assert (finding.code, finding.tool) == ("invalid-schema", "invalid")


@pytest.mark.requirement("T-22")
async def test_a_tool_that_is_listed_can_be_called(server: MCPServer) -> None:
    definitions = [{"name": "helo_world", "schema": HELLO}, {"name": "hello", "schema": HELLO}]
    report = server.add(definitions, handlers={"hello_world": handle_hello, "hello": handle_hello})
    assert [(finding.tool, "handler" in finding.message.lower()) for finding in report.errors] == [
        ("helo_world", True),
        ("hello_world", True),
    ]

    async def fail(arguments: dict[str, Any]) -> str:
        raise RuntimeError("broken inside")

    server.add({"failing": {**sample_entry(), "handler": fail}})
    for definition in server.list_tools():
        assert (await server.call(definition.name)).content
    assert (await server.call("failing")).is_error


@pytest.mark.requirement("T-26")
async def test_errors_are_graceful_and_clear_from_discovery_to_execution(server: MCPServer) -> None:
    report = server.add(
        {"math_add": {**sample_entry(), "schema": ADD, "handler": handle_add}, "broken": {"schema": 5}}
    )
    assert [definition.name for definition in server.list_tools()] == ["math_add"]
    assert all(finding.hint for finding in report.errors)
    for arguments, said in (
        ({"a": 1}, "'b': required, but missing"),
        ({"a": 1, "b": "x"}, "'b': expected number"),
    ):
        result = await server.call("math_add", arguments)
        assert result.is_error
        assert said in result.text


@pytest.mark.requirement("T-27")
async def test_security_error_handling_debugging_and_state_are_covered() -> None:
    server = MCPServer(core_engine={"orders": 3})

    @server.tool
    def count_orders(ctx: Context) -> int:
        """Count the orders."""
        return int(ctx.server.core_engine["orders"])

    @server.tool
    def refuse() -> str:
        """Say why not."""
        raise ToolError("The shop is closed.")

    @server.tool
    def leak() -> str:
        """Fail with a secret."""
        raise RuntimeError("password=hunter2")

    assert (await server.call("count_orders")).structured_content == 3
    assert (await server.call("refuse")).text == "The shop is closed."
    leaked = await server.call("leak")
    assert leaked.is_error
    assert "hunter2" not in leaked.text
    assert server.describe()["statistics"]["leak"] == {"calls": 1, "errors": 1, "average_ms": ANY}
