"""The audit log of a server, which has one record for each call.

One thread writes. Records that arrive while it writes are committed together, and all waiters of one event
loop are woken together. While the store fails, replies do not wait: records are kept, up to MAX_QUEUE, and
written when it works again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from toolcrib.config.settings import Audit
from toolcrib.dispatch.calls import Call
from toolcrib.errors import AuditUnavailableError, ConfigurationError
from toolcrib.policy.audit.checkpoints import AuditKey
from toolcrib.policy.audit.files import explain_damage, is_temporary, refuse_export, unusable_file
from toolcrib.policy.audit.record import Redaction, encode_entry, to_plain
from toolcrib.policy.audit.writer import RecordWriter
from toolcrib.state.base import AuditStore, StateDamaged
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

OPEN_S = 5.0
CLOSE_S = 10.0
FRESH_S = 1.0
"""A record written at most this long ago shows that the next one can be written."""
MAX_QUEUE = 20_000
MAX_BATCH = 1_024
MAX_GATHERED = 64
FIRST_RETRY_S = 0.05
LAST_RETRY_S = 1.0
CHECK_FILE_S = 1.0
"""The interval at which an idle log checks that its file still exists."""
QUIET_S = 60.0
"""The least time between two log messages about a failing store."""


_NOBODY_WAITS = (asyncio.CancelledError, GeneratorExit)


class AuditLog:
    """One per server. May be used from several event loops, and opened again after it was closed."""

    def __init__(
        self,
        options: Audit,
        *,
        server: str,
        store: AuditStore | None = None,
        wall: Callable[[], float] = time.time,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without `store`, records are in the file of the options."""
        refuse_export(Path(options.file))
        self.keeps_values = bool(options.values)
        self._options = options
        self._wall = wall
        self._redaction = Redaction(options.values, options.redact)
        self._in_fleet = store is not None
        self._writer = RecordWriter(options, server=server, wall=wall, now=now, store=store)
        self._thread = WriterThread(self._writer)
        self._waiters: LoopWaiters | None = None
        self._waiters_by_loop: dict[asyncio.AbstractEventLoop, LoopWaiters] = {}
        self._lock = threading.Lock()
        self._key: AuditKey | None = None
        self._canonical = codec.encoder(is_canonical=True)

    async def open(self) -> None:
        """Open the log and recover from a crash.

        Raises ConfigurationError for damage that a crash does not cause, and for a file that cannot be used.
        A full disk or a locked file does not prevent a start: records are written as soon as possible.
        """
        opened = asyncio.wrap_future(self._thread.request("open"))
        await asyncio.wait([opened], timeout=OPEN_S)
        if not opened.done():
            self._thread.stall([])
            opened.add_done_callback(_ignore_result)
            return
        try:
            opened.result()
        except StateDamaged as error:
            raise explain_damage(error, Path(self._options.file), in_fleet=self._in_fleet) from None
        except OSError as error:
            raise unusable_file(error, self._options) from None

    async def close(self) -> None:
        """Write what is waiting, the last record and a checkpoint. Gives up on a store that hangs."""
        waiters = self._waiters_by_loop.get(asyncio.get_running_loop())
        if waiters is not None:
            waiters.hand_over()  # those of other loops must not be touched from here
        if not self._thread.is_running:
            return
        done = asyncio.wrap_future(self._thread.request("close"))
        await asyncio.wait([done], timeout=CLOSE_S)
        if not done.done():
            logger.error(
                "audit: %d records are not written, and will be lost unless %s works before the process ends",
                len(self._thread),
                self._options.file,
            )

    # --- arguments ---

    def digest(self, arguments: Mapping[str, Any] | None) -> tuple[str, int]:
        """Return a keyed digest of arguments and their size as JSON."""
        try:
            data = self._canonical(arguments or {})
        except Exception:  # not JSON, or endless
            data = self._canonical(to_plain(arguments))
        return (self._key or self._load_key()).digest(data).hexdigest(), len(data)

    def _load_key(self) -> AuditKey:
        try:
            self._key = self._writer.load_key()
        except (OSError, ConfigurationError):
            return AuditKey(os.urandom(32))  # opening the log reports the problem
        return self._key

    def values_of(self, arguments: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the argument values that may be recorded, redacted; None if there are none."""
        return self._redaction.pick(arguments) if arguments else None

    # --- records ---

    def commit(self, entry: dict[str, Any]) -> asyncio.Future[bool]:
        """Record an entry. The result is whether it is committed: not if that takes too long or fails."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        waiters = self._waiters
        if waiters is None or waiters.loop is not loop:
            waiters = self._waiters_of(loop)
        item = QueuedRecord(self._wall(), entry, waiters, future)
        if self._thread.is_failing:
            future.set_result(False)
            self._thread.put(item, are_late=True)
        else:
            waiters.add(item)
        return future

    async def prove(self) -> bool:
        """Whether records can be written now. Writes a probe record if none was written recently."""
        if self._thread.is_failing or time.monotonic() - self._thread.written_at < FRESH_S:
            return not self._thread.is_failing
        return await self.commit({"kind": "probe"})

    def note(self, entry: dict[str, Any]) -> None:
        """Record an entry without waiting for it."""
        self._thread.put(QueuedRecord(self._wall(), entry, None, None))

    # --- calls ---

    def record(
        self, call: Call, arguments: Mapping[str, Any] | None, error: BaseException | None
    ) -> asyncio.Future[bool] | None:
        """Record a call that has ended. Return the future that the reply waits for, None without a reply."""
        ended = call.record
        entry = self._facts(call, arguments)
        entry["rule"] = ended.rule
        entry["decision"] = ended.decision
        entry["outcome"] = ended.outcome
        entry["code"] = ended.code
        entry["duration_ms"] = int(ended.duration_s * 1_000_000) / 1000
        entry["result_bytes"] = ended.result_bytes
        if ended.is_cached:
            entry["cached"] = True
        if isinstance(error, _NOBODY_WAITS) or ended.decision == "overloaded":
            self.note(entry)
            return None
        return self.commit(entry)

    def record_task(self, call: Call) -> Awaitable[bool]:
        """Record that a call has become a task; its end is another record with the same id."""
        entry = self._facts(call, call.arguments)
        duration_ms = int((time.perf_counter() - call.started) * 1_000_000) / 1000
        entry |= {"rule": call.record.rule, "decision": call.record.decision, "outcome": "task", "code": None}
        return self.commit({**entry, "duration_ms": duration_ms, "result_bytes": None})

    async def require(self, call: Call) -> None:
        """Raise AuditUnavailableError for a call that may only happen if it can be recorded, while records
        cannot be written. If the tool says so, record the call before it happens."""
        tool = call.tool
        if tool is not None and tool.options.audit == "required":
            is_recorded = await self.commit({"kind": "intent", **self._facts(call, call.arguments)})
        else:
            is_recorded = await self.prove()
        if not is_recorded:
            label = f"Tool '{call.name}'" if tool is None else tool.label
            raise AuditUnavailableError(
                f"{label} cannot run now: its calls must be recorded, and the audit log is unavailable."
            )

    def _facts(self, call: Call, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what is known of a call when it begins."""
        record = call.record
        facts: dict[str, Any] = {
            "id": record.id,
            "request": record.request,
            "principal": record.principal,
            "tool": record.tool,
            "version": record.version,
            "definition": record.definition,
            "arguments_bytes": record.arguments_bytes,
            "arguments_digest": record.arguments_digest,
        }
        if self.keeps_values:
            values = self.values_of(arguments)
            if values is not None:
                facts["values"] = values
        return facts

    def _waiters_of(self, loop: asyncio.AbstractEventLoop) -> LoopWaiters:
        with self._lock:
            waiters = self._waiters_by_loop.get(loop)
            if waiters is None:
                known = self._waiters_by_loop.items()
                self._waiters_by_loop = {each: its for each, its in known if not each.is_closed()}
                waiters = self._waiters_by_loop[loop] = LoopWaiters(loop, self._options.wait_s, self._thread)
            self._waiters = waiters
            return waiters

    # --- statistics ---

    @property
    def is_failing(self) -> bool:
        """Whether records cannot be written now."""
        return self._thread.is_failing

    @property
    def is_damaged(self) -> bool:
        """Whether the log was deleted or changed: nothing is written before the next start."""
        return self._writer.damage is not None

    @property
    def gaps(self) -> int:
        """Records whose reply did not wait for them, including lost ones."""
        return self._writer.gap.late + self._writer.gap.lost

    @property
    def lost(self) -> int:
        """Records that will never be written."""
        return self._writer.gap.lost

    @property
    def records(self) -> int:
        """Records written by this process."""
        return self._writer.records

    @property
    def waiting(self) -> int:
        """Records not yet written."""
        return len(self._thread)


def _ignore_result(opened: asyncio.Future[None]) -> None:
    """Retrieve the exception: the next write meets and reports the same problem."""
    if not opened.cancelled():
        opened.exception()


@dataclass(slots=True, eq=False)
class QueuedRecord:
    """The facts of a record, which the thread encodes, and the future that waits for it."""

    wall: float
    facts: dict[str, Any]
    waiters: LoopWaiters | None
    future: asyncio.Future[bool] | None
    deadline: float = 0.0
    is_late: bool = False


class LoopWaiters:
    """Everything that waits on one event loop, and is used on that loop only.

    Records of one loop iteration are handed over together: waking the thread costs more than writing.
    """

    __slots__ = ("_gathered_before", "_has_timer", "_thread", "_wait_s", "_waiting", "gathered", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, wait_s: float, thread: WriterThread) -> None:
        self.loop = loop
        self.gathered: list[QueuedRecord] = []
        self._thread = thread
        self._gathered_before = 0
        self._wait_s = wait_s
        self._waiting: deque[QueuedRecord] = deque()
        self._has_timer = False

    def add(self, item: QueuedRecord) -> None:
        """Queue a record; its future is resolved within the wait time."""
        loop = self.loop
        item.deadline = loop.time() + self._wait_s
        self._waiting.append(item)
        if not self._has_timer:
            self._has_timer = True
            loop.call_at(item.deadline, self._expire)
        if not self.gathered:
            loop.call_soon(self._gather)
        self.gathered.append(item)

    def _gather(self) -> None:
        """Hand over, unless more arrived since the last iteration: then even more may arrive."""
        count = len(self.gathered)
        if self._gathered_before < count < MAX_GATHERED:
            self._gathered_before = count
            self.loop.call_soon(self._gather)
        else:
            self.hand_over()

    def hand_over(self) -> None:
        self._gathered_before = 0
        gathered, self.gathered = self.gathered, []
        if gathered:
            self._thread.put(*gathered)

    def resolve(self, items: Iterable[QueuedRecord], is_written: bool) -> None:
        for item in items:
            future = item.future
            if future is not None and not future.done():
                future.set_result(is_written)
        self._drop_resolved()

    def _drop_resolved(self) -> None:
        waiting = self._waiting
        while waiting and (waiting[0].future is None or waiting[0].future.done()):
            waiting.popleft()

    def _expire(self) -> None:
        """Resolve what has waited too long. One timer serves all, because they wait equally long."""
        self._drop_resolved()
        now, late = self.loop.time(), []
        while self._waiting and self._waiting[0].deadline <= now:
            late.append(self._waiting.popleft())
            self._drop_resolved()
        if late:
            self._thread.stall(late)
            self.resolve(late, False)
        self._has_timer = bool(self._waiting)
        if self._waiting:
            self.loop.call_at(self._waiting[0].deadline, self._expire)


class WriterThread:
    """The thread that writes records.

    `is_failing` says that the store fails or does not respond; `written_at` is when it last took a record, on
    the monotonic clock.
    """

    def __init__(self, writer: RecordWriter) -> None:
        self.is_failing = False
        self.written_at = float("-inf")
        self.queue: deque[QueuedRecord] = deque()
        self._writer = writer
        self._pending: list[QueuedRecord] = []
        self._lock = threading.Lock()
        self._wakeup = threading.Lock()
        self._wakeup.acquire()
        self._is_idle = False
        self._requests: deque[tuple[str, Future[None]]] = deque()
        self._has_failed = False
        self._gap_before_failure = (0, 0)
        self._retry_s = FIRST_RETRY_S
        self._checked_at = 0.0
        self._quiet_until = 0.0
        self._is_failure_logged = False
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self.queue) + len(self._pending)

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    # --- called from any thread ---

    def put(self, *items: QueuedRecord, are_late: bool = False) -> None:
        """Queue records. If there is no room for all of them, the last ones are lost."""
        lost = items[max(0, MAX_QUEUE - len(self)) :]
        if lost:
            items = items[: -len(lost)]
            self._writer.gap.add(lost=len(lost))
            _resolve_all(lost, False)
        if are_late:
            self.mark_late(items)  # before they can be written: the gap record comes first
        self.queue.extend(items)
        if self._is_idle:
            self._wake()
        elif self._thread is None:
            self._start()

    def request(self, action: Literal["open", "close"]) -> Future[None]:
        """Open or close the log on the thread."""
        done: Future[None] = Future()
        self._requests.append((action, done))
        self._start()
        self._wake()
        return done

    def mark_late(self, items: Iterable[QueuedRecord]) -> None:
        """Count records whose replies no longer wait."""
        with self._lock:
            late = [item for item in items if not item.is_late and item.future is not None]
            for item in late:
                item.is_late = True
        if late:
            self._writer.gap.add(late=len(late))

    def stall(self, items: list[QueuedRecord]) -> None:
        """The store did not respond in time."""
        self.is_failing = True
        self._log_failure("the store did not respond in time")
        self.mark_late(items)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="toolcrib-audit", daemon=True)
                self._thread.start()

    def _wake(self) -> None:
        try:
            self._is_idle = False
            self._wakeup.release()
        except RuntimeError:
            pass  # it is awake

    # --- on the thread ---

    def _run(self) -> None:
        pause_s: float | None = 0.0
        closing: list[Future[None]] = []
        while True:
            self._wait(pause_s)
            while self._requests:
                action, done = self._requests.popleft()
                if action == "close":
                    closing.append(done)
                else:
                    self._open(done)
            pause_s = self._turn()
            if closing and (self._has_failed or not len(self)):
                self._close()
                self._thread = None
                for done in closing:
                    done.set_result(None)
                if self.queue or self._requests:
                    self._start()  # they came while the log was being closed
                return

    def _wait(self, pause_s: float | None) -> None:
        if not self._has_failed:
            self._is_idle = True
            if not self.queue and not self._requests:
                self._wakeup.acquire(timeout=CHECK_FILE_S if pause_s is None else min(pause_s, CHECK_FILE_S))
        elif not self._requests:
            # Not idle: new entries do not make a failing store work sooner.
            self._wakeup.acquire(timeout=self._retry_s)
        self._is_idle = False

    def _open(self, done: Future[None]) -> None:
        try:
            self._writer.start()
            self.is_failing = self._has_failed  # opening may have taken longer than anybody waits
        except Exception as error:
            if not is_temporary(error):
                done.set_exception(error)
                return
            self._fail(error)
        done.set_result(None)

    def _turn(self) -> float | None:
        """Write what is queued and do what is due. Returns the seconds to wait, as `run_maintenance` does."""
        queue, pending, given = self.queue, self._pending, len(self._pending)
        while queue and len(pending) < MAX_BATCH:
            pending.append(queue.popleft())
        try:
            if pending or self._has_failed:
                # Those of a write that failed are still with the writer.
                self._writer.write([encode_entry(item.wall, item.facts) for item in pending[given:]])
                self._pending = []
                self._succeed(pending)
                self._checked_at = time.monotonic()
            elif time.monotonic() - self._checked_at >= CHECK_FILE_S / 2:  # not after every batch
                self._writer.check_file()
                self._checked_at = time.monotonic()
            return self._writer.run_maintenance()
        except Exception as error:  # whatever it is, calls go on and the next turn tries again
            self._fail(error)
            return None  # `_retry_s` applies

    def _succeed(self, items: list[QueuedRecord]) -> None:
        _resolve_all(items, True)
        self.is_failing = False
        self.written_at = time.monotonic() if items else self.written_at
        self._has_failed = False
        self._retry_s = FIRST_RETRY_S
        if self._is_failure_logged:
            self._is_failure_logged = False
            gap = self._writer.gap
            late, lost = gap.late - self._gap_before_failure[0], gap.lost - self._gap_before_failure[1]
            logger.warning("audit: records are written again; %d were late, %d are lost", late, lost)

    def _fail(self, error: Exception) -> None:
        self.is_failing = True
        if self._has_failed:
            self._retry_s = min(LAST_RETRY_S, self._retry_s * 2)
        self._has_failed = True
        self._log_failure(str(error) or type(error).__name__)
        waiting = [*self._pending, *self.queue]
        self.mark_late(waiting)
        _resolve_all(waiting, False)

    def _log_failure(self, reason: str) -> None:
        now = time.monotonic()
        with self._lock:
            if self._is_failure_logged or now < self._quiet_until:
                return
            self._is_failure_logged = True
            self._quiet_until = now + QUIET_S
            gap = self._writer.gap
            self._gap_before_failure = (gap.late, gap.lost)
        logger.error("audit: cannot write records to %s: %s", self._writer.path, reason)

    def _close(self) -> None:
        lost, self._pending = [*self._pending, *self.queue], []  # empty unless the store fails
        self.queue.clear()
        try:
            self._writer.close()
        except Exception as error:
            logger.error("audit: closing the log failed: %s", error)
        if lost:
            self._writer.gap.add(lost=len(lost))
            logger.error("audit: %d records are lost: the log was closed while it was failing", len(lost))
        self._has_failed = False
        self._retry_s = FIRST_RETRY_S
        self.is_failing = False


def _resolve_all(items: Iterable[QueuedRecord], is_written: bool) -> None:
    """Resolve futures with one call per event loop."""
    by_loop: dict[LoopWaiters, list[QueuedRecord]] = {}
    for item in items:
        if item.waiters is not None:
            by_loop.setdefault(item.waiters, []).append(item)
    for waiters, waiting in by_loop.items():
        try:
            waiters.loop.call_soon_threadsafe(waiters.resolve, waiting, is_written)
        except RuntimeError:
            pass  # the loop is closed
