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
from tests.support.system.source_folders import forgotten_imports
from toolcrib import Context, MCPServer, ToolRegistry
from toolcrib.errors import ToolTimeoutError

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


@pytest.mark.requirement("A-02", "X-04")
def test_names_are_unique_whatever_their_case(tools: ToolRegistry) -> None:
    tool = tools.add(named("Echo"))
    for spelling in ("echo", "ECHO", "Echo"):
        assert tools.get(spelling) is tool
        with pytest.raises(ValueError, match=f"(?m)^Tool '{spelling}' already registered$"):
            tools.add(named(spelling))
    assert names(tools) == ["Echo"]


@pytest.mark.requirement("A-18")
async def test_a_tool_can_be_cancelled_and_has_a_deadline() -> None:
    server = MCPServer()
    seen, release = threading.Event(), threading.Event()
    cleaned: list[str] = []

    @server.tool(timeout_s=0.05)
    def block(ctx: Context) -> str:
        """Work until no caller waits."""
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


@pytest.mark.requirement("A-23")
def test_the_core_does_not_know_the_server() -> None:
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
