"""Reading a log, also while a server writes it: what was called, by whom, and whether the log is sound.

    log = open_log(Path("audit.db"))
    for record in log.records(tool="refund*", outcome={"denied"}, newest_first=True, limit=20):
        print(record["at"], record["principal"])
    assert log.verify().is_sound

Knows both stores from the reading side; refuses to write anything.

The lines of a log as they are at one moment, for one who reads.

Knows both kinds of file; refuses to change either.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit import jsonl_store as files
from toolcrib.policy.audit import key
from toolcrib.policy.audit.checkpoints import find_seals, read_file
from toolcrib.policy.audit.jsonl_store import place_behind
from toolcrib.policy.audit.record import head_of, read_stamp, stamp
from toolcrib.policy.audit.retention import Lag
from toolcrib.policy.audit.store import is_lines
from toolcrib.policy.audit.verify import Verdict, Walk, gather, join
from toolcrib.validation import codec


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
    from toolcrib.policy.audit.sqlite_store import TableSource  # SQLite takes a while to load

    return TableSource(path)


def is_blank(path: Path) -> bool:
    """Whether a file is a database without any table, or has no content: all records of a log are missing."""
    if is_lines(path):
        return False
    from toolcrib.policy.audit.sqlite_store import holds_nothing  # as above

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


Time = str | float | datetime
NO_LOG = "there is no audit log"
_GLOB = frozenset("*?[")


def open_log(
    path: Path | str,
    key_file: Path | str | None = None,
    checkpoints: Path | str | None = None,
    *,
    copy: Path | str | None = None,
) -> Reader:
    """The log in a file, or what its checkpoints know of one that was deleted. Key and checkpoints are looked
    for beside it where they are not given. `copy` is one of the checkpoints that was kept elsewhere, and
    counts besides them. Raises ConfigurationError."""
    path = Path(path)
    seals = find_seals(path, None if checkpoints is None else Path(checkpoints))
    if not path.is_file() and (path.exists() or not seals.is_file()):
        raise ConfigurationError(NO_LOG, file=str(path))
    secret = key.find(path, None if key_file is None else Path(key_file))
    if secret is None and key_file is not None:
        raise ConfigurationError("there is no such key", file=str(key_file), key="audit.key_file")
    needed = checkpoints if copy is None else copy
    if needed is not None and not Path(needed).is_file():
        raise ConfigurationError("there are no checkpoints", file=str(needed), key="audit.checkpoints")
    return Reader(path, secret, seals, None if copy is None else Path(copy))


class Reader:
    """Nothing stays open between two questions. All of them raise ConfigurationError for a file that is no
    log, and OSError."""

    def __init__(
        self, path: Path, secret: key.Secret | None, checkpoints: Path, copy: Path | None = None
    ) -> None:
        self.path = path
        self._secret = secret
        self._checkpoints = checkpoints
        self._copy = copy

    def _open(self) -> closing[Source]:
        if not self.path.exists():
            return closing(NoSource())
        try:
            return closing(open_source(self.path))
        except ConfigurationError:
            if self._checkpoints.is_file() and is_blank(self.path):
                return closing(NoSource())  # the checkpoints say which records are missing
            raise

    def last_seq(self) -> int:
        """The number of the newest record; 0 where there is none."""
        with self._open() as source:
            heads = (head.seq for line in source.lines_back() if (head := head_of(line)) is not None)
            return next(heads, 0)

    def records(
        self,
        *,
        since: Time | None = None,
        until: Time | None = None,
        principal: str | None = None,
        tool: str | None = None,
        outcome: Collection[str] | None = None,
        code: str | None = None,
        id: str | None = None,  # noqa: A002 - it is the name of the field
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The records that fit, in their order. `principal` and `tool` are globs; `since` is included and
        `until` is not. Lines that are no records are passed over: `verify` is who says so."""
        wanted = _Wanted(since, until, principal, tool, outcome, code, id)
        return islice(self._find(wanted, newest_first), limit)

    def _find(self, wanted: _Wanted, newest_first: bool) -> Iterator[dict[str, Any]]:
        with self._open() as source:
            for line in source.lines_back() if newest_first else source.lines(0):
                record = wanted.read(line)
                if record is not None:
                    yield record

    def follow(self, after_seq: int, wait: Callable[[], bool | None]) -> Iterator[dict[str, Any]]:
        """Records behind a number, and those that come later. `wait` is called whenever there are no more,
        and ends it by returning False."""
        everything = _Wanted(None, None, None, None, None, None, None)
        while True:
            with self._open() as source:
                for line in source.lines(after_seq):
                    record = everything.read(line)
                    if record is not None:
                        after_seq = max(after_seq, record["seq"])
                        yield record
            if wait() is False:
                return

    def verify(self, progress: Callable[[int], None] | None = None) -> Verdict:
        """Look at all of it. `progress` hears now and then how many records were looked at."""
        # Checkpoints first: they are never ahead of records. Those of removals again when the records are
        # held, because old ones may have ended in between.
        seals = gather(read_file(self._checkpoints, self._secret))
        with self._open() as source:
            later = gather(read_file(self._checkpoints, self._secret))
            lag = Lag() if seals.checkpoints else None
            if self._copy is not None:
                seals = join(seals, gather(read_file(self._copy, self._secret)))
            anchors = [*seals.checkpoints, *later.checkpoints]
            walk = Walk(seals, anchors, is_keyed=self._secret is not None, lag=lag)
            verdict = walk.judge(source.lines(0), source.torn_bytes, progress)
        if verdict.is_sound and not self.path.exists():
            raise ConfigurationError(NO_LOG, file=str(self.path))  # nor was any record ever sealed
        return verdict


class _Wanted:
    """What a record must be like."""

    def __init__(
        self,
        since: Time | None,
        until: Time | None,
        principal: str | None,
        tool: str | None,
        outcome: Collection[str] | None,
        code: str | None,
        id_: str | None,
    ) -> None:
        self._since = None if since is None else _spell(since)
        self._until = None if until is None else _spell(until)
        self._globs = {
            name: glob for name, glob in (("principal", principal), ("tool", tool)) if glob is not None
        }
        self._exact = {name: value for name, value in (("code", code), ("id", id_)) if value is not None}
        self._outcomes = None if outcome is None else frozenset(outcome)
        plain = {name: glob for name, glob in self._globs.items() if _GLOB.isdisjoint(glob)}
        # Most lines are told apart by a look at their bytes, which costs less than to read them.
        self._needles = [
            b'"%b":%b' % (name.encode(), codec.write(value)) for name, value in (self._exact | plain).items()
        ]

    def read(self, line: bytes) -> dict[str, Any] | None:
        if head_of(line) is None or not all(needle in line for needle in self._needles):
            return None
        try:
            record: dict[str, Any] = codec.decode(line)
        except ValueError:
            return None
        return record if self._fits(record) else None

    def _fits(self, record: dict[str, Any]) -> bool:
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


def _spell(time: Time) -> str:
    """As records spell it, so that texts can be compared."""
    try:
        if isinstance(time, str):
            return stamp(read_stamp(time))
        if isinstance(time, datetime):
            return stamp((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())
        return stamp(time)
    except (ValueError, OverflowError, OSError):
        raise ConfigurationError(f"must be a date or a time such as 2026-05-04T10:00, got {time!r}") from None
