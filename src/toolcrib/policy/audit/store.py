"""Where records are kept: what a log needs of it, and which one a file name means.

Knows the two stores by name; refuses to know how either keeps anything.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Protocol

from toolcrib.config.settings import Audit
from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit.record import Head

logger = logging.getLogger("toolcrib")

Compose = Callable[[Head], list[bytes]]
"""The lines to write, once it is known behind which record."""


class StoreError(Exception):
    """The store does not work now, and may again later."""


class BrokenError(StoreError):
    """What is kept is not what was written. `seq` is where it begins."""

    def __init__(self, words: str, seq: int = 0) -> None:
        super().__init__(words)
        self.seq = seq


class GoneError(BrokenError):
    """The file was deleted or replaced while it was in use. `head` is the last record that it held."""

    def __init__(self, words: str, head: Head) -> None:
        super().__init__(words, head.seq)
        self.head = head


DELETED = "the file of the log was deleted"
REPLACED = "another file is in the place of the log"
DELETED_WAL = "the -wal file of the log was deleted"
REPLACED_WAL = "another file is in the place of the -wal file of the log"
KEY_AGE_S = 5.0
"""A younger key is probably that of another worker of this server, which makes the log next."""
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
    """How much was found unfinished, and removed."""

    def append(self, compose: Compose, head: Head | None = None) -> None:
        """Alone with the store: ask for lines, and keep all of them or none. `head` is behind what they come
        where that is not the last line."""
        ...

    def look(self) -> None:
        """Raise GoneError where the file was deleted or replaced."""
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


def find_other(path: Path) -> ConfigurationError | None:
    """What is wrong with a file that is something else, and no log of the kind that its name says. Not for
    one that is in use: to open and close it behind the back of SQLite would end its locks."""
    if path.is_file():
        start = b'{"seq":' if is_lines(path) else b"SQLite format 3"
        with open(path, "rb") as file:
            found = file.read(len(start))
        if found == start and not is_lines(path):
            from toolcrib.policy.audit.sqlite_store import holds_other  # as below

            if not holds_other(path):
                return None
            problem = "is a database of something else"
        elif not found or found == start:
            return None
        else:
            problem = "does not hold JSON Lines of records" if is_lines(path) else "is not a SQLite file"
    elif is_lines(path) or path.is_dir() or not path.exists():
        return None
    else:
        problem = "is a device"
    hint = "name one that is not there yet: it is made; *.jsonl holds JSON Lines, every other name SQLite"
    return ConfigurationError(f"is no audit log: it {problem}", file=str(path), key="audit.file", hint=hint)


def check_key(has_key: bool, log: Path, seals: Path, key_file: Path) -> None:
    """Raise where there is no key, and none can be made for this log. Warn where a log may have been removed:
    a key is kept in its file, and neither a log nor checkpoints are there."""
    if not has_key:
        refuse_new_key(log, seals, key_file)
    elif not log.exists() and not seals.exists() and _age_s(key_file) > KEY_AGE_S:
        logger.warning(
            "audit: there is a key (%s), but neither a log (%s) nor checkpoints (%s): an earlier log may "
            "have been removed, unless this is the first start with a key that you made",
            key_file,
            log,
            seals,
        )


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:  # the key comes from the environment
        return 0.0


def refuse_new_key(log: Path, seals: Path, key_file: Path) -> None:
    """Raise where there is no key, and none can be made for this log."""
    if log.is_dir():  # before a key is made beside it
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(log))
    if (other := find_other(log)) is not None:
        raise other
    for path in (seals, log):
        if path.is_file() and path.stat().st_size:
            raise ConfigurationError(
                f"the key of {log} is gone: what it has sealed cannot be checked without it",
                file=str(key_file),
                key="audit.key_file",
                hint="put the key back, or begin a new log in another file",
            )


def name_unusable(error: OSError, options: Audit) -> ConfigurationError:
    """What somebody has to put right before a log can be written, and in which setting."""
    named = {str(options.key_file): "audit.key_file", str(options.checkpoints): "audit.checkpoints"}
    key = "audit.file" if error.filename is None else named.get(str(error.filename), "audit.file")
    file = str(options.file) if key == "audit.file" else str(error.filename)
    words = error.strerror or str(error)
    if isinstance(error, FileExistsError):  # what was to be made a folder is there, and none
        words = os.strerror(errno.ENOTDIR)
    if error.filename is not None and str(error.filename) != file:
        words = f"{words}: {error.filename}"
    hint = f'name a file in it: "{file}/{_USUAL[key]}"' if isinstance(error, IsADirectoryError) else _HINT
    what = "the audit log" if key == "audit.file" else "it"
    return ConfigurationError(f"{what} cannot be written: {words}", file=file, key=key, hint=hint)


_USUAL = {"audit.file": "audit.db", "audit.key_file": "audit.key", "audit.checkpoints": "audit.checkpoints"}
_HINT = "it has to be a place where whoever runs the server may write"


def open_store(path: Path, *, sync: bool, wait_s: float) -> Store:
    """The store of a file, which is made where there is none. Raises FAILURES."""
    if is_lines(path):
        from toolcrib.policy.audit.jsonl_store import LineStore

        return LineStore(path, sync=sync)
    from toolcrib.policy.audit.sqlite_store import TableStore  # SQLite takes a while to load

    return TableStore(path, sync=sync, wait_s=wait_s)
