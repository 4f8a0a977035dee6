"""Which values of arguments may be put on the record, and what in them may not.

Only what a setting names is looked at, and of that everything goes that has a telling name, looks like a
secret or is no plain value. What is left is cut short. Stricter than `toolcrib.logs`, whose texts must
still say what went wrong: here a name that may be telling is enough. Knows names and texts; refuses to know
tools.

One record as one line: how it is written, chained to the one before, and read again.

    {"seq":7,"at":"2026-05-04T10:00:00.000Z","kind":"call", ... ,"hash":"<64 hex digits>"}

The hash is the SHA-256 of the hash before (its 64 digits) and of the line's own bytes up to `,"hash"`. So
any program can check it without knowing how JSON is spelt. Knows lines; refuses to know where they are kept.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, NamedTuple

from toolcrib.errors import ConfigurationError, ErrorCollector
from toolcrib.logs import HIDDEN, KEY_PREFIXES
from toolcrib.validation import codec

GENESIS = b"0" * 64
"""What the first record is chained to."""
MAX_LINE = 64 * 1024
_LONG = 4096
_MAX_TEXT = 512
_MAX_DEPTH = 32
_MAX_PARTS = 10_000
_MAX_BITS = 1024
_HASH = b',"hash":"'
TAIL = len(_HASH) + 64 + 2
_SEQ = re.compile(rb'\{"seq":([1-9]\d{0,17}),')
_END = re.compile(rb',"hash":"([0-9a-f]{64})"\}')


class Head(NamedTuple):
    """The last record of a log, as far as the next one must know it."""

    seq: int
    hash: bytes


NO_RECORD = Head(0, GENESIS)


Entry = bytes
"""What will be a record, `encode`d: all but its number and its hash. That is done where the facts are at
hand; the thread that writes has the longer way to them."""


def compose(head: Head, entries: Iterable[Entry]) -> tuple[Head, list[bytes]]:
    """The lines of entries, one after the other behind `head`, and the new head."""
    seq, previous = head
    lines = []
    for entry in entries:
        seq += 1
        body = b'{"seq":%d,%b' % (seq, entry)
        previous = sha256(previous + body).hexdigest().encode()
        lines.append(b'%b,"hash":"%b"}' % (body, previous))
    return Head(seq, previous), lines


def encode(wall: float, facts: dict[str, Any]) -> Entry:
    """What came at a time (wall clock), as the inner part of an object. Whatever it holds, something readable
    comes out."""
    try:
        data = codec.write(facts)
    except Exception:  # not JSON: half characters, objects, endless nesting
        facts = {key: plain(value) for key, value in facts.items()}
        data = codec.write(facts)
    if len(data) > _LONG:
        data = codec.write({key: _shorten(value) for key, value in facts.items()})
    if len(data) > MAX_LINE:
        data = codec.write({key: _shorten(value) for key, value in facts.items() if not _is_large(value)})
    beginning = b'"at":"%b"%b%b' if "kind" in facts else b'"at":"%b","kind":"call"%b%b'
    rest = data[1:-1]
    return beginning % (stamp(wall).encode(), b"," if rest else b"", rest)


def head_of(line: bytes) -> Head | None:
    """The number and the hash that a line says it has; None where it is no record."""
    seq, end = _SEQ.match(line), _END.fullmatch(line, len(line) - TAIL)
    return None if seq is None or end is None else Head(int(seq[1]), end[1])


def follows(line: bytes, head: Head) -> bool:
    """Whether a line is the record after `head`, unchanged since it was written."""
    if not line.startswith(b'{"seq":%d,' % (head.seq + 1)):
        return False
    found = sha256(head.hash + line[:-TAIL]).hexdigest().encode()
    return line.endswith(b'%b%b"}' % (_HASH, found))


_stamped = (0, "1970-01-01T00:00:00.000Z")


def stamp(wall: float) -> str:
    """A time in UTC with milliseconds: 2026-05-04T10:00:00.000Z."""
    global _stamped
    ms = int(wall * 1000)
    last_ms, text = _stamped
    if ms != last_ms:
        second, rest_ms = divmod(ms, 1000)
        spelt = text.partition(".")[0] if second == last_ms // 1000 else _spell_second(second)
        text = f"{spelt}.{rest_ms:03d}Z"
        _stamped = (ms, text)
    return text


def _spell_second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def read_stamp(text: str) -> float:
    """The time that `stamp` wrote, or any other in ISO 8601; UTC where it does not say. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def plain(value: Any) -> Any:
    """Something like it that is JSON: types by their names, half characters spelt out, an end to everything.
    Never raises."""
    try:
        return _plain(value, 0, [_MAX_PARTS])
    except Exception:  # an object that only looks like a dict or a list
        return f"<{type(value).__name__}>"


def _plain(value: Any, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int):
        return value if value.bit_length() <= _MAX_BITS else f"<integer of {value.bit_length()} bits>"
    if depth < _MAX_DEPTH and left[0] > 0:
        if isinstance(value, Mapping):
            return {
                _plain(str(key), depth, left): _plain(item, depth + 1, left) for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [_plain(item, depth + 1, left) for item in value]
    return f"<{type(value).__name__}>"


def _shorten(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > _MAX_TEXT
    return f"{value[:_MAX_TEXT]}… ({len(value)} characters)" if is_long else value


def _is_large(value: Any) -> bool:
    return isinstance(value, dict | list)


REDACTED = HIDDEN
MAX_TEXT = 256
MAX_ITEMS = 50
MAX_DEPTH = 6
MAX_PARTS = 300
_MAX_LOOK = 16_384
_MAX_NAME = 64
_PART = 512
"""So many characters of text count as one part."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORD = re.compile(
    "auth|authorization|bearer|cookies?|credentials?|cvc|cvv|jwt|keys?|otp|passcode|passphrase|passwd|passwords?"
    "|pass|pin|pw|pwd|secrets?|session|signature|ssn|tokens?"
)
_SECRET_PART = re.compile(
    "accesskey|apikey|cardnumber|credential|creditcard|passphrase|passwd|password|privatekey|secret|sessionid"
    "|token"
)
_PATTERNS = (
    r"-----BEGIN [A-Z0-9 ]{1,40}-----(?:[^-]|-(?!----END))*(?:-----END [A-Z0-9 ]{1,40}-----)?",
    r"(?<![\w-])eyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?",
    rf"\b(?:tck_|{KEY_PREFIXES})[\w-]{{16,}}",
    r"(?i:\b(?:bearer|basic|digest)\s+[\w.~+/=-]{8,})",
    r"(?<=://)[^\s/@:]{0,256}:[^\s/]{1,256}(?=@)",
    r"(?i:(?:(?<=authorization: )|(?<=cookie: ))[^\r\n]{1,1024})",
    r"(?i:--?(?:password|passwd|passphrase|secret|token|api[_-]?key)\s+\S{1,256})",
    # As the end of a longer name too: DB_PASSWORD=, client_secret:, "accessToken": "...".
    r"(?i:(?:password|passwd|pwd|passphrase|secret|token|(?:api|access|account|private)[_-]?key)[\"']?\s*[=:]\s*"
    r"(?:\"[^\"]{0,256}\"?|'[^']{0,256}'?|\S{1,256}))",
)
_SECRETS = re.compile("|".join(_PATTERNS))
_CARD = re.compile(r"(?<![\d.])\d(?:[ -]?\d){12,18}(?!\d)")


class Redaction:
    """`values` are globs of names that are let through, `redact` are globs of names and `re:` patterns that
    are not. Names are dotted where they are nested: `order.amount`."""

    def __init__(self, values: Sequence[str], redact: Sequence[str]) -> None:
        self._values = tuple(values)
        self._names = tuple(name.lower() for name in redact if not name.startswith("re:"))
        self._patterns: list[re.Pattern[str]] = []
        problems = ErrorCollector()
        for name in redact:
            if name.startswith("re:"):
                with problems.collecting():
                    self._patterns.append(_compile(name.removeprefix("re:")))
        problems.raise_errors()

    def pick(self, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """What may be recorded. None: nothing."""
        return self._pick(arguments, "", 1, [MAX_PARTS]) or None

    def _pick(self, members: Mapping[str, Any], path: str, depth: int, left: list[int]) -> dict[str, Any]:
        picked: dict[str, Any] = {}
        for name, value in members.items():
            place = f"{path}{name}"
            if any(fnmatchcase(place, glob) for glob in self._values):
                picked[self._spell(name)] = self._member(place, str(name), value, depth, left)
            elif isinstance(value, dict) and depth < MAX_DEPTH:
                inner = self._pick(value, f"{place}.", depth + 1, left)
                if inner:
                    picked[self._spell(name)] = inner
            if len(picked) >= MAX_ITEMS or left[0] <= 0:
                break
        return picked

    def _member(self, place: str, name: str, value: Any, depth: int, left: list[int]) -> Any:
        if value is not None and (is_secret_name(name) or self._is_refused(place, name)):
            return REDACTED
        return self._clean(place, value, depth, left)

    def _is_refused(self, place: str, name: str) -> bool:
        spellings = (place.lower(), name.lower())
        return any(fnmatchcase(spelling, glob) for glob in self._names for spelling in spellings)

    def _clean(self, place: str, value: Any, depth: int, left: list[int]) -> Any:
        left[0] -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, float):
            return REDACTED if value.is_integer() and _has_card(str(int(value))) else value
        if isinstance(value, str):
            left[0] -= len(value) // _PART  # to search them takes time, on the loop that serves all
            return self._text(value)
        if isinstance(value, int):
            return REDACTED if value.bit_length() > 256 or _has_card(str(value)) else value
        if isinstance(value, dict | list | tuple):
            if depth >= MAX_DEPTH or left[0] <= 0:
                return f"[{len(value)} more]"
            return self._inside(place, value, depth + 1, left)
        return f"[{type(value).__name__}]"

    def _inside(self, place: str, value: Any, depth: int, left: list[int]) -> Any:
        if isinstance(value, dict):
            members: dict[str, Any] = {}
            for name, item in value.items():
                if len(members) >= MAX_ITEMS or left[0] <= 0:
                    members["…"] = f"[{len(value) - len(members)} more]"
                    break
                members[self._spell(name)] = self._member(f"{place}.{name}", str(name), item, depth, left)
            return members
        items: list[Any] = []
        for item in value:
            if len(items) >= MAX_ITEMS or left[0] <= 0:
                items.append(f"[{len(value) - len(items)} more]")
                break
            items.append(self._clean(place, item, depth, left))
        return items

    def _text(self, text: str) -> str:
        if len(text) > _MAX_LOOK:
            return f"[{len(text)} characters]"  # too long to be searched for secrets
        text = _SECRETS.sub(REDACTED, text)
        for pattern in self._patterns:
            text = pattern.sub(REDACTED, text)
        text = _CARD.sub(lambda found: REDACTED if _has_card(found[0]) else found[0], text)
        return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text)} characters)"

    def _spell(self, name: Any) -> str:
        """Names come from the caller too."""
        text = str(name)
        text = self._text(text) if len(text) <= _PART else f"[{len(text)} characters]"
        return text if len(text) <= _MAX_NAME else f"{text[:_MAX_NAME]}…"


def is_secret_name(name: str) -> bool:
    """Whether a name says that its value is for few: `apiKey`, `X-Auth-Token`, `db_password`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    is_told = any(_SECRET_WORD.fullmatch(word) for word in words)
    return is_told or _SECRET_PART.search("".join(words)) is not None


def _has_card(text: str) -> bool:
    """Whether the digits could be those of a payment card: their number and their check digit are right."""
    digits = [int(sign) for sign in text if sign.isdecimal()]
    if not 13 <= len(digits) <= 19:
        return False
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(doubled) + sum(digits[-1::-2])) % 10 == 0


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        words = f"the pattern {pattern!r} cannot be understood: {error}"
        raise ConfigurationError(words, key="audit.redact") from None
