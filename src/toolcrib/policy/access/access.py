"""May they: one decision for a caller and a tool, from which both the list and the call follow.

Knows rules, roles and scopes; remembers what it decided. Refuses to know how often somebody calls, and the
wire.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from toolcrib.config.settings import Policy
from toolcrib.context import LOCAL, Principal
from toolcrib.errors import ConfigurationError, ErrorCollector
from toolcrib.policy.access.checks import check_rules, check_scopes
from toolcrib.policy.access.conditions import is_changing
from toolcrib.policy.access.decision import DEFAULT, Case, Decision, Judgement, ask_for
from toolcrib.policy.access.rules import CompiledRule
from toolcrib.policy.access.solver import find_witness
from toolcrib.policy.selectors import ToolSelector
from toolcrib.tool import Tool

MAX_DECISIONS = 65_536
MAX_CALLERS = 10_000
MAX_VIEWS = 1_000


class Access:
    """The rules and scopes of one policy. Raises ConfigurationError for what cannot be understood; given
    `problems`, it keeps that there instead, and does without."""

    __slots__ = (
        "_about",
        "_cases",
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
        self.forget()

    def check(self, tools: Sequence[Tool]) -> list[ConfigurationError]:
        """Everything that means none of these tools, or can never come about."""
        return [
            *check_rules(self.policy, self.rules, tools),
            *check_scopes(self.policy, self._scopes, tools),
        ]

    def forget(self) -> None:
        """Let go of every tool that was seen."""
        self._decisions: dict[tuple[Principal, Tool], Decision] = {}
        self._cases: dict[tuple[Any, ...], Decision] = {}
        self._about: dict[Tool, tuple[list[CompiledRule], list[str]]] = {}
        self._views = _Views(())

    # --- seen and callable ---

    def decide(self, principal: Principal, tool: Tool) -> Decision:
        key = (principal, tool)
        decision = self._decisions.get(key)
        if decision is None:
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions, self._cases, self._about = {}, {}, {}
            decision = self._decisions[key] = self._decide(principal, tool)
        return decision

    def is_visible(self, principal: Principal, tool: Tool) -> bool:
        return self.decide(principal, tool).is_visible

    def view(self, principal: Principal, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Those of the tools that a caller may see: one object for all who may see the same."""
        views = self._views
        if tools is not views.tools:
            self.forget()  # tools that are gone must not be kept by what was decided about them
            views = self._views = _Views(tools)
        who = principal if self.depends_on_principal else LOCAL
        view = views.by_caller.get(who)
        if view is None:
            view = views.keep(who, tuple(tool for tool in tools if self.decide(who, tool).is_visible))
        return view

    # --- deciding ---

    def needed_scopes(self, tool: Tool) -> list[str]:
        """Every scope that a tool asks for, by itself and by the policy."""
        return self._demands_on(tool)[1]

    def missing_scopes(self, principal: Principal, tool: Tool) -> tuple[str, ...]:
        """Those that a caller lacks. Where nobody can show who they are, the local user holds them all."""
        held: Collection[str] = principal.scopes
        if principal.name == LOCAL.name:
            if self.policy.auth is None or "*" in self.policy.local_scopes:
                return ()
            held = {*held, *self.policy.local_scopes}
        return tuple(scope for scope in self.needed_scopes(tool) if scope not in held)

    def _demands_on(self, tool: Tool) -> tuple[list[CompiledRule], list[str]]:
        """The rules about a tool, whoever calls it, and the scopes that it needs."""
        found = self._about.get(tool)
        if found is None:
            by_policy = (scope for scope, match in self._scopes.items() if match.matches(tool))
            rules = [rule for rule in self.rules if rule.tools.matches(tool)]
            found = self._about[tool] = (rules, sorted({*tool.options.scopes, *by_policy}))
        return found

    def _decide(self, principal: Principal, tool: Tool) -> Decision:
        """Callers whom the same rules are about, and who lack the same scopes, share one decision."""
        rules = [rule for rule in self._demands_on(tool)[0] if rule.who.matches(principal)]
        missing = self.missing_scopes(principal, tool)
        key = (tool, missing, *(rule.number for rule in rules))
        decision = self._cases.get(key)
        if decision is None:
            decision = self._cases[key] = self._weigh(tool, rules, missing)
        return decision

    def _weigh(self, tool: Tool, rules: Sequence[CompiledRule], missing: tuple[str, ...]) -> Decision:
        denies, allows, confirms = (
            tuple(rule.bind(tool) for rule in rules if rule.effect == effect)
            for effect in ("deny", "allow", "confirm")
        )
        if confirms:  # a person is shown all arguments
            compares = is_changing(tool)
        else:
            conditions = (item for clause in (*denies, *allows) for item in clause.conditions)
            compares = any(item.reach.is_changing for item in conditions)
        case = Case(denies, allows, confirms, self.policy.denies_by_default, compares)
        refusal = next((clause for clause in case.denies if not clause.conditions), None)
        if refusal is not None:
            return _hide(case, Judgement(False, refusal.label, refusal.because), missing)
        if case.needs_allowing and not case.allows:
            return _hide(case, Judgement(False, DEFAULT), missing)
        if not case.denies and case.is_open:
            return _show(case, missing)
        search = find_witness(case)
        if not search.may_pass:
            denial = search.denial
            judgement = Judgement(False, denial.label, denial.because) if denial else case.refuse()
            return _hide(case, judgement, missing)
        clause = (*case.denies, *case.allows)[0]
        return Decision(True, clause.label, case, missing, witness=search.witness)


class _Views:
    """Who sees what of some tools. Other tools get another one: a thread that looks at the old ones while
    they change writes nothing into what is said of the new ones."""

    __slots__ = ("by_caller", "shared", "tools")

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self.tools = tools
        self.by_caller: dict[Principal, tuple[Tool, ...]] = {}
        self.shared: dict[tuple[Tool, ...], tuple[Tool, ...]] = {}

    def keep(self, who: Principal, seen: tuple[Tool, ...]) -> tuple[Tool, ...]:
        if len(self.by_caller) >= MAX_CALLERS:
            self.by_caller = {}
        if len(self.shared) >= MAX_VIEWS:
            self.shared = {}
        view = self.tools if len(seen) == len(self.tools) else self.shared.setdefault(seen, seen)
        self.by_caller[who] = view
        return view


def _hide(case: Case, judgement: Judgement, missing: tuple[str, ...]) -> Decision:
    return Decision(False, judgement.rule, case, missing, judgement)


def _show(case: Case, missing: tuple[str, ...]) -> Decision:
    """A tool that may be called with any arguments; somebody may have to agree to some."""
    rule = next((clause.label for clause in case.allows if not clause.conditions), DEFAULT)
    if any(clause.conditions for clause in case.confirms):
        return Decision(True, rule, case, missing, witness={})
    confirm = ask_for(case.confirms) if case.confirms else None
    return Decision(True, rule, case, missing, Judgement(True, rule, None, confirm), confirm is None, {})
