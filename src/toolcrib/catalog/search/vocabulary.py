"""The words there are, and which of them somebody meant who wrote another.

By the same stem, by the same meaning, by their beginning, or by a slip of the finger: one or two letters
wrong, missing, too many or exchanged. Knows words and stems; refuses to know which tools have them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator

from toolcrib.catalog.search.speech import SAME
from toolcrib.catalog.search.words import stem

MAX_FORMS = 24
"""How many words one word of a question may stand for."""
_COMPARED = 32
_SHORTEST_SLIP = 4
_ALIKE = 0.4
"""The share of its pairs of letters that a word must have in common with another to look like it."""
_SHORTEST_BEGINNING = 3

EXACT, FORM, COMPOUND, SAME_MEANING, BEGINNING, SLIP = 1.0, 0.9, 0.8, 0.5, 0.75, 0.75


def _stem_groups() -> dict[str, tuple[str, ...]]:
    groups: dict[str, dict[str, None]] = {}
    for group in SAME:
        stems = [stem(word) for word in group]
        for each in stems:
            groups.setdefault(each, {}).update(dict.fromkeys(other for other in stems if other != each))
    return {each: tuple(others) for each, others in groups.items()}


_MEANINGS = _stem_groups()


class Vocabulary:
    """All words of an index."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = frozenset(words)
        self._by_stem: dict[str, list[str]] = {}
        for word in sorted(self.words):
            self._by_stem.setdefault(stem(word), []).append(word)
        self._sorted: list[str] = []
        self._by_pair: dict[int, dict[str, list[str]]] = {}

    def knows(self, word: str) -> bool:
        return word in self.words or stem(word) in self._by_stem

    def forms_of(self, word: str) -> dict[str, float]:
        """The words that `word` stands for, with how surely. Guesses only where nobody uses the word."""
        forms: dict[str, float] = {}
        root = stem(word)
        if self.knows(word):
            is_used = word in self.words
            forms |= dict.fromkeys(self._by_stem.get(root, ()), FORM * FORM if is_used else FORM)
            if is_used:
                forms[word] = EXACT
        for other in _MEANINGS.get(root, ()):
            for form in self._by_stem.get(other, ()):
                forms.setdefault(form, SAME_MEANING)
        if not self.knows(word):
            for form, weight in self._guess(word):
                if weight > forms.get(form, 0.0):
                    forms[form] = weight
        return _best(forms)

    def _guess(self, word: str) -> Iterator[tuple[str, float]]:
        yield from self._begun_by(word)
        slips = list(self.slips_of(word))
        if not slips and (root := stem(word)) != word:
            slips = [(form, weight * FORM) for form, weight in self.slips_of(root)]  # `fiels`
        yield from slips
        for form, weight in slips:
            yield from ((other, weight * FORM) for other in self._by_stem[stem(form)] if other != form)
        if not slips and len(word) >= 6:
            yield from self._halves_of(word)

    def _begun_by(self, word: str) -> Iterator[tuple[str, float]]:
        """Words that begin with this one, and ones that it begins with: `repo`, `configurations`."""
        self._prepare()
        if len(word) >= _SHORTEST_BEGINNING:
            start = bisect_left(self._sorted, word)
            for form in self._sorted[start : start + MAX_FORMS]:
                if not form.startswith(word):
                    break
                yield form, BEGINNING * (0.5 + 0.5 * len(word) / len(form))
        for length in range(len(word) - 1, 4, -1):
            if word[:length] in self.words:
                yield word[:length], BEGINNING * length / len(word)
                break

    def slips_of(self, word: str) -> Iterator[tuple[str, float]]:
        """Words that this one may be a misspelling of, the likeliest first."""
        size = len(word)
        if size < _SHORTEST_SLIP or size > 32:
            return
        allowed = 1 if size <= 6 else 2
        for form in self._similar_to(word, allowed):
            wrong = count_slips(word, form, allowed)
            if wrong <= allowed:
                same_start = 1.0 if form[0] == word[0] else 0.85
                yield form, SLIP * same_start * (1 - wrong / (size + 2))

    def nearest_to(self, word: str, limit: int = 3) -> list[str]:
        """Words that look most like this one, however far: for a person who finds nothing."""
        likely = [form for form, _ in self.slips_of(word)]
        pairs = set(_pairs(word))
        alike = [
            form
            for form in self._similar_to(word, 3)
            if 2 * len(pairs.intersection(_pairs(form))) >= _ALIKE * (len(form) + len(word) + 2)
        ]
        return list(dict.fromkeys([*likely, *alike]))[:limit]

    def _similar_to(self, word: str, allowed: int) -> list[str]:
        """Words of nearly this length that share pairs of letters with it, the most alike first."""
        self._prepare()
        size = len(word)
        shared: Counter[str] = Counter()
        pairs = set(_pairs(word))
        for length in range(size - allowed, size + allowed + 1):
            by_pair = self._by_pair.get(length, {})
            for pair in pairs:
                shared.update(by_pair.get(pair, ()))
        least = max(1, size + 1 - 3 * allowed)
        close = [(-count, abs(len(form) - size), form) for form, count in shared.items() if count >= least]
        close.sort()
        return [form for _, _, form in close[:_COMPARED]]

    def _halves_of(self, word: str) -> Iterator[tuple[str, float]]:
        """`deletefile` is `delete` and `file`: the cut with the longest shorter half."""
        middle = len(word) // 2
        for cut in sorted(range(3, len(word) - 2), key=lambda at: (abs(at - middle), at)):
            if word[:cut] in self.words and word[cut:] in self.words:
                yield word[:cut], COMPOUND
                yield word[cut:], COMPOUND
                return

    def _prepare(self) -> None:
        """What only guesses need, made for the first of them."""
        if self._sorted or not self.words:
            return
        by_length: dict[int, dict[str, list[str]]] = {}
        ordered = sorted(self.words)
        for word in ordered:
            if 3 <= len(word) <= 34:
                by_pair = by_length.setdefault(len(word), {})
                for pair in set(_pairs(word)):
                    by_pair.setdefault(pair, []).append(word)
        self._by_pair = by_length
        self._sorted = ordered  # last: others may look at the same time


def _pairs(word: str) -> list[str]:
    framed = f"^{word}$"
    return [framed[at : at + 2] for at in range(len(word) + 1)]


def _best(forms: dict[str, float]) -> dict[str, float]:
    if len(forms) <= MAX_FORMS:
        return forms
    return dict(sorted(forms.items(), key=lambda item: (-item[1], item[0]))[:MAX_FORMS])


def count_slips(one: str, other: str, most: int) -> int:
    """How many letters are wrong, missing, too many or exchanged with the next; `most` + 1 for more."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    start = 0
    shorter = min(len(one), len(other))
    while start < shorter and one[start] == other[start]:
        start += 1
    end = 0
    while end < shorter - start and one[-1 - end] == other[-1 - end]:
        end += 1
    one, other = one[start : len(one) - end], other[start : len(other) - end]
    if not one or not other:
        return len(one) or len(other)
    before: list[int] = []
    row = list(range(len(other) + 1))
    for index, letter in enumerate(one, start=1):
        older, before, row = before, row, [index]
        for column, counterpart in enumerate(other, start=1):
            cost = min(row[-1] + 1, before[column] + 1, before[column - 1] + (letter != counterpart))
            if (
                index > 1
                and column > 1
                and letter == other[column - 2]
                and one[index - 2] == counterpart
                and older[column - 2] + 1 < cost
            ):
                cost = older[column - 2] + 1
            row.append(cost)
        if min(row) > most and (not before or min(before) > most):
            return most + 1
    return min(row[-1], most + 1)
