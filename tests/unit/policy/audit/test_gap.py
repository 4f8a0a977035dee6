"""What the record says of those that came late or never, and since when."""

from __future__ import annotations

from tests.support.audit_logs import Hands
from toolcrib.policy.audit.writer import GapCounter


def test_a_gap_began_when_the_first_of_it_was_noticed_and_the_next_one_has_its_own_time() -> None:
    hands = Hands()
    gap = GapCounter(hands.wall)
    assert (gap.is_unreported, gap.report()) == (False, None)
    gap.add(late=1)
    hands.pass_by(60)
    gap.add(late=2, lost=1)
    hands.pass_by(60)
    assert gap.is_unreported
    assert gap.report() == {"kind": "gap", "since": "2026-05-04T10:00:00.000Z", "late": 3, "lost": 1}
    assert (gap.is_unreported, gap.report()) == (False, None)
    hands.pass_by(60)
    gap.add(lost=1)
    hands.pass_by(60)
    gap.add(lost=1)
    assert gap.report() == {"kind": "gap", "since": "2026-05-04T10:03:00.000Z", "late": 0, "lost": 2}
    assert (gap.late, gap.lost) == (3, 3)
