"""Rules for tools that a model cannot tell apart: by their names, by their words, or for want of a "when".

Knows all tools at once. No tool is compared with every other: tools that share a key, or a rare word, are.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache

from toolcrib.catalog.lint.phrases import word_set
from toolcrib.catalog.lint.rule import Remark, Rule, Subject

ALIKE = 0.85
"""The share of words in common, from which on two descriptions say the same."""

_FEWEST_WORDS = 4
_MOST_COMPARED = 24
_STOP = word_set(
    "a an the this that these those of to for in on at by with and or is are be it its as from into your"
    " you given specified using use tool function method returns return will can"
)
_VERBS = {
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
_WORD = re.compile(r"\w+")
_OCCASION = re.compile(
    r"\b(?:when|whenever|if|before|after|instead|unless|only|first|once|prefer|useful|helpful|in order to|to"
    r" (?:find|see|check|learn|decide|get|know)|use (?:this|it|for|to)|for (?:when|cases)|cuando|wenn"
    r"|quand|si)\b",
    re.IGNORECASE,
)
_LONGEST_WITHOUT_OCCASION = 100


def find_same_words(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, Remark]]:
    """Descriptions that are one and the same, but for case, marks and blanks."""
    first: dict[str, Subject] = {}
    for subject in subjects:
        key = " ".join(_WORD.findall(subject.description.lower()))
        if key.count(" ") < 1:
            continue
        earlier = first.setdefault(key, subject)
        if earlier.name != subject.name:
            yield (
                subject,
                Remark(
                    f"'{subject.name}' has the same description as '{earlier.name}'{_place(earlier, subject)}"
                ),
            )


def find_alike(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, Remark]]:
    """Names of the same words, or descriptions of nearly the same ones, that differ in nothing telling."""
    profiles = [_Profile(subject) for subject in subjects]
    told: set[int] = set()
    by_name: dict[frozenset[str], _Profile] = {}
    for number, profile in enumerate(profiles):
        earlier = by_name.setdefault(profile.name_key, profile)
        if earlier is profile or earlier.subject.name == profile.subject.name:
            continue
        if earlier.spelling == profile.spelling or _likeness(earlier.words, profile.words) >= 0.5:
            told.add(number)
            yield profile.subject, _remark(earlier, profile, "names")
    for earlier_number, number in _similar_pairs(profiles):
        earlier, profile = profiles[earlier_number], profiles[number]
        if number in told or earlier.text == profile.text or _is_told_apart(earlier, profile):
            continue
        told.add(number)
        yield profile.subject, _remark(earlier, profile, "descriptions")


class _Profile:
    """What a comparison looks at: the stems of the words, with verbs that mean the same made one."""

    __slots__ = ("name_key", "parameters", "spelling", "subject", "text", "words")

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.text = subject.description
        self.spelling = "".join(sorted(subject.name_words))
        self.name_key = frozenset(_stem(word) for word in subject.name_words)
        self.parameters = frozenset(subject.parameters)
        said = _WORD.findall(self.text.lower()[:2_000])
        self.words = frozenset(_stem(word) for word in said if word not in _STOP)


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    if word in _VERBS:
        return _VERBS[word]
    for ending, stem in (("ies", "y"), ("sses", "ss"), ("ing", ""), ("es", ""), ("ed", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: len(word) - len(ending)] + stem
            break
    word = word.removesuffix("e") if len(word) > 3 else word
    return _VERBS.get(word, word)


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared) if shared else 0.0


def _similar_pairs(profiles: Sequence[_Profile]) -> Iterator[tuple[int, int]]:
    """Pairs whose words are alike. Two such sets share one of their rarest words, so only those meet.

    A word that very many tools have among their rarest leads to the latest of them only, which bounds the
    work whatever the words are.
    """
    counts = Counter(word for profile in profiles for word in profile.words)
    met: defaultdict[str, list[int]] = defaultdict(list)
    for number, profile in enumerate(profiles):
        size = len(profile.words)
        if size < _FEWEST_WORDS:
            continue
        rare = sorted(profile.words, key=lambda word: (counts[word], word))
        head = rare[: size - int(ALIKE * size) + 1]
        tried: set[int] = set()
        for word in head:
            for other in reversed(met[word][-_MOST_COMPARED:]) if len(tried) < 2 * _MOST_COMPARED else ():
                if other in tried or len(profiles[other].words) < ALIKE * size:
                    continue
                tried.add(other)
                if _likeness(profiles[other].words, profile.words) >= ALIKE:
                    yield other, number
            met[word].append(number)


def _is_told_apart(one: _Profile, other: _Profile) -> bool:
    """Whether what differs is what the tools are about: a word of a name, or a number."""
    differing = one.words ^ other.words
    names = one.name_key ^ other.name_key
    return any(word in names or word.isdigit() for word in differing) or (
        _likeness(one.parameters, other.parameters) < 0.5 and bool(one.parameters or other.parameters)
    )


def _remark(earlier: _Profile, later: _Profile, what: str) -> Remark:
    one, other = earlier.subject, later.subject
    return Remark(f"The {what} of '{other.name}' and '{one.name}' are nearly the same{_place(one, other)}")


def _place(earlier: Subject, later: Subject) -> str:
    """Where the other one is, if that is not in sight."""
    there, here = earlier.definition.source, later.definition.source
    return f" ({there})" if there.file and there.file != here.file else ""


# --- what, but not when ------------------------------------------------------------------------------


def find_missing_occasion(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, Remark]]:
    """Only where there is a choice: several tools for the same thing that do the same kind of deed."""
    families: defaultdict[tuple[str, str], list[Subject]] = defaultdict(list)
    for subject in subjects:
        words = subject.name_words
        if len(words) > 1:
            for thing in dict.fromkeys(_stem(word) for word in words[1:] if len(word) > 2):
                families[_stem(words[0]), thing].append(subject)
    told: set[int] = set()
    for family in families.values():
        if not 2 <= len(family) <= 12:
            continue  # with more, the word is no thing but a namespace
        for subject in family:
            text = subject.description
            if (
                id(subject) in told
                or not text
                or len(text) > _LONGEST_WITHOUT_OCCASION
                or _OCCASION.search(text)
            ):
                continue
            told.add(id(subject))
            other = next(item.name for item in family if item is not subject)
            yield (
                subject,
                Remark(f"Nothing says when to use '{subject.name}' and when '{other}'"),
            )


RULES = (
    Rule(
        "same-description",
        "warning",
        "Two tools have the same description",
        "A model has to guess, and a copied text is nearly always one that somebody forgot to change.",
        "say of each what the other does not do",
        across=find_same_words,
    ),
    Rule(
        "near-duplicate",
        "warning",
        "Two tools are so alike that a model cannot choose",
        "Names of the same words, or descriptions that differ in nothing telling, are one tool twice to a"
        " model.",
        "make it one tool, or say what sets them apart",
        across=find_alike,
    ),
    Rule(
        "no-occasion",
        "advice",
        "Of several tools for the same thing, one does not say when to use it",
        "What a tool does is half of a description; where there is a choice, when to use it is the other.",
        "add it: 'Use this when ...; for ... use the other'",
        across=find_missing_occasion,
    ),
)
