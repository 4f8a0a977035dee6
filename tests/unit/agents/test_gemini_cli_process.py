"""Output of a child process waits in its pipe, and the child ends when it must."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tests.support.models.agent_tools import Bench, children, collect, is_gone
from toolcrib.agents import AgentRunner, Failure
from toolcrib.agents.gemini_cli import Child


async def start(code: str, grace_s: float = 2.0) -> Child:
    return await Child("test", grace_s).start([sys.executable, "-S", "-c", code])


async def read_all(child: Child) -> bytes:
    data = b""
    while chunk := await child.read():
        data += chunk
    return data


async def test_unread_output_waits_in_the_pipe() -> None:
    child = await start("import sys; sys.stdout.write('x' * 5_000_000); print('printed', file=sys.stderr)")
    first = await child.read()
    assert 0 < len(first) < 1_000_000
    await asyncio.sleep(0.1)
    assert not child.has_exited  # it cannot have printed everything
    assert len(first) + len(await read_all(child)) == 5_000_000
    assert await child.wait() == 0
    await child.stop()


async def test_reading_and_writing_more_than_a_pipe_holds_does_not_block() -> None:
    child = await start("import sys; sys.stdout.write('x' * 1_000_000); print(len(sys.stdin.read()))")
    child.send_input(b"y" * 3_000_000)
    assert (await read_all(child)).endswith(b"x3000000\n")
    await child.stop()


async def test_the_error_of_an_exited_child_quotes_its_stderr() -> None:
    child = await start("import sys; sys.stderr.write('no input wanted'); sys.exit(4)")
    assert await child.read() == b""
    child.send_input(b"ignored")
    assert str(await child.explain_end()) == "test exited with code 4. Its stderr:\n    no input wanted"
    await child.stop()


async def test_cancelling_stop_kills_the_child_at_once() -> None:
    before = children()
    child = await start("import signal; signal.pause()", grace_s=60)
    [pid] = children() - before
    ending = asyncio.ensure_future(child.stop(wait_s=60))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert is_gone(pid)


@pytest.mark.parametrize(
    ("command", "cwd", "message"),
    [
        (["no-such-thing"], None, "'no-such-thing' not found"),
        ([sys.executable], "/no/such/folder", "'/no/such/folder' not found"),
        (["/"], None, "'/': "),
    ],
)
async def test_a_program_that_cannot_be_started_is_a_failure(
    command: list[str], cwd: str | None, message: str
) -> None:
    async with AgentRunner(Bench().server, provider="gemini_cli", command=command, cwd=cwd) as runner:
        [failure] = await collect(runner)
    assert isinstance(failure, Failure)
    assert failure.kind == "missing"
    assert failure.message.startswith(f"Cannot start the agent: {message}")
