"""The rules of a policy, read once: who and what each is about, and what it demands of arguments.

Knows policies; refuses to know tools' schemas, and what rules come to when there are several.
"""

from __future__ import annotations

from pathlib import PurePath

from toolcrib.config.settings import Policy, Rule
from toolcrib.errors import ErrorCollector
from toolcrib.policy.access.conditions import Demand, Reach, read_demand
from toolcrib.policy.access.decision import Clause, Condition
from toolcrib.policy.selectors import PrincipalSelector, ToolSelector
from toolcrib.tool import Tool


class CompiledRule:
    """One rule that can be asked. `number` counts from 1, as in errors: `rules[1]`."""

    __slots__ = ("demands", "effect", "is_for_all", "key", "label", "number", "rule", "tools", "who")

    def __init__(self, policy: Policy, number: int, rule: Rule) -> None:
        self.number = number
        self.key = f"rules[{number}]"
        self.rule = rule
        self.effect = rule.effect
        self.label = say_rule(policy, number, rule)
        problems = ErrorCollector()
        with problems.collecting():
            self.tools = ToolSelector(policy, f"{self.key}.{rule.effect}", rule.tools)
        with problems.collecting():
            self.who = PrincipalSelector(policy, f"{self.key}.who", rule.who)
        self.is_for_all = not rule.who or "*" in rule.who
        self.demands: dict[str, Demand] = {}
        for path, given in rule.when.items():
            key = f"{self.key}.when.{path}"
            with problems.collecting():
                if not all(str(path).split(".")):
                    raise policy.error_at(
                        key, "is no path", "names of arguments, and dots to look into objects"
                    )
                self.demands[path] = read_demand(policy, key, given)
        problems.raise_errors()

    def bind(self, tool: Tool) -> Clause:
        """The rule as it is for one tool."""
        conditions = (Condition(Reach(path, tool), demand) for path, demand in self.demands.items())
        return Clause(self.number, self.label, self.rule.because, tuple(conditions))


def say_rule(policy: Policy, number: int, rule: Rule) -> str:
    """A rule by its number, its name and its place: `rule 2 "small refunds" (toolcrib.toml:14)`."""
    name = f' "{rule.name}"' if rule.name else ""
    line = policy.lines.get(f"rules[{number}]")
    file = PurePath(policy.file).name if policy.file else None
    place = f" ({file}:{line})" if file and line else f" ({file})" if file else ""
    return f"rule {number}{name}{place}"
