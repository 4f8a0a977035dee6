"""HTTP responses: complete ones, and the interfaces between a response that takes time and its connection."""

from __future__ import annotations

from http import HTTPStatus
from typing import Protocol

from toolcrib.protocol import Reply
from toolcrib.protocol.messages import INVALID_REQUEST, Headers, RPCError, encode_error

JSON = b"application/json"
SSE_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus}


class Response(Reply):
    """A reply of the HTTP transport itself: any content type, and possibly the last one on its connection."""

    __slots__ = ("closes", "content_type")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        content_type: bytes = JSON,
        headers: Headers = (),
        *,
        closes: bool = False,
    ) -> None:
        super().__init__(body, status, headers)
        self.content_type = content_type
        self.closes = closes


def error_response(status: int, message: str, headers: Headers = (), *, closes: bool = False) -> Response:
    """Return a response that refuses a request, with a JSON-RPC error as its body."""
    body = encode_error(None, RPCError(INVALID_REQUEST, message))
    return Response(status, body, headers=headers, closes=closes)


class ResponseWriter(Protocol):
    """What a connection offers to write with: either one response, or a stream of events. Never blocks."""

    def respond(self, reply: Reply) -> None: ...

    def open(self) -> None:
        """Begin a stream of events."""
        ...

    def write(self, data: bytes) -> None: ...

    def finish(self) -> None: ...


class PendingResponse(Protocol):
    """A response that takes time. The connection begins it, and reports when the client has disconnected."""

    def begin(self, writer: ResponseWriter) -> None: ...

    def lost(self) -> None: ...


class OpenStream:
    """A pending response that lasts until it is ended: a stream that a client listens to.

    Not an abstract class: `isinstance` is called with every request, and is slow for those.
    """

    def end(self) -> None:
        """End the stream. The client may have disconnected before, or not have begun to read."""
        raise NotImplementedError


def event(message: bytes, id_: bytes | None = None) -> bytes:
    """Return a message as a server-sent event."""
    if id_ is None:
        return b"event: message\ndata: " + message + b"\n\n"
    return b"event: message\nid: " + id_ + b"\ndata: " + message + b"\n\n"
