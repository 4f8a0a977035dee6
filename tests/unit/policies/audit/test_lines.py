"""Records in a file of lines: what is known of it, what others have done to it, and what is left of it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.audited import entries, read_lines, replace_lines
from toolcrib.policy.audit.jsonl_store import LineStore
from toolcrib.policy.audit.record import NO_RECORD, compose
from toolcrib.policy.audit.store import BrokenError

LINES = compose(NO_RECORD, entries(8))[1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
def store(path: Path) -> Iterator[LineStore]:
    with closing(LineStore(path, sync=False)) as store:
        yield store


def add(store: LineStore, count: int) -> None:
    store.append(lambda head: compose(head, entries(count, head.seq + 1))[1])


def test_who_is_alone_with_a_file_does_not_read_it_again(
    path: Path, store: LineStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> bytes:
        raise AssertionError("read again")

    add(store, 3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", refuse)
        add(store, 2)
        assert store.head().seq == 5
    with closing(LineStore(path, sync=False)) as other:
        add(other, 1)
    assert store.head().seq == 6
    monkeypatch.setattr(os, "read", refuse)
    add(store, 2)
    assert read_lines(path) == LINES


@pytest.mark.parametrize("whole", [0, 1, 3])
def test_half_a_record_goes_and_the_next_one_takes_its_place(
    path: Path, store: LineStore, whole: int
) -> None:
    path.write_bytes(b"".join(line + b"\n" for line in LINES[:whole]) + LINES[whole][:13])
    add(store, 2)
    assert read_lines(path) == LINES[: whole + 2]
    assert store.cut_bytes == 13


def test_a_record_that_was_only_seen_is_missed_when_it_is_gone(path: Path, store: LineStore) -> None:
    replace_lines(path, LINES[:5])
    assert store.head().seq == 5
    replace_lines(path, LINES[:3])
    with pytest.raises(BrokenError, match="record 5 was there, and is gone") as caught:
        add(store, 1)
    assert caught.value.seq == 5
    assert read_lines(path) == LINES[:3]


@pytest.mark.parametrize(("lines", "first"), [([], 0), ([b"garbage", LINES[0]], 0), (LINES[4:], 5)])
def test_the_oldest_record_is_known_by_its_number(
    path: Path, store: LineStore, lines: list[bytes], first: int
) -> None:
    replace_lines(path, lines)
    assert store.first_seq() == first


@pytest.mark.parametrize(
    ("after", "found"), [(0, LINES[4:]), (2, LINES[4:]), (5, LINES[5:]), (8, []), (9, [])]
)
def test_lines_behind_a_record_are_found_though_it_is_gone_itself(
    path: Path, store: LineStore, after: int, found: list[bytes]
) -> None:
    replace_lines(path, LINES[4:])
    assert list(store.lines(after)) == found


@pytest.mark.parametrize(("through", "kept"), [(0, 4), (2, 4), (4, 4), (5, 5), (7, 7), (8, 4), (9, 4)])
def test_the_oldest_records_end_and_where_none_does_the_file_stays_as_it_is(
    path: Path, store: LineStore, through: int, kept: int
) -> None:
    replace_lines(path, LINES[4:])
    before = path.stat()
    store.remove_through(through)
    assert read_lines(path) == LINES[kept:]
    assert os.path.samestat(path.stat(), before) is (kept == 4)


def test_a_file_is_on_the_disk_with_every_record_and_let_go_of_in_the_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: dict[int, list[bytes]] = {}
    store = LineStore(path, sync=True)
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.update({descriptor: read_lines(path)}))
    add(store, 2)
    ((descriptor, lines),) = synced.items()
    assert lines == LINES[:2]
    store.close()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(descriptor)
