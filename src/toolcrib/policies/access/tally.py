"""The conditions of a case, counted as bits: which are met decides everything, and not by which values.

Knows cases; refuses to know values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.policies.access.decision import Case, Clause, Condition


@dataclass(frozen=True, slots=True)
class Item:
    """One condition and its bit. What denies is met by less than what allows."""

    condition: Condition
    bit: int
    denies: bool

    def is_met(self, arguments: Mapping[str, Any]) -> bool:
        verdict = self.condition.holds(arguments)
        return verdict is not False if self.denies else verdict is True


class Tally:
    """Every condition that denies or allows, by the path it looks at."""

    __slots__ = ("_allowing", "_denying", "_needs_allowing", "by_path")

    def __init__(self, case: Case) -> None:
        self.by_path: dict[str, list[Item]] = {}
        self._needs_allowing = case.needs_allowing
        bit = 1
        masks: list[tuple[Clause, int]] = []
        for number, clause in enumerate((*case.denies, *case.allows)):
            mask = 0
            for condition in clause.conditions:
                item = Item(condition, bit, number < len(case.denies))
                self.by_path.setdefault(condition.reach.path, []).append(item)
                mask |= bit
                bit <<= 1
            masks.append((clause, mask))
        self._denying = masks[: len(case.denies)]
        self._allowing = masks[len(case.denies) :]

    def find_denial(self, meets: int) -> Clause | None:
        """The first rule that denies what meets these conditions."""
        return next((clause for clause, mask in self._denying if meets & mask == mask), None)

    def allows(self, meets: int) -> bool:
        """Whether what meets these conditions is allowed, unless it is denied."""
        return not self._needs_allowing or any(meets & mask == mask for _, mask in self._allowing)
