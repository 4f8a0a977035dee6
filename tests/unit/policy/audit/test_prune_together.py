"""Old records are ended by one process while another one writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.audit_logs import Hands, entries, make_writer, verify
from toolcrib.policy.audit.writer import RETENTION_S


def test_what_another_process_writes_meanwhile_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands = Hands()
    path = tmp_path / "audit.db"
    ours, theirs = (make_writer(path, hands, keep_records=1_000) for _ in range(2))
    ours.write(entries(3_000))
    theirs.write(entries(1))
    add_checkpoint = ours.add_checkpoint

    def interrupted(*facts: Any, **more: Any) -> Any:
        theirs.write(entries(1))
        return add_checkpoint(*facts, **more)

    monkeypatch.setattr(ours, "add_checkpoint", interrupted)
    hands.pass_by(RETENTION_S + 1)
    ours.run_maintenance()  # used to raise: the database is locked
    monkeypatch.undo()
    ours.close()
    theirs.close()
    verdict = verify(path)
    assert verdict.is_sound
    assert verdict.pruned_before is not None
