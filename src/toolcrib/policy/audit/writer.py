"""Writing an audit log: chaining records, checks at the start, checkpoints and retention.

`RecordWriter` is used by one thread. Its records are a stream of their own. They are numbered and hashed
before they are appended, so that an append that is in doubt is repeated: nothing is written twice, nothing
is lost. A log that was deleted or changed is not continued: an operator moves it away, and a new one begins.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from toolcrib.config.settings import Audit
from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit.checkpoints import (
    AuditKey,
    CheckpointFile,
    checkpoints_path,
    create_key,
    default_key_file,
    find_key,
)
from toolcrib.policy.audit.files import find_foreign_file
from toolcrib.policy.audit.reader import Verifier
from toolcrib.policy.audit.record import NO_RECORD, Entry, chain_entries, encode_entry, format_time, to_ms
from toolcrib.state.base import AuditStore, Head, Record, StateDamaged, run_now
from toolcrib.state.sqlite.audit import SQLiteAudit

T = TypeVar("T")
logger = logging.getLogger("toolcrib")

CHECKPOINT_RECORDS = 1_000
CHECKPOINT_S = 60.0
"""A new checkpoint is due after this many records, or this long after the last one."""
MIN_CHECKPOINT_S = 1.0
"""The least time between two checkpoints, each of which waits for the disk."""
RETENTION_S = 60.0
AGE_CHECK_S = 3_600.0
MOST_BY_AGE = 20
"""Each time, at most one of so many records is removed because of its age: a wrong clock must not empty a log
before somebody notices."""
REMOVE_BATCH = 5_000
"""Records removed in one transaction, while calls wait for their records."""
DAY_MS = 86_400_000
KEY_AGE_S = 5.0
"""A younger key probably comes from another worker of this server, which creates the log next."""
FULL_CHECK_RECORDS = 10_000
"""A log of at most this many records is verified entirely when opened, which takes some 50 ms."""

NO_CHECKPOINT = "there are records, but no checkpoint of them that was sealed with this key"
FOREIGN_CHECKPOINTS = "its checkpoints were changed, or sealed with another key"


class GapCounter:
    """Counts records that were written after their reply (`late`) or never (`lost`), from any thread."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self.late = 0
        self.lost = 0
        self._wall = wall
        self._lock = threading.Lock()
        self._reported = self._reported_before = (0, 0)
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
            self._reported_before, self._reported = self._reported, (self.late, self.lost)
            return {"kind": "gap", "since": format_time(self._since), "late": late, "lost": lost}

    def forget_report(self) -> None:
        """The last report was not written: report it again."""
        with self._lock:
            self._reported = self._reported_before


class RecordWriter:
    """Opens the log when needed, and opens it again after a failure."""

    def __init__(
        self,
        options: Audit,
        *,
        server: str,
        wall: Callable[[], float],
        now: Callable[[], float],
        store: AuditStore | None = None,
    ) -> None:
        """Without `store`, records are in the file of the options."""
        self.path = Path(options.file)
        self.gap = GapCounter(wall)
        self.records = 0
        """Records written by this process."""
        self.damage: StateDamaged | None = None
        """The damage that was found: the log is not continued before the next start."""
        self._options = options
        self._key: AuditKey | None = None
        self._key_file = None if options.key_file is None else Path(options.key_file)
        self._seals = checkpoints_path(
            self.path, None if options.checkpoints is None else Path(options.checkpoints)
        )
        self._server = server
        self._wall = wall
        self._now = now
        self._local = None
        if store is None:
            store = self._local = SQLiteAudit(self.path, sync=options.sync, wait_s=options.wait_s)
        self._store = store
        self._runner = asyncio.Runner()
        self._is_open = False
        self._is_sealing_failing = False
        self._entries: list[Entry] = []
        """Not numbered yet."""
        self._unwritten: list[Record] = []
        self._begin_stream()

    def _begin_stream(self) -> None:
        self._stream = ""
        """The stream of this run, once the log was opened."""
        self._numbered = self._written = NO_RECORD
        """The last record with a number, and the last one that is in the store."""
        self._sealed_seq = 0
        self._unsealed: dict[str, Head] = {}
        """The last records of other streams, if their writers could not seal them."""
        self._sealed_at = self._retained_at = self._now()
        self._ages_checked_at = float("-inf")
        self._removals: deque[tuple[str, int]] = deque()
        self._removed = 0
        self._has_resumed = False

    # --- opening ---

    def start(self) -> None:
        """Open the log, record that and seal it, so that a checkpoint proves a file deleted from now on.
        Raises what `open` and `write` raise."""
        self.write(())
        self.run_maintenance()

    def open(self) -> None:
        """Raises ConfigurationError for what an operator has to solve, and OSError."""
        if self.damage is not None:
            raise self.damage
        if self._is_open:
            return
        try:
            self.load_key()
            if self._local is not None:
                self._local.open()
            self._check()
        except BaseException as error:
            self._handle_failure(error)
            raise
        self._is_open = True
        if not self._stream:
            self._stream = secrets.token_hex(6)
            self._sealed_at = float("-inf")  # the first record is sealed at once

    def load_key(self) -> AuditKey:
        """Return the key; create one if there is neither a key nor anything sealed with one."""
        if self._key is None:
            key_file = self._key_file or default_key_file(self.path)
            found = find_key(self.path, self._key_file)
            if found is None:
                self._refuse_new_key(key_file)
            elif not self.path.exists() and not self._seals.exists() and _age_s(key_file) > KEY_AGE_S:
                logger.warning(
                    "audit: there is a key (%s), but no log (%s) and no checkpoints (%s): an earlier log may "
                    "have been removed, unless this is the first start with a key that you created",
                    key_file,
                    self.path,
                    self._seals,
                )
            self._key = found or create_key(self.path, self._key_file)
        return self._key

    def _refuse_new_key(self, key_file: Path) -> None:
        """Raise if a new key must not be created for this log."""
        if self.path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path))
        if (foreign := find_foreign_file(self.path)) is not None:
            raise foreign
        for path in (self._seals, self.path):
            if path.is_file() and path.stat().st_size:
                raise ConfigurationError(
                    f"the key of {self.path} is missing: without it, its checkpoints cannot be verified",
                    file=str(key_file),
                    key="audit.key_file",
                    hint="restore the key, or start a new log in another file",
                )

    # --- damage ---

    def _check(self) -> None:
        """Raise StateDamaged unless the log is as its checkpoints say."""
        # A second time, because another process may have removed old records meanwhile.
        if self._find_damage() is not None and (damage := self._find_damage()) is not None:
            raise StateDamaged(damage)

    def _find_damage(self) -> str | None:
        """Check a log, a long one from its checkpoints on."""
        checkpoints, heads = self._file.read(), self._run(self._store.heads())
        if checkpoints.problems:
            return FOREIGN_CHECKPOINTS
        if not checkpoints.lines:
            if heads and self._local is not None:
                return NO_CHECKPOINT
            # In a fleet the records are those of other machines. A log in a file without any has lost them.
            self._file.add(self._time(), {})
            return None
        if self._written.seq:  # known without a checkpoint
            checkpoints.expect(self._stream, self._written)
        sealed = checkpoints.newest()
        kept = sum(head.seq for head in heads.values()) - sum(
            head.seq for head in checkpoints.pruned.values()
        )
        changed = {stream for stream in (*heads, *sealed) if heads.get(stream) != sealed.get(stream)}
        after = {stream: max(0, sealed.get(stream, NO_RECORD).seq - 1) for stream in changed}
        verifier = Verifier(checkpoints, may_begin_late=self._local is None and self._options.removes_records)
        verdict = self._run(verifier.run(self._store, after=after if kept > FULL_CHECK_RECORDS else None))
        if verdict.problems:
            return verdict.problems[0].words
        self._unsealed = {stream: heads[stream] for stream in changed if stream in heads}
        self._unsealed.pop(self._stream, None)
        return None

    def _run(self, method: Coroutine[Any, Any, T]) -> T:
        """Return the result of a method of the store. That of a file never waits."""
        return run_now(method) if self._local is not None else self._runner.run(method)

    def check_file(self) -> None:
        """Raise StateDamaged if the file was deleted or replaced while open."""
        try:
            if self._local is not None:
                self._local.check()
        except BaseException as error:
            self._handle_failure(error)
            raise

    def _handle_failure(self, error: BaseException) -> None:
        if isinstance(error, StateDamaged):
            self.damage = error
            if self._written.seq > self._sealed_seq:
                # Nothing but this process knows that these records existed.
                self._try_checkpoint({self._stream: self._written})
        self.release()

    def release(self) -> None:
        """Close everything, to open it again later."""
        self._is_open = False
        if self._local is not None:
            self._local.release()

    # --- writing ---

    def write(self, entries: Sequence[Entry]) -> None:
        """Write entries, after those of calls that raised: they are kept until they are written."""
        self._entries += entries
        self.open()
        if not self._unwritten and (gap := self.gap.report()) is not None:
            self._entries.insert(0, self._encode(gap))
        if not self._numbered.seq:
            opened = {"kind": "opened", "server": self._server, "process": os.getpid()}
            began_ms = min((entry.at_ms for entry in self._entries), default=to_ms(self._wall()))
            self._entries.insert(0, encode_entry(began_ms / 1000, opened))
        if self._entries:
            self._unwritten += chain_entries(self._stream, self._numbered, self._entries)
            self._numbered = self._unwritten[-1].head
            self._entries = []
        if not self._unwritten:
            return
        try:
            self._run(self._store.append(self._stream, self._unwritten))
        except BaseException as error:
            self._handle_failure(error)
            raise
        self.records += len(self._unwritten)
        self._written = self._numbered
        self._unwritten = []

    def close(self) -> None:
        """Write the last record and a checkpoint. Raises OSError, but is closed in any case."""
        try:
            if self._is_open:
                self.check_file()
                self.write([self._encode({"kind": "closed", "process": os.getpid()})])
                self._seal()
        finally:
            self.release()
            if self._local is not None:
                self._local.close()
            self._runner.close()
            self._runner = asyncio.Runner()
            self.damage = None
            self.__dict__.pop("_file", None)
            kept = (*(record.line for record in self._unwritten), *(entry.body for entry in self._entries))
            if any(b'"kind":"gap"' in line for line in kept):
                self.gap.forget_report()
            self._unwritten, self._entries = [], []
            self._begin_stream()

    def _encode(self, facts: dict[str, Any]) -> Entry:
        return encode_entry(self._wall(), facts)

    def _time(self) -> str:
        return format_time(self._wall())

    # --- checkpoints ---

    @cached_property
    def _file(self) -> CheckpointFile:
        return CheckpointFile(self._seals, self.load_key())

    def _seal(
        self, heads: Mapping[str, Head] | None = None, pruned: Mapping[str, Head] | None = None
    ) -> bool:
        """Write a checkpoint of what is on the disk. Return whether that worked."""
        if self._local is not None:
            self._local.flush()
        self._sealed_at = self._now()
        heads = {**self._unsealed, **(heads or {}), self._stream: self._written}
        return self._try_checkpoint({stream: head for stream, head in heads.items() if head.seq}, pruned)

    def _try_checkpoint(self, heads: Mapping[str, Head], pruned: Mapping[str, Head] | None = None) -> bool:
        """If a checkpoint cannot be written, records are kept all the same; the next one is tried later."""
        try:
            self._file.add(self._time(), heads, pruned)
        except OSError as error:
            if not self._is_sealing_failing:
                logger.warning("audit: cannot write a checkpoint to %s: %s", self._seals, error)
            self._is_sealing_failing = True
            return False
        self._is_sealing_failing = False
        self._sealed_seq = self._written.seq
        self._unsealed.clear()
        return True

    # --- maintenance ---

    def run_maintenance(self) -> float | None:
        """Do what is due. Returns the seconds until the next run, None for not before the next record.
        Raises OSError."""
        if not self._is_open:
            return None
        if self.gap.is_unreported:
            self.write(())
        try:
            return self._run_maintenance()
        except BaseException as error:
            self._handle_failure(error)
            raise

    def _run_maintenance(self) -> float | None:
        now, due = self._now(), []
        unsealed = self._written.seq - self._sealed_seq
        interval_s = MIN_CHECKPOINT_S if unsealed >= CHECKPOINT_RECORDS else CHECKPOINT_S
        if unsealed > 0 and now - self._sealed_at >= interval_s:
            self._seal()
        if self._options.removes_records:
            if now - self._retained_at >= RETENTION_S and not self._remove_old():
                self._retained_at = now
            due.append(self._retained_at + RETENTION_S)
        if self._written.seq > self._sealed_seq:
            due.append(self._sealed_at + interval_s)
        return max(0.0, min(due) - now) if due else None

    def _remove_old(self) -> bool:
        """Remove a batch of old records. Returns whether there are more."""
        if not self._removals:
            self._plan_removals()
        if self._removals:
            stream, end = self._removals.popleft()
            self._removed += self._run(self._store.remove_through({stream: end}))
        if self._removals:
            return True
        if self._removed:
            self.write([self._encode({"kind": "pruned", "removed": self._removed})])
            self._removed = 0
        return False

    def _plan_removals(self) -> None:
        """Choose old records, and seal that they are removed: without that, they would be missing."""
        with suppress(OSError):  # it may be that lines can only be added
            self._file.compact(self._time())
        pruned, heads = self._file.read().pruned, self._run(self._store.heads())
        if not self._has_resumed:  # a process that was killed may have left some
            self._has_resumed = True
            self._removed += self._run(
                self._store.remove_through({each: pruned[each].seq for each in pruned})
            )
        first = {stream: pruned.get(stream, NO_RECORD).seq for stream in heads}
        kept = sum(heads[stream].seq - first[stream] for stream in heads)
        now_ms, options, oldest = to_ms(self._wall()), self._options, dict[str, Head]()
        if options.keep_days is not None and self._now() - self._ages_checked_at >= AGE_CHECK_S:
            self._ages_checked_at = self._now()
            oldest = self._find_oldest(first, -(-kept // MOST_BY_AGE), now_ms - options.keep_days * DAY_MS)
        # Not one by one: each removal adds a record itself, and would push out all others.
        if (
            options.keep_records is not None
            and (excess := kept - options.keep_records) * 100 >= options.keep_records
        ):
            for stream, head in self._find_oldest(first, excess, now_ms + 1).items():
                oldest[stream] = max(head, oldest.get(stream, head))
        if oldest and self._seal({stream: heads[stream] for stream in oldest}, oldest):
            for stream, head in oldest.items():
                steps = (*range(first[stream] + REMOVE_BATCH, head.seq, REMOVE_BATCH), head.seq)
                self._removals += [(stream, step) for step in steps]

    def _find_oldest(self, first: Mapping[str, int], most: int, before_ms: int) -> dict[str, Head]:
        """Return the last record of each stream before a time, or of some 90 to 100 percent of `most` records
        that are the oldest."""

        def find(time_ms: int) -> tuple[dict[str, Head], int]:
            heads = self._run(self._store.heads(time_ms))
            ends = {stream: head for stream, head in heads.items() if head.seq > first.get(stream, 0)}
            return ends, sum(head.seq - first.get(stream, 0) for stream, head in ends.items())

        more, count = find(before_ms)
        if count <= most:
            return more
        low_ms, high_ms, oldest = 0, before_ms, dict[str, Head]()
        while high_ms - low_ms > 1 and not most * 9 <= count * 10 <= most * 10:
            middle_ms = (low_ms + high_ms) // 2
            found, count = find(middle_ms)
            if count > most:
                high_ms, more = middle_ms, found
            else:
                low_ms, oldest = middle_ms, found
        return oldest or more  # those of one millisecond are removed together


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:  # the key comes from the environment
        return 0.0
