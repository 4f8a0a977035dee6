"""AuditLog: commits, outages, several event loops."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.audit_logs import (
    Hold,
    calls,
    committed,
    gap_counts,
    make_audit,
    make_log,
    read_lines,
    sealed,
    verify,
)
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Audit
from toolcrib.policy.audit import AuditLog, open_log
from toolcrib.policy.audit import log as log_module
from toolcrib.state.base import Head, Page, Query, Record
from toolcrib.state.sqlite.audit import SQLiteAudit

# --- well ---


async def test_a_committed_record_is_in_the_file(tmp_path: Path, logs: list[AuditLog]) -> None:
    log = make_audit(logs, tmp_path / "audit.db")
    await log.open()
    assert await committed(log, 1) is True
    assert calls(tmp_path / "audit.db") == ["c1"]
    assert (log.gaps, log.is_failing, log.records, log.waiting) == (0, False, 2, 0)


async def test_records_that_gather_are_written_together_in_their_order(
    tmp_path: Path, logs: list[AuditLog]
) -> None:
    log = make_audit(logs, tmp_path / "audit.db")
    results = await asyncio.gather(*(committed(log, number) for number in range(3000)))
    assert results == [True] * 3000
    log.note({"id": "noted"})
    await log.close()
    assert calls(tmp_path / "audit.db") == [f"c{number}" for number in range(3000)] + ["noted"]
    assert verify(tmp_path / "audit.db").is_sound
    assert verify(tmp_path / "audit.db").unsealed == 0


async def test_an_idle_log_is_sealed_in_time(
    tmp_path: Path, logs: list[AuditLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.writer.CHECKPOINT_S", 0.05)
    log = make_audit(logs, tmp_path / "audit.db")
    await log.open()
    assert await committed(log, 1)
    async with asyncio.timeout(5):
        while verify(tmp_path / "audit.db").unsealed:
            await asyncio.sleep(0.01)


async def test_a_log_may_be_closed_twice_and_opened_again(tmp_path: Path, logs: list[AuditLog]) -> None:
    log = make_audit(logs, tmp_path / "audit.db")
    await log.close()
    assert not (tmp_path / "audit.db").exists()
    for _ in range(2):
        await log.open()
        await log.open()
        assert await committed(log, 1)
        await log.close()
        await log.close()
    kinds = [record["kind"] for record in open_log(tmp_path / "audit.db").records()]
    assert kinds == ["opened", "call", "closed"] * 2


@pytest.mark.parametrize("is_open", [True, False])
async def test_records_that_arrive_just_before_closing_are_written(
    tmp_path: Path, is_open: bool, logs: list[AuditLog]
) -> None:
    log = make_audit(logs, tmp_path / "audit.db")
    if is_open:
        await log.open()
    waiting = log.commit({"id": "c1"})
    await log.close()
    kinds = [record["kind"] for record in open_log(tmp_path / "audit.db").records()]
    assert kinds == ["opened", "call", "closed"]
    assert await waiting


async def test_several_loops_share_one_log(tmp_path: Path, logs: list[AuditLog]) -> None:
    log = make_audit(logs, tmp_path / "audit.db")
    results: list[bool] = []

    async def work(start: int) -> None:
        results.extend(await asyncio.gather(*(committed(log, start + number) for number in range(200))))

    def run(start: int) -> None:
        asyncio.run(work(start))

    threads = [threading.Thread(target=run, args=(start * 1000,)) for start in range(4)]
    for thread in threads:
        thread.start()
    await work(9000)
    for thread in threads:
        await asyncio.to_thread(thread.join)
    await work(10_000)
    assert results == [True] * 1200
    assert len(set(calls(tmp_path / "audit.db"))) == 1200
    await log.close()
    assert verify(tmp_path / "audit.db").is_sound
    assert len(log._waiters_by_loop) <= 5


async def test_a_cancelled_waiter_does_no_harm(tmp_path: Path, logs: list[AuditLog]) -> None:
    log = make_audit(logs, tmp_path / "audit.db")
    waiting = [asyncio.ensure_future(log.commit({"id": f"c{number}"})) for number in range(5)]
    for each in waiting[:3]:
        each.cancel()
    assert await asyncio.gather(*waiting[3:]) == [True, True]
    assert calls(tmp_path / "audit.db") == ["c0", "c1", "c2", "c3", "c4"]
    assert log.gaps == 0


def test_a_closed_loop_does_no_harm(tmp_path: Path) -> None:
    log = AuditLog(Audit(tmp_path / "audit.db"), server="shop")

    async def leave() -> None:
        log.commit({"id": "c1"})

    asyncio.run(leave())

    async def end() -> None:
        assert await committed(log, 2)
        await log.close()

    asyncio.run(end())
    assert calls(tmp_path / "audit.db") == ["c1", "c2"]


def test_a_loop_that_has_ended_is_forgotten(tmp_path: Path) -> None:
    log = AuditLog(Audit(tmp_path / "audit.db"), server="shop")
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def work() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        assert await committed(log, len(loops))

    for _ in range(3):
        asyncio.run(work())
    asyncio.run(log.close())
    gc.collect()
    assert [loop() for loop in loops[:2]] == [None, None]


# --- of arguments ---


async def test_a_digest_depends_on_the_key_and_the_meaning_of_arguments(tmp_path: Path) -> None:
    log = AuditLog(Audit(tmp_path / "audit.db"), server="shop")
    digest, size = log.digest({"b": 1, "a": "é"})
    assert len(bytes.fromhex(digest)) == 16
    assert size == len('{"a":"é","b":1}'.encode())
    assert log.digest({"a": "é", "b": 1}) == (digest, size)
    assert log.digest({"a": "é", "b": 2})[0] != digest
    assert log.digest(None) == log.digest({})
    assert log.digest(None)[1] == 2
    other = AuditLog(Audit(tmp_path / "other.db"), server="shop")
    assert other.digest({"a": "é", "b": 1})[0] != digest
    same = AuditLog(Audit(tmp_path / "audit.db"), server="shop")
    assert same.digest({"a": "é", "b": 1}) == (digest, size)


def test_a_digest_never_raises(tmp_path: Path) -> None:
    log = AuditLog(Audit(tmp_path / "audit.db"), server="shop")
    loop: dict[str, Any] = {}
    loop["self"] = loop
    odd: list[Any] = [{"a": object()}, {"a": "\ud800"}, {"a": 1 << 9999}, loop, {1: 2, "x": {3, 4}}]
    digests = [log.digest(each) for each in odd]
    assert len({digest for digest, _ in digests}) == 5
    assert log.digest({"a": object()}) == digests[0]


def test_a_digest_works_without_a_usable_key(tmp_path: Path) -> None:
    (tmp_path / "audit.db.key").write_text("short")
    log = AuditLog(Audit(tmp_path / "audit.db"), server="shop")
    assert len(log.digest({})[0]) == 32
    assert log.digest({})[0] != log.digest({})[0]  # nobody's


def test_values_are_recorded_where_that_is_wanted(tmp_path: Path) -> None:
    log = AuditLog(Audit(tmp_path / "a.db", values=["*"], redact=["street"]), server="shop")
    assert log.values_of({"a": 1, "street": "x", "token": "y"}) == {
        "a": 1,
        "street": "[redacted]",
        "token": "[redacted]",
    }
    assert log.values_of(None) is None
    assert AuditLog(Audit(tmp_path / "a.db"), server="shop").values_of({"a": 1}) is None


# --- what is wrong from the start ---


async def test_damage_is_an_error_that_says_what_to_do(tmp_path: Path, logs: list[AuditLog]) -> None:
    path = tmp_path / "audit.db"
    log = make_audit(logs, path)
    assert await committed(log, 1)
    await log.close()
    path.unlink()
    again = make_audit(logs, path)
    with pytest.raises(ConfigurationError) as caught:
        await again.open()
    [stream] = sealed(path)[-1].heads
    words = f"the audit log is damaged: records 1 to 3 of stream {stream} are missing at the end"
    assert caught.value.message == words
    assert (caught.value.file, caught.value.key) == (str(path), "audit.file")
    assert f"`toolcrib audit verify --file {path}`" in str(caught.value.hint)
    assert "to begin a new log, move this one and its checkpoints away" in str(caught.value.hint)


async def test_a_place_that_cannot_be_used_is_an_error(tmp_path: Path, logs: list[AuditLog]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot write the audit log: Not a directory"):
        await make_audit(logs, tmp_path / "file" / "audit.db").open()
    key = tmp_path / "key"
    with pytest.raises(ConfigurationError, match="cannot write the audit log: Not a directory"):
        await make_audit(
            logs, tmp_path / "file" / "audit.db", key_file=key, checkpoints=tmp_path / "seals"
        ).open()
    (tmp_path / "audit.db").mkdir()
    with pytest.raises(ConfigurationError, match="cannot write the audit log: Is a directory") as caught:
        await make_audit(logs, tmp_path / "audit.db", key_file=key).open()
    assert (caught.value.file, caught.value.key) == (str(tmp_path / "audit.db"), "audit.file")
    assert caught.value.hint == f'name a file in it: "{tmp_path / "audit.db"}/audit.db"'


async def test_a_database_is_not_kept_on_a_device(tmp_path: Path, logs: list[AuditLog]) -> None:
    (tmp_path / "audit.db").symlink_to(os.devnull)
    with pytest.raises(ConfigurationError, match="not an audit log: it is a device") as caught:
        await make_audit(logs, tmp_path / "audit.db").open()
    assert (caught.value.file, caught.value.key) == (str(tmp_path / "audit.db"), "audit.file")
    assert str(caught.value.hint).startswith("name a file that does not exist yet")


async def test_a_key_that_cannot_be_used_is_an_error(tmp_path: Path, logs: list[AuditLog]) -> None:
    (tmp_path / "audit.db.key").write_text("short")
    (tmp_path / "audit.db.key").chmod(0o600)
    log = make_audit(logs, tmp_path / "audit.db")
    with pytest.raises(ConfigurationError, match="too short"):
        await log.open()
    assert await committed(log, 1) is False  # whoever goes on regardless is told with every call
    assert log.is_failing


async def test_replies_do_not_wait_for_a_store_that_hangs(
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
    hold.release()
    while log.is_failing:
        await asyncio.sleep(0)
    assert await committed(log, 4)
    await log.close()
    assert calls(path) == ["c0", "c1", "c2", "c3", "noted", "c4"]
    assert gap_counts(path) == [(3, 0)]
    assert log.gaps == 3
    assert verify(path).is_sound
    said = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert len(said) == 2
    assert said[0][0] == logging.ERROR
    assert said[0][1].startswith(f"audit: cannot write records to {path}: ")
    assert said[1] == (logging.WARNING, "audit: records are written again; 3 were late, 0 are lost")


async def test_every_reply_has_its_own_wait_time_while_a_store_hangs(
    tmp_path: Path, logs: list[AuditLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.db"
    log = make_audit(logs, path, wait_s=0.4)
    await log.open()
    assert await committed(log, 0)
    loop = asyncio.get_running_loop()
    works_again = threading.Event()
    append = SQLiteAudit.append

    async def hang(*given: Any) -> None:
        works_again.wait(10)
        await append(*given)

    with monkeypatch.context() as patch:
        patch.setattr(SQLiteAudit, "append", hang)
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
    assert gap_counts(path) == [(2, 0)]


async def test_a_gap_record_says_when_the_gap_began(tmp_path: Path, logs: list[AuditLog]) -> None:
    path = tmp_path / "audit.db"
    log = make_audit(logs, path, wait_s=0.2)
    await log.open()
    assert await committed(log, 0)
    hold = Hold(path)
    assert not await committed(log, 1)
    hold.release()
    await log.close()
    (gap,) = [record for record in open_log(path).records() if record["kind"] == "gap"]
    assert gap["since"] <= gap["at"]
    assert set(gap) == {"seq", "stream", "at", "kind", "since", "late", "lost", "hash"}


async def test_records_beyond_the_queue_are_lost_and_counted(
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
    hold.release()
    await log.close()
    written = len(calls(path))
    late, lost = (sum(each) for each in zip(*gap_counts(path), strict=True))
    assert lost >= 20
    assert written + lost == 51
    assert log.gaps == late + lost
    assert verify(path).is_sound


async def test_replies_do_not_wait_for_lost_records(
    tmp_path: Path, logs: list[AuditLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.log.MAX_QUEUE", 2)
    log = make_audit(logs, tmp_path / "audit.db", wait_s=30)
    await log.open()
    waiting = [log.commit({"id": f"c{number}"}) for number in range(3)]
    async with asyncio.timeout(10):
        assert await asyncio.gather(*waiting) == [True, True, False]
    assert (log.gaps, log.lost) == (1, 1)


async def test_records_that_cannot_be_written_at_closing_are_lost(
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
    hold.release()
    assert "audit: 1 records are lost: the log was closed while it was failing" in caplog.text
    assert await committed(log, 2)
    await log.close()
    assert calls(path) == ["c0", "c2"]
    assert gap_counts(path) == [(1, 1)]
    assert verify(path).is_sound


async def test_closing_gives_up_on_a_store_that_hangs(
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
    hold.release()
    monkeypatch.undo()
    await log.close()
    assert calls(path) == ["c0", "c1"]


async def test_a_bug_in_the_writer_is_a_failure_like_any_other(
    tmp_path: Path, logs: list[AuditLog], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = make_audit(logs, tmp_path / "audit.db", wait_s=60)
    await log.open()
    with monkeypatch.context() as patch:
        patch.setattr("toolcrib.policy.audit.writer.chain_entries", lambda *_: 1 / 0)
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
        hold.release()
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

        patch.setattr(SQLiteAudit, "open", refuse)
        await log.open()
        assert log.is_failing
        assert await committed(log, 1) is False
    while log.is_failing:
        await asyncio.sleep(0)
    assert await committed(log, 2)
    assert calls(tmp_path / "audit.db") == ["c1", "c2"]
    assert len(read_lines(tmp_path / "audit.db")) == 4
    assert gap_counts(tmp_path / "audit.db") == [(1, 0)]


async def test_a_locked_file_does_not_prevent_a_start(
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
    hold.release()
    for _ in range(200):
        if not log.is_failing and not log.waiting:
            break
        await asyncio.sleep(0.01)
    assert await committed(log, 2)
    assert calls(path) == ["c1", "c2"]
    assert gap_counts(path) == [(1, 0)]


async def test_damage_found_after_a_slow_start_is_logged(
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
    hold.release()
    while log.is_failing:
        await asyncio.sleep(0)
    assert [await log.prove() for _ in range(5)] == [True] * 5
    await log.close()
    kinds = [record["kind"] for record in open_log(path).records()]
    assert kinds.count("probe") == 1
    assert gap_counts(path) == [(1, 0)]


async def test_a_record_older_than_a_second_proves_nothing(tmp_path: Path, logs: list[AuditLog]) -> None:
    path = tmp_path / "audit.db"
    log = make_audit(logs, path)
    assert await committed(log, 1)
    log._thread.written_at -= 1.5
    assert await log.prove()
    assert [record["kind"] for record in open_log(path).records()] == ["opened", "call", "probe"]


# --- another store than a file ---


class SlowStore:
    """A store on a server, whose answers are waited for."""

    def __init__(self, path: Path) -> None:
        self.file = SQLiteAudit(path)

    async def append(self, stream: str, records: Sequence[Record]) -> None:
        await asyncio.sleep(0.001)
        await self.file.append(stream, records)

    async def heads(self, before_ms: int | None = None) -> Mapping[str, Head]:
        await asyncio.sleep(0)
        return await self.file.heads(before_ms)

    async def lines(self, stream: str, after: int) -> AsyncGenerator[Record, None]:
        async for record in self.file.lines(stream, after):
            await asyncio.sleep(0)
            yield record

    async def find(self, query: Query, *, before: str | None = None, limit: int = 100) -> Page:
        return await self.file.find(query, before=before, limit=limit)

    async def remove_through(self, ends: Mapping[str, int]) -> int:
        await asyncio.sleep(0)
        return await self.file.remove_through(ends)


async def test_records_may_be_in_another_store_than_a_file(tmp_path: Path) -> None:
    options = Audit(tmp_path / "audit.db")
    for start in (0, 100):
        log = AuditLog(options, server="shop", store=SlowStore(tmp_path / "audit.db"))
        await log.open()
        assert all(await asyncio.gather(*(committed(log, start + number) for number in range(100))))
        await log.close()
    assert sorted(calls(tmp_path / "audit.db")) == sorted(f"c{number}" for number in range(200))
    verdict = verify(tmp_path / "audit.db")
    assert (verdict.is_sound, verdict.streams, verdict.unsealed) == (True, 2, 0)
