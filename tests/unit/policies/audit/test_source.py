"""The lines of a log as a reader finds them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.audited import entries, verify
from toolcrib.policy.audit.reader import LineSource, is_blank
from toolcrib.policy.audit.record import NO_RECORD, compose

LINES = compose(NO_RECORD, entries(4))[1]


@pytest.mark.parametrize("whole", [0, 1, 4])
@pytest.mark.parametrize("torn", [b"", b'{"seq":9,"at"'])
def test_what_is_unfinished_is_told_by_its_length_and_is_no_line(
    tmp_path: Path, whole: int, torn: bytes
) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in LINES[:whole]) + torn)
    source = LineSource(path)
    assert source.torn_bytes == len(torn)
    assert list(source.lines(0)) == LINES[:whole]
    assert list(source.lines(2)) == LINES[2:whole]
    assert list(source.lines_back()) == LINES[:whole][::-1]
    source.close()
    with pytest.raises(ValueError, match="closed file"):
        source._file.fileno()
    words = f"{len(torn)} bytes at the end are half a record, as a crash leaves it: opening cuts them"
    assert [problem.words for problem in verify(path).problems] == ([words] if torn else [])


@pytest.mark.parametrize("statement", [None, "PRAGMA user_version=1", "CREATE TABLE other (x)"])
def test_a_database_without_tables_is_blank(tmp_path: Path, statement: str | None) -> None:
    path = tmp_path / "audit.db"
    path.touch()
    if statement is not None:
        with closing(sqlite3.connect(path)) as db:
            db.execute(statement)
    assert is_blank(path) == (statement is None or "TABLE" not in statement)
    assert not is_blank(path.with_suffix(".jsonl"))
    path.write_bytes(b"something else")
    assert not is_blank(path)
