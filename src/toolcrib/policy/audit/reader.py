"""Reading an audit log, also while a server writes it.

log = open_log(Path("audit.db"))
for record in log.records(tool="refund*", outcome={"denied"}, newest_first=True, limit=20):
    print(record["at"], record["principal"])
assert log.verify().is_sound
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit.checkpoints import AuditKey, checkpoints_path, find_key, read_checkpoints
from toolcrib.policy.audit.record import format_time, parse_time, read_head
from toolcrib.policy.audit.store import LogSnapshot, is_blank, open_snapshot
from toolcrib.policy.audit.verify import UnsealedTime, Verdict, Verifier, collect_checkpoints
from toolcrib.validation import codec

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
        since: Time | None = None,
        until: Time | None = None,
        principal: str | None = None,
        tool: str | None = None,
        outcome: Collection[str] | None = None,
        code: str | None = None,
        id: str | None = None,  # noqa: A002 - the name of the field
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield the matching records in order. `principal` and `tool` are globs; `since` is inclusive and
        `until` exclusive. Lines that are not records are skipped: `verify` reports them."""
        record_filter = _RecordFilter(
            since, until, {"principal": principal, "tool": tool}, {"code": code, "id": id}, outcome
        )
        return islice(self._find(record_filter, newest_first), limit)

    def _find(self, record_filter: _RecordFilter, newest_first: bool) -> Iterator[dict[str, Any]]:
        with self._open() as snapshot:
            if snapshot is None:
                return
            for line in snapshot.lines_back() if newest_first else snapshot.lines(0):
                record = record_filter.read(line)
                if record is not None:
                    yield record

    def follow(self, after_seq: int, wait: Callable[[], bool | None]) -> Iterator[dict[str, Any]]:
        """Yield records after a number, then new ones as they come. `wait` is called whenever there are no
        more, and stops the iteration by returning False."""
        everything = _RecordFilter(None, None, {}, {}, None)
        while True:
            with self._open() as snapshot:
                for line in () if snapshot is None else snapshot.lines(after_seq):
                    record = everything.read(line)
                    if record is not None:
                        after_seq = max(after_seq, record["seq"])
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
            unsealed = UnsealedTime() if lines.checkpoints else None
            if self._copy is not None:
                lines = lines.joined(collect_checkpoints(read_checkpoints(self._copy, self._key)))
            anchors = [*lines.checkpoints, *later.checkpoints]
            verifier = Verifier(lines, anchors, is_keyed=self._key is not None, unsealed=unsealed)
            verdict = verifier.run(iter(()) if snapshot is None else snapshot.lines(0), progress)
        if verdict.is_sound and not self.path.exists():
            raise ConfigurationError(NO_LOG, file=str(self.path))  # and no checkpoint covers any record
        return verdict


class _RecordFilter:
    def __init__(
        self,
        since: Time | None,
        until: Time | None,
        globs: dict[str, str | None],
        exact: dict[str, str | None],
        outcomes: Collection[str] | None,
    ) -> None:
        self._since = None if since is None else _format_time(since)
        self._until = None if until is None else _format_time(until)
        self._globs = {name: glob for name, glob in globs.items() if glob is not None}
        self._exact = {name: value for name, value in exact.items() if value is not None}
        self._outcomes = None if outcomes is None else frozenset(outcomes)
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
