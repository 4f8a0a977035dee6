"""A log that somebody else changes while it is written: no record goes behind that, and no seal covers it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.audit_logs import Hands, entries, make_log, make_writer, read_lines, replace_lines
from tests.support.audit_logs import restamp as stamp_anew
from toolcrib.policy import Audit
from toolcrib.policy.audit import AuditLog, open_log
from toolcrib.policy.audit.record import GENESIS, TAIL
from toolcrib.policy.audit.store import DamagedError

Change = Callable[[list[bytes]], list[bytes]]


def restamp(lines: list[bytes]) -> list[bytes]:
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


@pytest.mark.parametrize("change", [restamp, lambda lines: lines[:-1]], ids=["restamped", "cut"])
@pytest.mark.parametrize("others", [False, True], ids=["alone", "with another"])
async def test_what_a_server_wrote_is_not_changed_behind_its_back(
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


def test_nothing_is_written_behind_what_is_no_record(tmp_path: Path) -> None:
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


def test_a_gap_that_was_accepted_behind_our_last_record_is_no_leave_to_change_it(tmp_path: Path) -> None:
    path, hands = tmp_path / "audit.db", Hands()
    writer = make_writer(path, hands)
    writer.write(entries(3))
    hands.pass_by(60)
    writer.run_maintenance()  # sealed: what is accepted begins behind it
    make_log(path, 3)
    lines = read_lines(path)
    replace_lines(path, [*lines[:6], lines[6].replace(b"c2", b"c7"), *lines[7:]])
    make_log(path, 1, accept_gap=True)
    assert open_log(path).verify().is_sound
    lines = read_lines(path)
    lines[3:4] = stamp_anew([lines[3].replace(b"c3", b"c9")], lines[2][-66:-2])
    replace_lines(path, lines)
    with pytest.raises(DamagedError, match="record 4 was changed or removed"):
        writer.write(entries(1, start=4))


def test_a_gap_that_was_accepted_around_our_first_record_is_gone_on_behind(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path, accept_gap=True)
    writer.write(())
    replace_lines(path, stamp_anew([line.replace(b"shop", b"the shop") for line in read_lines(path)]))
    with pytest.raises(DamagedError):
        writer.write(entries(1))
    writer.write(entries(1))
    writer.close()
    assert open_log(path).verify().is_sound
