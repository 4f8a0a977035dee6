"""Stdio transport of the client: a server in a child process, one message per line.

Closing the transport closes the stdin of the child, then sends SIGTERM, then SIGKILL. The end of its stderr
is kept for error messages.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from toolcrib.client.http import LineReader
from toolcrib.client.transport import MAX_BYTES, DuplexTransport, Outgoing, Receiver
from toolcrib.dispatch.child_process import GRACE_S, ChildProcess, StartError
from toolcrib.errors import ConfigurationError, InvalidResponseError, TransportError

logger = logging.getLogger("toolcrib")

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
        self._child: _ServerProcess | None = None

    async def start(self, receiver: Receiver) -> None:
        child = _ServerProcess(self.label, receiver, self._on_stderr)
        try:
            self._child = await child.start(self.command, self._env, self._cwd)
        except StartError as error:
            raise TransportError(f"Cannot start the server: {error}") from None

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
            await child.stop(GRACE_S)


class _ServerProcess(ChildProcess):
    """One run of the server."""

    def __init__(self, label: str, receiver: Receiver, on_stderr: OnStderr | None) -> None:
        super().__init__(label, GRACE_S)
        self._receiver = receiver
        self._on_stderr = on_stderr
        self._lines = LineReader(MAX_BYTES)

    async def write(self, data: bytes) -> None:
        await self._can_write.wait()
        pipe = self.stdin
        if pipe is None:
            raise TransportError(self.describe_exit())
        pipe.write(data)

    def stdout_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if line is None:
                text = f"{self.label} sent a line longer than {MAX_BYTES >> 20} MiB"
                self._receiver.failed(None, InvalidResponseError(text))
            elif line.strip():
                self._receiver.message(line)

    def stderr_received(self, data: bytes) -> None:
        try:
            if self._on_stderr is not None:
                self._on_stderr(data.decode("utf-8", "replace"))
        except Exception as error:  # a failing callback must not end the session
            self._on_stderr = None
            logger.warning("the stderr callback failed: %s: %s", type(error).__name__, error)

    def finished(self) -> None:
        if not self._is_stopping:
            self._receiver.closed(TransportError(self.describe_exit()))
