"""Splits what a server sends into lines, and lines into server-sent events, of bounded size.

Sans-IO: chunks go in, lines and events come out, however the chunks were cut. Knows nothing of messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ANY_END = re.compile(rb"\r\n|\n|\r(?=[^\n])")  # a return at the very end may be half of a line end
_MAX_RETRY_DIGITS = 9


class TooLongError(ValueError):
    """A line or an event goes on beyond the limit."""


class Lines:
    """Lines that end with a newline. One that is too long is None, and the next is read again."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()
        self._is_skipping = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        seen = len(self._held)
        self._held += chunk
        start = 0
        while (end := self._held.find(b"\n", max(start, seen))) >= 0:
            if self._is_skipping:
                self._is_skipping = False
            elif end - start > self._limit:
                yield None
            else:
                yield bytes(self._held[start:end])
            start = end + 1
        del self._held[:start]
        if self._is_skipping:
            self._held.clear()
        elif len(self._held) > self._limit:
            self._held.clear()
            self._is_skipping = True
            yield None


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event; `id` is the last one given, by this event or before."""

    name: str
    data: bytes
    id: str | None
    retry_ms: int | None


class Events:
    """Server-sent events as the HTML standard has them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()
        self._seen = 0
        self._is_first = True
        self._data: list[bytes] = []
        self._size = 0
        self._name = ""
        self.last_id: str | None = None
        self.retry_ms: int | None = None

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Raises TooLongError."""
        self._held += chunk
        start = 0
        while match := _ANY_END.search(self._held, max(start, self._seen)):
            line = bytes(self._held[start : match.start()])
            start = match.end()
            if self._is_first:
                line = line.removeprefix(b"\xef\xbb\xbf")
                self._is_first = False
            if line:
                self._take(line)
            elif event := self._finish():
                yield event
        del self._held[:start]
        self._seen = max(0, len(self._held) - 1)
        if len(self._held) + self._size > self._limit:
            raise TooLongError

    def _take(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._size += len(value)
            if self._size > self._limit:
                raise TooLongError
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field == b"id" and b"\0" not in value:
            self.last_id = value.decode("utf-8", "replace")
        elif field == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
            self.retry_ms = int(value)

    def _finish(self) -> Event | None:
        data, name = b"\n".join(self._data), self._name
        has_data = bool(self._data)
        self._data.clear()
        self._size, self._name = 0, ""
        return Event(name or "message", data, self.last_id, self.retry_ms) if has_data else None
