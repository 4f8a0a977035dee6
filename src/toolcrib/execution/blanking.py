"""Takes the values that a tool was given out of what is said about its failure.

An error often repeats what it was about, and that may be somebody's secret. Knows texts; refuses to know
which of them matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SHORTEST = 6
"""Anything shorter is likely to be a word like others, and its absence would only puzzle."""
MAX_VALUES = 500
MAX_DEPTH = 8
HIDDEN = "[value]"


def blank(text: str, given: Any) -> str:
    """The text, without the values in it."""
    found = {form for value in _texts_in(given) for form in (value, repr(value)[1:-1]) if form in text}
    if not found:
        return text
    longest_first = sorted(found, key=len, reverse=True)
    return re.sub("|".join(rf"(?<!\w){re.escape(form)}(?!\w)" for form in longest_first), HIDDEN, text)


def _texts_in(given: Any) -> Iterator[str]:
    left = [(given, 0)]
    seen = 0
    while left and seen < MAX_VALUES:
        value, depth = left.pop()
        seen += 1
        if isinstance(value, str):
            if len(value) >= SHORTEST:
                yield value
        elif depth < MAX_DEPTH and isinstance(value, Mapping):
            left += ((item, depth + 1) for item in value.values())
        elif depth < MAX_DEPTH and isinstance(value, Sequence) and not isinstance(value, bytes):
            left += ((item, depth + 1) for item in value[:MAX_VALUES])
        elif isinstance(value, int | float) and len(str(value)) >= SHORTEST:
            yield str(value)
