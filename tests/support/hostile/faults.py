"""Fault injection: the N-th operation on files (through `os`) or SQLite fails."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FAULTS = ("EIO", "ENOSPC", "EINTR", "short")
WATCHED = ("open", "write", "fsync", "ftruncate", "replace", "link")


class Faults:
    """Counts operations and makes the `at`-th fail in one of the ways in FAULTS. `at=0` disables it."""

    def __init__(self, at: int = 0, kind: str = "EIO") -> None:
        self.at = at
        self.kind = kind
        self.count = 0
        self.was_hit = False
        self._is_full = False

    def arrives(self) -> bool:
        self.count += 1
        is_due = self.count == self.at
        self.was_hit = self.was_hit or is_due
        return is_due

    def error(self) -> OSError:
        number = getattr(errno, self.kind if self.kind != "short" else "ENOSPC")
        return OSError(number, os.strerror(number))

    def write(self, descriptor: int, data: Any) -> int:
        """Write a part of the data, as a disk that gets full does."""
        if self._is_full:
            self._is_full = False
            raise self.error()
        if not self.arrives():
            return os.write(descriptor, data)
        if self.kind != "short":
            raise self.error()
        self._is_full = True
        return os.write(descriptor, bytes(data)[: len(data) // 2])


class FaultyOS:
    """Replaces `os` in a module."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name == "write":
            return self._faults.write
        return self._failing(real) if name in WATCHED else real

    def _failing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            if self._faults.arrives():
                raise self._faults.error()
            return real(*args, **options)

        return run


class FaultyFile:
    """A file whose writes are counted too."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file = file
        self._faults = faults

    def __enter__(self) -> FaultyFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> int:
        if self._faults.arrives():
            if self._faults.kind == "short":
                self._file.write(data[: len(data) // 2])
            raise self._faults.error()
        written: int = self._file.write(data)
        return written


def faulty_open(faults: Faults) -> Callable[..., Any]:
    def run(*args: Any, **options: Any) -> Any:
        return FaultyFile(open(*args, **options), faults)

    return run


def faulty_connect(faults: Faults, *, is_done_first: bool) -> Callable[..., sqlite3.Connection]:
    """Replaces `sqlite3.connect`. With `is_done_first` the failing operation takes effect before it fails."""
    connect = sqlite3.connect

    class Connection(sqlite3.Connection):
        def execute(self, *args: Any) -> sqlite3.Cursor:
            if not faults.arrives():
                return super().execute(*args)
            if is_done_first:
                super().execute(*args)
            words = "database or disk is full" if faults.kind == "ENOSPC" else "disk I/O error"
            raise sqlite3.OperationalError(words)

    def run(*args: Any, **options: Any) -> sqlite3.Connection:
        return connect(*args, factory=Connection, **options)

    return run


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a SQLite database."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()
