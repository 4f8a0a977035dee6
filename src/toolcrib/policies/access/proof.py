"""Whether it is certain that no arguments pass.

Which conditions one value can meet together is known for some kinds of them: for those that compare plainly,
for folders, for one glob beside plain values. Of every such group it is demanded that some value meets what
is met in it; of all else the best is hoped. So one rule more can only make it more certain, and what is not
certain is not said. Knows conditions and groups of them; refuses to look for the arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from toolcrib.policies.access.building import build
from toolcrib.policies.access.candidates import candidates_for
from toolcrib.policies.access.tally import Item, Tally

MAX_TRIES = 5_000
_ENDS = frozenset({"prefix", "suffix"})
_BLURRED = frozenset({"glob", "matches", "below_path"})


def can_pass(tally: Tally) -> bool:
    """False only where it is certain that nothing does."""
    ways = [list(_meetable(items)) for items in tally.by_path.values()]
    for tries, chosen in enumerate(product(*ways)):
        meets = sum(chosen)
        if tries >= MAX_TRIES or (tally.find_denial(meets) is None and tally.allows(meets)):
            return True
    return False


def _meetable(items: Sequence[Item]) -> set[int]:
    """The sets of conditions on one path that a value may meet."""
    met, known = {0}, 0
    for group in _groups(items):
        found = _met_in(group)
        if found is None or len(found) * len(met) > MAX_TRIES:
            continue
        mask = sum(item.bit for item in group)
        shared = known & mask
        met = {one | other for one in met for other in found if one & shared == other & shared}
        known |= mask
    hoped = sum(item.bit for item in items if not item.denies and not item.bit & known)
    return {one | hoped for one in met}


def _groups(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Conditions that can be judged together. To which groups one belongs, no other has a say in."""
    used = {item.bit: {operator.name for operator in item.condition.demand.walk()} for item in items}
    plain = [item for item in items if not used[item.bit] & _BLURRED]
    points = [item for item in plain if not used[item.bit] & _ENDS]
    folders = [item for item in items if used[item.bit] & (_BLURRED | _ENDS) == {"below_path"}]
    yield plain
    yield [*points, *folders]
    yield from ([*points, item] for item in items if item not in plain and item not in folders)


def _met_in(group: Sequence[Item]) -> set[int] | None:
    """Which of some conditions are met together, by whatever value; None where that is not known."""
    if not group:
        return None
    reach = group[0].condition.reach
    made = candidates_for(reach, [item.condition.demand for item in group])
    if not made.is_exact:
        return None
    every = (build([(reach, value)]) for value in made.values)
    return {sum(item.bit for item in group if item.is_met(arguments)) for arguments in every}
