"""Rules for names and for texts that models read: nothing hidden, no control characters, nothing huge."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from toolcrib.errors import NO_LOCATION, DefinitionError, InvalidNameError, InvalidToolError, Location
from toolcrib.validation import codec

# --- text that models read: nothing invisible, no control characters, nothing huge -----------------------

MAX_DESCRIPTION_BYTES = 64 * 1024
MAX_SCHEMA_BYTES = 1024 * 1024
"""The limit for all texts of a schema together."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_REFUSED = {"Cc": "control", "Cf": "invisible", "Co": "private-use", "Cs": "surrogate"} | dict.fromkeys(
    ("Zl", "Zp"), "line-breaking"
)
# Characters without a glyph that Unicode counts among letters and marks, or has not assigned. Among them are
# the tags, which spell hidden ASCII.
_INVISIBLE = (
    "[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufdd0-\ufdef\ufff0-\ufff8\ufffe\uffff"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)
_JOINERS = frozenset("\u200c\u200d")  # emoji, Persian and Indic scripts need them
# They select the form of the character before them: colour emoji, Mongolian letters, variants of ideographs.
_SELECTORS = "[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"


def find_hidden(text: str) -> str | None:
    """Return a name for the first invisible or control character, or None."""
    text = text.replace("\r\n", "\n")
    if text.isascii():
        found = _CONTROL.search(text)
        return f"control character U+{ord(found.group()):04X}" if found else None
    # Compiled here, by the cache of `re`: most programs have no such text, and compiling takes a while.
    invisible, selectors = re.compile(_INVISIBLE), re.compile(_SELECTORS)
    before = ""
    for index, character in enumerate(text):
        if character.isascii():
            kind = "control" if _CONTROL.match(character) else None
        elif character in _JOINERS:
            kind = None if _joins(before, text[index + 1 : index + 2]) else "invisible"
        elif selectors.match(character):
            kind = None if _is_visible(before) else "invisible"
        elif invisible.match(character):
            kind = "invisible"
        else:
            kind = _REFUSED.get(unicodedata.category(character))
        if kind is not None:
            return f"{kind} character U+{ord(character):04X}"
        before = character
    return None


def _joins(before: str, after: str) -> bool:
    """Return whether a joiner is where scripts and emoji need one. Rows of them spell hidden text."""
    is_needed = not before.isascii() or not after.isascii()
    return is_needed and before != "" and not before.isspace() and before not in _JOINERS


def _is_visible(character: str) -> bool:
    return character.isprintable() and not character.isspace() and not re.match(_SELECTORS, character)


def check_text(text: str, what: str, tool: str | None = None) -> None:
    """Raise DefinitionError where `text` has invisible characters or is too long."""
    if len(text) > MAX_DESCRIPTION_BYTES // 4 and _count_bytes(text) > MAX_DESCRIPTION_BYTES:
        raise DefinitionError(f"{what} is longer than {MAX_DESCRIPTION_BYTES // 1024} KiB", tool=tool)
    hidden = find_hidden(text)
    if hidden is not None:
        article = "an" if hidden.startswith("i") else "a"
        raise DefinitionError(
            f"{what} contains {article} {hidden}", tool=tool, hint="remove it: readers cannot see it"
        )


def check_schema_text(schema: Mapping[str, Any], what: str, tool: str | None = None) -> None:
    """Check every name and text in a schema: models read them all."""
    total = 0
    for text in _strings(schema):
        check_text(text, what, tool)
        total += len(text)
        if total > MAX_SCHEMA_BYTES:
            message = f"{what} has more than {MAX_SCHEMA_BYTES // 1024} KiB of text"
            raise DefinitionError(message, tool=tool, hint="shorten descriptions, or split the tool")


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _strings(node: Any) -> Iterator[str]:
    waiting = [node]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            yield from (key for key in item if isinstance(key, str))
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)


# --- names -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NameRule:
    """A rule for tool names: a pattern for the whole name, and a length, which is checked first."""

    label: str
    pattern: re.Pattern[str]
    max_length: int
    description: str

    def check(self, name: object, source: Location = NO_LOCATION) -> str:
        if not isinstance(name, str):
            raise InvalidToolError(f"Tool name must be string, got {type(name)}", source=source)
        if not 1 <= len(name) <= self.max_length:
            message = f"Tool name length must be 1-{self.max_length} chars, got {len(name)}"
            raise InvalidNameError(message, tool=name[: self.max_length], source=source)
        if self.pattern.fullmatch(name) is None:
            shown = name if name.isprintable() else name.encode("unicode_escape").decode()
            message = f"Tool name '{shown}' invalid ({self.description})"
            raise InvalidNameError(message, tool=shown, source=source, hint=self._suggest(name))
        return name

    def _suggest(self, name: str) -> str:
        """Return the hint for a name that is not permitted: the character, and a name that is."""
        wrong = next((letter for letter in name if not self.pattern.fullmatch(f"a{letter}")), name[0])
        called = unicodedata.name(wrong, f"U+{ord(wrong):04X}")
        problem = f"'{wrong}' ({called}) is not" if wrong.isprintable() else f"{called} is not"
        plain = unicodedata.normalize("NFKD", name.translate(_LETTERS)).encode("ascii", "ignore").decode()
        plain = re.sub(r"\W+", "_", plain).strip("_")
        plain = plain if self.pattern.fullmatch(plain) else plain.lower()
        advice = f"name it '{plain}'" if self.pattern.fullmatch(plain) else "give it another: name=..."
        return f"{problem} permitted in a name; {advice}"


_LETTERS = str.maketrans(
    {
        "ä": "ae",
        "ö": "oe",
        "ü": "ue",
        "Ä": "Ae",
        "Ö": "Oe",
        "Ü": "Ue",
        "ß": "ss",
        "æ": "ae",
        "ø": "o",
        "ł": "l",
    }
)
"""Letters that do not become the usual ASCII ones by dropping their accents."""


STRICT = NameRule(
    "strict", re.compile(r"[a-z][a-z0-9_]*"), 50, "must be lowercase, alphanumeric, underscores"
)
PORTABLE = NameRule(
    "portable", re.compile(r"[A-Za-z0-9_-]+"), 64, "must contain only letters, digits, underscores, hyphens"
)
MCP = NameRule(
    "mcp",
    re.compile(r"[A-Za-z0-9_.-]+"),
    128,
    "must contain only letters, digits, underscores, hyphens, dots",
)
URI = NameRule("uri", re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+"), 8192, "must be a URI")
"""Resources are named by their URIs."""
NAME_RULES: Mapping[str, NameRule] = MappingProxyType({rule.label: rule for rule in (STRICT, PORTABLE, MCP)})


def shorten_name(name: str, max_length: int) -> str:
    """Shorten a name that is too long to its first and last letters, with a digest of it in between."""
    if len(name) <= max_length:
        return name
    mark = codec.digest(name)[:8]
    room = max_length - len(mark) - 2
    head = room - room // 2
    return f"{name[:head]}_{mark}_{name[len(name) - room // 2 :]}"
