"""Output that a client has not read yet: up to 1 MiB in memory, more than that in a temporary file.

A result has the size it has, and a client that reads slowly still gets it whole. Keeping it in a file means
that clients which never read cost neither memory nor anybody else's time. All files of a server together are
bounded: above the limit, the client that has read nothing for longest is cut off.
"""

from __future__ import annotations

import io
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import IO

logger = logging.getLogger("toolcrib")

MAX_MEMORY = 1024 * 1024
"""Bytes kept in memory for one client."""
MAX_FILES = 1024 * 1024 * 1024
"""Bytes kept in the files of all clients together."""
MAX_WITHOUT_FILES = 32 * 1024 * 1024
"""The same, where no temporary file can be made and memory has to serve."""


class UnreadStore:
    """The files of all clients of one server."""

    def __init__(self, limit: int = MAX_FILES, memory_limit: int = MAX_WITHOUT_FILES) -> None:
        self.size = 0
        self.memory = 0  # the part of `size` that is in memory, for want of a file
        self._limit = limit
        self._memory_limit = memory_limit
        self._holders: set[Unread] = set()
        self._is_warned = False

    def open_file(self) -> IO[bytes]:
        """A file that is gone when it is closed. Raises OSError."""
        import tempfile  # only a server with a large answer and a slow reader needs it

        return tempfile.TemporaryFile(prefix="toolcrib-", buffering=0)

    def warn(self, error: OSError) -> None:
        if not self._is_warned:
            self._is_warned = True
            logger.warning("unread output is kept in memory, since no temporary file can be used: %s", error)

    def add(self, holder: Unread, size: int, in_memory: bool) -> None:
        self._holders.add(holder)
        self.size += size
        self.memory += size if in_memory else 0
        while self.size > self._limit and self._cut(holder, [*self._holders]):
            pass
        while self.memory > self._memory_limit and self._cut(
            holder, [item for item in self._holders if item.is_in_memory]
        ):
            pass

    def remove(self, holder: Unread, size: int, in_memory: bool) -> None:
        self._holders.discard(holder)
        self.size -= size
        self.memory -= size if in_memory else 0

    @staticmethod
    def _cut(newest: Unread, holders: list[Unread]) -> bool:
        """Cut off the client that has read nothing for longest, other than the newest one."""
        others = [item for item in holders if item is not newest]
        if not others:
            return False
        min(others, key=lambda item: item.read_at).cut()
        return True


class Unread:
    """The unread output of one client, first in, first out. `on_cut` is called when it is thrown away."""

    __slots__ = (
        "_file",
        "_offset",
        "_on_cut",
        "_parts",
        "_store",
        "_stored",
        "is_in_memory",
        "read_at",
        "size",
    )

    def __init__(self, store: UnreadStore, on_cut: Callable[[], None]) -> None:
        self.size = 0
        self.read_at = 0.0  # when the client last took something, or could have
        self.is_in_memory = False
        self._store = store
        self._on_cut: Callable[[], None] | None = on_cut
        self._parts: deque[bytes] = deque()
        self._file: IO[bytes] | None = None
        self._offset = 0
        self._stored = 0

    def append(self, data: bytes | memoryview) -> None:
        if not self.size:
            self.read_at = time.monotonic()
        self.size += len(data)
        if self._file is None and self.size <= MAX_MEMORY:
            self._parts.append(bytes(data))  # a view would keep all of what it is a part of
        else:
            self._write(data)

    def take(self, limit: int) -> bytes:
        """The next bytes, at most `limit` of them."""
        self.read_at = time.monotonic()
        if self._parts:
            part = self._parts.popleft()
            if len(part) > limit:
                self._parts.appendleft(part[limit:])
                part = part[:limit]
            self.size -= len(part)
            return part
        if self._file is None:
            return b""
        self._file.seek(self._offset)
        data = self._file.read(limit)
        self._offset += len(data)
        self.size -= len(data)
        if not self.size:
            self.clear()
        return data

    def clear(self) -> None:
        self._parts.clear()
        self.size = self._offset = 0
        if self._file is not None:
            self._file.close()
            self._file = None
            self._store.remove(self, self._stored, self.is_in_memory)
            self._stored, self.is_in_memory = 0, False

    def cut(self) -> None:
        """Throw away what is there, and say so."""
        self.clear()
        if self._on_cut is not None:
            self._on_cut()

    def close(self) -> None:
        """Keep nothing more, and hold nobody."""
        self.clear()
        self._on_cut = None

    def _write(self, data: bytes | memoryview) -> None:
        try:
            if self._file is None:
                self._file = self._store.open_file()
            self._file.seek(0, io.SEEK_END)
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._store.warn(error)
            if self._stored:  # in a file that takes no more
                self.cut()
                return
            if self._file is not None:
                self._file.close()
            self._file, self.is_in_memory = io.BytesIO(data), True
        self._stored += len(data)
        self._store.add(self, len(data), self.is_in_memory)
