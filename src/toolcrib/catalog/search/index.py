"""A search index over tools: built once for a set of tools, never changed.

A word of the name counts most, one of a parameter's description least. The words of a query are widened to
their forms, synonyms and likely misspellings.
"""

from __future__ import annotations

import heapq
import math
import re
import tomllib
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

from toolcrib.errors import DefinitionError
from toolcrib.tool import Tool
from toolcrib.validation.schema_tree import OBJECT, walk

# --- words and stems ----------------------------------------------------------------------------------
#
# `create_pull_request`, `createPullRequest` and "Create a pull request" give the same words; `Café` gives
# `cafe`; scripts without spaces give pairs of characters. Stems are English; for other languages they cut
# off the same on both sides.

_ENGLISH = tomllib.loads(Path(__file__).with_name("data").joinpath("english.toml").read_text("utf-8"))
STOP_WORDS = frozenset(_ENGLISH["stop_words"].split())
SYNONYMS = tuple(tuple(group.split()) for group in _ENGLISH["synonyms"])
_IRREGULAR = {form: word for word, forms in _ENGLISH["irregular"].items() for form in forms.split()}
_ENDINGS = [
    (ending, "" if replacement == "-" else replacement, int(left))
    for entry in re.split(r"[,\n]", _ENGLISH["endings"].strip())
    if entry.strip()
    for ending, replacement, left in [entry.split()]
]

MAX_WORD = 64
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_LOWER = rf"[^\W\d_A-Z{_UNSPACED}]"
_CHUNKS = re.compile(r"[^\W_]+")
_ASCII_CHUNKS = re.compile("[A-Za-z0-9]+")  # twice as fast
_PARTS = re.compile(
    rf"[{_UNSPACED}]+|[A-Z]{{2,}}s(?!{_LOWER})[0-9]*|[A-Z]+(?!{_LOWER})[0-9]*|[A-Z]?{_LOWER}+[0-9]*|[0-9]+"
)
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_ACCENTS = re.compile("[\u0300-\u036f]")
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "\u0131": "i"}
)
_MAX_CACHED = 50_000


class _ChunkWords(dict[str, tuple[str, ...]]):
    """A cache from chunks, which are what is between two signs, to their words. Most chunks recur."""

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        words = _split_chunk(chunk)
        if len(self) < _MAX_CACHED and len(chunk) <= MAX_WORD:
            self[chunk] = words
        return words


_CHUNK_WORDS = _ChunkWords()


def split_words(text: str) -> list[str]:
    """Return all words of a text, in order, with repetitions."""
    chunks = _ASCII_CHUNKS.findall(text) if text.isascii() else _CHUNKS.findall(_strip_accents(text))
    return list(chain.from_iterable(map(_CHUNK_WORDS.__getitem__, chunks)))


def _strip_accents(text: str) -> str:
    """Remove accents and unify spellings, but keep capitals: a word may begin at one."""
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def _split_chunk(chunk: str) -> tuple[str, ...]:
    """Return the words of a chunk: `getUser` is `get` and `user`, `GitHub` is also `github`."""
    if chunk.isascii() and (chunk.islower() or chunk[1:].islower()) and chunk.isalpha():
        return (chunk.lower()[:MAX_WORD],)
    words: list[str] = []
    parts = _PARTS.findall(chunk)
    for part in parts:
        if _IS_UNSPACED.match(part):
            words += [part[start : start + 2] for start in range(max(1, len(part) - 1))]
            continue
        word = part.casefold().translate(_LETTERS)[:MAX_WORD]
        words.append(word)
        letters = word.rstrip("0123456789")
        if letters != word and len(letters) > 1:
            words.append(letters)
    if len(parts) == 2 and chunk.isascii() and len(chunk) <= 16:
        words.append(chunk.lower())
    return tuple(words)


_VOWELS = frozenset("aeiouy")


@lru_cache(maxsize=_MAX_CACHED)
def stem(word: str) -> str:
    """Return what the forms of a word share: `deleting`, `deleted` and `deletion` are `delet`."""
    word = _IRREGULAR.get(word, word)
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    for ending, replacement, min_left in _ENDINGS:
        if word.endswith(ending):
            left = word[: len(word) - len(ending)]
            if len(left) >= min_left and not _VOWELS.isdisjoint(left):
                word = left + replacement if replacement else _undouble(left)
                break
    return _unify_end(word)


def _undouble(word: str) -> str:
    """`runn` is `run`; `call` and `pass` stay."""
    is_double = len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz" and word[-1] not in _VOWELS
    return word[:-1] if is_double else word


def _unify_end(word: str) -> str:
    """Unify a last letter that comes and goes: `delete`, `query`, `summarise`."""
    if len(word) > 5 and word.endswith(("ise", "ize", "yse", "yze")):
        word = f"{word[:-2]}z"
    elif len(word) > 5 and word.endswith(("is", "ys")) and word[-3] not in "aeiou":
        word = f"{word[:-1]}z"
    if len(word) > 3 and word[-1] == "e":
        return word[:-1]
    if len(word) > 3 and word[-1] == "y" and word[-2] not in _VOWELS:
        return f"{word[:-1]}i"
    return word


# --- the words of a tool ------------------------------------------------------------------------------

Place = Literal["name", "title", "tags", "summary", "description", "parameters", "values", "notes"]
"""Where a word is in a definition."""

_WEIGHTS: dict[Place, tuple[float, float]] = {
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
_KEEPS_STOP_WORDS: tuple[Place, ...] = ("name", "title", "values")
_LENGTH_FACTOR = 0.5
"""How much the length of a text matters, between 0 and 1."""
_SATURATION = 1.6
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)|[。！？]|\n\s*\n")  # noqa: RUF001 - full stops of other scripts
_MAX_TEXT = 20_000
_MAX_NODES = 400
_MAX_VALUES = 40


def weigh_words(tool: Tool) -> dict[str, float]:
    """Return the words of a tool with their weights, between 0 and 1, independent of other tools."""
    sums: dict[str, float] = {}
    get = sums.get
    places = words_by_place(tool)
    for place, words in places.items():
        weight, usual_length = _WEIGHTS[place]
        each = weight / (1 - _LENGTH_FACTOR + _LENGTH_FACTOR * len(words) / usual_length)
        for word in words:
            sums[word] = get(word, 0.0) + each
    for word in STOP_WORDS.intersection(sums):
        if not any(word in places.get(place, ()) for place in _KEEPS_STOP_WORDS):
            del sums[word]
    return {word: value / (value + _SATURATION) for word, value in sums.items()}


def words_by_place(tool: Tool) -> dict[Place, list[str]]:
    """Return all words of a tool by place."""
    texts: dict[Place, list[str]] = {}
    for place, text in _texts(tool):
        texts.setdefault(place, []).append(text)
    found = ((place, split_words("\n".join(parts)[:_MAX_TEXT])) for place, parts in texts.items())
    return {place: words for place, words in found if words}


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
    end = _SENTENCE_END.search(text)
    split = end.end() if end else len(text)
    yield "summary", text[:split]
    yield "description", text[split:]
    yield from _schema_texts(definition.input_schema)


def _schema_texts(schema: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """Yield the names, descriptions and choices of parameters, at any depth, up to a limit."""
    for path, node in islice(walk(schema), _MAX_NODES):
        description, properties = node.get("description"), node.get("properties")
        if path and isinstance(description, str):
            yield "notes", description
        if "enum" in node or "const" in node:
            choices = node.get("enum")
            for value in [*(choices[:_MAX_VALUES] if isinstance(choices, list) else ()), node.get("const")]:
                if isinstance(value, str):
                    yield "values", value
        if isinstance(properties, OBJECT):
            yield "parameters", " ".join(map(str, properties))


# --- the words of an index ----------------------------------------------------------------------------

MAX_FORMS = 24
"""How many words one word of a query may stand for."""
_MAX_CANDIDATES = 32
_MIN_TYPO_LENGTH = 4
_MIN_PREFIX_LENGTH = 3
_MIN_SIMILARITY = 0.75
_MIN_SIMILAR_LENGTH = 4
# How much a match counts
_EXACT, _FORM, _COMPOUND, _SYNONYM, _PREFIX, _TYPO = 1.0, 0.9, 0.8, 0.5, 0.75, 0.75


def _group_synonyms() -> dict[str, tuple[str, ...]]:
    groups: dict[str, dict[str, None]] = {}
    for group in SYNONYMS:
        stems = [stem(word) for word in group]
        for each in stems:
            groups.setdefault(each, {}).update(dict.fromkeys(other for other in stems if other != each))
    return {each: tuple(others) for each, others in groups.items()}


_SYNONYM_STEMS = _group_synonyms()
_PHRASES: dict[str, str] = _ENGLISH["phrases"]
_PHRASE = re.compile(rf"\b(?:{'|'.join(sorted(_PHRASES, key=len, reverse=True))})\b")
_PARTICLES = frozenset({"away", "back", "down", "into", "off", "on", "out"})
_SPLIT_PHRASES = "|".join(
    f"{phrase[0]}(?: \\w+){{1,6}}? {phrase[1]}"
    for phrase in map(str.split, _PHRASES)
    if len(phrase) == 2 and phrase[1] in _PARTICLES
)
_SPLIT_PHRASE = re.compile(rf"\b(?:{_SPLIT_PHRASES})\b")


def replace_phrases(words: list[str]) -> list[str]:
    """Return the words of a query with its phrases replaced: `get rid of files` and `throw files away` are
    `delete files`."""
    text = _PHRASE.sub(lambda phrase: _PHRASES[phrase[0]], " ".join(words))
    return _SPLIT_PHRASE.sub(_join_phrase, text).split()


def _join_phrase(found: re.Match[str]) -> str:
    verb, *between, particle = found[0].split()
    return " ".join([_PHRASES[f"{verb} {particle}"], *between])


# --- actions ------------------------------------------------------------------------------------------


def _actions_by_verb(table: Mapping[str, str]) -> dict[str, str]:
    return {stem(verb): action for action, verbs in table.items() for verb in verbs.split()}


_ACTIONS = _actions_by_verb(_ENGLISH["actions"])
_EVERYDAY_ACTIONS = _actions_by_verb(_ENGLISH["everyday_actions"])
_ALSO_NOUNS = frozenset(map(stem, _ENGLISH["also_nouns"].split()))
_QUESTION = re.compile(_ENGLISH["question"])
_ORDER = re.compile(_ENGLISH["order"])


def action_of_query(query: str, words: Sequence[str]) -> str | None:
    """Return what a query wants: "read", "create", "update" or "delete"; "act" if it begins with another verb
    ("tag a commit"), and None if it has no verb."""
    start = query[:MAX_WORD].lower()
    if _QUESTION.match(start):
        return "read"
    first, *others = words or [""]
    everyday = _EVERYDAY_ACTIONS.get(stem(first)) if start.startswith(first) else None  # not "the file"
    if action := _ACTIONS.get(stem(first)) or everyday:
        return action
    if _ORDER.match(start):
        return "act"
    # not "a deleted file", "answers people gave"
    verbs = (stem(word) for word in others if not _is_participle(word))
    return next((_ACTIONS[verb] for verb in verbs if verb in _ACTIONS and verb not in _ALSO_NOUNS), None)


def _is_participle(word: str) -> bool:
    return word.endswith("ed") or word in _IRREGULAR


def action_of_tool(name: list[str], description: str) -> tuple[str | None, list[str]]:
    """Return what a tool does, by the first word of its description or the first verb of its name, and the
    words of the name without that verb."""
    verb = next((word for word in name if stem(word) in _ACTIONS), "")
    first = _CHUNKS.match(description[:MAX_WORD])
    action = (first and _ACTIONS.get(stem(first[0].lower()))) or _ACTIONS.get(stem(verb))
    return action, [word for word in name if word != verb and word not in STOP_WORDS] or name


class Vocabulary:
    """All words of an index, and which of them a word of a query may stand for."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = frozenset(words)
        self._by_stem: dict[str, list[str]] = {}
        for word in sorted(self.words):
            self._by_stem.setdefault(stem(word), []).append(word)
        self._sorted: list[str] = []
        self._by_pair: dict[int, dict[str, list[str]]] = {}

    def forms_of(self, word: str) -> dict[str, float]:
        """Return the words that `word` stands for, with weights. An unknown word is guessed."""
        forms: dict[str, float] = {}
        root = stem(word)
        is_used = word in self.words
        is_known = is_used or root in self._by_stem
        if is_known:
            forms |= dict.fromkeys(self._by_stem.get(root, ()), _FORM * _FORM if is_used else _FORM)
            if is_used:
                forms[word] = _EXACT
        for other in _SYNONYM_STEMS.get(root, ()):
            for form in self._by_stem.get(other, ()):
                forms.setdefault(form, _SYNONYM)
        if not forms:
            for form, weight in self._guess(word):
                forms[form] = max(weight, forms.get(form, 0.0))
        if len(forms) > MAX_FORMS:
            forms = dict(sorted(forms.items(), key=lambda item: (-item[1], item[0]))[:MAX_FORMS])
        return forms

    def _guess(self, word: str) -> Iterator[tuple[str, float]]:
        yield from self._prefix_matches(stem(word))
        typos = list(self._typo_matches(word))
        if not typos and (root := stem(word)) != word:
            typos = [(form, weight * _FORM) for form, weight in self._typo_matches(root)]  # `fiels`
        yield from typos
        for form, weight in typos:
            yield from ((other, weight * _FORM) for other in self._by_stem[stem(form)] if other != form)
        if not typos and len(word) >= 6:
            yield from self._compound_parts(word)

    def _prefix_matches(self, word: str) -> Iterator[tuple[str, float]]:
        """Yield words that begin with this one, and one that it begins with: `repo`, `configurations`."""
        self._prepare()
        if len(word) >= _MIN_PREFIX_LENGTH:
            start = bisect_left(self._sorted, word)
            for form in self._sorted[start : start + MAX_FORMS]:
                if not form.startswith(word):
                    break
                yield form, _PREFIX * (0.5 + 0.5 * len(word) / len(form))
        for length in range(len(word) - 1, 4, -1):
            if word[:length] in self.words:
                yield word[:length], _PREFIX * length / len(word)
                break

    def _typo_matches(self, word: str) -> Iterator[tuple[str, float]]:
        """Yield words that this one may be a misspelling of, the most likely first."""
        size = len(word)
        if not _MIN_TYPO_LENGTH <= size <= 32:
            return
        allowed = 1 if size <= 6 else 2
        for form in self._similar_words(word, allowed):
            typos = count_typos(word, form, allowed)
            if typos <= allowed:
                start_factor = 1.0 if form[0] == word[0] else 0.85
                yield form, _TYPO * start_factor * (1 - typos / (size + 2))

    def nearest_to(self, word: str, limit: int = 3) -> list[str]:
        """Return the words that look most like this one. Short words look like many others by chance."""
        likely = [form for form, _ in self._typo_matches(word)]
        words = self._similar_words(word, 3) if len(word) >= _MIN_SIMILAR_LENGTH else []
        similar = get_close_matches(word, words, limit, _MIN_SIMILARITY)
        return list(dict.fromkeys([*likely, *similar]))[:limit]

    def _similar_words(self, word: str, allowed: int) -> list[str]:
        """Return words of about this length that share letter pairs with it, the most similar first."""
        self._prepare()
        size = len(word)
        shared: Counter[str] = Counter()
        pairs = set(_letter_pairs(word))
        for length in range(size - allowed, size + allowed + 1):
            by_pair = self._by_pair.get(length, {})
            for pair in pairs:
                shared.update(by_pair.get(pair, ()))
        least = max(1, size + 1 - 3 * allowed)
        close = [(-count, abs(len(form) - size), form) for form, count in shared.items() if count >= least]
        return [form for _, _, form in sorted(close)[:_MAX_CANDIDATES]]

    def _compound_parts(self, word: str) -> Iterator[tuple[str, float]]:
        """Split `deletefile` into `delete` and `file`, as near to the middle as possible."""
        middle = len(word) // 2
        for at in sorted(range(3, len(word) - 2), key=lambda index: (abs(index - middle), index)):
            if word[:at] in self.words and word[at:] in self.words:
                yield word[:at], _COMPOUND
                yield word[at:], _COMPOUND
                return

    def _prepare(self) -> None:
        """Build what only guesses need, with the first of them."""
        if self._sorted or not self.words:
            return
        by_length: dict[int, dict[str, list[str]]] = {}
        ordered = sorted(self.words)
        for word in ordered:
            if 3 <= len(word) <= 34:
                by_pair = by_length.setdefault(len(word), {})
                for pair in set(_letter_pairs(word)):
                    by_pair.setdefault(pair, []).append(word)
        self._by_pair = by_length
        self._sorted = ordered  # last: another thread may look at the same time


def _letter_pairs(word: str) -> list[str]:
    framed = f"^{word}$"
    return [framed[at : at + 2] for at in range(len(word) + 1)]


def count_typos(one: str, other: str, limit: int) -> int:
    """Count letters that are wrong, missing, added or swapped with the next; `limit` + 1 for more."""
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    while one and other and one[0] == other[0]:  # equal ends need no table
        one, other = one[1:], other[1:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    before: list[int] = []
    row = list(range(len(other) + 1))
    for index, letter in enumerate(one, start=1):
        older, before, row = before, row, [index]
        for column, counterpart in enumerate(other, start=1):
            cost = min(row[-1] + 1, before[column] + 1, before[column - 1] + (letter != counterpart))
            is_swap = index > 1 < column and letter == other[column - 2] and one[index - 2] == counterpart
            row.append(min(cost, older[column - 2] + 1) if is_swap else cost)
        if min(row) > limit and min(before) > limit:  # a swap looks two rows back
            return limit + 1
    return min(row[-1], limit + 1)


# --- the index ----------------------------------------------------------------------------------------

Allowed: TypeAlias = Collection[str] | Callable[[Tool], bool]
"""What may be found: names, or a function that decides."""

MAX_QUERY = 1_000
"""Characters of a query that are read."""
MAX_WORDS = 24
_MAX_RANKED = 64
"""How many tools are ranked in detail."""
_COMMON_SHARE, _MIN_COMMON = 0.1, 500
"""A word is common if more than this share of the tools, and at least so many, have it."""
_SURE = 0.8
"""The weight from which on a form is a spelling of the word itself."""
_NAME_BONUS = 0.8
_EXACT_BONUS = 2.0
_OTHER = 0.6
"""The factor for a tool that reads where the query wants to delete, and the like."""
_OTHER_ACTION = {
    # the factor for other pairs of what the query wants and what the tool does: nothing is deleted unasked
    ("create", "delete"): 0.4,
    ("read", "delete"): 0.4,
    ("update", "delete"): 0.4,
    ("act", "create"): 1.0,
    ("act", "update"): 0.9,
    ("act", "read"): 0.7,
    (None, "create"): 0.95,
    (None, "read"): 1.0,
    (None, "update"): 0.9,
}
_OTHER_APP = 0.3
"""What is left of it where the query names an application, and the tool is not about that."""
_MIN_APP = 5
"""How many names must begin with a word that is an application's."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that was found. `matched` maps words of the query to words of the tool."""

    tool: Tool
    score: float
    matched: Mapping[str, str]


class SearchIndex:
    """Searches tools by words: `SearchIndex(tools).search("delete files")`. Tools that cannot be built are
    left out."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: list[Tool] = []
        self._things: list[list[str]] = []
        self._actions: list[str | None] = []
        self._prefixes: Counter[str] = Counter()
        self._by_name: dict[str, list[int]] = {}
        self._tools_by_word: dict[str, dict[int, float]] = {}
        for tool in tools:
            try:
                weights = weigh_words(tool)
            except DefinitionError:
                continue
            self._add(tool, weights)
        self.vocabulary = Vocabulary(self._tools_by_word)

    def _add(self, tool: Tool, weights: Mapping[str, float]) -> None:
        number = len(self._tools)
        self._tools.append(tool)
        name = list(dict.fromkeys(split_words(tool.name)))
        action, things = action_of_tool(name, tool.definition.description)
        self._actions.append(action)
        self._things.append(things)
        self._prefixes.update(name[:1])
        self._by_name.setdefault(_flatten(tool.name), []).append(number)
        by_word = self._tools_by_word
        for word, weight in weights.items():
            if word in by_word:
                by_word[word][number] = weight
            else:
                by_word[word] = {number: weight}

    def __len__(self) -> int:
        return len(self._tools)

    def search(self, query: str, limit: int = 10, allowed: Allowed | None = None) -> list[Hit]:
        """Return the tools that match a query, the best first."""
        if not isinstance(query, str):
            raise TypeError(f"query must be a string, not {type(query).__name__}")
        if limit < 1 or not self._tools:
            return []
        flat = _flatten(query[:MAX_QUERY])
        exact = set(self._by_name.get(flat, ())) if flat else set()
        terms = [_Term(word, forms, self) for word, forms in self.expand(query).items()]
        action = action_of_query(query, [term.word for term in terms])
        admits = None if allowed is None else self._admission(allowed)
        scores = self._score(terms, admits)
        for number in exact if admits is None else filter(admits, exact):
            scores.setdefault(number, 0.0)
        return [
            Hit(self._tools[number], round(score, 4), self._explain(number, terms))
            for score, number in self._rank(scores, terms, action, exact, limit)
        ]

    def _admission(self, allowed: Allowed) -> Callable[[int], bool]:
        """Return whether a tool may be found, decided once for each."""
        is_allowed = allowed if callable(allowed) else lambda tool: tool.name in allowed
        return cache(lambda number: bool(is_allowed(self._tools[number])))

    def expand(self, query: str) -> dict[str, dict[str, float]]:
        """Return the words of a query, each with its forms here. Stop words count only if all are."""
        written = list(dict.fromkeys(replace_phrases(split_words(query[:MAX_QUERY]))))
        words = [word for word in written if word not in STOP_WORDS] or written
        found = {word: self.vocabulary.forms_of(word) for word in words[:MAX_WORDS]}
        for word in words[1:MAX_WORDS]:
            if _is_participle(word) and stem(word) in _ACTIONS:
                found[word] = {form: weight for form, weight in found[word].items() if weight > _SYNONYM}
        for first, second in pairwise(written):
            joined = first + second  # `file name`, `git hub`
            if joined in self.vocabulary.words and joined not in found:
                for word in (first, second):
                    if word in found:
                        found[word].setdefault(joined, _COMPOUND)
        return found

    def suggest(self, query: str, limit: int = 3) -> list[str]:
        """Return words of tools that look like those of a query that found nothing."""
        found: dict[str, None] = {}
        for word in self.expand(query):
            found |= dict.fromkeys(self.vocabulary.nearest_to(word, limit))
        return list(found)[:limit]

    def _score(self, terms: list[_Term], admits: Callable[[int], bool] | None) -> dict[int, float]:
        """Return scores by tool: of each word, that of the form that fits best."""
        scores: dict[int, float] = {}
        for term in terms:
            for number, score in term.found.items():
                scores[number] = scores.get(number, 0.0) + score
        return scores if admits is None else {n: score for n, score in scores.items() if admits(n)}

    def _rank(
        self, scores: dict[int, float], terms: list[_Term], action: str | None, exact: set[int], limit: int
    ) -> list[tuple[float, int]]:
        """Rank the best by how much of the query they cover, how much of their name the query covers, and
        whether they do what it wants, where it wants it."""
        total = sum(term.rarity for term in terms) or 1.0
        forms = {form for term in terms for form in term.forms}
        verbs = [term for term in terms if action and _ACTIONS.get(stem(term.word)) == action]
        apps = [term.found for term in terms if self._is_app(term.word)]
        ordered = [(score, -number) for number, score in scores.items()]  # of equals, the first comes first
        leading = {-number for _, number in heapq.nlargest(max(limit, _MAX_RANKED), ordered)}
        ranked: dict[int, float] = {}
        for number in leading | (exact & scores.keys()):
            score, covered, does, things = scores[number], 0.0, self._actions[number], self._things[number]
            for term in terms:
                late = 0.0 if number in term.found else term.late_score(number)
                score += late
                if late or number in term.found or (does == action and term in verbs):
                    covered += term.rarity / total
            named = sum(word in forms for word in things) / max(1, len(things))
            score *= (0.4 + 0.6 * covered) * (1 + _NAME_BONUS * named * covered)
            score *= 1.0 if does is None or does == action else _OTHER_ACTION.get((action, does), _OTHER)
            score *= _OTHER_APP if apps and not any(number in found for found in apps) else 1
            ranked[number] = score
        bonus = max(ranked.values(), default=0.0) + total * _EXACT_BONUS  # a tool asked for by name is first
        for number in exact & ranked.keys():
            ranked[number] += bonus
        best = heapq.nlargest(limit, ((score, -number) for number, score in ranked.items()))
        return [(score, -number) for score, number in best]

    def _is_app(self, word: str) -> bool:
        return self._prefixes[word] >= _MIN_APP and stem(word) not in _ACTIONS

    def _explain(self, number: int, terms: list[_Term]) -> dict[str, str]:
        return {term.word: form for term in terms if (form := term.best_form(number)) is not None}


class _Term:
    """One word of a query: its forms, and the scores of the tools that have them."""

    __slots__ = ("forms", "found", "late", "lists", "rarity", "word")

    def __init__(self, word: str, forms: Mapping[str, float], index: SearchIndex) -> None:
        self.word, self.forms = word, forms
        tools_by_word, total = index._tools_by_word, len(index)
        sure = {form for form, weight in forms.items() if weight > _SURE}
        reach = sum(len(tools_by_word[form]) for form in sure or forms)
        self.rarity = _rarity(min(reach, total), total)
        max_rarity = self.rarity if sure else math.inf
        self.lists = [
            (tools, weight * min(max_rarity, _rarity(len(tools), total)), form)
            for form, weight in forms.items()
            for tools in [tools_by_word[form]]
        ]
        # A word that many tools have finds only itself, and a synonym that many have finds nothing: they
        # count for tools that are found anyway.
        limit = max(_MIN_COMMON, total * _COMMON_SHARE)
        is_common = bool(sure) and reach > limit
        finding = {
            form for tools, _, form in self.lists if form in sure or not (is_common or len(tools) > limit)
        } or forms.keys()
        self.late = [entry for entry in self.lists if entry[2] not in finding]
        self.found: dict[int, float] = {}
        best = self.found
        for tools, factor, form in self.lists:
            if form in finding:
                for number, weight in tools.items():
                    if factor * weight > best.get(number, 0.0):
                        best[number] = factor * weight

    def late_score(self, number: int) -> float:
        return max((factor * tools[number] for tools, factor, _ in self.late if number in tools), default=0.0)

    def best_form(self, number: int) -> str | None:
        found = [(factor * tools[number], form) for tools, factor, form in self.lists if number in tools]
        return max(found)[1] if found else None


def _rarity(count: int, total: int) -> float:
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def _flatten(name: str) -> str:
    """Return a name without case and signs, so that `Create pull request` is `create_pull_request`."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())
