"""Document Z: what registering comes to, what it costs, and what the document leaves for later."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.definitions.document_z import SCHEMA, VALID, Memory
from tests.support.system.source_folders import forgotten_imports, write
from toolcrib import MCPServer, Tool, ToolAlreadyExistsError, ToolNotFoundError


@pytest.fixture
def server() -> MCPServer:
    return MCPServer(core_engine=object())


# --- effects ------------------------------------------------------------------------------------------


@pytest.mark.requirement("Z-19", "Z-49", "Z-50")
async def test_a_registered_tool_is_stored_listed_and_callable(server: MCPServer) -> None:
    tool = Memory()
    server.register_tool(tool)
    assert (server._tools["add_memory"], len(server._tools)) == (tool, 1)
    async with server:
        (definition,) = server.list_tools()
        assert (definition.name, definition.description) == ("add_memory", VALID)
        assert definition.input_schema == SCHEMA
        assert (await server.call("add_memory", {"text": "hi"})).text == "hi"


@pytest.mark.requirement("Z-22")
def test_the_engine_is_kept_all_tools_can_be_registered_at_once_and_run_follows() -> None:
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


@pytest.mark.requirement("Z-24")
def test_registering_opens_no_file_and_no_connection(
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


@pytest.mark.requirement("Z-25")
def test_registering_takes_less_than_a_millisecond(server: MCPServer) -> None:
    server.register_tool(Memory("first"))
    best = 1.0
    for turn in range(20):
        tools = [Memory(f"tool_{turn}_{number}") for number in range(10)]
        began = time.process_time()
        for tool in tools:
            server.register_tool(tool)
        best = min(best, time.process_time() - began)
    assert best < 0.010, f"ten tools took {best * 1000:.2f} ms at best"


@pytest.mark.requirement("Z-26")
def test_cost_does_not_grow_with_the_number_of_tools() -> None:
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


@pytest.mark.requirement("Z-52", "Z-53")
async def test_a_dynamic_server_registers_and_removes_while_it_runs() -> None:
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


@pytest.mark.requirement("Z-54", "G-12")
async def test_versions_live_side_by_side_and_are_called_by_name(server: MCPServer) -> None:
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


@pytest.mark.requirement("Z-56")
def test_tools_of_a_package_are_found_by_looking_into_it(tmp_path: Path) -> None:
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
