"""Rules for names: short, in snake_case, and telling.

Knows how names are written; whether one is taken or looks like another is the registry's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolcrib.catalog.lint.rule import Remark, Rule, Subject
from toolcrib.definition import STRICT

_VAGUE = re.compile(
    "action|bar|call|compute|data|do|execute|foo|func|function|get|handle|handler|helper|main|method|misc|"
    "my_function|my_tool|process|query|run|set|stuff|task|test|thing|tool|util|utils|work|.",
    re.IGNORECASE,
)
# What the strictest of the large providers takes as the name of a property.
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def find_long_name(subject: Subject) -> Iterator[Remark]:
    name = subject.name
    if subject.tool.long_name is None and len(name) > STRICT.longest:
        yield Remark(f"The name '{name}' has {len(name)} characters")


def find_odd_style(subject: Subject) -> Iterator[Remark]:
    name = subject.name
    if STRICT.pattern.fullmatch(name) is None:
        yield Remark(f"The name '{name}' is not in snake_case", f"call it '{to_snake(name)}'")


def find_vague_name(subject: Subject) -> Iterator[Remark]:
    if _VAGUE.fullmatch(subject.name):
        yield Remark(f"The name '{subject.name}' does not say what the tool does")


def find_odd_parameter_names(subject: Subject) -> Iterator[Remark]:
    for name in subject.parameters:
        if _PARAMETER.fullmatch(name) is None:
            shown = name if len(name) <= 64 else f"{name[:61]}..."
            yield Remark(
                f"Parameter '{shown}' of '{subject.name}' has a name that some providers refuse",
                f"call it '{to_snake(name, 'value')[:64]}'",
                name,
            )


def to_snake(name: str, prefix: str = "tool") -> str:
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    text = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").lower()
    return f"{prefix}_{text}".rstrip("_") if not text or text[0].isdigit() else text


RULES = (
    Rule(
        "long-name",
        "advice",
        "The name is longer than 50 characters",
        "Clients put prefixes before names, and providers take no more than 64 characters in all.",
        f"stay below {STRICT.longest}: clients put prefixes before it",
        find_long_name,
        in_check=True,
    ),
    Rule(
        "name-style",
        "advice",
        "The name is not in snake_case",
        "Lower-case letters, digits and underscores work everywhere, and one style reads as one catalog.",
        "write it in snake_case",
        find_odd_style,
        in_check=True,
    ),
    Rule(
        "vague-name",
        "advice",
        "The name does not say what the tool does",
        "The name is what a model sees first; among a hundred tools, 'run' is no choice.",
        "name the deed and the thing: find_order, send_invoice",
        find_vague_name,
        in_check=True,
    ),
    Rule(
        "parameter-name",
        "warning",
        "A parameter's name holds what some providers refuse",
        "A blank, a slash or a letter with an accent in one property makes a provider refuse the whole list.",
        "use letters, digits and underscores, at most 64",
        find_odd_parameter_names,
    ),
)
