r"""Text for terminals: escaping, display width, and short descriptions of tools, findings and times.

    safe("a\x1b[2Jb")                           a\x1b[2Jb  (escaped, harmless)
    join(style("error:", fg="red"), message)    our colours stay, `message` is escaped

Everything that is printed passes through here once: `Terminal` escapes each piece that is not `Styled`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from toolcrib.definition import ToolDefinition
from toolcrib.errors import Finding
from toolcrib.tool import Tool

_JOINERS = "\u200c\u200d"
_SELECTORS = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
# Control characters, direction marks, characters without width or glyph (among them the tags, which can
# spell hidden ASCII), and surrogates.
_HARMFUL = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_ASCII = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SUSPECT = re.compile(f"[{_HARMFUL}{_JOINERS}{_SELECTORS}]")
_CONTEXTUAL = re.compile(f"[{_JOINERS}{_SELECTORS}]")


class Styled(str):
    """Escaped text, possibly with colour codes; only `style` and `join` create it.

    Formatting, slicing or concatenating it gives a plain string, which is escaped again when printed: a
    mistake is visible but harmless.
    """

    __slots__ = ()


def safe(text: object) -> str:
    """Escape everything that could control a terminal or is invisible; keep line ends and tabs."""
    words = str(text)
    if words.isascii():
        if words.isprintable():
            return words
        return _ASCII.sub(_escape, words.replace("\r\n", "\n"))
    return _SUSPECT.sub(_escape, words.replace("\r\n", "\n"))


def one_line(text: object) -> str:
    """Escape a text and collapse its whitespace."""
    return " ".join(safe(text).split())


def safe_json(text: str) -> str:
    """Escape the same characters in JSON with JSON escapes, so that the value stays the same."""
    return _SUSPECT.sub(_escape_in_json, text)


def style(text: object, **how: Any) -> Styled:
    """Escape a text and colour it; the keywords are those of `click.style`."""
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
    """Return whether a joiner or selector modifies the character before it; runs of them can hide text."""
    if not _CONTEXTUAL.match(found[0]):
        return False
    before = found.string[found.start() - 1 : found.start()]
    if found[0] in _JOINERS:
        return before > "\x7f" and before not in _JOINERS and not before.isspace()
    return before > " " and not before.isspace() and not _SUSPECT.match(before)


# --- display width ---------------------------------------------------------------------------------------


def width_of(text: str) -> int:
    """Return the number of columns that a line of escaped text takes."""
    is_narrow = text.isascii() or text.replace("\u00a0", " ").isascii()
    return len(text) if is_narrow else sum(map(_width, text))


def fit_columns(text: str, start: int, columns: int) -> int:
    """Return the end of the longest piece from `start` that fits into the columns; at least one character."""
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


# --- tools -----------------------------------------------------------------------------------------------

_MAX_CHOICES = 6
_MAX_SUMMARY = 200
_MAX_SIGNATURE = 400
_MAX_NAME = 200
_FIRST_LINE = re.compile(rf"\S.{{0,{_MAX_SUMMARY}}}")
_CONSTRAINTS = {
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
_ANNOTATIONS = {
    "readOnlyHint": "read-only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open-world",
}


def list_parameters(definition: ToolDefinition) -> list[tuple[str, str, str, str]]:
    """Return name, type, `required` or default, and description of every parameter."""
    schema = definition.input_schema
    properties, required = _read_properties(schema)
    rows = []
    for name, value in properties.items():
        field = value if isinstance(value, Mapping) else {}
        limits = [text.format(cut(field[key])) for key, text in _CONSTRAINTS.items() if key in field]
        need = "required" if name in required else "optional"
        if "default" in field and name not in required:
            need = f"default {one_line(json.dumps(field['default'], ensure_ascii=False, default=str))}"
        type_ = ", ".join([type_name(field, schema), *limits])
        rows.append((one_line(name), type_, need, safe(field.get("description", "")) or "-"))
    return rows


def signature(definition: ToolDefinition) -> str:
    """Return the parameters on one line, `a: integer, b?: string`, cut after a few hundred characters."""
    schema = definition.input_schema
    properties, required = _read_properties(schema)
    parts: list[str] = []
    length = 0
    for name, value in properties.items():
        if length > _MAX_SIGNATURE:
            parts.append("...")
            break
        part = f"{cut(name)}{'' if name in required else '?'}: {type_name(value, schema)}"
        parts.append(part)
        length += len(part)
    return cut(", ".join(parts), 2 * _MAX_SIGNATURE)


def _read_properties(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], Container[str]]:
    """Return the properties and the required names of a schema that may be malformed."""
    properties, required = schema.get("properties"), schema.get("required")
    return (
        properties if isinstance(properties, Mapping) else {},
        required if isinstance(required, list | tuple) else (),
    )


def type_name(schema: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    """Return the type of a schema for people: `array of integer`, `"a" | "b"`."""
    if not isinstance(schema, Mapping) or depth > 3:
        return "any"
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        definitions = root.get("$defs")
        target = definitions.get(name) if isinstance(definitions, Mapping) else None
        is_enum = isinstance(target, Mapping) and "enum" in target
        return type_name(target, root, depth + 1) if is_enum else cut(name)
    if isinstance(values := schema.get("enum"), list | tuple) or "const" in schema:
        choices = values if isinstance(values, list | tuple) else [schema["const"]]
        shown = [json.dumps(value, ensure_ascii=False, default=str) for value in choices[: _MAX_CHOICES + 1]]
        return _alternatives([cut(value) for value in shown], _MAX_CHOICES)
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            names = dict.fromkeys(type_name(item, root, depth + 1) for item in schema[keyword])
            return _alternatives(list(names), 2 * _MAX_CHOICES)
    kind = schema.get("type")
    if isinstance(kind, list):
        return _alternatives([cut(item) for item in kind], 2 * _MAX_CHOICES)
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"array of {type_name(schema['items'], root, depth + 1)}"
    if kind is None:
        return "any"
    return f"{cut(kind)} ({cut(schema['format'])})" if schema.get("format") else cut(kind)


def _alternatives(items: list[str], limit: int) -> str:
    return " | ".join(items if len(items) <= limit else [*items[:limit], "..."])


def list_annotations(definition: ToolDefinition) -> str:
    """Return the annotations in words: `read-only, not open-world`."""
    values = {label: definition.annotations.get(key) for key, label in _ANNOTATIONS.items()}
    return ", ".join(
        label if value else f"not {label}" for label, value in values.items() if value is not None
    )


def first_line(definition: ToolDefinition) -> str:
    """Return the first line of the description, cut where it is very long."""
    found = _FIRST_LINE.search(definition.description)
    return cut(found[0].splitlines()[0], _MAX_SUMMARY) if found else ""


def cut(text: object, limit: int = _MAX_NAME) -> str:
    """Return a text on one line, escaped, and cut at the limit."""
    full = str(text)
    return one_line(full) if len(full) <= limit else f"{one_line(full[:limit])}..."


def tool_json(tool: Tool) -> dict[str, Any]:
    """Return a tool as it is sent to clients, with the place of its definition."""
    source = tool.source
    return {**tool.definition.to_wire(), "source": {"file": source.file, "line": source.line}}


def catalog_json(tools: Iterable[Tool], findings: Iterable[Finding]) -> dict[str, Any]:
    """Return the document that `list`, `scan`, `check` and `lint` print."""
    return {
        "tools": [tool_json(tool) for tool in tools],
        "findings": [finding.to_json() for finding in findings],
    }


# --- counts, suggestions, times --------------------------------------------------------------------------

LEVELS = ("error", "warning", "advice")
_LEVEL_NOUNS = {
    "error": ("error", "errors"),
    "warning": ("warning", "warnings"),
    "advice": ("suggestion", "suggestions"),
}
DAY_S = 86_400.0
_UNITS_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": DAY_S, "w": 7 * DAY_S, "y": 365 * DAY_S}
_DURATION = re.compile(r"(\d{1,9})\s*([a-z]+)")
_LAST_S = 253_402_300_799.0  # the end of the year 9999, the last that datetime can represent


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 tool`, `2 tools`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def count_level(number: int, level: str) -> str:
    return count(number, *_LEVEL_NOUNS[level])


def count_findings(findings: Iterable[Finding]) -> str:
    """Return the number of findings by level: `1 error, 2 warnings`, or `no problems`."""
    levels = [finding.level for finding in findings]
    counts = [count_level(levels.count(level), level) for level in LEVELS if level in levels]
    return ", ".join(counts) or "no problems"


def shorten_list(names: Sequence[str], limit: int = 6) -> str:
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")


def suggest(name: str, known: Iterable[str]) -> str | None:
    """Return `did you mean 'x'?`, or the known names where none is similar."""
    import difflib

    names = list(dict.fromkeys(known))
    folded = {item.casefold(): item for item in names}
    close = difflib.get_close_matches(name.casefold(), folded, n=3)
    if close:
        return f"did you mean {' or '.join(repr(folded[item]) for item in close)}?"
    if not names:
        return None
    shown = ", ".join(names[:8])
    return f"available: {shown}" if len(names) <= 8 else f"{len(names)} are available, for example: {shown}"


def parse_time(text: str, now_s: float, sign: int) -> float:
    """Return the time that `30d`, `12h`, `2027-01-01` or `2027-01-01T12:00` (UTC) means.

    A duration counts from now: forwards where `sign` is 1, backwards where it is -1. Raises ValueError.
    """
    duration = _DURATION.fullmatch(text.strip().lower())
    try:
        if duration is not None and duration[2] in _UNITS_S:
            time_s = now_s + sign * int(duration[1]) * _UNITS_S[duration[2]]
        else:
            moment = datetime.fromisoformat(text.strip())
            time_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError("use a time such as 30d, 12h, 2027-01-01 or 2027-01-01T12:00 (UTC)") from None
    if not 0 <= time_s <= _LAST_S:
        raise ValueError("use a time between 1970 and 9999")
    return time_s


def format_time(wall_s: float, now_s: float | None = None) -> str:
    """Return the day in UTC; with the time of day where it is within two days of `now_s`."""
    is_near = now_s is not None and abs(wall_s - now_s) < 2 * DAY_S
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d %H:%M" if is_near else "%Y-%m-%d")


def format_duration(seconds: float) -> str:
    """Return a duration in its largest unit: `90 days`, `3 hours`."""
    for noun, size_s in (("day", DAY_S), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= 2 * size_s:
            return f"{round(seconds / size_s)} {noun}s"
    return count(round(seconds), "second")
