"""Records in a file of JSON Lines: one write for many, a lock around it, and never half a line for long.

Knows this file; refuses to know what its lines say, but for number and hash.

A file that only ever grows, shared by several processes, and what it takes to keep it whole.

Everything that the audit does to plain files goes through here. A write that does not succeed as a whole is
taken back; whoever holds the lock is alone; a file that was replaced meanwhile is opened anew. Knows bytes
and descriptors; refuses to know records.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from toolcrib.config.atomic_file import PRIVATE, open_new, remove_stale, sync_folder
from toolcrib.policy.audit.record import NO_RECORD, Head, head_of
from toolcrib.policy.audit.store import DELETED, REPLACED, BrokenError, Compose, GoneError

try:
    import fcntl as _fcntl
except ImportError:  # pragma: no cover - not every system has it: there, one process to a file
    _fcntl = None  # type: ignore[assignment]

fcntl: Any = _fcntl
CHUNK = 1 << 20
_BINARY = getattr(os, "O_BINARY", 0)


class GrowingFile:
    """Opened when it is first locked, readable and writable by its owner only."""

    def __init__(self, path: Path, leaving: Callable[[], None] | None = None) -> None:
        """`leaving` is called before a file that is no longer in its place is closed, alone with it."""
        self.path = path
        self._leaving = leaving
        self.descriptor = -1
        self.mark = (0, 0)
        """Which file it is: another one in its place has another mark."""

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Alone with the file that now has the name. Gives its size."""
        while True:
            if self.descriptor < 0:
                self._open()
            _lock(self.descriptor)
            try:
                if self._is_in_place():
                    yield self.size()
                    return
                if self._leaving is not None:
                    self._leaving()
            finally:
                _unlock(self.descriptor)
            self.close()

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY, PRIVATE)
        facts = os.fstat(self.descriptor)
        self.mark = (facts.st_dev, facts.st_ino)

    def _is_in_place(self) -> bool:
        try:
            facts = os.stat(self.path)
        except FileNotFoundError:
            return False
        return (facts.st_dev, facts.st_ino) == self.mark

    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def extend(self, data: bytes, size: int) -> None:
        """All of it at the end, or nothing. `size` is the file's before. Raises OSError."""
        left = memoryview(data)
        try:
            while left:
                written = os.write(self.descriptor, left)
                if not written:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                left = left[written:]
        except BaseException:
            # A disk that gets full takes a part first. Where even that cannot be undone, the next to lock
            # the file finds a torn end and cuts it.
            with suppress(OSError):
                os.ftruncate(self.descriptor, size)
            raise

    def cut(self, size: int) -> None:
        os.ftruncate(self.descriptor, size)

    def sync(self) -> None:
        os.fsync(self.descriptor)

    def replace_from(self, start: int) -> None:
        """Drop what is before `start`: written beside it, moved in its place. Needs the lock."""
        remove_stale(self.path)
        draft = self.path.parent / f".{self.path.name}.{os.getpid()}.{os.urandom(6).hex()}.tmp"
        try:
            with (
                open(open_new(draft), "wb") as target,
                open(self.path, "rb") as source,
            ):
                source.seek(start)
                shutil.copyfileobj(source, target, CHUNK)
                target.flush()
                os.fsync(target.fileno())
            os.replace(draft, self.path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        sync_folder(self.path.parent)

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def read_at(descriptor: int, start: int, length: int) -> bytes:
    os.lseek(descriptor, start, os.SEEK_SET)
    parts = []
    while length > 0 and (part := os.read(descriptor, length)):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def sync_path(path: Path) -> None:
    """Have a file that something else writes on the disk; one that is not there needs no such thing."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def claim(path: Path) -> bool:
    """Make a file of this name, for its owner only, unless there is one. Returns whether it was made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, PRIVATE))
    except FileExistsError:
        return False
    return True


def write_new(path: Path, data: bytes) -> None:
    """A file that was not there before, for its owner only, on the disk. Raises OSError, and leaves none."""
    descriptor = open_new(path)
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def read_lines(descriptor: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Lines and where they begin, without their newline, from a place where one begins. An unfinished last
    line is left out."""
    rest = b""
    place = start
    while chunk := read_at(descriptor, start, min(CHUNK, end - start)):
        start += len(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield place, line
            place += len(line) + 1


def read_lines_back(descriptor: int, end: int, chunk_size: int = 1 << 16) -> Iterator[tuple[int, bytes]]:
    """The same, last line first."""
    rest = b""  # the end of a line whose beginning is still to be read, with all that it has of a newline
    while end > 0:
        start = max(0, end - chunk_size)
        lines = (read_at(descriptor, start, end - start) + rest).split(b"\n")
        unfinished = lines.pop()  # the nothing after a newline, except where the file ends without one
        place = start + sum(len(line) + 1 for line in lines)
        first = 0 if start == 0 else 1
        for line in reversed(lines[first:]):
            place -= len(line) + 1
            yield place, line
        rest = lines[0] + b"\n" if lines else unfinished
        end = start


@contextmanager
def shared(descriptor: int) -> Iterator[None]:
    """While nobody writes; several may read."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    try:
        yield
    finally:
        _unlock(descriptor)


def _lock(descriptor: int) -> None:
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _unlock(descriptor: int) -> None:
    if fcntl is not None and descriptor >= 0:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class LineStore:
    sync_every: int | None = 64
    remove_batch: int | None = None

    def __init__(self, path: Path, *, sync: bool) -> None:
        self.cut_bytes = 0
        self._file = GrowingFile(path, self._remember)
        self._left = NO_RECORD
        """The last record of the file that was there before, where it was replaced."""
        self._is_synced = sync
        self._known: tuple[tuple[int, int], int, Head] | None = None
        """Which file it was, how long, and its last record, when we last had it to ourselves."""
        with self._file.locked():
            pass  # so that a file that cannot be used is known at once

    def append(self, compose: Compose, head: Head | None = None) -> None:
        with self._file.locked() as size:
            if head is None:
                head, size = self._catch_up(size)
            lines = compose(head)
            if not lines:
                return
            data = b"\n".join(lines) + b"\n"
            self._file.extend(data, size)
            self._known = (self._file.mark, size + len(data), head_of(lines[-1]) or NO_RECORD)
            if self._is_synced:
                self._file.sync()

    def look(self) -> None:
        with self._file.locked() as size:
            if self._left.seq:
                self._catch_up(size)

    def _remember(self) -> None:
        lines = read_lines_back(self._file.descriptor, self._file.size())
        heads = (head for _, line in lines if (head := head_of(line)) is not None)
        self._left = next(heads, NO_RECORD)

    def head(self) -> Head:
        with self._file.locked() as size:
            return self._catch_up(size)[0]

    def _catch_up(self, size: int) -> tuple[Head, int]:
        """The last record and the size, whatever others have done since. A torn end goes."""
        known = self._known
        if known is not None and known[:2] == (self._file.mark, size):
            return known[2], size
        end, last = next(
            ((place + len(line) + 1, line) for place, line in read_lines_back(self._file.descriptor, size)),
            (0, None),
        )
        head = NO_RECORD if last is None else head_of(last)
        if head is None:
            raise BrokenError("the last line is no record")
        # A file that another process has shortened still has the record that was the last one.
        if self._left.seq and head_of(next(self.lines(self._left.seq - 1), b"")) != self._left:
            raise GoneError(REPLACED if size else DELETED, self._left)
        self._left = NO_RECORD
        if known is not None and head.seq < known[2].seq:
            raise BrokenError(f"record {known[2].seq} was there, and is gone", known[2].seq)
        if end < size:
            self._file.cut(end)
            self.cut_bytes += size - end
        self._known = (self._file.mark, end, head)
        return head, end

    def first_seq(self) -> int:
        with self._file.locked() as size:
            first = next(read_lines(self._file.descriptor, 0, size), None)
        head = None if first is None else head_of(first[1])
        return 0 if head is None else head.seq

    def taken_seq(self) -> int:
        return 0  # a line may say what it wants: the next one has its own place

    def lines(self, after: int) -> Generator[bytes]:
        descriptor, size = self._file.descriptor, self._file.size()
        for _, line in read_lines(descriptor, place_behind(descriptor, size, after), size):
            yield line

    def remove_through(self, seq: int) -> None:
        with self._file.locked() as size:
            start = place_behind(self._file.descriptor, size, seq)
            if 0 < start < size:
                self._file.replace_from(start)

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()


def place_behind(descriptor: int, size: int, seq: int) -> int:
    """Where the first line behind a record begins. Lines that are no records belong to the one before."""
    if seq <= 0:
        return 0
    for place, line in read_lines_back(descriptor, size):
        head = head_of(line)
        if head is not None and head.seq <= seq:
            return place + len(line) + 1
    return 0
