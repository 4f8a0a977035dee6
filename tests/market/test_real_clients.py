"""Claude Code, Gemini CLI and Codex, as people install them, connect to a server after `toolcrib connect`.

No key is needed: each client has a command that starts its servers and tells how they are. Over HTTP the
server also records what the client said first. A long test that installs 900 MB from npm: `TOOLCRIB_SOAK=1`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.system.node import MissingError, Node, find_node
from tests.support.system.requires import lack

pytestmark = pytest.mark.long

CLIENTS = Path(__file__).parent / "clients"
TIMEOUT_S = 120
TOOLS = '''
from toolcrib import tool


@tool(read_only=True)
def find_order(number: int) -> str:
    """Find an order.

    Args:
        number: The number of the order
    """
    return f"order {number}"
'''
RECORDER = """
import json
import socket
import sys

import uvicorn

from toolcrib import MCPServer

server = MCPServer("shop")
server.add("tools.py")
app = server.asgi()


async def record(scope, receive, send):
    async def listen():
        message = await receive()
        if scope["type"] == "http" and message.get("body"):
            headers = {key.decode(): value.decode() for key, value in scope["headers"]}
            with open("messages.jsonl", "a") as log:
                log.write(json.dumps({"headers": headers, "message": json.loads(message["body"])}) + "\\n")
        return message

    await app(scope, listen, send)


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(record, log_level="error")).run([listener])
"""


@pytest.fixture(scope="session")
def installed() -> Node:
    """The clients, with a Node.js for the one that needs it."""
    try:
        return find_node(CLIENTS)
    except MissingError as missing:
        lack(str(missing))


class Home:
    """A home folder of its own, with a project that has tools, so that no real configuration is touched."""

    def __init__(self, folder: Path, node: Node) -> None:
        self.node = node
        self.project = folder / "project"
        self.project.mkdir()
        (self.project / "tools.py").write_text(TOOLS)
        kept = ("PATH", "LANG", "TERM", "SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONPATH")
        self.environ = {key: os.environ[key] for key in kept if key in os.environ}
        self.environ |= {
            "HOME": str(folder),
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "NO_COLOR": "1",
        }

    def run(self, *words: str | Path, stdin: str | None = None) -> str:
        done = subprocess.run(
            list(map(str, words)),
            cwd=self.project,
            env=self.environ,
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def connect(self, *words: str) -> None:
        self.run(sys.executable, "-m", "toolcrib", "connect", *words, "--name", "shop")

    def program(self, pattern: str) -> Path:
        """Return the one installed program that matches: there is a package for each platform."""
        suffix = ".exe" if os.name == "nt" else ""
        (found,) = self.node.folder.joinpath("node_modules").glob(f"{pattern}{suffix}")
        return found

    # --- one way per client to start its servers and see how they are ---

    def ask_claude(self) -> str:
        return self.run(self.program("@anthropic-ai/claude-code-*/claude"), "mcp", "list")

    def ask_gemini(self) -> str:
        package = self.node.package("@google/gemini-cli")
        script = json.loads((package / "package.json").read_text())["bin"]["gemini"]
        return self.run(self.node.program, package / script, "mcp", "list")

    def ask_codex(self) -> Any:
        """Ask the app server, which is what editors talk to: `codex mcp list` starts nothing."""
        program = self.program("@openai/codex-*/vendor/*/bin/codex")
        messages = (
            {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "test", "version": "1"}}},
            {"method": "initialized"},
            {"id": 2, "method": "mcpServerStatus/list", "params": {}},
        )
        with subprocess.Popen(
            [program, "app-server"],
            cwd=self.project,
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for message in messages:
                process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            try:
                for line in process.stdout:
                    if json.loads(line).get("id") == 2:
                        return json.loads(line)["result"]["data"]
            finally:
                process.kill()
        raise AssertionError("codex ended without an answer")


@pytest.fixture
def home(tmp_path: Path, installed: Node) -> Home:
    return Home(tmp_path, installed)


def check_claude(home: Home) -> None:
    (line,) = [line for line in home.ask_claude().splitlines() if line.startswith("shop: ")]
    assert line.endswith("Connected"), line


def check_gemini(home: Home) -> None:
    (line,) = [line for line in home.ask_gemini().splitlines() if " shop: " in line]
    assert line.endswith("Connected"), line
    assert "Disconnected" not in line


def check_codex(home: Home) -> None:
    (server,) = home.ask_codex()
    assert server["name"] == "shop"
    assert list(server["tools"]) == ["find_order"]


Check = Callable[[Home], None]
each_client = pytest.mark.parametrize(
    ("client", "check", "name"),
    [
        ("claude-code", check_claude, "claude"),
        ("gemini", check_gemini, "mcp-test-client"),  # its name for `gemini mcp list`
        ("codex", check_codex, "codex"),
    ],
)


@each_client
def test_a_real_client_starts_the_server(client: str, check: Check, name: str, home: Home) -> None:
    home.connect(client, "tools.py")
    check(home)


@pytest.fixture
def recorder(home: Home) -> Iterator[str]:
    """The address of a server that writes every message to `messages.jsonl`."""
    (home.project / "recorder.py").write_text(RECORDER)
    with subprocess.Popen(
        [sys.executable, "recorder.py"], cwd=home.project, env=home.environ, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        finally:
            process.terminate()


@each_client
def test_a_real_client_greets_a_running_server_with_its_key(
    client: str, check: Check, name: str, home: Home, recorder: str
) -> None:
    home.connect(client, "--url", recorder, "--key", "s3cret")
    check(home)
    first = json.loads((home.project / "messages.jsonl").read_text().splitlines()[0])
    assert first["message"]["method"] in ("initialize", "server/discover")
    assert first["headers"]["authorization"] == "Bearer s3cret"
    assert name in json.dumps(first["message"]["params"]).lower()
    print(f"{client}: {json.dumps(first['message'])}")
