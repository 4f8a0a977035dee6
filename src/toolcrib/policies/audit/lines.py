"""Records in a file of JSON Lines: one write for many, a lock around it, and never half a line for long.

Knows this file; refuses to know what its lines say, but for number and hash.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

from toolcrib.policies.audit.files import GrowingFile, read_lines, read_lines_back
from toolcrib.policies.audit.record import NO_RECORD, Head, head_of
from toolcrib.policies.audit.store import DELETED, REPLACED, BrokenError, Compose, GoneError


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
