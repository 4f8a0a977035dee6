"""The log as calls see it: who waits, and what is said of arguments."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.support.audit_logs import calls, committed, make_audit, verify
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Audit
from toolcrib.policy.audit import AuditLog, open_log

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
    assert verify(tmp_path / "audit.db").proven_through == 3003


async def test_a_checkpoint_comes_in_its_time_though_nobody_calls_any_more(
    tmp_path: Path, logs: list[AuditLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.writer.CHECKPOINT_S", 0.05)
    log = make_audit(logs, tmp_path / "audit.db")
    await log.open()
    assert await committed(log, 1)
    async with asyncio.timeout(5):
        while verify(tmp_path / "audit.db").proven_through < 2:
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
async def test_what_came_in_the_moment_before_the_end_is_written(
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


async def test_who_does_not_wait_any_more_is_no_trouble(tmp_path: Path, logs: list[AuditLog]) -> None:
    log = make_audit(logs, tmp_path / "audit.db")
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


async def test_damage_is_an_error_that_says_what_to_do(tmp_path: Path, logs: list[AuditLog]) -> None:
    path = tmp_path / "audit.db"
    log = make_audit(logs, path)
    assert await committed(log, 1)
    await log.close()
    path.unlink()
    again = make_audit(logs, path)
    with pytest.raises(ConfigurationError) as caught:
        await again.open()
    words = "the audit log is damaged: it ends before record 3, of which there is a checkpoint"
    assert caught.value.message == words
    assert (caught.value.file, caught.value.key) == (str(path), "audit.file")
    assert f"`toolcrib audit verify --file {path}`" in str(caught.value.hint)
    assert "accept_gap = true" in str(caught.value.hint)
    accepting = make_audit(logs, path, accept_gap=True)
    await accepting.open()
    assert await committed(accepting, 2)


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
    with pytest.raises(ConfigurationError, match="not an audit log: a device") as caught:
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
