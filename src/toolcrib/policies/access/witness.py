"""Whether some arguments pass: a search for one witness among values that rules can tell apart.

A tool whose rules no argument passes is as good as denied, and must not be shown. Every value to try is first
reduced to which conditions it meets, so that what is searched is small. Where none is found, there may be one
all the same, unless it is proved that there is none. Values are judged as they come, and nothing of the tool
runs: what is refused as it comes is refused whatever the tool makes of it, so that what is proved stays true.
Knows cases; refuses to know who calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from toolcrib.policies.access.building import build
from toolcrib.policies.access.candidates import candidates_for
from toolcrib.policies.access.decision import Case, Clause, Condition
from toolcrib.policies.access.proof import can_pass
from toolcrib.policies.access.reach import Reach
from toolcrib.policies.access.tally import Item, Tally

MAX_TRIES = 5_000


@dataclass(frozen=True, slots=True)
class Search:
    """How a search ended. `may_pass` is False only where it is certain that nothing does. Then `denial` is
    the first rule that denied something, None where all that was missing is a rule that allows."""

    may_pass: bool
    witness: Mapping[str, Any] | None = None
    denial: Clause | None = None


@dataclass(frozen=True, slots=True)
class _Choice:
    """A value at the end of a path, and the conditions it meets, one bit for each."""

    reach: Reach
    value: Any
    meets: int


def find_witness(case: Case) -> Search:
    """Arguments that pass, as far as conditions look at them: what else the tool wants is not in them."""
    tally = Tally(case)
    choices = [list(_choices(items)) for items in tally.by_path.values()]
    denial: Clause | None = None
    for chosen in islice(product(*choices), MAX_TRIES):
        meets = sum(choice.meets for choice in chosen)
        denied_by = tally.find_denial(meets)
        if denied_by is not None:
            denial = denial or denied_by
        elif tally.allows(meets):
            arguments = build((choice.reach, choice.value) for choice in chosen)
            if case.judge(arguments).is_allowed:  # which it is, unless two paths are in each other's way
                return Search(True, arguments)
    return Search(can_pass(tally), None, denial)


def _choices(items: Sequence[Item]) -> Iterator[_Choice]:
    """What to try on one path: one value for every set of conditions that can be met."""
    reach = items[0].condition.reach
    known: set[int] = set()
    for value in candidates_for(reach, [item.condition.demand for item in items]).values:
        arguments = build([(reach, value)])
        meets = sum(item.bit for item in items if item.is_met(arguments))
        if meets not in known:
            known.add(meets)
            yield _Choice(reach, value, meets)


def can_hold(condition: Condition, *, permits: bool) -> bool:
    """Whether some value surely meets one condition; in doubt, yes. A rule that allows needs one that does so
    as it came, any other rule may mean what is made of it."""
    made = candidates_for(condition.reach, [condition.demand])
    for value in made.values:
        arguments = build([(condition.reach, value)])
        if permits:
            is_met = condition.holds(arguments) is True
        else:  # what cannot be compared is denied in a call, but is no reason to write such a rule
            found = condition.reach.find(arguments)
            is_met = any(condition.demand.holds(item, is_given) is True for item, is_given in found)
        if is_met:
            return True
    return not made.is_exact or (condition.reach.is_coded and not permits)
