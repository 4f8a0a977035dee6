"""What access says about a caller and a tool, and about a call with its arguments.

Knows rules that were found to be about both; refuses to know how they were found, and what follows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.policies.access.operators import ABSENT, Demand, Verdict, is_nothing, kind_of
from toolcrib.policies.access.reach import Found, Reach
from toolcrib.schema.received import OPAQUE, Received

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

    def holds(self, arguments: Mapping[str, Any], received: Received | None = None) -> Verdict:
        """Whether the demand is met by what came and, where that may differ, by what the tool gets: True
        where every value there meets it, False where none does, else None."""
        found = self.reach.find(arguments)
        if received is None and len(found) == 1:  # as nearly always
            return self._judge(*found[0])
        verdicts = {self._judge(*each) for each in found}
        if received is not None:
            verdicts.update(self._judge_received(found, received))
        return verdicts.pop() if len(verdicts) == 1 else None

    def _judge(self, value: Any, is_given: bool) -> Verdict:
        verdict = self.demand.holds(value, is_given)
        # Nothing is certain about an argument that is not there, except that it is not there.
        return None if verdict and value is ABSENT and self.demand.exists is not False else verdict

    def _is_comparable(self, value: Any, found: Sequence[Found]) -> bool:
        """Whether what the tool gets is of the kind that came, or of one that the demand speaks of: a user
        made of a name neither equals nor differs from that name."""
        kind = kind_of(value)
        if any(kind_of(item) is kind for item, _ in found):
            return True
        return any(kind_of(item) is kind for each in self.demand.walk() for item in each.constants)

    def _judge_received(self, found: Sequence[Found], received: Received) -> Iterator[Verdict]:
        """`exists` asks what the caller gave, so the values that came have to answer that."""
        exists = self.demand.exists
        if exists is not None and all(is_given is not exists for _, is_given in found):
            return
        left_out = sum(not is_given for _, is_given in found)
        for value in self.reach.find_received(received):
            if value is ABSENT:
                left_out -= 1
                if left_out >= 0:
                    continue
                value = OPAQUE  # it was given, and became something else
            elif not is_nothing(value) and not self._is_comparable(value, found):
                value = OPAQUE
            yield self.demand.holds(value, exists is not False)


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
