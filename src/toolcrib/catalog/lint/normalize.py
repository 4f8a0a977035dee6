"""Text as a model understands it, whatever it was dressed up as: look-alike letters, marks, spread-out words.

Knows characters. Refuses to know what is looked for in the result.
"""

# ruff: noqa: RUF001 - look-alike letters are what it is about

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Letters of other scripts that are drawn like Latin ones; NFKC takes care of full-width ones and the like.
_LOOKALIKES = str.maketrans(
    "авезікмнорстухѕјԛԝүһԁԍгпиѵӏαβεικνορτυχγωσηɑɡɩıʟʀᴀᴄᴅᴇɪᴋᴍɴᴏᴘᴛᴜᴠᴡᴢꜱʙʜᴊꜰɢʏօոսհյզց",
    "abe3ikmhopctyxsjqwyhdgrnuvlabeikvoptuxywonagiilracdeikmnoptuvwzsbhjfgyonuhjqg",
)
_MARKUP = ("*", "`", "\\", '"', "“", "”", "«", "»", "„", "~~")
_LOOSE_LINES = re.compile(r"(?<!\w)_+|_+(?!\w)")
# i g n o r e, i.g.n.o.r.e, i-g-n-o-r-e: one separator throughout, so that words stay apart
_SPREAD = re.compile(r"(?<![^\W_])[^\W\d_](?P<gap>[ .\-·•|/_+])(?:[^\W\d_](?P=gap)){2,}[^\W\d_](?![^\W_])")
# A digit or sign among letters: it begins with the rarest part, so that it is soon done with.
_DIGIT_IN_WORD = re.compile(
    r"[013457@$!](?:(?<=[a-z].)(?=[a-z@$!013457])|(?<=[a-z@$!].)(?=[a-z])|(?<!\w.)(?=[a-z]{2}))"
)
_DIGITS = str.maketrans("013457@$!", "oieastasi")


@lru_cache(maxsize=4096)
def fold(text: str) -> tuple[str, ...]:
    """The readings of a text in lower case: as it stands, and with each disguise that it wears taken off."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    plain = plain.replace("’", "'").replace("‘", "'").casefold()
    readings = [_tidy(plain)]
    if not plain.isascii():
        plain = _strip_marks(plain).translate(_LOOKALIKES)
        readings.append(_tidy(plain))
    if _SPREAD.search(plain):
        joined = _SPREAD.sub(lambda found: found[0].replace(found["gap"], ""), plain)
        readings += [_tidy(joined), "".join(filter(str.isalpha, plain))]
    if _DIGIT_IN_WORD.search(plain):
        readings.append(_tidy(plain.translate(_DIGITS)))
    return tuple(dict.fromkeys(readings))


def _tidy(text: str) -> str:
    for mark in _MARKUP:
        if mark in text:
            text = text.replace(mark, " ")
    return " ".join((_LOOSE_LINES.sub(" ", text) if "_" in text else text).split())


def _strip_marks(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return unicodedata.normalize(
        "NFC", "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    )
