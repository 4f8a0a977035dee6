"""`toolcrib serve` in a process of its own: what it serves, what it prints, and how it stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.serve_process import SOURCES, Calling, Serving, start

from .conftest import ADD, CommandLine

SAMPLES = ["hello_world", "echo", "get_time", "math_add", "debug_info"]
WORK = '''
import asyncio, os, subprocess, sys, time
from toolcrib import tool

print("printed on import")

@tool
async def slow(seconds: float) -> str:
    """Wait."""
    print("waiting", file=sys.stderr, flush=True)
    await asyncio.sleep(seconds)
    return "slept"

@tool(run="inline")
def hog(seconds: float) -> str:
    """Block the loop."""
    print("waiting", file=sys.stderr, flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return "hogged"

@tool
async def linger(seconds: float) -> str:
    """Wait in a thread that nobody can end."""
    return await asyncio.to_thread(time.sleep, seconds) or "lingered"

@tool
def noisy() -> str:
    """Write where it should not."""
    print("one"); os.write(1, b"two\\n"); sys.__stdout__.write("three\\n")
    subprocess.run(["echo", "four"], check=True)
    return "done"

@tool
def boom() -> str:
    """Raise."""
    raise RuntimeError("the secret")

@tool
def bad(*args) -> str:
    """Cannot be a tool."""
    return ""
'''


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving("--samples", cwd=tmp_path_factory.mktemp("samples")) as serving:
        yield serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("work")
    (path / "work.py").write_text(WORK)
    return path


# --- serving ------------------------------------------------------------------------------------------


def test_the_samples_are_served_to_clients_of_both_eras(samples: Serving) -> None:
    assert samples.names() == samples.info["tools"] == SAMPLES
    assert [tool["name"] for tool in samples.ask_modern("tools/list")["tools"]] == SAMPLES
    assert samples.call("math_add", a=10, b=5) == "10 + 5 = 15"
    done = samples.ask_modern("tools/call", name="math_add", arguments={"a": 10, "b": 5})
    assert done["structuredContent"] == 15
    assert json.loads(samples.call("debug_info"))["tools"] == SAMPLES


def test_json_prints_the_address_on_one_line(samples: Serving) -> None:
    assert samples.info["pid"] == samples.process.pid
    assert samples.info["address"].startswith("http://127.0.0.1:")
    assert (samples.info["workers"], samples.info["findings"]) == (1, [])


def test_other_hosts_and_origins_are_refused(samples: Serving) -> None:
    assert samples.post({}, host="evil.example")[0] == 421
    assert samples.post({}, origin="https://evil.example")[0] == 403


def test_the_start_message_has_the_url_the_tools_and_entries_for_clients(cli: CommandLine) -> None:
    process = start("serve", "--samples", "--port", "0", cwd=cli.folder)
    assert process.stderr is not None
    assert process.stdout is not None
    with process:
        lines: list[str] = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert (process.stdout.read(), process.stderr.read()) == ("", "")
    words = "".join(lines)
    assert words.startswith("toolcrib: serving 5 tools at\n  http://127.0.0.1:")
    assert "  echo: Echo back the input message\n" in words
    assert "  disabled: list_files, read_file (" in words
    http, stdio = (
        json.loads(line)["mcpServers"]["toolcrib-samples"] for line in lines if '"mcpServers"' in line
    )
    assert http["url"] == lines[1].strip()
    ping = '{"jsonrpc":"2.0","id":7,"method":"ping"}\n'
    done = subprocess.run(
        [stdio["command"], *stdio["args"]],
        input=ping,
        capture_output=True,
        text=True,
        check=True,
        cwd="/",  # a client's folder is any
        env={**os.environ, "PYTHONPATH": SOURCES},
    )
    assert (json.loads(done.stdout), done.stderr) == ({"jsonrpc": "2.0", "id": 7, "result": {}}, "")


def test_bad_tools_and_targets_do_not_hide_the_others(folder: Path) -> None:
    (folder / "broken.py").write_text("def broken(:\n")
    with Serving("work.py", "missing.py", "broken.py", "toolcrib.samples", cwd=folder) as serving:
        assert serving.names() == ["slow", "hog", "linger", "noisy", "boom", *SAMPLES]
        serving.wait_for("error: No such file or folder: missing.py\n")
        serving.wait_for("error: broken.py:1: broken.py has a syntax error")
        serving.wait_for("error: work.py:40: Tool 'bad' takes *args")
        assert len(serving.info["findings"]) == 3


def test_the_command_line_overrides_the_settings_of_the_file(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    cli.write(
        "toolcrib.toml",
        """
        [server]
        name = "desk"
        version = "3"
        title = "The desk"
        instructions = "Be brief."
        targets = ["tools.py", "toolcrib.samples"]
        page_size = 4
        [http]
        path = "/tools/"
        allowed_hosts = ["desk.example"]
        """,
    )
    with Serving("--name", "table", "--allow-host", "table.example", cwd=cli.folder) as serving:
        assert serving.address.endswith("/tools")
        facts = serving.ask(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={},
            clientInfo={"name": "x", "version": "1"},
        )
        assert facts["serverInfo"] == {"name": "table", "version": "3", "title": "The desk"}
        assert facts["instructions"] == "Be brief."
        page = serving.ask("tools/list")
        assert len(page["tools"]) == 4
        assert len(serving.ask("tools/list", cursor=page["nextCursor"])["tools"]) == 2
        for host in ("desk.example", "table.example:80"):
            assert serving.post({}, host=host)[0] == 400


def test_a_server_object_is_served_itself(cli: CommandLine) -> None:
    cli.write(
        "shop.py",
        """
        from toolcrib import MCPServer

        server = MCPServer("shop", version="2.1", instructions="Prices in EUR", dynamic=True)

        @server.tool
        def grow() -> str:
            "Add a tool."
            server.tool("fresh", "A new one", {"type": "object", "properties": {}})(fresh)
            return "grown"

        async def fresh(arguments: dict) -> str:
            return "fresh"
        """,
    )
    with Serving("shop.py", cwd=cli.folder) as serving:
        assert serving.info["name"] == "shop"
        assert serving.call("grow") == "grown"
        assert serving.names() == ["grow", "fresh"]
        assert serving.ask_modern("server/discover")["instructions"] == "Prices in EUR"


def test_exceptions_of_tools_are_logged_with_their_location(folder: Path) -> None:
    with Serving("work.py", cwd=folder) as serving:
        assert "the secret" not in serving.call("boom")
        serving.wait_for("error: tool 'boom' raised RuntimeError: the secret")
        serving.wait_for("work.py")


def test_a_closed_stderr_does_not_stop_the_server(folder: Path) -> None:
    (folder / "quiet.py").write_text(WORK.replace('print("printed on import")', ""))
    process = start("serve", "--port", "0", "--json", "quiet.py", cwd=folder)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stderr.close()  # it has a bad tool to tell of, and one that raises
    with process:
        address = json.loads(process.stdout.readline())["address"]
        request = urllib.request.Request(
            address, _call("boom").encode(), {"content-type": "application/json"}
        )
        for _ in range(3):
            with urllib.request.urlopen(request) as answer:
                assert json.loads(answer.read())["result"]["isError"] is True
        process.terminate()
        assert process.wait(20) == 0


# --- shutdown -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["slow", "hog"])
def test_the_second_signal_stops_at_once_even_if_the_loop_is_blocked(folder: Path, tool: str) -> None:
    with Serving("work.py", cwd=folder) as serving:
        calling = Calling(serving, tool, seconds=30.0)
        serving.wait_for("waiting")
        assert serving.end(signal.SIGINT, signal.SIGTERM, timeout_s=5) in (-signal.SIGTERM, -signal.SIGINT)
        calling.join(20)
        assert isinstance(calling.outcome, Exception)
    assert "Traceback" not in serving.errors


# --- stdio --------------------------------------------------------------------------------------------


def _call(name: str, **arguments: object) -> str:
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": params}) + "\n"


INITIALIZE = (
    '{"jsonrpc":"2.0","id":0,"method":"initialize",'
    '"params":{"protocolVersion":"2025-11-25","capabilities":{}}}\n'
)


AS_ON_WINDOWS = """
from toolcrib.cli import main
from toolcrib.transports import stdio
assert stdio.WAITS_FOR_PIPES
stdio.WAITS_FOR_PIPES = False
sys.argv[1:1] = ["serve", "--stdio"]
main()
"""
"""The command where the event loop cannot wait for pipes, so that threads read and write them."""


@pytest.fixture(params=["loop", "threads"])
def start_stdio(request: pytest.FixtureRequest) -> Callable[..., Any]:
    if request.param == "loop":
        return partial(start, "serve", "--stdio", stdin=subprocess.PIPE)
    return partial(start, stdin=subprocess.PIPE, command=("-c", AS_ON_WINDOWS))


def test_on_stdio_only_errors_are_printed_and_only_on_stderr(
    folder: Path, start_stdio: Callable[..., Any]
) -> None:
    process = start_stdio("work.py", cwd=folder)
    out, err = process.communicate(INITIALIZE + _call("noisy"), 60)
    assert [json.loads(line)["id"] for line in out.splitlines()] == [0, "noisy"]
    printed = ["printed on import", "one", "two", "three", "four"]
    assert sorted(line for line in err.splitlines() if line in printed) == sorted(printed)
    said = [line for line in err.splitlines() if line not in printed]
    assert said[0] == "error: work.py:40: Tool 'bad' takes *args, which no schema can describe"
    assert len(said) == 2
    assert process.returncode == 0


def test_on_stdio_a_client_that_reads_nothing_is_left(
    folder: Path, start_stdio: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "long.py").write_text(
        "".join(
            f'@tool\ndef write_{number}() -> str:\n    """Return much."""\n    return "x" * 1_000_000\n'
            for number in range(30)
        ).join(("from toolcrib import tool\n", ""))
    )
    process = start_stdio("long.py", cwd=tmp_path)
    with process:
        process.stdin.write(INITIALIZE + "".join(_call(f"write_{number}") for number in range(30)))
        process.stdin.flush()
        assert process.wait(20) == 0
        assert "the client does not read its messages" in process.stderr.read()


def test_on_stdio_a_signal_stops_it_with_exit_code_0(folder: Path, start_stdio: Callable[..., Any]) -> None:
    process = start_stdio("work.py", cwd=folder)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        process.stdin.write(INITIALIZE)
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert "Traceback" not in process.stderr.read()


# --- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--stdio", "--port", "1"], "--port cannot be combined with --stdio"),
        (["--stdio", "--json"], "--json cannot be combined with --stdio"),
        (["--stdio", "--workers", "2"], "--workers cannot be combined with --stdio"),
        (["--path", "mcp"], "must be a path such as /mcp"),
        (["--port", "99999"], "99999 is not in the range"),
        (["--host", "nowhere.invalid"], "Unknown host: nowhere.invalid"),
        (["--host", "192.0.2.1"], "Cannot bind 192.0.2.1: not a local address"),
        (["missing.py", "--port", "0"], "No such file or folder: missing.py"),
        (["http://127.0.0.1:9/mcp", "--port", "0"], "it is a running server"),
    ],
)
def test_invalid_usage_is_reported_before_anything_is_served(
    cli: CommandLine, arguments: list[str], words: str
) -> None:
    done = cli.run("serve", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr
    assert "hint: " in done.stderr or "missing.py" in done.stderr


def test_no_tools_is_an_error(cli: CommandLine) -> None:
    cli.write("empty.py", "def plain() -> None: ...\n")
    done = cli.run("serve", "empty.py", "--port", "0")
    assert done.exit_code == 1
    assert done.stderr.endswith("error: Nothing to serve\n")
    cli.write("toolcrib.toml", "[server]\ntargets = ['off.py']\n")
    cli.write("off.py", ADD.replace("@tool", "@tool(enabled=False, group='math')"))
    done = cli.run("serve", "--stdio")
    assert done.exit_code == 1
    assert "everything is disabled\nhint: set enable_math_tools = true" in done.stderr


def test_strict_does_not_start_with_a_bad_tool(folder: Path, cli: CommandLine) -> None:
    done = cli.run("serve", "--strict", "--port", "0", str(folder / "work.py"))
    assert done.exit_code == 1
    assert "Tool 'bad' takes *args" in done.stderr
    assert done.stderr.endswith("error: Not started: 1 problem, and --strict is given\n")
