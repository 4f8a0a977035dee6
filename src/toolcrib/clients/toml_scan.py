"""Reads a TOML text into statements that know where they stand: headers and assignments.

`tomllib` reads the values and keeps no places; this keeps the places and reads no values. It is right
only for texts that `tomllib` accepts, and `statements` makes sure of that first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toolcrib.clients.malformed import CannotEditError, MalformedError, line_of

_BARE = r"[A-Za-z0-9_-]+"
_PART = re.compile(rf'{_BARE}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_BLANK = re.compile(r"[ \t]*")
_STRING = re.compile(
    r'"""(?:\\[\s\S]|(?!""")[\s\S])*"{3,5}'
    r"|'''(?:(?!''')[\s\S])*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
)
_COMMENT = re.compile(r"#[^\r\n]*")
_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Statement:
    """`[table]` or `key = value`. `path` is the whole way from the root; `start` to `end` has no comment."""

    path: tuple[str, ...]
    is_header: bool
    start: int
    value_start: int
    end: int
    table: tuple[str, ...]


def load(text: str) -> dict[str, Any]:
    """The values. Raises MalformedError."""
    import tomllib  # most commands read no TOML

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        line = int(place[1]) if place and place[1] else line_of(text, len(text))
        raise MalformedError(f"is not TOML: {_PLACE.sub('', str(error))}", line) from None


def statements(text: str) -> list[Statement]:
    """Every header and assignment, in order. Raises MalformedError."""
    load(text)
    return list(_read(text))


def comments_in(text: str, start: int = 0, end: int | None = None) -> list[str]:
    """The comments between two places that lie outside strings."""
    end = len(text) if end is None else end
    found = []
    while start < end:
        string = _STRING.match(text, start)
        comment = _COMMENT.match(text, start)
        if string is not None:
            start = string.end()
        elif comment is not None:
            found.append(comment[0])
            start = comment.end()
        else:
            start += 1
    return found


def _read(text: str) -> Iterator[Statement]:
    at = 0
    table: tuple[str, ...] = ()
    while at < len(text):
        if text[at] in " \t\r\n":
            at += 1
        elif text[at] == "#":
            at = _end_of(_COMMENT, text, at)
        elif text[at] == "[":
            brackets = 2 if text.startswith("[[", at) else 1
            table, end = _read_key(text, at + brackets)
            end = text.index("]", end) + brackets
            yield Statement(table, True, at, end, end, table)
            at = end
        else:
            key, end = _read_key(text, at)
            value = _end_of(_BLANK, text, text.index("=", end) + 1)
            end = _end_of_value(text, value)
            yield Statement((*table, *key), False, at, value, end, table)
            at = end


def _read_key(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """A dotted key and where it ends."""
    at = _end_of(_BLANK, text, at)
    parts = []
    while True:
        end = _end_of(_PART, text, at)
        parts.append(_plain(text[at:end]))
        dot = _DOT.match(text, end)
        if dot is None:
            return tuple(parts), end
        at = dot.end()


def _plain(part: str) -> str:
    if part.startswith("'"):
        return part[1:-1]
    if part.startswith('"'):
        return str(load(f"key = {part}")["key"])
    return part


def _end_of_value(text: str, at: int) -> int:
    """Behind a value: the last character of it that is neither space nor comment."""
    depth = 0
    end = at
    while at < len(text):
        letter = text[at]
        if letter in "\r\n#" and depth == 0:
            break
        if letter == "#":
            at = _end_of(_COMMENT, text, at)
        elif letter in " \t\r\n":
            at += 1
        elif letter in "\"'":
            at = end = _end_of(_STRING, text, at)
        else:
            depth += (letter in "[{") - (letter in "]}")
            at = end = at + 1
    return end


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    if found is None:
        raise CannotEditError
    return found.end()
