"""Edit the servers in a JSON file, with or without comments.

The servers are members of one object of the document. An edit changes one member and keeps every other
character; a new member follows the format of its neighbours. Every new text is parsed again and compared with
the intended document before it is returned.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class MalformedError(ValueError):
    """The text is not what it should be."""

    def __init__(self, message: str, line: int | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.hint = hint


class CannotEditError(MalformedError):
    """The text is valid, but cannot be changed without losing something else."""

    def __init__(self) -> None:
        super().__init__("cannot be edited without losing something else in it")


def line_of(text: str, position: int) -> int:
    """Return the line of a position; lines end with CR LF, LF or CR."""
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
    """What is accepted beyond plain JSON."""

    comments: bool = False
    trailing_commas: bool = False


PLAIN = Dialect()
COMMENTED = Dialect(comments=True)
LENIENT = Dialect(comments=True, trailing_commas=True)


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its position; `members` is None except for objects."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] | None = None

    def find(self, key: str) -> list[int]:
        """Return the indexes of a key in `members`; a key may occur twice."""
        return [index for index, member in enumerate(self.members or ()) if member.key == key]


@dataclass(frozen=True, slots=True)
class Member:
    """`"key": value`, from the first quote; `comma` is the position of the comma after it."""

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
class ParsedJson:
    """A text, its value (None where it is blank but for comments), and its comments in order."""

    text: str
    root: Node | None
    comments: tuple[Comment, ...]

    def comments_in(self, start: int, end: int) -> list[Comment]:
        return [comment for comment in self.comments if start <= comment.start and comment.end <= end]

    def list_comments(self) -> list[str]:
        return [self.text[comment.start : comment.end] for comment in self.comments]

    def line_of(self, position: int) -> int:
        return line_of(self.text, position)


def parse_json(text: str, dialect: Dialect = LENIENT) -> ParsedJson:
    """Parse a text. Raises MalformedError."""
    return _Parser(text, dialect).parse()


class _Parser:
    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text = text
        self.dialect = dialect
        self.at = 0
        self.comments: list[Comment] = []

    def parse(self) -> ParsedJson:
        self._skip()
        root = self._value(0) if self.at < len(self.text) else None
        self._skip()
        if self.at < len(self.text):
            raise self._unexpected("the end of the file")
        return ParsedJson(self.text, root, tuple(self.comments))

    def _skip(self) -> None:
        """Skip space and comments."""
        text = self.text
        while True:
            self.at = _SPACE.match(text, self.at).end()  # type: ignore[union-attr] # also matches nothing
            if not text.startswith("/", self.at):
                return
            found = _COMMENT.match(text, self.at)
            if found is None:
                is_open = text.startswith("/*", self.at)
                raise self._error("unterminated comment" if is_open else "unexpected '/'")
            if not self.dialect.comments:
                raise self._error("comments are not allowed in this file", "remove the comment")
            self.comments.append(Comment(self.at, found.end(), text.startswith("//", self.at)))
            self.at = found.end()

    def _value(self, depth: int) -> Node:
        start = self.at
        opening = self.text[start : start + 1]
        if depth > MAX_DEPTH:
            raise self._error("nested too deeply")
        if opening == "{":
            return self._object(depth)
        if opening == "[":
            return self._array(depth)
        for pattern in (_STRING, _NUMBER, _WORD):
            found = pattern.match(self.text, start)
            if found is not None:
                self.at = found.end()
                return Node(start, self.at, self._decode(found[0], start))
        raise self._unexpected("a value")

    def _object(self, depth: int) -> Node:
        start = self.at
        members: list[Member] = []
        comma = None
        self._open()
        while not self._closes("}", comma):
            at = self.at
            found = _STRING.match(self.text, at)
            if found is None:
                raise self._unexpected('a key in "quotes"')
            self.at = found.end()
            key = self._decode(found[0], at)
            self._skip()
            if not self.text.startswith(":", self.at):
                raise self._unexpected("a colon")
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
            raise self._error("comma after the last item", "remove the comma")
        return True

    def _comma(self, bracket: str) -> int | None:
        """Return the position of the comma here; None where the bracket closes."""
        self._skip()
        at = self.at
        if self.text.startswith(",", at):
            self._open()
            return at
        if self.text.startswith(bracket, at):
            return None
        raise self._unexpected(f"a comma or {bracket}")

    def _decode(self, token: str, start: int) -> Any:
        try:
            return json.loads(token)
        except ValueError:
            self.at = start
            raise self._error(f"invalid value {token[:40]}") from None

    def _unexpected(self, expected: str) -> MalformedError:
        there = self.text[self.at : self.at + 1]
        if there == '"' and not _STRING.match(self.text, self.at):
            return self._error("unterminated string")
        return self._error(
            f"expected {expected}, found {there!r}"
            if there
            else f"expected {expected}, found the end of the file"
        )

    def _error(self, message: str, hint: str | None = None) -> MalformedError:
        return MalformedError(message, line_of(self.text, self.at), hint)


_DEFAULT_UNIT = "  "


def insert_member(found: ParsedJson, parent: Node, key: str, value: Any) -> str:
    """Return the text with one more member at the end of an object."""
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
    new = style.eol + indent + style.indented(key, value, indent)
    if last.comma is None:
        at = _end_of_line_comments(found, end)
        return text[:end] + "," + text[end:at] + new + text[at:]
    at = _end_of_line_comments(found, last.comma + 1)
    return text[:at] + new + "," + text[at:]


def _insert_first(found: ParsedJson, parent: Node, key: str, value: Any) -> str:
    """Insert into an object that has only space and comments."""
    text, style = found.text, _Style(found)
    inside = found.comments_in(parent.start, parent.end)
    at, closing = inside[-1].end if inside else parent.start + 1, parent.end - 1
    if style.is_inline:
        gap = " " if inside else ""
        return text[:at] + gap + style.inline(key, value) + text[at:]
    base = _indent_of(text, parent.start)
    indent = base + style.unit
    rest = text[at:closing] if _breaks(text, at, closing) else style.eol + base
    return text[:at] + style.eol + indent + style.indented(key, value, indent) + rest + text[closing:]


def replace_value(found: ParsedJson, member: Member, value: Any) -> str:
    """Return the text with another value of a member; comments in the old value stay."""
    text, style, old = found.text, _Style(found), member.value
    indent = _indent_of(text, member.start)
    kept = _kept_comments(found, old.start, old.end, style.eol + indent)
    new = style.inline_value(value) if style.is_inline else style.indented_value(value, indent)
    return text[: old.start] + kept + new + text[old.end :]


def remove_member(found: ParsedJson, parent: Node, index: int) -> str:
    """Return the text without a member and the comments inside it; those around it stay."""
    return _remove(found, parent, index, "")


def remove_value(found: ParsedJson, parent: Node, index: int) -> str:
    """Return the text without a member, but with its comments."""
    member = (parent.members or ())[index]
    between = _Style(found).eol + _indent_of(found.text, member.start)
    return _remove(found, parent, index, _kept_comments(found, member.start, member.value.end, between))


def _remove(found: ParsedJson, parent: Node, index: int, leaving: str) -> str:
    text, members = found.text, parent.members or ()
    member = members[index]
    before, after = text[: member.start], text[member.value.end :]
    lost = None  # the comma before it, where that is removed too
    if member.comma is not None:
        comma = member.comma - member.value.end
        after = after[:comma] + after[comma + 1 :]
    elif index > 0:
        lost = members[index - 1].comma
    floor = parent.start + 1
    follows_line_comment = False
    for comment in found.comments_in(floor, member.start):
        floor, follows_line_comment = comment.end, comment.is_line
    if lost is not None:
        before = before[:lost] + before[lost + 1 :]
        floor -= lost < floor
    if leaving:
        return before + leaving + after
    short = before[:floor] + before[floor:].rstrip(" \t\r\n")
    if follows_line_comment and len(short) == floor:
        rest = after.lstrip(" \t")
        if rest.startswith(("\r", "\n")):
            after = rest
        else:
            short = before  # the line end of the comment must stay
    behind = len(text) - parent.end + 1  # from the closing bracket on
    if len(members) == 1 and not (short[parent.start + 1 :] + after[:-behind]).strip():
        return short[: parent.start + 1] + after[-behind:]
    return short + after


# --- format ------------------------------------------------------------------------------------------


class _Style:
    """The format of a text: line ends, indentation, and whether it is on one line."""

    def __init__(self, found: ParsedJson) -> None:
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

    def indented(self, key: str, value: Any, indent: str) -> str:
        return f"{json.dumps(key, ensure_ascii=False)}: {self.indented_value(value, indent)}"

    def indented_value(self, value: Any, indent: str) -> str:
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


def _end_of_line_comments(found: ParsedJson, position: int) -> int:
    """Return the end of the comments on the same line, which belong to what is before them."""
    for comment in found.comments:
        if comment.start >= position:
            if found.text[position : comment.start].strip(" \t"):
                break
            position = comment.end
            if _breaks(found.text, comment.start, comment.end):
                break
    return position


def _kept_comments(found: ParsedJson, start: int, end: int, line_break: str) -> str:
    """Return the comments between two positions as text that anything may follow."""

    def show(comment: Comment) -> str:
        return found.text[comment.start : comment.end] + (line_break if comment.is_line else " ")

    return "".join(show(comment) for comment in found.comments_in(start, end))


@dataclass(frozen=True, slots=True)
class JsonEditor:
    """`container` is the member that holds the servers, `dialect` what the client accepts."""

    container: str
    dialect: Dialect = LENIENT

    def servers(self, text: str) -> dict[str, Any]:
        """Return every entry by its name. Raises MalformedError."""
        found = parse_json(text, self.dialect)
        servers = self._find_servers(found)
        return dict(servers.value) if servers is not None else {}

    def put(self, text: str, name: str, entry: Mapping[str, Any]) -> str:
        """Return the text with this entry; the rest of the document is unchanged."""
        found = parse_json(text, self.dialect)
        holder = self._find_servers(found)
        if found.root is None:
            new = (f"{text.rstrip()}\n" if found.comments else "") + self.show(name, entry)
        elif holder is None:
            new = insert_member(found, found.root, self.container, {name: dict(entry)})
        elif name in holder.value:
            new = self._change(found, name, entry)
        else:
            new = insert_member(found, holder, name, dict(entry))
        servers = {**(holder.value if holder is not None else {}), name: dict(entry)}
        after = self._checked(new, found, servers)
        if Counter(found.list_comments()) - Counter(after.list_comments()):
            raise CannotEditError
        return new

    def drop(self, text: str, name: str) -> str:
        """Return the text without this entry. Raises KeyError."""
        found = parse_json(text, self.dialect)
        holder, index = self._locate(found, name)
        new = remove_member(found, holder, index)
        self._checked(new, found, {key: value for key, value in holder.value.items() if key != name})
        return new

    def show(self, name: str, entry: Mapping[str, Any]) -> str:
        """Return a document with one entry, ready to paste."""
        return json.dumps({self.container: {name: dict(entry)}}, indent=2, ensure_ascii=False) + "\n"

    def _find_servers(self, found: ParsedJson) -> Node | None:
        """Return the object that holds the servers; None where there is none yet."""
        root = found.root
        if root is None:
            return None
        if root.members is None:
            raise MalformedError(
                f"must be an object, got {_kind(root.value)}",
                found.line_of(root.start),
                "put {...} around it",
            )
        where = root.find(self.container)
        if not where:
            return None
        if len(where) > 1:
            again = found.line_of(root.members[where[1]].start)
            raise MalformedError(f'"{self.container}" occurs twice', again, "merge the two")
        holder = root.members[where[0]].value
        if holder.members is None:
            raise MalformedError(
                f'"{self.container}" must be an object, got {_kind(holder.value)}',
                found.line_of(holder.start),
                'write it as {"NAME": {...}}',
            )
        return holder

    def _locate(self, found: ParsedJson, name: str) -> tuple[Node, int]:
        """Return the object that holds the servers, and the index of this name in it."""
        holder = self._find_servers(found)
        where = holder.find(name) if holder is not None else []
        if holder is None or holder.members is None or not where:
            raise KeyError(name)
        if len(where) > 1:
            again = found.line_of(holder.members[where[1]].start)
            raise MalformedError(f'the server "{name}" occurs twice', again, "remove one of the two")
        return holder, where[0]

    def _change(self, found: ParsedJson, name: str, entry: Mapping[str, Any]) -> str:
        """Change member by member, so that unchanged ones keep their format and comments."""
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
            found = parse_json(new, self.dialect)
        for key in [key for key in before if key not in entry]:
            holder = self._member(found, name).value
            found = parse_json(remove_value(found, holder, holder.find(key)[0]), self.dialect)
        return found.text

    def _member(self, found: ParsedJson, name: str) -> Member:
        holder, index = self._locate(found, name)
        return (holder.members or ())[index]

    def _checked(self, text: str, before: ParsedJson, servers: Mapping[str, Any]) -> ParsedJson:
        """Parse the new text. Raises CannotEditError where anything but the servers differs."""
        after = parse_json(text, self.dialect)
        document = before.root.value if before.root is not None else {}
        if after.root is None or after.root.value != {**document, self.container: servers}:
            raise CannotEditError
        return after


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
