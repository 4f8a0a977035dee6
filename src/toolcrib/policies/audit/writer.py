"""The thread that writes, and those who wait for it.

Entries gather while the last ones are being written, and are then written together; those who wait on one
loop are woken together. Whoever has waited long enough is let go. While the store fails nobody waits: what
comes is kept for later, as much as fits. Knows threads and loops; refuses to know what is written.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future

from toolcrib.policies.audit.record import Entry
from toolcrib.policies.audit.scribe import Scribe
from toolcrib.policies.audit.store import is_outage

logger = logging.getLogger("toolcrib")

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
