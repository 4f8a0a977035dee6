"""The servers in a JSON file: who is there, one more, one less.

Knows that they are members of one object of the document. Every text it makes is read again and compared with
what was wanted before anybody gets it; refuses to know files and what an entry means.

What a text that is not what it should be raises: the line, the problem, the way out.

The file is not known here; `connection` adds it and makes a ConfigurationError of it.

Reads JSON, with or without comments, into values that know where in the text they stand.

Knows the grammar and nothing else: no file, no client, no entry. It changes nothing; `jsonc_edit` does.
Whatever is wrong is a MalformedError, with the line.

Changes one member of an object in a JSON text, and leaves every other character where it is.

A new member looks like its neighbours: their indentation, line ends and trailing comma, or all on one line.
Comments survive: one inside a value that is replaced stands before the new value. Knows texts and places;
refuses to know what the members mean.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class MalformedError(ValueError):
    """What stands there is wrong."""

    def __init__(self, message: str, line: int | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.hint = hint


class CannotEditError(MalformedError):
    """Nothing is wrong, but the change cannot be made in the text without harm to something else."""

    def __init__(self) -> None:
        super().__init__("is written in a way that cannot be changed without losing something else in it")


def line_of(text: str, position: int) -> int:
    """Counted as editors count: a line ends with CR LF, with LF or with CR."""
    before = text[:position].replace("\r\n", "\n")
    return before.count("\n") + before.count("\r") + 1


MAX_DEPTH = 200
_SPACE = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*[\s\S]*?\*/")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9A-Za-z.])")
_WORD = re.compile(r"(?:true|false|null)(?![0-9A-Za-z_])")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a reader accepts beyond plain JSON."""

    comments: bool = False
    trailing_commas: bool = False


PLAIN = Dialect()
COMMENTED = Dialect(comments=True)
LENIENT = Dialect(comments=True, trailing_commas=True)


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place. `members` is None for all but objects."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] | None = None

    def find(self, key: str) -> list[int]:
        """Where in `members` a key is; twice is possible, and nobody can say which counts."""
        return [index for index, member in enumerate(self.members or ()) if member.key == key]


@dataclass(frozen=True, slots=True)
class Member:
    """`"key": value`, from the key's first quote; `comma` is the place of the comma behind it."""

    key: str
    start: int
    value: Node
    comma: int | None


@dataclass(frozen=True, slots=True)
class Comment:
    start: int
    end: int
    is_line: bool


@dataclass(frozen=True, slots=True)
class Scan:
    """A text, its value (None where there is nothing but space and comments), and its comments in order."""

    text: str
    root: Node | None
    comments: tuple[Comment, ...]

    def comments_in(self, start: int, end: int) -> list[Comment]:
        return [comment for comment in self.comments if start <= comment.start and comment.end <= end]

    def show_comments(self) -> list[str]:
        return [self.text[comment.start : comment.end] for comment in self.comments]

    def line_of(self, position: int) -> int:
        return line_of(self.text, position)


def scan(text: str, dialect: Dialect = LENIENT) -> Scan:
    """Raises MalformedError."""
    return _Scanner(text, dialect).scan()


class _Scanner:
    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text = text
        self.dialect = dialect
        self.at = 0
        self.comments: list[Comment] = []

    def scan(self) -> Scan:
        self._skip()
        root = self._value(0) if self.at < len(self.text) else None
        self._skip()
        if self.at < len(self.text):
            raise self._surprise("the end of the file")
        return Scan(self.text, root, tuple(self.comments))

    def _skip(self) -> None:
        """Go past space and comments."""
        text = self.text
        while True:
            self.at = _SPACE.match(text, self.at).end()  # type: ignore[union-attr] # matches nothing, too
            if not text.startswith("/", self.at):
                return
            found = _COMMENT.match(text, self.at)
            if found is None:
                what = "a comment that never ends" if text.startswith("/*", self.at) else "a lone /"
                raise self._refuse(f"there is {what}")
            if not self.dialect.comments:
                raise self._refuse("there is a comment, and this file must be plain JSON", "take it out")
            self.comments.append(Comment(self.at, found.end(), text.startswith("//", self.at)))
            self.at = found.end()

    def _value(self, depth: int) -> Node:
        start = self.at
        opening = self.text[start : start + 1]
        if depth > MAX_DEPTH:
            raise self._refuse("it is nested too deeply")
        if opening == "{":
            return self._object(depth)
        if opening == "[":
            return self._array(depth)
        for pattern in (_STRING, _NUMBER, _WORD):
            found = pattern.match(self.text, start)
            if found is not None:
                self.at = found.end()
                return Node(start, self.at, self._decode(found[0], start))
        raise self._surprise("a value")

    def _object(self, depth: int) -> Node:
        start = self.at
        members: list[Member] = []
        comma = None
        self._open()
        while not self._closes("}", comma):
            at = self.at
            found = _STRING.match(self.text, at)
            if found is None:
                raise self._surprise('a key in "quotes"')
            self.at = found.end()
            key = self._decode(found[0], at)
            self._skip()
            if not self.text.startswith(":", self.at):
                raise self._surprise("a colon")
            self._open()
            value = self._value(depth + 1)
            comma = self._comma("}")
            members.append(Member(key, at, value, comma))
        self.at += 1
        values = {member.key: member.value.value for member in members}
        return Node(start, self.at, values, tuple(members))

    def _array(self, depth: int) -> Node:
        start = self.at
        values: list[Any] = []
        comma = None
        self._open()
        while not self._closes("]", comma):
            values.append(self._value(depth + 1).value)
            comma = self._comma("]")
        self.at += 1
        return Node(start, self.at, values)

    def _open(self) -> None:
        self.at += 1
        self._skip()

    def _closes(self, bracket: str, comma: int | None) -> bool:
        if not self.text.startswith(bracket, self.at):
            return False
        if comma is not None and not self.dialect.trailing_commas:
            self.at = comma
            raise self._refuse("the last item is followed by a comma", "take the comma out")
        return True

    def _comma(self, bracket: str) -> int | None:
        """The place of the comma here. None where the bracket closes; anything else is wrong."""
        self._skip()
        at = self.at
        if self.text.startswith(",", at):
            self._open()
            return at
        if self.text.startswith(bracket, at):
            return None
        raise self._surprise(f"a comma or {bracket}")

    def _decode(self, token: str, start: int) -> Any:
        try:
            return json.loads(token)
        except ValueError:
            self.at = start
            raise self._refuse(f"{token[:40]} cannot be read") from None

    def _surprise(self, expected: str) -> MalformedError:
        there = self.text[self.at : self.at + 1]
        if there == '"' and not _STRING.match(self.text, self.at):
            return self._refuse("there is a string that does not end on its line")
        return self._refuse(
            f"expected {expected}, found {there!r}" if there else f"it ends before {expected}"
        )

    def _refuse(self, message: str, hint: str | None = None) -> MalformedError:
        return MalformedError(message, line_of(self.text, self.at), hint)


_DEFAULT_UNIT = "  "


def insert_member(found: Scan, parent: Node, key: str, value: Any) -> str:
    """The text with a member more at the end of an object."""
    if not parent.members:
        return _insert_first(found, parent, key, value)
    text, style = found.text, _Style(found)
    first, last = parent.members[0], parent.members[-1]
    end = last.value.end
    if not _breaks(text, parent.start, first.start):
        new = style.inline(key, value)
        if last.comma is None:
            return text[:end] + style.comma + new + text[end:]
        at = last.comma + 1
        return text[:at] + style.comma[1:] + new + "," + text[at:]
    indent = _indent_of(text, last.start if _starts_line(text, last.start) else first.start)
    new = style.eol + indent + style.spread(key, value, indent)
    if last.comma is None:
        at = _end_of_line_comments(found, end)
        return text[:end] + "," + text[end:at] + new + text[at:]
    at = _end_of_line_comments(found, last.comma + 1)
    return text[:at] + new + "," + text[at:]


def _insert_first(found: Scan, parent: Node, key: str, value: Any) -> str:
    """Into an object that is empty but for space and comments."""
    text, style = found.text, _Style(found)
    inside = found.comments_in(parent.start, parent.end)
    at, closing = inside[-1].end if inside else parent.start + 1, parent.end - 1
    if style.is_inline:
        gap = " " if inside else ""
        return text[:at] + gap + style.inline(key, value) + text[at:]
    base = _indent_of(text, parent.start)
    indent = base + style.unit
    rest = text[at:closing] if _breaks(text, at, closing) else style.eol + base
    return text[:at] + style.eol + indent + style.spread(key, value, indent) + rest + text[closing:]


def replace_value(found: Scan, member: Member, value: Any) -> str:
    """The text with another value in a member's place."""
    text, style, old = found.text, _Style(found), member.value
    indent = _indent_of(text, member.start)
    kept = _kept_comments(found, old.start, old.end, style.eol + indent)
    new = style.inline_value(value) if style.is_inline else style.spread_value(value, indent)
    return text[: old.start] + kept + new + text[old.end :]


def remove_member(found: Scan, parent: Node, index: int) -> str:
    """The text without a member. Comments inside it go with it; those around it stay."""
    return _remove(found, parent, index, "")


def remove_value(found: Scan, parent: Node, index: int) -> str:
    """The text without a member, all its comments kept."""
    member = (parent.members or ())[index]
    between = _Style(found).eol + _indent_of(found.text, member.start)
    return _remove(found, parent, index, _kept_comments(found, member.start, member.value.end, between))


def _remove(found: Scan, parent: Node, index: int, leaving: str) -> str:
    text, members = found.text, parent.members or ()
    member = members[index]
    before, after = text[: member.start], text[member.value.end :]
    lost = None  # the place of the comma before it, where that goes too
    if member.comma is not None:
        comma = member.comma - member.value.end
        after = after[:comma] + after[comma + 1 :]
    elif index > 0:
        lost = members[index - 1].comma
    floor = parent.start + 1
    is_behind_line_comment = False
    for comment in found.comments_in(floor, member.start):
        floor, is_behind_line_comment = comment.end, comment.is_line
    if lost is not None:
        before = before[:lost] + before[lost + 1 :]
        floor -= lost < floor
    if leaving:
        return before + leaving + after
    short = before[:floor] + before[floor:].rstrip(" \t\r\n")
    if is_behind_line_comment and len(short) == floor:
        rest = after.lstrip(" \t")
        if rest.startswith(("\r", "\n")):
            after = rest
        else:
            short = before  # the line end that closes the comment must stay
    behind = len(text) - parent.end + 1  # from the closing bracket on
    if len(members) == 1 and not (short[parent.start + 1 :] + after[:-behind]).strip():
        return short[: parent.start + 1] + after[-behind:]
    return short + after


# --- how a text is written ---------------------------------------------------------------------------


class _Style:
    """Line ends, the width of a step, and whether everything stands on one line."""

    def __init__(self, found: Scan) -> None:
        text, root = found.text, found.root
        members = (root.members if root else None) or ()
        first_end = text.find("\n")
        self.eol = "\r\n" if first_end > 0 and text[first_end - 1] == "\r" else "\n"
        self.unit = _DEFAULT_UNIT
        self.is_inline = False
        self.comma, self.colon = ", ", ": "
        if root is None or not members:
            return
        first = members[0]
        self.is_inline = not _breaks(text, root.start, root.end)
        if _breaks(text, root.start, first.start):
            self.unit = (
                _indent_of(text, first.start).removeprefix(_indent_of(text, root.start)) or _DEFAULT_UNIT
            )
        if self.is_inline and text[first.value.start - 1] == ":":
            self.comma, self.colon = ",", ":"

    def inline(self, key: str, value: Any) -> str:
        return json.dumps(key, ensure_ascii=False) + self.colon + self.inline_value(value)

    def inline_value(self, value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(self.comma, self.colon))

    def spread(self, key: str, value: Any, indent: str) -> str:
        return f"{json.dumps(key, ensure_ascii=False)}: {self.spread_value(value, indent)}"

    def spread_value(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit)
        return lines.replace("\n", self.eol + indent)


def _breaks(text: str, start: int, end: int) -> bool:
    return "\n" in text[start:end]


def _line_start(text: str, position: int) -> int:
    return text.rfind("\n", 0, position) + 1


def _starts_line(text: str, position: int) -> bool:
    return not text[_line_start(text, position) : position].strip(" \t")


def _indent_of(text: str, position: int) -> str:
    line = text[_line_start(text, position) : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _end_of_line_comments(found: Scan, position: int) -> int:
    """Behind the comments that stand on the same line: they speak of what is before them."""
    for comment in found.comments:
        if comment.start >= position:
            if found.text[position : comment.start].strip(" \t"):
                break
            position = comment.end
            if _breaks(found.text, comment.start, comment.end):
                break
    return position


def _kept_comments(found: Scan, start: int, end: int, line_break: str) -> str:
    """The comments between two places, as text that anything may follow."""

    def show(comment: Comment) -> str:
        return found.text[comment.start : comment.end] + (line_break if comment.is_line else " ")

    return "".join(show(comment) for comment in found.comments_in(start, end))


@dataclass(frozen=True, slots=True)
class JsonEditor:
    """`container` is the member that holds the servers; `dialect` what the client reads."""

    container: str
    dialect: Dialect = LENIENT

    def servers(self, text: str) -> dict[str, Any]:
        """Every entry by its name. Raises MalformedError."""
        found = scan(text, self.dialect)
        place = self._place(found)
        return dict(place.value) if place is not None else {}

    def put(self, text: str, name: str, entry: Mapping[str, Any]) -> str:
        """The text with this entry under this name; what else the document says is as it was."""
        found = scan(text, self.dialect)
        place = self._place(found)
        if found.root is None:
            new = (f"{text.rstrip()}\n" if found.comments else "") + self.show(name, entry)
        elif place is None:
            new = insert_member(found, found.root, self.container, {name: dict(entry)})
        elif name in place.value:
            new = self._change(found, name, entry)
        else:
            new = insert_member(found, place, name, dict(entry))
        servers = {**(place.value if place is not None else {}), name: dict(entry)}
        after = self._checked(new, found, servers)
        if Counter(found.show_comments()) - Counter(after.show_comments()):
            raise CannotEditError
        return new

    def drop(self, text: str, name: str) -> str:
        """The text without the entry of this name, which must be there."""
        found = scan(text, self.dialect)
        place, index = self._locate(found, name)
        new = remove_member(found, place, index)
        self._checked(new, found, {key: value for key, value in place.value.items() if key != name})
        return new

    def show(self, name: str, entry: Mapping[str, Any]) -> str:
        """A whole document with one entry, ready to paste."""
        return json.dumps({self.container: {name: dict(entry)}}, indent=2, ensure_ascii=False) + "\n"

    def _place(self, found: Scan) -> Node | None:
        """The object that holds the servers; None where there is none yet."""
        root = found.root
        if root is None:
            return None
        if root.members is None:
            raise MalformedError(
                f"must hold an object, got {_kind(root.value)}",
                found.line_of(root.start),
                "put {...} around it",
            )
        where = root.find(self.container)
        if not where:
            return None
        if len(where) > 1:
            again = found.line_of(root.members[where[1]].start)
            raise MalformedError(f'"{self.container}" is there twice', again, "make one of the two")
        place = root.members[where[0]].value
        if place.members is None:
            raise MalformedError(
                f'"{self.container}" must be an object, got {_kind(place.value)}',
                found.line_of(place.start),
                'write it as {"NAME": {...}}',
            )
        return place

    def _locate(self, found: Scan, name: str) -> tuple[Node, int]:
        """The object that holds the servers, and which of its members has this name."""
        place = self._place(found)
        where = place.find(name) if place is not None else []
        if place is None or place.members is None or not where:
            raise KeyError(name)
        if len(where) > 1:
            again = found.line_of(place.members[where[1]].start)
            raise MalformedError(f'the server "{name}" is there twice', again, "take one of the two out")
        return place, where[0]

    def _change(self, found: Scan, name: str, entry: Mapping[str, Any]) -> str:
        """Member by member, so that what stays the same keeps its looks and its comments."""
        member = self._member(found, name)
        if member.value.members is None:
            return replace_value(found, member, dict(entry))
        before = member.value.value
        for key, value in entry.items():
            if key not in before:
                new = insert_member(found, self._member(found, name).value, key, value)
            elif before[key] != value:
                holder = self._member(found, name).value
                new = replace_value(found, (holder.members or ())[holder.find(key)[0]], value)
            else:
                continue
            found = scan(new, self.dialect)
        for key in [key for key in before if key not in entry]:
            holder = self._member(found, name).value
            found = scan(remove_value(found, holder, holder.find(key)[0]), self.dialect)
        return found.text

    def _member(self, found: Scan, name: str) -> Member:
        place, index = self._locate(found, name)
        return (place.members or ())[index]

    def _checked(self, text: str, before: Scan, servers: Mapping[str, Any]) -> Scan:
        """The new text, read again: nothing but the servers may differ."""
        after = scan(text, self.dialect)
        document = before.root.value if before.root is not None else {}
        if after.root is None or after.root.value != {**document, self.container: servers}:
            raise CannotEditError
        return after


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
