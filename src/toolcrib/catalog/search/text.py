"""Split texts and names into comparable words, and reduce words to their stems.

`create_pull_request`, `createPullRequest` and "Create a pull request" give the same words; `Café` gives
`cafe`; scripts without spaces give pairs of characters. Stems are English; for other languages they cut
off the same on both sides.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import lru_cache
from itertools import chain
from pathlib import Path

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


# --- stems --------------------------------------------------------------------------------------------

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
