"""Rules for descriptions: there is one, it says something, and it is worth its length.

Knows one tool's words. Whether they are planted is looked at elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.catalog.lint.names import to_snake
from toolcrib.catalog.lint.rule import Remark, Rule, Subject, each_parameter
from toolcrib.schema.parameters import words_of

SHORTEST_DESCRIPTION = 10
LONGEST_DESCRIPTION = 500
HUGE_DESCRIPTION_BYTES = 8 * 1024
_FILLER = frozenset({"a", "an", "the", "this", "tool", "function", "to", "for", "of"})
_EXAMPLES = (
    "example",
    "ejemplo",
    "beispiel",
    "exemple",
    "esempi",
    "e.g.",
    "for instance",
    "such as",
    ">>>",
    "```",
)
_CALL = re.compile(r"\w\((?:[^()\n]*=[^()\n]*|\"[^()\n]*\")\)")


def find_missing_docstring(subject: Subject) -> Iterator[Remark]:
    if not subject.description and _could_have_docstring(subject):
        yield Remark(f"Tool '{subject.name}' has no docstring: its name is all a model has to go by")


def find_missing_description(subject: Subject) -> Iterator[Remark]:
    if not subject.description and not _could_have_docstring(subject):
        yield Remark(f"Tool '{subject.name}' has no description: its name is all a model has to go by")


def _could_have_docstring(subject: Subject) -> bool:
    return not subject.has_own_schema and not (words_of(subject.tool.handler) or "").strip()


def find_repeated_name(subject: Subject) -> Iterator[Remark]:
    if subject.description and _repeats(subject):
        yield Remark(f"The description of '{subject.name}' only repeats its name")


def find_short_description(subject: Subject) -> Iterator[Remark]:
    length = len(subject.description)
    if 0 < length < SHORTEST_DESCRIPTION and not _repeats(subject):
        yield Remark(f"The description of '{subject.name}' has only {length} character{'s' * (length > 1)}")


def _repeats(subject: Subject) -> bool:
    if len(subject.description) > 40 + 2 * len(subject.name):
        return False  # there is more to it
    said = set(re.findall(r"\w+", subject.description.lower().replace("_", " "))) - _FILLER
    return said <= set(to_snake(subject.name).split("_")) - _FILLER


def find_huge_description(subject: Subject) -> Iterator[Remark]:
    size = _count_bytes(subject.description)
    if size > HUGE_DESCRIPTION_BYTES:
        yield Remark(f"The description of '{subject.name}' takes {size // 1024} KiB of every model's context")


def find_long_description(subject: Subject) -> Iterator[Remark]:
    length = len(subject.description)
    if length > LONGEST_DESCRIPTION and _count_bytes(subject.description) <= HUGE_DESCRIPTION_BYTES:
        yield Remark(f"The description of '{subject.name}' has {length} characters")


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def find_missing_example(subject: Subject) -> Iterator[Remark]:
    """Only where a call is not plain from the names: two texts to give, or something that has parts."""
    if not subject.description:
        return  # which is said already
    needed = [schema for name, schema in each_parameter(subject) if name in subject.required]
    texts = sum(schema.get("type") == "string" and "enum" not in schema for schema in needed)
    if texts < 2 and not any(map(_has_parts, needed)):
        return
    if any(word in subject.lowered for word in _EXAMPLES) or _CALL.search(subject.joined):
        return
    if any(schema.get("examples") for _, schema in each_parameter(subject)):
        return
    yield Remark(
        f"Nothing shows what a call of '{subject.name}' looks like",
        'give the schema "examples", or add an example to the description'
        if subject.has_own_schema
        else None,
    )


def _has_parts(schema: Mapping[str, Any]) -> bool:
    return "$ref" in schema or schema.get("type") == "object" or bool(schema.get("properties"))


_SAY = "say what it does, and when to use it"
RULES = (
    Rule(
        "missing-docstring",
        "warning",
        "A function has no docstring",
        "Its name is all that a model has to go by.",
        "write one: what it does, when to use it, its Args",
        find_missing_docstring,
        in_check=True,
    ),
    Rule(
        "missing-description",
        "warning",
        "A tool has no description",
        "Its name is all that a model has to go by.",
        _SAY,
        find_missing_description,
        in_check=True,
    ),
    Rule(
        "repeats-name",
        "advice",
        "The description only repeats the name",
        "It costs tokens and tells nothing.",
        _SAY,
        find_repeated_name,
        in_check=True,
    ),
    Rule(
        "short-description",
        "advice",
        f"The description has fewer than {SHORTEST_DESCRIPTION} characters",
        "A word or two do not tell a model when this is the tool to use.",
        _SAY,
        find_short_description,
        in_check=True,
    ),
    Rule(
        "huge-description",
        "warning",
        "The description takes more than 8 KiB",
        "Every conversation pays for it, and what matters drowns in it.",
        "keep what a caller needs, move the rest to the documentation",
        find_huge_description,
        in_check=True,
    ),
    Rule(
        "long-description",
        "advice",
        f"The description has more than {LONGEST_DESCRIPTION} characters",
        "Strict servers and some clients cut or refuse longer ones.",
        f"{LONGEST_DESCRIPTION} are enough for most; strict servers refuse more",
        find_long_description,
        in_check=True,
    ),
    Rule(
        "no-example",
        "advice",
        "A call is not plain from the names, and no example shows one",
        "With two texts to give, or something that has parts, one line of example saves a failed call.",
        'add a line to the docstring: `Example: send_invoice(order=12, to="ann@example.org")`',
        find_missing_example,
    ),
)
