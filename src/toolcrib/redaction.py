"""Text without the secrets that somebody let slip into it.

Takes out what looks like a credential (headers, bearer tokens, our own keys, signed tokens, passwords in
addresses, keys of known makes, whatever is called a password), and the very values of environment variables
that are named like one. A net, not a wall: who writes a secret plainly and calls it nothing is not caught.
Knows forms of secrets; refuses to know where the text goes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping

HIDDEN = "[redacted]"
MIN_VALUE = 8
"""A shorter value of a variable is more likely to be a word that means nothing."""
SHORT = 16
"""A single word that is shorter is in none of the forms below: it is not even looked at."""

MAKES = (
    r"sk-(?:ant-|proj-)?|[sr]k_(?:live|test)_|whsec_|gh[oprsu]_|github_pat_|glpat-|xox[a-z]-|xapp-|npm_|pypi-|hf_"
    r"|ya29\.|AKIA|ASIA|AROA|AIDA|AIza"
)
"""How keys of known makes begin, wherever we look for them: at least 16 more signs follow."""
_NAMES = (
    r"pass(?:word|wd|phrase)|pwd|secret|credentials?|cookie"
    r"|token|(?:api|access|private|account|signing|encryption|auth)[_ -]?key|client[_ -]?secret"
)
_SECRET_NAME = re.compile(rf"(?i)(?:^|[_. -])(?:{_NAMES}|(?:proxy[_-]?)?authorization|auth|pass|dsn)s?$")
_SECRET_VARIABLE = re.compile(rf"(?i)(?:^|_)(?:{_NAMES}|key|auth|pass|pat|dsn)s?(?:_[0-9]+)?$")
_FOLDER = "PWD"
"""Every shell's name for the folder it is in: a part of most paths in a log, and no password."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_STARTS = """
    authorization bearer basic tck_ eyj :// pass pwd secret credential cookie token key
    sk- k_live_ k_test_ whsec_ gho_ ghp_ ghr_ ghs_ ghu_ _pat_ glpat- xox xapp- npm_ pypi- hf_ ya29. akia asia
    aroa aida aiza
"""
_HINTS = tuple(_STARTS.split())
"""What has none of this holds no secret that we would know."""

_FORMS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----).*?(?:-----END [^-]*-----|$)"),
        r"\1",
    ),
    (
        re.compile(
            r"(?i)\b((?:proxy-)?authorization[\"']?\s*[:=,]\s*(?:b(?=[\"']))?[\"']?)(?:[a-z][\w-]*\s+)?"
            r"[^\s\"',;)}\]]+"
        ),
        r"\1",
    ),
    (re.compile(r"(?i)\b((?:set-)?cookie[\"']?\s*[:=]\s*(?:b(?=[\"']))?[\"']?)[^\"'\r\n]+"), r"\1"),
    (re.compile(r"(?i)\b(bearer\s+)[a-z0-9._~+/=-]{6,}"), r"\1"),
    (re.compile(r"\b([Bb]asic\s+)(?=\S*(?:[a-z][A-Z]|[0-9=]))[A-Za-z0-9+/]{8,}={0,2}"), r"\1"),
    (re.compile(r"\b(tck_)[A-Za-z0-9_.~-]+"), r"\1"),
    (re.compile(r"(?<![\w-])eyJ[\w-]{4,}\.[\w-]{2,}(?:\.[\w-]*)*"), ""),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,20}://[^\s/:@]*:)[^\s/]*(?=@)"), r"\1"),
    (re.compile(rf"\b({MAKES})[\w-]{{16,}}"), r"\1"),
    (
        re.compile(
            rf"(?i)((?:(?<![a-z])(?:{_NAMES})s?|(?-i:(?<=[a-z])(?:Password|Secret|Token|(?:Api|Access|Private)Key)))"
            r"[\"']?\s*(?:=>|[:=])\s*(?:b(?=[\"']))?)(?![\"']?\[redacted\])"
            r"(?:\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|[^\s\"'&,;)}\]]+)"
        ),
        r"\1",
    ),
    (  # a command as a list, which is how subprocess shows it: ['login', '--password', 'x']
        re.compile(
            rf"(?i)([\"']--?(?:[\w-]*[_-])?(?:{_NAMES})[\"'],\s*(?:b(?=[\"']))?)"
            r"(?:\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?)"
        ),
        r"\1",
    ),
)


def find_secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """The values of variables that are named like secrets."""
    for name, value in environ.items():
        if name != _FOLDER and len(value.strip()) >= MIN_VALUE and _SECRET_VARIABLE.search(name):
            yield value.strip()


@functools.lru_cache(maxsize=1024)
def is_secret_name(name: str) -> bool:
    """Whether something of this name is likely to be a secret: `api_key`, `accessToken`, `Authorization`."""
    return _SECRET_NAME.search(_CAMEL.sub("_", name)) is not None


def make_redactor(environ: Mapping[str, str]) -> Callable[[str], str]:
    """A function that takes secrets out of a text, those of this environment among them."""
    values = sorted(set(find_secrets(environ)), key=len, reverse=True)
    known = re.compile("|".join(map(re.escape, values))) if values else None

    def redact(text: str) -> str:
        if known is not None:
            text = known.sub(HIDDEN, text)
        if (len(text) < SHORT and text.isalnum()) or not _may_hold_secret(text):
            return text
        for form, kept in _FORMS:
            text = form.sub(kept + HIDDEN, text)
        return text

    return redact


def _may_hold_secret(text: str) -> bool:
    """Most texts do not, and a pattern of all these would look ten times as long."""
    lowered = text.lower()
    for hint in _HINTS:  # noqa: SIM110 - a generator takes twice as long
        if hint in lowered:
            return True
    return False
