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
_STRING = r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"'
_COMMENT = re.compile(rf"{_STRING}|(?P<comment>//[^\r\n]*|/\*[\s\S]*?\*/)|(?P<constant>NaN|-?Infinity)")
_TRAILING_COMMA = re.compile(rf"{_STRING}|(?P<comma>,)(?=[ \t\r\n]*[}}\]])")
_BRACKET = re.compile(rf"{_STRING}|(?P<open>[\[{{])|(?P<close>[\]}}])")
_SPACE = " \t\r\n"
_DECODER = json.JSONDecoder()
_ENTRY_DEPTH = 2  # the document, the servers, an entry
_DEFAULT_UNIT = "  "


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


def parse_json(text: str, dialect: Dialect = LENIENT) -> ParsedJson:
    """Parse a text. Raises MalformedError.

    Comments and trailing commas are replaced by blanks, so that `json` reads the values and all positions
    stay the same.
    """
    comments: list[Comment] = []

    def blank_comment(found: re.Match[str]) -> str:
        if found["constant"] is not None:
            raise MalformedError(f"invalid value {found[0]}", line_of(text, found.start()))
        if found["comment"] is None:
            return found[0]
        if not dialect.comments:
            line = line_of(text, found.start())
            raise MalformedError("comments are not allowed in this file", line, "remove the comment")
        comments.append(Comment(found.start(), found.end(), found[0].startswith("//")))
        return re.sub(r"[^\r\n]", " ", found[0])

    def blank_comma(found: re.Match[str]) -> str:
        before = found.start() - 1
        while before > 0 and found.string[before] in _SPACE:
            before -= 1
        if found["comma"] is None or before < 0 or found.string[before] in "[{,:":
            return found[0]
        if not dialect.trailing_commas:
            line = line_of(text, found.start())
            raise MalformedError("comma after the last item", line, "remove the comma")
        return " "

    clean = _COMMENT.sub(blank_comment, text)
    plain = _TRAILING_COMMA.sub(blank_comma, clean)
    _check_depth(plain)
    if not plain.strip(_SPACE):
        return ParsedJson(text, None, tuple(comments))
    try:
        _DECODER.decode(plain)
    except json.JSONDecodeError as error:
        message = error.msg[0].lower() + error.msg[1:]
        raise MalformedError(message, line_of(text, error.pos)) from None
    return ParsedJson(text, _scan(clean, plain, _skip(clean, 0)), tuple(comments))


def _check_depth(text: str) -> None:
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += (found["open"] is not None) - (found["close"] is not None)
        if depth > MAX_DEPTH:
            raise MalformedError("nested too deeply", line_of(text, found.start()))


def _scan(clean: str, plain: str, start: int, depth: int = 0) -> Node:
    """Return the value at a position of a valid text; members down to those of an entry."""
    value, end = _DECODER.raw_decode(plain, start)
    if not isinstance(value, dict) or depth == _ENTRY_DEPTH + 1:
        return Node(start, end, value)
    members: list[Member] = []
    at = _skip(clean, start + 1)
    while clean[at] != "}":
        key, key_end = _DECODER.raw_decode(plain, at)
        node = _scan(clean, plain, _skip(clean, _skip(clean, key_end) + 1), depth + 1)
        after = _skip(clean, node.end)
        has_comma = clean[after] == ","
        members.append(Member(key, at, node, after if has_comma else None))
        at = _skip(clean, after + 1) if has_comma else after
    return Node(start, end, value, tuple(members))


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at


# --- edits -------------------------------------------------------------------------------------------


def insert_member(found: ParsedJson, parent: Node, key: str, value: Any) -> str:
    """Return the text with one more member at the end of an object."""
    if not parent.members:
        return _insert_first(found, parent, key, value)
    text, style = found.text, _Style(found)
    first, last = parent.members[0], parent.members[-1]
    end = last.value.end
    if not _breaks(text, parent.start, first.start):
        new = style.inline(key) + style.colon + style.inline(value)
        if last.comma is None:
            return text[:end] + style.comma + new + text[end:]
        at = last.comma + 1
        return text[:at] + style.comma[1:] + new + "," + text[at:]
    indent = _indent_of(text, last.start if _starts_line(text, last.start) else first.start)
    new = f"{style.eol}{indent}{style.inline(key)}: {style.indented(value, indent)}"
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
        return text[:at] + gap + style.inline(key) + style.colon + style.inline(value) + text[at:]
    base = _indent_of(text, parent.start)
    indent = base + style.unit
    rest = text[at:closing] if _breaks(text, at, closing) else style.eol + base
    new = f"{style.eol}{indent}{style.inline(key)}: {style.indented(value, indent)}"
    return text[:at] + new + rest + text[closing:]


def replace_value(found: ParsedJson, member: Member, value: Any) -> str:
    """Return the text with another value of a member; comments in the old value stay."""
    text, style, old = found.text, _Style(found), member.value
    indent = _indent_of(text, member.start)
    kept = _kept_comments(found, old.start, old.end, style.eol + indent)
    new = style.inline(value) if style.is_inline else style.indented(value, indent)
    return text[: old.start] + kept + new + text[old.end :]


def remove_member(found: ParsedJson, parent: Node, index: int, *, keep_comments: bool = False) -> str:
    """Return the text without a member; comments inside it go with it unless they are kept."""
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
    if keep_comments:
        line_break = _Style(found).eol + _indent_of(text, member.start)
        kept = _kept_comments(found, member.start, member.value.end, line_break)
        if kept:
            return before + kept + after
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

    def inline(self, value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(self.comma, self.colon))

    def indented(self, value: Any, indent: str) -> str:
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
                line_of(found.text, root.start),
                "put {...} around it",
            )
        where = root.find(self.container)
        if not where:
            return None
        if len(where) > 1:
            again = line_of(found.text, root.members[where[1]].start)
            raise MalformedError(f'"{self.container}" occurs twice', again, "merge the two")
        holder = root.members[where[0]].value
        if holder.members is None:
            raise MalformedError(
                f'"{self.container}" must be an object, got {_kind(holder.value)}',
                line_of(found.text, holder.start),
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
            again = line_of(found.text, holder.members[where[1]].start)
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
            found = parse_json(
                remove_member(found, holder, holder.find(key)[0], keep_comments=True), self.dialect
            )
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
