"""Rule for credentials in definitions: keys of known issuers, private keys, tokens, passwords in URLs.

A long random string counts only where its name says key, token or password: ids and hashes are random too. A
finding never repeats the credential.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from toolcrib.catalog.lint.rule import LintedTool, Problem, Text, text_problem

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
