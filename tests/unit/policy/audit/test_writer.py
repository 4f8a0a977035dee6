"""Those who wait for a record: handed over together, and each let go in its own time."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.audit_logs import entries, make_audit, make_writer
from toolcrib.policy.audit import AuditLog
from toolcrib.policy.audit.log import MAX_GATHERED, LoopWaiters, QueuedRecord, WriterThread
from toolcrib.policy.audit.writer import RecordWriter

WAIT_S = 5.0


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

    def pass_by(self, seconds: float) -> None:
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
            self.waiters.add(QueuedRecord(entries(1)[0], self.waiters, future))
        return futures


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    loop = asyncio.new_event_loop()
    yield Room(make_writer(tmp_path / "audit.db"), loop, monkeypatch)
    loop.close()


async def test_that_a_record_is_late_is_known_before_it_can_be_written(tmp_path: Path) -> None:
    writer = make_writer(tmp_path / "audit.db")
    thread = WriterThread(writer)
    known = []

    class Queue(deque[QueuedRecord]):
        def extend(self, items: Iterable[QueuedRecord]) -> None:
            known.append(writer.gap.late)

    thread.queue = Queue()
    future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    thread.put(QueuedRecord(entries(1)[0], None, future), are_late=True)
    await asyncio.wrap_future(thread.request("close"))
    assert known == [1]


# --- handed over together ---


def test_what_comes_while_more_is_coming_is_handed_over_together(room: Room) -> None:
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
def test_enough_is_not_kept_for_more(room: Room, count: int, turns: int) -> None:
    assert MAX_GATHERED == 64
    room.take(count)
    for _ in range(turns):
        assert room.handed == []
        room.turns.turn()
    assert room.handed == [count]


# --- let go in time ---


def test_who_waits_is_let_go_when_the_time_is_over_and_not_before(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    (first,) = room.take()
    room.turns.pass_by(2)
    second, third = room.take(2)
    assert len(room.turns.timers) == 1  # one for all
    room.turns.pass_by(2.5)
    assert not first.done()
    assert not room.thread.is_failing
    room.turns.pass_by(0.5)
    assert first.result() is False
    assert room.thread.is_failing
    assert not second.done()
    room.turns.pass_by(2)
    assert (second.result(), third.result()) == (False, False)
    assert room.gap.late == 3
    assert room.turns.timers == []
    words = f"audit: cannot write records to {room.path}: the store did not respond in time"
    assert caplog.messages == [words]


def test_who_comes_when_nobody_waited_any_more_is_let_go_in_time_too(room: Room) -> None:
    for count in (1, 2):
        (future,) = room.take()
        room.turns.pass_by(WAIT_S)
        assert future.result() is False
        assert room.gap.late == count


def test_who_was_answered_is_not_late(room: Room) -> None:
    future = room.take()[0]
    room.waiters.resolve(list(room.waiters.gathered), True)
    room.turns.pass_by(WAIT_S)
    assert future.result() is True
    assert (room.gap.late, room.thread.is_failing, room.turns.timers) == (0, False, [])


@pytest.mark.parametrize(("gone", "late"), [((0,), 2), ((1,), 2), ((2,), 2), ((0, 1, 2), 0)])
def test_who_has_gone_away_is_not_late(room: Room, gone: tuple[int, ...], late: int) -> None:
    futures = room.take(3)
    for each in gone:
        futures[each].cancel()
    room.turns.pass_by(WAIT_S)
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


async def test_the_thread_rests_when_there_is_nothing_to_do(tmp_path: Path, logs: list[AuditLog]) -> None:
    log = make_audit(logs, tmp_path / "audit.db")
    await log.open()
    assert await log.commit({"id": "c1"})
    async with asyncio.timeout(2):
        while not log._thread._is_idle:
            await asyncio.sleep(0)
