"""Reading and verifying an audit log, also while a server writes it.

    log = open_log(Path("audit.db"))
    for record in log.records(tool="refund*", outcome={"denied"}, newest_first=True, limit=20):
        print(record["at"], record["principal"])
    assert log.verify().is_sound

Verification checks that every record follows the one before it in its stream, and matches the checkpoints.
Without the key this proves only that the records fit each other: somebody who rewrites all of them can make
them fit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit.checkpoints import (
    AuditKey,
    Checkpoints,
    checkpoints_path,
    find_key,
    read_checkpoints,
)
from toolcrib.policy.audit.record import (
    NO_RECORD,
    follows,
    format_ms,
    has_time,
    parse_time,
    read_head,
    to_ms,
)
from toolcrib.state.base import AuditStore, Head, Query, Record, StateUnavailable, run_now
from toolcrib.state.sqlite.audit import SQLiteAudit
from toolcrib.validation import codec

T = TypeVar("T")

# --- verification -------------------------------------------------------------------------------------

MAX_PROBLEMS = 100
_PROGRESS_EVERY = 5_000
_MAX_UNSEALED_MINUTES = 4
"""A server seals its records within a minute, or two if the machine sleeps meanwhile."""
UNKNOWN = b""
"""The hash of a record that was not read: nothing can be said about the next one."""


class Problem(NamedTuple):
    """A finding about a log.

    `stream` and `seq` name the record concerned, empty and 0 if none is. `kind` is "edited", "missing",
    "unreadable", "restamped", "truncated", "forged", "unsealed" or "more".
    """

    stream: str
    seq: int
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a verification.

    `removed` is the number of records that retention removed. `unsealed` records are chained, but no
    checkpoint covers them yet: anybody who can write the file could have made them. `proven_at` is the time
    of the newest checkpoint. Without a key (`is_keyed`) checkpoints are compared, but anybody may have
    written them.
    """

    is_sound: bool
    records: int
    streams: int
    removed: int
    checkpoints_checked: int
    problems: list[Problem]
    is_keyed: bool
    unsealed: int
    proven_at: str | None = None


class Verifier:
    """Checks the records of streams from first to last."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        *,
        is_keyed: bool = True,
        must_be_sealed: bool = False,
        may_begin_late: bool = False,
    ) -> None:
        """With `must_be_sealed`, minutes of work without a checkpoint are a problem, too. With
        `may_begin_late`, another machine of a fleet may have removed the oldest records of any stream."""
        self._checkpoints = checkpoints
        self._is_keyed = is_keyed
        self._must_be_sealed = must_be_sealed
        self._may_begin_late = may_begin_late
        self._problems: list[Problem] = []
        self._records = self._checked = self._unsealed = 0
        for problem in checkpoints.problems:
            self._add("", 0, "forged", problem)
        if is_keyed and not checkpoints.lines:
            self._add("", 0, "unsealed", "there is no checkpoint: missing records cannot be detected")

    async def run(
        self,
        store: AuditStore,
        progress: Callable[[int], None] | None = None,
        *,
        after: Mapping[str, int] | None = None,
    ) -> Verdict:
        """Check all streams; with `after`, only these, after a record. `progress` is called now and then with
        the number of records."""
        if after is None:
            after = dict.fromkeys((*await store.heads(), *self._checkpoints.sealed), 0)
        for stream, seq in after.items():
            await self._check_stream(store, stream, seq, progress)
        lines, pruned = self._checkpoints.lines, self._checkpoints.pruned
        return Verdict(
            is_sound=not self._problems,
            records=self._records,
            streams=len(after),
            removed=sum(head.seq for head in pruned.values()),
            checkpoints_checked=self._checked,
            problems=self._problems,
            is_keyed=self._is_keyed,
            unsealed=self._unsealed,
            proven_at=lines[-1].at if lines and self._checked else None,
        )

    async def _check_stream(
        self, store: AuditStore, stream: str, after: int, progress: Callable[[int], None] | None
    ) -> None:
        sealed = self._checkpoints.sealed.get(stream, {})
        newest, is_first, minutes = max(sealed, default=0), True, set[int]()
        head = Head(after, UNKNOWN) if after else self._checkpoints.pruned.get(stream, NO_RECORD)
        async with aclosing(store.lines(stream, after)) as records:
            async for record in records:
                if is_first and (record.seq <= head.seq or self._may_begin_late):
                    # Of what was to be removed, the last record stays, and more if a server was killed.
                    head = Head(record.seq - 1, UNKNOWN if record.seq > 1 else NO_RECORD.hash)
                is_first = False
                head = self._check_record(record, stream, head)
                if head.seq in sealed:
                    self._compare(stream, head, sealed[head.seq])
                elif head.seq > newest:
                    self._unsealed += 1
                    if b'"kind":"gap"' in record.line[:160]:
                        minutes.clear()  # the records after it came late
                    minutes.add(record.at_ms // 60_000)
                self._records += 1
                if progress is not None and not self._records % _PROGRESS_EVERY:
                    progress(self._records)
        if head.seq < newest:
            self._report_missing(stream, head.seq + 1, newest, " at the end")
        if self._must_be_sealed and len(minutes) > _MAX_UNSEALED_MINUTES:
            words = (
                f"stream {stream} continued for minutes after record {newest} without a checkpoint: "
                "checkpoints were removed, or could not be written"
            )
            self._add(stream, newest + 1, "unsealed", words)

    def _check_record(self, record: Record, stream: str, head: Head) -> Head:
        """Return the record that the next one must follow."""
        line, seq = record.line, record.seq
        name = f"record {seq} of stream {stream}"
        if seq > head.seq + 1:
            self._report_missing(stream, head.seq + 1, seq - 1)
            head = Head(seq - 1, UNKNOWN)
        is_sound = head.hash != UNKNOWN and follows(line, stream, head)
        found = Head(seq, line[-66:-2]) if is_sound else read_head(line)
        if found is None or found.seq != seq:
            self._add(stream, seq, "unreadable", f"{name} is unreadable, or in the place of another")
            return Head(seq, UNKNOWN)
        if not is_sound and head.hash != UNKNOWN:
            words = f"{name} does not match the one before it: one of them was changed"
            self._add(stream, seq, "edited", words)
        elif not has_time(record):
            words = f"{name} cannot be found by its time: the column was changed"
            self._add(stream, seq, "edited", words)
        return found

    def _compare(self, stream: str, head: Head, sealed: set[bytes]) -> None:
        self._checked += 1
        if sealed != {head.hash}:
            words = f"record {head.seq} of stream {stream} does not match its checkpoint"
            self._add(stream, head.seq, "restamped", words)

    def _report_missing(self, stream: str, first: int, last: int, where: str = "") -> None:
        words = f"record {first} of stream {stream} is missing"
        if first < last:
            words = f"records {first} to {last} of stream {stream} are missing"
        self._add(stream, first, "truncated" if where else "missing", words + where)

    def _add(self, stream: str, seq: int, kind: str, words: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(Problem(stream, seq, kind, words))
        elif len(self._problems) == MAX_PROBLEMS:
            words = f"more problems from record {seq} of stream {stream} on"
            self._problems.append(Problem(stream, seq, "more", words))


# --- reading ------------------------------------------------------------------------------------------

Time = str | float | datetime
NO_LOG = "no such audit log"
_GLOB_CHARACTERS = frozenset("*?[")
_PAGE = 500


def open_log(
    path: Path | str,
    key_file: Path | str | None = None,
    checkpoints: Path | str | None = None,
    *,
    copy: Path | str | None = None,
    store: AuditStore | None = None,
    may_begin_late: bool = False,
) -> AuditReader:
    """Open a log, or what the checkpoints say about a deleted one. Raises ConfigurationError.

    Key and checkpoints are looked for beside the log unless given. `copy` is a copy of the checkpoints that
    was kept elsewhere, and is used in addition. In a fleet `store` has the records, `path` names only the key
    and the checkpoints of this machine, and with `may_begin_late` other machines may remove old records.
    """
    path = Path(path)
    beside = checkpoints_path(path, None if checkpoints is None else Path(checkpoints))
    if store is None and not path.is_file() and (path.exists() or not beside.is_file()):
        raise ConfigurationError(NO_LOG, file=str(path))
    key = find_key(path, None if key_file is None else Path(key_file))
    if key is None and key_file is not None:
        raise ConfigurationError("no such audit key", file=str(key_file), key="audit.key_file")
    needed = checkpoints if copy is None else copy
    if needed is not None and not Path(needed).is_file():
        raise ConfigurationError("no such checkpoints", file=str(needed), key="audit.checkpoints")
    return AuditReader(path, key, beside, None if copy is None else Path(copy), store, may_begin_late)


class AuditReader:
    """Reads one log. Nothing stays open between calls, which raise ConfigurationError and OSError."""

    def __init__(
        self,
        path: Path,
        key: AuditKey | None,
        checkpoints: Path,
        copy: Path | None = None,
        store: AuditStore | None = None,
        may_begin_late: bool = False,
    ) -> None:
        self.path = path
        self._is_file = store is None
        self._may_begin_late = may_begin_late
        self._store: AuditStore = store or SQLiteAudit(path)
        self._key = key
        self._checkpoints = checkpoints
        self._copy = copy

    def _run(self, method: Coroutine[Any, Any, T]) -> T:
        try:
            return run_now(method)
        except StateUnavailable as error:
            raise ConfigurationError(f"not an audit log: {error}", file=str(self.path)) from error

    def last_seqs(self) -> dict[str, int]:
        """Return the number of the newest record of each stream."""
        return {stream: head.seq for stream, head in self._run(self._store.heads()).items()}

    def records(
        self,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        **filters: Any,
    ) -> Iterator[dict[str, Any]]:
        """Yield the matching records in the order of their times. `filters` are `since` (inclusive), `until`
        (exclusive), the globs `principal` and `tool`, `outcome` (several), `code` and `id`. Lines that are
        not records are skipped: `verify` reports them."""
        return islice(self._find(_RecordFilter(**filters), newest_first), limit)

    def _find(self, wanted: _RecordFilter, newest_first: bool) -> Iterator[dict[str, Any]]:
        cursors: list[str | None] = [None]
        while True:
            page = self._run(self._store.find(wanted.query, before=cursors[-1], limit=_PAGE))
            if newest_first:
                yield from filter(None, map(wanted.read, page.records))
            if page.older is None:
                break
            cursors.append(page.older)
        for cursor in () if newest_first else reversed(cursors):
            page = self._run(self._store.find(wanted.query, before=cursor, limit=_PAGE))
            yield from filter(None, map(wanted.read, reversed(page.records)))

    def follow(
        self, seen: dict[str, int], wait: Callable[[], bool | None], **filters: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield records after those that were `seen` of each stream, then new ones as they come; `filters`
        are those of `records`. `wait` is called whenever there are no more, and stops the iteration by
        returning False."""
        wanted = _RecordFilter(**filters)
        while True:
            for record in self._run(self._read_new(seen)):
                if (facts := wanted.read(record)) is not None:
                    yield facts
            if wait() is False:
                return

    async def _read_new(self, seen: dict[str, int]) -> list[Record]:
        found: list[Record] = []
        for stream, head in (await self._store.heads()).items():
            if head.seq > seen.get(stream, 0):
                async with aclosing(self._store.lines(stream, seen.get(stream, 0))) as records:
                    found += [record async for record in records]
                seen[stream] = found[-1].seq
        return sorted(found, key=lambda record: record.at_ms)

    def verify(self, progress: Callable[[int], None] | None = None) -> Verdict:
        """Verify the whole log. `progress` is called now and then with the number of records checked."""
        verdict = self._verify(progress)
        if not verdict.is_sound:  # a server may have removed old records meanwhile
            verdict = self._verify(progress)
        if verdict.is_sound and not verdict.records and not self.path.exists():
            raise ConfigurationError(NO_LOG, file=str(self.path))  # and no checkpoint covers any record
        return verdict

    def _verify(self, progress: Callable[[int], None] | None) -> Verdict:
        checkpoints = read_checkpoints(self._checkpoints, self._key)  # first: never ahead of the records
        # The checkpoints of other machines, which cover what their replicas write, are not here.
        must_be_sealed = bool(checkpoints.lines) and self._is_file
        if self._copy is not None:
            checkpoints.compare(read_checkpoints(self._copy, self._key, is_copy=True))
        is_keyed = self._key is not None
        verifier = Verifier(
            checkpoints,
            is_keyed=is_keyed,
            must_be_sealed=must_be_sealed,
            may_begin_late=self._may_begin_late,
        )
        return self._run(verifier.run(self._store, progress))


class _RecordFilter:
    """What the store selects by (`query`), and the rest."""

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
        globs = {"principal": principal, "tool": tool}
        self._globs = {name: glob for name, glob in globs.items() if glob is not None}
        self._exact = {name: value for name, value in {"code": code, "id": id}.items() if value is not None}
        self._outcomes = None if outcome is None else frozenset(outcome)
        literal = {name: glob for name, glob in self._globs.items() if _GLOB_CHARACTERS.isdisjoint(glob)}
        times = {"since_ms": since, "until_ms": until}
        self.query = Query(
            **{name: _parse_ms(time) for name, time in times.items() if time is not None},
            principal=literal.get("principal", ""),
            tool=literal.get("tool", ""),
            outcome=tuple(outcome or ()),
            id=id or "",
        )

    def read(self, record: Record) -> dict[str, Any] | None:
        """Return the facts of a record; None if it is not one, or does not match."""
        if not self.query.since_ms <= record.at_ms < self.query.until_ms or read_head(record.line) is None:
            return None
        try:
            facts: dict[str, Any] = codec.decode(record.line)
        except ValueError:
            return None
        if any(facts.get(name) != value for name, value in self._exact.items()):
            return None
        if self._outcomes is not None and facts.get("outcome") not in self._outcomes:
            return None
        is_match = all(
            isinstance(value := facts.get(name), str) and fnmatchcase(value, glob)
            for name, glob in self._globs.items()
        )
        return facts if is_match else None


def _parse_ms(time: Time) -> int:
    try:
        if isinstance(time, datetime):
            time = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        at_ms = to_ms(parse_time(time) if isinstance(time, str) else time)
        format_ms(at_ms)
    except (ValueError, OverflowError, OSError):
        raise ConfigurationError(f"must be a date or a time such as 2026-05-04T10:00, got {time!r}") from None
    return at_ms
