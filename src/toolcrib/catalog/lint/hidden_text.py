"""Rules for text that does not look like what it is: hidden, out of sight, encoded, or in borrowed letters.

What is invisible in names, words and schemas was refused when the tool was built; the same characters in
annotations, icons and `_meta` are found here. Knows characters and codes; refuses to know what they spell.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Callable, Iterator
from urllib.parse import unquote

from toolcrib.catalog.lint.rule import Remark, Rule, Subject, quote
from toolcrib.definition import find_hidden

_WORD = re.compile(r"[^\W\d_]{2,}")
_BLANK_RUN = re.compile(r"[^\S\n]{80,}|(?:[^\S\n]*\n){16,}|[\u2800\u3000\u00a0\u2000-\u200a]{12,}|\t{12,}")
_COMMENT = re.compile(
    r"<!--.{0,200}?(?:-->|$)|(?:^|\n)\[(?://|comment)\]:?\s*[#<(].{0,120}", re.DOTALL | re.IGNORECASE
)
_HIDING_STYLE = re.compile(
    r"(?i)style\s*=\s*[\"'][^\"']*(?:display:\s*none|font-size:\s*0|visibility:\s*hidden|opacity:\s*0"
    r"|color:\s*(?:white|#fff))"
)
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{20,}={0,2}(?![A-Za-z0-9+/_=-])")
_BASE32 = re.compile(r"(?<![A-Z2-7=])[A-Z2-7]{32,}={0,6}(?![A-Z2-7=])")
_HEX = re.compile(r"(?<![0-9A-Fa-f])(?:0x)?(?:[0-9A-Fa-f]{2}[\s:]?){11,}[0-9A-Fa-f]{2}(?![0-9A-Fa-f])")
_BINARY = re.compile(r"(?<![01])(?:[01]{8}[\s,]?){6,}(?![01])")
_ESCAPED = re.compile(
    r"(?i)(?:%[0-9a-f]{2}){6,}|(?:&#x?[0-9a-f]{2,5};){5,}|(?:\\u00[0-9a-f]{2}){5,}|(?:\\x[0-9a-f]{2}){5,}"
)
_ESCAPE_SIGN = re.compile(r"(?i)%[0-9a-f]{2}%|&#|\\[ux]")
_HEXISH = re.compile(r"\W{0,3}[0-9a-f:x]{20}")
_PAIRS = re.compile(r"[2-7][0-9a-fA-F][\s:][2-7][0-9a-fA-F][\s:][2-7]|[01]{8}")  # as letters begin in hex
_STACKED = re.compile(r"[\u0300-\u036f\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]{3,}")
# Letters that are drawn as Latin ones but are signs of mathematics, circled, full-width and so on.
_DRESSED = re.compile(
    r"[\U0001d400-\U0001d7ff\uff21-\uff3a\uff41-\uff5a\u24b6-\u24e9\U0001f130-\U0001f189\u1d00-\u1d2b]{3,}"
)
_FLAGS = re.compile("[\U0001f1e6-\U0001f1ff]{10,}")
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "DESERET", "GEORGIAN")


def _finder(look: Callable[[str], str | None], words: str) -> Callable[[Subject], Iterator[Remark]]:
    def find(subject: Subject) -> Iterator[Remark]:
        for text in subject.texts if look(subject.joined) is not None else ():
            found = look(text.text)
            if found is not None:
                yield Remark(
                    f"{text.label} of '{subject.name}' {words}: {found}",
                    parameter=text.parameter,
                    excerpt=found[:40],
                )

    return find


def see_hidden(text: str) -> str | None:
    return find_hidden(text)


def see_borrowed_letters(text: str) -> str | None:
    """A word of two scripts that share letters, or letters in fancy dress."""
    if text.isascii():
        return None
    dressed = _DRESSED.search(text) or _STACKED.search(text) or _FLAGS.search(text)
    if dressed is not None:
        return quote(text[max(0, dressed.start() - 5) : dressed.end() + 5])
    for word in _WORD.findall(text):
        if not word.isascii() and len({script for letter in word if (script := _script_of(letter))}) > 1:
            return quote(word)
    return None


def _script_of(letter: str) -> str | None:
    if letter.isascii():
        return "LATIN"
    if letter in "µμΩ℃Åªº":
        return None  # units
    name = unicodedata.name(letter, "")
    return next((script for script in _SCRIPTS if name.startswith(script)), None)


def see_comment(text: str) -> str | None:
    if "<!" not in text and "[" not in text and "style" not in text.lower():
        return None
    found = _COMMENT.search(text) or _HIDING_STYLE.search(text)
    return quote(found[0]) if found is not None else None


def see_blank_run(text: str) -> str | None:
    """Blanks with something after them: a reader's window ends where they begin."""
    if text.isascii() and not any(blanks in text for blanks in (" " * 10, "\t" * 4, "\n\n", "\n ", "\n\t")):
        return None
    for found in _BLANK_RUN.finditer(text):
        rest = text[found.end() :].strip()
        if rest:
            return f"{len(found[0])} blanks before {quote(rest, 40)}"
    return None


def see_code(text: str) -> str | None:
    """Text inside text: base64, base32, hex, binary or escapes that spell words."""
    if len(text) < 18 or not (_ESCAPE_SIGN.search(text) or _PAIRS.search(text) or _has_long_token(text)):
        return None
    for pattern, decode in _CODES:
        for found in pattern.finditer(text):
            said = decode(found[0])
            if said is not None and _reads_as_words(said):
                return f"{quote(found[0], 24)} reads {quote(said, 50)}"
    return None


def _has_long_token(text: str) -> bool:
    """Whether some word is long enough to be a code, and not just a long name."""
    return any(
        len(word) >= 20 and (not word.islower() or _HEXISH.match(word) is not None) for word in text.split()
    )


def _read_base64(text: str) -> str | None:
    if text.islower() or text.isupper() or text.isdigit() or (text.isalpha() and len(text) < 32):
        return None
    padded = text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)
    try:
        return base64.b64decode(padded, altchars=b"-_" if "-" in text or "_" in text else None).decode()
    except (binascii.Error, ValueError):
        return None


def _read_base32(text: str) -> str | None:
    try:
        return base64.b32decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 8)).decode()
    except (binascii.Error, ValueError):
        return None


def _read_hex(text: str) -> str | None:
    try:
        return bytes.fromhex(re.sub(r"0x|[\s:]", "", text)).decode()
    except ValueError:
        return None


def _read_binary(text: str) -> str | None:
    digits = re.sub(r"[\s,]", "", text)
    return "".join(chr(int(digits[index : index + 8], 2)) for index in range(0, len(digits) - 7, 8))


def _read_escapes(text: str) -> str | None:
    if text.startswith("%"):
        return unquote(text)
    numbers = re.findall(r"(?i)(?:&#(x?[0-9a-f]+);)|\\u00([0-9a-f]{2})|\\x([0-9a-f]{2})", text)
    said = ""
    for entity, wide, narrow in numbers:
        base = 16 if wide or narrow or entity[:1] in "xX" else 10
        try:
            said += chr(int((entity or wide or narrow).lstrip("xX"), base))
        except (ValueError, OverflowError):
            return None
    return said


_CODES = (
    (_BASE64, _read_base64),
    (_BASE32, _read_base32),
    (_HEX, _read_hex),
    (_BINARY, _read_binary),
    (_ESCAPED, _read_escapes),
)


def _reads_as_words(text: str) -> bool:
    """Mostly letters and blanks, none of them a control: what was decoded was written by somebody."""
    if len(text) < 5 or not text.replace("\n", "").replace("\t", "").isprintable():
        return False
    letters = sum(letter.isalpha() or letter == " " for letter in text)
    return letters >= 0.75 * len(text) and (" " in text or len(text) < 40)


RULES = (
    Rule(
        "hidden-character",
        "error",
        "A text holds a character that nobody can see, or that steers a terminal",
        "Models read what people cannot: tags, zero-width letters and reversed text carry orders past a"
        " review.",
        "remove it",
        _finder(see_hidden, "holds a character that a reader cannot see"),
        in_check=True,
    ),
    Rule(
        "borrowed-letters",
        "warning",
        "A word mixes scripts or wears letters of another kind",
        "It reads as one word and is another: names that imitate, and orders that slip past filters.",
        "write it in the letters of one script",
        _finder(see_borrowed_letters, "mixes letters that look alike"),
        in_check=True,
    ),
    Rule(
        "encoded-text",
        "warning",
        "A text holds another one, encoded",
        "Models decode base64, hex and escapes as they read; people do not.",
        "write it in plain words, or leave it out",
        _finder(see_code, "holds encoded words"),
        in_check=True,
    ),
    Rule(
        "hidden-comment",
        "warning",
        "A text holds a comment, or markup that hides what is in it",
        "Clients that render the text leave it out; the model still reads it.",
        "say it openly, or remove it",
        _finder(see_comment, "holds a comment that clients do not show"),
        in_check=True,
    ),
    Rule(
        "out-of-sight",
        "warning",
        "A long run of blanks pushes text out of sight",
        "A review window shows the first lines; what stands far below or far to the right is for the model"
        " only.",
        "remove the blanks",
        _finder(see_blank_run, "hides text behind blanks"),
        in_check=True,
    ),
)
