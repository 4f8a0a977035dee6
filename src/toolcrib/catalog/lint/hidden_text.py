"""Lint rules for credentials and for text that is hidden, encoded or misleading.

Invisible characters in names, descriptions and schemas are refused when a tool is built; these rules also
cover annotations, icons and `_meta`.

A long random string counts only where its name says key, token or password: ids and hashes are random too. A
finding never repeats the credential.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from urllib.parse import unquote

from toolcrib.catalog.lint.rule import LintedTool, Problem, Text, quote, text_problem
from toolcrib.definition import find_hidden

_PRIVATE_KEY = "a private key"
# A piece that must occur, the pattern, and what it is.
_KNOWN_FORMATS: tuple[tuple[str, re.Pattern[str], str], ...] = tuple(
    (piece, re.compile(pattern), label)
    for piece, pattern, label in (
        ("-----BEGIN", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----", _PRIVATE_KEY),
        ("KIA", r"(?<![A-Za-z0-9])AKIA[0-9A-Z]{16}(?![A-Za-z0-9])", "an AWS access key"),
        ("ASIA", r"(?<![A-Za-z0-9])ASIA[0-9A-Z]{16}(?![A-Za-z0-9])", "an AWS access key"),
        ("gh", r"\bgh[pousr]_[A-Za-z0-9]{30,}", "a GitHub token"),
        ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,}", "a GitHub token"),
        ("glpat-", r"\bglpat-[\w-]{18,}", "a GitLab token"),
        ("xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{16,}", "a Slack token"),
        ("xapp-", r"\bxapp-\d-[A-Za-z0-9-]{20,}", "a Slack token"),
        ("sk-ant-", r"\bsk-ant-[\w-]{20,}", "an Anthropic key"),
        ("sk-", r"(?<![\w-])sk-(?:proj-|svcacct-|or-v1-)?[A-Za-z0-9_-]{24,}", "an OpenAI key"),
        ("k_live_", r"\b[rsp]k_live_[0-9A-Za-z]{16,}", "a Stripe key"),
        ("AIza", r"\bAIza[0-9A-Za-z_-]{35}", "a Google key"),
        ("ya29.", r"\bya29\.[\w-]{20,}", "a Google token"),
        ("GOCSPX-", r"\bGOCSPX-[\w-]{20,}", "a Google client secret"),
        ("npm_", r"\bnpm_[A-Za-z0-9]{36}", "an npm token"),
        ("pypi-", r"\bpypi-[\w-]{50,}", "a PyPI token"),
        ("hf_", r"\bhf_[A-Za-z0-9]{30,}", "a Hugging Face token"),
        ("SG.", r"\bSG\.[\w-]{16,}\.[\w-]{16,}", "a SendGrid key"),
        ("dop_v1_", r"\bdop_v1_[a-f0-9]{40,}", "a DigitalOcean token"),
        ("shp", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}", "a Shopify token"),
        ("eyJ", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}", "a signed token (JWT)"),
        ("AccountKey=", r"AccountKey=[A-Za-z0-9+/]{40,}={0,2}", "an Azure storage key"),
        (":AA", r"\b\d{8,10}:AA[\w-]{30,}", "a Telegram bot token"),
        ("earer ", r"\b[Bb]earer [A-Za-z0-9_\-.=+/]{24,}", "a bearer token"),
    )
)
_ASSIGNED = re.compile(
    r"(?i)\b(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_ -]?key|access[_ -]?key|client[_ -]?secret"
    r"|auth)\b[\"']?\s*(?:=|:|is)\s*[\"'`]?(?P<value>[^\s\"'`,;<>{}()]{8,})"
)
_IN_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,64}:(?P<value>[^\s/:@]{8,})@[\w.-]+")
_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|passphrase|pwd|auth|credential|bearer|signature")
_SECRET_WORDS = ("pass", "pwd", "secret", "token", "key", "auth")
_RANDOM = re.compile(r"[A-Za-z0-9+/_=-]{20,200}")
_PLACEHOLDER = re.compile(
    r"(?i)example|your|xxx|placeholder|changeme|dummy|sample|fake|test|redacted|\.\.\.|…|\*\*|<|\$|%|\{"
    r"|insert|1234|abcd|qwer|secret|password|token|hunter|foobar|0000|my[_-]|here|hash|uuid"
)


def find_credentials(tool: LintedTool) -> Iterator[Problem]:
    for text in tool.texts if _may_have_credentials(tool) else ():
        credential = _find_credential(text)
        if credential is not None:
            value, label = credential
            shown = f"{value[:4]}..., {len(value)} characters"
            yield text_problem(tool, text, f"contains what looks like {label} ({shown})", value)


def _may_have_credentials(tool: LintedTool) -> bool:
    text = tool.joined_text
    return (
        any(piece in text for piece, _, _ in _KNOWN_FORMATS)
        or any(_SECRET_NAME.search(name) for name in tool.parameters)
        or (any(word in tool.lower_text for word in _SECRET_WORDS) and _ASSIGNED.search(text) is not None)
        or ("://" in text and _IN_URL.search(text) is not None)
    )


def _find_credential(text: Text) -> tuple[str, str] | None:
    """Return the credential in a text and what it is."""
    value = text.text
    if len(value) < 12 or text.kind == "link":
        return None
    for piece, pattern, label in _KNOWN_FORMATS:
        if piece in value:
            for found in pattern.finditer(value):
                if label == _PRIVATE_KEY or not _is_placeholder(found[0]):
                    return found[0], label
    if ":" in value or "=" in value or " is " in value:
        for pattern, label in ((_IN_URL, "a password in a URL"), (_ASSIGNED, "a password")):
            for found in pattern.finditer(value):
                if _is_random(found["value"]):
                    return found["value"], label
    is_named = text.kind == "value" and _SECRET_NAME.search(text.parameter or "") is not None
    if is_named and _RANDOM.fullmatch(value) and _is_random(value):
        return value, "a credential"
    return None


def _is_placeholder(text: str) -> bool:
    """Tell `sk-your-key-here`, `AKIAIOSFODNN7EXAMPLE` and `xxxxxxxx` from keys."""
    return _PLACEHOLDER.search(text) is not None or len(set(text)) < min(8, len(text) * 0.4)


def _is_random(text: str) -> bool:
    """Tell generated keys, which mix letters and digits, from placeholders, words, paths and dates."""
    has_digit = any(character.isdigit() for character in text)
    has_letter = any(character.isalpha() for character in text)
    if not has_digit or not has_letter or text.count("/") > 2 or text.count(".") > 1 or len(text) < 10:
        return False
    counts = Counter(text).values()
    entropy = -sum(count / len(text) * math.log2(count / len(text)) for count in counts)
    return entropy >= min(3.0, math.log2(len(text)) * 0.85) and not _is_placeholder(text)


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
