"""Split a stream of bytes into lines of bounded length, for both ends of the stdio transport."""

from __future__ import annotations

from collections.abc import Iterator


class LineReader:
    """Collects chunks and yields lines. A line over the limit is yielded as None and skipped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()
        self._is_skipping = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        held = self._held
        if not held and not self._is_skipping and chunk.find(b"\n") == len(chunk) - 1 <= self._limit:
            yield chunk[:-1]  # the common case: one complete line
            return
        seen = len(held)
        held += chunk
        start = 0
        while (end := held.find(b"\n", max(start, seen))) >= 0:
            if self._is_skipping:
                self._is_skipping = False
            else:
                yield bytes(held[start:end]) if end - start <= self._limit else None
            start = end + 1
        del held[:start]
        if len(held) > self._limit or self._is_skipping:
            held.clear()
            if not self._is_skipping:
                self._is_skipping = True
                yield None

    def end(self) -> bytes:
        """Return what came after the last line."""
        rest = bytes(self._held)
        self._held.clear()
        return rest
