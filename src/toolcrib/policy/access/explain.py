"""Explanation of an access decision: every rule about a tool, and the one that decides.

Uses the same decision as lists and calls, and then evaluates each rule by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from toolcrib.component import Component
from toolcrib.config.settings import Policy
from toolcrib.context import Principal
from toolcrib.policy.access.access import DEFAULT, Access, Decision, Judgement, RuleSet, ToolRule
from toolcrib.policy.access.conditions import ABSENT, Condition, is_nothing, is_same
from toolcrib.policy.quota import CompiledLimit
from toolcrib.policy.selectors import roles_of
from toolcrib.schema.received import OPAQUE, Received
from toolcrib.validation import codec

Verdict = Literal["allowed", "confirm", "depends", "denied", "scope", "hidden"]
REFUSED: frozenset[Verdict] = frozenset({"denied", "scope", "hidden"})
_MAX_VALUES = 3
_MAX_WORDS = 80
_LIMITS = ("rate", "concurrency", "daily", "timeout_s", "max_arguments_bytes", "max_result_bytes")


@dataclass(frozen=True, slots=True)
class Step:
    """One rule about the tool, and whether it applies; None if that depends on arguments not given."""

    effect: str
    rule: str
    counts: bool | None
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The outcome of a call."""

    tool: str
    principal: str
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    verdict: Verdict
    rule: str
    because: str | None
    steps: tuple[Step, ...]
    default: str
    needed: tuple[str, ...]
    missing: tuple[str, ...]
    confirm: str | None
    limits: tuple[str, ...]

    @property
    def is_refused(self) -> bool:
        return self.verdict in REFUSED

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def explain(
    access: Access, principal: Principal, tool: Component, arguments: dict[str, Any] | None = None
) -> Explanation:
    """Explain a call with these checked arguments; without arguments, calls of the tool in general.

    Arguments that are not refused as they were sent are converted, also by the author's validators. Raises
    InvalidArgumentsError, or whatever those raise.
    """
    decision = access.decide_call(principal, tool, arguments)
    tool = tool.file_at(arguments) or tool
    if tool.member_of is not None:
        arguments = dict(tool.member_of.values)
    received = None if arguments is None else _receive(decision, tool, arguments)
    verdict, judgement = _judge(decision, arguments, received)
    policy = access.policy
    return Explanation(
        tool=tool.reference,
        principal=principal.name,
        roles=tuple(roles_of(principal, policy)),
        scopes=tuple(sorted(principal.scopes)),
        verdict=verdict,
        rule=_rule_of(decision, judgement),
        because=None if judgement is None else judgement.because,
        steps=tuple(_steps(access, tool, decision.rules, arguments, received)),
        default="deny" if policy.denies_by_default else "allow",
        needed=tuple(access.needed_scopes(tool)),
        missing=decision.missing,
        confirm=_confirm_of(judgement),
        limits=tuple(_limits(policy, principal, tool)),
    )


def _receive(decision: Decision, tool: Component, arguments: dict[str, Any]) -> Received | None:
    """Return the arguments as the tool gets them, if it is called and they may differ from those sent."""
    is_refused = not decision.is_visible or decision.missing or not decision.judge(arguments).is_allowed
    if is_refused or not decision.rules.compares_received:
        return None
    check = tool.arguments
    return check.receive(arguments, check.convert(arguments))


def _judge(
    decision: Decision, arguments: Mapping[str, Any] | None, received: Received | None
) -> tuple[Verdict, Judgement | None]:
    """Judge in the order of a call: visibility, scopes, arguments."""
    if not decision.is_visible:
        return "hidden", decision.constant
    if decision.missing:
        return "scope", None
    if arguments is None and decision.constant is None:
        return "depends", None
    judgement = decision.judge(arguments or {}, received)
    if not judgement.is_allowed:
        return "denied", judgement
    return "allowed" if judgement.confirm is None else "confirm", judgement


def _rule_of(decision: Decision, judgement: Judgement | None) -> str:
    """Return the label of the rule that decides: one that demands a confirmation, before one that allows."""
    if judgement is None:
        return decision.deciding_rule
    return judgement.rule if judgement.confirm is None else judgement.confirm.rule


def _confirm_of(judgement: Judgement | None) -> str | None:
    confirm = None if judgement is None else judgement.confirm
    return None if confirm is None else f"{confirm.rule}: {confirm.words}" if confirm.words else confirm.rule


def _steps(
    access: Access,
    tool: Component,
    rules: RuleSet,
    arguments: Mapping[str, Any] | None,
    received: Received | None,
) -> Iterator[Step]:
    applicable = {rule.number: rule for rule in (*rules.denies, *rules.allows, *rules.confirms)}
    for rule in access.rules:
        if rule.number in applicable:
            yield _step(applicable[rule.number], arguments, received)
        elif rule.tools.matches(tool):
            yield Step(rule.effect, rule.label, False, f"it is for {', '.join(rule.rule.who)}")


def _step(rule: ToolRule, arguments: Mapping[str, Any] | None, received: Received | None) -> Step:
    if not rule.conditions:
        return Step(rule.effect, rule.label, True, "whatever the arguments")
    if arguments is None:
        conditions = " and ".join(map(_describe_condition, rule.conditions))
        return Step(rule.effect, rule.label, None, f"where {conditions}")
    alone = [(item, replace(rule, conditions=(item,))) for item in rule.conditions]
    judged = [(item, each.counts(arguments, received)) for item, each in alone]
    counts = all(is_met for _, is_met in judged)
    reasons = [
        f"{_describe_condition(item)} ({_describe_values(item, arguments, received)})"
        for item, is_met in judged
        if counts or not is_met
    ]
    why = " and ".join(reasons) if counts else f"requires {', '.join(reasons)}"
    return Step(rule.effect, rule.label, counts, why)


def _describe_condition(condition: Condition) -> str:
    return f"{condition.path.path} {condition.predicate}"


def _describe_values(condition: Condition, arguments: Mapping[str, Any], received: Received | None) -> str:
    """Describe the values that were sent or are defaults, and those that the tool gets."""
    found = condition.path.find(arguments)
    described = dict.fromkeys(
        "not given" if value is ABSENT else f"{'it is' if is_given else 'by default it is'} {_show(value)}"
        for value, is_given in found
    )
    for value in () if received is None else condition.path.find_received(received):
        if value is OPAQUE:
            described["the tool gets a value that cannot be compared"] = None
        elif not is_nothing(value) and not any(is_same(value, item) for item, _ in found):
            described[f"the tool gets {_show(value)}"] = None
    more = [f"and {len(described) - _MAX_VALUES} more"] if len(described) > _MAX_VALUES else []
    return ", ".join([*list(described)[:_MAX_VALUES], *more])


def _show(value: Any) -> str:
    text = codec.encode_text(value)
    return text if len(text) <= _MAX_WORDS else f"{text[:_MAX_WORDS]}..."


def _limits(policy: Policy, principal: Principal, tool: Component) -> Iterator[str]:
    for number, limit in enumerate(policy.limits, start=1):
        if CompiledLimit(policy, number, limit).matches(principal, tool):
            name = f' "{limit.name}"' if limit.name else ""
            settings = [(key, getattr(limit, key)) for key in _LIMITS]
            shown = ", ".join(f"{key} {value}" for key, value in settings if value is not None)
            yield f"limit {number}{name}: {shown}, per {limit.per}"


def decided_by(explanation: Explanation) -> str:
    """Return the label of the deciding rule, with the default spelled out."""
    return f"the default, {explanation.default}" if explanation.rule == DEFAULT else explanation.rule
