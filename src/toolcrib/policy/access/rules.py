"""The rules of a policy: compiled for matching, and checked against the tools that exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import PurePath

from toolcrib.config.settings import Policy, Rule
from toolcrib.errors import ConfigurationError, ErrorCollector
from toolcrib.policy.access.conditions import ArgumentPath, Predicate, parse_predicate
from toolcrib.policy.access.decision import Condition, ToolRule
from toolcrib.policy.access.satisfiability import can_hold
from toolcrib.policy.selectors import PrincipalSelector, ToolSelector
from toolcrib.registry.index import spellings
from toolcrib.registry.selection import tags_of
from toolcrib.tool import Tool

_MAX_NAMES = 8


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

    def bind(self, tool: Tool) -> ToolRule:
        """Return the rule for one tool."""
        items = self.predicates.items()
        conditions = (Condition(ArgumentPath(path, tool), predicate) for path, predicate in items)
        return ToolRule(self.number, self.label, self.rule.because, tuple(conditions))


def _label(policy: Policy, number: int, rule: Rule) -> str:
    """Name a rule by number, name and location: `rule 2 "small refunds" (toolcrib.toml:14)`."""
    name = f' "{rule.name}"' if rule.name else ""
    line = policy.lines.get(f"rules[{number}]")
    file = PurePath(policy.file).name if policy.file else None
    location = f" ({file}:{line})" if file and line else f" ({file})" if file else ""
    return f"rule {number}{name}{location}"


# --- checks at the start ---


def check_rules(
    policy: Policy, rules: Sequence[CompiledRule], tools: Sequence[Tool]
) -> Iterator[ConfigurationError]:
    """Find selectors that match no tool, and conditions that can never hold."""
    for rule in rules:
        yield from _check_selectors(policy, f"{rule.key}.{rule.effect}", rule.tools, tools)
        matched = [tool for tool in tools if rule.tools.matches(tool)]
        for path, predicate in rule.predicates.items() if matched else ():
            error = _check_condition(policy, rule, path, predicate, matched)
            if error is not None:
                yield error


def check_scopes(
    policy: Policy, scopes: Mapping[str, ToolSelector], tools: Sequence[Tool]
) -> Iterator[ConfigurationError]:
    for scope, match in scopes.items():
        yield from _check_selectors(policy, f"scopes.{scope}", match, tools)


def _check_selectors(
    policy: Policy, key: str, match: ToolSelector, tools: Sequence[Tool]
) -> Iterator[ConfigurationError]:
    for selector in match.unmatched(tools):
        yield policy.error_at(key, f"{selector!r} matches no tool", _suggest_selector(selector, tools))


def _check_condition(
    policy: Policy, rule: CompiledRule, path: str, predicate: Predicate, tools: Sequence[Tool]
) -> ConfigurationError | None:
    key = f"{rule.key}.when.{path}"
    paths = [(tool, ArgumentPath(path, tool)) for tool in tools]
    possible = [(tool, argument) for tool, argument in paths if argument.is_possible]
    if not possible:
        names = sorted({name for _, argument in paths for name in argument.root.get("properties", {})})
        verb = "has" if len(tools) == 1 else "have"
        return policy.error_at(key, f"{_name_tools(tools)} {verb} no such argument", _suggest(path, names))
    permits = rule.effect == "allow"
    if any(can_hold(Condition(argument, predicate), tool, permits=permits) for tool, argument in possible):
        return None
    having = [tool for tool, _ in possible]
    verb = "accepts" if len(having) == 1 else "accept"
    message = f"can never hold: {_name_tools(having)} {verb} no such value"
    return policy.error_at(key, message, f"the condition is: {path} {predicate}")


def _name_tools(tools: Sequence[Tool]) -> str:
    names = list(dict.fromkeys(tool.name for tool in tools))
    return f"'{names[0]}'" if len(names) == 1 else f"the {len(names)} tools of this rule"


def _suggest_selector(selector: str, tools: Sequence[Tool]) -> str | None:
    kind, colon, rest = selector.partition(":")
    if not colon:
        return _suggest(selector, [name for tool in tools for name in spellings(tool)])
    if kind == "tag":
        return _suggest(rest, sorted({tag for tool in tools for tag in tags_of(tool)}))
    if kind == "namespace":
        return _suggest(rest, sorted({tool.namespace for tool in tools if tool.namespace}))
    return None


def _suggest(word: str, known: Sequence[str]) -> str | None:
    close = get_close_matches(word, known)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    if not known:
        return None
    more = f" and {len(known) - _MAX_NAMES} more" if len(known) > _MAX_NAMES else ""
    return f"available: {', '.join(known[:_MAX_NAMES])}{more}"
