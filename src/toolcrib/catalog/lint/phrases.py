"""Find injected instructions in text: English phrases from `data/phrases.toml`.

    phrases = load_phrases("override")
    phrases.find(fold("Please IGNORE all previous instructions"))     # 'ignore all previous instructions'

The data file is read on first use. Its patterns are tried on folded text, so that look-alike letters,
accents, markup and s p r e a d words do not hide a phrase.
"""

# ruff: noqa: RUF001 - the table of look-alike letters is meant

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, lru_cache
from pathlib import Path

DATA = Path(__file__).parent / "data"

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


# --- matching -----------------------------------------------------------------------------------------

# A sentence about a setting gives no orders, nor does one with examples of what is looked for.
_SETTING = re.compile(
    r"\b(?:whether|(?:if|when) (?:true|false|set|enabled|given|yes|provided|specified|omitted)"
    r"|(?:true|false|set) to|defaults? to|optional|flag|option|e\.g\.|for example|such as|detects?"
    r"|checks? for)[^.!?;]*$"
)


class Phrase:
    """A pattern of the data file."""

    def __init__(self, source: str, vocabulary: Mapping[str, str]) -> None:
        self._source, self._vocabulary = source, vocabulary

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        source = self._source
        while (filled := _PLACEHOLDER.sub(lambda name: self._vocabulary[name[1]], source)) != source:
            source = filled
        return re.compile(join_lines(source))

    def find(self, readings: Sequence[str]) -> str | None:
        """Return the matching part of the first reading that matches."""
        for reading in readings:
            for found in self._pattern.finditer(reading):
                if not _SETTING.search(reading, max(0, found.start() - 200), found.start()):
                    return found[0].strip()
        return None


_PLACEHOLDER = re.compile("<([A-Z_]+)>")


@cache
def load_phrases() -> dict[str, list[Phrase]]:
    """Return the phrases by kind of instruction. The file is read once."""
    entries = tomllib.loads((DATA / "phrases.toml").read_text("utf-8"))
    vocabulary = entries.pop("vocabulary")
    return {kind: [Phrase(source, vocabulary) for source in items] for kind, items in entries.items()}


def join_lines(text: str) -> str:
    """Return a pattern without its line breaks and indentation."""
    return "".join([line.strip() for line in text.splitlines()])
