"""Detect renamed parameters and tools, and names that are easily mistaken for others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from toolcrib.catalog import schema_algebra
from toolcrib.definition import ToolDefinition
from toolcrib.registry.index import skeleton
from toolcrib.tool import Tool
from toolcrib.validation import codec

ANNOTATIONS = schema_algebra.ANNOTATIONS | {"$comment", "example"}
_SIMILAR_NAME = 0.75
_SIMILAR_TEXT = 0.6
_MAX_PAIRS = 20_000
_MIN_LENGTH = 6
"""Shorter names are not compared letter by letter: too many differ by one."""
_SEPARATORS = re.compile(r"[_.-]+")


def _are_similar(first: str, second: str) -> bool:
    """Return whether one name contains the other, or most of its letters."""
    one, other = first.casefold(), second.casefold()
    return one in other or other in one or SequenceMatcher(None, one, other).ratio() >= _SIMILAR_NAME


def find_renamed_parameters(
    before: Mapping[str, Any], now: Mapping[str, Any], removed: Iterable[str], added: Iterable[str]
) -> list[tuple[str, str]]:
    """Return old and new names of parameters with one schema, and one description or similar names."""
    found: list[tuple[str, str]] = []
    free = list(added)
    for name in removed:
        likely = [
            other
            for other in free
            if _without_texts(before[name]) == _without_texts(now[other])
            and (_are_similar(name, other) or _have_same_description(before[name], now[other]))
        ]
        if len(likely) == 1:
            free.remove(likely[0])
            found.append((name, likely[0]))
    return found


def _without_texts(schema: Any) -> bytes:
    if not isinstance(schema, Mapping):
        return codec.canonical(schema)
    return codec.canonical(
        {key: value for key, value in schema.items() if key not in ANNOTATIONS - {"default"}}
    )


def _have_same_description(first: Any, second: Any) -> bool:
    texts = [schema.get("description") if isinstance(schema, Mapping) else None for schema in (first, second)]
    return bool(texts[0]) and texts[0] == texts[1]


def find_renamed_tools(
    removed: Sequence[Tool], added: Sequence[Tool], definition_of: Callable[[Tool], ToolDefinition]
) -> list[tuple[Tool, Tool]]:
    """Return pairs of tools that differ in nothing but the name, or in little and have similar names."""
    found: list[tuple[Tool, Tool]] = []
    candidates: dict[bytes, list[Tool]] = {}
    for tool in added:
        candidates.setdefault(_content(definition_of(tool)), []).append(tool)
    rest: list[Tool] = []
    for tool in removed:
        definition = definition_of(tool)
        is_telling = definition.description or definition.input_schema.get("properties")
        same = candidates.get(_content(definition), []) if is_telling else []
        if same:
            best = max(same, key=lambda other: SequenceMatcher(None, tool.name, other.name).ratio())
            same.remove(best)
            found.append((tool, best))
        else:
            rest.append(tool)
    free = [tool for tools in candidates.values() for tool in tools]
    if len(rest) * len(free) > _MAX_PAIRS:
        return found
    for tool in rest:
        definition = definition_of(tool)
        likely = [other for other in free if _is_likely_rename(definition, definition_of(other))]
        if len(likely) == 1:
            free.remove(likely[0])
            found.append((tool, likely[0]))
    return found


def _content(tool: ToolDefinition) -> bytes:
    return codec.canonical([tool.description, tool.input_schema, tool.output_schema])


def _is_likely_rename(old: ToolDefinition, new: ToolDefinition) -> bool:
    if not _are_similar(old.name, new.name):
        return False
    if {*old.input_schema.get("properties", ())} != {*new.input_schema.get("properties", ())}:
        return False
    texts = SequenceMatcher(None, old.description[:500], new.description[:500])
    return not old.description or texts.ratio() >= _SIMILAR_TEXT


class LookAlikes:
    """An index of names, to find the one that another name is easily mistaken for.

    Two names look alike with characters of the same shape, other separators, two letters exchanged, or one
    letter missing or doubled inside. Not at the end: get_user and get_users are both legitimate.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[str, list[str]] = {}
        self._shorter: dict[str, list[str]] = {}
        for name in names:
            plain = _normalize(name)
            self._names.setdefault(plain, []).append(name)
            for variant in _without_one_letter(plain):
                self._shorter.setdefault(variant, []).append(name)

    def find(self, name: str) -> str | None:
        """Return another name that this one looks like."""
        plain = _normalize(name)
        near = [*self._names.get(plain, ()), *self._shorter.get(plain, ())]
        for variant in (*_without_one_letter(plain), *_with_exchanged_letters(plain)):
            near += self._names.get(variant, ())
        return next((other for other in near if other != name), None)


def _normalize(name: str) -> str:
    return _SEPARATORS.sub("", skeleton(name))


def _without_one_letter(name: str) -> Iterator[str]:
    """Yield the name without one letter, except the first and the last."""
    if len(name) >= _MIN_LENGTH:
        for index in range(1, len(name) - 1):
            if not name[index].isdigit():
                yield name[:index] + name[index + 1 :]


def _with_exchanged_letters(name: str) -> Iterator[str]:
    if len(name) >= _MIN_LENGTH:
        for index in range(len(name) - 1):
            first, second = name[index], name[index + 1]
            if first != second and not (first.isdigit() or second.isdigit()):
                yield f"{name[:index]}{second}{first}{name[index + 2 :]}"
