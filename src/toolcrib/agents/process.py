"""An agent program in a child process. Its output waits in the pipe until somebody reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from toolcrib.dispatch.child_process import GRACE_S, ChildProcess, StartError
from toolcrib.errors import AgentError

__all__ = ["GRACE_S", "Child", "start_child"]

_MAX_UNREAD = 256 * 1024


async def start_child(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    grace_s: float = GRACE_S,
) -> Child:
    """Start an agent program. Raises AgentError where it does not exist or cannot be run."""
    try:
        return await Child(Path(command[0]).name, grace_s).start(command, env, cwd)
    except StartError as error:
        hint = "install it, or name another program, as a list of words" if error.is_missing else None
        raise AgentError(f"Cannot start the agent: {error}", kind="missing", hint=hint) from None


class Child(ChildProcess):
    """One run of an agent program."""

    def __init__(self, label: str, grace_s: float) -> None:
        super().__init__(label, grace_s)
        self._unread = bytearray()
        self._news = asyncio.Event()
        self.is_paused = False
        """Whether the program has to wait until its output is read."""

    async def write(self, data: bytes) -> None:
        """Raises AgentError where the program does not read any more. Does not wait for it to read: it
        may have to get rid of its output first."""
        pipe = self.stdin
        if pipe is None:
            raise await self.explain_end()
        pipe.write(data)

    async def read(self) -> bytes:
        """Return new output; nothing once the program has ended and all was read."""
        while not self._unread and 1 in self._open_pipes and not self._finished.is_set():
            self._news.clear()
            await self._news.wait()
        return self.take_unread()

    def take_unread(self) -> bytes:
        """Return the output that is there already, without waiting."""
        data = bytes(self._unread)
        self._unread.clear()
        self._set_reading(True)
        return data

    @property
    def has_unread(self) -> bool:
        return bool(self._unread)

    async def explain_end(self, addition: str = "") -> AgentError:
        """Return the error that says why no more output comes."""
        await self.wait()
        return AgentError(self.describe_exit(addition), kind="died")

    async def stop(self, patience_s: float = 0.0) -> None:
        self._is_stopping = True
        self._set_reading(True)  # a program that waits to print must be able to end
        await super().stop(patience_s)

    def stdout_received(self, data: bytes) -> None:
        if self._is_stopping:
            return
        self._unread += data
        self._news.set()
        if len(self._unread) > _MAX_UNREAD:
            self._set_reading(False)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        super().pipe_connection_lost(fd, exc)
        self._news.set()

    def finished(self) -> None:
        self._news.set()

    def _set_reading(self, reads: bool) -> None:
        pipe = cast(asyncio.ReadTransport | None, self._transport.get_pipe_transport(1))
        if pipe is None or pipe.is_closing() or reads is not self.is_paused:
            return
        self.is_paused = not reads
        if reads:
            pipe.resume_reading()
        else:
            pipe.pause_reading()
