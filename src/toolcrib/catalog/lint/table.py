"""All rules in one table, and the codes that others give: what `--list-rules`, `--explain` and the docs show.

Knows every rule by name; runs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType

from toolcrib.catalog.lint import contradictions, cost, credentials, names, parameters
from toolcrib.catalog.lint import descriptions as words
from toolcrib.catalog.lint import hidden_text as disguise
from toolcrib.catalog.lint import hints as risk
from toolcrib.catalog.lint import injection as planted
from toolcrib.catalog.lint import links as outward
from toolcrib.catalog.lint import similarity as likeness
from toolcrib.catalog.lint.rule import Rule

GROUPS: Mapping[str, tuple[Rule, ...]] = MappingProxyType(
    {
        "Names": names.RULES,
        "Words": words.RULES,
        "Parameters and results": parameters.RULES,
        "Contradictions": contradictions.RULES,
        "Hints": risk.RULES,
        "Cost": cost.RULES,
        "Tools among others": likeness.RULES,
        "Planted instructions": planted.RULES,
        "Secrets": credentials.RULES,
        "Addresses": outward.RULES,
        "Disguises": disguise.RULES,
        "Opt-outs": (
            Rule(
                "unknown-rule",
                "warning",
                "An opt-out names a rule that there is not",
                "A misspelt opt-out does nothing, and nobody notices.",
                "see `toolcrib lint --list-rules`",
            ),
            Rule(
                "idle-ignore",
                "advice",
                "An opt-out in the source has nothing to ignore",
                "It was mended, or stands in the wrong line; the next fault there goes unseen.",
                "remove the comment",
            ),
        ),
    }
)
RULES: Mapping[str, Rule] = MappingProxyType({rule.code: rule for rules in GROUPS.values() for rule in rules})

SUSPICIONS = frozenset(
    rule.code
    for group in (planted, credentials, outward, disguise)
    for rule in group.RULES
    if rule.code != "pushes-itself"
)
"""The rules that look for what somebody put in on purpose. Boasting is none of it."""

OTHERS: Mapping[str, str] = MappingProxyType(
    {
        "approximate-class": "a scan could read a class only nearly",
        "confusable-name": "a name looks like one that is taken",
        "duplicate-name": "a name is taken",
        "descriptor-stands-in": "a file describes tools whose code is not there",
        "foreign-*": "a server of another library does more than tools can",
        "guessed-*": "a scan had to guess what running would tell",
        "idle-switch": "a switch in toolcrib.toml turns nothing",
        "implicit-optional": "a parameter defaults to None, which its hint does not admit",
        "invalid-configuration": "toolcrib.toml is wrong",
        "invalid-definition": "a definition cannot be published",
        "invalid-name": "a name that the rule in force refuses",
        "invalid-schema": "a schema that is not one, or that is dangerous",
        "invalid-signature": "a signature that cannot be a tool",
        "invalid-tool": "a thing that is not shaped like a tool",
        "low-level-server": "a server of another library whose tools cannot be read",
        "needs-arguments": "an application that cannot be made without arguments",
        "no-marked-tools": "functions without a mark",
        "no-tools": "a target without tools",
        "nothing-described": "a descriptor without tools",
        "other-decorator": "a scan met a decorator that may change what it decorates",
        "shortened-name": "a name was too long",
        "stale-parameter": "the docstring describes a parameter that there is not",
        "stale-type": "the docstring gives a type that the default contradicts",
        "starts-server": "a file starts a server when it is imported",
        "table-mismatch": "a table of tools that does not fit its handlers",
        "unknown-type": "a hint that is not known: anything is accepted",
        "unpublished-default": "a default that has no JSON form",
        "unreadable-source": "a file, module or object that tools cannot be read from",
        "unresolved-*": "a scan could not read a hint, a default, an option or a tool",
    }
)
"""Codes of findings that do not come from rules, but from reading and building tools; `*` for several."""


def is_known(code: str) -> bool:
    return code in RULES or describe_other(code) is not None


def describe_other(code: str) -> str | None:
    """What a code of reading and building is about; None where there is no such code."""
    return next((words for pattern, words in OTHERS.items() if fnmatchcase(code, pattern)), None)


def render_table() -> str:
    """The rules as Markdown, for docs/linting.md; a test keeps the page true."""
    lines = []
    for group, rules in GROUPS.items():
        lines += [f"### {group}", "", "| code | level | what | why | how to mend |", "|---|---|---|---|---|"]
        for rule in rules:
            mend = rule.mend.replace("|", "\\|")
            lines.append(f"| `{rule.code}` | {rule.level} | {rule.summary} | {rule.why} | {mend} |")
        lines.append("")
    lines += ["### From reading and building", "", "| code | what |", "|---|---|"]
    lines += [f"| `{code}` | {words} |" for code, words in OTHERS.items()]
    return "\n".join(lines) + "\n"
