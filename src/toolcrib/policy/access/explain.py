"""Why a call would be allowed or not: every rule that is about it, and the one that decides.

Asks the same decision that lists and calls follow, and then each rule by itself. Knows rules, scopes and
limits by their words; refuses to know how an explanation is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from toolcrib.config.settings import Limit, Policy
from toolcrib.context import Principal
from toolcrib.policy.access.access import Access
from toolcrib.policy.access.conditions import ABSENT, is_nothing, is_same
from toolcrib.policy.access.decision import DEFAULT, Case, Clause, Condition, Decision, Judgement
from toolcrib.policy.selectors import PrincipalSelector, ToolSelector, roles_of
from toolcrib.schema.received import OPAQUE, Received
from toolcrib.tool import Tool
from toolcrib.validation import codec

Verdict = Literal["allowed", "confirm", "depends", "denied", "scope", "hidden"]
REFUSED: frozenset[Verdict] = frozenset({"denied", "scope", "hidden"})
_MAX_VALUES = 3
_MAX_WORDS = 80


@dataclass(frozen=True, slots=True)
class Step:
    """One rule about the tool, and whether it counts: None where that depends on arguments not given."""

    effect: str
    rule: str
    counts: bool | None
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What would happen to a call. `witness` are arguments that would pass, where some are known."""

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
    witness: Mapping[str, Any] | None

    @property
    def is_refused(self) -> bool:
        return self.verdict in REFUSED

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def explain(
    access: Access, principal: Principal, tool: Tool, arguments: dict[str, Any] | None = None
) -> Explanation:
    """What would happen to a call with these checked arguments; without any, to calls of the tool at all.

    Arguments that are not refused as they came are converted, by the author's validators too. Raises
    InvalidArgumentsError, or whatever those raise.
    """
    decision = access.decide(principal, tool)
    received = None if arguments is None else _receive(decision, tool, arguments)
    verdict, judgement = _judge(decision, arguments, received)
    policy = access.policy
    return Explanation(
        tool=tool.name,
        principal=principal.name,
        roles=tuple(roles_of(principal, policy)),
        scopes=tuple(sorted(principal.scopes)),
        verdict=verdict,
        rule=decision.rule if judgement is None else judgement.rule,
        because=None if judgement is None else judgement.because,
        steps=tuple(_steps(access, tool, decision.case, arguments, received)),
        default="deny" if policy.denies_by_default else "allow",
        needed=tuple(access.needed_scopes(tool)),
        missing=decision.missing,
        confirm=_confirm_of(judgement),
        limits=tuple(_limits(policy, principal, tool)),
        witness=_witness(decision, tool),
    )


def _receive(decision: Decision, tool: Tool, arguments: dict[str, Any]) -> Received | None:
    """The arguments as the tool gets them, where it gets that far and may get others than those that came."""
    is_turned_away = not decision.is_visible or decision.missing or not decision.judge(arguments).is_allowed
    if is_turned_away or not decision.case.compares_received:
        return None
    check = tool.arguments
    return check.receive(arguments, check.convert(arguments))


def _witness(decision: Decision, tool: Tool) -> Mapping[str, Any] | None:
    """Arguments that pass in both forms. Those that cannot be converted by themselves are not shown."""
    found = decision.witness
    try:
        received = None if not found else _receive(decision, tool, dict(found))
    except Exception:  # the author's code was given values that were made up
        return None
    return found if found is None or decision.judge(found, received).is_allowed else None


def _judge(
    decision: Decision, arguments: Mapping[str, Any] | None, received: Received | None
) -> tuple[Verdict, Judgement | None]:
    """In the order of a call: is it there, is a scope missing, may it be with these arguments."""
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


def _confirm_of(judgement: Judgement | None) -> str | None:
    confirm = None if judgement is None else judgement.confirm
    return None if confirm is None else f"{confirm.rule}: {confirm.words}" if confirm.words else confirm.rule


def _steps(
    access: Access,
    tool: Tool,
    case: Case,
    arguments: Mapping[str, Any] | None,
    received: Received | None,
) -> Iterator[Step]:
    clauses = {clause.number: clause for clause in (*case.denies, *case.allows, *case.confirms)}
    for rule in access.rules:
        if rule.number in clauses:
            yield _step(clauses[rule.number], rule.effect, arguments, received)
        elif rule.tools.matches(tool):
            yield Step(rule.effect, rule.label, False, f"it is for {', '.join(rule.rule.who)}")


def _step(
    clause: Clause, effect: str, arguments: Mapping[str, Any] | None, received: Received | None
) -> Step:
    if not clause.conditions:
        return Step(effect, clause.label, True, "whatever the arguments")
    if arguments is None:
        words = " and ".join(_say_condition(condition) for condition in clause.conditions)
        return Step(effect, clause.label, None, f"where {words}")
    verdicts = [(item, item.holds(arguments, received)) for item in clause.conditions]
    judged = [(item, held is True if effect == "allow" else held is not False) for item, held in verdicts]
    counts = all(is_met for _, is_met in judged)
    said = [item for item, is_met in judged if counts or not is_met]
    link = " and " if counts else ", "
    words = link.join(f"{_say_condition(item)} ({_say_found(item, arguments, received)})" for item in said)
    return Step(effect, clause.label, counts, words if counts else f"it wants {words}")


def _say_condition(condition: Condition) -> str:
    return f"{condition.reach.path} {condition.demand}"


def _say_found(condition: Condition, arguments: Mapping[str, Any], received: Received | None) -> str:
    """What is there, in words: it was given, it is a default, or it is nothing; and what the tool gets."""
    found = condition.reach.find(arguments)
    said = dict.fromkeys(
        "not given" if value is ABSENT else f"{'it is' if is_given else 'by default it is'} {_show(value)}"
        for value, is_given in found
    )
    for value in () if received is None else condition.reach.find_received(received):
        if value is OPAQUE:
            said["the tool gets what cannot be compared"] = None
        elif not is_nothing(value) and not any(is_same(value, item) for item, _ in found):
            said[f"the tool gets {_show(value)}"] = None
    more = [f"and {len(said) - _MAX_VALUES} more"] if len(said) > _MAX_VALUES else []
    return ", ".join([*list(said)[:_MAX_VALUES], *more])


def _show(value: Any) -> str:
    text = codec.encode_text(value)
    return text if len(text) <= _MAX_WORDS else f"{text[:_MAX_WORDS]}..."


def _limits(policy: Policy, principal: Principal, tool: Tool) -> Iterator[str]:
    for number, limit in enumerate(policy.limits, start=1):
        key = f"limits[{number}]"
        if not ToolSelector(policy, f"{key}.tools", limit.tools).matches(tool):
            continue
        if PrincipalSelector(policy, f"{key}.who", limit.who).matches(principal):
            yield f"limit {number}{_quote(limit.name)}: {_say_limit(limit)}"


def _quote(name: str | None) -> str:
    return f' "{name}"' if name else ""


def _say_limit(limit: Limit) -> str:
    shared = {
        "rate": f"{limit.rate}",
        "concurrency": f"{limit.concurrency} at once",
        "daily": f"{limit.daily} a day",
    }
    each = {
        "timeout_s": f"at most {limit.timeout_s or 0:g} s",
        "max_arguments_bytes": f"arguments of at most {limit.max_arguments_bytes} bytes",
        "max_result_bytes": f"a result of at most {limit.max_result_bytes} bytes",
    }
    counted = [words for key, words in shared.items() if getattr(limit, key) is not None]
    said = [words for key, words in each.items() if getattr(limit, key) is not None]
    if counted:
        per = " and ".join(f"each {part}" for part in limit.per.split("+")) if limit.per != "all" else "all"
        said.insert(0, f"{', '.join(counted)} for {per}")
    return "; ".join(said)


def say_decider(explanation: Explanation) -> str:
    """What decided, with the default in words."""
    return f"the default, {explanation.default}" if explanation.rule == DEFAULT else explanation.rule
