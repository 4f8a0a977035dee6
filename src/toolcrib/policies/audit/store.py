"""Where records are kept: what a log needs of it, and which one a file name means.

Knows the two stores by name; refuses to know how either keeps anything.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Protocol

from toolcrib.policies.audit.record import Head

Compose = Callable[[Head], list[bytes]]
"""The lines to write, once it is known behind which record."""


class StoreError(Exception):
    """The store does not work now, and may again later."""


class BrokenError(StoreError):
    """What is kept is not what was written. `seq` is where it begins."""

    def __init__(self, words: str, seq: int = 0) -> None:
        super().__init__(words)
        self.seq = seq


FAILURES = (OSError, StoreError)
_PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EINTR, errno.EAGAIN, errno.ESTALE}


def is_outage(error: BaseException) -> bool:
    """Whether it may pass without anybody changing a setting or a log."""
    if isinstance(error, OSError):
        return error.errno in _PASSING
    return isinstance(error, StoreError) and not isinstance(error, BrokenError)


class Store(Protocol):
    """Lines in their order. Used by one thread; shared with other processes. All of it raises FAILURES."""

    sync_every: int | None
    """After so many records `sync` is asked for; None: the store sees to it."""
    remove_batch: int | None
    """How many records are ended at once; None: all of them, which takes the longer the more stay."""
    cut_bytes: int
    """How much was found unfinished, and removed, since this was last set to nothing."""

    def append(self, compose: Compose, head: Head | None = None) -> None:
        """Alone with the store: ask for lines, and keep all of them or none. `head` is behind what they come
        where that is not the last line."""
        ...

    def head(self) -> Head: ...

    def first_seq(self) -> int:
        """The number of the oldest record; 0 where there is none."""
        ...

    def taken_seq(self) -> int:
        """The highest number that cannot be given again, whatever stands there."""
        ...

    def lines(self, after: int) -> Generator[bytes]:
        """Everything that was kept behind a number, whatever it is."""
        ...

    def remove_through(self, seq: int) -> None:
        """End the oldest records, up to this one. Never the last."""
        ...

    def sync(self) -> None:
        """Returns when all that was kept would survive a loss of power."""
        ...

    def close(self) -> None: ...


def is_lines(path: Path) -> bool:
    return path.suffix == ".jsonl"


def open_store(path: Path, *, sync: bool, wait_s: float) -> Store:
    """The store of a file, which is made where there is none. Raises FAILURES."""
    if is_lines(path):
        from toolcrib.policies.audit.lines import LineStore

        return LineStore(path, sync=sync)
    from toolcrib.policies.audit.table import TableStore  # SQLite takes a while to load

    return TableStore(path, sync=sync, wait_s=wait_s)
