"""A link to a server that is a child process: one message a line, in on its stdin, out on its stdout.

The child is started from a list of words, never by a shell, in a process group of its own, and is gone when
the link is closed: its stdin ends, then it is asked to end, then it is made to. What it writes to stderr is
kept for error messages. Knows processes and pipes; refuses to know what the lines say.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from toolcrib.client.http import Lines
from toolcrib.client.link import MAX_BYTES, Duplex, Inbox, Outgoing
from toolcrib.errors import BadAnswerError, ConfigurationError, LinkError

logger = logging.getLogger("toolcrib")

GRACE_S = 2.0
"""How long a child has to end by itself, and again once it was asked to."""
_TAIL = 4096
_TAIL_LINES = 8
HAS_GROUPS = hasattr(os, "killpg")
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)

OnStderr = Callable[[str], object]


class StdioLink(Duplex):
    """`StdioLink(["python", "server.py"])`; `on_stderr` hears what the child writes there, as it comes."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        on_stderr: OnStderr | None = None,
    ) -> None:
        if isinstance(command, str) or not command:
            raise ConfigurationError("a command is a list of words, like ['python', 'server.py']")
        self.command = [str(word) for word in command]
        self.place = Path(self.command[0]).name if len(self.command) == 1 else " ".join(self.command)[:80]
        self._env = env
        self._cwd = cwd
        self._on_stderr = on_stderr
        self._child: _Child | None = None

    async def start(self, inbox: Inbox) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, protocol = await loop.subprocess_exec(
                lambda: _Child(self.place, inbox, self._on_stderr),
                *self.command,
                env=None if self._env is None else {**os.environ, **self._env},
                cwd=self._cwd,
                start_new_session=HAS_GROUPS,  # Ctrl-C is for the client, which ends the child in order
            )
        except FileNotFoundError:
            missing = self._cwd if self._cwd is not None and not Path(self._cwd).is_dir() else self.command[0]
            raise LinkError(f"cannot start the server: there is no '{missing}'") from None
        except (OSError, ValueError) as error:
            raise LinkError(f"cannot start the server '{self.command[0]}': {error}") from None
        self._child = protocol

    async def send(self, message: Outgoing) -> None:
        if self._child is None:
            raise LinkError(f"{self.place}: the connection is closed")
        await self._child.write(message.data + b"\n")

    @property
    def was_alive(self) -> bool:
        """Whether the child ran and has ended by itself."""
        return self._child is not None and self._child.has_ended

    async def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            # Whoever closes may be cancelled; the child must still go.
            ending = asyncio.ensure_future(child.end())
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                child.kill()
                await ending
                raise


class _Child(asyncio.SubprocessProtocol):
    """One run of the program."""

    def __init__(self, place: str, inbox: Inbox, on_stderr: OnStderr | None) -> None:
        self._place = place
        self._inbox = inbox
        self._on_stderr = on_stderr
        self._lines = Lines(MAX_BYTES)
        self._tail = bytearray()
        self._exited = asyncio.Event()
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._open_ends = {1, 2}
        self._is_ending = False
        self._is_told = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    @property
    def has_ended(self) -> bool:
        return self._exited.is_set()

    # --- out ---

    async def write(self, data: bytes) -> None:
        await self._can_write.wait()
        pipe = cast(asyncio.WriteTransport | None, self._transport.get_pipe_transport(0))
        if pipe is None or pipe.is_closing() or self._exited.is_set():
            raise LinkError(self._epitaph())
        pipe.write(data)

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    # --- in ---

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._tail += data
            del self._tail[:-_TAIL]
            self._pass_on(data)
            return
        for line in self._lines.feed(data):
            if line is None:
                words = f"{self._place} sent a line of more than {MAX_BYTES >> 20} MiB"
                self._inbox.failed(None, BadAnswerError(words))
            elif line.strip():
                self._inbox.message(line)

    def _pass_on(self, data: bytes) -> None:
        try:
            if self._on_stderr is not None:
                self._on_stderr(data.decode("utf-8", "replace"))
        except Exception as error:  # the listener is broken; the conversation is not
            self._on_stderr = None
            logger.warning("the listener to stderr failed: %s: %s", type(error).__name__, error)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        if fd == 0:
            self._can_write.set()  # whoever waits to write finds out that it cannot
        self._open_ends.discard(fd)
        self._notice_end()

    def process_exited(self) -> None:
        self._exited.set()
        self._can_write.set()
        self.kill()  # what it started and left behind; later, its number could be another's
        self._notice_end()

    def _notice_end(self) -> None:
        """Gone is a child that has exited and of which all was read. What holds a pipe open or lives on
        without a stdout is waited for, but not for ever."""
        if self._exited.is_set() and not self._open_ends:
            self._tell_end()
        elif self._exited.is_set() or 1 not in self._open_ends:
            asyncio.get_running_loop().call_later(GRACE_S, self._tell_end)

    def _tell_end(self) -> None:
        if not self._is_told and not self._is_ending:
            self._is_told = True
            self._inbox.closed(LinkError(self._epitaph()))

    def _epitaph(self) -> str:
        code = self._transport.get_returncode()
        how = "closed its output" if code is None else f"ended (exit code {code})"
        lines = self._tail.decode("utf-8", "replace").strip().splitlines()[-_TAIL_LINES:]
        said = "".join(f"\n    {line}" for line in lines)
        return f"{self._place} {how}" + (f" and said:{said}" if said else "")

    # --- the end ---

    async def end(self) -> None:
        self._is_ending = True
        pipe = self._transport.get_pipe_transport(0)
        if pipe is not None:
            pipe.close()
        for step in (None, self.terminate, self.kill):
            if step is not None:
                step()
            try:
                async with asyncio.timeout(GRACE_S):
                    await self._exited.wait()
                break
            except TimeoutError:
                continue
        self._transport.close()
        for _ in range(2):
            await asyncio.sleep(0)  # the pipes, then the transport, close in the loop's next turns

    def terminate(self) -> None:
        signal_group(self._transport, signal.SIGTERM)

    def kill(self) -> None:
        signal_group(self._transport, KILL)


def signal_group(transport: asyncio.SubprocessTransport, number: int) -> None:
    """To a child and everything it started; a group outlives its first process."""
    try:
        if HAS_GROUPS:
            os.killpg(transport.get_pid(), number)
        else:
            transport.send_signal(number)
    except (ProcessLookupError, PermissionError):
        pass  # all gone already
