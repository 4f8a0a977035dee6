"""Stdio transport of the client: a server in a child process, one message per line.

The child runs without a shell in its own process group. Closing the transport closes its stdin, then sends
SIGTERM, then SIGKILL. Its stderr is kept for error messages.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from toolcrib.client.http import LineReader
from toolcrib.client.transport import MAX_BYTES, DuplexTransport, Outgoing, Receiver
from toolcrib.errors import ConfigurationError, InvalidResponseError, TransportError

logger = logging.getLogger("toolcrib")

GRACE_S = 2.0
"""How long to wait for the child after closing its stdin, and again after SIGTERM."""
_STDERR_BYTES = 4096
_STDERR_LINES = 8
HAS_GROUPS = hasattr(os, "killpg")
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)

OnStderr = Callable[[str], object]


class StdioTransport(DuplexTransport):
    """Run a server as a child process; `on_stderr` receives its stderr output."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        on_stderr: OnStderr | None = None,
    ) -> None:
        if isinstance(command, str) or not command:
            raise ConfigurationError("command must be a list, like ['python', 'server.py']")
        self.command = [str(word) for word in command]
        self.label = Path(self.command[0]).name if len(self.command) == 1 else " ".join(self.command)[:80]
        self._env = env
        self._cwd = cwd
        self._on_stderr = on_stderr
        self._child: _Child | None = None

    async def start(self, receiver: Receiver) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, protocol = await loop.subprocess_exec(
                lambda: _Child(self.label, receiver, self._on_stderr),
                *self.command,
                env=None if self._env is None else {**os.environ, **self._env},
                cwd=self._cwd,
                start_new_session=HAS_GROUPS,  # Ctrl-C goes to the client only, which stops the child
            )
        except FileNotFoundError:
            missing = self._cwd if self._cwd is not None and not Path(self._cwd).is_dir() else self.command[0]
            raise TransportError(f"Cannot start the server: '{missing}' not found") from None
        except (OSError, ValueError) as error:
            raise TransportError(f"Cannot start the server '{self.command[0]}': {error}") from None
        self._child = protocol

    async def send(self, message: Outgoing) -> None:
        if self._child is None:
            raise TransportError(f"{self.label}: connection closed")
        await self._child.write(message.data + b"\n")

    @property
    def has_exited(self) -> bool:
        """Whether the child has exited by itself."""
        return self._child is not None and self._child.has_exited

    async def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            # The child is stopped even if closing is cancelled.
            ending = asyncio.ensure_future(child.end())
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                child.kill()
                await ending
                raise


class _Child(asyncio.SubprocessProtocol):
    """One run of the server process."""

    def __init__(self, label: str, receiver: Receiver, on_stderr: OnStderr | None) -> None:
        self._place = label
        self._receiver = receiver
        self._on_stderr = on_stderr
        self._lines = LineReader(MAX_BYTES)
        self._stderr = bytearray()
        self._exited = asyncio.Event()
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._open_ends = {1, 2}
        self._is_ending = False
        self._is_reported = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    @property
    def has_exited(self) -> bool:
        return self._exited.is_set()

    # --- writing ---

    async def write(self, data: bytes) -> None:
        await self._can_write.wait()
        pipe = cast(asyncio.WriteTransport | None, self._transport.get_pipe_transport(0))
        if pipe is None or pipe.is_closing() or self._exited.is_set():
            raise TransportError(self._describe_exit())
        pipe.write(data)

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    # --- reading ---

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr += data
            del self._stderr[:-_STDERR_BYTES]
            self._forward_stderr(data)
            return
        for line in self._lines.feed(data):
            if line is None:
                text = f"{self._place} sent a line longer than {MAX_BYTES >> 20} MiB"
                self._receiver.failed(None, InvalidResponseError(text))
            elif line.strip():
                self._receiver.message(line)

    def _forward_stderr(self, data: bytes) -> None:
        try:
            if self._on_stderr is not None:
                self._on_stderr(data.decode("utf-8", "replace"))
        except Exception as error:  # a failing callback must not end the session
            self._on_stderr = None
            logger.warning("the stderr callback failed: %s: %s", type(error).__name__, error)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        if fd == 0:
            self._can_write.set()  # a blocked writer finds the pipe closed
        self._open_ends.discard(fd)
        self._check_exit()

    def process_exited(self) -> None:
        self._exited.set()
        self._can_write.set()
        self.kill()  # children it left behind; the group id may be reused later
        self._check_exit()

    def _check_exit(self) -> None:
        """Report the exit once all output was read, or after a grace period if a pipe stays open."""
        if self._exited.is_set() and not self._open_ends:
            self._report_exit()
        elif self._exited.is_set() or 1 not in self._open_ends:
            asyncio.get_running_loop().call_later(GRACE_S, self._report_exit)

    def _report_exit(self) -> None:
        if not self._is_reported and not self._is_ending:
            self._is_reported = True
            self._receiver.closed(TransportError(self._describe_exit()))

    def _describe_exit(self) -> str:
        code = self._transport.get_returncode()
        how = "closed its stdout" if code is None else f"exited with code {code}"
        lines = self._stderr.decode("utf-8", "replace").strip().splitlines()[-_STDERR_LINES:]
        said = "".join(f"\n    {line}" for line in lines)
        return f"{self._place} {how}" + (f". Its stderr:{said}" if said else "")

    # --- stopping ---

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
            await asyncio.sleep(0)  # let the pipes and the transport close

    def terminate(self) -> None:
        signal_group(self._transport, signal.SIGTERM)

    def kill(self) -> None:
        signal_group(self._transport, KILL)


def signal_group(transport: asyncio.SubprocessTransport, request_id: int) -> None:
    """Send a signal to a child and everything it started."""
    try:
        if HAS_GROUPS:
            os.killpg(transport.get_pid(), request_id)
        else:
            transport.send_signal(request_id)
    except (ProcessLookupError, PermissionError):
        pass  # already exited
