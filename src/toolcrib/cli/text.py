r"""Tools in words: types, parameters, signatures, counts, and the JSON shape that commands print.

Knows definitions as data; prints nothing.

Text from elsewhere, made safe for a terminal.

    safe("a[2Jb")                       a\x1b[2Jb
    join(style("error:", fg="red"), words)  our colours stay, and nothing in `words` can steer the terminal

Everything that is printed passes through here once: `Terminal` escapes each piece that is not `Styled`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from toolcrib.definition import ToolDefinition
from toolcrib.tool import Tool

_JOINERS = "\u200c\u200d"
_SELECTORS = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
# Controls; marks that change the reading direction; characters without width or glyph, among them the tags,
# which spell hidden ASCII; halves of characters.
_HARMFUL = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_ASCII = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SUSPECT = re.compile(f"[{_HARMFUL}{_JOINERS}{_SELECTORS}]")
_CONTEXTUAL = re.compile(f"[{_JOINERS}{_SELECTORS}]")


class Styled(str):
    """Escaped text, with colours where the terminal takes them. Made by `style` and `join` alone.

    Whatever is done to one (formatting, slicing, concatenation) gives a plain string, which is escaped again
    when it is printed: a mistake shows, and harms nobody.
    """

    __slots__ = ()


def safe(text: object) -> str:
    """Text with everything escaped that could steer a terminal or hide in it; line ends and tabs stay."""
    words = str(text)
    if words.isascii():
        if words.isprintable():
            return words
        return _ASCII.sub(_escape, words.replace("\r\n", "\n"))
    return _SUSPECT.sub(_escape, words.replace("\r\n", "\n"))


def one_line(text: object) -> str:
    return " ".join(safe(text).split())


def safe_json(text: str) -> str:
    """The same for JSON: its own escapes, so that it means what it meant."""
    return _SUSPECT.sub(_escape_in_json, text)


def style(text: object, **how: Any) -> Styled:
    """Escaped text in colours: the keywords of `click.style`."""
    return Styled(click.style(safe(text), **how))


def join(*pieces: str) -> Styled:
    return Styled("".join(piece if type(piece) is Styled else safe(piece) for piece in pieces))


def _escape(found: re.Match[str]) -> str:
    if _is_needed(found):
        return found[0]
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_in_json(found: re.Match[str]) -> str:
    return found[0] if _is_needed(found) else json.dumps(found[0])[1:-1].replace("\x7f", "\\u007f")


def _is_needed(found: re.Match[str]) -> bool:
    """Whether a joiner or a selector follows a character whose form it chooses; rows of them hide text."""
    if not _CONTEXTUAL.match(found[0]):
        return False
    before = found.string[found.start() - 1 : found.start()]
    if found[0] in _JOINERS:
        return before > "\x7f" and before not in _JOINERS and not before.isspace()
    return before > " " and not before.isspace() and not _SUSPECT.match(before)


# --- width ---------------------------------------------------------------------------------------------


def width_of(text: str) -> int:
    """How many columns a line of escaped text takes."""
    is_narrow = text.isascii() or text.replace("\u00a0", " ").isascii()
    return len(text) if is_narrow else sum(map(_width, text))


def fit(text: str, start: int, columns: int) -> int:
    """The end of the longest piece from `start` that takes no more than so many columns; at least one
    character."""
    if text[start : start + columns].isascii():
        return min(start + columns, len(text))
    stop, left = start, columns
    while stop < len(text) and (left := left - _width(text[stop])) >= 0:
        stop += 1
    return max(stop, start + 1)


def _width(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


_MAX_CHOICES = 6
_MAX_SUMMARY = 200
_MAX_SIGNATURE = 400
_MAX_NAME = 200
_MAX_WORD = 200
_FIRST_LINE = re.compile(rf"\S.{{0,{_MAX_SUMMARY}}}")
_LIMITS = {
    "minimum": ">= {}",
    "exclusiveMinimum": "> {}",
    "maximum": "<= {}",
    "exclusiveMaximum": "< {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matching {}",
}


@dataclass(frozen=True, slots=True)
class ParameterWords:
    """One parameter as `show` prints it."""

    name: str
    type: str
    is_required: bool
    default: str
    description: str


def parameters_of(definition: ToolDefinition) -> list[ParameterWords]:
    schema = definition.input_schema
    properties, required = _parameters(schema)
    found = []
    for name, value in properties.items():
        facts = value if isinstance(value, Mapping) else {}
        default = json.dumps(facts["default"], ensure_ascii=False, default=str) if "default" in facts else ""
        found.append(
            ParameterWords(
                one_line(name),
                ", ".join([name_type(facts, schema), *_limits(facts)]),
                name in required,
                one_line(default),
                safe(facts.get("description", "")),
            )
        )
    return found


def sign(definition: ToolDefinition) -> str:
    """The parameters on one line: `a: integer, b?: string`. As many as fit into a few hundred characters."""
    schema = definition.input_schema
    properties, required = _parameters(schema)
    parts: list[str] = []
    length = 0
    for name, value in properties.items():
        if length > _MAX_SIGNATURE:
            parts.append("...")
            break
        part = f"{cut(name, _MAX_NAME)}{'' if name in required else '?'}: {name_type(value, schema)}"
        parts.append(part)
        length += len(part)
    return cut(", ".join(parts), 2 * _MAX_SIGNATURE)


def _parameters(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], Container[str]]:
    """The properties by name, and which are required, whatever else a stranger has put there."""
    properties, required = schema.get("properties"), schema.get("required")
    return (
        properties if isinstance(properties, Mapping) else {},
        required if isinstance(required, list | tuple) else (),
    )


def name_type(schema: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    """A schema's type as a person says it."""
    if not isinstance(schema, Mapping) or depth > 3:
        return "any"
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        definitions = root.get("$defs")
        target = definitions.get(name) if isinstance(definitions, Mapping) else None
        is_enum = isinstance(target, Mapping) and "enum" in target
        return name_type(target, root, depth + 1) if is_enum else cut(name, _MAX_WORD)
    if isinstance(values := schema.get("enum"), list | tuple) or "const" in schema:
        return _choices(values if isinstance(values, list | tuple) else [schema["const"]])
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            names = dict.fromkeys(name_type(item, root, depth + 1) for item in schema[keyword])
            return " | ".join(_first(list(names), 2 * _MAX_CHOICES))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_first([cut(item, _MAX_WORD) for item in kind], 2 * _MAX_CHOICES))
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"array of {name_type(schema['items'], root, depth + 1)}"
    if kind is None:
        return "any"
    name = cut(kind, _MAX_WORD)
    return f"{name} ({cut(schema['format'], _MAX_WORD)})" if schema.get("format") else name


def _choices(values: Sequence[Any]) -> str:
    shown = [json.dumps(value, ensure_ascii=False, default=str) for value in values[: _MAX_CHOICES + 1]]
    return " | ".join(_first([cut(value, _MAX_WORD) for value in shown], _MAX_CHOICES))


def _first(items: list[str], most: int) -> list[str]:
    return items if len(items) <= most else [*items[:most], "..."]


def _limits(schema: Mapping[str, Any]) -> Iterable[str]:
    return (words.format(cut(schema[key], _MAX_WORD)) for key, words in _LIMITS.items() if key in schema)


def hints_of(definition: ToolDefinition) -> str:
    """The annotations as words: `read-only, not open-world`."""
    labels = {
        "readOnlyHint": "read-only",
        "destructiveHint": "destructive",
        "idempotentHint": "idempotent",
        "openWorldHint": "open-world",
    }
    said = definition.annotations
    return ", ".join(
        label if said[key] else f"not {label}" for key, label in labels.items() if said.get(key) is not None
    )


def first_line(definition: ToolDefinition) -> str:
    """The summary of a tool: the first line of its description, cut where it is very long."""
    found = _FIRST_LINE.search(definition.description)
    return cut(found[0].splitlines()[0], _MAX_SUMMARY) if found else ""


def short_name(definition: ToolDefinition) -> str:
    """The name for a list: cut where it is longer than any protocol allows."""
    return cut(definition.name, _MAX_NAME)


def cut(text: object, limit: int) -> str:
    """Text on one line, escaped, and cut where it is longer than so many characters."""
    words = str(text)
    return one_line(words) if len(words) <= limit else f"{one_line(words[:limit])}..."


def count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def suggest(name: str, known: Iterable[str]) -> str | None:
    """`did you mean 'x'?`, or what there is where that is little."""
    import difflib

    names = list(dict.fromkeys(known))
    folded = {item.casefold(): item for item in names}
    close = difflib.get_close_matches(name.casefold(), folded, n=3)
    if close:
        return f"did you mean {' or '.join(repr(folded[item]) for item in close)}?"
    if not names:
        return None
    shown = ", ".join(names[:8])
    return f"there are: {shown}" if len(names) <= 8 else f"there are {len(names)}, among them: {shown}"


def tool_json(tool: Tool) -> dict[str, Any]:
    """A tool as it goes out on the wire, and where it was written."""
    source = tool.source
    return {**tool.definition.to_wire(), "source": {"file": source.file, "line": source.line}}
