"""An HTTP client that sends any bytes, valid or not, and reads whatever comes back."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

TIMEOUT_S = 10.0
JSON_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def messages(self) -> list[Any]:
        """The messages in the body, whether it is one message or a stream of events."""
        if not self.headers.get("content-type", "").startswith("text/event-stream"):
            return [self.json] if self.body else []
        data = (line[6:] for line in self.body.decode().splitlines() if line.startswith("data: "))
        return [json.loads(item) for item in data if item]

    @property
    def code(self) -> Any:
        """The code of the error in it, or None."""
        message = self.messages[-1] if self.body else None
        return message.get("error", {}).get("code") if isinstance(message, dict) else None

    @property
    def result(self) -> Any:
        return self.messages[-1]["result"]


class ClosedError(Exception):
    """The server closed the connection before a complete answer."""


class Peer:
    """One connection that sends bytes as they are."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self.sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> bool:
        """Send bytes; return False if the server does not accept them any more."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        self.sent += len(data)
        return True

    def flood(self, piece: bytes, total: int) -> int:
        """Send a piece repeatedly until the server closes or answers; return the accepted bytes."""
        taken = 0
        self.socket.setblocking(False)
        end = time.monotonic() + TIMEOUT_S
        try:
            while taken < total and time.monotonic() < end:
                readable, writable, _ = select.select([self.socket], [self.socket], [], 0.2)
                if readable:
                    break
                if writable:
                    taken += self.socket.send(piece[: total - taken])
        except OSError:
            pass
        finally:
            self.socket.settimeout(TIMEOUT_S)
        return taken

    def read(self) -> Response:
        """Read one answer. Raises ClosedError if none comes."""
        while True:
            head = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
            status = int(head[0].split(" ")[1])
            if status >= 200:
                break
        headers = {}
        for line in head[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        if headers.get("transfer-encoding") == "chunked":
            return Response(status, headers, self._chunks())
        if "content-length" in headers:
            return Response(status, headers, self._exactly(int(headers["content-length"])))
        return Response(status, headers, self._all())

    def read_event(self) -> Any:
        """Read the next message of a chunked event stream whose head was read with `read_head`."""
        while True:
            data = self._chunk()
            for line in data.decode().splitlines():
                if line.startswith("data: ") and line != "data: ":
                    return json.loads(line[6:])

    def read_head(self) -> int:
        """Read the head of an answer and return its status."""
        return int(self._until(b"\r\n\r\n").split(b" ")[1])

    def is_closed(self) -> bool:
        """Return whether the server closes the connection now without an answer."""
        try:
            return not self._rest and self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def post(
        self, body: bytes, headers: Mapping[str, str] | Sequence[tuple[str, str]] = (), *, path: str = "/mcp"
    ) -> Response:
        self.send(request(body, headers, path=path))
        return self.read()

    def _chunks(self) -> bytes:
        parts = []
        while part := self._chunk():
            parts.append(part)
        return b"".join(parts)

    def _chunk(self) -> bytes:
        size = int(self._until(b"\r\n"), 16)
        data = self._exactly(size)
        self._exactly(2)
        return data

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            self._more()
        found, _, self._rest = self._rest.partition(mark)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._more()
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def _all(self) -> bytes:
        try:
            while True:
                self._more()
        except ClosedError:
            return self._rest

    def _more(self) -> None:
        try:
            data = self.socket.recv(1 << 20)
        except (ConnectionError, TimeoutError) as error:
            raise ClosedError(repr(error)) from None
        if not data:
            raise ClosedError(f"after {self._rest[:200]!r}")
        self._rest += data


def request(
    body: bytes,
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    *,
    method: str = "POST",
    path: str = "/mcp",
    host: str | None = "localhost",
) -> bytes:
    """Return the bytes of a request. Headers are sent as given; `host=None` omits that one."""
    pairs = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    given = {name.lower() for name, _ in pairs}
    if host is not None and "host" not in given:
        pairs.insert(0, ("Host", host))
    pairs += [(name, value) for name, value in JSON_HEADERS.items() if name.lower() not in given]
    if not given & {"content-length", "transfer-encoding"}:
        pairs.append(("Content-Length", str(len(body))))
    lines = "".join(f"{name}: {value}\r\n" for name, value in pairs)
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body
