"""A search index over tools: BM25 over the fields of a definition, English stems, and a table of synonyms.

    hits = SearchIndex(tools).search("deleting files", limit=5)

A word of the name counts most, one of a parameter's description least. The index is built once for a set of
tools and never changed.
"""

from __future__ import annotations

import heapq
import math
import re
import tomllib
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Literal, TypeAlias

import snowballstemmer  # type: ignore[import-untyped]

from toolcrib.component import Component
from toolcrib.errors import DefinitionError
from toolcrib.validation.schema_tree import OBJECT, walk

# --- words and stems ----------------------------------------------------------------------------------

_DATA = tomllib.loads(Path(__file__).with_name("data").joinpath("english.toml").read_text("utf-8"))
STOP_WORDS = frozenset(_DATA["stop_words"].split())
_IRREGULAR = {form: word for word, *forms in map(str.split, _DATA["irregular"].split(";")) for form in forms}
_MAX_WORD = 64
_MAX_CACHED = 50_000
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_LOWER = rf"[^\W\d_A-Z{_UNSPACED}]"
_CHUNKS = re.compile(r"[^\W_]+")
_PARTS = re.compile(
    rf"[{_UNSPACED}]+|[A-Z]{{2,}}s(?!{_LOWER})[0-9]*|[A-Z]+(?!{_LOWER})[0-9]*|[A-Z]?{_LOWER}+[0-9]*|[0-9]+"
)
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_ACCENTS = re.compile("[\u0300-\u036f]")
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "\u0131": "i"}
)


def split_words(text: str) -> list[str]:
    """Return all words of a text, in order: `createPullRequest` and "Create a pull request" have the same,
    `Café` is `cafe`, and scripts without spaces give pairs of characters."""
    if not text.isascii():
        plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
        text = unicodedata.normalize("NFKC", plain)  # capitals stay: a word may begin at one
    return list(chain.from_iterable(map(_split_chunk, _CHUNKS.findall(text))))


@lru_cache(_MAX_CACHED)
def _split_chunk(chunk: str) -> tuple[str, ...]:
    words: list[str] = []
    parts = _PARTS.findall(chunk)
    for part in parts:
        if _IS_UNSPACED.match(part):
            words += [part[start : start + 2] for start in range(max(1, len(part) - 1))]
            continue
        word = part.casefold().translate(_LETTERS)[:_MAX_WORD]
        words.append(word)
        letters = word.rstrip("0123456789")
        if letters != word and len(letters) > 1:
            words.append(letters)
    if len(parts) == 2 and chunk.isascii() and len(chunk) <= 16:
        words.append(chunk.lower())  # `GitHub` is also `github`
    return tuple(words)


_stemmer = snowballstemmer.stemmer("english")


@lru_cache(_MAX_CACHED)
def stem(word: str) -> str:
    """Return the common stem of the forms of a word: `deleting`, `deleted` and `deletion` are `delet`."""
    found: str = _stemmer.stemWord(_IRREGULAR.get(word, word))
    return found


# --- synonyms -----------------------------------------------------------------------------------------
#
# A group has words used for one another. A member with hyphens is a phrase of a query, which becomes the
# first word of its group: `get-rid-of` is `delete`.

_GROUPS = [group.split() for group in _DATA["synonyms"].split(";")]
_PHRASES = {
    member.replace("-", " "): group[0].replace("-", " ")
    for group in _GROUPS
    for member in group[1:]
    if "-" in member or "-" in group[0]
}
_PHRASE = re.compile(rf"\b(?:{'|'.join(sorted(_PHRASES, key=len, reverse=True))})\b")
_SYNONYMS: dict[str, dict[str, None]] = {}
for _group in _GROUPS:
    _stems = [stem(word) for word in _group if "-" not in word]
    for _stem in _stems:
        _SYNONYMS.setdefault(_stem, {}).update(dict.fromkeys(other for other in _stems if other != _stem))
_APART = re.findall(rf"\b(\w+) ({'|'.join(_DATA['particles'].split())})\n", "\n".join([*_PHRASES, ""]))
_SPLIT_PHRASE = re.compile("|".join(rf"\b{verb}(?: \w+){{1,6}}? {particle}\b" for verb, particle in _APART))
_ACTIONS, _FIRST_ACTIONS = (
    {stem(verb): action for action, verbs in _DATA[table].items() for verb in verbs.split()}
    for table in ("actions", "first_actions")
)
_QUESTION = re.compile(r"(?:wh(?:at|ich|o|ose|en|ere)|how (?:many|much))\b(?! (?:should|can|could|do|to)\b)")


def _join_phrase(found: re.Match[str]) -> str:
    verb, *between, particle = found[0].split()
    return " ".join([_PHRASES[f"{verb} {particle}"], *between])  # `throw a file away`


def _action_of(words: Iterable[str]) -> str | None:
    """Return the action of the first verb among words: "read", "create", "update" or "delete"."""
    return next((_ACTIONS[word] for word in map(stem, words) if word in _ACTIONS), None)


# --- the words of a tool ------------------------------------------------------------------------------

Place = Literal["name", "title", "tags", "summary", "description", "parameters", "values", "notes"]
"""Where a word is in a definition."""

_FIELDS: dict[Place, tuple[float, float]] = {
    # the weight of a word, and the usual number of words there
    "name": (5.0, 3.0),
    "title": (3.0, 4.0),
    "tags": (2.0, 3.0),
    "summary": (2.2, 9.0),
    "description": (0.8, 25.0),
    "parameters": (1.2, 6.0),
    "values": (0.9, 8.0),
    "notes": (0.5, 30.0),
}
_LENGTH_FACTOR = 0.5
"""How much the length of a text matters, between 0 and 1: `b` of BM25."""
_SATURATION = 1.6
"""How much repetition matters: `k` of BM25."""
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)|[。！？]|\n\s*\n")  # noqa: RUF001 - full stops of other scripts
_MAX_TEXT = 20_000
_MAX_NODES = 400
_MAX_VALUES = 40


def words_by_place(tool: Component) -> dict[Place, list[str]]:
    """Return all words of a tool by place. Stop words count in names, titles and values only."""
    texts: dict[Place, list[str]] = {}
    for place, text in _texts(tool):
        texts.setdefault(place, []).append(text)
    found = {place: split_words("\n".join(parts)[:_MAX_TEXT]) for place, parts in texts.items()}
    for place in found.keys() - {"name", "title", "values"}:
        found[place] = [word for word in found[place] if word not in STOP_WORDS]
    return {place: words for place, words in found.items() if words}


def _weigh(tool: Component) -> dict[str, float]:
    """Return the stems of a tool with their weights, between 0 and 1, independent of other tools."""
    sums: dict[str, float] = {}
    for place, words in words_by_place(tool).items():
        weight, usual_length = _FIELDS[place]
        each = weight / (1 - _LENGTH_FACTOR + _LENGTH_FACTOR * len(words) / usual_length)
        for word in map(stem, words):
            sums[word] = sums.get(word, 0.0) + each
    return {word: value / (value + _SATURATION) for word, value in sums.items()}


def _texts(tool: Component) -> Iterator[tuple[Place, str]]:
    definition = tool.definition
    yield "name", tool.name
    yield from (("title", alias) for alias in tool.options.aliases)
    yield "title", definition.title or ""
    yield from (("tags", tag) for tag in definition.tags)
    text = definition.description
    end = _SENTENCE_END.search(text)
    split = end.end() if end else len(text)
    yield "summary", text[:split]
    yield "description", text[split:]
    for path, node in islice(walk(definition.input_schema), _MAX_NODES):
        description, properties, choices = node.get("description"), node.get("properties"), node.get("enum")
        if path and isinstance(description, str):
            yield "notes", description
        for value in [*(choices[:_MAX_VALUES] if isinstance(choices, list) else ()), node.get("const")]:
            if isinstance(value, str):
                yield "values", value
        if isinstance(properties, OBJECT):
            yield "parameters", " ".join(map(str, properties))


# --- the index ----------------------------------------------------------------------------------------

Allowed: TypeAlias = Collection[str] | Callable[[Component], bool]
"""What may be found: names, or a function that decides."""

MAX_QUERY = 1_000
"""Characters of a query that are read."""
MAX_WORDS = 24
_SYNONYM = 0.6
"""The weight of a match by a synonym."""
_NAME_BONUS = 0.8
_EXACT_BONUS = 1_000.0
_OTHER_ACTION, _UNASKED = 0.6, 0.4
"""The factors for a tool that does something else than the query asks for, and that deletes unasked."""
_MAX_RANKED, _MIN_COMMON = 100, 500


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that was found. `matched` maps words of the query to words of the tool."""

    tool: Component
    score: float
    matched: Mapping[str, str]


class SearchIndex:
    """Searches tools by words: `SearchIndex(tools).search("delete files")`. Tools that cannot be built are
    left out."""

    def __init__(self, tools: Iterable[Component]) -> None:
        self._tools: list[Component] = []
        self._names: list[frozenset[str]] = []
        self._actions: list[str | None] = []
        self._by_name: dict[str, list[int]] = {}
        self._found: dict[str, dict[int, float]] = {}
        for tool in tools:
            try:
                weights = _weigh(tool)
            except DefinitionError:
                continue
            number = len(self._tools)
            self._tools.append(tool)
            name = [word for word in split_words(tool.name) if word not in STOP_WORDS]
            self._names.append(frozenset(map(stem, name)))
            first = split_words(tool.definition.description[:_MAX_WORD])[:1]
            self._actions.append(_action_of(first) or _action_of(name))
            self._by_name.setdefault(_flatten(tool.name), []).append(number)
            for word, weight in weights.items():
                self._found.setdefault(word, {})[number] = weight

    def __len__(self) -> int:
        return len(self._tools)

    def search(self, query: str, limit: int = 10, allowed: Allowed | None = None) -> list[Hit]:
        """Return the tools that match a query, the best first; of equals, in the order of the tools."""
        if not isinstance(query, str):
            raise TypeError(f"query must be a string, not {type(query).__name__}")
        if limit < 1:
            return []
        terms = self._terms(query)
        first = stem("".join(split_words(query[:_MAX_WORD])[:1]))
        action = "read" if _QUESTION.match(query.lower()) else _FIRST_ACTIONS.get(first) or _action_of(terms)
        sums, covered = self._score(terms)
        exact = self._by_name.get(_flatten(query[:MAX_QUERY]), ()) if terms else ()
        sums |= {number: sums.get(number, 0.0) + _EXACT_BONUS for number in exact}
        if allowed is not None:
            is_allowed = allowed if callable(allowed) else lambda tool: tool.name in allowed
            sums = {number: score for number, score in sums.items() if is_allowed(self._tools[number])}
        asked = frozenset(chain.from_iterable(terms.values()))
        ranked = []
        for number in heapq.nlargest(
            max(_MAX_RANKED, limit), sums, key=lambda number: (sums[number], -number)
        ):
            name, share, does = self._names[number], covered.get(number, 1.0), self._actions[number]
            named = len(name & asked) / max(1, len(name))
            score = sums[number] * (0.4 + 0.6 * share) * (1 + _NAME_BONUS * named * share)
            if does is not None and does != action:
                score *= _UNASKED if does == "delete" else 1 if action is None else _OTHER_ACTION
            ranked.append((-score, number))
        return [
            Hit(self._tools[number], round(-score, 4), self._explain(number, terms))
            for score, number in sorted(ranked)[:limit]
        ]

    def knows(self, word: str) -> bool:
        """Return whether some tool has this word, a form of it or a synonym."""
        return any(form in self._found for form in (stem(word), *_SYNONYMS.get(stem(word), ())))

    def _terms(self, query: str) -> dict[str, dict[str, float]]:
        """Return the words of a query, each with its stems and their weights."""
        text = " ".join(split_words(query[:MAX_QUERY]))
        text = _SPLIT_PHRASE.sub(_join_phrase, _PHRASE.sub(lambda phrase: _PHRASES[phrase[0]], text))
        written = list(dict.fromkeys(text.split()))
        words = ([word for word in written if word not in STOP_WORDS] or written)[:MAX_WORDS]
        terms = {word: {stem(word): 1.0} for word in words}
        for word, forms in terms.items():
            for other in _SYNONYMS.get(stem(word), ()):
                forms[other] = _SYNONYM
        for first, second in pairwise(written):  # `file name` finds `filename`
            if (joined := stem(first + second)) in self._found:
                for word in terms.keys() & {first, second}:
                    terms[word].setdefault(joined, 0.8)
        return terms

    def _score(self, terms: Mapping[str, Mapping[str, float]]) -> tuple[dict[int, float], dict[int, float]]:
        """Return for each tool the sum over the words of the query, and which share of them it has. A common
        word finds nothing that no rarer one finds."""
        counts = {form: len(self._found.get(form, ())) for forms in terms.values() for form in forms}
        rarities = {
            word: self._idf(counts[stem(word)] or max(map(counts.__getitem__, forms)))
            for word, forms in terms.items()
        }
        total, common = sum(rarities.values()) or 1.0, max(_MIN_COMMON, len(self._tools) // 10)
        sums: dict[int, float] = {}
        covered: dict[int, float] = {}
        for word in sorted(terms, key=rarities.__getitem__, reverse=True):
            best: dict[int, float] = {}
            for form, factor in terms[word].items():
                tools = self._found.get(form, {})
                factor *= min(rarities[word], self._idf(len(tools)))
                if sums and len(tools) > common:
                    tools = {number: tools[number] for number in sums.keys() & tools.keys()}
                for number, weight in tools.items():
                    if factor * weight > best.get(number, 0.0):
                        best[number] = factor * weight
            for number, score in best.items():
                sums[number] = sums.get(number, 0.0) + score
                covered[number] = covered.get(number, 0.0) + rarities[word] / total
        return sums, covered

    def _idf(self, count: int) -> float:
        return math.log(1 + (len(self._tools) - count + 0.5) / (count + 0.5))

    def _explain(self, number: int, terms: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
        words = {stem(word): word for words in words_by_place(self._tools[number]).values() for word in words}
        words |= {stem(word): word for word in terms.keys() & set(words.values())}
        known = (
            (word, [(forms[form], form) for form in forms if form in words]) for word, forms in terms.items()
        )
        return {word: words[max(found)[1]] for word, found in known if found}


def _flatten(name: str) -> str:
    """Return a name without case and signs, so that `Create pull request` is `create_pull_request`."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())
