"""What a rule is, what it is shown, and what it says.

A rule is a small function with a code that never changes. Most look at one tool; a few look at all of them
together. A rule says what it saw; its code, its level and the place are put to that elsewhere.

Every text in a definition, with words for where it stands: nothing that a model reads goes unread here.

Knows the shape of definitions and schemas. Refuses to judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from toolcrib.catalog.lint.normalize import fold
from toolcrib.catalog.lint.phrases import Gist
from toolcrib.catalog.tokens import cost_of
from toolcrib.definition import ToolDefinition
from toolcrib.errors import Finding, Level
from toolcrib.sources.described import is_described
from toolcrib.tool import Tool

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


_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NO_WORD = re.compile(r"[^A-Za-z0-9]+")


class Subject:
    """A tool under inspection; what several rules want to know is found out once."""

    def __init__(self, tool: Tool, definition: ToolDefinition | None = None) -> None:
        self.tool = tool
        self.definition = tool.definition if definition is None else definition

    @property
    def name(self) -> str:
        return self.definition.name

    @cached_property
    def description(self) -> str:
        return self.definition.description.strip()

    @cached_property
    def name_words(self) -> tuple[str, ...]:
        """The words of the name in lower case: `findOpenOrders` is find, open, orders."""
        return tuple(split_words(self.name))

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        properties = self.definition.input_schema.get("properties")
        return properties if isinstance(properties, Mapping) else {}

    @cached_property
    def required(self) -> frozenset[str]:
        required = self.definition.input_schema.get("required")
        given = required if isinstance(required, list | tuple) else ()
        return frozenset(item for item in given if isinstance(item, str))

    @cached_property
    def has_own_schema(self) -> bool:
        """Whether the schema was written and not made from a function's hints."""
        return self.tool.options.input_schema is not None

    @cached_property
    def is_described(self) -> bool:
        return is_described(self.tool)

    @cached_property
    def texts(self) -> list[Text]:
        """Every text that a model, a client or a person may be shown."""
        return list_texts(self.definition, self.tool.options.aliases)

    @cached_property
    def cost(self) -> int:
        """About how many tokens it is to a model."""
        try:
            return cost_of(self.definition)
        except (TypeError, ValueError, RecursionError):
            return 0  # not the plain data that it should be; that is found elsewhere

    @cached_property
    def joined(self) -> str:
        """All texts in one. What is not found here is in none of them, which nearly always ends a search."""
        return "\n".join([text.text for text in self.texts])

    @cached_property
    def lowered(self) -> str:
        return self.joined.lower()

    def forget_texts(self) -> None:
        """Let go of what only rules about one tool ask for: with ten thousand tools it adds up."""
        for name in ("texts", "joined", "lowered", "gist"):
            self.__dict__.pop(name, None)

    @cached_property
    def gist(self) -> Gist:
        return Gist.of(fold(".\n".join([text.plain for text in self.texts])))  # a text ends a sentence


def split_words(name: str) -> list[str]:
    return [word for word in _NO_WORD.split(_WORD_STARTS.sub("_", name).lower()) if word]


@dataclass(frozen=True, slots=True)
class Remark:
    """What a rule saw. No hint: the rule's own way out. `excerpt` is text to look for in the source."""

    message: str
    hint: str | None = None
    parameter: str | None = None
    excerpt: str | None = None


Look = Callable[[Subject], Iterable[Remark]]
LookAcross = Callable[[Sequence[Subject]], Iterable[tuple[Subject, Remark]]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table. `in_check` are those that `toolcrib check` speaks of, too."""

    code: str
    level: Level
    summary: str
    why: str
    mend: str
    look: Look | None = None
    across: LookAcross | None = None
    in_check: bool = False

    def finding(self, subject: Subject, remark: Remark) -> Finding:
        source = subject.definition.source
        return Finding(
            self.code,
            self.level,
            remark.message,
            subject.name,
            remark.parameter,
            source.file,
            source.line,
            remark.hint or self.mend,
        )


def each_parameter(subject: Subject) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The parameters whose schema says something; `true` says nothing."""
    for name, schema in subject.parameters.items():
        if isinstance(schema, Mapping):
            yield name, schema


def quote(text: str, longest: int = 60) -> str:
    """Foreign text inside a message: one line, nothing in it that a reader could not see, not too long."""
    plain = " ".join(text.split())
    shown = plain if plain.isprintable() else plain.encode("unicode_escape").decode()
    return f"'{shown}'" if len(shown) <= longest else f"'{shown[: longest - 3]}...'"
