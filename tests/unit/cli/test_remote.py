"""`list`, `show` and `call` against a running server: an address, or the command that starts it."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers.serve_process import Serving

from .conftest import ADD, CommandLine

PEER = '''
import asyncio

from toolcrib import Context, MCPServer

server = MCPServer("peer", version="1.2.3")
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 30}},
    "required": ["name"],
}

@server.tool(read_only=True)
def add(a: int, b: int = 1) -> int:
    """Add two whole numbers."""
    return a + b

@server.tool(title="An echo")
def echo(text: str) -> str:
    """Say it again."""
    return text

@server.tool
async def count(upto: int, ctx: Context) -> str:
    """Count and report the progress."""
    for number in range(1, upto + 1):
        await ctx.progress(number, upto, f"at {number}")
        await ctx.log("info", f"line {number}")
    return f"counted to {upto}"

@server.tool
async def wait() -> str:
    """Wait for a long time."""
    await asyncio.sleep(60)
    return "done"

@server.tool
async def greet(ctx: Context) -> str:
    """Ask for a name, and greet."""
    person = await ctx.ask("who", "Who are you?", PERSON)
    return f"Hello, {person['name']} ({person['age']})" if person else f"They {person.action}."
'''
SERVER = """
import json, sys
TOOLS = {tools!r}
for line in sys.stdin:
    request = json.loads(line)
    results = {{
        "initialize": {{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}}}},
        "tools/list": {{"tools": TOOLS}},
        "tools/call": {{"content": [], "isError": True}},
    }}
    if "id" in request:
        result = results.get(request["method"])
        body = {{"result": result}} if result else {{"error": {{"code": -32601, "message": "no"}}}}
        print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], **body}}), flush=True)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("peer") / "peer.py"
    found.write_text(PEER)
    return found


@pytest.fixture(scope="module")
def address(file: Path) -> Iterator[str]:
    with Serving("peer.py", cwd=file.parent) as serving:
        yield serving.address


@pytest.fixture(scope="module")
def command(file: Path) -> str:
    return shlex.join([sys.executable, "-m", "toolcrib", "serve", "--stdio", str(file)])


def write_server(cli: CommandLine, *tools: object) -> str:
    return shlex.join([sys.executable, str(cli.write("server.py", SERVER.format(tools=list(tools))))])


# --- list ---


def test_the_tools_at_an_address_are_listed(cli: CommandLine, address: str) -> None:
    done = cli.run("list", address)
    assert done.exit_code == 0
    assert "Add two whole numbers" in done.stdout.splitlines()[1]
    assert done.stdout.splitlines()[1].endswith("a: integer, b?: integer")
    assert done.stderr == "note: peer 1.2.3, MCP 2026-07-28\n"


def test_the_tools_of_a_command_are_listed(cli: CommandLine, command: str) -> None:
    done = cli.run("list", "--command", command, "--protocol", "2025-11-25")
    assert done.exit_code == 0
    assert "add " in done.stdout
    assert "MCP 2025-11-25" in done.stderr


def test_the_json_has_the_shape_of_a_local_list(cli: CommandLine, address: str) -> None:
    cli.write("tools.py", ADD)
    here = cli.json("list", "tools.py", "--json")
    done = cli.run("list", address, "--json", "--include", "add")
    there = json.loads(done.stdout)
    assert done.stderr == ""
    assert here.keys() == there.keys() == {"tools", "findings"}
    (tool,) = there["tools"]
    assert tool["inputSchema"]["required"] == ["a"]
    assert tool["annotations"] == {"readOnlyHint": True}
    assert tool["source"] == {"file": address, "line": None}
    assert there["findings"] == []


def test_problems_of_remote_tools_are_warnings(cli: CommandLine) -> None:
    fine = {"name": "fine", "description": "Fine.", "inputSchema": {"type": "object"}}
    odd = {"name": "o d d", "description": "a\u200bb\x1b[2J", "inputSchema": {"type": "string"}, "icons": [1]}
    command = write_server(cli, fine, odd)
    document = cli.json("list", "--command", command, "--json")
    assert [tool["name"] for tool in document["tools"]] == ["fine", "o d d"]
    assert {finding["tool"] for finding in document["findings"]} == {"o d d"}
    assert {finding["level"] for finding in document["findings"]} == {"warning"}
    done = cli.run("list", "--command", command)
    assert done.exit_code == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "warning: " in done.stderr


# --- show ---


def test_everything_about_a_remote_tool_is_shown(cli: CommandLine, address: str, command: str) -> None:
    done = cli.run("show", "-t", address, "add")
    assert done.exit_code == 0
    for words in ("Add two whole numbers", "required", "default 1", "read-only", address, "at the server"):
        assert words in done.stdout
    document = cli.json("show", "--command", command, "echo", "--json")
    assert (document["name"], document["title"]) == ("echo", "An echo")
    assert {"source", "fingerprint", "tags", "version", "run", "timeout_s"} <= document.keys()


def test_an_unknown_remote_tool_gets_a_suggestion(cli: CommandLine, address: str) -> None:
    for command in ("show", "call"):
        done = cli.run(command, "-t", address, "ehco")
        assert done.exit_code == 2
        assert done.stderr == "error: Unknown tool: ehco\nhint: did you mean 'echo'?\n"


def test_a_command_with_targets_as_arguments_says_so_where_they_are_given_as_an_option(
    cli: CommandLine, address: str
) -> None:
    done = cli.run("list", "-t", address)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: No such option: -t\nhint: name targets without it: ")
    assert done.stderr.endswith(" list TARGET\n")


# --- call ---


def test_a_call_of_a_hidden_tool_is_recorded_by_the_server(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    cli.write(
        "toolcrib.toml",
        '[server]\ntargets = ["tools.py"]\n[[rules]]\ndeny = ["add"]\n[audit]\nfile = "audit.db"\n',
    )
    server = shlex.join([sys.executable, "-m", "toolcrib", "serve", "--stdio"])
    done = cli.run("call", "--command", server, "add", "a=1", "b=2")
    assert (done.exit_code, done.stderr) == (2, "error: Unknown tool: add\n")
    recorded = [json.loads(line) for line in cli.run("audit", "query", "--json").stdout.splitlines()]
    assert [(item["tool"], item["outcome"]) for item in recorded if item["kind"] == "call"] == [
        ("add", "denied")
    ]


def test_a_remote_tool_is_called(cli: CommandLine, address: str, command: str) -> None:
    assert cli.run("call", "-t", address, "add", "a=2", "b=40").stdout == "42\n"
    assert cli.run("call", "--command", command, "echo", "text=17").stdout == "17\n"
    document = cli.json("call", "-t", address, "add", "--json", '{"a": 2}')
    assert (document["structuredContent"], document["isError"]) == (3, False)


def test_the_time_for_a_call_can_be_limited(cli: CommandLine, address: str) -> None:
    started = time.monotonic()
    done = cli.run("call", "-t", address, "wait", "--timeout", "0.3")
    assert time.monotonic() - started < 10
    assert done.exit_code == 1
    assert done.stderr == f"error: {address}: no response to tools/call within 0.3 s\n"


def test_a_question_is_declined_without_a_terminal(cli: CommandLine, address: str) -> None:
    for options in ([], ["--protocol", "2025-11-25"]):
        done = cli.run("call", "-t", address, "greet", *options)
        assert done.stdout == "They decline.\n"
        assert done.stderr == "note: declined, because stdin is not a terminal: Who are you?\n"


def test_progress_is_not_shown_without_a_terminal(cli: CommandLine, address: str) -> None:
    done = cli.run("call", "-t", address, "count", "upto=3")
    assert (done.stdout, done.stderr) == ("counted to 3\n", "")


def test_debug_shows_the_servers_log(cli: CommandLine, command: str) -> None:
    done = cli.run("call", "--command", command, "count", "upto=1", "--debug")
    assert "info: line 1" in done.stderr


# --- mistakes ---


def test_stderr_of_a_server_that_exits_is_shown(cli: CommandLine) -> None:
    path = cli.write("server.py", "import nowhere_to_be_found")
    done = cli.run("list", "--command", shlex.join([sys.executable, str(path)]))
    assert done.exit_code == 1
    assert "exited with code 1. Its stderr:" in done.stderr
    assert "ModuleNotFoundError: No module named 'nowhere_to_be_found'" in done.stderr


def test_an_invalid_header_is_not_printed(cli: CommandLine) -> None:
    done = cli.run("list", "http://127.0.0.1:1/", "--header", "Bearer-s3cret")
    assert "s3cret" not in done.stderr
    done = cli.run("list", "http://127.0.0.1:1/", "--header", "A: s3cret\nB: c")
    assert done.exit_code == 1
    assert "s3cret" not in done.stderr


# --- a person at the terminal ---


class TestAtTheTerminal:
    def converse(self, words: list[tuple[str, str]], *arguments: str) -> tuple[int, str]:
        """The exit code and all that was shown; each answer is typed once its question is there."""
        pid, terminal = pty.fork()
        if pid == 0:  # pragma: no cover - the child
            code = "from toolcrib.cli import main; main()"
            os.execve(sys.executable, [sys.executable, "-c", code, *arguments], dict(os.environ))
        shown, deadline = "", time.monotonic() + 30
        waiting = list(words)
        while time.monotonic() < deadline:
            if waiting and waiting[0][0] in shown:
                os.write(terminal, waiting.pop(0)[1].encode())
            if select.select([terminal], [], [], 0.05)[0]:
                try:
                    shown += os.read(terminal, 4096).decode("utf-8", "replace")
                except OSError:
                    break
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.replace("\r\n", "\n")

    @pytest.mark.parametrize("protocol", ["2026-07-28", "2025-11-25"])
    def test_a_form_is_filled_in_field_by_field(self, address: str, protocol: str) -> None:
        words = [
            ("name, string:", "\n"),
            ("a value is required", "Ada\n"),
            ("age, integer [30]:", "old\n"),
            ("expected integer", "36\n"),
            ("[y/n]", "y\n"),
        ]
        code, shown = self.converse(words, "call", "-t", address, "greet", "--protocol", protocol)
        assert code == 0
        assert 'Send {"name": "Ada", "age": 36}? [y/n]' in shown
        assert shown.endswith("Hello, Ada (36)\n")

    def test_a_default_is_kept_and_a_form_can_be_declined(self, address: str) -> None:
        words = [("name, string:", "Ada\n"), ("[30]:", "\n"), ("[y/n]", "no\n")]
        code, shown = self.converse(words, "call", "-t", address, "greet")
        assert (code, '{"name": "Ada", "age": 30}' in shown) == (0, True)
        assert "They decline." in shown

    def test_the_end_of_input_cancels_the_question(self, address: str) -> None:
        code, shown = self.converse([("name, string:", "\x04")], "call", "-t", address, "greet")
        assert (code, "They cancel." in shown) == (0, True)

    def test_progress_is_one_line_that_is_cleared(self, address: str) -> None:
        code, shown = self.converse([], "call", "-t", address, "count", "upto=3")
        assert code == 0
        assert "\r3/3 at 3" in shown
        assert shown.endswith("\rcounted to 3\n")
