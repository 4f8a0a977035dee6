"""Whether some arguments pass: a search for one witness among values that rules can tell apart.

A tool whose rules no argument passes is as good as denied, and must not be shown. Every value to try is first
reduced to which conditions it meets, so that what is searched is small. Where the search is given up, or its
values prove nothing, the answer is that there may be a witness. Knows cases; refuses to know who calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.policies.access.candidates import LEFT_OUT, NO_ITEMS, candidates_for
from toolcrib.policies.access.decision import Case, Clause, Condition
from toolcrib.policies.access.operators import ABSENT
from toolcrib.policies.access.reach import Reach, Step

MAX_TRIES = 20_000


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
    clauses = (*case.denies, *case.allows)
    bits = {id(item): 1 << place for place, item in enumerate(_conditions(clauses))}
    choices, is_exact = _list_choices(case, bits)
    denying = [(clause, sum(bits[id(item)] for item in clause.conditions)) for clause in case.denies]
    allowing = [sum(bits[id(item)] for item in clause.conditions) for clause in case.allows]
    tries = 0
    denial: Clause | None = None
    for chosen in _combine(choices):
        tries += 1
        if tries > MAX_TRIES:
            return Search(True)
        meets = sum(choice.meets for choice in chosen)
        denied_by = next((clause for clause, mask in denying if meets & mask == mask), None)
        if denied_by is not None:
            denial = denial or denied_by
            continue
        if case.needs_allowing and not any(meets & mask == mask for mask in allowing):
            continue
        arguments = build(chosen)
        if case.judge(arguments).is_allowed:  # which it is, unless two paths are in each other's way
            return Search(True, arguments)
        is_exact = False
    return Search(not is_exact, None, denial)


def can_hold(condition: Condition, *, permits: bool) -> bool:
    """Whether some value surely meets one condition; in doubt, yes."""
    made = candidates_for(condition.reach, [condition.demand])
    for value in made.values:
        arguments = build([_Choice(condition.reach, value, 0)])
        if permits:
            is_met = condition.permits(arguments)
        else:  # what cannot be compared is denied in a call, but is no reason to write such a rule
            found = condition.reach.find(arguments)
            is_met = any(condition.demand.holds(item, is_given) is True for item, is_given in found)
        if is_met:
            return True
    return not made.is_exact


def _conditions(clauses: Sequence[Clause]) -> Iterator[Condition]:
    return (condition for clause in clauses for condition in clause.conditions)


def _list_choices(case: Case, bits: Mapping[int, int]) -> tuple[list[list[_Choice]], bool]:
    """For each path its choices, one for every set of conditions that can be met; and whether that is all."""
    forbidding = [(item, item.forbids) for item in _conditions(case.denies)]
    permitting = [(item, item.permits) for item in _conditions(case.allows)]
    by_path: dict[str, list[Any]] = {}
    for item, meets in (*forbidding, *permitting):
        by_path.setdefault(item.reach.path, []).append((item, meets))
    # Where one path leads through the end of another, what the one is given says something about the other.
    is_exact = not any(other.startswith(f"{path}.") for path in by_path for other in by_path)
    choices = []
    for items in by_path.values():
        reach = items[0][0].reach
        made = candidates_for(reach, [item.demand for item, _ in items])
        is_exact &= made.is_exact
        different: dict[int, _Choice] = {}
        for value in made.values:
            arguments = build([_Choice(reach, value, 0)])
            met = sum(bits[id(item)] for item, meets in items if meets(arguments))
            different.setdefault(met, _Choice(reach, value, met))
        choices.append(list(different.values()))
    return choices, is_exact


def _combine(choices: Sequence[Sequence[_Choice]]) -> Iterator[list[_Choice]]:
    if not choices:
        yield []
        return
    for first in choices[0]:
        for rest in _combine(choices[1:]):
            yield [first, *rest]


def build(chosen: Sequence[_Choice]) -> dict[str, Any]:
    """Arguments in which each path leads to what was chosen for it."""
    arguments: dict[str, Any] = {}
    for choice in chosen:
        place(arguments, choice.reach.steps, choice.value)
    return arguments


def place(arguments: dict[str, Any], steps: Sequence[Step], value: Any) -> None:
    """Put a value where steps lead to, and make what it is in; or leave it out in the way that is asked."""
    inside = arguments
    for step, following in itertools.pairwise(steps):
        if value is ABSENT and not step.is_required:
            return
        if value is NO_ITEMS and following.lists:
            inside.setdefault(step.name, [])
            return
        inner = inside.get(step.name)
        for _ in range(following.lists):
            inner = inner[0] if isinstance(inner, list) and inner else None
        if not isinstance(inner, dict):
            inner = {}
            inside[step.name] = _wrap(inner, following.lists)
        inside = inner
    name = steps[-1].name
    is_there_already = value == {} and isinstance(inside.get(name), dict)
    if value is not ABSENT and value is not LEFT_OUT and not is_there_already:
        inside[name] = value


def _wrap(value: Any, lists: int) -> Any:
    for _ in range(lists):
        value = [value]
    return value
