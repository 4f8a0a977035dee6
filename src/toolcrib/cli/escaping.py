"""Text from elsewhere, made safe for a terminal.

    safe("a\x1b[2Jb")                       a\\x1b[2Jb
    join(style("error:", fg="red"), words)  our colours stay, and nothing in `words` can steer the terminal

Everything that is printed passes through here once: `Terminal` escapes each piece that is not `Styled`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

import click

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
