"""The servers in a TOML file: who is there, one more, one less.

Knows that each is a table below one table. A new one is appended; one that is changed or taken out is edited
line by line, so that comments and other keys stay. Every text it makes is read again with `tomllib` and
compared with what was wanted; what cannot be done in lines (inline tables) is refused. Refuses to know files
and what an entry means.

Reads a TOML text into statements that know where they stand: headers and assignments.

`tomllib` reads the values and keeps no places; this keeps the places and reads no values. It is right
only for texts that `tomllib` accepts, and `statements` makes sure of that first.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.cli.connect.json_file import CannotEditError, MalformedError, line_of

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


_BARE_toml_editor = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class TomlEditor:
    """`container` is the table whose tables are the servers."""

    container: str

    def servers(self, text: str) -> dict[str, Any]:
        """Every entry by its name. Raises MalformedError."""
        return self._servers(load(text), text)

    def put(self, text: str, name: str, entry: Mapping[str, Any]) -> str:
        """The text with this entry under this name; what else the document says is as it was."""
        before = self.servers(text)
        if isinstance(before.get(name), dict):
            new = self._change(text, name, before[name], entry)
        else:
            new = _append(text, self.show(name, entry), _eol(text))
        self._check(new, text, {**before, name: dict(entry)})
        if Counter(comments_in(text)) - Counter(comments_in(new)):
            raise CannotEditError
        return new

    def drop(self, text: str, name: str) -> str:
        """The text without the entry of this name, which must be there."""
        before = self.servers(text)
        del before[name]
        new = text
        for start, end in reversed(_blocks(text, (self.container, name))):
            new = _cut_lines(new, start, end)
        self._check(new, text, before)
        return new

    def show(self, name: str, entry: Mapping[str, Any]) -> str:
        """The table of one entry, ready to paste."""
        return "\n".join([f"[{self.container}.{_key(name)}]", *_lines(entry)]) + "\n"

    def _servers(self, document: Mapping[str, Any], text: str) -> dict[str, Any]:
        servers = document.get(self.container, {})
        if not isinstance(servers, dict):
            line = next(
                (line_of(text, item.start) for item in statements(text) if item.path[0] == self.container),
                None,
            )
            raise MalformedError(
                f"{self.container} must be a table", line, f"write [{self.container}.NAME] tables"
            )
        return dict(servers)

    def _change(self, text: str, name: str, before: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
        """Key by key, so that what stays the same keeps its looks and its comments."""
        table = (self.container, name)
        for key in dict.fromkeys([*before, *entry]):
            if key in before and key in entry and before[key] == entry[key]:
                continue
            found = [item for item in statements(text) if item.path[:3] == (*table, key)]
            simple = [item for item in found if item.path == (*table, key) and item.table == table]
            if key in entry and simple == found and len(found) == 1:
                text = _rewrite(text, found[0], _value(entry[key]))
                continue
            for item in reversed(found):
                text = _rewrite(text, item, None)
            if key in entry:
                text = self._insert(text, table, f"{_key(key)} = {_value(entry[key])}")
        return text

    def _insert(self, text: str, table: tuple[str, ...], line: str) -> str:
        """A line behind the last one that belongs to a table directly, or behind its header."""
        own = [item for item in statements(text) if item.table == table]
        if not own or not own[0].is_header:
            raise CannotEditError
        at = _end_of_line(text, own[-1].end)
        return text[:at] + _eol(text) + line + text[at:]

    def _check(self, text: str, before: str, servers: Mapping[str, Any]) -> None:
        """Nothing but the servers may differ. An empty table of servers and none at all are the same."""
        try:
            after = load(text)
        except MalformedError:
            raise CannotEditError from None
        wanted = {**load(before), self.container: servers}
        if {self.container: {}, **after} != wanted:
            raise CannotEditError


def _append(text: str, table: str, eol: str) -> str:
    gap = "" if not text.strip() else eol if text.endswith("\n") else eol * 2
    return text + gap + table.replace("\n", eol)


def _blocks(text: str, prefix: tuple[str, ...]) -> list[tuple[int, int]]:
    """From the first to the last character of what belongs below a path, table by table."""
    blocks: list[tuple[int, int]] = []
    last: tuple[str, ...] | None = None
    for item in statements(text):
        if item.path[: len(prefix)] != prefix:
            last = None
        elif last == item.table and not item.is_header:
            blocks[-1] = blocks[-1][0], item.end
        else:
            blocks.append((item.start, item.end))
            last = item.table
    return blocks


def _cut_lines(text: str, start: int, end: int) -> str:
    """Without the whole lines from `start` to `end`, and without the empty line that set them apart."""
    first = text.rfind("\n", 0, start) + 1
    last = _end_of_line(text, end)
    last = text.find("\n", last) + 1 or len(text)
    before, after = text[:first], text[last:]
    if not after.strip() or after.startswith(("\n", "\r\n")):
        lines = before.splitlines(keepends=True)
        if lines and not lines[-1].strip():
            before = "".join(lines[:-1])
    return before + after


def _rewrite(text: str, item: Statement, value: str | None) -> str:
    """With another value, or without the statement; its comments stay, those inside it above it."""
    eol = _eol(text)
    inner = "".join(comment + eol for comment in comments_in(text, item.start, item.end))
    if value is not None:
        return text[: item.start] + inner + text[item.start : item.value_start] + value + text[item.end :]
    rest = text[item.end : _end_of_line(text, item.end)].strip()
    if rest or inner:
        return text[: item.start] + inner + text[item.end :].lstrip(" \t")
    first = text.rfind("\n", 0, item.start) + 1
    return text[:first] + text[text.find("\n", item.end) + 1 or len(text) :]


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    if end < 0:
        return len(text)
    return end - 1 if text[end - 1] == "\r" else end


def _eol(text: str) -> str:
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


# --- values ------------------------------------------------------------------------------------------


def _lines(entry: Mapping[str, Any]) -> Iterable[str]:
    return (f"{_key(key)} = {_value(value)}" for key, value in entry.items())


def _key(key: str) -> str:
    return key if _BARE_toml_editor.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    """Strings, booleans, numbers, lists and tables of these: all that an entry is made of."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_lines(value)) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return json.dumps(value)
