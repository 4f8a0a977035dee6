"""Access control: whether a principal may see and call a tool."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from toolcrib.config.settings import Policy
from toolcrib.context import LOCAL, Principal
from toolcrib.errors import ConfigurationError, ErrorCollector
from toolcrib.policy.access.conditions import arguments_of
from toolcrib.policy.access.decision import DEFAULT, Decision, Judgement, RuleSet, combine_confirmations
from toolcrib.policy.access.rules import CompiledRule, check_rules, check_scopes
from toolcrib.policy.access.satisfiability import find_passing
from toolcrib.policy.selectors import ToolSelector
from toolcrib.tool import Tool

MAX_DECISIONS = 65_536
MAX_CALLERS = 10_000
MAX_VIEWS = 1_000


class Access:
    """The rules and scopes of one policy, with a cache of decisions.

    Raises ConfigurationError for rules that are wrong; with `problems` given, collects the errors there and
    leaves those rules out.
    """

    __slots__ = (
        "_about",
        "_by_rules",
        "_decisions",
        "_scopes",
        "_views",
        "depends_on_principal",
        "policy",
        "rules",
    )

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

    def check(self, tools: Sequence[Tool]) -> list[ConfigurationError]:
        """Return everything that matches none of these tools, or can never hold."""
        return [
            *check_rules(self.policy, self.rules, tools),
            *check_scopes(self.policy, self._scopes, tools),
        ]

    def clear(self) -> None:
        """Drop all cached decisions, and the tools they refer to."""
        self._decisions: dict[tuple[Principal, Tool], Decision] = {}
        self._by_rules: dict[tuple[Any, ...], Decision] = {}
        self._about: dict[Tool, tuple[list[CompiledRule], list[str]]] = {}
        self._views = _Views(())

    # --- visible and callable ---

    def decide(self, principal: Principal, tool: Tool) -> Decision:
        key = (principal, tool)
        decision = self._decisions.get(key)
        if decision is None:
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions, self._by_rules, self._about = {}, {}, {}
            decision = self._decisions[key] = self._decide(principal, tool)
        return decision

    def is_visible(self, principal: Principal, tool: Tool) -> bool:
        return self.decide(principal, tool).is_visible

    def view(self, principal: Principal, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Return the tools that a principal may see: the same object for all who may see the same."""
        views = self._views
        if tools is not views.tools:
            self.clear()  # decisions must not keep removed tools alive
            views = self._views = _Views(tools)
        who = principal if self.depends_on_principal else LOCAL
        view = views.by_principal.get(who)
        if view is None:
            view = views.add(who, tuple(tool for tool in tools if self.decide(who, tool).is_visible))
        return view

    # --- deciding ---

    def needed_scopes(self, tool: Tool) -> list[str]:
        """Return every scope that a tool requires, by itself and by the policy."""
        return self._requirements_of(tool)[1]

    def missing_scopes(self, principal: Principal, tool: Tool) -> tuple[str, ...]:
        """Return the required scopes that a principal lacks. Without `auth` the local user has all."""
        held: Collection[str] = principal.scopes
        if principal.name == LOCAL.name:
            if self.policy.auth is None or "*" in self.policy.local_scopes:
                return ()
            held = {*held, *self.policy.local_scopes}
        return tuple(scope for scope in self.needed_scopes(tool) if scope not in held)

    def _requirements_of(self, tool: Tool) -> tuple[list[CompiledRule], list[str]]:
        """Return the rules about a tool for any principal, and the scopes that it requires."""
        found = self._about.get(tool)
        if found is None:
            by_policy = (scope for scope, match in self._scopes.items() if match.matches(tool))
            rules = [rule for rule in self.rules if rule.tools.matches(tool)]
            found = self._about[tool] = (rules, sorted({*tool.options.scopes, *by_policy}))
        return found

    def _decide(self, principal: Principal, tool: Tool) -> Decision:
        """Principals to whom the same rules apply, and who lack the same scopes, share one decision."""
        rules = [rule for rule in self._requirements_of(tool)[0] if rule.who.matches(principal)]
        missing = self.missing_scopes(principal, tool)
        key = (tool, missing, *(rule.number for rule in rules))
        decision = self._by_rules.get(key)
        if decision is None:
            decision = self._by_rules[key] = _apply(self._bind(tool, rules), tool, missing)
        return decision

    def _bind(self, tool: Tool, rules: Sequence[CompiledRule]) -> RuleSet:
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


def _apply(rules: RuleSet, tool: Tool, missing: tuple[str, ...]) -> Decision:
    refusal = next((rule for rule in rules.denies if not rule.conditions), None)
    if refusal is not None:
        return _hide(rules, Judgement(False, refusal.label, refusal.because), missing)
    if rules.denies_by_default and not rules.allows:
        return _hide(rules, Judgement(False, DEFAULT), missing)
    if not rules.denies and rules.is_open:
        return _show(rules, missing)
    outcome = find_passing(rules, tool)
    if not outcome.may_pass:
        denial = outcome.denied_by
        refused = Judgement(False, denial.label, denial.because) if denial else rules.default_refusal()
        return _hide(rules, refused, missing)
    first = (*rules.denies, *rules.allows)[0]
    return Decision(True, first.label, rules, missing, witness=outcome.example)


def _hide(rules: RuleSet, judgement: Judgement, missing: tuple[str, ...]) -> Decision:
    return Decision(False, judgement.rule, rules, missing, judgement)


def _show(rules: RuleSet, missing: tuple[str, ...]) -> Decision:
    """Decide about a tool that may be called with any arguments, some of which may need confirmation."""
    label = next((rule.label for rule in rules.allows if not rule.conditions), DEFAULT)
    if any(rule.conditions for rule in rules.confirms):
        return Decision(True, label, rules, missing, witness={})
    confirm = combine_confirmations(rules.confirms) if rules.confirms else None
    return Decision(True, label, rules, missing, Judgement(True, label, None, confirm), confirm is None, {})


class _Views:
    """Which of some tools each principal sees. Replaced when the tools change, so that a thread that still
    looks at the old tools writes nothing into the new views."""

    __slots__ = ("by_principal", "shared", "tools")

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self.tools = tools
        self.by_principal: dict[Principal, tuple[Tool, ...]] = {}
        self.shared: dict[tuple[Tool, ...], tuple[Tool, ...]] = {}

    def add(self, who: Principal, seen: tuple[Tool, ...]) -> tuple[Tool, ...]:
        if len(self.by_principal) >= MAX_CALLERS:
            self.by_principal = {}
        if len(self.shared) >= MAX_VIEWS:
            self.shared = {}
        view = self.tools if len(seen) == len(self.tools) else self.shared.setdefault(seen, seen)
        self.by_principal[who] = view
        return view
