"""A store that fails: nobody waits for it, what can be kept is kept, and all of it is counted."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.audit_logs import Hold, calls, committed, make_audit, make_log, read_lines, told, verify
from toolcrib.policy import Audit
from toolcrib.policy.audit import AuditLog, open_log
from toolcrib.policy.audit import log as log_module
from toolcrib.policy.audit.store import SQLiteStore


async def test_a_store_that_does_not_come_back_keeps_nobody(
    tmp_path: Path, logs: list[AuditLog], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.db"
    log = make_audit(logs, path, wait_s=0.2)
    await log.open()
    assert await committed(log, 0)
    hold = Hold(path)
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert await asyncio.gather(committed(log, 1), committed(log, 2)) == [False, False]
    assert 0.15 < loop.time() - started < 2
    assert log.is_failing
    started = loop.time()
    assert await committed(log, 3) is False
    assert loop.time() - started < 0.15  # no more waiting
    log.note({"id": "noted"})
    assert (log.gaps, log.waiting) == (3, 4)
    hold.let_go()
    while log.is_failing:
        await asyncio.sleep(0)
    assert await committed(log, 4)
    await log.close()
    assert calls(path) == ["c0", "c1", "c2", "c3", "noted", "c4"]
    assert told(path) == [(3, 0)]
    assert log.gaps == 3
    assert verify(path).is_sound
    said = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert len(said) == 2
    assert said[0][0] == logging.ERROR
    assert said[0][1].startswith(f"audit: cannot write records to {path}: ")
    assert said[1] == (logging.WARNING, "audit: records are written again; 3 were late, 0 are lost")


async def test_each_is_let_go_in_its_own_time_while_a_store_hangs(
    tmp_path: Path, logs: list[AuditLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.db"
    log = make_audit(logs, path, wait_s=0.4)
    await log.open()
    assert await committed(log, 0)
    loop = asyncio.get_running_loop()
    works_again = threading.Event()
    append = SQLiteStore.append

    def hang(*given: Any) -> None:
        works_again.wait(10)
        append(*given)

    with monkeypatch.context() as patch:
        patch.setattr(SQLiteStore, "append", hang)
        async with asyncio.timeout(3):
            began, first = loop.time(), log.commit({"id": "c1"})
            while loop.time() < began + 0.3:
                await asyncio.sleep(0)
            second = log.commit({"id": "c2"})
            assert await first is False
            assert await second is False
            assert loop.time() - began > 0.6
        works_again.set()
    await log.close()
    assert calls(path) == ["c0", "c1", "c2"]
    assert told(path) == [(2, 0)]


async def test_a_gap_says_since_when(tmp_path: Path, logs: list[AuditLog]) -> None:
    path = tmp_path / "audit.db"
    log = make_audit(logs, path, wait_s=0.2)
    await log.open()
    assert await committed(log, 0)
    hold = Hold(path)
    assert not await committed(log, 1)
    hold.let_go()
    await log.close()
    (gap,) = [record for record in open_log(path).records() if record["kind"] == "gap"]
    assert gap["since"] <= gap["at"]
    assert set(gap) == {"seq", "at", "kind", "since", "late", "lost", "hash"}


async def test_what_does_not_fit_is_lost_and_counted(
    tmp_path: Path, logs: list[AuditLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.log.MAX_QUEUE", 10)
    path = tmp_path / "audit.db"
    log = make_audit(logs, path, wait_s=0.2)
    await log.open()
    assert await committed(log, 0)
    hold = Hold(path)
    waiting = [log.commit({"id": f"c{number}"}) for number in range(1, 31)]
    assert not any(await asyncio.gather(*waiting))
    for number in range(31, 41):
        log.note({"id": f"c{number}"})
        assert not await committed(log, number)
    assert log.waiting == 10
    hold.let_go()
    await log.close()
    written = len(calls(path))
    late, lost = (sum(each) for each in zip(*told(path), strict=True))
    assert lost >= 20
    assert written + lost == 51
    assert log.gaps == late + lost
    assert verify(path).is_sound


async def test_nobody_waits_for_what_does_not_fit(
    tmp_path: Path, logs: list[AuditLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.log.MAX_QUEUE", 2)
    log = make_audit(logs, tmp_path / "audit.db", wait_s=30)
    await log.open()
    waiting = [log.commit({"id": f"c{number}"}) for number in range(3)]
    async with asyncio.timeout(10):
        assert await asyncio.gather(*waiting) == [True, True, False]
    assert (log.gaps, log.lost) == (1, 1)


async def test_what_cannot_be_written_when_it_is_closed_is_lost(
    tmp_path: Path, logs: list[AuditLog], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.db"
    log = make_audit(logs, path, wait_s=0.2)
    await log.open()
    assert await committed(log, 0)
    hold = Hold(path)
    assert not await committed(log, 1)
    await log.close()
    assert (log.gaps, log.lost) == (2, 1)  # first late, then lost
    assert not log.is_failing
    hold.let_go()
    assert "audit: 1 records are lost: the log was closed while it was failing" in caplog.text
    assert await committed(log, 2)
    await log.close()
    assert calls(path) == ["c0", "c2"]
    assert told(path) == [(1, 0), (0, 1)]
    assert verify(path).is_sound


async def test_a_store_that_never_comes_back_does_not_keep_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.log.CLOSE_S", 0.02)
    path = tmp_path / "audit.db"
    log = AuditLog(Audit(path, wait_s=1), server="shop")
    await log.open()
    assert await committed(log, 0)
    hold = Hold(path)
    log.note({"id": "c1"})
    await log.close()  # comes back although the store has not
    words = f"audit: 1 records are not written, and will be lost unless {path} works before the process ends"
    assert ("toolcrib", words) in [(record.name, record.getMessage()) for record in caplog.records]
    hold.let_go()
    monkeypatch.undo()
    await log.close()
    assert calls(path) == ["c0", "c1"]


async def test_a_fault_of_our_own_is_a_failure_like_any_other(
    tmp_path: Path, logs: list[AuditLog], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = make_audit(logs, tmp_path / "audit.db", wait_s=60)
    await log.open()
    with monkeypatch.context() as patch:
        patch.setattr("toolcrib.policy.audit.writer.chain_entries", lambda head, entries: 1 / 0)
        async with asyncio.timeout(20):  # told at once, not when the time is over
            assert await committed(log, 1) is False
        assert "division by zero" in caplog.text
    while log.is_failing:
        await asyncio.sleep(0)
    await log.close()
    assert calls(tmp_path / "audit.db") == ["c1"]


async def test_a_log_that_fails_again_and_again_says_so_once_a_minute(
    tmp_path: Path, logs: list[AuditLog], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_module, "FIRST_RETRY_S", 0.001)
    path = tmp_path / "audit.db"
    log = make_audit(logs, path, wait_s=0.2)
    await log.open()
    assert await committed(log, 0)
    for number in range(3):
        hold = Hold(path)
        assert not await committed(log, number)
        hold.let_go()
        while log.is_failing:
            await asyncio.sleep(0)
    said = [record.getMessage() for record in caplog.records]
    assert [words.split(":")[1].split()[1] for words in said] == ["write", "are"]


async def test_opened_while_the_disk_is_full_it_writes_later(
    tmp_path: Path, logs: list[AuditLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_audit(logs, tmp_path / "audit.db")
    with monkeypatch.context() as patch:

        def refuse(*_: Any, **__: Any) -> Any:
            raise OSError(28, "No space left on device")

        patch.setattr("toolcrib.policy.audit.writer.SQLiteStore", refuse)
        await log.open()
        assert log.is_failing
        assert await committed(log, 1) is False
    while log.is_failing:
        await asyncio.sleep(0)
    assert await committed(log, 2)
    assert calls(tmp_path / "audit.db") == ["c1", "c2"]
    assert len(read_lines(tmp_path / "audit.db")) == 4
    assert told(tmp_path / "audit.db") == [(1, 0)]


async def test_a_locked_file_keeps_nobody_from_starting(
    tmp_path: Path, logs: list[AuditLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "OPEN_S", 0.2)
    path = tmp_path / "audit.db"
    make_log(path, 0)
    log = make_audit(logs, path)
    hold = Hold(path)
    async with asyncio.timeout(3):
        await log.open()
        assert log.is_failing
        assert not await committed(log, 1)
    hold.let_go()
    for _ in range(200):
        if not log.is_failing and not log.waiting:
            break
        await asyncio.sleep(0.01)
    assert await committed(log, 2)
    assert calls(path) == ["c1", "c2"]
    assert told(path) == [(1, 0)]


async def test_damage_that_is_found_when_nobody_waits_any_more_is_told_in_our_words(
    tmp_path: Path,
    logs: list[AuditLog],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(log_module, "OPEN_S", 0.05)
    path = tmp_path / "audit.db"
    make_log(path, 3)
    log = make_audit(logs, path)
    hold = Hold(path)
    await log.open()
    hold.damage()
    assert not await committed(log, 1)
    await log.close()
    gc.collect()  # a failure that nobody has looked at is told of when it goes
    assert {record.name for record in caplog.records} == {"toolcrib"}
    assert set(read_lines(path)) == {b"damage"}


async def test_whether_records_can_be_written_is_known_or_tried(tmp_path: Path, logs: list[AuditLog]) -> None:
    path = tmp_path / "audit.db"
    log = make_audit(logs, path, wait_s=0.05)
    await log.open()
    hold = Hold(path)
    assert not log.is_failing
    assert await log.prove() is False
    assert log.is_failing
    assert await log.prove() is False  # which is known
    hold.let_go()
    while log.is_failing:
        await asyncio.sleep(0)
    assert [await log.prove() for _ in range(5)] == [True] * 5
    await log.close()
    kinds = [record["kind"] for record in open_log(path).records()]
    assert kinds.count("probe") == 1
    assert told(path) == [(1, 0)]


async def test_what_was_written_longer_ago_than_a_second_says_nothing_of_now(
    tmp_path: Path, logs: list[AuditLog]
) -> None:
    path = tmp_path / "audit.db"
    log = make_audit(logs, path)
    assert await committed(log, 1)
    log._thread.written_at -= 1.5
    assert await log.prove()
    assert [record["kind"] for record in open_log(path).records()] == ["opened", "call", "probe"]
