"""Decisions about a principal and a tool, and about a call with its arguments."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.policy.access.conditions import (
    ABSENT,
    ArgumentPath,
    Found,
    Predicate,
    Verdict,
    is_nothing,
    kind_of,
)
from toolcrib.schema.received import OPAQUE, Received

DEFAULT = "default"
_SAME_IF_EQUAL = frozenset({str, int, float})
"""Types whose equal values no operator tells apart."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """A required confirmation. `words` are the reasons that the rules give, None if they give none."""

    rule: str
    words: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The decision about one call. `because` is told to a caller who is refused."""

    is_allowed: bool
    rule: str
    because: str | None = None
    confirm: Confirm | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate on one argument of one tool."""

    path: ArgumentPath
    predicate: Predicate

    def holds(self, arguments: Mapping[str, Any], received: Received | None = None) -> Verdict:
        """Judge the values that were sent and, if they may differ, those that the tool gets: True if the
        predicate holds for all of them, False if for none, else None."""
        found = self.path.find(arguments)
        if received is None and len(found) == 1:  # nearly always
            return self.judge(*found[0])
        operators = self.predicate.operators
        verdicts: Iterator[Verdict] = itertools.starmap(self.judge, found)
        if len(operators) == 1 and self.predicate.exists is None and all(given for _, given in found):
            verdicts = map(operators[0].check, [value for value, _ in found])  # long lists: the same, faster
        if received is None:
            return _agree(verdicts)
        return _agree(itertools.chain(verdicts, self._judge_received(found, received)))

    def judge(self, value: Any, is_given: bool) -> Verdict:
        verdict = self.predicate.holds(value, is_given)
        # Nothing is certain about a missing argument except that it is missing.
        return None if verdict and value is ABSENT and self.predicate.exists is not False else verdict

    def _judge_received(self, found: Sequence[Found], received: Received) -> Iterator[Verdict]:
        """Judge what the tool gets. `exists` is about what the caller sent."""
        exists = self.predicate.exists
        if exists is not None and all(is_given is not exists for _, is_given in found):
            return
        values = self.path.find_received(received)
        if _is_unchanged(values, found):
            return
        left_out = sum(not is_given for _, is_given in found)
        kinds = self._comparable_kinds(found)
        for value in values:
            if value is ABSENT:
                left_out -= 1
                if left_out >= 0:
                    continue
                value = OPAQUE  # it was sent, and became something else
            elif not is_nothing(value) and kind_of(value) not in kinds:
                value = OPAQUE
            yield self.predicate.holds(value, exists is not False)

    def _comparable_kinds(self, found: Sequence[Found]) -> set[type]:
        """Return the types of what was sent and of the constants. Other values cannot be compared: a user
        object made from a name neither equals nor differs from that name."""
        kinds = {kind_of(item) for item, _ in found}
        kinds.update(kind_of(item) for each in self.predicate.walk() for item in each.constants)
        return kinds


def _agree(verdicts: Iterator[Verdict]) -> Verdict:
    """Return the verdict that all share; None if they differ. There is at least one."""
    first = next(verdicts)
    if first is None:
        return None
    return first if all(verdict is first for verdict in verdicts) else None


def _is_unchanged(values: Sequence[Any], found: Sequence[Found]) -> bool:
    """Whether the tool gets exactly the strings and numbers that were sent."""
    return (
        len(values) == len(found)
        and _SAME_IF_EQUAL.issuperset(map(type, values))
        and all(is_given and type(item) in _SAME_IF_EQUAL for item, is_given in found)
        and values == [item for item, _ in found]
    )


@dataclass(frozen=True, slots=True)
class ToolRule:
    """A rule that applies to a principal and a tool. Without conditions it always counts."""

    number: int
    label: str
    because: str | None
    conditions: tuple[Condition, ...] = ()

    def holds(self, arguments: Mapping[str, Any], received: Received | None = None) -> Verdict:
        """Whether all conditions hold. A rule that allows counts if they certainly do (True), one that denies
        or asks for confirmation if they may (not False)."""
        verdict: Verdict = True
        for condition in self.conditions:
            found = condition.holds(arguments, received)
            if found is False:
                return False
            if found is None:
                verdict = None
        return verdict


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules that apply to a principal and a tool."""

    denies: tuple[ToolRule, ...] = ()
    allows: tuple[ToolRule, ...] = ()
    confirms: tuple[ToolRule, ...] = ()
    denies_by_default: bool = False
    compares_received: bool = False
    """Whether the values that the tool gets matter, to a condition or to a person who confirms."""

    @property
    def is_open(self) -> bool:
        """Whether calls are allowed with any arguments that no rule denies."""
        return not self.denies_by_default or any(not rule.conditions for rule in self.allows)

    def judge(self, arguments: Mapping[str, Any], received: Received | None = None) -> Judgement:
        for rule in self.denies:
            if rule.holds(arguments, received) is not False:
                return Judgement(False, rule.label, rule.because)
        allowed_by = None if self.denies_by_default else DEFAULT
        for rule in self.allows:
            if rule.holds(arguments, received) is True:
                allowed_by = rule.label
                break
        if allowed_by is None:
            return self.default_refusal()
        if self.confirms:
            holding = [rule for rule in self.confirms if rule.holds(arguments, received) is not False]
            if holding:
                return Judgement(True, allowed_by, None, combine_confirmations(holding))
        return _allow(allowed_by)

    def default_refusal(self) -> Judgement:
        """Return the refusal of a call that no rule allows, attributed to the only rule that could have."""
        label = self.allows[0].label if len(self.allows) == 1 else DEFAULT
        return Judgement(False, label, next((rule.because for rule in self.allows if rule.because), None))


@functools.lru_cache(maxsize=1_000)
def _allow(rule: str) -> Judgement:
    """Nearly every call ends here, with one of few rules."""
    return Judgement(True, rule)


def combine_confirmations(rules: Sequence[ToolRule]) -> Confirm:
    """Return one confirmation for all rules that require one."""
    words = " ".join(dict.fromkeys(rule.because for rule in rules if rule.because))
    return Confirm(rules[0].label, words or None)


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The decision about a principal and a tool.

    A tool that is not visible does not exist for this principal: every call is denied. `missing` are scopes
    that are needed and not held. `is_final` says that every call is allowed without confirmation. `witness`
    is an example of arguments that pass, as far as the rules look at them; None if none is known.
    """

    is_visible: bool
    rule: str
    rules: RuleSet
    missing: tuple[str, ...] = ()
    constant: Judgement | None = None
    is_final: bool = False
    witness: Mapping[str, Any] | None = None

    def judge(self, arguments: Mapping[str, Any], received: Received | None = None) -> Judgement:
        """Judge a call with these checked arguments. `received` are the same as the tool gets them, if they
        may differ. What is refused without them is refused with them."""
        return self.constant or self.rules.judge(arguments, received)
