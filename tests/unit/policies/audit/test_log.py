"""The log as calls see it: who waits, for how long, and what happens when the store fails."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.audited import STORES, read_lines, verify
from toolcrib.errors import ConfigurationError
from toolcrib.policies.audit import AuditLog, open_log, writer
from toolcrib.policy import Audit

BOTH = pytest.mark.parametrize("name", STORES)


@pytest.fixture
async def logs() -> AsyncIterator[list[AuditLog]]:
    opened: list[AuditLog] = []
    yield opened
    for log in opened:
        await log.close()


def make(logs: list[AuditLog], path: Path, **options: Any) -> AuditLog:
    log = AuditLog(Audit(path, **options), server="shop")
    logs.append(log)
    return log


async def committed(log: AuditLog, number: int) -> bool:
    return await log.commit({"id": f"c{number}"})


def calls(path: Path) -> list[str]:
    return [record["id"] for record in open_log(path).records() if record["kind"] == "call"]


def told(path: Path) -> list[tuple[int, int]]:
    gaps = [record for record in open_log(path).records() if record["kind"] == "gap"]
    return [(record["late"], record["lost"]) for record in gaps]


class Hold:
    """Another one who has the log to himself, and does not let go."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("BEGIN EXCLUSIVE")

    def let_go(self) -> None:
        self._db.execute("ROLLBACK")
        self._db.close()


# --- well ---


@BOTH
async def test_a_committed_record_is_in_the_file(tmp_path: Path, name: str, logs: list[AuditLog]) -> None:
    log = make(logs, tmp_path / name)
    await log.open()
    assert await committed(log, 1) is True
    assert calls(tmp_path / name) == ["c1"]
    assert (log.gaps, log.is_failing, log.records, log.waiting) == (0, False, 2, 0)


@BOTH
async def test_records_that_gather_are_written_together_in_their_order(
    tmp_path: Path, name: str, logs: list[AuditLog]
) -> None:
    log = make(logs, tmp_path / name)
    results = await asyncio.gather(*(committed(log, number) for number in range(3000)))
    assert results == [True] * 3000
    log.note({"id": "noted"})
    await log.close()
    assert calls(tmp_path / name) == [f"c{number}" for number in range(3000)] + ["noted"]
    assert verify(tmp_path / name).is_sound
    assert verify(tmp_path / name).proven_through == 3003


@BOTH
async def test_a_log_may_be_closed_twice_and_opened_again(
    tmp_path: Path, name: str, logs: list[AuditLog]
) -> None:
    log = make(logs, tmp_path / name)
    await log.close()
    assert not (tmp_path / name).exists()
    for _ in range(2):
        await log.open()
        await log.open()
        assert await committed(log, 1)
        await log.close()
        await log.close()
    kinds = [record["kind"] for record in open_log(tmp_path / name).records()]
    assert kinds == ["opened", "call", "closed"] * 2


@BOTH
async def test_several_loops_share_one_log(tmp_path: Path, name: str, logs: list[AuditLog]) -> None:
    log = make(logs, tmp_path / name)
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
    assert len(set(calls(tmp_path / name))) == 1200
    await log.close()
    assert verify(tmp_path / name).is_sound
    assert len(log._desks) <= 5


async def test_who_does_not_wait_any_more_is_no_trouble(tmp_path: Path, logs: list[AuditLog]) -> None:
    log = make(logs, tmp_path / "audit.db")
    waiting = [asyncio.ensure_future(log.commit({"id": f"c{number}"})) for number in range(5)]
    for each in waiting[:3]:
        each.cancel()
    assert await asyncio.gather(*waiting[3:]) == [True, True]
    assert calls(tmp_path / "audit.db") == ["c0", "c1", "c2", "c3", "c4"]
    assert log.gaps == 0


def test_a_loop_that_has_ended_is_no_trouble(tmp_path: Path) -> None:
    log = AuditLog(Audit(tmp_path / "audit.db"), server="shop")

    async def leave() -> None:
        log.commit({"id": "c1"})

    asyncio.run(leave())

    async def end() -> None:
        assert await committed(log, 2)
        await log.close()

    asyncio.run(end())
    assert calls(tmp_path / "audit.db") == ["c1", "c2"]


# --- of arguments ---


async def test_a_digest_is_of_the_key_and_of_what_the_arguments_mean(tmp_path: Path) -> None:
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


def test_a_digest_needs_no_key_that_can_be_used(tmp_path: Path) -> None:
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


@BOTH
async def test_damage_is_an_error_that_says_what_to_do(
    tmp_path: Path, name: str, logs: list[AuditLog]
) -> None:
    path = tmp_path / name
    log = make(logs, path)
    assert await committed(log, 1)
    await log.close()
    path.unlink()
    again = make(logs, path)
    with pytest.raises(ConfigurationError) as caught:
        await again.open()
    words = "the audit log is damaged: it ends before record 3, which a checkpoint has seen"
    assert caught.value.message == words
    assert caught.value.file == str(path)
    assert f"`toolcrib audit verify --file {path}`" in str(caught.value.hint)
    assert "accept_gap = true" in str(caught.value.hint)
    accepting = make(logs, path, accept_gap=True)
    await accepting.open()
    assert await committed(accepting, 2)


@BOTH
async def test_a_place_that_cannot_be_used_is_an_error(
    tmp_path: Path, name: str, logs: list[AuditLog]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="the key cannot be read: Not a directory"):
        await make(logs, tmp_path / "file" / name).open()
    key = tmp_path / "key"
    with pytest.raises(ConfigurationError, match="the audit log cannot be written: File exists"):
        await make(logs, tmp_path / "file" / name, key_file=key, checkpoints=tmp_path / "seals").open()
    (tmp_path / name).mkdir()
    with pytest.raises(ConfigurationError, match="the audit log cannot be written: Is a directory") as caught:
        await make(logs, tmp_path / name, key_file=key).open()
    assert caught.value.file == str(tmp_path / name)


async def test_a_key_that_cannot_be_used_is_an_error(tmp_path: Path, logs: list[AuditLog]) -> None:
    (tmp_path / "audit.db.key").write_text("short")
    (tmp_path / "audit.db.key").chmod(0o600)
    log = make(logs, tmp_path / "audit.db")
    with pytest.raises(ConfigurationError, match="too short"):
        await log.open()
    assert await committed(log, 1) is False  # whoever goes on regardless is told with every call
    assert log.is_failing


# --- a store that fails ---


async def test_a_store_that_does_not_come_back_keeps_nobody(
    tmp_path: Path, logs: list[AuditLog], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.db"
    log = make(logs, path, wait_s=0.2)
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
    assert said[0][1].startswith(f"audit: records cannot be written to {path}: ")
    assert said[1] == (logging.WARNING, "audit: records are written again; 3 came late, 0 are lost")


async def test_a_gap_says_since_when(tmp_path: Path, logs: list[AuditLog]) -> None:
    path = tmp_path / "audit.db"
    log = make(logs, path, wait_s=0.2)
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
    monkeypatch.setattr("toolcrib.policies.audit.log.MAX_QUEUE", 10)
    path = tmp_path / "audit.db"
    log = make(logs, path, wait_s=0.2)
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


async def test_what_cannot_be_written_when_it_is_closed_is_lost(
    tmp_path: Path, logs: list[AuditLog], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.db"
    log = make(logs, path, wait_s=0.2)
    await log.open()
    assert await committed(log, 0)
    hold = Hold(path)
    assert not await committed(log, 1)
    await log.close()
    assert (log.gaps, log.lost) == (2, 1)  # first late, then lost
    assert not log.is_failing
    hold.let_go()
    assert "audit: 1 records are lost, closed while they could not be written" in caplog.text
    assert await committed(log, 2)
    await log.close()
    assert calls(path) == ["c0", "c2"]
    assert told(path) == [(1, 0), (0, 1)]
    assert verify(path).is_sound


async def test_a_store_that_never_comes_back_does_not_keep_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.policies.audit.log.CLOSE_S", 0.02)
    path = tmp_path / "audit.db"
    log = AuditLog(Audit(path, wait_s=1), server="shop")
    await log.open()
    assert await committed(log, 0)
    hold = Hold(path)
    log.note({"id": "c1"})
    await log.close()  # comes back although the store has not
    hold.let_go()
    monkeypatch.undo()
    await log.close()
    assert calls(path) == ["c0", "c1"]


async def test_a_fault_of_our_own_is_a_failure_like_any_other(
    tmp_path: Path, logs: list[AuditLog], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = make(logs, tmp_path / "audit.db", wait_s=60)
    await log.open()
    with monkeypatch.context() as patch:
        patch.setattr("toolcrib.policies.audit.scribe.compose", lambda head, entries: 1 / 0)
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
    monkeypatch.setattr(writer, "FIRST_RETRY_S", 0.001)
    path = tmp_path / "audit.db"
    log = make(logs, path, wait_s=0.2)
    await log.open()
    assert await committed(log, 0)
    for number in range(3):
        hold = Hold(path)
        assert not await committed(log, number)
        hold.let_go()
        while log.is_failing:
            await asyncio.sleep(0)
    said = [record.getMessage() for record in caplog.records]
    assert [words.split(":")[1].split()[1] for words in said] == ["cannot", "are"]


@BOTH
async def test_opened_while_the_disk_is_full_it_writes_later(
    tmp_path: Path, name: str, logs: list[AuditLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make(logs, tmp_path / name)
    with monkeypatch.context() as patch:

        def refuse(*_: Any, **__: Any) -> Any:
            raise OSError(28, "No space left on device")

        patch.setattr("toolcrib.policies.audit.scribe.open_store", refuse)
        await log.open()
        assert log.is_failing
        assert await committed(log, 1) is False
    while log.is_failing:
        await asyncio.sleep(0)
    assert await committed(log, 2)
    assert calls(tmp_path / name) == ["c1", "c2"]
    assert len(read_lines(tmp_path / name)) == 4
    assert told(tmp_path / name) == [(1, 0)]
