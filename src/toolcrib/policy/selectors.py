"""Selectors of tools and principals, as the rules and limits of a policy use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from toolcrib.component import Component
from toolcrib.config.settings import Policy
from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError, ErrorCollector
from toolcrib.registry.index import spellings
from toolcrib.registry.selection import KINDS, name_kinds, parse_selector, tags_of

_MAX_NAMES = 8


class ToolSelector:
    """The tools that match any of some selectors. `key` is where they are written in the policy."""

    __slots__ = ("_key", "_policy", "_selectors", "_tests")

    def __init__(self, policy: Policy, key: str, selectors: Sequence[str]) -> None:
        self._policy, self._key, self._selectors = policy, key, selectors
        self._tests: list[Callable[[Component], bool]] = []
        problems = ErrorCollector()
        for selector in selectors:
            with problems.collecting():
                try:
                    self._tests.append(parse_selector(selector))
                except ConfigurationError as error:
                    raise policy.error_at(key, error.message, error.hint) from None
        problems.raise_errors()

    def matches(self, tool: Component) -> bool:
        """Return whether a tool matches; a file of a folder also where the template of the folder does."""
        of = tool.member_of
        return any(test(tool) or (of is not None and test(of.template)) for test in self._tests)

    def check(self, tools: Sequence[Component]) -> Iterator[ConfigurationError]:
        """Yield an error for each selector that matches none of the tools."""
        for selector, test in zip(self._selectors, self._tests, strict=True):
            if selector != "*" and not any(test(tool) for tool in tools):
                message = f"{selector!r} matches no {name_kinds(selector, tools)}"
                yield self._policy.error_at(self._key, message, _suggest_selector(selector, tools))


def _suggest_selector(selector: str, tools: Sequence[Component]) -> str | None:
    kind, colon, rest = selector.partition(":")
    if kind in KINDS and colon:
        return suggest(rest, [name for tool in tools if tool.kind == kind for name in spellings(tool)])
    if not colon or rest.startswith("//"):
        return suggest(selector, [name for tool in tools for name in spellings(tool)])
    if kind == "tag":
        return suggest(rest, sorted({tag for tool in tools for tag in tags_of(tool)}))
    if kind == "namespace":
        return suggest(rest, sorted({tool.namespace for tool in tools if tool.namespace}))
    return None


def suggest(word: str, known: Sequence[str]) -> str | None:
    close = get_close_matches(word, known)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    if not known:
        return None
    more = f" and {len(known) - _MAX_NAMES} more" if len(known) > _MAX_NAMES else ""
    return f"available: {', '.join(known[:_MAX_NAMES])}{more}"


class PrincipalSelector:
    """The principals that match any of some names or roles; without names, all of them."""

    __slots__ = ("_members", "_names", "_roles")

    def __init__(self, policy: Policy, key: str, who: Sequence[str]) -> None:
        self._names = tuple(name for name in who if not name.startswith("role:"))
        self._roles = tuple(name.removeprefix("role:") for name in who if name.startswith("role:"))
        self._members: Mapping[str, Sequence[str]] = policy.roles
        problems = ErrorCollector()
        for role in self._roles:
            with problems.collecting():
                if role not in policy.roles and policy.auth is None:  # keys have their own roles
                    known = ", ".join(sorted(policy.roles)) or "none are defined"
                    raise policy.error_at(key, f"unknown role {role!r}", f"roles: {known}")
        if policy.file is not None:  # code may define principals of its own
            members = {f"roles.{role}": policy.roles.get(role, ()) for role in self._roles}
            for place, names in {key: self._names, **members}.items():
                for name in names:
                    with problems.collecting():
                        _check_name(policy, place, name)
        problems.raise_errors()

    def matches(self, principal: Principal) -> bool:
        if not self._names and not self._roles:
            return True
        if _is_any(principal, self._names):
            return True
        return any(
            role in principal.roles or _is_any(principal, self._members.get(role, ())) for role in self._roles
        )


def roles_of(principal: Principal, policy: Policy) -> list[str]:
    """Return every role of a principal, its own and those that the policy gives it."""
    given = (role for role, names in policy.roles.items() if _is_any(principal, names))
    return sorted({*principal.roles, *given})


def _is_any(principal: Principal, names: Sequence[str]) -> bool:
    return any(fnmatchcase(principal.name, name) for name in names)


def _check_name(policy: Policy, key: str, name: str) -> None:
    """Raise for a name that no principal can have: a rule that denies it something would have no effect."""
    labels = () if policy.auth is None else tuple(each.label for each in policy.auth.oauth)
    kinds = ("key", "oauth", *labels)
    kind, colon, _ = name.partition(":")
    if name in ("local", "anonymous") or (colon and kind in kinds) or any(mark in name for mark in "*?["):
        return
    hint = "names are: local, anonymous, key:NAME, oauth:SUBJECT, role:NAME"
    raise policy.error_at(key, f"no principal can be named {name!r}", hint)
