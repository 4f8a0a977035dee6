"""Whether a rule or a limit is about this tool and this caller.

Knows selectors of tools, names of callers and roles; refuses to know what follows from a match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from toolcrib.config.settings import Policy
from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError, ErrorCollector
from toolcrib.registry.selection import read_selector
from toolcrib.tool import Tool


class ToolMatch:
    """The tools that any of some selectors means. Asks each tool once."""

    __slots__ = ("_tests", "selectors")

    def __init__(self, policy: Policy, key: str, selectors: Sequence[str]) -> None:
        self.selectors = selectors
        self._tests: list[Callable[[Tool], bool]] = []
        problems = ErrorCollector()
        for selector in selectors:
            with problems.collecting():
                try:
                    self._tests.append(read_selector(selector))
                except ConfigurationError as error:
                    raise policy.error_at(key, error.message, error.hint) from None
        problems.raise_errors()

    def fits(self, tool: Tool) -> bool:
        return any(test(tool) for test in self._tests)

    def idle(self, tools: Sequence[Tool]) -> list[str]:
        """The selectors that mean none of the tools."""
        pairs = zip(self.selectors, self._tests, strict=True)
        return [selector for selector, test in pairs if not any(test(tool) for tool in tools)]


class WhoMatch:
    """The callers that any of some names or roles means; no names, everybody."""

    __slots__ = ("_names", "_roles", "_table")

    def __init__(self, policy: Policy, key: str, who: Sequence[str]) -> None:
        self._names = tuple(name for name in who if not name.startswith("role:"))
        self._roles = tuple(name.removeprefix("role:") for name in who if name.startswith("role:"))
        self._table: Mapping[str, Sequence[str]] = policy.roles
        brings_roles = policy.auth is not None  # keys and tokens have roles of their own
        problems = ErrorCollector()
        for role in self._roles:
            with problems.collecting():
                if role not in policy.roles and not brings_roles:
                    known = ", ".join(sorted(policy.roles)) or "none are defined"
                    raise policy.error_at(key, f"there is no role {role!r}", f"roles: {known}")
        if policy.file is not None:  # code may have callers of its own
            places = {f"roles.{role}": policy.roles.get(role, ()) for role in self._roles}
            for place, names in {key: self._names, **places}.items():
                for name in names:
                    with problems.collecting():
                        _refuse_nobody(policy, place, name)
        problems.raise_errors()

    def fits(self, principal: Principal) -> bool:
        if not self._names and not self._roles:
            return True
        if any(fnmatchcase(principal.name, name) for name in self._names):
            return True
        return any(self._has(principal, role) for role in self._roles)

    def _has(self, principal: Principal, role: str) -> bool:
        return role in principal.roles or any(
            fnmatchcase(principal.name, name) for name in self._table.get(role, ())
        )


def _refuse_nobody(policy: Policy, key: str, name: str) -> None:
    """A name that no caller has: a rule that denies it something would deny nobody."""
    labels = () if policy.auth is None else tuple(each.label for each in policy.auth.oauth)
    kinds = ("key", "oauth", *labels)
    kind, colon, _ = name.partition(":")
    if name in ("local", "anonymous") or (colon and kind in kinds) or any(mark in name for mark in "*?["):
        return
    hint = "names are: local, anonymous, key:NAME, oauth:SUBJECT, role:NAME"
    raise policy.error_at(key, f"nobody who calls is named {name!r}", hint)


def roles_of(principal: Principal, policy: Policy) -> list[str]:
    """Every role that a caller has, its own and those that the policy gives it."""
    given = (
        role
        for role, names in policy.roles.items()
        if any(fnmatchcase(principal.name, name) for name in names)
    )
    return sorted({*principal.roles, *given})
