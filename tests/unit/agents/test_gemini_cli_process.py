"""A child process: what it prints waits in its pipe, and it goes when it must."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tests.support.agents import children, is_gone
from toolcrib.agents.gemini_cli import start_child
from toolcrib.errors import AgentError

PRINTS_MUCH = "import sys; sys.stdout.write('x' * 5_000_000)"


async def test_unread_output_waits_in_the_pipe() -> None:
    child = await start_child([sys.executable, "-S", "-c", PRINTS_MUCH])
    async with asyncio.timeout(10):
        while not child.is_paused:
            await asyncio.sleep(0)  # the loop reads whatever it may
    read = await child.read()
    assert 0 < len(read) < 1_000_000
    while chunk := await child.read():
        read += chunk
    assert len(read) == 5_000_000
    assert await child.wait() == 0
    await child.stop()


async def test_a_child_that_is_being_stopped_may_go_on_printing() -> None:
    child = await start_child([sys.executable, "-S", "-c", PRINTS_MUCH])
    await child.read()
    async with asyncio.timeout(10):
        await child.stop(patience_s=10)  # it ends by itself, once all is printed
    assert await child.wait() == 0


async def test_reading_and_writing_more_than_a_pipe_holds_does_not_block() -> None:
    code = "import sys; sys.stdout.write('x' * 1_000_000); print(len(sys.stdin.read()))"
    child = await start_child([sys.executable, "-S", "-c", code])
    await child.write(b"y" * 3_000_000)
    child.close_stdin()
    read = b""
    while chunk := await child.read():
        read += chunk
    assert read.endswith(b"x3000000\n")
    await child.stop()


async def test_writing_to_an_exited_child_says_how_it_ended() -> None:
    code = "import sys; sys.stderr.write('no input wanted'); sys.exit(4)"
    child = await start_child([sys.executable, "-S", "-c", code])
    assert await child.read() == b""
    await child.wait()
    with pytest.raises(AgentError, match=r"exited with code 4\. Its stderr:\n    no input wanted"):
        await child.write(b"hello\n")
    await child.stop()


async def test_cancelling_stop_kills_the_child_at_once() -> None:
    before = children()
    child = await start_child([sys.executable, "-S", "-c", "import signal; signal.pause()"], grace_s=60)
    [pid] = children() - before
    ending = asyncio.ensure_future(child.stop(patience_s=60))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert is_gone(pid)


async def test_a_program_that_cannot_be_started_is_an_error() -> None:
    with pytest.raises(AgentError, match="'no-such-thing' not found"):
        await start_child(["no-such-thing"])
    with pytest.raises(AgentError, match="'/no/such/folder' not found"):
        await start_child([sys.executable], cwd="/no/such/folder")
    with pytest.raises(AgentError, match="Cannot start the agent: '/'"):
        await start_child(["/"])
