"""Every text in a definition, with words for where it stands: nothing that a model reads goes unread here.

Knows the shape of definitions and schemas. Refuses to judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from toolcrib.definition import ToolDefinition

Kind = Literal["name", "words", "value", "link"]
"""A name is read as words between underscores; words are prose; a value is data; a link is an icon's."""

INPUT = "the input schema"
_DEEPEST = 40
_PROSE = frozenset({"description", "title", "$comment", "markdownDescription", "enumDescriptions"})
_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
_HOLDERS = frozenset(
    {"items", "prefixItems", "contains", "additionalProperties", "propertyNames", "anyOf", "oneOf", "allOf"}
) | {"not", "if", "then", "else", "unevaluatedItems", "unevaluatedProperties"}
# Their values are JSON Schema's own words, names that stand elsewhere too, or places in the same schema.
_PLUMBING = frozenset(
    {"$schema", "$ref", "$dynamicRef", "$id", "$anchor", "$dynamicAnchor", "required", "format"}
)
_DATA = frozenset({"default", "const", "enum", "examples", "example", "pattern"})
_TYPES = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})


@dataclass(frozen=True, slots=True)
class Text:
    where: str
    text: str
    kind: Kind = "words"
    parameter: str | None = None

    @property
    def plain(self) -> str:
        """The text as words: a name is read between its underscores."""
        return self.text.replace("_", " ").replace("-", " ") if self.kind == "name" else self.text

    @property
    def label(self) -> str:
        """The place, at the beginning of a sentence."""
        return f"{self.where[0].upper()}{self.where[1:]}"


def list_texts(definition: ToolDefinition, aliases: Sequence[str] = ()) -> list[Text]:
    return list(_read(definition, aliases))


def _read(definition: ToolDefinition, aliases: Sequence[str]) -> Iterator[Text]:
    yield Text("the name", definition.name, "name")
    if definition.title:
        yield Text("the title", definition.title)
    if definition.description:
        yield Text("the description", definition.description)
    if definition.returns:
        yield Text("the words on the result", definition.returns)
    for name, words in definition.raises:
        yield Text(f"the words on {name}", words)
    for alias in aliases:
        yield Text("an alias", alias, "name")
    for tag in definition.tags:
        yield Text("a tag", tag, "name")
    yield from _read_schema(definition.input_schema, INPUT)
    if definition.output_schema is not None:
        yield from _read_schema(definition.output_schema, "the output schema")
    yield from _read_data(definition.annotations, "the annotations")
    for icon in definition.icons:
        yield from _read_data(icon, "an icon", "link")
    yield from _read_data(definition.meta, "the _meta")


def _read_schema(schema: Any, root: str, parameter: str | None = None, depth: int = 0) -> Iterator[Text]:
    """The texts of a schema. What lies below a property of the first level belongs to that parameter."""
    if depth > _DEEPEST or not isinstance(schema, Mapping):
        return
    where = root if parameter is None else f"parameter '{parameter}'"
    for key, value in schema.items():
        label = where if key == "description" else f"the {key} of {where}"
        if key == "type" or key in _PLUMBING:
            if not _is_plain_type(value):
                yield from _read_data(value, label, "name", parameter)
        elif key in _PROSE:
            yield from _read_data(value, label, "words", parameter)
        elif key in _NAMED and isinstance(value, Mapping):
            for name, below in value.items():
                owner = parameter
                if depth == 0 and key == "properties" and root == INPUT:
                    owner = str(name)
                spot = f"a name in {where}" if owner is None else f"parameter '{owner}'"
                yield Text(spot, str(name), "name", owner)
                yield from _read_schema(below, root, owner, depth + 1)
        elif key in _HOLDERS:
            for below in value if isinstance(value, list | tuple) else (value,):
                yield from _read_schema(below, root, parameter, depth + 1)
        elif not isinstance(value, bool | int | float):
            if key not in _DATA:
                yield Text(f"a keyword of {where}", str(key), "name", parameter)
            yield from _read_data(value, label, "value", parameter)


def _is_plain_type(value: Any) -> bool:
    return value in _TYPES if isinstance(value, str) else False


def _read_data(
    data: Any, where: str, kind: Kind = "words", parameter: str | None = None, depth: int = 0
) -> Iterator[Text]:
    """Plain data: every text and every key in it."""
    if isinstance(data, str):
        yield Text(where, data, kind, parameter)
    elif isinstance(data, Mapping) and depth < _DEEPEST:
        for key, value in data.items():
            yield Text(where, str(key), "name", parameter)
            yield from _read_data(value, where, kind, parameter, depth + 1)
    elif isinstance(data, list | tuple) and depth < _DEEPEST:
        for item in data:
            yield from _read_data(item, where, kind, parameter, depth + 1)
