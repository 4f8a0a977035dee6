"""A log that somebody else changes while it is written: no record goes behind that, and no seal covers it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.audited import STORES, entries, make_scribe
from toolcrib.policies.audit import AuditLog, open_log
from toolcrib.policies.audit.record import GENESIS, TAIL
from toolcrib.policies.audit.store import BrokenError
from toolcrib.policy import Audit

BOTH = pytest.mark.parametrize("name", STORES)
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
    if path.suffix == ".jsonl":
        data = b"".join(line + b"\n" for line in change(path.read_bytes().splitlines()))
        with open(path, "r+b") as file:  # the same file, as an editor that knows its trade leaves it
            file.write(data)
            file.truncate(len(data))
        return
    db = sqlite3.connect(path)
    lines = change([row[0].encode() for row in db.execute("SELECT line FROM record ORDER BY seq")])
    db.execute("DELETE FROM record")
    db.executemany(
        "INSERT INTO record VALUES (?, ?)", [(n, line.decode()) for n, line in enumerate(lines, 1)]
    )
    db.commit()
    db.close()


@BOTH
@pytest.mark.parametrize("change", [restamp, lambda lines: lines[:-1]], ids=["restamped", "cut"])
@pytest.mark.parametrize("others", [False, True], ids=["alone", "with another"])
async def test_what_a_server_wrote_is_not_changed_behind_its_back(
    tmp_path: Path, name: str, change: Change, others: bool
) -> None:
    path = tmp_path / name
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


@BOTH
def test_nothing_is_written_behind_what_is_no_record(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    scribe = make_scribe(path)
    scribe.write(entries(3))
    rewrite(path, lambda lines: [*lines, b"garbage"])
    with pytest.raises(BrokenError, match=r"^the last (line|row) is no record"):
        scribe.write(entries(1, start=4))
    scribe.abandon()
