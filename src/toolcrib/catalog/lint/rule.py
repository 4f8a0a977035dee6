"""The lint rule contract: `Rule`, the tool it is shown, and the problems it reports.

A rule is a function with a code that never changes. Most look at one tool (`check`), a few at all tools
together (`check_all`). Without `kinds`, a rule sees tools only; resources and prompts are of kinds of their
own, and `check_all` gets one kind at a time:

    def find_todo(tool: LintedTool) -> Iterator[Problem]:
        if "TODO" in tool.description:
            yield Problem(f"The description of '{tool.name}' contains a TODO")

    rule = Rule("todo", "advice", "A description contains a TODO", "Models read it.", "finish it", find_todo)
"""

# ruff: noqa: RUF001 - the table of look-alike letters is meant

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

from toolcrib.catalog.tokens import cost_of
from toolcrib.component import Component
from toolcrib.definition import ToolDefinition
from toolcrib.errors import Finding, Level
from toolcrib.sources.described import is_described
from toolcrib.validation.schema_tree import LISTED_SCHEMAS, NAMED_SCHEMAS, SINGLE_SCHEMAS

# --- the texts of a definition ------------------------------------------------------------------------

TextKind = Literal["name", "prose", "value", "link"]
"""Names are read as words between underscores, values are data, links belong to icons."""

_INPUT_SCHEMA = "the input schema"
_MAX_DEPTH = 40
_PROSE_KEYWORDS = frozenset({"description", "title", "$comment", "markdownDescription", "enumDescriptions"})
# Their values belong to JSON Schema, repeat names, or are references within the schema.
_STRUCTURAL_KEYWORDS = frozenset(
    {"type", "$schema", "$ref", "$dynamicRef", "$id", "$anchor", "$dynamicAnchor", "required", "format"}
)
_DATA_KEYWORDS = frozenset({"default", "const", "enum", "examples", "example", "pattern"})
_TYPES = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a definition. `where` describes its location, as in "the title"."""

    where: str
    text: str
    kind: TextKind = "prose"
    parameter: str | None = None

    @property
    def plain(self) -> str:
        """The text as words; names are split at underscores and hyphens."""
        return self.text.replace("_", " ").replace("-", " ") if self.kind == "name" else self.text


def list_texts(definition: ToolDefinition, aliases: Sequence[str] = ()) -> list[Text]:
    """Return every text of a tool that a model, a client or a person may read."""
    prose = [("the result", definition.returns), *definition.raises]
    return [
        *_read_wire(definition.to_wire()),
        *(Text(f"the description of {name}", text) for name, text in prose),
        *(Text("an alias", alias, "name") for alias in aliases),
        *(Text("a tag", tag, "name") for tag in definition.tags),
    ]


def _read_wire(wire: Mapping[str, Any]) -> Iterator[Text]:
    """Yield the texts of a tool, a resource or a prompt, as clients get it, but not those of contents."""
    for key, value in wire.items():
        if key in ("uri", "uriTemplate"):
            yield Text("the URI", re.sub(r"\{[^}]*\}", "", value), "name")
        elif key == "arguments":
            for argument in value:
                where = f"argument '{argument['name']}'"
                yield Text(where, argument["name"], "name", argument["name"])
                yield from read_data(argument.get("description"), where, "prose", argument["name"])
        elif key == "inputSchema":
            yield from _read_schema(value, _INPUT_SCHEMA)
        elif key == "outputSchema":
            yield from _read_schema(value, "the output schema")
        elif key == "icons":
            yield from read_data(value, "an icon", "link")
        else:
            yield from read_data(value, f"the {key}", "name" if key == "name" else "prose")


def _read_schema(schema: Any, root: str, parameter: str | None = None, depth: int = 0) -> Iterator[Text]:
    """Yield the texts of a schema. Texts below a top-level input property belong to that parameter."""
    if depth > _MAX_DEPTH or not isinstance(schema, Mapping):
        return
    where = root if parameter is None else f"parameter '{parameter}'"
    for key, value in schema.items():
        label = where if key == "description" else f"the {key} of {where}"
        if key in _STRUCTURAL_KEYWORDS:
            if not (isinstance(value, str) and value in _TYPES):
                yield from read_data(value, label, "name", parameter)
        elif key in _PROSE_KEYWORDS:
            yield from read_data(value, label, "prose", parameter)
        elif key in NAMED_SCHEMAS and isinstance(value, Mapping):
            for name, subschema in value.items():
                owner = parameter
                if depth == 0 and key == "properties" and root == _INPUT_SCHEMA:
                    owner = str(name)
                location = f"a name in {where}" if owner is None else f"parameter '{owner}'"
                yield Text(location, str(name), "name", owner)
                yield from _read_schema(subschema, root, owner, depth + 1)
        elif key in SINGLE_SCHEMAS or key in LISTED_SCHEMAS:
            for subschema in value if isinstance(value, list | tuple) else (value,):
                yield from _read_schema(subschema, root, parameter, depth + 1)
        elif not isinstance(value, bool | int | float):
            if key not in _DATA_KEYWORDS:
                yield Text(f"a keyword of {where}", str(key), "name", parameter)
            yield from read_data(value, label, "value", parameter)


def read_data(
    data: Any, where: str, kind: TextKind = "prose", parameter: str | None = None, depth: int = 0
) -> Iterator[Text]:
    """Yield every string and every key in JSON data."""
    if isinstance(data, str):
        yield Text(where, data, kind, parameter)
    elif isinstance(data, Mapping) and depth < _MAX_DEPTH:
        for key, value in data.items():
            yield Text(where, str(key), "name", parameter)
            yield from read_data(value, where, kind, parameter, depth + 1)
    elif isinstance(data, list | tuple) and depth < _MAX_DEPTH:
        for item in data:
            yield from read_data(item, where, kind, parameter, depth + 1)


# --- folding: readings of a text without disguises -------------------------------------------------------

# Letters of other scripts that are drawn like Latin ones; NFKC takes care of full-width ones and the like.
_LOOKALIKES = str.maketrans(
    "авезікмнорстухѕјԛԝүһԁԍгпиѵӏαβεικνορτυχγωσηɑɡɩıʟʀᴀᴄᴅᴇɪᴋᴍɴᴏᴘᴛᴜᴠᴡᴢꜱʙʜᴊꜰɢʏօոսհյզց",
    "abe3ikmhopctyxsjqwyhdgrnuvlabeikvoptuxywonagiilracdeikmnoptuvwzsbhjfgyonuhjqg",
)
_MARKUP = ("*", "`", "\\", '"', "“", "”", "«", "»", "„", "~~")
_LOOSE_UNDERSCORES = re.compile(r"(?<!\w)_+|_+(?!\w)")
# i g n o r e, i.g.n.o.r.e, i-g-n-o-r-e: one separator throughout, so that words stay apart
_SPREAD = re.compile(r"(?<![^\W_])[^\W\d_](?P<gap>[ .\-·•|/_+])(?:[^\W\d_](?P=gap)){2,}[^\W\d_](?![^\W_])")
# A digit or sign among letters. The pattern begins with the rarest part, so that most searches end at once.
_DIGIT_IN_WORD = re.compile(
    r"[013457@$!](?:(?<=[a-z].)(?=[a-z@$!013457])|(?<=[a-z@$!].)(?=[a-z])|(?<!\w.)(?=[a-z]{2}))"
)
_DIGITS = str.maketrans("013457@$!", "oieastasi")


@lru_cache(maxsize=4096)
def fold(text: str) -> tuple[str, ...]:
    """Return the readings of a text in lower case: as written, and with each disguise removed."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    plain = plain.replace("’", "'").replace("‘", "'").casefold()
    readings = [_strip_markup(plain)]
    if not plain.isascii():
        plain = _strip_accents(plain).translate(_LOOKALIKES)
        readings.append(_strip_markup(plain))
    if _SPREAD.search(plain):
        joined = _SPREAD.sub(lambda found: found[0].replace(found["gap"], ""), plain)
        readings += [_strip_markup(joined), "".join(filter(str.isalpha, plain))]
    if _DIGIT_IN_WORD.search(plain):
        readings.append(_strip_markup(plain.translate(_DIGITS)))
    return tuple(dict.fromkeys(readings))


def _strip_markup(text: str) -> str:
    for mark in _MARKUP:
        if mark in text:
            text = text.replace(mark, " ")
    return " ".join((_LOOSE_UNDERSCORES.sub(" ", text) if "_" in text else text).split())


def _strip_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return unicodedata.normalize(
        "NFC", "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    )


# --- the tool a rule looks at ---------------------------------------------------------------------------

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NO_WORD = re.compile(r"[^A-Za-z0-9]+")


class LintedTool:
    """A tool, resource or prompt under inspection. Values that several rules need are computed once."""

    def __init__(self, tool: Component, definition: ToolDefinition | None = None) -> None:
        self.tool = tool
        self.definition = tool.definition if definition is None else definition

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def reference(self) -> str:
        """The name in findings: `prompt:NAME` and `resource:URI`, but plain names of tools."""
        return self.tool.reference

    @cached_property
    def description(self) -> str:
        return self.definition.description.strip()

    @property
    def is_static(self) -> bool:
        """Whether this is a resource of fixed content, such as a file of a folder."""
        return getattr(self.tool, "is_static", False)

    @cached_property
    def name_words(self) -> tuple[str, ...]:
        """The words of the name in lower case: `findOpenOrders` is find, open, orders."""
        words = _NO_WORD.split(_WORD_START.sub("_", self.name).lower())
        return tuple(word for word in words if word)

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        properties = self.definition.input_schema.get("properties")
        return properties if isinstance(properties, Mapping) else {}

    @cached_property
    def parameter_schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """The parameters whose schema is an object; `true` has nothing to check."""
        return {name: schema for name, schema in self.parameters.items() if isinstance(schema, Mapping)}

    @cached_property
    def required(self) -> frozenset[str]:
        required = self.definition.input_schema.get("required")
        names = required if isinstance(required, list | tuple) else ()
        return frozenset(name for name in names if isinstance(name, str))

    @cached_property
    def has_own_schema(self) -> bool:
        """Whether the author wrote the input schema, rather than type hints."""
        return self.tool.options.input_schema is not None

    @cached_property
    def is_described(self) -> bool:
        return is_described(self.tool)

    @cached_property
    def texts(self) -> list[Text]:
        if self.tool.kind != "tool":
            return list(_read_wire(self.tool.to_wire()))
        return list_texts(self.definition, self.tool.options.aliases)

    @cached_property
    def joined_text(self) -> str:
        """All texts in one string. A search that fails here fails in each text, which ends most searches."""
        return "\n".join([text.text for text in self.texts])

    @cached_property
    def lower_text(self) -> str:
        return self.joined_text.lower()

    @cached_property
    def readings(self) -> tuple[str, ...]:
        """All texts folded into one. A phrase not found here is in no text."""
        return fold(".\n".join(text.plain for text in self.texts))  # the end of a text ends a sentence

    @cached_property
    def token_count(self) -> int:
        """The approximate number of tokens the definition costs a model."""
        try:
            return cost_of(self.definition)
        except (TypeError, ValueError, RecursionError):
            return 0  # the definition is not plain data, which is reported elsewhere

    def release_texts(self) -> None:
        """Drop the texts, which only single-tool rules need: they add up with ten thousand tools."""
        for name in ("texts", "joined_text", "lower_text", "readings"):
            self.__dict__.pop(name, None)


# --- rules and problems ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding of a rule. Without a hint, the rule's fix is shown.

    `excerpt` is text to look for in the source, so that the finding gets the line it is about.
    """

    message: str
    hint: str | None = None
    parameter: str | None = None
    excerpt: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A lint rule for tools, or for what `kinds` names: `tool`, `resource`, `prompt`."""

    code: str
    level: Level
    summary: str
    why: str
    fix: str
    check: Callable[[LintedTool], Iterable[Problem]] | None = None
    check_all: Callable[[Sequence[LintedTool]], Iterable[tuple[LintedTool, Problem]]] | None = None
    kinds: Sequence[str] = ("tool",)

    def finding(self, tool: LintedTool, problem: Problem) -> Finding:
        source = tool.definition.source
        return Finding(
            self.code,
            self.level,
            problem.message,
            tool.reference,
            problem.parameter,
            source.file,
            source.line,
            problem.hint or self.fix,
        )


def text_problem(tool: LintedTool, text: Text, message: str, excerpt: str) -> Problem:
    """Return a problem with one text: "The description of 'find' " and the message."""
    where = f"{text.where[0].upper()}{text.where[1:]}"
    return Problem(f"{where} of '{tool.name}' {message}", None, text.parameter, excerpt)


def quote(text: str, max_length: int = 60) -> str:
    """Quote foreign text for a message: one line, invisible characters escaped, shortened."""
    plain = " ".join(text.split())
    shown = plain if plain.isprintable() else plain.encode("unicode_escape").decode()
    return f"'{shown}'" if len(shown) <= max_length else f"'{shown[: max_length - 3]}...'"


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())
