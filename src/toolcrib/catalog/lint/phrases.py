"""Find planted instructions in text: phrases from the files in `data/`.

    phrases = load_phrases("override")
    phrases.find(fold("Please IGNORE all previous instructions"))     # 'ignore all previous instructions'

The data files are read on first use. Their patterns are tried on folded text, so that look-alike letters,
accents, markup and s p r e a d words do not hide a phrase.
"""

# ruff: noqa: RUF001 - the table of look-alike letters is meant

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
_WORDS = re.compile(r"[a-z0-9]+")
_STEM_LENGTH = 6
"""Words are compared by their first letters, so that a list need not have every ending."""

# --- folding ------------------------------------------------------------------------------------------

# Letters of other scripts that are drawn like Latin ones; NFKC takes care of full-width ones and the like.
_LOOKALIKES = str.maketrans(
    "авезікмнорстухѕјԛԝүһԁԍгпиѵӏαβεικνορτυχγωσηɑɡɩıʟʀᴀᴄᴅᴇɪᴋᴍɴᴏᴘᴛᴜᴠᴡᴢꜱʙʜᴊꜰɢʏօոսհյզց",
    "abe3ikmhopctyxsjqwyhdgrnuvlabeikvoptuxywonagiilracdeikmnoptuvwzsbhjfgyonuhjqg",
)
_MARKUP = ("*", "`", "\\", '"', "“", "”", "«", "»", "„", "~~")
_LOOSE_UNDERSCORES = re.compile(r"(?<!\w)_+|_+(?!\w)")
# i g n o r e, i.g.n.o.r.e, i-g-n-o-r-e: one separator throughout, so that words stay apart
_SPREAD = re.compile(r"(?<![^\W_])[^\W\d_](?P<gap>[ .\-·•|/_+])(?:[^\W\d_](?P=gap)){2,}[^\W\d_](?![^\W_])")
# A digit or sign among letters. The pattern begins with the rarest part, so that most searches end at once.
_DIGIT_IN_WORD = re.compile(
    r"[013457@$!](?:(?<=[a-z].)(?=[a-z@$!013457])|(?<=[a-z@$!].)(?=[a-z])|(?<!\w.)(?=[a-z]{2}))"
)
_DIGITS = str.maketrans("013457@$!", "oieastasi")


@lru_cache(maxsize=4096)
def fold(text: str) -> tuple[str, ...]:
    """Return the readings of a text in lower case: as written, and with each disguise removed."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    plain = plain.replace("’", "'").replace("‘", "'").casefold()
    readings = [_strip_markup(plain)]
    if not plain.isascii():
        plain = _strip_accents(plain).translate(_LOOKALIKES)
        readings.append(_strip_markup(plain))
    if _SPREAD.search(plain):
        joined = _SPREAD.sub(lambda found: found[0].replace(found["gap"], ""), plain)
        readings += [_strip_markup(joined), "".join(filter(str.isalpha, plain))]
    if _DIGIT_IN_WORD.search(plain):
        readings.append(_strip_markup(plain.translate(_DIGITS)))
    return tuple(dict.fromkeys(readings))


def _strip_markup(text: str) -> str:
    for mark in _MARKUP:
        if mark in text:
            text = text.replace(mark, " ")
    return " ".join((_LOOSE_UNDERSCORES.sub(" ", text) if "_" in text else text).split())


def _strip_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return unicodedata.normalize(
        "NFC", "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    )


@dataclass(frozen=True, slots=True)
class TextIndex:
    """All texts of a definition folded into one, with its stems. A phrase not found here is in no text."""

    readings: tuple[str, ...]
    stems: frozenset[str]

    @classmethod
    def of(cls, texts: Sequence[str]) -> TextIndex:
        readings = fold(".\n".join(texts))  # the end of a text ends a sentence
        words = (word for reading in readings for word in _WORDS.findall(reading))
        return cls(readings, frozenset(word[:_STEM_LENGTH] for word in words))


# --- matching -----------------------------------------------------------------------------------------

# A sentence about a setting gives no orders, nor does one with examples of what is looked for.
_SETTING = re.compile(
    r"\b(?:whether|(?:if|when) (?:true|false|set|enabled|given|yes|provided|specified|omitted)"
    r"|(?:true|false|set) to|defaults? to|optional|flag|option|e\.g\.|for example|such as|detects?"
    r"|checks? for)[^.!?;]*$"
)


class Phrase:
    """An entry of a data file: a pattern, and words or pieces of text without which it cannot match."""

    def __init__(self, entry: Mapping[str, Any], vocabulary: Mapping[str, Any]) -> None:
        # Folded text is in this form, which takes some letters of Thai and others apart.
        self._source = unicodedata.normalize("NFKC", _expand(entry["pattern"], vocabulary, "|"))
        self._pieces = [unicodedata.normalize("NFKC", piece) for piece in entry.get("contains", ())]
        groups = [_expand(group, vocabulary, " ").split() for group in entry.get("words", ())]
        self._stems = [frozenset(word.partition("'")[0][:_STEM_LENGTH] for word in group) for group in groups]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self._source)

    def is_in(self, index: TextIndex) -> bool:
        if any(map(index.stems.isdisjoint, self._stems)):
            return False
        if self._pieces and not self._has_piece(index.readings):
            return False
        return self.find(index.readings) is not None

    def _has_piece(self, readings: Sequence[str]) -> bool:
        for reading in readings:  # plain loops: this runs some thirty times for every tool
            for piece in self._pieces:
                if piece in reading:
                    return True
        return False

    def find(self, readings: Sequence[str]) -> str | None:
        """Return the matching part of the first reading that matches."""
        for reading in readings:
            for found in self._pattern.finditer(reading):
                if not _SETTING.search(reading, max(0, found.start() - 200), found.start()):
                    return found[0].strip()
        return None


# --- the data files -----------------------------------------------------------------------------------


@cache
def load_phrases(kind: str) -> list[Phrase]:
    """Return the phrases of a kind of instruction. The files are read once."""
    return _load_all().get(kind, [])


@cache
def _load_all() -> dict[str, list[Phrase]]:
    vocabulary: dict[str, Any] = {}
    loaded: dict[str, list[Phrase]] = {}
    for name in ("phrases_english", "phrases_other_languages"):
        entries = tomllib.loads((DATA / f"{name}.toml").read_text("utf-8"))
        vocabulary = entries.pop("vocabulary", vocabulary)
        for kind, items in entries.items():
            loaded.setdefault(kind, []).extend([Phrase(item, vocabulary) for item in items])
    return loaded


_PLACEHOLDER = re.compile("<([A-Z_]+)>")


def _expand(text: str, vocabulary: Mapping[str, Any], separator: str) -> str:
    """Fill in the vocabulary: a list becomes an alternation in a pattern, and words in a list of words."""

    def fill(found: re.Match[str]) -> str:
        value = vocabulary[found[1]]
        if not isinstance(value, str):
            value = f"(?:{'|'.join(value)})" if separator == "|" else " ".join(value)
        return _expand(value, vocabulary, separator)

    return _PLACEHOLDER.sub(fill, join_lines(text) if separator == "|" else text)


def join_lines(text: str) -> str:
    """Return a pattern without its line breaks and indentation."""
    return "".join([line.strip() for line in text.splitlines()])
