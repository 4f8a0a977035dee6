"""Rules for hidden text: invisible characters, encodings, comments, text out of view, look-alike letters.

Invisible characters in names, descriptions and schemas are refused when a tool is built; these rules also
cover annotations, icons and `_meta`.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Callable, Iterator
from urllib.parse import unquote

from toolcrib.catalog.lint.rule import LintedTool, Problem, quote, text_problem
from toolcrib.definition import find_hidden

# --- look-alike letters -------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W\d_]{2,}")
_STYLED_LETTERS = re.compile(  # mathematical, full-width, circled, squared and small capital letters
    r"[\U0001d400-\U0001d7ff\uff21-\uff3a\uff41-\uff5a\u24b6-\u24e9\U0001f130-\U0001f189\u1d00-\u1d2b]{3,}"
    r"|[\u0300-\u036f\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]{3,}"  # stacked accents
    "|[\U0001f1e6-\U0001f1ff]{10,}"  # flag letters
)
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "DESERET", "GEORGIAN")
_UNIT_SIGNS = "µμΩ℃Åªº"


def find_lookalike_letters(text: str) -> str | None:
    """Find a word of two scripts that share letter shapes, or letters in another style."""
    if text.isascii():
        return None
    styled = _STYLED_LETTERS.search(text)
    if styled is not None:
        return quote(text[max(0, styled.start() - 5) : styled.end() + 5])
    for word in _WORD.findall(text):
        if not word.isascii() and len({script for letter in word if (script := _script_of(letter))}) > 1:
            return quote(word)
    return None


def _script_of(letter: str) -> str | None:
    if letter.isascii():
        return "LATIN"
    if letter in _UNIT_SIGNS:
        return None
    name = unicodedata.name(letter, "")
    return next((script for script in _SCRIPTS if name.startswith(script)), None)


# --- comments and blanks ------------------------------------------------------------------------------

_COMMENT = re.compile(
    r"<!--.{0,200}?(?:-->|$)|(?:^|\n)\[(?://|comment)\]:?\s*[#<(].{0,120}", re.DOTALL | re.IGNORECASE
)
_HIDING_STYLE = re.compile(
    r"(?i)style\s*=\s*[\"'][^\"']*(?:display:\s*none|font-size:\s*0|visibility:\s*hidden|opacity:\s*0"
    r"|color:\s*(?:white|#fff))"
)
_BLANK_RUN = re.compile(r"[^\S\n]{80,}|(?:[^\S\n]*\n){16,}|[\u2800\u3000\u00a0\u2000-\u200a]{12,}|\t{12,}")
_BLANKS = (" " * 10, "\t" * 4, "\n\n", "\n ", "\n\t")


def find_comment(text: str) -> str | None:
    if "<!" not in text and "[" not in text and "style" not in text.lower():
        return None
    found = _COMMENT.search(text) or _HIDING_STYLE.search(text)
    return quote(found[0]) if found is not None else None


def find_text_after_blanks(text: str) -> str | None:
    """Find text behind so many blanks that a window no longer shows it."""
    if text.isascii() and not any(blanks in text for blanks in _BLANKS):
        return None
    for found in _BLANK_RUN.finditer(text):
        rest = text[found.end() :].strip()
        if rest:
            return f"{len(found[0])} blanks before {quote(rest, 40)}"
    return None


# --- encoded text -------------------------------------------------------------------------------------

_ESCAPE = re.compile(r"(?i)%[0-9a-f]{2}%|&#|\\[ux]")
_LONG_HEX = re.compile(r"\W{0,3}[0-9a-f:x]{20}")
_HEX_PAIRS = re.compile(r"[2-7][0-9a-fA-F][\s:][2-7][0-9a-fA-F][\s:][2-7]|[01]{8}")  # the range of letters
_ESCAPED_CHARACTER = re.compile(r"(?i)(?:&#(x?[0-9a-f]+);)|\\u00([0-9a-f]{2})|\\x([0-9a-f]{2})")


def find_encoded_text(text: str) -> str | None:
    """Find base64, base32, hex, binary or escapes that decode to words."""
    if len(text) < 18 or not (_ESCAPE.search(text) or _HEX_PAIRS.search(text) or _has_long_token(text)):
        return None
    for pattern, decode in _ENCODINGS:
        for found in pattern.finditer(text):
            try:
                decoded = decode(found[0])
            except (binascii.Error, ValueError, OverflowError):
                continue
            if _is_readable(decoded):
                return f"{quote(found[0], 24)} reads {quote(decoded, 50)}"
    return None


def _has_long_token(text: str) -> bool:
    """Tell whether some word is long enough to be an encoding, and is not just a long name."""
    return any(
        len(word) >= 20 and (not word.islower() or _LONG_HEX.match(word) is not None) for word in text.split()
    )


def _is_readable(text: str) -> bool:
    """Tell whether decoded text is mostly letters and spaces, so that a person must have written it."""
    if len(text) < 5 or not text.replace("\n", "").replace("\t", "").isprintable():
        return False
    letters = sum(letter.isalpha() or letter == " " for letter in text)
    return letters >= 0.75 * len(text) and (" " in text or len(text) < 40)


def _decode_base64(text: str) -> str:
    if text.islower() or text.isupper() or text.isdigit() or (text.isalpha() and len(text) < 32):
        return ""  # a plain word or number
    return base64.b64decode(_pad(text, 4), altchars=b"-_" if "-" in text or "_" in text else None).decode()


def _decode_base32(text: str) -> str:
    return base64.b32decode(_pad(text, 8)).decode()


def _pad(text: str, size: int) -> str:
    bare = text.rstrip("=")
    return bare + "=" * (-len(bare) % size)


def _decode_hex(text: str) -> str:
    return bytes.fromhex(re.sub(r"0x|[\s:]", "", text)).decode()


def _decode_binary(text: str) -> str:
    digits = re.sub(r"[\s,]", "", text)
    return "".join(chr(int(digits[index : index + 8], 2)) for index in range(0, len(digits) - 7, 8))


def _decode_escapes(text: str) -> str:
    if text.startswith("%"):
        return unquote(text)
    decoded = ""
    for entity, wide, narrow in _ESCAPED_CHARACTER.findall(text):
        base = 16 if wide or narrow or entity[:1] in "xX" else 10
        decoded += chr(int((entity or wide or narrow).lstrip("xX"), base))
    return decoded


_ENCODINGS: tuple[tuple[re.Pattern[str], Callable[[str], str]], ...] = (
    (
        re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{20,}={0,2}(?![A-Za-z0-9+/_=-])"),
        _decode_base64,
    ),
    (re.compile(r"(?<![A-Z2-7=])[A-Z2-7]{32,}={0,6}(?![A-Z2-7=])"), _decode_base32),
    (
        re.compile(r"(?<![0-9A-Fa-f])(?:0x)?(?:[0-9A-Fa-f]{2}[\s:]?){11,}[0-9A-Fa-f]{2}(?![0-9A-Fa-f])"),
        _decode_hex,
    ),
    (re.compile(r"(?<![01])(?:[01]{8}[\s,]?){6,}(?![01])"), _decode_binary),
    (
        re.compile(
            r"(?i)(?:%[0-9a-f]{2}){6,}|(?:&#x?[0-9a-f]{2,5};){5,}|(?:\\u00[0-9a-f]{2}){5,}|(?:\\x[0-9a-f]{2}){5,}"
        ),
        _decode_escapes,
    ),
)

# --- the rules ----------------------------------------------------------------------------------------


def _text_check(find: Callable[[str], str | None], message: str) -> Callable[[LintedTool], Iterator[Problem]]:
    def check(tool: LintedTool) -> Iterator[Problem]:
        for text in tool.texts if find(tool.joined_text) is not None else ():
            found = find(text.text)
            if found is not None:
                yield text_problem(tool, text, f"{message}: {found}", found[:40])

    return check


check_hidden_characters = _text_check(find_hidden, "contains an invisible character")
check_lookalike_letters = _text_check(find_lookalike_letters, "mixes look-alike letters")
check_encoded_text = _text_check(find_encoded_text, "contains encoded text")
check_comments = _text_check(find_comment, "contains a comment that clients do not show")
check_blanks = _text_check(find_text_after_blanks, "hides text behind blanks")
