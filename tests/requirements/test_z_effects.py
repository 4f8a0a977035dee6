"""Document Z: what registering comes to, what it costs, and what the document leaves for later."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.definitions.document_z import SCHEMA, VALID, Memory
from tests.support.system.source_folders import forgotten_imports, write
from toolcrib import MCPServer, Tool, ToolAlreadyExistsError, ToolNotFoundError
from toolcrib.errors import DefinitionError


@pytest.fixture
def server() -> MCPServer:
    return MCPServer(core_engine=object())


# --- effects ------------------------------------------------------------------------------------------


async def test_z_19_z_49_z_50_a_registered_tool_is_stored_listed_and_callable(server: MCPServer) -> None:
    tool = Memory()
    server.register_tool(tool)
    assert (server._tools["add_memory"], len(server._tools)) == (tool, 1)
    async with server:
        (definition,) = server.list_tools()
        assert (definition.name, definition.description) == ("add_memory", VALID)
        assert definition.input_schema == SCHEMA
        assert (await server.call("add_memory", {"text": "hi"})).text == "hi"


def test_z_20_z_51_the_registration_is_an_event_in_the_log(
    server: MCPServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="toolcrib"):
        server.register_tool(Memory())
    (record,) = caplog.records
    assert (record.levelname, record.getMessage(), record.name) == ("INFO", "tool_registered", "toolcrib")
    assert (vars(record)["tool_name"], vars(record)["total_tools"]) == ("add_memory", 1)


def test_z_22_the_engine_is_kept_all_tools_can_be_registered_at_once_and_run_follows() -> None:
    engine = object()
    server = MCPServer(core_engine=engine)
    assert server.core_engine is engine
    server.register_all_tools([Memory("add_memory"), Memory("search_memory"), Memory("get_stats")])
    assert list(server._tools) == ["add_memory", "search_memory", "get_stats"]

    async def main() -> str:
        serving = asyncio.ensure_future(server.run("memory"))
        while not server._running:
            await asyncio.sleep(0)
        text = (await server.call("search_memory", {"text": "found"})).text
        await server.stop()
        await serving
        return text

    assert asyncio.run(main()) == "found"


def test_z_23_registering_in_turn_is_all_that_is_asked_and_order_is_kept(server: MCPServer) -> None:
    names = [f"tool_{number}" for number in range(30, 0, -1)]
    for name in names:
        server.register_tool(Memory(name))
    assert list(server._tools) == names


def test_z_24_registering_opens_no_file_and_no_connection(
    server: MCPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Untouchable:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"the engine's {name} was looked at")

    server.register_tool(Memory("first"))  # what is loaded once is loaded now

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("no input or output is needed")

    monkeypatch.setattr("builtins.open", refused)
    monkeypatch.setattr(socket.socket, "connect", refused)
    server.core_engine = Untouchable()
    server.register_tool(Memory("second"))
    assert len(server._tools) == 2


def test_z_25_registering_takes_less_than_a_millisecond(server: MCPServer) -> None:
    server.register_tool(Memory("first"))
    best = 1.0
    for turn in range(20):
        tools = [Memory(f"tool_{turn}_{number}") for number in range(10)]
        began = time.process_time()
        for tool in tools:
            server.register_tool(tool)
        best = min(best, time.process_time() - began)
    assert best < 0.010, f"ten tools took {best * 1000:.2f} ms at best"


def test_z_26_cost_does_not_grow_with_the_number_of_tools() -> None:
    def cost(server: MCPServer, prefix: str) -> float:
        best = 1.0
        for turn in range(10):
            tools = [Memory(f"{prefix}_{turn}_{number}") for number in range(20)]
            began = time.process_time()
            for tool in tools:
                server.register_tool(tool)
            best = min(best, time.process_time() - began)
        return best

    few, many = MCPServer(), MCPServer()
    many.add([Tool.from_function(lambda: 1, name=f"held_{number}") for number in range(5000)])
    many.list_tools()
    cost(few, "warm")
    assert cost(many, "b") < 5 * cost(few, "a")


# --- what the document leaves for later ---------------------------------------------------------------


async def test_z_52_z_53_a_dynamic_server_registers_and_removes_while_it_runs() -> None:
    server = MCPServer(dynamic=True)
    heard: list[str] = []
    server.registry.subscribe(lambda change: heard.append(change.kind))
    async with server:
        server.register_tool(Memory())
        assert (await server.call("add_memory", {"text": "hi"})).text == "hi"
        server.registry.remove("add_memory")
        with pytest.raises(ToolNotFoundError):
            await server.call("add_memory", {"text": "hi"})
    assert heard == ["added", "removed"]


async def test_z_54_versions_live_side_by_side_and_are_called_by_name(server: MCPServer) -> None:
    server.register_tool(Memory())
    for version in ("1", "2", "10"):
        server.add(
            lambda text, version=version: f"{version}: {text}",
            name="add_memory",
            version=version,
            extra="ignore",
        )
    assert (await server.call("add_memory", {"text": "hi"})).text == "10: hi"
    assert (await server.call("add_memory@2", {"text": "hi"})).text == "2: hi"
    with pytest.raises(ToolAlreadyExistsError):
        server.register_tool(Memory())


def test_z_55_schemas_are_checked_to_the_bottom(server: MCPServer) -> None:
    for inner in ({"type": "strin"}, {"minimum": "three"}, {"pattern": "("}, {"items": {"type": 5}}):
        schema = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": inner}}}}
        with pytest.raises(DefinitionError, match="invalid"):
            server.register_tool(Memory(input_schema=schema))
    assert not server._tools


def test_z_56_tools_of_a_package_are_found_by_looking_into_it(tmp_path: Path) -> None:
    text = """
        class {name}Tool:
            name, description = "{lower}", "A tool that is found by itself."
            input_schema = {{"type": "object", "properties": {{}}}}
            async def execute(self, arguments): return {{"content": []}}
    """
    files = {
        f"memory_kit/{name.lower()}.py": text.format(name=name, lower=name.lower())
        for name in ("Add", "Search")
    }
    write(tmp_path, {"memory_kit/__init__.py": "", **files})
    server = MCPServer()
    with forgotten_imports():
        server.add(tmp_path / "memory_kit", strict=True)
    assert list(server._tools) == ["add", "search"]
