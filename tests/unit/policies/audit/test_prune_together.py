"""Old records are ended by one process while another one writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.audited import STORES, Hands, entries, make_scribe, verify
from toolcrib.policy.audit.writer import PRUNE_S


@pytest.mark.parametrize("name", STORES)
def test_what_another_process_writes_meanwhile_is_no_failure(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands = Hands()
    path = tmp_path / name
    ours, theirs = (make_scribe(path, hands, keep_records=1_000) for _ in range(2))
    ours.write(entries(3_000))
    theirs.write(entries(1))
    certify = ours.certify

    def interrupted(*facts: Any, **more: Any) -> Any:
        theirs.write(entries(1))
        return certify(*facts, **more)

    monkeypatch.setattr(ours, "certify", interrupted)
    hands.pass_by(PRUNE_S + 1)
    ours.tend()  # used to raise: the database is locked
    monkeypatch.undo()
    ours.close()
    theirs.close()
    verdict = verify(path)
    assert verdict.is_sound
    assert verdict.pruned_before is not None
