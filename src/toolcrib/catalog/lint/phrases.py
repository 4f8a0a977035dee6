"""What planted instructions sound like: patterns over folded text, each behind words that must occur first.

Looking words up in a set is a hundred times cheaper than a pattern, and honest texts rarely hold them all.
Knows phrases; refuses to know definitions. The patterns were written from what such attacks have to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from unicodedata import normalize

_compile = cache(re.compile)
_WORDS = re.compile(r"[a-z0-9]+")
_STEM = 6
"""So many letters of a word are enough to know it by."""


@dataclass(frozen=True, slots=True)
class Gist:
    """All that a definition says, in one: what is not found here is in none of its texts."""

    readings: tuple[str, ...]
    stems: frozenset[str]

    @classmethod
    def of(cls, readings: tuple[str, ...]) -> Gist:
        return cls(
            readings, frozenset(word[:_STEM] for reading in readings for word in _WORDS.findall(reading))
        )


class Phrases:
    """Rows of (what must occur, pattern).

    What must occur are words separated by blanks, of which one suffices, in groups separated by `&`, of which
    each must be met. A row that begins with `=` gives pieces of text instead, separated by bars, for scripts
    that put no blanks between words.
    """

    def __init__(self, *rows: tuple[str, str]) -> None:
        # Folded text is in this form, which takes some letters of Thai and others apart.
        self._rows = [
            (_read_need(normalize("NFKC", need)), normalize("NFKC", pattern)) for need, pattern in rows
        ]

    def apply(self, gist: Gist) -> list[re.Pattern[str]]:
        """The patterns that are to be found in a definition with this gist."""
        met = (_compile(pattern) for need, pattern in self._rows if _is_met(need, gist))
        return [pattern for pattern in met if any(map(pattern.search, gist.readings))]


Need = list[frozenset[str]] | tuple[str, ...]


def _read_need(need: str) -> Need:
    if need.startswith("="):
        return tuple(need[1:].split("|"))
    return [frozenset(word[:_STEM] for word in group.split()) for group in need.split("&")]


def _is_met(need: Need, gist: Gist) -> bool:
    if isinstance(need, tuple):
        for reading in gist.readings:
            for piece in need:  # as loops: this is asked some sixty times for every tool
                if piece in reading:
                    return True
        return False
    return not any(map(gist.stems.isdisjoint, need))


def search(patterns: list[re.Pattern[str]], readings: tuple[str, ...]) -> str | None:
    """What the first of the patterns finds, in the words of the reading that it is found in."""
    for found in _search(patterns, readings):
        return found
    return None


def _search(patterns: list[re.Pattern[str]], readings: tuple[str, ...]) -> Iterator[str]:
    for reading in readings:
        for pattern in patterns:
            found = pattern.search(reading)
            if found is not None:
                yield found[0].strip()


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def one_of(words: str) -> str:
    """A pattern for any of the words; `_` stands for a blank within one."""
    return "(?:" + "|".join(word.replace("_", " ") for word in words.split()) + ")"
