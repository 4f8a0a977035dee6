"""The MCP Inspector's two command lines against `toolcrib serve`: tools, resources, prompts and tasks.

`--cli` has no method for completion, subscriptions and tasks. `mcpdo` has: it keeps a connection in a process
of its own.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.server_processes import ServerProcess, child_environment, serving
from tests.support.system.node import Node

INSPECTOR = ("@modelcontextprotocol/inspector", "clients", "launcher", "build", "index.js")
MCPDO = ("@modelcontextprotocol/inspector", "clients", "mcpdo", "build", "mcp-bin.js")
STDIO = [sys.executable, "-m", "toolcrib", "serve", "--stdio"]
SAMPLES = ["hello_world", "echo", "get_time", "math_add", "debug_info"]
SUM = {"legacy": {"result": 15}, "modern": 15}
"""Before 2026-07-28 structured data had to be an object."""
RUN_S = 60.0


FEATURES = '''
import asyncio
from pathlib import Path

from toolcrib import MCPServer

server = MCPServer("shop", state=f"sqlite:///{Path(__file__).with_name('tasks.db')}")
server.add_resource("shop://hours", "9 to 5", description="When the shop is open")


@server.resource("shop://orders/{id}")
def order(id: int) -> dict[str, int]:
    """One order."""
    return {"id": id}


@server.prompt
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"


@greet.complete("name")
def complete_name(value: str) -> list[str]:
    return [name for name in ("Ada", "Alan", "Grace") if name.startswith(value)]


@server.tool
async def reopen() -> str:
    """Change the hours."""
    await server.resource_changed("shop://hours")
    return "changed"


@server.tool(task="always")
async def count_stock() -> str:
    """Count everything."""
    await asyncio.sleep(0.1)
    return "all counted"
'''


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving("-m", "toolcrib", "serve", "--samples", "--port", "{port}") as running:
        yield running


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shop") / "shop.py"
    path.write_text(FEATURES)
    return path


@pytest.fixture(scope="module")
def shop_server(shop: Path) -> Iterator[ServerProcess]:
    with serving("-m", "toolcrib", "serve", str(shop), "--port", "{port}") as running:
        yield running


@pytest.fixture
def inspector(node: Node, tmp_path: Path) -> Any:
    """Run the Inspector with its own home folder and return its output."""

    def run(era: str, target: list[str], *arguments: str) -> Any:
        command = [str(node.program), str(node.package(*INSPECTOR)), "--cli", "--protocol-era", era]
        command += ["-e", f"PYTHONPATH={child_environment()['PYTHONPATH']}"]
        command += ["--format", "json", *arguments, "--", *target]
        home = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **home}, capture_output=True, text=True, timeout=RUN_S
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["result"]

    return run


def check(inspector: Any, era: str, target: list[str]) -> None:
    """`--strict` makes the Inspector check the schemas for portability."""
    listed = inspector(era, target, "--method", "tools/list", "--strict")
    assert [tool["name"] for tool in listed["tools"]] == SAMPLES
    call = ["--method", "tools/call", "--tool-name", "math_add", "--tool-args-json", '{"a": 10, "b": 5}']
    result = inspector(era, target, *call)
    assert result["content"] == [{"type": "text", "text": "10 + 5 = 15"}]
    assert result["structuredContent"] == SUM[era]


@pytest.mark.parametrize("era", [pytest.param("modern", marks=pytest.mark.long), "legacy"])
def test_the_inspector_lists_and_calls_over_http(inspector: Any, server: ServerProcess, era: str) -> None:
    check(inspector, era, [server.url])


@pytest.mark.parametrize("era", [pytest.param("legacy", marks=pytest.mark.long), "modern"])
def test_the_inspector_lists_and_calls_over_stdio(inspector: Any, era: str) -> None:
    check(inspector, era, [*STDIO, "--samples"])


def check_features(inspector: Any, era: str, target: list[str]) -> None:
    read = inspector(era, target, "--method", "resources/read", "--uri", "shop://orders/7")
    assert read["contents"][0]["text"] == '{"id":7}'
    asked = ["--method", "prompts/get", "--prompt-name", "greet", "--prompt-args", "name=Ada"]
    assert inspector(era, target, *asked)["messages"][0]["content"]["text"] == "Hello Ada"


def check_lists(inspector: Any, era: str, target: list[str]) -> None:
    listed = inspector(era, target, "--method", "resources/list")
    assert [entry["uri"] for entry in listed["resources"]] == ["shop://hours"]
    listed = inspector(era, target, "--method", "resources/templates/list")
    assert [entry["uriTemplate"] for entry in listed["resourceTemplates"]] == ["shop://orders/{id}"]
    listed = inspector(era, target, "--method", "prompts/list")
    assert [entry["name"] for entry in listed["prompts"]] == ["greet"]


@pytest.mark.parametrize("era", [pytest.param("modern", marks=pytest.mark.long), "legacy"])
def test_the_inspector_reads_resources_and_gets_prompts_over_http(
    inspector: Any, shop_server: ServerProcess, era: str
) -> None:
    check_features(inspector, era, [shop_server.url])


@pytest.mark.parametrize("era", [pytest.param("legacy", marks=pytest.mark.long), "modern"])
def test_the_inspector_reads_resources_and_gets_prompts_over_stdio(
    inspector: Any, shop: Path, era: str
) -> None:
    check_features(inspector, era, [*STDIO, str(shop)])


@pytest.mark.long
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_lists_resources_templates_and_prompts(
    inspector: Any, shop: Path, shop_server: ServerProcess, era: str
) -> None:
    check_lists(inspector, era, [shop_server.url])
    check_lists(inspector, era, [*STDIO, str(shop)])


@pytest.fixture
def mcpdo(node: Node, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start mcpdo with its own home folder and daemon."""
    with tempfile.TemporaryDirectory(prefix="mcpdo-") as folder:  # the path of a socket must be short
        environ = {**os.environ, "HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
        environ |= {"MCP_INSPECTOR_DAEMON_DIR": folder, "MCP_INSPECTOR_DAEMON_TOKEN": "only-for-this-test"}
        environ |= {"MCP_INSPECTOR_SECRET_STORE": "file"}

        def start(*arguments: str) -> subprocess.Popen[str]:
            command = [str(node.program), str(node.package(*MCPDO)), "--format", "json", *arguments]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            return subprocess.Popen(command, cwd=tmp_path, env=environ, text=True, **pipes)

        try:
            yield start
        finally:
            output_of(start("daemon", "stop"))


def output_of(process: subprocess.Popen[str]) -> Any:
    """Return the JSON that a program prints, which must succeed."""
    with process:
        output, errors = process.communicate(timeout=RUN_S)
    assert process.returncode == 0, output + errors
    return json.loads(output)


def read_object(process: subprocess.Popen[str]) -> Any:
    """Return the next JSON object, printed over several lines, of a program that goes on."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line == "}\n" or (line.startswith("{") and line.endswith("}\n")):
            return json.loads("".join(lines))
    raise AssertionError(f"mcpdo ended: {lines}")


@pytest.mark.parametrize("era", [pytest.param("legacy", marks=pytest.mark.long), "modern"])
@pytest.mark.parametrize("transport", [pytest.param("stdio", marks=pytest.mark.long), "http"])
def test_the_inspector_completes_subscribes_and_runs_a_task(
    mcpdo: Callable[..., subprocess.Popen[str]],
    shop: Path,
    shop_server: ServerProcess,
    era: str,
    transport: str,
) -> None:
    source = f"PYTHONPATH={child_environment()['PYTHONPATH']}"
    target = ["-e", source, "--", *STDIO, str(shop)] if transport == "stdio" else [shop_server.url]
    connected = output_of(mcpdo("connect", "--era", era, "--transport", transport, *target))
    assert connected["protocolEra"] == era
    name = ["--connection", connected["name"]]
    prompt = ["--complete-ref-type", "ref/prompt", "--complete-ref", "greet", "--complete-arg-name", "name"]
    completed = output_of(mcpdo(*name, "prompts/complete", *prompt, "--complete-arg-value", "A"))
    assert completed["values"] == ["Ada", "Alan"]
    with mcpdo(*name, "resources/subscribe", "shop://hours") as subscribed:
        assert read_object(subscribed) == {"type": "subscribed", "uri": "shop://hours"}
        output_of(mcpdo(*name, "tools/call", "reopen"))
        assert read_object(subscribed)["uri"] == "shop://hours"
        subscribed.terminate()
    before = count_tasks(shop)
    called = output_of(mcpdo(*name, "tools/call", "count_stock"))
    assert called["content"] == [{"type": "text", "text": "all counted"}]
    assert count_tasks(shop) - before == (era == "modern")  # older revisions have no tasks, and wait


def count_tasks(shop: Path) -> int:
    """Return how many calls have become tasks."""
    file = shop.with_name("tasks.db")
    if not file.exists():
        return 0
    with closing(sqlite3.connect(file)) as db:
        return int(db.execute("SELECT count(*) FROM task").fetchone()[0])
