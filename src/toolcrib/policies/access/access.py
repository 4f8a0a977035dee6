"""May they: one decision for a caller and a tool, from which both the list and the call follow.

Knows rules, roles and scopes; remembers what it decided. Refuses to know how often somebody calls, and the
wire.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.context import LOCAL, Principal
from toolcrib.errors import ConfigurationError
from toolcrib.policies.access.checking import check_rules, check_scopes
from toolcrib.policies.access.decision import DEFAULT, Case, Decision, Judgement, ask_for
from toolcrib.policies.access.rules import CompiledRule
from toolcrib.policies.access.witness import find_witness
from toolcrib.policies.matching import ToolMatch
from toolcrib.policy import Effect, Policy
from toolcrib.tool import Tool

MAX_DECISIONS = 65_536
MAX_CALLERS = 10_000
MAX_VIEWS = 1_000


class Access:
    """The rules and scopes of one policy. Raises ConfigurationError for what cannot be understood."""

    __slots__ = (
        "_decisions",
        "_scopes",
        "_shared",
        "_tools",
        "_views",
        "depends_on_principal",
        "policy",
        "rules",
    )

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.rules = [CompiledRule(policy, number, rule) for number, rule in enumerate(policy.rules, start=1)]
        self._scopes = {
            scope: ToolMatch(policy, f"scopes.{scope}", selectors)
            for scope, selectors in policy.scopes.items()
        }
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
        self._tools: tuple[Tool, ...] = ()
        self._views: dict[Principal, tuple[Tool, ...]] = {}
        self._shared: dict[tuple[Tool, ...], tuple[Tool, ...]] = {}

    # --- seen and callable ---

    def decide(self, principal: Principal, tool: Tool) -> Decision:
        key = (principal, tool)
        decision = self._decisions.get(key)
        if decision is None:
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions = {}
            decision = self._decisions[key] = self._decide(principal, tool)
        return decision

    def is_visible(self, principal: Principal, tool: Tool) -> bool:
        return self.decide(principal, tool).is_visible

    def view(self, principal: Principal, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Those of the tools that a caller may see: one object for all who may see the same."""
        if tools is not self._tools:
            self.forget()  # tools that are gone must not be kept by what was decided about them
            self._tools = tools
        who = principal if self.depends_on_principal else LOCAL
        view = self._views.get(who)
        if view is None:
            if len(self._views) >= MAX_CALLERS:
                self._views = {}
            if len(self._shared) >= MAX_VIEWS:
                self._shared = {}
            seen = tuple(tool for tool in tools if self.decide(who, tool).is_visible)
            view = tools if len(seen) == len(tools) else self._shared.setdefault(seen, seen)
            self._views[who] = view
        return view

    # --- deciding ---

    def needed_scopes(self, tool: Tool) -> list[str]:
        """Every scope that a tool asks for, by itself and by the policy."""
        by_policy = (scope for scope, match in self._scopes.items() if match.fits(tool))
        return sorted({*tool.options.scopes, *by_policy})

    def missing_scopes(self, principal: Principal, tool: Tool) -> tuple[str, ...]:
        """Those that a caller lacks. Where nobody can show who they are, the local user holds them all."""
        if self.policy.auth is None and principal.name == LOCAL.name:
            return ()
        return tuple(scope for scope in self.needed_scopes(tool) if scope not in principal.scopes)

    def case_of(self, principal: Principal, tool: Tool) -> Case:
        """Every rule that is about both."""
        about: dict[Effect, list[CompiledRule]] = {"deny": [], "allow": [], "confirm": []}
        for rule in self.rules:
            if rule.fits(principal, tool):
                about[rule.effect].append(rule)
        denies, allows, confirms = (tuple(rule.bind(tool) for rule in rules) for rules in about.values())
        return Case(denies, allows, confirms, self.policy.denies_by_default)

    def _decide(self, principal: Principal, tool: Tool) -> Decision:
        case = self.case_of(principal, tool)
        missing = self.missing_scopes(principal, tool)
        refusal = next((clause for clause in case.denies if not clause.conditions), None)
        if refusal is not None:
            return _hide(case, Judgement(False, refusal.label, refusal.because), missing)
        if case.needs_allowing and not case.allows:
            return _hide(case, Judgement(False, DEFAULT), missing)
        if not case.denies and case.is_open:
            return _show(case, missing)
        search = find_witness(case)
        if not search.may_pass:
            return _hide(case, _blame(case), missing)
        clause = (*case.denies, *case.allows)[0]
        return Decision(True, clause.label, case, missing, witness=search.witness)


def _hide(case: Case, judgement: Judgement, missing: tuple[str, ...]) -> Decision:
    return Decision(False, judgement.rule, case, missing, judgement)


def _show(case: Case, missing: tuple[str, ...]) -> Decision:
    """A tool that may be called with any arguments; somebody may have to agree to some."""
    rule = next((clause.label for clause in case.allows if not clause.conditions), DEFAULT)
    if any(clause.conditions for clause in case.confirms):
        return Decision(True, rule, case, missing, witness={})
    confirm = ask_for(case.confirms) if case.confirms else None
    return Decision(True, rule, case, missing, Judgement(True, rule, None, confirm), confirm is None, {})


def _blame(case: Case) -> Judgement:
    """No arguments pass. Whatever denies some is named, or what would have to allow them."""
    if case.denies:
        return Judgement(False, case.denies[0].label, case.denies[0].because)
    return case.refuse()
