"""The table of lint rules, and the codes of findings that other parts of toolcrib report.

The rules are listed in `data/rules.toml`. To add one, write its function in the module of its subject and add
an entry there. A package adds rules with an entry point in the group `toolcrib.lint` that names a `Rule` or a
sequence of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from toolcrib.catalog.lint import descriptions, injected, parameters
from toolcrib.catalog.lint.rule import Rule
from toolcrib.errors import ConfigurationError
from toolcrib.registry.plugins import load_plugins
from toolcrib.registry.selection import KINDS

ENTRY_POINTS = "toolcrib.lint"
_MODULES = {"descriptions": descriptions, "parameters": parameters, "injected": injected}


def _read_rule(entry: dict[str, Any]) -> Rule:
    for key in ("check", "check_all"):
        if key in entry:
            module, _, function = entry[key].partition(".")
            entry[key] = getattr(_MODULES[module], function)
    return Rule(**entry)


_DATA = tomllib.loads(Path(__file__).with_name("data").joinpath("rules.toml").read_text("utf-8"))
GROUPS: Mapping[str, tuple[Rule, ...]] = MappingProxyType(
    {str(group): tuple(map(_read_rule, entries)) for group, entries in _DATA["rules"].items()}
)
RULES: Mapping[str, Rule] = MappingProxyType({rule.code: rule for rules in GROUPS.values() for rule in rules})
"""The built-in rules by code."""

SUSPICION_RULES = tuple(
    rule for group in ("Injected instructions", "Secrets", "URLs", "Hidden text") for rule in GROUPS[group]
)
"""The rules for text that somebody may have injected."""
SUSPICIONS = frozenset(rule.code for rule in SUSPICION_RULES) - {"self-promotion"}
"""The codes that point at an attack. Honest servers promote themselves too."""

OTHERS: Mapping[str, str] = MappingProxyType(_DATA["other_codes"])
"""Codes of findings from reading and building tools, which have no rule; `*` stands for several."""


@cache
def load_groups() -> Mapping[str, tuple[Rule, ...]]:
    """Return the groups of rules, with those of plugins in the group "Plugins"."""
    added = tuple(rule for name, plugin in load_plugins(ENTRY_POINTS) for rule in _check_plugin(name, plugin))
    return MappingProxyType({**GROUPS, "Plugins": added} if added else GROUPS)


@cache
def load_rules() -> Mapping[str, Rule]:
    """Return all rules by code, with those of plugins."""
    return MappingProxyType({rule.code: rule for rules in load_groups().values() for rule in rules})


def _check_plugin(name: str, plugin: object) -> tuple[Rule, ...]:
    rules = (
        (plugin,) if isinstance(plugin, Rule) else tuple(plugin) if isinstance(plugin, list | tuple) else ()
    )
    if not rules or not all(isinstance(rule, Rule) for rule in rules):
        raise ConfigurationError(f"The plugin '{name}' ({ENTRY_POINTS}) is not a Rule or a sequence of them")
    for rule in rules:
        if rule.code in RULES:
            raise ConfigurationError(f"The plugin '{name}' ({ENTRY_POINTS}) redefines the rule '{rule.code}'")
    return rules


def is_known(code: str) -> bool:
    return code in load_rules() or describe_other(code) is not None


def describe_other(code: str) -> str | None:
    """Return what a code of reading and building means; None if there is no such code."""
    return next((text for pattern, text in OTHERS.items() if fnmatchcase(code, pattern)), None)


def name_kinds(rule: Rule) -> str:
    """Return what a rule looks at: `tools`, `tools, prompts`, `everything`."""
    return "everything" if len(rule.kinds) == len(KINDS) else ", ".join(f"{kind}s" for kind in rule.kinds)


def render_table() -> str:
    """Return the built-in rules as Markdown, for docs/linting.md."""
    lines = []
    for group, rules in GROUPS.items():
        lines += [
            f"### {group}",
            "",
            "| code | level | looks at | meaning | why it matters | fix |",
            "|---|---|---|---|---|---|",
        ]
        for rule in rules:
            fix = rule.fix.replace("|", "\\|")
            kinds = name_kinds(rule) if rule.check or rule.check_all else "comments"
            lines.append(f"| `{rule.code}` | {rule.level} | {kinds} | {rule.summary} | {rule.why} | {fix} |")
        lines.append("")
    lines += ["### From reading and building", "", "| code | meaning |", "|---|---|"]
    lines += [f"| `{code}` | {text} |" for code, text in OTHERS.items()]
    return "\n".join(lines) + "\n"
