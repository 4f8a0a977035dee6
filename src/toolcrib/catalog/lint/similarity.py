"""Rules for tools that a model cannot tell apart, by name, by description, or for lack of a "when to use".

Tools are not compared with every other tool, only with those that share a key or a rare word.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache

from toolcrib.catalog.lint.rule import LintedTool, Problem, word_set

SAME = 0.85
"""The share of words in common from which on two descriptions count as the same."""

_MIN_WORDS = 4
_MAX_COMPARED = 24
_STOP_WORDS = word_set(
    "a an the this that these those of to for in on at by with and or is are be it its as from into your"
    " you given specified using use tool function method returns return will can"
)
_SYNONYMS = {
    word: group.split()[0]
    for group in (
        "get fetch retrieve obtain load read",
        "create add insert make new",
        "delete remove erase destroy drop",
        "update modify edit change alter",
        "find search lookup locate",
        "send deliver dispatch",
        "run execute invoke",
        "list enumerate",
    )
    for word in group.split()
}
_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ing", ""), ("es", ""), ("ed", ""), ("s", ""))
_WORD = re.compile(r"\w+")
_WHEN_TO_USE = re.compile(
    r"\b(?:when|whenever|if|before|after|instead|unless|only|first|once|prefer|useful|helpful|in order to|to"
    r" (?:find|see|check|learn|decide|get|know)|use (?:this|it|for|to)|for (?:when|cases)|cuando|wenn"
    r"|quand|si)\b",
    re.IGNORECASE,
)
_MAX_LENGTH_WITHOUT_WHEN = 100


def find_same_descriptions(tools: Sequence[LintedTool]) -> Iterator[tuple[LintedTool, Problem]]:
    """Find descriptions that are equal except for case, punctuation and blanks."""
    first: dict[str, LintedTool] = {}
    for tool in tools:
        key = " ".join(_WORD.findall(tool.description.lower()))
        if " " not in key:
            continue
        earlier = first.setdefault(key, tool)
        if earlier.name != tool.name:
            message = f"'{tool.name}' has the same description as '{earlier.name}'{_location(earlier, tool)}"
            yield tool, Problem(message)


def find_near_duplicates(tools: Sequence[LintedTool]) -> Iterator[tuple[LintedTool, Problem]]:
    """Find names of the same words, and descriptions whose differences do not distinguish the tools."""
    profiles = [_Profile(tool) for tool in tools]
    reported: set[int] = set()
    by_name: dict[frozenset[str], _Profile] = {}
    for number, profile in enumerate(profiles):
        earlier = by_name.setdefault(profile.name_key, profile)
        if earlier is profile or earlier.tool.name == profile.tool.name:
            continue
        if earlier.letters == profile.letters or _similarity(earlier.words, profile.words) >= 0.5:
            reported.add(number)
            yield profile.tool, _near_duplicate(earlier, profile, "names")
    for earlier_number, number in _similar_pairs(profiles):
        earlier, profile = profiles[earlier_number], profiles[number]
        same_text = earlier.tool.description == profile.tool.description  # reported by another rule
        if number not in reported and not same_text and not _differ_in_subject(earlier, profile):
            reported.add(number)
            yield profile.tool, _near_duplicate(earlier, profile, "descriptions")


class _Profile:
    """What is compared: word stems, with synonyms made one."""

    __slots__ = ("letters", "name_key", "parameters", "tool", "words")

    def __init__(self, tool: LintedTool) -> None:
        self.tool = tool
        self.letters = "".join(sorted(tool.name_words))
        self.name_key = frozenset(_stem(word) for word in tool.name_words)
        self.parameters = frozenset(tool.parameters)
        words = _WORD.findall(tool.description.lower()[:2_000])
        self.words = frozenset(_stem(word) for word in words if word not in _STOP_WORDS)


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    if word in _SYNONYMS:
        return _SYNONYMS[word]
    for ending, replacement in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: len(word) - len(ending)] + replacement
            break
    word = word.removesuffix("e") if len(word) > 3 else word
    return _SYNONYMS.get(word, word)


def _similarity(one: frozenset[str], other: frozenset[str]) -> float:
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared) if shared else 0.0


def _similar_pairs(profiles: Sequence[_Profile]) -> Iterator[tuple[int, int]]:
    """Yield pairs with similar words. Two such sets share one of their rarest words, so only those meet.

    A word that many tools have among their rarest leads only to the latest of them, which bounds the work.
    """
    counts = Counter(word for profile in profiles for word in profile.words)
    seen: defaultdict[str, list[int]] = defaultdict(list)
    for number, profile in enumerate(profiles):
        size = len(profile.words)
        if size < _MIN_WORDS:
            continue
        rarest_first = sorted(profile.words, key=lambda word: (counts[word], word))
        compared: set[int] = set()
        for word in rarest_first[: size - int(SAME * size) + 1]:
            candidates = seen[word][-_MAX_COMPARED:] if len(compared) < 2 * _MAX_COMPARED else []
            for other in reversed(candidates):
                if other in compared or len(profiles[other].words) < SAME * size:
                    continue
                compared.add(other)
                if _similarity(profiles[other].words, profile.words) >= SAME:
                    yield other, number
            seen[word].append(number)


def _differ_in_subject(one: _Profile, other: _Profile) -> bool:
    """Tell whether the difference is a word of a name, a number, or most of the parameters."""
    names = one.name_key ^ other.name_key
    return any(word in names or word.isdigit() for word in one.words ^ other.words) or (
        _similarity(one.parameters, other.parameters) < 0.5 and bool(one.parameters or other.parameters)
    )


def _near_duplicate(earlier: _Profile, later: _Profile, what: str) -> Problem:
    one, other = earlier.tool, later.tool
    return Problem(
        f"The {what} of '{other.name}' and '{one.name}' are nearly the same{_location(one, other)}"
    )


def _location(earlier: LintedTool, later: LintedTool) -> str:
    """Return where the earlier tool is, if that is another file."""
    there, here = earlier.definition.source, later.definition.source
    return f" ({there})" if there.file and there.file != here.file else ""


def find_missing_occasion(tools: Sequence[LintedTool]) -> Iterator[tuple[LintedTool, Problem]]:
    """Ask for a "when to use" only where several tools do the same kind of thing to the same object."""
    families: defaultdict[tuple[str, str], list[LintedTool]] = defaultdict(list)
    for tool in tools:
        words = tool.name_words
        if len(words) > 1:
            for noun in dict.fromkeys(_stem(word) for word in words[1:] if len(word) > 2):
                families[_stem(words[0]), noun].append(tool)
    reported: set[int] = set()
    for family in families.values():
        if not 2 <= len(family) <= 12:
            continue  # with more, the word is a namespace
        for tool in family:
            text = tool.description
            is_long = len(text) > _MAX_LENGTH_WITHOUT_WHEN
            if id(tool) in reported or not text or is_long or _WHEN_TO_USE.search(text):
                continue
            reported.add(id(tool))
            other = next(item.name for item in family if item is not tool)
            yield tool, Problem(f"Nothing says when to use '{tool.name}' and when to use '{other}'")
