"""The lines of a log as they are at one moment, for one who reads.

Knows both kinds of file; refuses to change either.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from toolcrib.policies.audit import files
from toolcrib.policies.audit.lines import place_behind
from toolcrib.policies.audit.store import is_lines


class Source(Protocol):
    torn_bytes: int
    """How much of an unfinished record there is at the end."""

    def lines(self, after: int) -> Iterator[bytes]: ...

    def lines_back(self) -> Iterator[bytes]: ...

    def close(self) -> None: ...


def open_source(path: Path) -> Source:
    """Raises ConfigurationError for a file that is no log, and OSError."""
    if is_lines(path):
        return LineSource(path)
    from toolcrib.policies.audit.table import TableSource  # SQLite takes a while to load

    return TableSource(path)


def is_blank(path: Path) -> bool:
    """Whether a file is a database without any table, or has no content: all records of a log are missing."""
    if is_lines(path):
        return False
    from toolcrib.policies.audit.table import holds_nothing  # as above

    return not path.stat().st_size or holds_nothing(path)


class NoSource:
    """A log whose file is not there, or blank."""

    torn_bytes = 0

    def lines(self, after: int) -> Iterator[bytes]:  # noqa: ARG002 - as all sources have it
        return iter(())

    def lines_back(self) -> Iterator[bytes]:
        return iter(())

    def close(self) -> None:
        pass


class LineSource:
    def __init__(self, path: Path) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by `close`
        self._descriptor = self._file.fileno()
        with files.shared(self._descriptor):
            # Nobody is writing now: what is unfinished stays unfinished.
            self._size = os.fstat(self._descriptor).st_size
        last = next(files.read_lines_back(self._descriptor, self._size), None)
        end = 0 if last is None else last[0] + len(last[1]) + 1
        self.torn_bytes = self._size - end

    def lines(self, after: int) -> Iterator[bytes]:
        start = place_behind(self._descriptor, self._size, after)
        return (line for _, line in files.read_lines(self._descriptor, start, self._size))

    def lines_back(self) -> Iterator[bytes]:
        return (line for _, line in files.read_lines_back(self._descriptor, self._size))

    def close(self) -> None:
        self._file.close()
