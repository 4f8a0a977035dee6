"""Whichever operation on the disk fails, in whichever way, no file is broken and no answer wrong.

The N-th open, write, sync, cut, link or move fails, for N from 1 until none is left to fail (at most 200): in
the audit's store, its checkpoints and its key, and in the writer that cache and lock file share. Of
the audit's, every eleventh is tried every day, another for each kind of fault; all with `TOOLCRIB_SOAK=1`.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.hostile.faults import FAULTS, Faults, FaultyOS, faulty_connect, faulty_open
from tests.support.records.audit_logs import ManualClocks, entries, make_writer, verify
from tests.support.records.catalogs import ADAPTER, MODELS
from tests.support.system.source_folders import write
from toolcrib import build_catalog, get_catalog_cached
from toolcrib.config import atomic_file
from toolcrib.policy.audit import checkpoints, open_log
from toolcrib.policy.audit.record import Entry
from toolcrib.state.sqlite import audit as store

pytestmark = pytest.mark.row("G2")

MOST = 200
STEP = 1 if os.environ.get("TOOLCRIB_SOAK") else 11


class Story:
    """A log lives for a while: as the thread that writes it would, it tries again what has failed."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.clocks = ManualClocks()
        self.acknowledged: list[str] = []
        self._options = options

    def tell(self) -> None:
        for life in range(2):
            writer = make_writer(self.path, self.clocks, **self._options)
            pending: list[Entry] = []
            for turn in range(4):
                new = entries(3, start=life * 100 + turn * 10)
                pending += new
                for _ in range(3):
                    try:
                        writer.write(new)
                    except OSError:
                        new = []  # it has them
                        continue
                    self.acknowledged += [entry.id for entry in pending]
                    pending = []
                    break
                self.clocks.advance(61)
                try:
                    writer.run_maintenance()
                except OSError:
                    pass
            try:
                writer.close()
            except OSError:
                pass
            assert pending == [], "it works again, and has written everything"

    def check(self) -> None:
        writer = make_writer(self.path, self.clocks)
        writer.open()  # refuses what is broken
        writer.close()
        found = Counter(record["id"] for record in open_log(self.path).records() if record["kind"] == "call")
        assert set(self.acknowledged) <= set(found)
        assert max(found.values()) == 1, "no record is there twice"
        verdict = verify(self.path)
        assert verdict.problems == []


@pytest.mark.parametrize("kind", FAULTS)
def test_g2_any_operation_on_files_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for number in range(1 + FAULTS.index(kind) % STEP, MOST + 1, STEP):
        faults = Faults(number, kind)
        for module in (checkpoints, store, atomic_file):
            monkeypatch.setattr(module, "os", FaultyOS(faults))
        story = Story(tmp_path / f"{number}" / "audit.db", sync=number % 2 == 0)
        story.tell()
        faults.at = 0
        story.check()
        if not faults.was_hit:
            break
    assert number > 10


@pytest.mark.parametrize("is_done_first", [False, True])
def test_g2_any_statement_may_fail_and_may_have_been_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_done_first: bool
) -> None:
    connect = sqlite3.connect
    for number in range(1 + is_done_first % STEP, MOST + 1, STEP):
        faults = Faults(number, "ENOSPC" if number % 2 else "EIO")
        monkeypatch.setattr(sqlite3, "connect", faulty_connect(faults, is_done_first=is_done_first))
        story = Story(tmp_path / f"{number}" / "audit.db")
        story.tell()
        monkeypatch.setattr(sqlite3, "connect", connect)
        story.check()
        if not faults.was_hit:
            break
    assert number > 50


@pytest.mark.parametrize("kind", FAULTS)
def test_g2_a_file_of_the_cache_or_the_lock_is_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / "folder" / "toolcrib.lock"
    old, new = b"old" * 1000, b"new" * 2000
    for number in range(1, MOST + 1):
        atomic_file.write_file(path, old)
        faults = Faults(number, kind)
        with monkeypatch.context() as patch:
            patch.setattr(atomic_file, "os", FaultyOS(faults))
            patch.setattr(atomic_file, "open", faulty_open(faults), raising=False)
            try:
                atomic_file.write_file(path, new)
            except OSError:
                assert path.read_bytes() == old
            else:
                assert path.read_bytes() == new
        assert [each.name for each in path.parent.iterdir()] == [path.name]
        if not faults.was_hit:
            break
    assert number == 7  # opening, writing, syncing and moving it; opening and syncing its folder


@pytest.mark.parametrize("kind", FAULTS)
def test_g2_a_cache_that_cannot_be_written_changes_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"bridges/mcp_adapter.py": ADAPTER, "bridges/models.py": MODELS})
    truth = build_catalog()
    for number in range(1, MOST + 1):
        (tmp_path / ".cache/tool_catalog.json").unlink(missing_ok=True)
        faults = Faults(number, kind)
        with monkeypatch.context() as patch:
            patch.setattr(atomic_file, "os", FaultyOS(faults))
            patch.setattr(atomic_file, "open", faulty_open(faults), raising=False)
            assert get_catalog_cached() == truth
        assert get_catalog_cached() == truth
        if not faults.was_hit:
            break
    assert 4 < number < MOST
