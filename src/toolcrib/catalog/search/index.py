"""Tools by what is said about them: the best first, whatever the question looks like.

Built once for a set of tools and never changed. A question costs what its rarer words cost; words that many
tools have only order what the others found. Knows tools, words and weights; refuses to know who asks: it is
told what may be found.

The words there are, and which of them somebody meant who wrote another.

By the same stem, by the same meaning, by their beginning, or by a slip of the finger: one or two letters
wrong, missing, too many or exchanged. Knows words and stems; refuses to know which tools have them.

The words of a tool, and how much each says about it.

A word of the name says most, one of a parameter's description least; long texts say less per word. Knows
where a definition has words; refuses to know other tools: what comes out is the same whatever is beside it.
"""

from __future__ import annotations

import heapq
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from toolcrib.catalog.search.text import IDLE, SAME, cut, stem
from toolcrib.errors import DefinitionError
from toolcrib.tool import Tool

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
        for at in sorted(range(3, len(word) - 2), key=lambda place: (abs(place - middle), place)):
            if word[:at] in self.words and word[at:] in self.words:
                yield word[:at], COMPOUND
                yield word[at:], COMPOUND
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


Place = Literal["name", "title", "tags", "summary", "description", "parameters", "values", "notes"]

_WEIGHTS: dict[Place, tuple[float, float]] = {
    # how much a word there says, and how many words are usual there
    "name": (5.0, 3.0),
    "title": (3.0, 4.0),
    "tags": (2.0, 3.0),
    "summary": (2.2, 9.0),
    "description": (0.8, 25.0),
    "parameters": (1.2, 6.0),
    "values": (0.9, 8.0),
    "notes": (0.5, 30.0),
}
_IDLE_TOO: tuple[Place, ...] = ("name", "title", "values")
"""Where idle words may be all there is."""
_LENGTH = 0.5
"""How much the length of a text matters, between 0 and 1."""
SATURATION = 1.6

_END_OF_SENTENCE = re.compile(r"[.!?](?:\s|$)|[。！？]|\n\s*\n")  # noqa: RUF001 - the full stops of the East
MAX_TEXT = 20_000
MAX_NODES = 400
MAX_VALUES = 40


class Reading:
    """A tool as its words: `name` in order, `weights` by word, between 0 and 1."""

    __slots__ = ("name", "weights")

    def __init__(self, tool: Tool) -> None:
        self.name = tuple(dict.fromkeys(cut(tool.name)))
        sums: dict[str, float] = {}
        before = sums.get
        places = words_by_place(tool)
        for place, words in places.items():
            says, usual = _WEIGHTS[place]
            each = says / (1 - _LENGTH + _LENGTH * len(words) / usual)
            for word in words:
                sums[word] = before(word, 0.0) + each
        for word in IDLE.intersection(sums):
            if not any(word in places.get(place, ()) for place in _IDLE_TOO):
                del sums[word]
        self.weights = {word: value / (value + SATURATION) for word, value in sums.items()}


def words_by_place(tool: Tool) -> dict[Place, list[str]]:
    """All words of a tool by where they stand."""
    texts: dict[Place, list[str]] = {}
    for place, text in _texts(tool):
        texts.setdefault(place, []).append(text)
    return {place: words for place, parts in texts.items() if (words := cut("\n".join(parts)[:MAX_TEXT]))}


def _texts(tool: Tool) -> Iterator[tuple[Place, str]]:
    definition = tool.definition
    yield "name", tool.name
    for alias in tool.options.aliases:
        yield "title", alias
    if definition.title:
        yield "title", definition.title
    for tag in definition.tags:
        yield "tags", tag
    text = definition.description
    end = _END_OF_SENTENCE.search(text)
    split = end.end() if end else len(text)
    yield "summary", text[:split]
    yield "description", text[split:]
    yield from _schema_texts(definition.input_schema)


def _schema_texts(schema: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """Names, descriptions and choices of parameters, at any depth, up to a bound."""
    waiting: list[Any] = [dict(schema)]
    for count, node in enumerate(waiting):  # grows on the way
        if count >= MAX_NODES:
            return
        if isinstance(node, list):
            waiting += node
        if not isinstance(node, dict):
            continue
        words = node.get("description")
        if count and isinstance(words, str):
            yield "notes", words
        if "enum" in node or "const" in node:
            for value in _choices(node):
                yield "values", value
        properties = node.get("properties")
        if isinstance(properties, dict):
            yield "parameters", " ".join(map(str, properties))
            waiting += properties.values()
        for key in ("$defs", "definitions"):
            if isinstance(node.get(key), dict):
                waiting += node[key].values()
        waiting += [
            node[key] for key in ("items", "anyOf", "oneOf", "allOf", "additionalProperties") if key in node
        ]


def _choices(node: dict[str, Any]) -> Iterator[str]:
    values = node.get("enum")
    if isinstance(values, list | tuple):
        yield from (value for value in values[:MAX_VALUES] if isinstance(value, str))
    if isinstance(node.get("const"), str):
        yield node["const"]


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
