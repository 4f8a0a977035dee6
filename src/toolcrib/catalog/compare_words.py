"""What changed in the words of a definition: titles, descriptions, examples, defaults.

Words are compared where they stand. Knows texts and where schemas have them; refuses to know whether they are
good, which is the linter's matter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from toolcrib import codec
from toolcrib.catalog.compare_difference import Difference, Grade
from toolcrib.catalog.compare_forms import ANNOTATIONS

_LIGHT = 0.6
_TURNS = frozenset({"not", "no", "never", "without", "only", "always", "must", "don", "doesn", "cannot"})
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLES = (
    "items",
    "additionalItems",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
)
_NO_TEXT = object()


def compare_words(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    """The words of two definitions as they go out, and what else says something without being a rule."""
    for key, noun in (("title", "the title"), ("description", "the description")):
        yield from _compare_text(old.get(key, _NO_TEXT), new.get(key, _NO_TEXT), f"/{key}", noun, "")
    for key in ("inputSchema", "outputSchema"):
        before, now = _annotations(old.get(key), f"/{key}"), _annotations(new.get(key), f"/{key}")
        for pointer in before.keys() & now.keys():
            yield from _compare_annotations(before[pointer], now[pointer], pointer)
    extras: dict[str, tuple[str, Grade]] = {
        "icons": ("its icons changed", "cosmetic"),
        "_meta": ("what is under _meta changed", "compatible"),
    }
    for key, (template, grade) in extras.items():
        if codec.canonical(old.get(key)) != codec.canonical(new.get(key)):
            yield Difference("extras-changed", grade, f"/{key}", template, (), old.get(key), new.get(key))


def _annotations(schema: Any, pointer: str) -> dict[str, dict[str, Any]]:
    """What is said at each place of a schema."""
    found: dict[str, dict[str, Any]] = {}
    waiting = [(schema, pointer)]
    for node, place in waiting:  # grows on the way
        if not isinstance(node, Mapping):
            continue
        found[place] = {key: node[key] for key in node if key in ANNOTATIONS or key.startswith("x-")}
        for key in _MAPS:
            if isinstance(node.get(key), Mapping):
                waiting += [(child, f"{place}/{key}/{_escape(name)}") for name, child in node[key].items()]
        for key in _LISTS:
            if isinstance(node.get(key), list):
                waiting += [(child, f"{place}/{key}/{index}") for index, child in enumerate(node[key])]
        waiting += [(node[key], f"{place}/{key}") for key in _SINGLES if isinstance(node.get(key), Mapping)]
    return found


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def label_of(pointer: str) -> str:
    """The parameter or field that a place belongs to."""
    parts = pointer.split("/")
    named = [after for before, after in pairwise(parts) if before == "properties"]
    return ".".join(named).replace("~1", "/").replace("~0", "~")


def _compare_annotations(
    before: Mapping[str, Any], now: Mapping[str, Any], pointer: str
) -> Iterator[Difference]:
    label = label_of(pointer)
    is_input = pointer.startswith("/inputSchema")
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key, _NO_TEXT), now.get(key, _NO_TEXT)
        if old is not _NO_TEXT and new is not _NO_TEXT and codec.canonical(old) == codec.canonical(new):
            continue
        place = f"{pointer}/{key}"
        if key in ("title", "description", "$comment"):
            yield from _compare_text(old, new, place, f"the {key.strip('$')}", label)
        elif key == "default" and is_input and label:
            yield _compare_default(old, new, place, label)
        else:
            grade: Grade = "compatible" if key == "deprecated" or key.startswith("x-") else "cosmetic"
            template = "{0} of {1} changed" if label else "{0} changed"
            names = (key, label) if label else (key,)
            yield Difference("note-changed", grade, place, template, names, _plain(old), _plain(new))


def _compare_default(old: Any, new: Any, pointer: str, label: str) -> Difference:
    shown = [codec.canonical(value).decode() if value is not _NO_TEXT else "" for value in (old, new)]
    if new is _NO_TEXT:
        template = "{0} no longer says that it is {1} where callers leave it out"
        names: tuple[str, ...] = (label, shown[0])
    elif old is _NO_TEXT:
        template, names = "{0} is now {1} where callers leave it out", (label, shown[1])
    else:
        template = "{0} is now {2} instead of {1} where callers leave it out"
        names = (label, *shown)
    return Difference("default-changed", "compatible", pointer, template, names, _plain(old), _plain(new))


def _compare_text(old: Any, new: Any, pointer: str, noun: str, label: str) -> Iterator[Difference]:
    if old == new:
        return
    about = f"{noun} of {{0}}" if label else noun
    grade: Grade = "cosmetic"
    if new is _NO_TEXT or new == "":
        template, grade = f"{about} is gone", "compatible" if "description" in noun else "cosmetic"
    elif old is _NO_TEXT or old == "":
        template = f"{about} is new"
    elif not isinstance(old, str) or not isinstance(new, str):
        template = f"{about} changed"
    elif old.split() == new.split():
        template = f"{about} is spaced differently"
    elif "description" in noun and not _is_light(old, new):
        template, grade = (
            f"{about} says something else now: models may choose and call it differently",
            "compatible",
        )
    else:
        template = f"{about} was reworded"
    yield Difference(
        "words-changed", grade, pointer, template, (label,) if label else (), _plain(old), _plain(new)
    )


def _is_light(old: str, new: str) -> bool:
    """Whether most words are still there, and none that turns the meaning came or went."""
    first, second = (Counter(re.findall(r"\w+", text.casefold())) for text in (old, new))
    if any(first[word] != second[word] for word in _TURNS):
        return False
    return 2 * (first & second).total() >= _LIGHT * (first.total() + second.total())


def _plain(value: Any) -> Any:
    return None if value is _NO_TEXT else value
