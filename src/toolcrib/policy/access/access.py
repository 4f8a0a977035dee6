"""Access control: whether a principal may see and call a tool, and with which arguments.

`Access` has the rules of a policy, and makes one `Decision` for a principal and a tool. The decision judges
calls: `RuleSet.judge` is the only place where rules are applied to arguments. `ArgumentCheck` is what a call
meets.

On 2026-07-28 the answer to a confirmation comes back with a sealed state that is bound to the caller, the
tool and the exact arguments. Its mark can be used once, so that one yes is one call. Older clients are
asked while the call waits, which leaves nothing to use twice.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, NamedTuple

from toolcrib.component import Component
from toolcrib.config.settings import Policy, Rule
from toolcrib.context import CONFIRMATION, LOCAL, Answer, Channel, Elicitation, InputNeeded, Principal
from toolcrib.dispatch.calls import Call
from toolcrib.dispatch.middleware import Admission
from toolcrib.errors import (
    CannotAskError,
    ConfigurationError,
    DeniedError,
    ErrorCollector,
    InsufficientScopeError,
    NotConfirmedError,
    ToolNotFoundError,
)
from toolcrib.names import find_hidden
from toolcrib.policy.access.conditions import (
    ArgumentPath,
    Condition,
    Predicate,
    arguments_of,
    parse_predicate,
)
from toolcrib.policy.selectors import PrincipalSelector, ToolSelector, suggest
from toolcrib.registry.selection import count_kinds, label_of
from toolcrib.schema.received import Received
from toolcrib.state import StateHandle
from toolcrib.state.base import Check, Space, StateUnavailable, Write
from toolcrib.validation import codec

DEFAULT = "default"
Views = tuple[
    tuple[Component, ...],
    dict[Principal, tuple[Component, ...]],
    dict[tuple[Component, ...], tuple[Component, ...]],
]
"""All tools of a kind, which of them each principal sees, and every such selection once."""
Test = tuple[str, frozenset[type], Callable[[Any], bool]]
"""The name of an argument, and a test of values of these types."""
MAX_CALLERS = 10_000
MAX_VIEWS = 1_000

MAX_SHOWN = 200
MAX_NAMED = 20
STATE_S = 900.0
"""How long a used mark is remembered: longer than any state lives."""

_USED = Space("once", 100_000, 16 * 2**20, 0, 100_000, "refuse", durable=True)


# --- decisions ---


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
class ToolRule:
    """A rule that applies to a principal and a tool. Without conditions it always counts."""

    number: int
    effect: str
    label: str
    because: str | None
    conditions: tuple[Condition, ...] = ()

    def counts(self, arguments: Mapping[str, Any], received: Received | None = None) -> bool:
        """Whether all conditions certainly hold if the rule allows; else, whether they may hold."""
        for condition in self.conditions:
            verdict = condition.holds(arguments, received)
            if verdict is False or (verdict is None and self.effect == "allow"):
                return False
        return True


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
            if rule.counts(arguments, received):
                return Judgement(False, rule.label, rule.because)
        allowed_by = None if self.denies_by_default else DEFAULT
        for rule in self.allows:
            if not rule.conditions or rule.counts(arguments, received):
                allowed_by = rule.label
                break
        if allowed_by is None:
            return self.default_refusal()
        if self.confirms:
            holding = [rule for rule in self.confirms if rule.counts(arguments, received)]
            if holding:
                return Judgement(True, allowed_by, None, combine_confirmations(holding))
        return _allow(allowed_by)

    def compile(self) -> tuple[tuple[Test, ...], str | None]:
        """Return tests of single arguments, and the rule that allows the calls for which none of them holds.
        None for the rule: all calls have to be judged."""
        allowed_by = self.allows[0].label if self.allows else DEFAULT
        is_conditional = self.allows[0].conditions if self.allows else self.denies_by_default
        if is_conditional or self.confirms or any(len(rule.conditions) != 1 for rule in self.denies):
            return (), None
        conditions = (rule.conditions[0] for rule in self.denies)
        return tuple((each.name, each.kinds, each.test) for each in conditions), allowed_by

    def without(self, unknown: Collection[str]) -> RuleSet:
        """Return the rules as far as they are decided while some arguments are unknown: those that deny
        whatever these are, and those that may still allow."""

        def is_known(condition: Condition) -> bool:
            return condition.path.steps[0].name not in unknown

        denies = tuple(rule for rule in self.denies if all(map(is_known, rule.conditions)))
        allows = [replace(rule, conditions=tuple(filter(is_known, rule.conditions))) for rule in self.allows]
        return replace(self, denies=denies, allows=tuple(allows), confirms=())

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
    return Confirm(" and ".join(rule.label for rule in rules), words or None)


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The decision about a principal and a tool.

    A tool that is not visible does not exist for this principal: every call is denied. `missing` are scopes
    that are needed and not held. `constant` is the judgement of every call, where arguments do not matter;
    `is_final` says that it allows them without confirmation.
    """

    is_visible: bool
    rule: str
    rules: RuleSet
    missing: tuple[str, ...] = ()
    constant: Judgement | None = None
    is_final: bool = False

    @property
    def deciding_rule(self) -> str:
        """The scopes that are missing, or the label of the rule that decides about every call."""
        return f"scope {' '.join(self.missing)}" if self.missing and self.is_visible else self.rule

    def judge(self, arguments: Mapping[str, Any], received: Received | None = None) -> Judgement:
        """Judge a call with these checked arguments. `received` are the same as the tool gets them, if they
        may differ. What is refused without them is refused with them."""
        return self.constant or self.rules.judge(arguments, received)


# --- rules ---


class CompiledRule:
    """One rule of a policy. `number` counts from 1, as in errors: `rules[1]`."""

    __slots__ = ("effect", "is_for_all", "key", "label", "number", "predicates", "rule", "tools", "who")

    def __init__(self, policy: Policy, number: int, rule: Rule) -> None:
        self.number = number
        self.key = f"rules[{number}]"
        self.rule = rule
        self.effect = rule.effect
        self.label = _label(policy, number, rule)
        problems = ErrorCollector()
        with problems.collecting():
            self.tools = ToolSelector(policy, f"{self.key}.{rule.effect}", rule.tools)
        with problems.collecting():
            self.who = PrincipalSelector(policy, f"{self.key}.who", rule.who)
        self.is_for_all = not rule.who or "*" in rule.who
        self.predicates: dict[str, Predicate] = {}
        for path, given in rule.when.items():
            key = f"{self.key}.when.{path}"
            with problems.collecting():
                if not all(str(path).split(".")):
                    raise policy.error_at(
                        key, "not a path", "use argument names, with dots for the fields of objects"
                    )
                self.predicates[path] = parse_predicate(policy, key, given)
        problems.raise_errors()

    def bind(self, tool: Component) -> ToolRule:
        """Return the rule for one tool. Conditions on a file are those on the template of its folder."""
        items, of = self.predicates.items(), tool.member_of
        has = tool if of is None else of.template
        conditions = (Condition(ArgumentPath(path, has), predicate) for path, predicate in items)
        return ToolRule(self.number, self.effect, self.label, self.rule.because, tuple(conditions))


def _label(policy: Policy, number: int, rule: Rule) -> str:
    """Name a rule by number, name and location: `rule 2 "small refunds" (toolcrib.toml:14)`."""
    name = f' "{rule.name}"' if rule.name else ""
    line = policy.lines.get(f"rules[{number}]")
    file = PurePath(policy.file).name if policy.file else None
    location = f" ({file}:{line})" if file and line else f" ({file})" if file else ""
    return f"rule {number}{name}{location}"


# --- checks at the start ---


def check_rules(
    policy: Policy, rules: Sequence[CompiledRule], tools: Sequence[Component]
) -> Iterator[ConfigurationError]:
    """Find selectors that match no tool, arguments that no tool has, and values that none accepts."""
    for rule in rules:
        yield from rule.tools.check(tools)
        matched = [tool for tool in tools if rule.tools.matches(tool)]
        for path, predicate in rule.predicates.items() if matched else ():
            error = _check_condition(policy, rule, path, predicate, matched)
            if error is not None:
                yield error


def _check_condition(
    policy: Policy, rule: CompiledRule, path: str, predicate: Predicate, tools: Sequence[Component]
) -> ConfigurationError | None:
    key = f"{rule.key}.when.{path}"
    paths = [(tool, ArgumentPath(path, tool)) for tool in tools]
    possible = [(tool, argument) for tool, argument in paths if argument.is_possible]
    if not possible:
        names = sorted({name for _, argument in paths for name in argument.root.get("properties", {})})
        verb = "has" if len(tools) == 1 else "have"
        return policy.error_at(key, f"{_name_tools(tools)} {verb} no such argument", suggest(path, names))
    permits = rule.effect == "allow"  # it must hold as the argument is sent, whatever code makes of that
    for _, argument in possible:
        if (argument.is_coded and not permits) or all(map(argument.accepts, predicate.operators)):
            return None
    having = [tool for tool, _ in possible]
    verb = "accepts" if len(having) == 1 else "accept"
    message = f"can never hold: {_name_tools(having)} {verb} no such value"
    return policy.error_at(key, message, f"the condition is: {path} {predicate}")


def _name_tools(tools: Sequence[Component]) -> str:
    named = {tool.reference: tool for tool in tools}
    if len(named) == 1:
        return f"'{tools[0].name}'"
    return f"the {count_kinds(map(label_of, named.values()))} of this rule"


class _About(NamedTuple):
    """The rules about a tool, the scopes that it requires, and the decisions by missing scopes and rules."""

    rules: list[CompiledRule]
    scopes: list[str]
    decisions: dict[tuple[Any, ...], Decision]


class Access:
    """The rules and scopes of one policy, with a cache of decisions.

    Raises ConfigurationError for rules that are wrong; with `problems` given, collects the errors there and
    leaves those rules out.
    """

    def __init__(self, policy: Policy, problems: ErrorCollector | None = None) -> None:
        self.policy = policy
        found = ErrorCollector() if problems is None else problems
        self.rules: list[CompiledRule] = []
        for number, rule in enumerate(policy.rules, start=1):
            with found.collecting():
                self.rules.append(CompiledRule(policy, number, rule))
        self._scopes: dict[str, ToolSelector] = {}
        for scope, selectors in policy.scopes.items():
            with found.collecting():
                self._scopes[scope] = ToolSelector(policy, f"scopes.{scope}", selectors)
        if problems is None:
            found.raise_errors()
        self.depends_on_principal = any(
            rule.effect != "confirm" and not rule.is_for_all for rule in self.rules
        )
        self.clear()

    def check(self, tools: Sequence[Component]) -> list[ConfigurationError]:
        """Return everything that matches none of these tools."""
        found = list(check_rules(self.policy, self.rules, tools))
        for match in self._scopes.values():
            found += match.check(tools)
        return found

    def clear(self) -> None:
        """Drop all cached decisions and the tools they refer to."""
        self._about: dict[Component, _About] = {}
        self._views: dict[str, Views] = {}

    # --- visible and callable ---

    def decide(self, principal: Principal, tool: Component) -> Decision:
        """Principals to whom the same rules apply, and who lack the same scopes, share one decision."""
        about = self._requirements_of(tool)
        rules = [rule for rule in about.rules if rule.who.matches(principal)]
        missing = self.missing_scopes(principal, tool)
        key = (missing, *(rule.number for rule in rules))
        decision = about.decisions.get(key)
        if decision is None:
            decision = about.decisions[key] = _apply(self._bind(tool, rules), tool, missing)
        return decision

    def decide_call(
        self, principal: Principal, tool: Component, arguments: Mapping[str, Any] | None
    ) -> Decision:
        """Decide about the tool, or about the file that the template of a folder is read with."""
        file = tool.file_at(arguments)
        if file is None:
            return self.decide(principal, tool)
        decision = self.decide(principal, file)
        self._about.pop(file, None)  # callers may name any number of files
        return decision

    def is_visible(self, principal: Principal, tool: Component) -> bool:
        return self.decide(principal, tool).is_visible

    def view(self, principal: Principal, tools: tuple[Component, ...]) -> tuple[Component, ...]:
        """Return the tools that a principal may see: the same object for all who may see the same."""
        if not tools:
            return tools
        views = self._views.get(tools[0].kind)  # taken once: another thread may replace it
        if views is None or tools is not views[0]:
            if views is not None:
                self.clear()  # decisions must not keep removed tools alive
            views = self._views[tools[0].kind] = (tools, {}, {})
        _, by_principal, shared = views
        who = principal if self.depends_on_principal else LOCAL
        view = by_principal.get(who)
        if view is None:
            if len(by_principal) >= MAX_CALLERS:
                by_principal.clear()
            if len(shared) >= MAX_VIEWS:
                shared.clear()
            seen = tuple(tool for tool in tools if self.decide(who, tool).is_visible)
            view = by_principal[who] = tools if len(seen) == len(tools) else shared.setdefault(seen, seen)
        return view

    # --- deciding ---

    def needed_scopes(self, tool: Component) -> list[str]:
        """Return every scope that a tool requires, by itself and by the policy."""
        return self._requirements_of(tool).scopes

    def missing_scopes(self, principal: Principal, tool: Component) -> tuple[str, ...]:
        """Return the required scopes that a principal lacks. Without `auth` the local user has all."""
        held: Collection[str] = principal.scopes
        if principal.name == LOCAL.name:
            if self.policy.auth is None or "*" in self.policy.local_scopes:
                return ()
            held = {*held, *self.policy.local_scopes}
        return tuple(scope for scope in self.needed_scopes(tool) if scope not in held)

    def _requirements_of(self, tool: Component) -> _About:
        """Return what holds about a tool for any principal."""
        found = self._about.get(tool)
        if found is None:
            by_policy = (scope for scope, match in self._scopes.items() if match.matches(tool))
            rules = [rule for rule in self.rules if rule.tools.matches(tool)]
            found = self._about[tool] = _About(rules, sorted({*tool.options.scopes, *by_policy}), {})
        return found

    def _bind(self, tool: Component, rules: Sequence[CompiledRule]) -> RuleSet:
        denies, allows, confirms = (
            tuple(rule.bind(tool) for rule in rules if rule.effect == effect)
            for effect in ("deny", "allow", "confirm")
        )
        if confirms:  # a person is shown all arguments
            compares_received = bool(arguments_of(tool)[1].changing)
        else:
            conditions = (condition for rule in (*denies, *allows) for condition in rule.conditions)
            compares_received = any(condition.path.is_changing for condition in conditions)
        return RuleSet(denies, allows, confirms, self.policy.denies_by_default, compares_received)


def _apply(rules: RuleSet, tool: Component, missing: tuple[str, ...]) -> Decision:
    if tool.member_of is not None:  # a file of a folder: its path is known
        judged = rules.judge(tool.member_of.values)
        is_final = judged.is_allowed and judged.confirm is None
        return Decision(judged.is_allowed, judged.rule, rules, missing, judged, is_final)
    refusal = _find_refusal(rules)
    if refusal is not None:
        return Decision(False, refusal.rule, rules, missing, refusal)
    if rules.denies or not rules.is_open:
        return Decision(True, (*rules.denies, *rules.allows)[0].label, rules, missing)
    label = next((rule.label for rule in rules.allows if not rule.conditions), DEFAULT)
    if any(rule.conditions for rule in rules.confirms):
        return Decision(True, label, rules, missing)
    confirm = combine_confirmations(rules.confirms) if rules.confirms else None
    return Decision(True, label, rules, missing, Judgement(True, label, None, confirm), confirm is None)


def _find_refusal(rules: RuleSet) -> Judgement | None:
    """Return the refusal of calls with any arguments: a rule without conditions denies them, or none allows
    any."""
    denier = next((rule for rule in rules.denies if not rule.conditions), None)
    if denier is not None:
        return Judgement(False, denier.label, denier.because)
    return rules.default_refusal() if rules.denies_by_default and not rules.allows else None


# --- calls ---


def find_admission(
    access: Access, principal: Principal, tool: Component, unknown: Collection[str]
) -> Admission | None:
    """Return the test that access rules are for arguments, None if they do not look at any. `unknown` are
    arguments that will be known later."""
    if tool.is_folder and "path" not in unknown:

        def admits_file(given: Mapping[str, Any]) -> bool:
            decision = access.decide_call(principal, tool, given)
            return decision.is_visible and not decision.missing

        return admits_file
    decision, arguments = access.decide(principal, tool), tool.arguments
    if decision.constant is not None:
        return None
    rules = decision.rules.without(unknown)
    if unknown:
        schema = {key: value for key, value in arguments.schema.items() if key != "required"}
        arguments = replace(arguments, schema=schema)

    def admits(given: Mapping[str, Any]) -> bool:
        try:
            checked = arguments.check(given)
            is_allowed = rules.judge(checked).is_allowed
            if is_allowed and rules.compares_received:
                received = arguments.receive(checked, arguments.convert(checked))
                is_allowed = rules.judge(checked, received).is_allowed
            return is_allowed
        except Exception:  # arguments that are invalid, or fail in the author's code, pass no call either
            return False

    return admits


class ArgumentCheck:
    """Applies the rules that depend on arguments.

    The arguments are judged as they came, then as the tool gets them, then confirmed. So no validator of
    the tool sees arguments that are refused as they came, and a person is asked about the values that the
    tool is called with.
    """

    __slots__ = ("_judge", "_rule", "_storage", "_tests", "_tool")

    def __init__(self, tool: Component, decision: Decision, storage: StateHandle) -> None:
        self._tool = tool
        self._judge = decision.judge
        self._storage = storage
        self._tests, self._rule = decision.rules.compile() if decision.constant is None else ((), None)

    def __call__(self, call: Call, checked: dict[str, Any]) -> Awaitable[None] | None:
        if call.convert is None and self._rule is not None:  # nearly always
            for name, kinds, test in self._tests:
                value = checked.get(name)
                if type(value) not in kinds or test(value):
                    break
            else:
                call.record.rule = self._rule
                return None
        return self._check_further(call, checked, self._judge(checked))

    async def _check_further(self, call: Call, checked: dict[str, Any], judgement: Judgement) -> None:
        self._apply(call, judgement)
        received = None if call.convert is None else await call.convert()
        if received is not None:
            judgement = self._judge(checked, received)
            self._apply(call, judgement)
        if judgement.confirm is not None:
            shown = checked if received is None else received.shown()
            call.record.rule = judgement.confirm.rule  # it decides unless a person agrees
            try:
                words = judgement.confirm.words
                await confirm(self._tool, shown, words, call.prepare_questions(), self._storage, sent=checked)
            except NotConfirmedError:
                call.record.decision = "denied"
                raise
            call.record.rule = judgement.rule

    def _apply(self, call: Call, judgement: Judgement) -> None:
        """Note the rule that decides. Raise the error of a call that is denied."""
        call.record.rule = judgement.rule
        if not judgement.is_allowed:
            call.record.decision = "denied"
            if self._tool.kind == "resource" and not judgement.because:
                raise ToolNotFoundError(call.name)  # as if the whole resource were denied
            problem = f"{self._tool.label} may not be called with these arguments"
            raise DeniedError(f"{problem}: {judgement.because}" if judgement.because else f"{problem}.")


async def confirm(
    tool: Component,
    arguments: dict[str, Any],
    words: str | None,
    channel: Channel,
    storage: StateHandle,
    *,
    sent: dict[str, Any] | None = None,
) -> None:
    """Ask a person to agree to a call with these arguments, as the tool gets them. Raise NotConfirmedError,
    or InputNeeded where the client has to call again with the answer.

    The client calls again with a state that is bound to the arguments as they were `sent`. Where others are
    shown, the key of the question holds a digest of them: a yes counts only for the values that were shown.
    """
    key = CONFIRMATION
    if sent is not None and sent is not arguments:
        shown = codec.digest(arguments)
        key = key if shown == codec.digest(sent) else f"{key}.{shown}"
    question = Elicitation(_question(tool.name, arguments, words))
    try:
        replies = await channel.ask({key: question})
    except CannotAskError as error:
        reason = str(error).removeprefix("Cannot ask the user: ")
        message = f"{tool.label} requires confirmation by a person, and nobody can be asked: {reason}"
        raise NotConfirmedError(message, details=error.details) from None
    mark = channel.resumes
    if mark is not None and not await _use_once(mark, storage):
        raise InputNeeded({key: question})  # this yes was for a call that was made already
    answer = replies[key]
    if not isinstance(answer, Answer) or not answer:
        raise NotConfirmedError(f"{tool.label} was not run: the person did not agree.")


async def _use_once(mark: str, storage: StateHandle) -> bool:
    """Return whether a mark is used for the first time, in all processes. If that cannot be known, it is not:
    nothing is allowed twice."""
    try:
        use, unused = Write(_USED, mark, b"", STATE_S), Check(_USED, mark, 0)
        return await storage.engine.values.commit([use], [unused])
    except StateUnavailable:
        return False


def _question(tool: str, arguments: dict[str, Any], words: str | None) -> str:
    """Return the question, with the arguments as they will be used, so that it is clear what a yes means."""
    lines = [f"Run '{tool}'" + (" with these arguments?" if arguments else "?")]
    lines += [
        f"  {_printable(name)}: {_printable(value)}" for name, value in list(arguments.items())[:MAX_NAMED]
    ]
    if len(arguments) > MAX_NAMED:
        lines.append(f"  and {len(arguments) - MAX_NAMED} more")
    return "\n".join(([words] if words else []) + lines)


def _printable(value: Any) -> str:
    """Return a value as text in which nothing is invisible or looks like another line of the question."""
    text = value if isinstance(value, str) else codec.encode(value).decode()
    if find_hidden(text) is not None or "\n" in text:
        text = text.encode("unicode_escape").decode()
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}... ({len(text)} characters)"


def refuse(call: Call, decision: Decision) -> Exception:
    """Return the error of a call that no arguments can pass: a tool that a principal may never call does not
    exist for it; a missing scope is named."""
    if not decision.is_visible or call.tool is None:
        return ToolNotFoundError(call.name)
    problem = f"{call.tool.label} requires a scope that you do not have: {' '.join(decision.missing)}"
    return InsufficientScopeError(problem, details={"scopes": list(decision.missing)})
