"""Transports of the client: the base class, a server in the same process, and a server in a child process.

A transport sends whole messages and passes whole messages to its session. HTTP needs more than the bytes (a
request id to match responses, and headers); that travels in `Outgoing`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from toolcrib.errors import ConfigurationError, InvalidResponseError, TransportError
from toolcrib.processes import GRACE_S, ChildProcess, LineReader, StartError

if TYPE_CHECKING:
    from toolcrib.client.session import Session

logger = logging.getLogger("toolcrib")

MAX_BYTES = 32 * 1024 * 1024
"""The longest message accepted from a server."""
OnStderr = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message to the server; `request_id` is None for notifications and replies."""

    data: bytes
    request_id: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class SessionEndedError(TransportError):
    """The server no longer knows the session. The request was not served and can be repeated."""


class Transport:
    """A connection to one server. It can be started again after it was closed."""

    label: str
    """The server as shown in messages, without credentials."""
    has_request_streams = False
    """Whether each request has its own stream that can be closed."""

    async def start(self, session: Session) -> None:
        """Connect, and pass messages of the server to this session. Raises TransportError."""
        raise NotImplementedError

    async def send(self, message: Outgoing) -> None:
        """Send a message. Raises TransportError; a request may also fail in the session."""
        raise NotImplementedError

    async def close(self) -> None:
        """Release everything within a few seconds. Never raises."""
        raise NotImplementedError

    def cancel(self, request_id: int) -> None:
        """Stop waiting for the response to a request."""

    def reset(self) -> None:
        """Forget the current session of the protocol."""

    def set_session_headers(self, headers: Mapping[str, str]) -> None:
        """Send these headers with every further message of the session."""

    async def listen(self) -> bool:
        """Open the stream for server-initiated messages of a legacy session; return whether there is one."""
        return True


class Pipe(Protocol):
    """The server's end of an in-memory connection."""

    def feed(self, data: bytes) -> None: ...

    async def aclose(self) -> None: ...


class MemoryTransport(Transport):
    """Connect to a server in this process: `open(send)` returns its end, which replies with `send`."""

    def __init__(self, open: Callable[[Callable[[bytes], None]], Pipe], label: str = "the server") -> None:  # noqa: A002 - the natural name
        self.label = label
        self._open = open
        self._pipe: Pipe | None = None

    async def start(self, session: Session) -> None:
        self._pipe = self._open(session.message)

    async def send(self, message: Outgoing) -> None:
        if self._pipe is None:
            raise TransportError(f"{self.label}: connection closed")
        self._pipe.feed(message.data)

    async def close(self) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            await pipe.aclose()


class StdioTransport(Transport):
    """Run a server as a child process, one message per line; `on_stderr` receives its stderr output.

    Closing the transport closes the stdin of the child, then sends SIGTERM, then SIGKILL. The end of its
    stderr is kept for error messages.
    """

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

    async def start(self, session: Session) -> None:
        child = _ServerProcess(self.label, session, self._on_stderr)
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

    def __init__(self, label: str, session: Session, on_stderr: OnStderr | None) -> None:
        super().__init__(label, GRACE_S)
        self._session = session
        self._on_stderr = on_stderr
        self._lines = LineReader(MAX_BYTES)

    async def write(self, data: bytes) -> None:
        await self._can_write.wait()
        pipe = self.stdin
        if pipe is None:
            await self.wait()  # for the rest of its stderr
            raise TransportError(self.describe_exit())
        pipe.write(data)

    def stdout_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if line is None:
                text = f"{self.label} sent a line longer than {MAX_BYTES >> 20} MiB"
                self._session.failed(None, InvalidResponseError(text))
            elif line.strip():
                self._session.message(line)

    def stderr_received(self, data: bytes) -> None:
        try:
            if self._on_stderr is not None:
                self._on_stderr(data.decode("utf-8", "replace"))
        except Exception as error:  # a failing callback must not end the session
            self._on_stderr = None
            logger.warning("the stderr callback failed: %s: %s", type(error).__name__, error)

    def finished(self) -> None:
        if not self._is_stopping:
            self._session.closed(TransportError(self.describe_exit()))
