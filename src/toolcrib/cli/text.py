r"""Text for terminals: escaping, display width, counts, suggestions and times.

    safe("a\x1b[2Jb")                           a\x1b[2Jb  (escaped, harmless)
    join(style("error:", fg="red"), message)    our colours stay, `message` is escaped

Everything that is printed passes through here once: `Terminal` escapes each piece that is not `Styled`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from toolcrib.definition import ToolDefinition
from toolcrib.errors import Finding
from toolcrib.errors import suggest as suggest_similar

_JOINERS = "\u200c\u200d"
_SELECTORS = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
# Control characters, direction marks, characters without width or glyph (among them the tags, which can
# spell hidden ASCII), and surrogates.
_HARMFUL = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_SUSPECT = re.compile(f"[{_HARMFUL}{_JOINERS}{_SELECTORS}]")
_CONTEXTUAL = re.compile(f"[{_JOINERS}{_SELECTORS}]")
_MAX_TEXT = 200
_FIRST_LINE = re.compile(rf"\S.{{0,{_MAX_TEXT}}}")


class Styled(str):
    """Escaped text, possibly with colour codes; only `style` and `join` create it.

    Formatting, slicing or concatenating it gives a plain string, which is escaped again when printed: a
    mistake is visible but harmless.
    """

    __slots__ = ()


def safe(text: object) -> str:
    """Escape everything that could control a terminal or is invisible; keep line ends and tabs."""
    words = str(text)
    if words.isascii() and words.isprintable():
        return words
    return _SUSPECT.sub(_escape, words.replace("\r\n", "\n"))


def one_line(text: object) -> str:
    """Escape a text and collapse its whitespace."""
    return " ".join(safe(text).split())


def safe_json(text: str) -> str:
    """Escape the same characters in JSON with JSON escapes, so that the value stays the same."""
    return _SUSPECT.sub(_escape_in_json, text)


def style(text: object, **how: Any) -> Styled:
    """Escape a text and colour it; with the keywords of `click.style`."""
    return Styled(click.style(safe(text), **how))


NAME_STYLE = {"fg": "green", "bold": True}
"""Names of tools, keys and clients."""
_GOOD, _DIM, _WARN, _BAD = {"fg": "green"}, {"dim": True}, {"fg": "yellow"}, {"fg": "red", "bold": True}
STATE_STYLES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("ok", "active", "allowed", "yes", "applies"), _GOOD),
    **dict.fromkeys(
        ("off", "no", "-", "cancelled", "disconnected", "started", "task", "does not apply"), _DIM
    ),
    **dict.fromkeys(("throttled", "timeout", "input_required", "expired", "renamed", "changed"), _WARN),
    **dict.fromkeys(("asks for confirmation", "depends on arguments", "depends", "warning"), _WARN),
    **dict.fromkeys(("error", "denied", "hidden", "crashed", "skipped", "refused", "revoked"), _BAD),
    "NOT valid": _BAD,
    "advice": {"fg": "cyan"},
}
"""States, outcomes and levels: each has one colour in every command."""


def style_state(state: str, width: int = 0) -> Styled:
    """Return a state in its colour, padded to a width."""
    text = state.ljust(width)
    return style(text, **STATE_STYLES[state]) if state in STATE_STYLES else join(text)


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


def first_line(definition: ToolDefinition) -> str:
    """Return the first line of the description, cut if it is very long."""
    found = _FIRST_LINE.search(definition.description)
    return cut(found[0].splitlines()[0]) if found else ""


def cut(text: object, limit: int = _MAX_TEXT) -> str:
    """Return a text on one line, escaped, and cut if it is very long."""
    full = str(text)
    return one_line(full) if len(full) <= limit else f"{one_line(full[:limit])}..."


# --- display width ---------------------------------------------------------------------------------------

NO_BREAK = "\u00a0"
"""A blank at which a line is not broken."""


def width_of(text: str) -> int:
    """Return the number of columns that a line of escaped text takes."""
    is_narrow = text.isascii() or text.replace(NO_BREAK, " ").isascii()
    return len(text) if is_narrow else sum(map(_width, text))


def wrap(text: str, width: int) -> list[str]:
    """Return the lines of an escaped text, broken at blanks; a word that is too long is broken too."""
    lines = []
    for full in text.split("\n"):
        line, start = full.rstrip(" "), 0
        while (stop := _fit(line, start, width)) < len(line):
            blank = line.rfind(" ", start, stop + 1)
            end = blank if blank > start else stop
            lines.append(line[start:end].rstrip(" "))
            start = end
            while line[start : start + 1] == " ":
                start += 1
        lines.append(line[start:])
    return lines


def _fit(line: str, start: int, width: int) -> int:
    """Return the end of the longest piece from `start` that fits into the width; at least one character."""
    if line[start : start + width].isascii():
        return min(start + width, len(line))
    stop, left = start, width
    while stop < len(line) and (left := left - _width(line[stop])) >= 0:
        stop += 1
    return max(stop, start + 1)


def _width(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


# --- counts, suggestions, times --------------------------------------------------------------------------

LEVELS = ("error", "warning", "advice")
_LEVEL_NOUNS = {"error": "error", "warning": "warning", "advice": "suggestion"}


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 tool`, `2 tools`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def count_findings(findings: Iterable[Finding]) -> str:
    """Return the number of findings by level: `1 error, 2 warnings`, or `no problems`."""
    levels = [finding.level for finding in findings]
    counts = [count(levels.count(level), _LEVEL_NOUNS[level]) for level in LEVELS if level in levels]
    return ", ".join(counts) or "no problems"


def shorten_list(names: Sequence[str], limit: int = 6) -> str:
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")


def suggest(name: str, known: Iterable[str]) -> str | None:
    """Return `did you mean 'x'?`, or the known names if none is similar."""
    names = list(dict.fromkeys(known))
    more = f"{len(names)} are available, for example" if len(names) > 8 else "available"
    available = f"{more}: {', '.join(names[:8])}" if names else ""
    return suggest_similar(name, names, available) or None


def format_time(wall_s: float, now_s: float | None = None) -> str:
    """Return the day in UTC; with the time of day if it is within two days of `now_s`."""
    is_near = now_s is not None and abs(wall_s - now_s) < 2 * 86_400
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d %H:%M" if is_near else "%Y-%m-%d")
