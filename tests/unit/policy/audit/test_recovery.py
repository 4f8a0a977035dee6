"""Recovery: damage is refused, accepted, or continued after, and a removed file is noticed."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sqlite3
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.records.audit_logs import (
    ManualClocks,
    entries,
    kinds,
    make_log,
    make_writer,
    read_lines,
    records,
    refusal,
    replace_lines,
    restamp,
    seals,
    verify,
)
from tests.support.records.audit_logs import restamp as stamp_anew
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Audit
from toolcrib.policy.audit import AuditLog, open_log
from toolcrib.policy.audit.checkpoints import CheckpointFile, CheckpointLines
from toolcrib.policy.audit.log import _ignore_result
from toolcrib.policy.audit.record import GENESIS, TAIL
from toolcrib.policy.audit.store import DamagedError
from toolcrib.policy.audit.writer import NO_CHECKPOINT, RETENTION_S

# --- a crash ---


def test_a_log_that_was_never_closed_opens_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 25, is_closed=False)
    assert verify(path).is_sound
    assert verify(path).proven_through == 0
    make_log(path, 1)
    assert verify(path).is_sound
    assert verify(path).proven_through == verify(path).last_seq == 29


def test_half_a_checkpoint_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 5)
    whole = seals(path).read_bytes()
    seals(path).write_bytes(whole + whole[:40])
    assert verify(path).is_sound
    make_log(path, 1)
    assert verify(path).is_sound
    assert seals(path).read_bytes().startswith(whole)
    assert seals(path).read_bytes().count(b"\n") == whole.count(b"\n") + 1


def test_half_of_the_only_checkpoint_is_cut_too(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    seals(path).write_bytes(b'{"kind":"check')
    path.with_name("audit.db.key").write_text("k" * 40)
    path.with_name("audit.db.key").chmod(0o600)
    make_log(path, 1)
    assert verify(path).is_sound


# --- damage ---


def edit(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b'"c4"', b'"d4"') for line in lines]


DAMAGE = {
    "edited": (edit, 5),
    "deleted": (lambda lines: [*lines[:4], *lines[5:]], 5),
    "swapped": (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], 5),
    "doubled": (lambda lines: [*lines[:5], *lines[4:]], 6),
    "garbage": (lambda lines: [*lines[:4], b"garbage", *lines[5:]], 5),
    "garbage at the end": (lambda lines: [*lines, b"garbage"], 12),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_in_the_middle_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10, is_closed=False)  # 11 records that no checkpoint has seen
    change, place = DAMAGE[kind]
    replace_lines(path, change(read_lines(path)))
    before = read_lines(path)
    error = refusal(path)
    assert error.seq == place
    assert str(error).startswith(f"record {place} ")
    assert read_lines(path) == before
    assert not verify(path).is_sound


def test_a_truncated_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    replace_lines(path, read_lines(path)[:7])
    error = refusal(path)
    assert str(error) == verify(path).problems[0].words == "records 8 to 12 are missing at the end"
    assert error.seq == 8
    assert kinds(path) == ["truncated"]


def test_an_emptied_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    path.unlink()
    error = refusal(path)
    assert str(error) == "records 1 to 12 are missing at the end"
    assert error.seq == 1


def test_a_recomputed_chain_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    replace_lines(path, restamp(edit(read_lines(path))))
    error = refusal(path)
    assert str(error) == "record 12 does not match its checkpoint"
    assert error.seq == 12
    assert kinds(path) == ["restamped"]


def test_a_log_without_its_checkpoints_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    seals(path).unlink()
    error = refusal(path)
    assert str(error) == "there are records, but no checkpoint of them that was sealed with this key"
    assert error.seq == 1
    assert kinds(path) == ["unsealed"]


def test_checkpoints_of_another_key_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    path.with_name("audit.db.key").write_text("another key that is long enough to be one\n")
    error = refusal(path)
    assert str(error) == "its checkpoints were changed, or sealed with another key"
    assert kinds(path) == ["forged", "forged", "unsealed"]


def test_a_log_that_was_moved_away_with_its_checkpoints_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    path.unlink()
    path.with_name("audit.db.key").write_text("another key that is long enough to be one\n")
    assert str(refusal(path)) == "its checkpoints were changed, or sealed with another key"
    path.unlink()
    seals(path).unlink()
    make_log(path, 1)
    assert [record["seq"] for record in records(path)] == [1, 2, 3]


@pytest.mark.parametrize("kind", [kind for kind in DAMAGE if kind != "garbage at the end"])
def test_a_short_log_that_was_changed_after_closing_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)  # the last of them is sealed
    change, _ = DAMAGE[kind]
    replace_lines(path, change(read_lines(path)))
    before = read_lines(path)
    refusal(path)
    assert read_lines(path) == before


def test_recovery_of_a_long_log_looks_at_what_came_after_the_last_checkpoint_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.writer.FULL_CHECK_RECORDS", 31)
    path = tmp_path / "audit.db"
    make_log(path, 30)  # 32 records
    replace_lines(path, edit(read_lines(path)))
    make_log(path, 1)  # opens: that takes no time, however long the log is
    assert kinds(path) == ["edited"]
    assert verify(path).problems[0].seq == 5


def test_a_log_is_short_when_few_records_are_left_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.writer.FULL_CHECK_RECORDS", 1500)
    path, clocks = tmp_path / "audit.db", ManualClocks()
    writer = make_writer(path, clocks, keep_records=1000)
    writer.write(entries(3000))
    clocks.advance(60)
    writer.run_maintenance()
    writer.close()
    assert verify(path).records < 1500 < verify(path).first_seq
    replace_lines(path, [line.replace(b'"c2500"', b'"d2500"') for line in read_lines(path)])
    assert str(refusal(path)).startswith("record 2501 does not match the one before it")


@pytest.mark.parametrize("count", [998, 999])
def test_a_log_with_many_unsealed_records_is_sealed_when_opened(tmp_path: Path, count: int) -> None:
    path = tmp_path / "audit.db"
    make_log(path, count, batch=count, is_closed=False)  # and the word that it was opened
    writer = make_writer(path)
    writer.open()
    writer.release()
    assert verify(path).proven_through == (1000 if count == 999 else 0)
    assert verify(path).is_sound


def test_the_checkpoints_may_be_kept_elsewhere(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "audit.db", tmp_path / "safe" / "seals"
    key = tmp_path / "safe" / "key"
    make_log(path, 3, checkpoints=elsewhere, key_file=key)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["audit.db", "safe"]
    assert open_log(path, key, elsewhere).verify().proven_through == 5
    verdict = open_log(path).verify()
    assert (verdict.is_sound, verdict.is_keyed, verdict.checkpoints_checked) == (True, False, 0)


def test_a_checkpoint_says_what_the_log_was(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    clocks = ManualClocks()
    writer = make_writer(path, clocks)
    writer.write(entries(3))
    clocks.advance(5)
    writer.close()
    first, last = [json.loads(line) for line in seals(path).read_bytes().splitlines()]
    assert len(first.pop("mac")) == len(last.pop("mac")) == 64
    assert first == {
        "kind": "checkpoint",
        "seq": 0,
        "hash": "0" * 64,
        "count": 0,
        "at": "2026-05-04T10:00:00.000Z",
        "clock": 1_777_888_800,
    }
    assert last == {
        "kind": "checkpoint",
        "seq": 5,
        "hash": verify(path).head,
        "count": 5,
        "at": "2026-05-04T10:00:05.000Z",
        "clock": 1_777_888_805,
    }


def change(path: Path, seq: int) -> None:
    """One record says something else, with its hash as it was."""
    lines = read_lines(path)
    lines[seq - 1] = lines[seq - 1].replace(b'"at":"2026', b'"at":"2025')
    replace_lines(path, lines)


def test_the_remaining_record_of_a_truncated_log_is_good(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    replace_lines(path, read_lines(path)[:1])
    assert refusal(path).seq == 2


def test_a_log_with_a_broken_end_and_no_checkpoints_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    seals(path).unlink()
    replace_lines(path, [*read_lines(path), b"garbage"])
    for _ in range(2):
        error = refusal(path)
        assert (str(error), error.seq) == (NO_CHECKPOINT, 1)


def test_records_that_another_process_removes_while_a_log_is_opened_are_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    theirs = make_writer(path, clocks, keep_records=1_000)
    theirs.write(entries(3_000))
    clocks.advance(RETENTION_S + 1)
    ours = make_writer(path, clocks)
    read = CheckpointFile.read

    def interrupted(file: CheckpointFile, *, is_recent: bool = False) -> CheckpointLines:
        found = read(file, is_recent=is_recent)
        if not is_recent:
            monkeypatch.setattr(CheckpointFile, "read", read)
            theirs.run_maintenance()
        return found

    monkeypatch.setattr(CheckpointFile, "read", interrupted)
    ours.open()
    assert (verify(path).pruned_before or 0) > 1_000
    ours.close()
    theirs.close()
    assert verify(path).is_sound


def test_a_log_that_is_replaced_while_it_is_written_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path)
    writer.start()
    writer.write(entries(5))
    for each in (path, path.with_name("audit.db-wal"), path.with_name("audit.db-shm")):
        if each.exists():
            each.rename(each.with_name(f"old-{each.name}"))
    with pytest.raises((DamagedError, FileNotFoundError)):
        writer.write(entries(1, start=6))
    other = tmp_path / "other" / "audit.db"
    make_log(other, 2)
    path.write_bytes(other.read_bytes())
    with pytest.raises(DamagedError):
        writer.write(entries(1, start=6))
    writer.release()


def test_another_file_in_the_place_of_a_database_is_noticed(tmp_path: Path) -> None:
    path, other = tmp_path / "audit.db", tmp_path / "other.db"
    writer = make_writer(path)
    writer.write(entries(5))
    make_log(other, 2)
    other.replace(path)
    with pytest.raises(DamagedError, match=r"^the log file was replaced by another file$"):
        writer.write(entries(1, start=6))


def test_a_file_that_became_shorter_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path)
    writer.write(entries(5))
    replace_lines(path, read_lines(path)[:-2])
    with pytest.raises(DamagedError, match="record 6 was changed or removed") as caught:
        writer.write(entries(1, start=6))
    assert caught.value.seq == 6


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    path.write_bytes(b"not a database, but quite long, and nothing else either" * 100)
    path.with_name("audit.db.key").write_text("k" * 40)
    path.with_name("audit.db.key").chmod(0o600)
    assert "SQLite: " in str(refusal(path))
    with pytest.raises(ConfigurationError, match="not an audit log: file is not a database"):
        open_log(path).verify()


@pytest.mark.parametrize(
    "change", ["UPDATE record SET line = 5 WHERE seq = 11", "UPDATE record SET seq = 99 WHERE seq = 11"]
)
def test_an_invalid_last_row_is_refused(tmp_path: Path, change: str) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10, is_closed=False)
    with sqlite3.connect(path) as db:
        db.execute(change)
    db.close()
    assert refusal(path).seq == 11
    assert not verify(path).is_sound


@pytest.mark.parametrize("seq", [0, -5, -(2**63)])
def test_a_row_before_the_first_is_found(tmp_path: Path, seq: int) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 3)
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO record VALUES (?, 'x')", (seq,))
    db.close()
    assert "unreadable" in kinds(path)


Change = Callable[[list[bytes]], list[bytes]]


def restamp_altered(lines: list[bytes]) -> list[bytes]:
    """Another name in a record, and hashes that fit."""
    made, previous = [], GENESIS
    for line in lines:
        body = line[:-TAIL].replace(b"evil", b"innocent")
        previous = sha256(previous + body).hexdigest().encode()
        made.append(b'%b,"hash":"%b"}' % (body, previous))
    return made


def rewrite(path: Path, change: Change) -> None:
    db = sqlite3.connect(path)
    lines = change([row[0].encode() for row in db.execute("SELECT line FROM record ORDER BY seq")])
    db.execute("DELETE FROM record")
    db.executemany(
        "INSERT INTO record VALUES (?, ?)", [(n, line.decode()) for n, line in enumerate(lines, 1)]
    )
    db.commit()
    db.close()


@pytest.mark.parametrize("change", [restamp_altered, lambda lines: lines[:-1]], ids=["restamped", "cut"])
@pytest.mark.parametrize("others", [False, True], ids=["alone", "with another"])
async def test_a_server_notices_when_its_records_are_changed(
    tmp_path: Path, change: Change, others: bool
) -> None:
    path = tmp_path / "audit.db"
    log = AuditLog(Audit(path), server="shop")
    await log.open()
    assert await log.commit({"tool": "plain"})
    assert await log.commit({"tool": "evil"})
    rewrite(path, change)
    if others:  # a process that knows nothing of it goes on behind what it finds
        second = AuditLog(Audit(path), server="shop")
        await second.open()
        await second.commit({"tool": "other"})
        await second.commit({"tool": "other"})
        await second.close()
    assert not await log.commit({"tool": "later"})
    assert log.is_failing
    await log.close()
    assert not open_log(path).verify().is_sound


def test_nothing_is_written_after_an_invalid_row(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path)
    writer.write(entries(3))
    rewrite(path, lambda lines: [*lines, b"garbage"])
    with pytest.raises(DamagedError, match=r"^the last row is not a record"):
        writer.write(entries(1, start=4))
    writer.release()


@pytest.mark.parametrize("others", [0, 1])
def test_a_log_that_was_changed_from_its_first_record_on_is_refused(tmp_path: Path, others: int) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path)
    writer.write(())
    if others:
        make_log(path, others)
    replace_lines(path, stamp_anew([line.replace(b"shop", b"the shop") for line in read_lines(path)]))
    with pytest.raises(DamagedError, match="record 1 was changed or removed"):
        writer.write(entries(1))
    writer.release()
    assert not open_log(path).verify().is_sound


def test_what_is_sealed_already_is_not_sealed_again(tmp_path: Path) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    writer = make_writer(path, clocks)
    writer.write(entries(3))
    clocks.advance(3600)
    writer.run_maintenance()
    before = seals(path).read_bytes()
    replace_lines(path, read_lines(path)[:-1])
    with pytest.raises(DamagedError, match="removed"):
        writer.write(entries(1, 4))
    assert seals(path).read_bytes() == before != b""


def test_a_failing_checkpoint_is_logged_besides_the_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path)
    writer.write(entries(3))
    seals(path).unlink(missing_ok=True)
    seals(path).mkdir()
    replace_lines(path, read_lines(path)[:-1])
    with caplog.at_level(logging.WARNING, "toolcrib"), pytest.raises(DamagedError):
        writer.write(entries(1, 4))
    words = f"audit: cannot write a checkpoint to {seals(path)}: "
    assert [said.startswith(words) for said in caplog.messages] == [True]


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_the_result_of_a_slow_opening_is_ignored(is_cancelled: bool) -> None:
    loop = asyncio.get_running_loop()
    complaints: list[object] = []
    loop.set_exception_handler(lambda _, complaint: complaints.append(complaint))
    opened: asyncio.Future[None] = loop.create_future()
    opened.add_done_callback(_ignore_result)
    if is_cancelled:
        opened.cancel()
    else:
        opened.set_exception(DamagedError("it is damaged"))
    await asyncio.sleep(0)
    del opened  # a failure that nobody has looked at is told now
    gc.collect()
    assert complaints == []
