"""Reads JSON, with or without comments, into values that know where in the text they stand.

Knows the grammar and nothing else: no file, no client, no entry. It changes nothing; `jsonc_edit` does.
Whatever is wrong is a MalformedError, with the line.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from toolcrib.clients.malformed import MalformedError, line_of

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
