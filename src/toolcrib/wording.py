"""Hard rules for the words a model reads: nothing invisible, nothing that steers a terminal, nothing huge.

Knows characters. Whether words are good is advice, and lives with the linter.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.errors import DefinitionError

MAX_DESCRIPTION_BYTES = 64 * 1024
MAX_SCHEMA_BYTES = 1024 * 1024
"""How many words a schema may hold in all."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_REFUSED = {"Cc": "control", "Cf": "invisible", "Co": "private-use", "Cs": "surrogate"} | dict.fromkeys(
    ("Zl", "Zp"), "line-breaking"
)
# Characters without a glyph that Unicode files among letters and marks, or has not assigned. The tags are
# among them, which spell hidden ASCII.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufdd0-\ufdef\ufff0-\ufff8\ufffe\uffff"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)
_JOINERS = frozenset("\u200c\u200d")  # emoji, Persian and Indic scripts need them
# They choose the form of the character before them: colour emoji, Mongolian letters, variants of ideographs.
_SELECTORS = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def find_hidden(text: str) -> str | None:
    """Name the first character that must not be there, or None."""
    text = text.replace("\r\n", "\n")
    if text.isascii():
        found = _CONTROL.search(text)
        return f"control character U+{ord(found.group()):04X}" if found else None
    before = ""
    for index, character in enumerate(text):
        if character.isascii():
            kind = "control" if _CONTROL.match(character) else None
        elif character in _JOINERS:
            kind = None if _joins(before, text[index + 1 : index + 2]) else "invisible"
        elif _SELECTORS.match(character):
            kind = None if _is_visible(before) else "invisible"
        elif _INVISIBLE.match(character):
            kind = "invisible"
        else:
            kind = _REFUSED.get(unicodedata.category(character))
        if kind is not None:
            return f"{kind} character U+{ord(character):04X}"
        before = character
    return None


def _joins(before: str, after: str) -> bool:
    """Whether a joiner stands where scripts and emoji need one. Rows of them spell hidden text."""
    is_needed = not before.isascii() or not after.isascii()
    return is_needed and before != "" and not before.isspace() and before not in _JOINERS


def _is_visible(character: str) -> bool:
    return character.isprintable() and not character.isspace() and not _SELECTORS.match(character)


def check_words(text: str, what: str, tool: str | None = None) -> None:
    """Raise DefinitionError where `text` hides something or is too long for any model."""
    if len(text) > MAX_DESCRIPTION_BYTES // 4 and _count_bytes(text) > MAX_DESCRIPTION_BYTES:
        raise DefinitionError(f"{what} is longer than {MAX_DESCRIPTION_BYTES // 1024} KiB", tool=tool)
    hidden = find_hidden(text)
    if hidden is not None:
        article = "an" if hidden.startswith("i") else "a"
        raise DefinitionError(
            f"{what} contains {article} {hidden}", tool=tool, hint="remove it: a reader cannot see it"
        )


def check_schema_words(schema: Mapping[str, Any], what: str, tool: str | None = None) -> None:
    """The same for every name and every text inside a schema: a model reads them all."""
    total = 0
    for text in _strings(schema):
        check_words(text, what, tool)
        total += len(text)
        if total > MAX_SCHEMA_BYTES:
            words = f"{what} holds more than {MAX_SCHEMA_BYTES // 1024} KiB of text"
            raise DefinitionError(words, tool=tool, hint="describe less, or split the tool")


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
