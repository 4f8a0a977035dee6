"""Hard rules for the words a model reads: nothing invisible, nothing that steers a terminal, nothing huge.

Knows characters. Whether words are good is advice, and lives with the linter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.errors import DefinitionError

MAX_DESCRIPTION_BYTES = 64 * 1024
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_JOINERS = frozenset("\u200c\u200d")  # zero-width (non-)joiners: emoji, Persian and Indic scripts need them
_REFUSED = {"Cc": "control", "Cf": "invisible", "Co": "private-use", "Cs": "surrogate"}


def find_hidden(text: str) -> str | None:
    """Name the first character that must not be there, or None."""
    if text.isascii():
        found = _CONTROL.search(text.replace("\r\n", "\n"))
        return f"control character U+{ord(found.group()):04X}" if found else None
    import unicodedata

    for character in text.replace("\r\n", "\n"):
        if character in "\n\t" or character in _JOINERS:
            continue
        kind = _REFUSED.get(unicodedata.category(character))
        if kind is not None:
            return f"{kind} character U+{ord(character):04X}"
    return None


def check_words(text: str, what: str, tool: str | None = None) -> None:
    """Raise DefinitionError where `text` hides something or is too long for any model."""
    hidden = find_hidden(text)
    if hidden is not None:
        raise DefinitionError(
            f"{what} contains a {hidden}", tool=tool, hint="remove it: a reader cannot see it"
        )
    if len(text) > MAX_DESCRIPTION_BYTES // 4 and len(text.encode()) > MAX_DESCRIPTION_BYTES:
        raise DefinitionError(f"{what} is longer than {MAX_DESCRIPTION_BYTES // 1024} KiB", tool=tool)


def check_schema_words(schema: Mapping[str, Any], what: str, tool: str | None = None) -> None:
    """The same for every name and every text inside a schema: a model reads them all."""
    for text in _strings(schema):
        check_words(text, what, tool)


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
