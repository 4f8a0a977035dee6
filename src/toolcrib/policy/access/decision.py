"""What access says about a caller and a tool, and about a call with its arguments.

Knows rules that were found to be about both; refuses to know how they were found, and what follows.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.policy.access.conditions import ABSENT, Demand, Found, Reach, Verdict, is_nothing, kind_of
from toolcrib.schema.received import OPAQUE, Received

DEFAULT = "default"
_SAME_IF_EQUAL = frozenset({str, int, float})
"""Types whose equal values are not told apart by any operator."""


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

    def holds(self, arguments: Mapping[str, Any], received: Received | None = None) -> Verdict:
        """Whether the demand is met by what came and, where that may differ, by what the tool gets: True
        where every value there meets it, False where none does, else None."""
        found = self.reach.find(arguments)
        if received is None and len(found) == 1:  # as nearly always
            return self._judge(*found[0])
        verdicts = itertools.starmap(self._judge, found)
        if received is None:
            return _agree(verdicts)
        return _agree(itertools.chain(verdicts, self._judge_received(found, received)))

    def _judge(self, value: Any, is_given: bool) -> Verdict:
        verdict = self.demand.holds(value, is_given)
        # Nothing is certain about an argument that is not there, except that it is not there.
        return None if verdict and value is ABSENT and self.demand.exists is not False else verdict

    def _comparable(self, found: Sequence[Found]) -> set[type]:
        """The kinds of what came and of what the demand speaks of. What the tool gets is compared if it is of
        one of these: a user made of a name neither equals nor differs from that name."""
        kinds = {kind_of(item) for item, _ in found}
        kinds.update(kind_of(item) for each in self.demand.walk() for item in each.constants)
        return kinds

    def _judge_received(self, found: Sequence[Found], received: Received) -> Iterator[Verdict]:
        """`exists` asks what the caller gave, so the values that came have to answer that."""
        exists = self.demand.exists
        if exists is not None and all(is_given is not exists for _, is_given in found):
            return
        values = self.reach.find_received(received)
        if _is_judged(values, found):
            return
        left_out = sum(not is_given for _, is_given in found)
        kinds = self._comparable(found)
        for value in values:
            if value is ABSENT:
                left_out -= 1
                if left_out >= 0:
                    continue
                value = OPAQUE  # it was given, and became something else
            elif not is_nothing(value) and kind_of(value) not in kinds:
                value = OPAQUE
            yield self.demand.holds(value, exists is not False)


def _agree(verdicts: Iterator[Verdict]) -> Verdict:
    """The verdict that all of them are; None where they differ. At least one is there."""
    first = next(verdicts)
    if first is None:
        return None
    return first if all(verdict is first for verdict in verdicts) else None


def _is_judged(values: Sequence[Any], found: Sequence[Found]) -> bool:
    """Whether the tool gets just the texts and numbers that were given, in that order."""
    return (
        len(values) == len(found)
        and _SAME_IF_EQUAL.issuperset(map(type, values))
        and all(is_given and type(item) in _SAME_IF_EQUAL for item, is_given in found)
        and values == [item for item, _ in found]
    )


@dataclass(frozen=True, slots=True)
class Clause:
    """A rule that is about a caller and a tool. Without conditions it always counts."""

    number: int
    label: str
    because: str | None
    conditions: tuple[Condition, ...] = ()

    def holds(self, arguments: Mapping[str, Any], received: Received | None = None) -> Verdict:
        """Whether all conditions hold. A rule that allows counts where they surely do (True), one that denies
        or asks where they may (not False)."""
        verdict: Verdict = True
        for condition in self.conditions:
            found = condition.holds(arguments, received)
            if found is False:
                return False
            if found is None:
                verdict = None
        return verdict


@dataclass(frozen=True, slots=True)
class Case:
    """Every rule about a caller and a tool."""

    denies: tuple[Clause, ...] = ()
    allows: tuple[Clause, ...] = ()
    confirms: tuple[Clause, ...] = ()
    needs_allowing: bool = False
    """Whether what no rule allows is denied."""
    compares_received: bool = False
    """Whether it makes a difference what the tool gets: to a condition, or to a person who is asked."""

    @property
    def is_open(self) -> bool:
        """Whether it is allowed whatever the arguments, unless something denies it."""
        return not self.needs_allowing or any(not clause.conditions for clause in self.allows)

    def judge(self, arguments: Mapping[str, Any], received: Received | None = None) -> Judgement:
        for clause in self.denies:
            if clause.holds(arguments, received) is not False:
                return Judgement(False, clause.label, clause.because)
        rule = None if self.needs_allowing else DEFAULT
        for clause in self.allows:
            if clause.holds(arguments, received) is True:
                rule = clause.label
                break
        if rule is None:
            return self.refuse()
        if self.confirms:
            holding = [item for item in self.confirms if item.holds(arguments, received) is not False]
            if holding:
                return Judgement(True, rule, None, ask_for(holding))
        return _allow(rule)

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
    there is nothing to judge: every call is allowed, and nobody is asked. `witness` are arguments that pass
    as they came, as far as the rules look at them; None where no such are known."""

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

    def judge(self, arguments: Mapping[str, Any], received: Received | None = None) -> Judgement:
        """About a call with these checked arguments. `received` are the same as the tool gets them, where
        that is known and may differ. What is refused without them is refused with them."""
        return self.constant or self.case.judge(arguments, received)
