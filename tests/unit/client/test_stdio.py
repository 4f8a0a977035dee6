"""Servers that are child processes: how they start, how they fail, and that they are gone afterwards."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from toolcrib.client import Client, StdioTransport
from toolcrib.client import transport as stdio_module
from toolcrib.errors import InvalidResponseError, ResponseTimeoutError, TransportError

PROLOGUE = """
import json, os, signal, subprocess, sys, time
def say(message): sys.stdout.write(json.dumps(message) + "\\n"); sys.stdout.flush()
def answer(request, result): say({"jsonrpc": "2.0", "id": request["id"], "result": result})
def text(words): return {"content": [{"type": "text", "text": words}]}
INFO = {"capabilities": {"tools": {}}, "serverInfo": {"name": "child", "version": str(os.getpid())}}
def greet(request):
    if request["method"] == "server/discover":
        answer(request, {"supportedVersions": ["2026-07-28"], **INFO,
               "_meta": {"io.modelcontextprotocol/serverInfo": INFO["serverInfo"]}})
    elif request["method"] == "initialize":
        answer(request, {"protocolVersion": "2025-11-25", **INFO})
    elif "id" in request:
        call(request)
def call(request): answer(request, text("well"))
def serve():
    for line in sys.stdin:
        greet(json.loads(line))
"""


def program(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "server.py"
    path.write_text(PROLOGUE + dedent(text))
    return [sys.executable, str(path)]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not fetched yet does not."""
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (OSError, ProcessLookupError):
        return False


async def until_gone(*pids: int) -> bool:
    async with asyncio.timeout(5):
        while any(is_alive(pid) for pid in pids):
            await asyncio.sleep(0.01)
    return True


@pytest.fixture
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_module, "GRACE_S", 0.2)


async def test_a_child_is_asked_and_gone_when_its_client_is_closed(tmp_path: Path) -> None:
    async with Client(program(tmp_path, "serve()")) as client:
        assert (await client.call("t")).text == "well"
        pid = int(client.server_info["version"])
        assert is_alive(pid)
        started = time.monotonic()
    assert time.monotonic() - started < 1.5
    assert not is_alive(pid)


async def test_a_child_gets_the_environment_and_the_folder_it_is_given(tmp_path: Path) -> None:
    command = program(
        tmp_path,
        """
        def call(request):
            answer(request, text(" ".join([os.environ["WORD"], os.environ["HOME"], os.getcwd()])))
        serve()
        """,
    )
    link = StdioTransport(command, env={"WORD": "hello"}, cwd=tmp_path)
    async with Client(link) as client:
        assert (await client.call("t")).text == f"hello {os.environ['HOME']} {tmp_path}"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["/nowhere/program"], "Cannot start the server: '/nowhere/program' not found"),
        (["no-such-program-here", "x"], "Cannot start the server: 'no-such-program-here' not found"),
        (["/"], "Cannot start the server: '/': "),
        (["a\0b"], "Cannot start the server"),
    ],
)
async def test_a_program_that_cannot_be_started_is_named(command: list[str], words: str) -> None:
    with pytest.raises(TransportError) as caught:
        await Client(command).connect()
    assert words in str(caught.value)


async def test_a_folder_that_is_not_there_is_named() -> None:
    with pytest.raises(TransportError, match="'/nowhere' not found"):
        await Client(StdioTransport([sys.executable], cwd="/nowhere")).connect()


async def test_no_shell_ever_reads_the_command(tmp_path: Path) -> None:
    command = program(tmp_path, "def call(request): answer(request, text(sys.argv[1]))\nserve()")
    async with Client([*command, "$(touch x); `id` && *"]) as client:
        assert (await client.call("t")).text == "$(touch x); `id` && *"


# --- a child that fails ---


async def test_a_child_that_dies_at_once_is_quoted(tmp_path: Path) -> None:
    command = program(tmp_path, "import nowhere_to_be_found")
    with pytest.raises(TransportError) as caught:
        await Client(command).connect()
    assert "exited with code 1. Its stderr:" in str(caught.value)
    assert "ModuleNotFoundError: No module named 'nowhere_to_be_found'" in str(caught.value)


async def test_a_child_that_dies_during_a_call_ends_it_at_once(tmp_path: Path) -> None:
    command = program(
        tmp_path,
        "def call(request): sys.stderr.write('last words\\n'); sys.stderr.flush(); os._exit(7)\nserve()",
    )
    async with Client(command) as client:
        async with asyncio.timeout(5):
            with pytest.raises(TransportError, match=r"exited with code 7. Its stderr:\n    last words"):
                await client.call("t")
            with pytest.raises(TransportError, match="exited with code 7"):
                await client.call("t")


@pytest.mark.usefixtures("_hurried")
async def test_a_child_that_closes_its_output_is_as_good_as_gone(tmp_path: Path) -> None:
    command = program(tmp_path, "def call(request): os.close(1)\nserve()")
    async with Client(command) as client:
        async with asyncio.timeout(5):
            with pytest.raises(TransportError, match="closed its stdout"):
                await client.call("t")


async def test_a_server_that_dies_of_the_new_greeting_is_started_again_for_the_old_one(
    tmp_path: Path,
) -> None:
    command = program(
        tmp_path,
        """
        before = greet
        def greet(request):
            if request["method"] == "server/discover": raise SystemExit("what is that")
            before(request)
        serve()
        """,
    )
    async with Client(command) as client:
        assert client.protocol_version == "2025-11-25"
        assert (await client.call("t")).text == "well"


async def test_a_server_that_must_be_modern_is_not_started_again(tmp_path: Path) -> None:
    command = program(tmp_path, "open(sys.argv[1], 'a').write('x'); sys.exit(3)")
    with pytest.raises(TransportError, match="exited with code 3"):
        await Client([*command, str(tmp_path / "runs")], protocol="2026-07-28").connect()
    assert (tmp_path / "runs").read_text() == "x"


# --- what comes on stdout and stderr ---


async def test_garbage_on_stdout_is_reported_and_not_fatal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    command = program(
        tmp_path,
        """
        def call(request):
            print("debug: hello"); print(); print("{"); sys.stdout.flush()
            os.write(1, b"\\xff\\xfe\\n")
            answer(request, text("well"))
        serve()
        """,
    )
    async with Client(command) as client:
        assert (await client.call("t")).text == "well"
    assert "sent invalid JSON: 'debug: hello'" in caplog.text


async def test_lines_may_end_the_windows_way_and_come_in_pieces(tmp_path: Path) -> None:
    command = program(
        tmp_path,
        """
        def say(message):
            for byte in json.dumps(message).encode() + b"\\r\\n": os.write(1, bytes([byte]))
        serve()
        """,
    )
    async with Client(command) as client:
        assert (await client.call("t")).text == "well"


async def test_a_line_of_sixty_mebibytes_is_skipped_and_its_call_ended(tmp_path: Path) -> None:
    command = program(
        tmp_path,
        """
        calls = []
        def call(request):
            calls.append(request)
            answer(request, text("x" * (60 << 20) if len(calls) == 1 else "well"))
        serve()
        """,
    )
    async with Client(command, timeout_s=30) as client:
        with pytest.raises(InvalidResponseError, match="sent a line longer than 32 MiB"):
            await client.call("t")
        assert (await client.call("t")).text == "well"


async def test_stderr_is_heard_and_never_blocks(tmp_path: Path) -> None:
    command = program(
        tmp_path,
        """
        def call(request):
            sys.stderr.write("y" * 1_000_000)
            sys.stderr.flush()
            answer(request, text("well"))
        serve()
        """,
    )
    heard: list[str] = []
    async with Client(StdioTransport(command, on_stderr=heard.append)) as client:
        assert (await client.call("t")).text == "well"
    assert len("".join(heard)) == 1_000_000


async def test_a_listener_to_stderr_that_fails_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(words: str) -> None:
        raise ZeroDivisionError("oh")

    command = program(
        tmp_path,
        "def call(request): os.write(2, b'x'); time.sleep(0.05); answer(request, text('well'))\nserve()",
    )
    async with Client(StdioTransport(command, on_stderr=fail)) as client:
        assert (await client.call("t")).text == "well"
    assert "the stderr callback failed: ZeroDivisionError: oh" in caplog.text


@pytest.mark.usefixtures("_hurried")
async def test_a_flood_on_stdout_does_not_stop_the_clock(tmp_path: Path) -> None:
    command = program(
        tmp_path,
        """
        def call(request):
            while True: say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        serve()
        """,
    )
    async with Client(command) as client:
        started = time.monotonic()
        with pytest.raises(ResponseTimeoutError):
            await client.call("t", timeout_s=0.3)
        assert time.monotonic() - started < 3


@pytest.mark.usefixtures("_hurried")
async def test_a_child_that_does_not_read_does_not_hang_its_client(tmp_path: Path) -> None:
    command = program(tmp_path, "greet(json.loads(sys.stdin.readline()))\ntime.sleep(60)")
    async with Client(command) as client:
        for _ in range(3):
            with pytest.raises(ResponseTimeoutError):
                await client.call("t", {"x": "y" * 1_000_000}, timeout_s=0.1)


# --- the end ---


@pytest.mark.usefixtures("_hurried")
@pytest.mark.parametrize(
    "stubborn",
    [
        "time.sleep(60)",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\nwhile True: time.sleep(1)",
    ],
)
async def test_a_child_that_will_not_go_is_made_to(tmp_path: Path, stubborn: str) -> None:
    async with Client(program(tmp_path, f"greet(json.loads(sys.stdin.readline()))\n{stubborn}")) as client:
        pid = int(client.server_info["version"])
        started = time.monotonic()
    assert time.monotonic() - started < 3
    assert await until_gone(pid)


@pytest.mark.usefixtures("_hurried")
async def test_anything_that_a_child_has_started_goes_with_it(tmp_path: Path) -> None:
    command = program(
        tmp_path,
        """
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        def call(request): answer(request, text(str(child.pid)))
        serve()
        """,
    )
    async with Client(command) as client:
        pid = int((await client.call("t")).text)
        assert is_alive(pid)
    assert await until_gone(pid)


@pytest.mark.usefixtures("_hurried")
async def test_a_pipe_that_somebody_keeps_open_does_not_hide_the_end(tmp_path: Path) -> None:
    command = program(
        tmp_path,
        """
        def call(request):
            if os.fork() == 0:
                os.setsid(); time.sleep(3); os._exit(0)
            os._exit(5)
        serve()
        """,
    )
    async with Client(command) as client:
        async with asyncio.timeout(2):
            with pytest.raises(TransportError, match="exited with code 5"):
                await client.call("t")


@pytest.mark.usefixtures("_hurried")
async def test_a_close_that_is_cancelled_still_ends_the_child(tmp_path: Path) -> None:
    client = Client(program(tmp_path, "greet(json.loads(sys.stdin.readline()))\ntime.sleep(60)"))
    await client.connect()
    pid = int(client.server_info["version"])
    task = asyncio.create_task(client.close())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await until_gone(pid)


def test_no_pipe_and_no_transport_is_left_open(tmp_path: Path) -> None:
    async def visit(command: list[str]) -> None:
        try:
            async with Client(command) as client:
                await client.call("t")
        except TransportError:
            pass

    for body in ("serve()", "sys.exit(1)", "def call(request): os._exit(1)\nserve()"):
        asyncio.run(visit(program(tmp_path, body)))
    gc.collect()  # anything left open would be a ResourceWarning here
