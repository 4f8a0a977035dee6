"""Reading and verifying an audit log, also while a server writes it.

    log = open_log(Path("audit.db"))
    for record in log.records(tool="refund*", outcome={"denied"}, newest_first=True, limit=20):
        print(record["at"], record["principal"])
    assert log.verify().is_sound

Verification checks that every record follows the one before it and matches the checkpoints. Without the key
this proves only that the records fit each other: somebody who rewrites all of them can make them fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit.checkpoints import (
    AuditKey,
    Checkpoint,
    CheckpointLines,
    checkpoints_path,
    collect_checkpoints,
    find_key,
    read_checkpoints,
)
from toolcrib.policy.audit.record import NO_RECORD, Head, follows, format_time, parse_time, read_head
from toolcrib.policy.audit.store import LogSnapshot, is_blank, open_snapshot
from toolcrib.validation import codec

# --- verification -------------------------------------------------------------------------------------

MAX_PROBLEMS = 100
_PROGRESS_EVERY = 5_000
_MAX_UNSEALED_MINUTES = 4
"""A server seals its records within a minute, or two if the machine sleeps meanwhile."""
_BEGINNING = re.compile(rb'\{"seq":\d+,"at":"([^"]{16})[^"]*","kind":"(\w+)"')
UNKNOWN = b""
"""The hash of an unreadable record: nothing can be said about the next one."""


class Problem(NamedTuple):
    """A finding about a log.

    `seq` is the record concerned, 0 if none is. `kind` is "edited", "missing", "out-of-order", "unreadable",
    "restamped", "truncated", "forged", "unsealed" or "more".
    """

    seq: int
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a verification.

    `head` is the hash of the last record. `pruned_before` is the first record that retention left, None if it
    removed none. Records after `proven_through` are chained, but no checkpoint covers them yet: anybody
    who can write the file could have made them. `proven_at` is the time of that checkpoint. Without a key
    (`is_keyed`) checkpoints are compared, but anybody may have written them.
    """

    is_sound: bool
    records: int
    first_seq: int
    last_seq: int
    head: str
    checkpoints_checked: int
    problems: list[Problem]
    pruned_before: int | None
    is_keyed: bool
    proven_through: int
    proven_at: str | None = None


class Verifier:
    """Checks the lines of a log from first to last."""

    def __init__(
        self,
        lines: CheckpointLines,
        anchors: Sequence[Checkpoint] = (),
        *,
        is_keyed: bool = True,
        must_be_sealed: bool = False,
    ) -> None:
        """`anchors` are newer checkpoints, of which only those about removed records are used. With
        `must_be_sealed`, minutes of work without a checkpoint are a problem too."""
        checkpoints = lines.checkpoints
        self._is_keyed = is_keyed
        self._must_be_sealed = must_be_sealed
        self._minutes: set[bytes] = set()
        self._problems: list[Problem] = []
        self._anchors = {
            each.seq: each.hash.encode() for each in (*checkpoints, *anchors) if each.kind == "pruned"
        }
        self._sealed_hashes: dict[int, set[bytes]] = {}
        for each in checkpoints:
            self._expect(each.seq, each.hash)
        self._newest = max((each.seq for each in checkpoints), default=0)
        self._checked = 0
        self._proven = 0
        self._first = 0
        self._times = {each.seq: each.at for each in checkpoints}
        for number in lines.forged:
            self._add(
                0, "forged", f"line {number} of the checkpoints was changed, or sealed with another key"
            )
        if is_keyed and not checkpoints:
            self._add(0, "unsealed", "there is no checkpoint: missing records cannot be detected")

    def _expect(self, seq: int, hash_: str) -> None:
        if seq:
            self._sealed_hashes.setdefault(seq, set()).add(hash_.encode())

    def run(
        self,
        lines: Iterator[bytes],
        progress: Callable[[int], None] | None = None,
        *,
        after: Head = NO_RECORD,
    ) -> Verdict:
        """Check the lines after a record. `progress` is called now and then with their number."""
        head, count, sealed = after, 0, self._sealed_hashes
        for line in lines:
            if count and follows(line, head):
                head = Head(head.seq + 1, line[-66:-2])
            else:
                head = self._step(line, head)
            if head.seq in sealed:
                self._compare(head)
            if self._must_be_sealed and head.seq > self._newest:
                self._check_sealing(line)
            count += 1
            if progress is not None and not count % _PROGRESS_EVERY:
                progress(count)
        self._finish(head)
        return Verdict(
            is_sound=not self._problems,
            records=count,
            first_seq=self._first,
            last_seq=head.seq,
            head=(head.hash if count else NO_RECORD.hash).decode(),
            checkpoints_checked=self._checked,
            problems=self._problems,
            pruned_before=self._first if self._first - 1 in self._anchors else None,
            is_keyed=self._is_keyed,
            proven_through=self._proven,
            proven_at=self._times.get(self._proven),
        )

    def _step(self, line: bytes, head: Head) -> Head:
        """Handle a line that does not simply follow. Returns the record that the next line must follow."""
        found = read_head(line)
        if found is None:
            self._add(head.seq + 1, "unreadable", f"record {head.seq + 1} is unreadable")
            return Head(head.seq + 1, UNKNOWN)
        if not self._first:
            self._first = found.seq
            if found.seq - 1 in self._anchors:
                head = Head(found.seq - 1, self._anchors[found.seq - 1])
        if found.seq <= head.seq:
            message = f"record {found.seq} comes after record {head.seq}: it was moved or duplicated"
            self._add(found.seq, "out-of-order", message)
            return head
        if found.seq > head.seq + 1:
            self._report_missing(head.seq + 1, found.seq - 1)
        elif head.hash != UNKNOWN and not follows(line, head):
            message = f"record {found.seq} does not match the one before it: one of them was changed"
            self._add(found.seq, "edited", message)
        return found

    def _report_missing(self, first: int, last: int, where: str = "") -> None:
        message = f"record {first} is missing" if first == last else f"records {first} to {last} are missing"
        self._add(first, "truncated" if where else "missing", message + where)

    def _compare(self, head: Head) -> None:
        self._checked += 1
        if self._sealed_hashes[head.seq] == {head.hash}:
            self._proven = head.seq
        else:
            self._add(head.seq, "restamped", f"record {head.seq} does not match its checkpoint")

    def _check_sealing(self, line: bytes) -> None:
        """Count the minutes in which records were written after the newest checkpoint.

        Each run of a server counts separately, since it may have been killed before it could seal; so does
        the time after a gap, whose records came late.
        """
        beginning = _BEGINNING.match(line)
        if beginning is None:
            return
        if beginning[2] in (b"opened", b"gap"):
            self._minutes.clear()
        self._minutes.add(beginning[1])
        if len(self._minutes) > _MAX_UNSEALED_MINUTES:
            self._must_be_sealed = False  # one such problem is enough
            message = (
                f"the log continued for minutes after record {self._newest} without a checkpoint: "
                "checkpoints were removed, or could not be written"
            )
            self._add(self._newest + 1, "unsealed", message)

    def _finish(self, head: Head) -> None:
        if head.seq < self._newest:
            self._report_missing(head.seq + 1, self._newest, " at the end")

    def _add(self, seq: int, kind: str, message: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(Problem(seq, kind, message))
        elif len(self._problems) == MAX_PROBLEMS:
            self._problems.append(Problem(seq, "more", f"more problems from record {seq} on"))


# --- reading ------------------------------------------------------------------------------------------

Time = str | float | datetime
NO_LOG = "no such audit log"
_GLOB_CHARACTERS = frozenset("*?[")


def open_log(
    path: Path | str,
    key_file: Path | str | None = None,
    checkpoints: Path | str | None = None,
    *,
    copy: Path | str | None = None,
) -> AuditReader:
    """Open a log, or what the checkpoints say about a deleted one. Raises ConfigurationError.

    Key and checkpoints are looked for beside the log unless given. `copy` is a copy of the checkpoints that
    was kept elsewhere, and is used in addition.
    """
    path = Path(path)
    beside = checkpoints_path(path, None if checkpoints is None else Path(checkpoints))
    if not path.is_file() and (path.exists() or not beside.is_file()):
        raise ConfigurationError(NO_LOG, file=str(path))
    key = find_key(path, None if key_file is None else Path(key_file))
    if key is None and key_file is not None:
        raise ConfigurationError("no such audit key", file=str(key_file), key="audit.key_file")
    needed = checkpoints if copy is None else copy
    if needed is not None and not Path(needed).is_file():
        raise ConfigurationError("no such checkpoints", file=str(needed), key="audit.checkpoints")
    return AuditReader(path, key, beside, None if copy is None else Path(copy))


class AuditReader:
    """Reads one log. Nothing stays open between calls, which raise ConfigurationError and OSError."""

    def __init__(self, path: Path, key: AuditKey | None, checkpoints: Path, copy: Path | None = None) -> None:
        self.path = path
        self._key = key
        self._checkpoints = checkpoints
        self._copy = copy

    @contextmanager
    def _open(self) -> Iterator[LogSnapshot | None]:
        """Open the log; None for a file that is missing or blank, which checkpoints say held records."""
        snapshot: LogSnapshot | None = None
        if self.path.exists():
            try:
                snapshot = open_snapshot(self.path)
            except ConfigurationError:
                if not (self._checkpoints.is_file() and is_blank(self.path)):
                    raise
        try:
            yield snapshot
        finally:
            if snapshot is not None:
                snapshot.close()

    def last_seq(self) -> int:
        """Return the number of the newest record; 0 if there is none."""
        with self._open() as snapshot:
            lines = iter(()) if snapshot is None else snapshot.lines_back()
            return next((head.seq for line in lines if (head := read_head(line)) is not None), 0)

    def records(
        self,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        **filters: Any,
    ) -> Iterator[dict[str, Any]]:
        """Yield the matching records in order. `filters` are `since` (inclusive), `until` (exclusive), the
        globs `principal` and `tool`, `outcome` (several), `code` and `id`. Lines that are not records are
        skipped: `verify` reports them."""
        return islice(self._find(_RecordFilter(**filters), newest_first), limit)

    def _find(self, record_filter: _RecordFilter, newest_first: bool) -> Iterator[dict[str, Any]]:
        with self._open() as snapshot:
            if snapshot is None:
                return
            for line in snapshot.lines_back() if newest_first else snapshot.lines(0):
                record = record_filter.read(line)
                if record is not None:
                    yield record

    def follow(
        self, after_seq: int, wait: Callable[[], bool | None], **filters: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield records after a number, then new ones as they come; `filters` are those of `records`. `wait`
        is called whenever there are no more, and stops the iteration by returning False."""
        everything, wanted = _RecordFilter(), _RecordFilter(**filters)
        while True:
            with self._open() as snapshot:
                for line in () if snapshot is None else snapshot.lines(after_seq):
                    record = everything.read(line)
                    if record is not None:
                        after_seq = max(after_seq, record["seq"])
                        if wanted.read(line) is not None:
                            yield record
            if wait() is False:
                return

    def verify(self, progress: Callable[[int], None] | None = None) -> Verdict:
        """Verify the whole log. `progress` is called now and then with the number of records checked."""
        # Checkpoints are read first, so that they are never ahead of the records. Those about removed records
        # are read again once the snapshot is open, because retention may run in between.
        lines = collect_checkpoints(read_checkpoints(self._checkpoints, self._key))
        with self._open() as snapshot:
            later = collect_checkpoints(read_checkpoints(self._checkpoints, self._key))
            has_checkpoints = bool(lines.checkpoints)
            if self._copy is not None:
                copied = collect_checkpoints(read_checkpoints(self._copy, self._key))
                lines = CheckpointLines(
                    lines.checkpoints + copied.checkpoints, [*lines.forged, *copied.forged]
                )
            verifier = Verifier(
                lines, later.checkpoints, is_keyed=self._key is not None, must_be_sealed=has_checkpoints
            )
            verdict = verifier.run(iter(()) if snapshot is None else snapshot.lines(0), progress)
        if verdict.is_sound and not self.path.exists():
            raise ConfigurationError(NO_LOG, file=str(self.path))  # and no checkpoint covers any record
        return verdict


class _RecordFilter:
    def __init__(
        self,
        *,
        since: Time | None = None,
        until: Time | None = None,
        principal: str | None = None,
        tool: str | None = None,
        outcome: Collection[str] | None = None,
        code: str | None = None,
        id: str | None = None,  # noqa: A002 - the name of the field
    ) -> None:
        globs, exact = {"principal": principal, "tool": tool}, {"code": code, "id": id}
        self._since = None if since is None else _format_time(since)
        self._until = None if until is None else _format_time(until)
        self._globs = {name: glob for name, glob in globs.items() if glob is not None}
        self._exact = {name: value for name, value in exact.items() if value is not None}
        self._outcomes = None if outcome is None else frozenset(outcome)
        literal = {name: glob for name, glob in self._globs.items() if _GLOB_CHARACTERS.isdisjoint(glob)}
        # Searching the bytes rules out most lines, and costs less than decoding them.
        self._needles = [
            b'"%b":%b' % (name.encode(), codec.write(value))
            for name, value in (self._exact | literal).items()
        ]

    def read(self, line: bytes) -> dict[str, Any] | None:
        """Return the record of a line; None if it is not a record or does not match."""
        if read_head(line) is None or not all(needle in line for needle in self._needles):
            return None
        try:
            record: dict[str, Any] = codec.decode(line)
        except ValueError:
            return None
        return record if self._matches(record) else None

    def _matches(self, record: dict[str, Any]) -> bool:
        at = record.get("at")
        if self._since is not None and not (isinstance(at, str) and at >= self._since):
            return False
        if self._until is not None and not (isinstance(at, str) and at < self._until):
            return False
        if any(record.get(name) != value for name, value in self._exact.items()):
            return False
        if self._outcomes is not None and record.get("outcome") not in self._outcomes:
            return False
        return all(
            isinstance(value := record.get(name), str) and fnmatchcase(value, glob)
            for name, glob in self._globs.items()
        )


def _format_time(time: Time) -> str:
    """Format a time as records do, so that strings can be compared."""
    try:
        if isinstance(time, str):
            return format_time(parse_time(time))
        if isinstance(time, datetime):
            return format_time((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())
        return format_time(time)
    except (ValueError, OverflowError, OSError):
        raise ConfigurationError(f"must be a date or a time such as 2026-05-04T10:00, got {time!r}") from None
