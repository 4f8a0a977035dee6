"""The writer thread, one turn at a time, and the waiters of an event loop."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.audit_logs import NOON, calls, gap_counts, make_audit, make_writer
from toolcrib.policy.audit import AuditLog
from toolcrib.policy.audit import log as log_module
from toolcrib.policy.audit.log import MAX_GATHERED, LoopWaiters, QueuedRecord, WriterThread
from toolcrib.policy.audit.writer import RecordWriter
from toolcrib.state.base import StateDamaged, StateUnavailable

WAIT_S = 5.0
FACTS = {"id": "c1", "principal": "key:ana", "tool": "tool_1", "outcome": "ok"}


class Turns:
    """In the place of a loop: a turn is taken, and time goes by, only when somebody says so."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.soon: list[Callable[[], None]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now_s

    def call_soon(self, call: Callable[[], None]) -> None:
        self.soon.append(call)

    def call_at(self, when: float, call: Callable[[], None]) -> None:
        self.timers.append((when, call))

    def turn(self) -> None:
        due, self.soon = self.soon, []
        for call in due:
            call()

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        due = [timer for timer in self.timers if timer[0] <= self.now_s]
        self.timers = [timer for timer in self.timers if timer[0] > self.now_s]
        for _, call in due:
            call()


class Room:
    """A waiters, and what it has handed over. Nothing of it is written."""

    def __init__(
        self, writer: RecordWriter, loop: asyncio.AbstractEventLoop, patch: pytest.MonkeyPatch
    ) -> None:
        self.turns: Any = Turns()
        self.path = writer.path
        self.gap = writer.gap
        self.thread = WriterThread(writer)
        self.handed: list[int] = []
        patch.setattr(self.thread, "put", lambda *items: self.handed.append(len(items)))
        self.waiters = LoopWaiters(self.turns, WAIT_S, self.thread)
        self._loop = loop

    def take(self, count: int = 1) -> list[asyncio.Future[bool]]:
        futures = [self._loop.create_future() for _ in range(count)]
        for future in futures:
            self.waiters.add(QueuedRecord(NOON, FACTS, self.waiters, future))
        return futures


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    loop = asyncio.new_event_loop()
    yield Room(make_writer(tmp_path / "audit.db"), loop, monkeypatch)
    loop.close()


async def test_a_late_record_is_counted_before_it_is_written(tmp_path: Path) -> None:
    writer = make_writer(tmp_path / "audit.db")
    thread = WriterThread(writer)
    known = []

    class Queue(deque[QueuedRecord]):
        def extend(self, items: Iterable[QueuedRecord]) -> None:
            known.append(writer.gap.late)

    thread.queue = Queue()
    future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    thread.put(QueuedRecord(NOON, FACTS, None, future), are_late=True)
    await asyncio.wrap_future(thread.request("close"))
    assert known == [1]


# --- handed over together ---


def test_records_are_gathered_while_more_arrive(room: Room) -> None:
    for _ in range(2):
        for _ in range(3):
            room.take()
            room.turns.turn()
        assert room.handed == []
        room.turns.turn()
        assert room.handed == [3]
        room.handed.clear()
        room.turns.turn()
        assert room.handed == []


@pytest.mark.parametrize(("count", "turns"), [(1, 2), (MAX_GATHERED - 1, 2), (MAX_GATHERED, 1), (100, 1)])
def test_many_records_are_handed_over_at_once(room: Room, count: int, turns: int) -> None:
    assert MAX_GATHERED == 64
    room.take(count)
    for _ in range(turns):
        assert room.handed == []
        room.turns.turn()
    assert room.handed == [count]


# --- let go in time ---


def test_waiters_are_resolved_when_their_time_is_over(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    (first,) = room.take()
    room.turns.advance(2)
    second, third = room.take(2)
    assert len(room.turns.timers) == 1  # one for all
    room.turns.advance(2.5)
    assert not first.done()
    assert not room.thread.is_failing
    room.turns.advance(0.5)
    assert first.result() is False
    assert room.thread.is_failing
    assert not second.done()
    room.turns.advance(2)
    assert (second.result(), third.result()) == (False, False)
    assert room.gap.late == 3
    assert room.turns.timers == []
    words = f"audit: cannot write records to {room.path}: the store did not respond in time"
    assert caplog.messages == [words]


def test_a_waiter_after_a_pause_is_resolved_in_time(room: Room) -> None:
    for count in (1, 2):
        (future,) = room.take()
        room.turns.advance(WAIT_S)
        assert future.result() is False
        assert room.gap.late == count


def test_a_resolved_waiter_is_not_late(room: Room) -> None:
    future = room.take()[0]
    room.waiters.resolve(list(room.waiters.gathered), True)
    room.turns.advance(WAIT_S)
    assert future.result() is True
    assert (room.gap.late, room.thread.is_failing, room.turns.timers) == (0, False, [])


@pytest.mark.parametrize(("gone", "late"), [((0,), 2), ((1,), 2), ((2,), 2), ((0, 1, 2), 0)])
def test_a_cancelled_waiter_is_not_late(room: Room, gone: tuple[int, ...], late: int) -> None:
    futures = room.take(3)
    for each in gone:
        futures[each].cancel()
    room.turns.advance(WAIT_S)
    assert room.gap.late == late
    assert room.thread.is_failing is bool(late)


# --- the thread ---


async def test_the_thread_has_a_name_and_keeps_no_process_alive(tmp_path: Path, logs: list[AuditLog]) -> None:
    log = make_audit(logs, tmp_path / "audit.db")
    await log.open()
    (thread,) = [each for each in threading.enumerate() if each.name == "toolcrib-audit"]
    assert thread.daemon
    await log.close()
    thread.join(10)
    assert not thread.is_alive()
    assert not [each for each in threading.enumerate() if each.name == "toolcrib-audit"]


async def test_an_idle_thread_waits(tmp_path: Path, logs: list[AuditLog]) -> None:
    log = make_audit(logs, tmp_path / "audit.db")
    await log.open()
    assert await log.commit({"id": "c1"})
    async with asyncio.timeout(2):
        while not log._thread._is_idle:
            await asyncio.sleep(0)


class Clock:
    """In the place of `time`."""

    def __init__(self) -> None:
        self.now_s = 500.0

    def monotonic(self) -> float:
        return self.now_s


class Bell:
    """In the place of a lock: notes how long somebody would wait for it, and does not."""

    def __init__(self, looked_at: Callable[[], bool]) -> None:
        self.waits: list[tuple[float, bool]] = []
        self._looked_at = looked_at

    def acquire(self, timeout: float) -> None:
        self.waits.append((timeout, self._looked_at()))


class Bench:
    """A thread whose store fails while `error` is set."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.clock = Clock()
        self.error: Exception | None = None
        self.writer = make_writer(path)
        self.thread = WriterThread(self.writer)
        self._write = self.writer.write
        patch.setattr(log_module, "time", self.clock)
        patch.setattr(self.writer, "write", self.write)

    def write(self, given: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if self.error is not None:
                patch.setattr(self.writer, "open", self._fail)
            self._write(given)

    def _fail(self) -> None:
        assert self.error is not None
        raise self.error

    def add(self, count: int = 1) -> None:
        self.thread.queue.extend(
            QueuedRecord(NOON, {"id": f"c{number}"}, None, None) for number in range(1, count + 1)
        )

    def turn(self, error: Exception | None = None) -> float | None:
        self.error = error
        return self.thread._turn()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path / "audit.db", monkeypatch)


FULL = OSError(errno.ENOSPC, "No space left on device")


# --- waiting ---


@pytest.mark.parametrize(
    ("pause_s", "is_failing", "has_entries", "has_orders", "waits"),
    [
        (None, False, False, False, [(1.0, True)]),  # to look whether the file is still there
        (2.5, False, False, False, [(1.0, True)]),
        (0.5, False, False, False, [(0.5, True)]),
        (2.5, False, True, False, []),
        (2.5, False, False, True, []),
        (2.5, True, False, False, [(0.05, False)]),
        (None, True, True, False, [(0.05, False)]),  # new entries do not make it work any sooner
        (2.5, True, False, True, []),
    ],
)
def test_the_thread_waits_as_long_as_nothing_is_due(
    bench: Bench,
    pause_s: float | None,
    is_failing: bool,
    has_entries: bool,
    has_orders: bool,
    waits: list[tuple[float, bool]],
) -> None:
    bell: Any = Bell(lambda: bench.thread._is_idle)
    bench.thread._wakeup = bell
    if is_failing:
        bench.turn(FULL)
        bench.add()
        bench.turn(FULL)
        bench.thread._retry_s = 0.05
    if has_entries:
        bench.add()
    if has_orders:
        bench.thread._requests.append(("open", Future()))
    bench.thread._wait(pause_s)
    assert bell.waits == waits
    assert not bench.thread._is_idle


# --- writing ---


def test_no_file_is_created_without_a_record(bench: Bench) -> None:
    assert bench.turn() is None
    assert not bench.path.exists()
    assert bench.thread.written_at == float("-inf")


def test_many_records_are_written_in_several_batches(bench: Bench) -> None:
    bench.add(1030)
    bench.turn()
    assert len(bench.thread) == 6
    assert bench.thread.written_at == 500.0
    bench.clock.now_s += 1
    bench.turn()
    assert len(bench.thread) == 0
    assert bench.thread.written_at == 501.0
    bench.clock.now_s += 1
    assert bench.turn() is not None
    assert bench.thread.written_at == 501.0  # nothing was
    assert calls(bench.path) == [f"c{number}" for number in range(1, 1031)]
    bench.writer.close()


def test_failed_records_are_kept_and_written_later(bench: Bench) -> None:
    bench.add(2)
    pauses = []
    for _ in range(3):
        bench.turn(FULL)
        pauses.append(bench.thread._retry_s)
        assert bench.thread.is_failing
    assert pauses == [0.05, 0.1, 0.2]
    bench.add(1)
    assert len(bench.thread) == 3
    bench.turn()
    assert not bench.thread.is_failing
    assert len(bench.thread) == 0
    assert calls(bench.path) == ["c1", "c2", "c1"]
    bench.add(1)
    bench.turn(FULL)
    assert bench.thread._retry_s == 0.05  # from the beginning
    bench.turn()
    bench.writer.close()


def test_failures_are_logged_once_a_minute(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    failing = f"audit: cannot write records to {bench.path}: "
    bench.add()
    for _ in range(3):
        bench.turn(FULL)
    bench.writer.gap.add(late=2, lost=1)
    bench.turn()
    assert {each.name for each in caplog.records} == {"toolcrib"}
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [
        (logging.ERROR, f"{failing}[Errno 28] No space left on device"),
        (logging.WARNING, "audit: records are written again; 2 were late, 1 are lost"),
    ]
    caplog.clear()
    bench.clock.now_s += 59.5
    bench.add()
    bench.turn(StateUnavailable("locked"))
    bench.turn()
    assert caplog.messages == []
    bench.clock.now_s += 0.5
    bench.add()
    bench.turn(OSError())  # has no words
    bench.writer.gap.add(late=4)
    bench.turn()
    assert caplog.messages == [
        f"{failing}OSError",
        "audit: records are written again; 4 were late, 0 are lost",
    ]
    bench.writer.close()


def test_a_record_is_counted_as_late_once(bench: Bench) -> None:
    loop = asyncio.new_event_loop()
    waiting = QueuedRecord(NOON, FACTS, None, loop.create_future())
    bench.thread.mark_late([waiting, QueuedRecord(NOON, FACTS, None, None)])
    assert bench.writer.gap.late == 1
    bench.thread.mark_late([waiting])
    assert bench.writer.gap.late == 1
    bench.thread.mark_late([])
    assert bench.writer.gap.late == 1
    loop.close()


def test_records_during_a_failure_are_late_and_reported(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.new_event_loop()
    bench.thread.queue.extend(QueuedRecord(NOON, FACTS, None, loop.create_future()) for _ in range(2))
    bench.turn(FULL)
    bench.turn(FULL)
    assert bench.writer.gap.late == 2
    bench.turn()
    assert caplog.messages[-1] == "audit: records are written again; 2 were late, 0 are lost"
    assert gap_counts(bench.path) == [(2, 0)]
    bench.writer.close()
    loop.close()


# --- opening and closing ---


@pytest.mark.parametrize("fails", [False, True])
def test_a_log_that_was_opened_late_works_unless_writing_failed(bench: Bench, fails: bool) -> None:
    bench.add()
    if fails:
        bench.turn(FULL)
    bench.thread.is_failing = True
    done: Future[None] = Future()
    bench.thread._open(done)
    assert done.result(0) is None
    assert bench.thread.is_failing is fails
    bench.writer.release()


@pytest.mark.parametrize("error", [StateDamaged("it is damaged"), PermissionError(errno.EACCES, "no")])
def test_a_permanent_failure_is_raised_when_opening(
    bench: Bench, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise error

    monkeypatch.setattr(bench.writer, "open", refuse)
    done: Future[None] = Future()
    bench.thread._open(done)
    assert done.exception(0) is error
    assert not bench.thread.is_failing


def test_a_temporary_failure_does_not_prevent_opening(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise FULL

    monkeypatch.setattr(bench.writer, "open", refuse)
    done: Future[None] = Future()
    bench.thread._open(done)
    assert done.result(0) is None
    assert bench.thread.is_failing


def test_records_of_a_failing_log_are_lost_when_it_is_closed(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.add()
    bench.turn()
    bench.add(3)
    bench.turn(FULL)
    bench.turn(FULL)
    caplog.clear()
    bench.thread._close()
    assert caplog.messages == [
        "audit: closing the log failed: [Errno 28] No space left on device",
        "audit: 3 records are lost: the log was closed while it was failing",
    ]
    assert (bench.writer.gap.lost, len(bench.thread), bench.thread.is_failing) == (3, 0, False)
    bench.add()
    bench.turn(FULL)
    assert bench.thread._retry_s == 0.05
    bench.turn()
    bench.thread._close()
    assert calls(bench.path) == ["c1", "c1"]
    assert gap_counts(bench.path) == [(0, 3)]


@pytest.mark.parametrize("comes", ["note", "open"])
async def test_records_that_arrive_during_closing_are_written(
    tmp_path: Path, logs: list[AuditLog], comes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_audit(logs, tmp_path / "audit.db")
    await log.open()
    close = RecordWriter.close
    orders: list[Future[None]] = []

    def close_slowly(writer: RecordWriter) -> None:
        if comes == "note":
            log.note({"id": "c1"})
        else:
            orders.append(log._thread.request("open"))
        close(writer)

    with monkeypatch.context() as patch:
        patch.setattr(RecordWriter, "close", close_slowly)
        await log.close()
    async with asyncio.timeout(5):
        while comes == "note" and log.waiting:
            await asyncio.sleep(0.01)
        for order in orders:
            await asyncio.wrap_future(order)
    await log.close()
    assert calls(tmp_path / "audit.db") == ["c1"] * (comes == "note")


# --- waking ---


async def test_waiters_of_one_loop_are_woken_together(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    desks = [LoopWaiters(loop, 5.0, bench.thread) for _ in range(2)]
    items = [QueuedRecord(NOON, FACTS, desks[number % 2], loop.create_future()) for number in range(6)]
    woken: list[tuple[Any, ...]] = []
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *call: woken.append(call))
    log_module._resolve_all([*items, QueuedRecord(NOON, FACTS, None, None)], True)
    assert [(call[1:], call[0].__self__) for call in woken] == [
        ((items[0::2], True), desks[0]),
        ((items[1::2], True), desks[1]),
    ]
