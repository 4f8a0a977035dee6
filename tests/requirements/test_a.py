"""Document A: tools as objects, a registry that ignores case, and layers that stay apart."""

from __future__ import annotations

import asyncio
import configparser
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from tests.support.definitions.small_tools import named, names
from tests.support.system.source_folders import forgotten_imports, write
from toolcrib import Context, MCPServer, Tool, ToolRegistry, collect
from toolcrib.catalog.lint import inspect_tools
from toolcrib.errors import InvalidNameError, RegistrationClosedError, ToolTimeoutError

ROOT = Path(__file__).resolve().parents[2]


class EchoTool:
    """A tool in the document's own spelling."""

    Name = "echo"
    Description = "回显输入文本"
    InputSchema = {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "要回显的内容"}},
        "required": ["text"],
    }

    async def ExecuteAsync(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": arguments["text"]}]}


@pytest.fixture
def tools() -> ToolRegistry:
    return ToolRegistry()


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    with forgotten_imports():
        yield


async def test_a_01_a_tool_in_capitalised_spelling_is_a_tool() -> None:
    server = MCPServer()
    server.add(EchoTool())
    assert server.list_tools()[0].to_wire() == {
        "name": "echo",
        "description": "回显输入文本",
        "inputSchema": EchoTool.InputSchema,
    }
    result = await server.call("echo", {"text": "hello"})
    assert result.to_json()["content"] == [{"type": "text", "text": "hello"}]


def test_a_02_names_are_unique_whatever_their_case(tools: ToolRegistry) -> None:
    tool = tools.add(named("Echo"))
    for spelling in ("echo", "ECHO", "Echo"):
        assert tools.get(spelling) is tool
        with pytest.raises(ValueError, match=f"(?m)^Tool '{spelling}' already registered$"):
            tools.add(named(spelling))
    assert names(tools) == ["Echo"]


def test_a_03_registering_one_takes_it_once(tools: ToolRegistry) -> None:
    first = tools.add(EchoTool())
    assert tools.add(EchoTool(), on_duplicate="keep") is first
    assert len(tools) == 1


def test_a_04_many_are_registered_together(tools: ToolRegistry) -> None:
    report = tools.add_all(named(name) for name in ("one", "two", "three"))
    assert [tool.name for tool in report.registered] == names(tools) == ["one", "two", "three"]


def test_a_05_looking_up_may_find_nothing(tools: ToolRegistry) -> None:
    tool = tools.add(EchoTool())
    assert tools.try_get("echo") is tool
    assert tools.try_get("nothing") is None


def test_a_06_everything_is_listed_in_order(tools: ToolRegistry) -> None:
    added = [tools.add(named(name)) for name in ("zebra", "ant", "mole")]
    assert tools.get_all() == added
    tools.get_all().clear()
    assert tools.get_all() == added


async def test_a_15_tools_are_registered_centrally_before_the_start() -> None:
    server = MCPServer()
    server.add(EchoTool(), named("other"))
    async with server:
        assert names(server.registry) == ["echo", "other"]
        with pytest.raises(RegistrationClosedError):
            server.add(named("late"))


def test_a_16_names_are_short_lower_case_and_plain(tools: ToolRegistry) -> None:
    for wrong in ("find orders", "find/orders", "finde_aufträge", "工具"):
        with pytest.raises(InvalidNameError):
            tools.add(named(wrong))
    for name, advised in (("FindOrders", True), ("find-orders", True), ("find_orders", False)):
        tool = named(name)
        assert ("name-style" in {finding.code for finding in inspect_tools([tool]).findings}) is advised


def test_a_17_every_parameter_should_have_type_and_description() -> None:
    def find(text, limit: int, deep: bool = False) -> str:
        """Find what was asked for.

        Args:
            limit: How many at most
        """
        return str(text)

    tool = Tool.from_function(find)
    said = {(finding.code, finding.parameter) for finding in inspect_tools([tool]).findings}
    assert {
        ("untyped-parameter", "text"),
        ("undocumented-parameter", "text"),
        ("undocumented-parameter", "deep"),
    } <= said
    assert ("undocumented-parameter", "limit") not in said
    assert tool.definition.input_schema["required"] == ["text", "limit"]


async def test_a_18_a_tool_can_be_cancelled_and_has_a_deadline() -> None:
    server = MCPServer()
    seen, release = threading.Event(), threading.Event()
    cleaned: list[str] = []

    @server.tool(timeout_s=0.05)
    def block(ctx: Context) -> str:
        """Work until nobody waits."""
        while not ctx.cancelled:
            release.wait(0.005)
        seen.set()
        return "too late"

    @server.tool
    async def wait() -> str:
        """Wait for ever."""
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("cleaned up")
        return ""

    assert isinstance((await server.call("block")).error, ToolTimeoutError)
    assert await asyncio.to_thread(seen.wait, 20)
    calling = asyncio.create_task(server.call("wait"))
    while not server.describe()["statistics"].get("wait", {}).get("calls"):
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert cleaned == ["cleaned up"]


def test_a_19_a_scanner_registers_what_is_marked(tmp_path: Path) -> None:
    text = """
        from toolcrib import tool

        @tool
        def marked(): ...

        def unmarked(): ...

        @tool(tags=["found"])
        class Echo:
            name, description, input_schema = "echo", "Echo.", {"type": "object", "properties": {}}
            async def execute(self, arguments): ...
    """
    write(
        tmp_path,
        {"a/scan_one.py": text, "b/c/scan_two.py": "from toolcrib import tool\n@tool\ndef deep(): ..."},
    )
    server = MCPServer()
    server.add(tmp_path, strict=True)
    assert names(server.registry) == ["marked", "echo", "deep"]
    assert list(server.registry.get("echo").options.tags) == ["found"]


class Priority(Enum):
    LOW = "low"
    HIGH = "high"


@dataclass
class Order:
    """An order.

    Attributes:
        number: Number on the slip
    """

    number: int
    priority: Priority = Priority.LOW


async def test_a_20_a_data_class_becomes_a_schema_and_arguments_become_the_class() -> None:
    server = MCPServer()

    @server.tool
    def ship(order: Order) -> str:
        """Ship an order."""
        return f"{type(order).__name__} {order.number} {order.priority.name}"

    schema = server.list_tools()[0].input_schema
    order = schema["properties"]["order"]
    assert order["properties"]["number"] == {"type": "integer", "description": "Number on the slip"}
    assert order["properties"]["priority"]["enum"] == ["low", "high"]
    assert order["required"] == ["number"]
    result = await server.call("ship", {"order": {"number": 7, "priority": "high"}})
    assert result.text == "Order 7 HIGH"
    assert (await server.call("ship", {"order": {"priority": "high"}})).is_error


def test_a_23_the_core_does_not_know_the_server() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    layers = contracts["importlinter:contract:layers"]["layers"].split()
    core = (
        "toolcrib.registry",
        "toolcrib.component",
        "toolcrib.definition",
        "toolcrib.errors",
    )
    positions = [layers.index(module) for module in ("toolcrib.server", "toolcrib.dispatch", *core)]
    assert positions == sorted(positions)
    loaded = "import sys, types\n"
    loaded += "package = types.ModuleType('toolcrib'); package.__path__ = [sys.argv[1]]\n"
    loaded += "sys.modules['toolcrib'] = package\nimport toolcrib.registry\n"
    loaded += "print(sorted(name for name in sys.modules if name.startswith('toolcrib.')))"
    command = [sys.executable, "-c", loaded, str(ROOT / "src" / "toolcrib")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "toolcrib.registry" in output
    for higher in ("toolcrib.server", "toolcrib.dispatch", "toolcrib.protocol", "toolcrib.cli"):
        assert higher not in output


def test_a_23_nothing_but_the_registry_is_needed_to_hold_tools() -> None:
    tools = ToolRegistry()
    tools.add_all(collect(EchoTool(), named("other")).tools)
    assert [definition.name for definition in tools.definitions()] == ["echo", "other"]
