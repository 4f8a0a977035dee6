"""A program that is spoken to through its pipes, and that is gone, with all it started, when we are done.

Started from a list of words, never by a shell, in a process group of its own. What it prints is handed on as
it comes and waits in the pipe where nobody takes it; the end of its stderr is kept for error messages. Knows
processes; refuses to know what is said.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from toolcrib.client.stdio import HAS_GROUPS, KILL, signal_group
from toolcrib.errors import AgentError

GRACE_S = 2.0
"""How long a program has to end once it was asked to."""
_MAX_UNREAD = 256 * 1024
_TAIL = 4096
_TAIL_LINES = 8


async def start_child(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    grace_s: float = GRACE_S,
) -> Child:
    """Raises AgentError where the program is not there or cannot be run."""
    loop = asyncio.get_running_loop()
    place = Path(command[0]).name
    try:
        _, child = await loop.subprocess_exec(
            lambda: Child(place, grace_s),
            *command,
            env=None if env is None else {**os.environ, **env},
            cwd=cwd,
            start_new_session=HAS_GROUPS,  # Ctrl-C is for us, who end it in order
        )
    except FileNotFoundError:
        missing = cwd if cwd is not None and not Path(cwd).is_dir() else command[0]
        hint = "install it, or name another program, as a list of words"
        raise AgentError(f"there is no program '{missing}'", kind="missing", hint=hint) from None
    except (OSError, ValueError) as error:
        raise AgentError(f"cannot start '{command[0]}': {error}", kind="missing") from None
    return child


class Child(asyncio.SubprocessProtocol):
    """One run of a program."""

    def __init__(self, place: str, grace_s: float) -> None:
        self.place = place
        self._grace_s = grace_s
        self._unread = bytearray()
        self._news = asyncio.Event()
        self._tail = bytearray()
        self._exited = asyncio.Event()
        self._gone = asyncio.Event()  # exited, and all of its pipes are closed
        self._open_ends = {1, 2}
        self._has_given_up = False
        self.is_paused = False
        """Whether it has to wait until somebody takes what it printed."""
        self._is_heard = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    # --- out ---

    async def write(self, data: bytes) -> None:
        """Raises AgentError where the program does not read any more. Waits for no reader: a program may have
        to be rid of what it prints before it reads on."""
        pipe = self._input()
        if pipe is None:
            raise await self.explain_end()
        pipe.write(data)

    def close_input(self) -> None:
        if pipe := self._input():
            pipe.close()  # what was written still goes out

    def _input(self) -> asyncio.WriteTransport | None:
        pipe = cast(asyncio.WriteTransport | None, self._transport.get_pipe_transport(0))
        return None if pipe is None or pipe.is_closing() or self._exited.is_set() else pipe

    # --- in ---

    async def read(self) -> bytes:
        """What it has printed since; nothing once it has ended and all was read."""
        while not self._unread and not self._is_silent:
            self._news.clear()
            await self._news.wait()
        return self.take_unread()

    def take_unread(self) -> bytes:
        """What is there already, without waiting."""
        data = bytes(self._unread)
        self._unread.clear()
        self._let_flow(True)
        return data

    @property
    def has_unread(self) -> bool:
        return bool(self._unread)

    @property
    def _is_silent(self) -> bool:
        return 1 not in self._open_ends or self._has_given_up

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._tail += data
            del self._tail[:-_TAIL]
            return
        if not self._is_heard:
            return  # it is being ended
        self._unread += data
        self._news.set()
        if len(self._unread) > _MAX_UNREAD:
            self._let_flow(False)

    def _let_flow(self, flows: bool) -> None:
        pipe = cast(asyncio.ReadTransport | None, self._transport.get_pipe_transport(1))
        if pipe is None or pipe.is_closing() or flows is not self.is_paused:
            return
        self.is_paused = not flows
        if flows:
            pipe.resume_reading()
        else:
            pipe.pause_reading()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        self._open_ends.discard(fd)
        self._news.set()

    def process_exited(self) -> None:
        self._exited.set()
        signal_group(self._transport, KILL)  # what it started and left behind
        # Something that has left the group may hold the pipe open; it is not waited for.
        asyncio.get_running_loop().call_later(self._grace_s, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._gone.set()
        self._news.set()

    def _give_up(self) -> None:
        self._has_given_up = True
        self._news.set()

    # --- the end ---

    @property
    def has_ended(self) -> bool:
        return self._exited.is_set()

    async def wait(self) -> int | None:
        """How it ended: its exit code, or minus the signal; None where it closed its output and lives on."""
        try:
            async with asyncio.timeout(self._grace_s):
                await self._gone.wait()  # stderr included
        except TimeoutError:
            pass
        return self._transport.get_returncode()

    async def explain_end(self, what: str = "") -> AgentError:
        """Why nothing more comes from it, in its own words too."""
        code = await self.wait()
        how = "closed its pipes" if code is None else f"ended (exit code {code})"
        lines = self._tail.decode("utf-8", "replace").strip().splitlines()[-_TAIL_LINES:]
        said = "".join(f"\n    {line}" for line in lines)
        return AgentError(f"{self.place} {how}{what}" + (f" and said:{said}" if said else ""), kind="died")

    async def end(self, patience_s: float = 0.0) -> None:
        """End it: its input ends; `patience_s` later it is asked to go, a grace later it is made to.

        Returns when it is gone; whoever waits may be cancelled.
        """
        ending = asyncio.ensure_future(self._end(patience_s))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            signal_group(self._transport, KILL)
            await ending
            raise

    async def _end(self, patience_s: float) -> None:
        self.close_input()
        self._is_heard = False
        self._let_flow(True)  # one that waits to print must be able to end
        steps = ((None, patience_s), (signal.SIGTERM, self._grace_s), (KILL, None))
        for number, wait_s in steps:
            if number is not None:
                signal_group(self._transport, number)
            try:
                async with asyncio.timeout(wait_s):
                    await self._exited.wait()
                break
            except TimeoutError:
                continue
        self._transport.close()
        for _ in range(2):
            await asyncio.sleep(0)  # the pipes, then the transport, close in the loop's next turns
