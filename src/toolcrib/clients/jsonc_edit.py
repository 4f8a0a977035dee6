"""Changes one member of an object in a JSON text, and leaves every other character where it is.

A new member looks like its neighbours: their indentation, line ends and trailing comma, or all on one line.
Comments survive: one inside a value that is replaced stands before the new value. Knows texts and places;
refuses to know what the members mean.
"""

from __future__ import annotations

import json
from typing import Any

from toolcrib.clients.jsonc_scan import Comment, Member, Node, Scan

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
