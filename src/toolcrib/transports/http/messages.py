"""HTTP as data: requests, answers, and what an answer is written with.

Knows names and shapes; refuses to know sockets and messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

from toolcrib.context import LOCAL, Principal
from toolcrib.protocol.headers import TWICE
from toolcrib.validation import codec

MAX_BODY = 4 * 1024 * 1024
MAX_HEADERS = 32 * 1024
MAX_FIELDS = 200
TOO_LARGE = f"Request body larger than {MAX_BODY} bytes"
LONG_HEAD = f"Headers of more than {MAX_HEADERS} bytes, or more than {MAX_FIELDS} of them"
JSON = b"application/json"
SSE = b"text/event-stream"
SSE_HEADERS = (
    (b"content-type", SSE),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus}

Fields = tuple[tuple[bytes, bytes], ...]


@dataclass(slots=True)
class Request:
    """One request. Names of headers are lower case; one that came twice has the value `TWICE`. `root` is
    where the application is mounted, which `path` does not repeat. `remote` is the address it came from,
    `principal` the caller, once it `is_admitted`; `reserved` is what its body takes of the budget."""

    method: str
    path: str
    headers: Mapping[bytes, bytes]
    body: bytes = b""
    query: str = ""
    local: str | None = None
    root: str = ""
    remote: str | None = None
    principal: Principal = LOCAL
    is_admitted: bool = False
    reserved: int = 0


@dataclass(slots=True)
class Answer:
    """One answer, whole."""

    status: int
    body: bytes = b""
    kind: bytes = JSON
    fields: Fields = ()
    closes: bool = False


class Writer(Protocol):
    """What a lane gives to write with: either one answer, or a stream of events. Never blocks."""

    def answer(self, answer: Answer) -> None: ...

    def open(self, fields: Fields = ()) -> None:
        """Begin a stream of events."""
        ...

    def write(self, data: bytes) -> None: ...

    def finish(self) -> None: ...


class Talk(Protocol):
    """An answer that takes time. A lane begins it, and says when the client has gone."""

    def begin(self, writer: Writer) -> None: ...

    def lost(self) -> None: ...


class Lasting:
    """A talk that goes on until somebody ends it: a stream that is listened to. No abstract class: whether
    something is one of these is asked with every call, and of those that takes its time."""

    def end(self) -> None:
        """Let go of the client. It may have gone before, or not have begun to read."""
        raise NotImplementedError


@dataclass(slots=True)
class Refusal:
    """Words for a request that is none of ours."""

    status: int
    words: str
    fields: Fields = field(default=())

    def answer(self, *, closes: bool = False) -> Answer:
        error = {"code": -32600, "message": self.words}
        return Answer(
            self.status, codec.write({"jsonrpc": "2.0", "error": error}), fields=self.fields, closes=closes
        )


def repeated(key: bytes, first: bytes, second: bytes) -> bytes:
    """The value of a header that came again: a list goes on; of all else nobody knows which one counts."""
    return first + b", " + second if key == b"accept" else TWICE


def event(message: bytes, id_: bytes | None = None) -> bytes:
    """A message as a server-sent event."""
    if id_ is None:
        return b"event: message\ndata: " + message + b"\n\n"
    return b"event: message\nid: " + id_ + b"\ndata: " + message + b"\n\n"
