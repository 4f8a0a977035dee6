"""Finds alternatives that a description spells out in prose, where a schema could list them."""

from __future__ import annotations

import re

_QUOTED = r"""(?:"[^"\s]{1,40}"|'[^'\s]{1,40}'|`[^`\s]{1,40}`|“[^”\s]{1,40}”)"""
_AND = r"\s*(?:,\s*(?:or|and)\s|,|/|\||\bor\b|\band\b)\s*"
_QUOTED_LIST = re.compile(rf"{_QUOTED}(?:{_AND}{_QUOTED})+")
_PLAIN_LIST = re.compile(
    r"\b(?:one of|either|choices?|options|(?:allowed|valid|possible|permitted) values)\b"
    r"(?:\s+are)?\s*[:=(]?\s*"
    rf"(?P<list>[\w-]+(?:{_AND}[\w-]+)+)",
    re.IGNORECASE,
)
_BARS = re.compile(r"(?<![\w|])(?P<list>[\w-]+(?:\s*\|\s*[\w-]+)+)")
_CLOSING_LIST = re.compile(r"[:(]\s*(?P<list>[\w-]+(?:,\s*[\w-]+)*,?\s+or\s+[\w-]+)\s*\)?\.?\s*$")
_EXAMPLES = re.compile(
    r"(?:\be\.?g\.?|\bsuch as|\bfor example|\bfor instance|\blike|\bexamples?)[\s,:(]*$", re.I
)
_LONGEST = 2_000
"""What is longer is no list of choices, and looking for one would take too long."""


def list_choices(text: str) -> list[str]:
    """The alternatives that a description spells out; none where it only gives examples."""
    for pattern in (_QUOTED_LIST, _PLAIN_LIST, _BARS, _CLOSING_LIST) if len(text) <= _LONGEST else ():
        found = pattern.search(text)
        if found is None or _EXAMPLES.search(text[: found.start()]):
            continue
        listed = found.groupdict().get("list") or found[0]
        choices = [item.strip("\"'`“” ") for item in re.split(_AND, listed)]
        choices = [choice for choice in dict.fromkeys(choices) if choice]
        if len(choices) > 1:
            return choices
    return []
