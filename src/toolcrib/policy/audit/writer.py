"""The thread that writes, and those who wait for it.

Entries gather while the last ones are being written, and are then written together; those who wait on one
loop are woken together. Whoever has waited long enough is let go. While the store fails nobody waits: what
comes is kept for later, as much as fits. Knows threads and loops; refuses to know what is written.

Who keeps the log: writes records behind each other, seals checkpoints, ends what is too old.

One thread's affair from beginning to end; what fails is put off, never done half. Knows the chain, its
store and its checkpoints; refuses to know who waits for a record, and threads.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from toolcrib.config.settings import Audit
from toolcrib.policy.audit import key
from toolcrib.policy.audit.checkpoints import (
    CHECKPOINT_RECORDS,
    CHECKPOINT_S,
    Checkpoint,
    CheckpointFile,
    Kind,
    find_seals,
)
from toolcrib.policy.audit.record import NO_RECORD, Entry, Head, compose, encode, head_of, stamp
from toolcrib.policy.audit.recovery import recover
from toolcrib.policy.audit.retention import Gap, SteadyClock, aged_out
from toolcrib.policy.audit.store import (
    FAILURES,
    BrokenError,
    GoneError,
    Store,
    check_key,
    is_outage,
    open_store,
)

logger = logging.getLogger("toolcrib")

SYNC_S = 1.0
"""Also the least time between two checkpoints: each waits for the disk."""
PRUNE_S = 60.0
AGES_S = 3_600.0


class _Attempt(NamedTuple):
    """Lines that were to be written behind a number. Whether they were is not known when writing failed."""

    behind: int
    lines: list[bytes]
    notes: int


class Scribe:
    """Nothing is opened before it is needed; after a failure everything is opened anew."""

    def __init__(
        self, options: Audit, *, server: str, wall: Callable[[], float], now: Callable[[], float]
    ) -> None:
        self.path = Path(options.file)
        self.gap = Gap(wall)
        self.records = 0
        self.secret: key.Secret | None = None
        self.head = NO_RECORD
        self._kept = NO_RECORD
        self._options = options
        self._server = server
        self._wall = wall
        self._now = now
        self._store: Store | None = None
        self._seals: CheckpointFile | None = None
        self._clock: SteadyClock | None = None
        self._notes: list[Entry] = []
        self._attempt: _Attempt | None = None
        self._skip = 0
        self._is_announced = False
        self._first_seq = 1
        self._sealed_seq = 0
        self._sealed_at = self._synced_at = self._pruned_at = now()
        self._aged_at = float("-inf")
        self._unsynced = 0
        self._is_sealing_badly = False
        self._removed = 0
        self._gone: GoneError | None = None
        self._borne: list[Checkpoint] = []
        self._borne_records = 0

    # --- opening ---

    def start(self) -> None:
        """Open the log, and have that on the record and sealed: of a file that is deleted from now on, a
        checkpoint says that it was there. Raises what `open` and `write` raise."""
        self.open()
        if self._notes:
            self.write(())
        self.tend()

    def open(self) -> Store:
        """Raises ConfigurationError for what somebody has to put right, and what stores raise."""
        if self._store is not None:
            return self._store
        self.find_secret()
        store = open_store(self.path, sync=self._options.sync, wait_s=self._options.wait_s)
        self._store = store
        try:
            is_gone = self._gone is not None
            recovered = recover(store, self, accept_gap=self._options.accept_gap, is_gone=is_gone)
            self._first_seq = store.first_seq() or 1
            self.head = store.head()
            if recovered.behind >= CHECKPOINT_RECORDS:
                # Who is killed again and again before it seals would have more to look at every time.
                self._seal(store)
        except BaseException:
            self.abandon()
            raise
        self._notes += recovered.notes
        if not self._is_announced:
            self._is_announced = True
            self._sealed_at = float("-inf")  # what comes first is sealed at once
            facts = {"kind": "opened", "server": self._server, "process": os.getpid()}
            if self.head == NO_RECORD:
                # No two logs begin alike: a seal of one, made with the same key, fits no other.
                facts["log"] = os.urandom(8).hex()
            self._notes.append(self.stamp_entry(facts))
        return store

    def _opened_seals(self) -> CheckpointFile:
        if self._seals is None:
            self._seals = CheckpointFile(self._seals_path, self.find_secret())
        return self._seals

    def _read_clock(self) -> float:
        return self._wall() if self._clock is None else self._clock.read()

    @property
    def _seals_path(self) -> Path:
        given = self._options.checkpoints
        return find_seals(self.path, None if given is None else Path(given))

    def find_secret(self) -> key.Secret:
        """The key, made where there is neither one nor anything that was sealed with one."""
        if self.secret is None:
            given = self._options.key_file
            key_file = None if given is None else Path(given)
            found = key.find(self.path, key_file)
            place = key_file or key.default_file(self.path)
            check_key(found is not None, self.path, self._seals_path, place)
            self.secret = found or key.make(self.path, key_file)
        return self.secret

    # --- what recovery asks for ---

    def newest(self, *, is_new: bool) -> tuple[Checkpoint | None, bool]:
        first = self._make("checkpoint", NO_RECORD, 0, None) if is_new else None
        found, are_ours = self._opened_seals().newest(first)
        if self._clock is None:
            last = None if found is None else float(found.clock)
            self._clock = SteadyClock(self._wall, self._now, last, self._options.keep_days)
        self._sealed_seq = 0 if found is None else found.seq
        if found is not None and self._kept.seq > found.seq:
            found = self._make("checkpoint", self._kept, 0, None)  # what we know ourselves needs no seal
        return found, are_ours

    def seals(self) -> list[Checkpoint]:
        return [*self._opened_seals().read_all(), *self._borne]

    def bear(self, words: str, head: Head, *, count: int, good: Head) -> None:
        # Known to this process alone: it goes on, and whoever verifies the log finds what is missing.
        self._borne.append(self._make("accepted", head, count, good))
        self.gap.add(lost=min(self.records - self._borne_records, head.seq - good.seq))
        self._borne_records = self.records
        self._sealed_at = float("-inf")
        logger.error(
            "audit: %s: %s: %s; the log goes on behind record %d", self.path, self._gone, words, head.seq
        )

    def certify(self, kind: Kind, head: Head, *, count: int, good: Head | None = None) -> None:
        self._opened_seals().add(self._make(kind, head, count, good))

    def stamp_entry(self, facts: dict[str, object]) -> Entry:
        return encode(self._wall(), facts)

    def _make(self, kind: Kind, head: Head, count: int, good: Head | None) -> Checkpoint:
        found = () if good is None else (good.seq, good.hash.decode())
        clock = int(self._read_clock())
        return Checkpoint(kind, head.seq, head.hash.decode(), count, stamp(self._wall()), clock, *found)

    # --- writing ---

    def write(self, entries: Sequence[Entry]) -> None:
        """All of them are kept when it returns. Where it raises, give it the same ones again, and more."""
        store = self.open()
        if self._attempt is None and (gap := self.gap.tell()) is not None:
            self._notes.append(self.stamp_entry(gap))
        lines: list[bytes] = []

        def lines_behind(head: Head) -> list[bytes]:
            nonlocal lines
            self._refuse_altered(store, head)
            if self._attempt is not None:
                self._drop_written(store, self._attempt)
            self.head, lines = compose(head, [*self._notes, *entries[self._skip :]])
            self._attempt = _Attempt(head.seq, lines, len(self._notes))
            return lines

        try:
            store.append(lines_behind)
        except BaseException as error:
            self._give_up(error)
            raise
        self.records += len(lines)
        self._unsynced += len(lines)
        self._kept = self.head
        self._attempt, self._skip = None, 0
        self._notes.clear()

    def _refuse_altered(self, store: Store, head: Head) -> None:
        """Go on, and seal, only behind our own last record as we wrote it: others add, nobody changes."""
        kept = self._kept
        if head == kept or not kept.seq:
            return
        found = head_of(next(store.lines(kept.seq - 1), b"")) if head.seq > kept.seq else None
        first = head_of(next(store.lines(0), b""))
        is_there = first is None or first.seq <= kept.seq  # or else another process has ended it
        if found != kept and is_there and not self._is_accepted(kept.seq):
            raise BrokenError(f"record {kept.seq} is not as it was written, or gone", kept.seq)

    def _is_accepted(self, seq: int) -> bool:
        """Whether somebody has decided to go on although this record may be damaged."""
        try:
            accepted = [each for each in self.seals() if each.kind == "accepted"]
        except OSError:
            return False  # the damage is the worse news
        return any((each.good or 0) < seq <= each.seq for each in accepted)

    def look(self) -> None:
        """Raise GoneError where the file was deleted or replaced while it was open."""
        try:
            if self._store is not None:
                self._store.look()
        except BaseException as error:
            self._give_up(error)
            raise

    @property
    def is_gone(self) -> bool:
        """Whether the file was deleted or replaced, and none was opened since."""
        return self._gone is not None and self._store is None

    def _give_up(self, error: BaseException) -> None:
        if isinstance(error, GoneError):
            self._gone = error
            self._kept = max(self._kept, error.head)  # of all processes that wrote it
        if isinstance(error, BrokenError):
            self._testify()
        self.abandon()

    def _testify(self) -> None:
        """Seal what we wrote ourselves: when we are gone, nothing else proves that it was there."""
        kept = self._kept
        if kept.seq > self._sealed_seq:
            try:
                self.certify("checkpoint", kept, count=kept.seq - self._first_seq + 1)
            except OSError as error:
                logger.warning("audit: no checkpoint can be written to %s: %s", self._seals_path, error)

    def _drop_written(self, store: Store, attempt: _Attempt) -> None:
        """Do not write again what was written by an attempt that was said to have failed."""
        done = 0
        for found, line in zip(store.lines(attempt.behind), attempt.lines, strict=False):
            if found != line:
                break
            done += 1
        self.records += done
        notes = min(done, attempt.notes)
        del self._notes[:notes]
        self._skip += done - notes

    def abandon(self) -> None:
        """Let go of everything, to begin anew."""
        store, self._store = self._store, None
        seals, self._seals = self._seals, None
        for each in (store, seals):
            try:
                if each is not None:
                    each.close()
            except FAILURES:
                pass  # it was failing before

    # --- what time brings ---

    def tend(self) -> float | None:
        """Do what is due. Returns in how many seconds there is more to do; None: not before the next record.
        Raises what stores raise."""
        if self._store is None:
            return None
        if self.gap.is_untold:
            self.write(())
        try:
            return self._tend(self._store)
        except BaseException as error:
            self._give_up(error)
            raise

    def _tend(self, store: Store) -> float | None:
        now = self._now()
        every = store.sync_every
        if every is None or not self._unsynced:
            self._unsynced, self._synced_at = 0, now
        elif self._unsynced >= every or now - self._synced_at >= SYNC_S:
            store.sync()
            self._unsynced, self._synced_at = 0, now
        behind = self.head.seq - self._sealed_seq
        patience_s = SYNC_S if behind >= CHECKPOINT_RECORDS else CHECKPOINT_S
        if behind > 0 and now - self._sealed_at >= patience_s:
            self._seal(store)
        options = self._options
        has_end = options.keep_days is not None or options.keep_records is not None
        if has_end and now - self._pruned_at >= PRUNE_S and not self._prune(store):
            self._pruned_at = now
        dues = []
        if self._unsynced:
            dues.append(self._synced_at + SYNC_S)
        if self.head.seq > self._sealed_seq:
            dues.append(self._sealed_at + patience_s)
        if has_end:
            dues.append(self._pruned_at + PRUNE_S)
        return max(0.0, min(dues) - now) if dues else None

    def _seal(self, store: Store) -> None:
        """A checkpoint of what is safely on the disk, and of nothing else."""
        store.sync()
        self._unsynced = 0
        self._sealed_at = self._now()
        try:
            self.certify("checkpoint", self.head, count=self.head.seq - self._first_seq + 1)
        except OSError as error:
            if not self._is_sealing_badly:
                logger.warning("audit: no checkpoint can be written to %s: %s", self._seals_path, error)
            self._is_sealing_badly = True  # records are kept all the same; the next one is tried in time
            return
        self._is_sealing_badly = False
        self._sealed_seq = self.head.seq

    # --- what is too old ---

    def _prune(self, store: Store) -> bool:
        """End some old records. Returns whether there are more."""
        first = store.first_seq() or self._first_seq  # the first line may be none
        through = min(self._too_old(first), self.head.seq - 1)
        if first <= through:
            last = through if store.remove_batch is None else min(through, first + store.remove_batch - 1)
            with closing(store.lines(last - 1)) as lines:
                heads = (head for line in lines if (head := head_of(line)) is not None)
                end = next(heads, NO_RECORD)
            # Closed: who still reads cannot write what others have written to meanwhile, and SQLite says so.
            is_worth_it = (through - first + 1) * 10 >= self.head.seq - first
            if end.seq and end.seq <= through and (store.remove_batch is not None or is_worth_it):
                # Sealed first: what is gone without a word was not ended by us.
                self.certify("pruned", end, count=self.head.seq - end.seq)
                store.remove_through(end.seq)
                self._removed += end.seq - first + 1
                self._first_seq = end.seq + 1
                if end.seq < through:
                    return True
        if self._removed:
            facts = {"kind": "pruned", "through": self._first_seq - 1, "removed": self._removed}
            self._removed = 0
            self._notes.append(self.stamp_entry(facts))
            self.write(())
            self._opened_seals().forget_before(self._first_seq - 1)
        return False

    def _too_old(self, first: int) -> int:
        options, through = self._options, 0
        if options.keep_records is not None:
            many = self.head.seq - options.keep_records
            # Not one by one: the word about it is a record, too, and would drive out all the others.
            through = many if (many - first + 1) * 100 >= options.keep_records else 0
        if options.keep_days is not None and (self._removed or self._now() - self._aged_at >= AGES_S):
            self._aged_at = self._now()
            seals = self._opened_seals().read_all()
            through = max(through, aged_out(seals, options.keep_days, self._read_clock(), self._wall()))
        return through

    # --- closing ---

    def close(self) -> None:
        """The last word, and a checkpoint of it. Raises what stores raise; it is closed all the same."""
        try:
            if self._store is not None:
                try:
                    self.look()
                except GoneError:
                    self.write(())  # what is lost, into the file that takes its place
                self._notes.append(self.stamp_entry({"kind": "closed", "process": os.getpid()}))
                self.write(())
                self._seal(self.open())
        finally:
            self.abandon()
            self._attempt, self._skip, self._kept = None, 0, NO_RECORD
            self._gone, self._borne, self._borne_records = None, [], self.records
            self._notes = [note for note in self._notes if b'"kind":"gap"' in note]  # still to be told
            self._is_announced = False


MAX_QUEUE = 20_000
MAX_BATCH = 1_024
MAX_GATHERED = 64
FIRST_RETRY_S = 0.05
LAST_RETRY_S = 1.0
LOOK_S = 1.0
"""How often an idle log is looked at: whether its file is still there."""
QUIET_S = 60.0
"""At most one word about failing in this time."""


class Item:
    """An entry, and who waits for it."""

    __slots__ = ("deadline", "desk", "entry", "future", "is_late")

    def __init__(self, entry: Entry, desk: Desk | None, future: asyncio.Future[bool] | None) -> None:
        self.entry = entry
        self.desk = desk
        self.future = future
        self.deadline = 0.0
        self.is_late = False


class Desk:
    """All who wait on one loop. Used on that loop only.

    What comes in one turn of the loop is handed over together: to wake the thread costs more than to write.
    """

    __slots__ = ("_is_watching", "_looked_at", "_wait_s", "_waiting", "_writer", "gathered", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, wait_s: float, writer: Writer) -> None:
        self.loop = loop
        self._writer = writer
        self.gathered: list[Item] = []
        self._looked_at = 0
        self._wait_s = wait_s
        self._waiting: deque[Item] = deque()
        self._is_watching = False

    def take(self, item: Item) -> None:
        """Have an item written, and its future settled within the time."""
        loop = self.loop
        item.deadline = loop.time() + self._wait_s
        self._waiting.append(item)
        if not self._is_watching:
            self._is_watching = True
            loop.call_at(item.deadline, self._look)
        if not self.gathered:
            loop.call_soon(self._gather)
        self.gathered.append(item)

    def _gather(self) -> None:
        """Hand over, unless more has come since the last look: then even more may come."""
        count = len(self.gathered)
        if self._looked_at < count < MAX_GATHERED:
            self._looked_at = count
            self.loop.call_soon(self._gather)
        else:
            self.hand_over()

    def hand_over(self) -> None:
        self._looked_at = 0
        gathered, self.gathered = self.gathered, []
        if gathered:
            self._writer.put(*gathered)

    def settle(self, items: Iterable[Item], is_written: bool) -> None:
        for item in items:
            future = item.future
            if future is not None and not future.done():
                future.set_result(is_written)
        self._forget_settled()

    def _forget_settled(self) -> None:
        waiting = self._waiting
        while waiting and (waiting[0].future is None or waiting[0].future.done()):
            waiting.popleft()

    def _look(self) -> None:
        """One timer for all: who waits longest is first in line."""
        self._forget_settled()
        now, late = self.loop.time(), []
        while self._waiting and self._waiting[0].deadline <= now:
            late.append(self._waiting.popleft())
            self._forget_settled()
        if late:
            self._writer.stall(late)
            self.settle(late, False)
        self._is_watching = bool(self._waiting)
        if self._waiting:
            self.loop.call_at(self._waiting[0].deadline, self._look)


class Writer:
    """`is_failing` says that the store refuses, or does not come back; `written_at`, when it last took a
    record, is monotonic."""

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        self.is_failing = False
        self.written_at = float("-inf")
        self.queue: deque[Item] = deque()
        self._pending: list[Item] = []
        self._lock = threading.Lock()
        self._bell = threading.Lock()
        self._bell.acquire()
        self._is_idle = False
        self._orders: deque[tuple[str, Future[None]]] = deque()
        self._failing_since: float | None = None
        self._failed_before = (0, 0)
        self._retry_s = FIRST_RETRY_S
        self._looked_at = 0.0
        self._silent_until = 0.0
        self._has_spoken = False
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self.queue) + len(self._pending)

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    # --- for everybody ---

    def put(self, *items: Item, are_late: bool = False) -> None:
        """Have items written. Where there is no room for all of them, the last ones are lost."""
        lost = items[max(0, MAX_QUEUE - len(self)) :]
        if lost:
            items = items[: -len(lost)]
            self._scribe.gap.add(lost=len(lost))
            _wake(lost, False)
        if are_late:
            self.mark_late(items)  # before they can be written: what is told of them comes first
        self.queue.extend(items)
        if self._is_idle:
            self._ring()
        elif self._thread is None:
            self._start()

    def order(self, word: str) -> Future[None]:
        """Have the log opened or closed, on the thread that has it."""
        done: Future[None] = Future()
        self._orders.append((word, done))
        self._start()
        self._ring()
        return done

    def mark_late(self, items: Iterable[Item]) -> None:
        """These are not waited for any more."""
        with self._lock:
            late = [item for item in items if not item.is_late and item.future is not None]
            for item in late:
                item.is_late = True
        if late:
            self._scribe.gap.add(late=len(late))

    def stall(self, items: list[Item]) -> None:
        """The store has not come back in time."""
        self.is_failing = True
        self._complain("nothing came back in time")
        self.mark_late(items)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="toolcrib-audit", daemon=True)
                self._thread.start()

    def _ring(self) -> None:
        try:
            self._is_idle = False
            self._bell.release()
        except RuntimeError:
            pass  # it is ringing

    # --- on the thread ---

    def _run(self) -> None:
        pause_s: float | None = 0.0
        closing: list[Future[None]] = []
        while True:
            self._wait(pause_s)
            while self._orders:
                word, done = self._orders.popleft()
                if word == "close":
                    closing.append(done)
                else:
                    self._open(done)
            pause_s = self._turn()
            if closing and self._scribe.is_gone:
                self._turn()  # nobody waits for another file to be begun
            if closing and (self._failing_since is not None or not len(self)):
                self._close()
                self._thread = None
                for done in closing:
                    done.set_result(None)
                if self.queue or self._orders:
                    self._start()  # somebody came while the door was being closed
                return

    def _wait(self, pause_s: float | None) -> None:
        if self._failing_since is None:
            self._is_idle = True
            if not self.queue and not self._orders:
                self._bell.acquire(timeout=LOOK_S if pause_s is None else min(pause_s, LOOK_S))
        elif not self._orders:
            # Not idle: new entries do not make a broken store work any sooner.
            self._bell.acquire(timeout=self._retry_s)
        self._is_idle = False

    def _open(self, done: Future[None]) -> None:
        try:
            self._scribe.start()
            self.is_failing = self._failing_since is not None  # it may have taken longer than anybody waits
        except Exception as error:
            if not is_outage(error):
                done.set_exception(error)
                return
            self._fail(error)
        done.set_result(None)

    def _turn(self) -> float | None:
        """Write what there is, and do what is due."""
        queue, pending = self.queue, self._pending
        while queue and len(pending) < MAX_BATCH:
            pending.append(queue.popleft())
        try:
            if pending or self._failing_since is not None:
                self._scribe.write([item.entry for item in pending])
                self._pending = []
                self._succeed(pending)
                self._looked_at = time.monotonic()
            elif time.monotonic() - self._looked_at >= LOOK_S / 2:  # not after every batch
                self._scribe.look()
                self._looked_at = time.monotonic()
            return self._scribe.tend()
        except Exception as error:  # whatever it is, calls go on and the next turn tries again
            self._fail(error)
            return None  # it has a pause of its own

    def _succeed(self, items: list[Item]) -> None:
        _wake(items, True)
        self.is_failing = False
        self.written_at = time.monotonic() if items else self.written_at
        if self._failing_since is not None:
            self._failing_since = None
            self._retry_s = FIRST_RETRY_S
        if self._has_spoken:
            self._has_spoken = False
            gap = self._scribe.gap
            late, lost = gap.late - self._failed_before[0], gap.lost - self._failed_before[1]
            logger.warning("audit: records are written again; %d came late, %d are lost", late, lost)

    def _fail(self, error: Exception) -> None:
        self.is_failing = True
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        else:
            self._retry_s = min(LAST_RETRY_S, self._retry_s * 2)
        while self.queue:
            self._pending.append(self.queue.popleft())
        self._complain(str(error) or type(error).__name__)
        self.mark_late(self._pending)
        _wake(self._pending, False)

    def _complain(self, words: str) -> None:
        now = time.monotonic()
        with self._lock:
            if self._has_spoken or now < self._silent_until:
                return
            self._has_spoken = True
            self._silent_until = now + QUIET_S
            gap = self._scribe.gap
            self._failed_before = (gap.late, gap.lost)
        logger.error("audit: records cannot be written to %s: %s", self._scribe.path, words)

    def _close(self) -> None:
        lost, self._pending = self._pending, []  # none, unless the store fails: then all of them
        try:
            self._scribe.close()
        except Exception as error:
            logger.error("audit: the log was not closed well: %s", error)
        if lost:
            self._scribe.gap.add(lost=len(lost))
            logger.error("audit: %d records are lost, closed while they could not be written", len(lost))
        self._failing_since = None
        self._retry_s = FIRST_RETRY_S
        self.is_failing = False


def _wake(items: Iterable[Item], is_written: bool) -> None:
    """One call for each loop, however many wait there."""
    desks: dict[Desk, list[Item]] = {}
    for item in items:
        if item.desk is not None:
            desks.setdefault(item.desk, []).append(item)
    for desk, waiting in desks.items():
        try:
            desk.loop.call_soon_threadsafe(desk.settle, waiting, is_written)
        except RuntimeError:
            pass  # the loop has ended, and nobody waits on it
