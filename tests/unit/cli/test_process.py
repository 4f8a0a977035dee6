"""The real command in a process of its own: streams, signals, pipes, and what it loads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.system import fork_server

from .conftest import ADD, CommandLine

COMMAND = [sys.executable, "-c", "from toolcrib.cli import main; main()"]
SOURCES = str(Path(__file__).resolve().parents[3] / "src")


def run(*arguments: str, stdin: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": SOURCES, "PYTHONUTF8": "1", **variables}
    return fork_server.run(*COMMAND[1:], *arguments, input=stdin, text=True, env=environ, timeout=60)


def test_the_command_checks_lists_shows_and_calls_the_samples_in_plain_words(cli: CommandLine) -> None:
    checked, listed, shown = (
        run("check", "--samples"),
        run("list", "--samples"),
        run("show", "math_add", "--samples"),
    )
    assert checked.returncode == 0
    assert "math_add" in listed.stdout
    assert "First number" in shown.stdout
    done = run("call", "math_add", "a=10", "b=5", "--samples")
    assert (done.returncode, done.stdout, done.stderr) == (0, "10 + 5 = 15\n", "")
    for done in (checked, listed, shown, run("call", "nope", "--samples")):  # no colour without a terminal
        assert "\x1b" not in done.stdout + done.stderr


def test_nothing_but_data_reaches_stdout_whatever_the_target_does(cli: CommandLine) -> None:
    cli.write(
        "noisy.py",
        "import os, subprocess, sys\n"
        "print('one')\n"
        "sys.__stdout__.write('two\\n')\n"
        "os.write(1, b'three\\n')\n"
        "subprocess.run([sys.executable, '-c', 'print(\"four\")'])\n"
        "import logging; logging.basicConfig(stream=sys.stdout); logging.warning('five')\n" + ADD,
    )
    done = run("list", "noisy.py", "--json")
    assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == ["add"]
    assert all(word in done.stderr for word in ("one", "two", "three", "four", "five"))


def test_help_and_json_load_no_engine(cli: CommandLine) -> None:
    lines = [
        ["--help"],
        ["list", "--samples", "--json"],
        ["check", "--samples", "--json"],
        ["show", "echo", "--samples", "--json"],
        ["call", "echo", "--samples", "message=x"],
    ]
    script = (
        f"import sys\nfrom toolcrib.cli import main\nfor line in {lines!r}:\n"
        "    sys.argv = ['toolcrib', *line]\n"
        "    try: main()\n    except SystemExit as end: assert not end.code, end.code\n"
        "    heavy = [name for name in ('pydantic', 'httpx2') if name in sys.modules]\n"
        "    print(line, heavy, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCES},
        timeout=60,
        check=True,
    )
    assert done.stderr.splitlines() == [f"{line} []" for line in lines]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_full_disk_is_an_error_without_a_traceback(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    environ = {**os.environ, "PYTHONPATH": SOURCES}
    with open("/dev/full", "w") as full:
        process = fork_server.launch(
            *COMMAND[1:], "list", "tools.py", stdout=full, stderr=subprocess.PIPE, text=True, env=environ
        )
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (2, "error: No space left on device\n")


def test_a_closed_pipe_causes_no_traceback(cli: CommandLine) -> None:
    cli.write(
        "many.py",
        "from toolcrib import tool\n"
        + "".join(f"@tool\ndef t{n}(x: int) -> str:\n    'Do the thing number {n}.'\n" for n in range(2000)),
    )
    environ = {**os.environ, "PYTHONPATH": SOURCES}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with fork_server.launch(*COMMAND[1:], "list", "many.py", "--json", env=environ, **streams) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        words = process.stderr.read().decode()
        process.wait(60)
    assert "Traceback" not in words
    assert "Exception ignored" not in words


@pytest.mark.parametrize("body", ["time.sleep(60)", "await asyncio.sleep(60)"])
def test_ctrl_c_ends_a_call_quietly_with_130(cli: CommandLine, body: str) -> None:
    kind = "async def" if body.startswith("await") else "def"
    cli.write(
        "slow.py",
        f"import asyncio, sys, time\nfrom toolcrib import tool\n@tool\n{kind} wait() -> str:\n"
        f"    'Wait for a long time.'\n    print('waiting', file=sys.stderr, flush=True)\n    {body}\n",
    )
    environ = {**os.environ, "PYTHONPATH": SOURCES}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with fork_server.launch(*COMMAND[1:], "call", "slow.py:wait", env=environ, **streams) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert process.stderr.readline() == b"waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


def test_text_beyond_ascii_survives_a_stdout_that_is_not_utf8(cli: CommandLine) -> None:
    done = run("call", "hello_world", "name=Zoë", "--samples", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, "Hello, Zo\\xeb!\n")
    done = run(
        "call", "hello_world", "name=Zoë", "--samples", "--json", PYTHONUTF8="0", PYTHONIOENCODING="ascii"
    )
    assert json.loads(done.stdout)["content"][0]["text"] == "Hello, Zoë!"
