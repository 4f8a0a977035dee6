"""Document T, the tutorial chapter, on the wire: the log of the handlers, and how clients discover tools."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.support.definitions.document_t import SAMPLES
from tests.support.servers.serve_process import Serving
from toolcrib import MCPServer
from toolcrib.validation.validator import Validator

LISTED = [
    "Client requesting tool list: returning 5 tools",
    " - hello_world: A simple greeting tool",
    " - echo: Echo back the input message",
    " - get_time: Get current time in various formats",
    " - math_add: Add two numbers together",
    " - debug_info: Get debug information about the server",
]
ERAS = ["2026-07-28", "2025-11-25", "2024-11-05"]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving("--samples", "--log-level", "info", cwd=tmp_path_factory.mktemp("tutorial")) as found:
        yield found


@pytest.mark.requirement("T-05")
@pytest.mark.parametrize("protocol", ERAS)
async def test_the_list_handler_logs_the_request_the_count_and_each_tool(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = MCPServer("tutorial")
    server.add(SAMPLES)
    caplog.set_level(logging.DEBUG, "toolcrib")
    async with server.connect(protocol=protocol) as client:
        caplog.clear()
        await client.list_tools()
    records = [record for record in caplog.records if record.name == "toolcrib"]
    assert [record.getMessage() for record in records] == LISTED
    assert [record.levelname for record in records] == ["INFO"] + 5 * ["DEBUG"]


@pytest.mark.requirement("T-06")
@pytest.mark.parametrize("protocol", ERAS)
async def test_the_call_handler_logs_the_name_and_the_names_of_the_arguments(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = MCPServer("tutorial")
    server.add(SAMPLES)
    caplog.set_level(logging.INFO, "toolcrib")
    async with server.connect(protocol=protocol) as client:
        caplog.clear()
        result = await client.call("echo", {"message": "my password"})
    assert list(result.content) == [{"type": "text", "text": "Echo: my password"}]
    records = [record for record in caplog.records if "Tool execution" in record.getMessage()]
    assert [record.getMessage() for record in records] == ["Tool execution request: echo"]
    assert "Arguments: message" in caplog.messages
    assert "my password" not in caplog.text


@pytest.mark.requirement("T-06", "X-30")
async def test_the_values_are_logged_where_that_is_configured(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = MCPServer("tutorial", log_arguments=True)
    server.add(SAMPLES)
    caplog.set_level(logging.INFO, "toolcrib")
    async with server.connect() as client:
        await client.call("math_add", {"a": 10, "b": 5})
    assert 'Arguments: {"a": 10, "b": 5}' in caplog.messages


@pytest.mark.requirement("T-05", "T-06", "X-30")
def test_the_log_goes_to_stderr_with_the_time(serving: Serving) -> None:
    serving.names()
    assert serving.call("echo", message="my password") == "Echo: my password"
    serving.wait_for("Arguments: message")
    said = [line.partition(" ")[2] for line in serving.errors.splitlines()]
    assert [line for line in said if line.startswith("info: ")][:2] == [
        f"info: {LISTED[0]}",
        "info: Tool execution request: echo",
    ]
    assert "info: Tool execution request: echo" in said
    assert "my password" not in serving.errors


@pytest.mark.requirement("T-08")
def test_a_client_lists_reads_the_schemas_and_can_use_every_tool(serving: Serving) -> None:
    listed = serving.ask("tools/list")["tools"]
    assert [tool["name"] for tool in listed] == [line.split(":")[0][3:] for line in LISTED[1:]]
    given = {"string": "text", "number": 2, "boolean": True}
    for tool in listed:
        schema = tool["inputSchema"]
        arguments = {name: given[schema["properties"][name]["type"]] for name in schema.get("required", ())}
        assert Validator(schema).is_valid(arguments)
        result = serving.ask("tools/call", name=tool["name"], arguments=arguments)
        assert result["isError"] is False
        assert result["content"][0]["type"] == "text"
