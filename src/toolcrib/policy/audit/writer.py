"""Writing an audit log: chaining records, recovery after a crash, checkpoints and retention.

`RecordWriter` is used by one thread. After a failure everything is closed and opened again through the same
checks as at the start; nothing is written twice and nothing is lost. A log that was deleted or changed is not
continued: an operator moves it away, and a new log begins a new chain.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from toolcrib.config.settings import Audit
from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit.checkpoints import (
    CHECKPOINT_RECORDS,
    CHECKPOINT_S,
    AuditKey,
    Checkpoint,
    CheckpointFile,
    CheckpointLines,
    Kind,
    checkpoints_path,
    create_key,
    default_key_file,
    find_key,
)
from toolcrib.policy.audit.reader import UNKNOWN, Verifier
from toolcrib.policy.audit.record import (
    NO_RECORD,
    Entry,
    Head,
    chain_entries,
    encode_entry,
    format_time,
    read_head,
)
from toolcrib.policy.audit.store import (
    DELETED,
    STORE_ERRORS,
    DamagedError,
    RemovedError,
    SQLiteStore,
    find_foreign_file,
)

logger = logging.getLogger("toolcrib")

MIN_CHECKPOINT_S = 1.0
"""The least time between two checkpoints, each of which waits for the disk."""
RETENTION_S = 60.0
AGE_CHECK_S = 3_600.0
REMOVE_BATCH = 5_000
"""Records removed in one transaction."""
DAY_S = 86_400
MAX_CLOCK_SPEED = 2
KEY_AGE_S = 5.0
"""A younger key probably comes from another worker of this server, which creates the log next."""
FULL_CHECK_RECORDS = 10_000
"""A log of at most this many records is verified entirely when opened, which takes some 10 ms."""

NO_CHECKPOINT = "there are records, but no checkpoint of them that was sealed with this key"
FOREIGN_CHECKPOINTS = "its checkpoints were changed, or sealed with another key"


class GapCounter:
    """Counts records that were written after their reply (`late`) or never (`lost`), from any thread."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self.late = 0
        self.lost = 0
        self._wall = wall
        self._lock = threading.Lock()
        self._reported = (0, 0)
        self._since = 0.0

    def add(self, *, late: int = 0, lost: int = 0) -> None:
        with self._lock:
            if not self.is_unreported:
                self._since = self._wall()
            self.late += late
            self.lost += lost

    @property
    def is_unreported(self) -> bool:
        return self._reported != (self.late, self.lost)

    def report(self) -> dict[str, Any] | None:
        """Return the facts of a `gap` record with what is new since the last report."""
        with self._lock:
            if not self.is_unreported:
                return None
            late, lost = self.late - self._reported[0], self.lost - self._reported[1]
            self._reported = (self.late, self.lost)
            return {"kind": "gap", "since": format_time(self._since), "late": late, "lost": lost}


class SteadyClock:
    """Seconds since 1970 that cannot jump, for retention.

    A wall clock that is suddenly a year ahead would expire every record. This clock follows the wall clock,
    but never gains more than twice the time that has passed, and over a restart no more than a day or a tenth
    of `keep_days`. It never goes back. Every checkpoint holds its value.
    """

    def __init__(
        self, wall: Callable[[], float], now: Callable[[], float], last: float | None, keep_days: int | None
    ) -> None:
        self._wall = wall
        self._now = now
        self._read_at = now()
        today = wall()
        allowance_s = max(DAY_S, (keep_days or 0) * DAY_S / 10)
        self._value = today if last is None else max(last, min(today, last + allowance_s))

    def read(self) -> float:
        now = self._now()
        passed_s, self._read_at = max(0.0, now - self._read_at), now
        self._value = max(self._value, min(self._wall(), self._value + MAX_CLOCK_SPEED * passed_s))
        return self._value


def expired_through(checkpoints: Iterable[Checkpoint], keep_days: int, clock: float, wall: float) -> int:
    """Return the number of the last record that is too old by both clocks; 0 if none is.

    A record is as old as the first checkpoint after it. The steady clock alone would remove records too early
    after the wall clock was ahead for a while.
    """
    oldest, oldest_at = clock - keep_days * DAY_S, format_time(max(0.0, wall - keep_days * DAY_S))
    sealed = (each for each in checkpoints if each.kind == "checkpoint")
    return max((each.seq for each in sealed if each.clock < oldest and each.at < oldest_at), default=0)


class _Attempt(NamedTuple):
    """A failed write, which may have been written nevertheless: its last line, and what it contained."""

    seq: int
    line: bytes
    notes: int
    entries: int


class RecordWriter:
    """Opens the log when needed, and opens it again after a failure."""

    def __init__(
        self, options: Audit, *, server: str, wall: Callable[[], float], now: Callable[[], float]
    ) -> None:
        self.path = Path(options.file)
        self.gap = GapCounter(wall)
        self.records = 0
        self.head = NO_RECORD
        self._key: AuditKey | None = None
        self._written = NO_RECORD
        """The last record written by this process, or by others to a file that was removed."""
        self._options = options
        self._key_file = None if options.key_file is None else Path(options.key_file)
        self._checkpoints = checkpoints_path(
            self.path, None if options.checkpoints is None else Path(options.checkpoints)
        )
        self._server = server
        self._wall = wall
        self._now = now
        self._store: SQLiteStore | None = None
        self._clock: SteadyClock | None = None
        self._notes: list[Entry] = []
        self._attempt: _Attempt | None = None
        self._skip = 0
        self._is_announced = False
        self._first_seq = 1
        self._sealed_seq = 0
        self._sealed_at = self._retained_at = now()
        self._ages_checked_at = float("-inf")
        self._is_sealing_failing = False
        self._removed = 0
        self.damage: DamagedError | None = None
        """The damage that was found in a log that was open: it is not continued before the next start."""

    # --- opening ---

    def start(self) -> None:
        """Open the log, record that and seal it, so that a checkpoint proves a file deleted from now on.
        Raises what `open` and `write` raise."""
        self.open()
        if self._notes:
            self.write(())
        self.run_maintenance()

    def open(self) -> SQLiteStore:
        """Raises ConfigurationError for what an operator has to solve, and STORE_ERRORS."""
        if self.damage is not None:
            raise self.damage
        if self._store is not None:
            return self._store
        if self._is_announced and not self.path.exists():
            self.damage = DamagedError(DELETED, self._written.seq)
            raise self.damage
        self.load_key()
        store = self._store = SQLiteStore(self.path, sync=self._options.sync, wait_s=self._options.wait_s)
        try:
            self._check(store)
            self._first_seq = store.first_seq() or 1
            self.head = store.head()
            if self.head.seq - self._sealed_seq >= CHECKPOINT_RECORDS:
                # A server that is killed repeatedly before it seals would have more to check every time.
                self._seal(store)
        except BaseException as error:
            self.damage = error if isinstance(error, DamagedError) else None
            self.release()
            raise
        self._written = NO_RECORD  # it was checked
        if not self._is_announced:
            self._is_announced = True
            self._sealed_at = float("-inf")  # the first record is sealed at once
            facts: dict[str, Any] = {"kind": "opened", "server": self._server, "process": os.getpid()}
            if self.head == NO_RECORD:
                # A random id makes every log unique: no checkpoint of another log with the same key fits.
                facts["log"] = os.urandom(8).hex()
            self._notes.append(self._encode(facts))
        return store

    def load_key(self) -> AuditKey:
        """Return the key; create one if there is neither a key nor anything sealed with one."""
        if self._key is None:
            key_file = self._key_file or default_key_file(self.path)
            found = find_key(self.path, self._key_file)
            if found is None:
                self._refuse_new_key(key_file)
            elif not self.path.exists() and not self._checkpoints.exists() and _age_s(key_file) > KEY_AGE_S:
                logger.warning(
                    "audit: there is a key (%s), but no log (%s) and no checkpoints (%s): an earlier log may "
                    "have been removed, unless this is the first start with a key that you created",
                    key_file,
                    self.path,
                    self._checkpoints,
                )
            self._key = found or create_key(self.path, self._key_file)
        return self._key

    def _refuse_new_key(self, key_file: Path) -> None:
        """Raise if a new key must not be created for this log."""
        if self.path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path))
        if (foreign := find_foreign_file(self.path)) is not None:
            raise foreign
        for path in (self._checkpoints, self.path):
            if path.is_file() and path.stat().st_size:
                raise ConfigurationError(
                    f"the key of {self.path} is missing: without it, its checkpoints cannot be verified",
                    file=str(key_file),
                    key="audit.key_file",
                    hint="restore the key, or start a new log in another file",
                )

    def _encode(self, facts: dict[str, Any]) -> Entry:
        return encode_entry(self._wall(), facts)

    # --- damage ---

    def _check(self, store: SQLiteStore) -> None:
        """Raise DamagedError unless the log is as its checkpoints say."""
        # A second time, because another process may have removed old records meanwhile.
        if self._find_damage(store) is not None and (damage := self._find_damage(store)) is not None:
            raise damage

    def _find_damage(self, store: SQLiteStore) -> DamagedError | None:
        """Check a log, a long one from its newest checkpoint on."""
        recent = self._read_recent_checkpoints(store)
        # Of two with the same number the later one counts, which `max` meets first.
        newest = max(reversed(recent.checkpoints), key=lambda each: each.seq, default=None)
        if recent.forged:
            return DamagedError(FOREIGN_CHECKPOINTS, 0 if newest is None else newest.seq + 1)
        if newest is None:
            return DamagedError(NO_CHECKPOINT, 1)
        if newest.seq - (store.first_seq() or 1) >= FULL_CHECK_RECORDS:
            checkpoints = [each for each in recent.checkpoints if each.seq >= newest.seq]
            after = Head(newest.seq - 1, UNKNOWN)
        else:
            checkpoints, after = self._checkpoint_file.read().checkpoints, NO_RECORD
        if self._written.seq:  # known without a checkpoint
            checkpoints.append(self._checkpoint("checkpoint", self._written, 0))
        verdict = Verifier(CheckpointLines(checkpoints)).run(store.lines(after.seq), after=after)
        first = next(iter(verdict.problems), None)
        return None if first is None else DamagedError(first.words, first.seq)

    def _read_recent_checkpoints(self, store: SQLiteStore) -> CheckpointLines:
        """Return the newest checkpoints. A new log gets one."""
        try:
            is_new = store.head() == NO_RECORD
        except DamagedError:
            is_new = False  # reported with the record where it begins
        recent = self._checkpoint_file.read(is_recent=True)
        if is_new and not recent.checkpoints and not recent.forged:
            self._checkpoint_file.add(self._checkpoint("checkpoint", NO_RECORD, 0))
            recent = self._checkpoint_file.read(is_recent=True)
        self._sealed_seq = max((each.seq for each in recent.checkpoints), default=0)
        if self._clock is None:
            last = max((float(each.clock) for each in recent.checkpoints), default=None)
            self._clock = SteadyClock(self._wall, self._now, last, self._options.keep_days)
        return recent

    # --- writing ---

    def write(self, entries: Sequence[Entry]) -> None:
        """Write all entries. If it raises, pass the same ones again, and more."""
        store = self.open()
        if self._attempt is None and (gap := self.gap.report()) is not None:
            self._notes.append(self._encode(gap))
        lines: list[bytes] = []

        def lines_after(head: Head) -> list[bytes]:
            nonlocal lines
            self._refuse_changed(store, head)
            self._drop_written(store)
            self.head, lines = chain_entries(head, [*self._notes, *entries[self._skip :]])
            if lines:
                self._attempt = _Attempt(self.head.seq, lines[-1], len(self._notes), len(entries))
            return lines

        try:
            store.append(lines_after)
        except BaseException as error:
            self._handle_failure(error)
            raise
        self.records += len(lines)
        self._written = self.head
        self._attempt, self._skip = None, 0
        self._notes.clear()

    def _refuse_changed(self, store: SQLiteStore, head: Head) -> None:
        """Raise DamagedError unless our own last record is still as we wrote it: others may only append."""
        ours = self._written
        if head == ours or not ours.seq or store.first_seq() > ours.seq:
            return  # in the last case another process has removed it because of its age
        if head.seq < ours.seq or _record_after(store, ours.seq - 1) != ours:
            raise DamagedError(f"record {ours.seq} was changed or removed", ours.seq)

    def _drop_written(self, store: SQLiteStore) -> None:
        """Do not write again what a write that reported a failure did write: all of it, or nothing."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None and store.line(attempt.seq) == attempt.line:
            self.records += attempt.notes + attempt.entries - self._skip
            self._skip = attempt.entries
            del self._notes[: attempt.notes]

    def check_file(self) -> None:
        """Raise RemovedError if the file was deleted or replaced while open."""
        try:
            if self._store is not None:
                self._store.check_file()
        except BaseException as error:
            self._handle_failure(error)
            raise

    def _handle_failure(self, error: BaseException) -> None:
        if isinstance(error, RemovedError):
            self._written = max(self._written, error.head)
        elif isinstance(error, DamagedError):
            self.damage = error
        if isinstance(error, DamagedError) and self._written.seq > self._sealed_seq:
            # Nothing but this process knows that these records existed.
            count = self._written.seq - self._first_seq + 1
            self._try_checkpoint(self._checkpoint("checkpoint", self._written, count))
        self.release()

    def release(self) -> None:
        """Close everything, to open it again later."""
        store, self._store = self._store, None
        try:
            if store is not None:
                store.close()
        except STORE_ERRORS:
            pass  # it was failing already

    def close(self) -> None:
        """Write the last record and a checkpoint. Raises STORE_ERRORS, but is closed in any case."""
        try:
            if self._store is not None:
                self.check_file()
                self._notes.append(self._encode({"kind": "closed", "process": os.getpid()}))
                self.write(())
                self._seal(self.open())
        finally:
            self.release()
            self._attempt, self._skip, self._written = None, 0, NO_RECORD
            self.damage = None
            self._notes = [note for note in self._notes if b'"kind":"gap"' in note]  # still to be reported
            self._is_announced = False

    # --- checkpoints ---

    @property
    def _checkpoint_file(self) -> CheckpointFile:
        return CheckpointFile(self._checkpoints, self.load_key())

    def _checkpoint(self, kind: Kind, head: Head, count: int) -> Checkpoint:
        at, clock = format_time(self._wall()), int(self._read_clock())
        return Checkpoint(kind, head.seq, head.hash.decode(), count, at, clock)

    def _try_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint. If that fails, records are kept all the same; the next one is tried later."""
        try:
            self._checkpoint_file.add(checkpoint)
        except OSError as error:
            if not self._is_sealing_failing:
                logger.warning("audit: cannot write a checkpoint to %s: %s", self._checkpoints, error)
            self._is_sealing_failing = True
        else:
            self._is_sealing_failing = False
            self._sealed_seq = checkpoint.seq

    def _read_clock(self) -> float:
        return self._wall() if self._clock is None else self._clock.read()

    def _seal(self, store: SQLiteStore) -> None:
        """Write a checkpoint of what is on the disk."""
        store.sync()
        self._sealed_at = self._now()
        self._try_checkpoint(self._checkpoint("checkpoint", self.head, self.head.seq - self._first_seq + 1))

    # --- maintenance ---

    def run_maintenance(self) -> float | None:
        """Do what is due. Returns the seconds until the next run, None for not before the next record.
        Raises STORE_ERRORS."""
        if self._store is None:
            return None
        if self.gap.is_unreported:
            self.write(())
        try:
            return self._run_maintenance(self._store)
        except BaseException as error:
            self._handle_failure(error)
            raise

    def _run_maintenance(self, store: SQLiteStore) -> float | None:
        now = self._now()
        unsealed = self.head.seq - self._sealed_seq
        interval_s = MIN_CHECKPOINT_S if unsealed >= CHECKPOINT_RECORDS else CHECKPOINT_S
        if unsealed > 0 and now - self._sealed_at >= interval_s:
            self._seal(store)
        has_retention = self._options.keep_days is not None or self._options.keep_records is not None
        if has_retention and now - self._retained_at >= RETENTION_S and not self._remove_old(store):
            self._retained_at = now
        due = []
        if self.head.seq > self._sealed_seq:
            due.append(self._sealed_at + interval_s)
        if has_retention:
            due.append(self._retained_at + RETENTION_S)
        return max(0.0, min(due) - now) if due else None

    def _remove_old(self, store: SQLiteStore) -> bool:
        """Remove a batch of old records. Returns whether there are more."""
        first = store.first_seq() or self._first_seq
        through = min(self._last_expired(first), self.head.seq - 1)
        end = _record_after(store, min(through, first + REMOVE_BATCH - 1) - 1) if first <= through else None
        if end is not None and end.seq <= through:
            # Sealed first: records that are gone without a checkpoint were not removed by us.
            self._checkpoint_file.add(self._checkpoint("pruned", end, self.head.seq - end.seq))
            store.remove_through(end.seq)
            self._removed += end.seq - first + 1
            self._first_seq = end.seq + 1
            if end.seq < through:
                return True
        if self._removed:
            facts = {"kind": "pruned", "through": self._first_seq - 1, "removed": self._removed}
            self._removed = 0
            self._notes.append(self._encode(facts))
            self.write(())
            self._checkpoint_file.drop_before(self._first_seq - 1)
        return False

    def _last_expired(self, first: int) -> int:
        options, through = self._options, 0
        if options.keep_records is not None:
            excess = self.head.seq - options.keep_records
            # Not one by one: each removal adds a record itself, and would push out all others.
            through = excess if (excess - first + 1) * 100 >= options.keep_records else 0
        if options.keep_days is not None and (
            self._removed or self._now() - self._ages_checked_at >= AGE_CHECK_S
        ):
            self._ages_checked_at = self._now()
            checkpoints = self._checkpoint_file.read().checkpoints
            expired = expired_through(checkpoints, options.keep_days, self._read_clock(), self._wall())
            through = max(through, expired)
        return through


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:  # the key comes from the environment
        return 0.0


def _record_after(store: SQLiteStore, seq: int) -> Head | None:
    """Return the first record after a number."""
    with closing(store.lines(seq)) as lines:  # an open read would make SQLite refuse to write
        return next((head for line in lines if (head := read_head(line)) is not None), None)
