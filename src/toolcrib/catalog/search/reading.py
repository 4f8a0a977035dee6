"""The words of a tool, and how much each says about it.

A word of the name says most, one of a parameter's description least; long texts say less per word. Knows
where a definition has words; refuses to know other tools: what comes out is the same whatever is beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from toolcrib.catalog.search.speech import IDLE
from toolcrib.catalog.search.words import cut
from toolcrib.tool import Tool

Place = Literal["name", "title", "tags", "summary", "description", "parameters", "values", "notes"]

_WEIGHTS: dict[Place, tuple[float, float]] = {
    # how much a word there says, and how many words are usual there
    "name": (5.0, 3.0),
    "title": (3.0, 4.0),
    "tags": (2.0, 3.0),
    "summary": (2.2, 9.0),
    "description": (0.8, 25.0),
    "parameters": (1.2, 6.0),
    "values": (0.9, 8.0),
    "notes": (0.5, 30.0),
}
_IDLE_TOO: tuple[Place, ...] = ("name", "title", "values")
"""Where idle words may be all there is."""
_LENGTH = 0.5
"""How much the length of a text matters, between 0 and 1."""
SATURATION = 1.6

_END_OF_SENTENCE = re.compile(r"[.!?](?:\s|$)|[。！？]|\n\s*\n")  # noqa: RUF001 - the full stops of the East
MAX_TEXT = 20_000
MAX_NODES = 400
MAX_VALUES = 40


class Reading:
    """A tool as its words: `name` in order, `weights` by word, between 0 and 1."""

    __slots__ = ("name", "weights")

    def __init__(self, tool: Tool) -> None:
        self.name = tuple(dict.fromkeys(cut(tool.name)))
        sums: dict[str, float] = {}
        before = sums.get
        places = words_by_place(tool)
        for place, words in places.items():
            says, usual = _WEIGHTS[place]
            each = says / (1 - _LENGTH + _LENGTH * len(words) / usual)
            for word in words:
                sums[word] = before(word, 0.0) + each
        for word in IDLE.intersection(sums):
            if not any(word in places.get(place, ()) for place in _IDLE_TOO):
                del sums[word]
        self.weights = {word: value / (value + SATURATION) for word, value in sums.items()}


def words_by_place(tool: Tool) -> dict[Place, list[str]]:
    """All words of a tool by where they stand."""
    texts: dict[Place, list[str]] = {}
    for place, text in _texts(tool):
        texts.setdefault(place, []).append(text)
    return {place: words for place, parts in texts.items() if (words := cut("\n".join(parts)[:MAX_TEXT]))}


def _texts(tool: Tool) -> Iterator[tuple[Place, str]]:
    definition = tool.definition
    yield "name", tool.name
    for alias in tool.options.aliases:
        yield "title", alias
    if definition.title:
        yield "title", definition.title
    for tag in definition.tags:
        yield "tags", tag
    text = definition.description
    end = _END_OF_SENTENCE.search(text)
    split = end.end() if end else len(text)
    yield "summary", text[:split]
    yield "description", text[split:]
    yield from _schema_texts(definition.input_schema)


def _schema_texts(schema: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """Names, descriptions and choices of parameters, at any depth, up to a bound."""
    waiting: list[Any] = [dict(schema)]
    for count, node in enumerate(waiting):  # grows on the way
        if count >= MAX_NODES:
            return
        if isinstance(node, list):
            waiting += node
        if not isinstance(node, dict):
            continue
        words = node.get("description")
        if count and isinstance(words, str):
            yield "notes", words
        if "enum" in node or "const" in node:
            for value in _choices(node):
                yield "values", value
        properties = node.get("properties")
        if isinstance(properties, dict):
            yield "parameters", " ".join(map(str, properties))
            waiting += properties.values()
        for key in ("$defs", "definitions"):
            if isinstance(node.get(key), dict):
                waiting += node[key].values()
        waiting += [
            node[key] for key in ("items", "anyOf", "oneOf", "allOf", "additionalProperties") if key in node
        ]


def _choices(node: dict[str, Any]) -> Iterator[str]:
    values = node.get("enum")
    if isinstance(values, list | tuple):
        yield from (value for value in values[:MAX_VALUES] if isinstance(value, str))
    if isinstance(node.get("const"), str):
        yield node["const"]
