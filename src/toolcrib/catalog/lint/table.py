"""The table of lint rules, and the codes of findings that other parts of toolcrib report.

To add a rule, write it in the module of its subject and add it to that module's tuple. A package adds rules
with an entry point in the group `toolcrib.lint` that names a `Rule` or a sequence of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from types import MappingProxyType

from toolcrib.catalog.lint import (
    contradictions,
    credentials,
    descriptions,
    hidden_text,
    hints,
    injection,
    links,
    parameters,
    similarity,
)
from toolcrib.catalog.lint.rule import Rule
from toolcrib.errors import ConfigurationError
from toolcrib.registry.plugins import load_plugins

ENTRY_POINTS = "toolcrib.lint"
IGNORE_RULES = (
    Rule(
        "unknown-rule",
        "warning",
        "An ignore comment or setting names a rule that does not exist",
        "A misspelt code ignores nothing, and nobody notices.",
        "see `toolcrib lint --list-rules`",
    ),
    Rule(
        "idle-ignore",
        "advice",
        "An ignore comment has nothing to ignore",
        "The problem was fixed, or the comment is on the wrong line; it would hide the next problem there.",
        "remove the comment",
    ),
)
SUSPICION_RULES = (*injection.RULES, *credentials.RULES, *links.RULES, *hidden_text.RULES)
"""The rules for text that somebody may have planted."""

GROUPS: Mapping[str, tuple[Rule, ...]] = MappingProxyType(
    {
        "Names": descriptions.NAME_RULES,
        "Descriptions": descriptions.DESCRIPTION_RULES,
        "Parameters and results": parameters.RULES,
        "Contradictions": contradictions.RULES,
        "Hints": hints.RULES,
        "Cost": descriptions.COST_RULES,
        "Similar tools": similarity.RULES,
        "Planted instructions": injection.RULES,
        "Secrets": credentials.RULES,
        "URLs": links.RULES,
        "Hidden text": hidden_text.RULES,
        "Ignoring": IGNORE_RULES,
    }
)
RULES: Mapping[str, Rule] = MappingProxyType({rule.code: rule for rules in GROUPS.values() for rule in rules})
"""The built-in rules by code."""

SUSPICIONS = frozenset(rule.code for rule in SUSPICION_RULES) - {"pushes-itself"}
"""The codes that point at an attack. Honest servers promote themselves too."""

OTHERS: Mapping[str, str] = MappingProxyType(
    {
        "approximate-class": "a scan could read a class only approximately",
        "confusable-name": "a name looks like one that is taken",
        "duplicate-name": "a name is taken",
        "descriptor-stands-in": "a file describes tools whose code is not available",
        "foreign-*": "a server of another library uses a feature that tools do not have",
        "guessed-*": "a scan guessed something that only running the code would tell",
        "idle-switch": "a switch in toolcrib.toml has no effect",
        "implicit-optional": "a parameter defaults to None, which its hint does not allow",
        "invalid-configuration": "toolcrib.toml is invalid",
        "invalid-definition": "a definition cannot be published",
        "invalid-name": "a name is not allowed",
        "invalid-schema": "a schema is invalid or dangerous",
        "invalid-signature": "a signature cannot be a tool",
        "invalid-tool": "an object is not a tool",
        "low-level-server": "the tools of a server of another library cannot be read",
        "needs-arguments": "an application cannot be created without arguments",
        "no-marked-tools": "functions are not marked as tools",
        "no-tools": "a target has no tools",
        "nothing-described": "a descriptor has no tools",
        "other-decorator": "a scan found a decorator that may change the function",
        "shortened-name": "a name was too long and has been shortened",
        "stale-parameter": "the docstring describes a parameter that does not exist",
        "stale-type": "the docstring gives a type that the default contradicts",
        "starts-server": "importing a file starts a server",
        "table-mismatch": "a table of tools does not match its handlers",
        "unknown-type": "a hint is unknown, so any value is accepted",
        "unpublished-default": "a default has no JSON form",
        "unreadable-source": "tools cannot be read from a file, module or object",
        "unresolved-*": "a scan could not read a hint, a default, an option or a tool",
    }
)
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


def render_table() -> str:
    """Return the built-in rules as Markdown, for docs/linting.md."""
    lines = []
    for group, rules in GROUPS.items():
        lines += [
            f"### {group}",
            "",
            "| code | level | meaning | why it matters | fix |",
            "|---|---|---|---|---|",
        ]
        for rule in rules:
            fix = rule.fix.replace("|", "\\|")
            lines.append(f"| `{rule.code}` | {rule.level} | {rule.summary} | {rule.why} | {fix} |")
        lines.append("")
    lines += ["### From reading and building", "", "| code | meaning |", "|---|---|"]
    lines += [f"| `{code}` | {text} |" for code, text in OTHERS.items()]
    return "\n".join(lines) + "\n"
