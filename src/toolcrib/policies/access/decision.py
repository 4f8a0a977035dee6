"""What access says about a caller and a tool, and about a call with its arguments.

Knows rules that were found to be about both; refuses to know how they were found, and what follows.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.policies.access.operators import ABSENT, Demand
from toolcrib.policies.access.reach import Found, Reach

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Confirm:
    """Somebody has to agree first. `words` are what the rules say about it, None where they say nothing."""

    rule: str
    words: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """About one call. `because` is what the rule tells to whoever is refused."""

    is_allowed: bool
    rule: str
    because: str | None = None
    confirm: Confirm | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """What a rule demands of one argument of one tool."""

    reach: Reach
    demand: Demand

    def forbids(self, arguments: Mapping[str, Any]) -> bool:
        """For rules that deny or ask: whether something there is, or may be, what they mean."""
        return is_met_by_some(self.demand, self.reach.find_spellings(arguments))

    def permits(self, arguments: Mapping[str, Any]) -> bool:
        """For rules that allow: whether everything there surely is what they mean."""
        return is_met_by_all(self.demand, self.reach.find(arguments))


def is_met_by_some(demand: Demand, found: Sequence[Found]) -> bool:
    for value, is_given in found:  # noqa: SIM110 - every call comes through here, and generators cost
        if demand.holds(value, is_given) is not False:
            return True
    return False


def is_met_by_all(demand: Demand, found: Sequence[Found]) -> bool:
    """An argument that is not there meets no demand but the one not to be there."""
    for value, is_given in found:
        if value is ABSENT and demand.exists is not False:
            return False
        if demand.holds(value, is_given) is not True:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Clause:
    """A rule that is about a caller and a tool. Without conditions it always counts."""

    number: int
    label: str
    because: str | None
    conditions: tuple[Condition, ...] = ()

    def forbids(self, arguments: Mapping[str, Any]) -> bool:
        for condition in self.conditions:  # noqa: SIM110 - as above
            if not condition.forbids(arguments):
                return False
        return True

    def permits(self, arguments: Mapping[str, Any]) -> bool:
        for condition in self.conditions:  # noqa: SIM110 - as above
            if not condition.permits(arguments):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Case:
    """Every rule about a caller and a tool."""

    denies: tuple[Clause, ...] = ()
    allows: tuple[Clause, ...] = ()
    confirms: tuple[Clause, ...] = ()
    needs_allowing: bool = False
    """Whether what no rule allows is denied."""

    @property
    def is_open(self) -> bool:
        """Whether it is allowed whatever the arguments, unless something denies it."""
        return not self.needs_allowing or any(not clause.conditions for clause in self.allows)

    def judge(self, arguments: Mapping[str, Any]) -> Judgement:
        for clause in self.denies:
            if clause.forbids(arguments):
                return Judgement(False, clause.label, clause.because)
        rule = self.find_permission(arguments)
        if rule is None:
            return self.refuse()
        if self.confirms:
            holding = [clause for clause in self.confirms if clause.forbids(arguments)]
            if holding:
                return Judgement(True, rule, None, ask_for(holding))
        return _allow(rule)

    def find_permission(self, arguments: Mapping[str, Any]) -> str | None:
        """What allows a call that nothing denies."""
        for clause in self.allows:
            if clause.permits(arguments):
                return clause.label
        return None if self.needs_allowing else DEFAULT

    def refuse(self) -> Judgement:
        """What is said where no rule allows a call: where one might have, it is that rule's matter."""
        label = self.allows[0].label if len(self.allows) == 1 else DEFAULT
        return Judgement(False, label, next((item.because for item in self.allows if item.because), None))


@functools.lru_cache(maxsize=1_000)
def _allow(rule: str) -> Judgement:
    """Nearly every call ends here, and there are only so many rules."""
    return Judgement(True, rule)


def ask_for(clauses: Sequence[Clause]) -> Confirm:
    """One question for all rules that want one."""
    words = " ".join(dict.fromkeys(clause.because for clause in clauses if clause.because))
    return Confirm(clauses[0].label, words or None)


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """About a caller and a tool. `missing` are scopes that are needed and not held. `is_final` says that
    there is nothing to judge: every call is allowed, and nobody is asked. `witness` are arguments that pass,
    as far as the rules look at them; None where no such are known."""

    is_visible: bool
    rule: str
    case: Case
    missing: tuple[str, ...] = ()
    constant: Judgement | None = None
    is_final: bool = False
    witness: Mapping[str, Any] | None = None

    @property
    def is_denied(self) -> bool:
        """Whether it is denied whatever the arguments. Then it is not there for this caller."""
        return not self.is_visible

    def judge(self, arguments: Mapping[str, Any]) -> Judgement:
        """About a call with these checked arguments."""
        return self.constant or self.case.judge(arguments)
