"""The MCP Inspector's command line against `toolcrib serve`: the sample tools, resources and prompts.

Its `--cli` has no method for completion, subscriptions and tasks; `test_typescript_clients.py` and
`test_suite.py` cover these.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import Node
from tests.support.server_processes import ServerProcess, child_environment, serving

INSPECTOR = ("@modelcontextprotocol/inspector", "clients", "launcher", "build", "index.js")
STDIO = [sys.executable, "-m", "toolcrib", "serve", "--stdio"]
SAMPLES = ["hello_world", "echo", "get_time", "math_add", "debug_info"]
SUM = {"legacy": {"result": 15}, "modern": 15}
"""Before 2026-07-28 structured data had to be an object."""
RUN_S = 60.0


FEATURES = '''
from toolcrib import MCPServer

server = MCPServer("shop")
server.add_resource("shop://hours", "9 to 5", description="When the shop is open")


@server.resource("shop://orders/{id}")
def order(id: int) -> dict[str, int]:
    """One order."""
    return {"id": id}


@server.prompt
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"
'''


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving("-m", "toolcrib", "serve", "--port", "{port}") as running:
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
    check(inspector, era, STDIO)


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
