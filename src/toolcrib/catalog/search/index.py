"""Tools by what is said about them: the best first, whatever the question looks like.

Built once for a set of tools and never changed. A question costs what its rarer words cost; words that many
tools have only order what the others found. Knows tools, words and weights; refuses to know who asks: it is
told what may be found.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from toolcrib.catalog.search.reading import Reading
from toolcrib.catalog.search.speech import IDLE
from toolcrib.catalog.search.vocabulary import COMPOUND, Vocabulary
from toolcrib.catalog.search.words import cut
from toolcrib.errors import DefinitionError
from toolcrib.tool import Tool

Allowed: TypeAlias = Collection[str] | Callable[[Tool], bool]
"""What may be found: names, or a question about a tool."""

MAX_QUERY = 1_000
"""Characters of a question that are read."""
MAX_WORDS = 24
_RANKED = 64
"""How many are looked at closely."""
_COMMON = 0.1
"""A word that more than this share of the tools has is common, from so many tools on:"""
_MANY = 500
_SURE = 0.8
"""From here on a word is the one that was written, in this form or another."""
_NAME_BONUS = 0.6
_EXACT_BONUS = 2.0


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that was found. `matched` leads from words of the question to words of the tool."""

    tool: Tool
    score: float
    matched: Mapping[str, str]


class SearchIndex:
    """Searches `tools`; those that cannot be built are left out."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: list[Tool] = []
        self._names: list[tuple[str, ...]] = []
        self._by_name: dict[str, list[int]] = {}
        self._tools_by_word: dict[str, dict[int, float]] = {}
        for tool in tools:
            try:
                reading = Reading(tool)
            except DefinitionError:
                continue
            self._add(tool, reading)
        self.vocabulary = Vocabulary(self._tools_by_word)
        self.common = max(_MANY, len(self._tools) * _COMMON)

    def _add(self, tool: Tool, reading: Reading) -> None:
        number = len(self._tools)
        self._tools.append(tool)
        self._names.append(reading.name)
        self._by_name.setdefault(_flatten(tool.name), []).append(number)
        by_word = self._tools_by_word
        for word, weight in reading.weights.items():
            if word in by_word:
                by_word[word][number] = weight
            else:
                by_word[word] = {number: weight}

    def __len__(self) -> int:
        return len(self._tools)

    # --- searching ---

    def search(self, query: str, limit: int = 10, allowed: Allowed | None = None) -> list[Hit]:
        """The tools that a question means, the best first; none where nothing of it is known."""
        if not isinstance(query, str):
            raise TypeError(f"a question is a text, not {type(query).__name__}")
        if limit < 1 or not self._tools:
            return []
        flat = _flatten(query[:MAX_QUERY])
        exact = set(self._by_name.get(flat, ())) if flat else set()
        terms = [_Term(word, forms, self) for word, forms in self.read(query).items()]
        admits = None if allowed is None else _Admission(allowed, self._tools)
        scores = self._gather([term for term in terms if term.forms], limit, admits)
        for number in exact if admits is None else admits.filter(exact):
            scores.setdefault(number, 0.0)
        best = self._rank(scores, terms, exact, limit)
        return [
            Hit(self._tools[number], round(score, 4), self._explain(number, terms)) for score, number in best
        ]

    def read(self, query: str) -> dict[str, dict[str, float]]:
        """The words of a question, each with the words it stands for here. Idle words only where there are no
        others."""
        written = list(dict.fromkeys(cut(query[:MAX_QUERY])))
        words = [word for word in written if word not in IDLE] or written
        found = {word: self.vocabulary.forms_of(word) for word in words[:MAX_WORDS]}
        for first, second in pairwise(written):
            joined = first + second  # `file name`, `git hub`
            if joined in self.vocabulary.words and joined not in found:
                for word in (first, second):
                    if word in found:
                        found[word].setdefault(joined, COMPOUND)
        return found

    def suggest(self, query: str, limit: int = 3) -> list[str]:
        """Words that tools use and that look like those of a question that found nothing."""
        found: dict[str, None] = {}
        for word in self.read(query):
            found |= dict.fromkeys(self.vocabulary.nearest_to(word, limit))
        return list(found)[:limit]

    def _gather(self, terms: list[_Term], limit: int, admits: _Admission | None) -> dict[int, float]:
        """Scores by tool, the rarest word first. A common word adds no tools where the rarer ones found
        enough, and only those are looked at that it could bring to the front."""
        scores: dict[int, float] = {}
        enough = max(limit, _RANKED)
        for term in sorted(terms, key=lambda term: (term.reach, term.word)):
            if len(scores) >= enough and term.reach > self.common:
                bar = heapq.nlargest(enough, scores.values())[-1] - term.most
                scores = {number: score for number, score in scores.items() if score >= bar}
                term.score_only(scores)
                continue
            term.score_all(scores)
            if admits is not None:
                scores = {number: scores[number] for number in admits.filter(scores)}
        return scores

    def _rank(
        self, scores: dict[int, float], terms: list[_Term], exact: set[int], limit: int
    ) -> list[tuple[float, int]]:
        """The best, looked at closely: do they have all that is asked, and is their name all asked for?"""
        total = sum(term.rarity for term in terms) or 1.0
        ranked = [(score, -number) for number, score in scores.items()]  # of equals, the first comes first
        leading = {-number: score for score, number in heapq.nlargest(max(limit, _RANKED), ranked)}
        near: dict[int, float] = {}
        for number, score in {**leading, **{each: scores[each] for each in exact & scores.keys()}}.items():
            covered = sum(term.rarity for term in terms if term.is_in(number)) / total
            name = self._names[number]
            named = sum(any(word in term.forms for term in terms) for word in name) / max(1, len(name))
            near[number] = score * (0.4 + 0.6 * covered) * (1 + _NAME_BONUS * named * covered)
        bonus = (
            max(near.values(), default=0.0) + total * _EXACT_BONUS
        )  # whoever is asked for by name is first
        for number in exact & near.keys():
            near[number] += bonus
        best = heapq.nlargest(limit, ((score, -number) for number, score in near.items()))
        return [(score, -number) for score, number in best]

    def _explain(self, number: int, terms: list[_Term]) -> dict[str, str]:
        return {term.word: form for term in terms if (form := term.best_form(number)) is not None}


class _Term:
    """One word of a question: the words it stands for, and the tools that have them."""

    __slots__ = ("forms", "lists", "most", "rarity", "reach", "word")

    def __init__(self, word: str, forms: Mapping[str, float], index: SearchIndex) -> None:
        self.word = word
        found = index._tools_by_word
        total = len(index)
        sure = {form: weight for form, weight in forms.items() if weight > _SURE}
        self.reach = sum(len(found[form]) for form in sure or forms)
        self.rarity = _rarity(min(self.reach, total), total)
        # Whoever asks in a word that many tools use means that word, and not one like it.
        self.forms = sure if sure and self.reach > index.common else forms
        most = self.rarity if sure else math.inf
        self.lists = [
            (found[form], weight * min(most, _rarity(len(found[form]), total)), form)
            for form, weight in self.forms.items()
        ]
        self.most = max((factor for _, factor, _ in self.lists), default=0.0)

    def score_all(self, scores: dict[int, float]) -> None:
        tools, factor, _ = self.lists[0]
        best = {number: factor * weight for number, weight in tools.items()}
        for tools, factor, _ in self.lists[1:]:
            for number, weight in tools.items():
                score = factor * weight
                if score > best.get(number, 0.0):
                    best[number] = score
        _add_up(scores, best)

    def score_only(self, scores: dict[int, float]) -> None:
        """Add to what is there, and nothing new."""
        best: dict[int, float] = {}
        for tools, factor, _ in self.lists:
            for number in scores.keys() & tools.keys():
                score = factor * tools[number]
                if score > best.get(number, 0.0):
                    best[number] = score
        _add_up(scores, best)

    def is_in(self, number: int) -> bool:
        return any(number in tools for tools, _, _ in self.lists)

    def best_form(self, number: int) -> str | None:
        found = [(factor * tools[number], form) for tools, factor, form in self.lists if number in tools]
        return max(found)[1] if found else None


class _Admission:
    """What may be found, asked once for each tool."""

    def __init__(self, allowed: Allowed, tools: Sequence[Tool]) -> None:
        self._is_allowed = allowed if callable(allowed) else lambda tool: tool.name in allowed
        self._tools = tools
        self._known: dict[int, bool] = {}

    def filter(self, numbers: Iterable[int]) -> list[int]:
        known = self._known
        for number in numbers:
            if number not in known:
                known[number] = bool(self._is_allowed(self._tools[number]))
        return [number for number in numbers if known[number]]


def _add_up(scores: dict[int, float], more: dict[int, float]) -> None:
    if scores:
        for number, score in more.items():
            scores[number] = scores.get(number, 0.0) + score
    else:
        scores.update(more)


def _rarity(count: int, total: int) -> float:
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def _flatten(name: str) -> str:
    """A name without case and signs, so that `Create pull request` is `create_pull_request`."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())
