"""What is written in a policy and comes to nothing: found at the start, all of it, and not at the first call.

Knows rules, scopes and the tools there are; refuses to know whether that ends anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from toolcrib.config.settings import Policy
from toolcrib.errors import ConfigurationError
from toolcrib.policy.access.conditions import Demand, Reach
from toolcrib.policy.access.decision import Condition
from toolcrib.policy.access.rules import CompiledRule
from toolcrib.policy.access.solver import can_hold
from toolcrib.policy.selectors import ToolSelector
from toolcrib.registry.index import spellings
from toolcrib.registry.selection import tags_of
from toolcrib.tool import Tool

_MAX_NAMES = 8


def check_rules(
    policy: Policy, rules: Sequence[CompiledRule], tools: Sequence[Tool]
) -> Iterator[ConfigurationError]:
    for rule in rules:
        yield from _find_idle(policy, f"{rule.key}.{rule.effect}", rule.tools, tools)
        meant = [tool for tool in tools if rule.tools.matches(tool)]
        for path, demand in rule.demands.items():
            error = _check_condition(policy, rule, path, demand, meant)
            if error is not None:
                yield error


def check_scopes(
    policy: Policy, scopes: Mapping[str, ToolSelector], tools: Sequence[Tool]
) -> Iterator[ConfigurationError]:
    for scope, match in scopes.items():
        yield from _find_idle(policy, f"scopes.{scope}", match, tools)


def _find_idle(
    policy: Policy, key: str, match: ToolSelector, tools: Sequence[Tool]
) -> Iterator[ConfigurationError]:
    for selector in match.unmatched(tools):
        yield policy.error_at(key, f"{selector!r} matches no tool", _suggest(selector, tools))


def _check_condition(
    policy: Policy, rule: CompiledRule, path: str, demand: Demand, meant: Sequence[Tool]
) -> ConfigurationError | None:
    if not meant:
        return None  # which was said already
    key = f"{rule.key}.when.{path}"
    reaches = [(tool, Reach(path, tool)) for tool in meant]
    having = [(tool, reach) for tool, reach in reaches if reach.is_possible]
    if not having:
        names = sorted({name for _, reach in reaches for name in reach.root.get("properties", {})})
        return policy.error_at(key, f"{_say(meant)} no such argument", _choose(path, names))
    if any(can_hold(Condition(reach, demand), permits=rule.effect == "allow") for _, reach in having):
        return None
    takes = _say_tools([tool for tool, _ in having])
    return policy.error_at(key, f"can never hold: {takes} no such value there", f"it says: {path} {demand}")


def _say(tools: Sequence[Tool]) -> str:
    return f"{_name(tools)} {'has' if len(tools) == 1 else 'have'}"


def _say_tools(tools: Sequence[Tool]) -> str:
    return f"{_name(tools)} {'takes' if len(tools) == 1 else 'take'}"


def _name(tools: Sequence[Tool]) -> str:
    names = list(dict.fromkeys(tool.name for tool in tools))
    return f"'{names[0]}'" if len(names) == 1 else f"the {len(names)} tools that it is about"


def _suggest(selector: str, tools: Sequence[Tool]) -> str | None:
    kind, colon, rest = selector.partition(":")
    if not colon:
        return _choose(selector, [name for tool in tools for name in spellings(tool)])
    if kind == "tag":
        return _choose(rest, sorted({tag for tool in tools for tag in tags_of(tool)}))
    if kind == "namespace":
        return _choose(rest, sorted({tool.namespace for tool in tools if tool.namespace}))
    return None


def _choose(word: str, known: Sequence[str]) -> str | None:
    close = get_close_matches(word, known)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    if not known:
        return None
    more = f" and {len(known) - _MAX_NAMES} more" if len(known) > _MAX_NAMES else ""
    return f"there are: {', '.join(known[:_MAX_NAMES])}{more}"
