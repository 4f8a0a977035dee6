"""Rules for what looks like a credential: keys of known makes, private keys, tokens, passwords in addresses.

Knows the forms that issuers gave their keys. What is long and random is only taken for one where its name
says key, token or password. A finding never repeats what it found.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from toolcrib.catalog.lint.rule import Remark, Rule, Subject, Text

# What must occur, the form, and whose it is.
_FORMS: tuple[tuple[str, re.Pattern[str], str], ...] = tuple(
    (hint, re.compile(pattern), whose)
    for hint, pattern, whose in (
        ("-----BEGIN", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----", "a private key"),
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
_SAID = re.compile(
    r"(?i)\b(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_ -]?key|access[_ -]?key|client[_ -]?secret"
    r"|auth)\b"
    r"[\"']?\s*(?:=|:|is)\s*[\"'`]?(?P<value>[^\s\"'`,;<>{}()]{8,})"
)
_IN_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,64}:(?P<value>[^\s/:@]{8,})@[\w.-]+")
_KEY_NAME = re.compile(r"(?i)key|token|secret|passw|passphrase|pwd|auth|credential|bearer|signature")
_KEY_WORDS = ("pass", "pwd", "secret", "token", "key", "auth")
_RANDOM = re.compile(r"[A-Za-z0-9+/_=-]{20,200}")
_PLACEHOLDER = re.compile(
    r"(?i)example|your|xxx|placeholder|changeme|dummy|sample|fake|test|redacted|\.\.\.|…|\*\*|<|\$|%|\{"
    r"|insert|"
    r"1234|abcd|qwer|secret|password|token|hunter|foobar|0000|my[_-]|here|hash|uuid"
)


def find_credentials(subject: Subject) -> Iterator[Remark]:
    for text in subject.texts if _may_hold_any(subject) else ():
        whose = _recognise(text)
        if whose is not None:
            found, label = whose
            yield Remark(
                f"{text.label} of '{subject.name}' holds what looks like {label} ({mask(found)})",
                parameter=text.parameter,
                excerpt=found,
            )


def _may_hold_any(subject: Subject) -> bool:
    joined, lowered = subject.joined, subject.lowered
    return (
        any(hint in joined for hint, _, _ in _FORMS)
        or any(_KEY_NAME.search(name) for name in subject.parameters)
        or (any(word in lowered for word in _KEY_WORDS) and _SAID.search(joined) is not None)
        or ("://" in joined and _IN_ADDRESS.search(joined) is not None)
    )


def _recognise(text: Text) -> tuple[str, str] | None:
    value = text.text
    if len(value) < 12 or text.kind == "link":
        return None
    for hint, form, label in _FORMS:
        if hint in value:
            for found in form.finditer(value):
                if label == "a private key" or _is_random(found[0]):
                    return found[0], label
    if ":" in value or "=" in value or " is " in value:
        for pattern, label in ((_IN_ADDRESS, "a password in an address"), (_SAID, "a password")):
            for found in pattern.finditer(value):
                if _is_random(found["value"]) and _looks_made(found["value"]):
                    return found["value"], label
    is_named = text.kind == "value" and _KEY_NAME.search(text.parameter or "") is not None
    if is_named and _RANDOM.fullmatch(value) and _is_random(value) and _looks_made(value):
        return value, "a credential"
    return None


def _is_random(text: str) -> bool:
    """Not a stand-in: `sk-your-key-here`, `AKIAIOSFODNN7EXAMPLE`, `xxxxxxxx`."""
    return _PLACEHOLDER.search(text) is None and len(set(text)) >= min(8, len(text) * 0.4)


def _looks_made(text: str) -> bool:
    """Drawn by lot: letters and digits mixed, and hardly any repeated. Words, paths and dates are not."""
    digits = sum(character.isdigit() for character in text)
    letters = sum(character.isalpha() for character in text)
    if not digits or not letters or text.count("/") > 2 or text.count(".") > 1:
        return False
    counts = Counter(text).values()
    entropy = -sum(count / len(text) * math.log2(count / len(text)) for count in counts)
    return entropy >= min(3.0, math.log2(len(text)) * 0.85) and len(text) >= 10


def mask(text: str) -> str:
    """As much as is needed to find it, and no more."""
    return f"{text[:4]}..., {len(text)} characters"


RULES = (
    Rule(
        "credential",
        "error",
        "A text holds what looks like a key, a token or a password",
        "Every client, every model and every log that sees the definition has it then.",
        "withdraw it where it was issued, and read it from the environment",
        find_credentials,
        in_check=True,
    ),
)
