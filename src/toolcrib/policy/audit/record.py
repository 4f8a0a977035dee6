"""Audit records: encoding, the hash chain, and redaction of argument values.

A record is one line of JSON:

    {"seq":7,"stream":"5c1e0a77d2b4","at":"2026-05-04T10:00:00.000Z", ... ,"hash":"<64 hex digits>"}

The hash is the SHA-256 of the hash of the previous record of its stream (64 digits) followed by the bytes of
this line up to `,"hash"`. Any program can verify the chain without agreeing on how JSON is formatted.

Only argument names listed in `audit.values` are recorded. Of those, the redactor of `toolcrib.logs` takes out
secrets; names of personal data and card numbers are hidden too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

from toolcrib.errors import ConfigurationError, ErrorCollector
from toolcrib.logs import HIDDEN, is_secret_name, package_filter
from toolcrib.state.base import Head, Record
from toolcrib.validation import codec

NO_RECORD = Head(0, b"0" * 64)
"""What the first record of a stream is chained to."""
MAX_LINE = 64 * 1024
_ADDED = 256
"""More bytes than number, stream, time and hash add to a record."""
_LONG = 4096
_MAX_STRING = 512
_MAX_PLAIN_DEPTH = 32
_MAX_PLAIN_ITEMS = 10_000
_MAX_BITS = 1024
_HASH = b',"hash":"'
TAIL = len(_HASH) + 64 + 2
_START = re.compile(rb'\{"seq":([1-9]\d{0,11}),"stream":"[\w-]{1,64}",')
_END = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
_SEARCHED = ("id", "principal", "tool", "outcome")


class Entry(NamedTuple):
    """A record without its number and hash, which the writer thread adds to its `body`."""

    at_ms: int
    id: str
    principal: str
    tool: str
    outcome: str
    body: bytes


def chain_entries(stream: str, head: Head, entries: Iterable[Entry]) -> list[Record]:
    """Return the records of `entries`, chained after `head`."""
    seq, previous = head
    name = stream.encode()
    records = []
    for at_ms, id_, principal, tool, outcome, rest in entries:
        seq += 1
        body = b'{"seq":%d,"stream":"%b",%b' % (seq, name, rest)
        previous = sha256(previous + body).hexdigest().encode()
        line = b'%b,"hash":"%b"}' % (body, previous)
        records.append(Record(seq, at_ms, id_, principal, tool, outcome, line))
    return records


def encode_entry(wall: float, facts: dict[str, Any]) -> Entry:
    """Encode the facts of a record. Never fails, whatever they hold."""
    try:
        data = codec.write(facts)
    except Exception:  # not JSON: lone surrogates, objects, endless nesting
        facts = {key: to_plain(value) for key, value in facts.items()}
        data = codec.write(facts)
    if len(data) > _LONG:
        facts = {key: _shorten(value) for key, value in facts.items()}
        data = codec.write(facts)
    if len(data) > MAX_LINE - _ADDED:
        facts = {key: value for key, value in facts.items() if not isinstance(value, dict | list)}
        data = codec.write(facts)
    beginning = b'"at":"%b"%b%b' if "kind" in facts else b'"at":"%b","kind":"call"%b%b'
    rest, at_ms = data[1:-1], to_ms(wall)
    body = beginning % (_encode_ms(at_ms), b"," if rest else b"", rest)
    id_, principal, tool, outcome = map(facts.get, _SEARCHED)
    return Entry(
        at_ms,
        id_ if isinstance(id_, str) else "",
        principal if isinstance(principal, str) else "",
        tool if isinstance(tool, str) else "",
        outcome if isinstance(outcome, str) else "",
        body,
    )


def read_head(line: bytes) -> Head | None:
    """Return the number and hash that a line claims; None if it is not a record."""
    seq, end = _START.match(line), _END.fullmatch(line, len(line) - TAIL)
    return None if seq is None or end is None else Head(int(seq[1]), end[1])


def follows(line: bytes, stream: str, head: Head) -> bool:
    """Whether a line is the record after `head`, unchanged since it was written."""
    if not line.startswith(b'{"seq":%d,"stream":"%b",' % (head.seq + 1, stream.encode())):
        return False
    found = sha256(head.hash + line[:-TAIL]).hexdigest().encode()
    return line.endswith(b'%b%b"}' % (_HASH, found))


def has_time(record: Record) -> bool:
    """Whether the time by which a record is found is that of its line."""
    try:
        return b',"at":"%b",' % format_ms(record.at_ms).encode() in record.line[:160]
    except (ValueError, OverflowError, OSError):
        return False


def to_ms(wall: float) -> int:
    """Return milliseconds since 1970."""
    return round(wall * 1e6) // 1000


def format_ms(at_ms: int) -> str:
    """Format a time in UTC with milliseconds: 2026-05-04T10:00:00.000Z."""
    return f"{_format_second(at_ms // 1000)}.{at_ms % 1000:03d}Z"


def format_time(wall: float) -> str:
    return format_ms(to_ms(wall))


@lru_cache(maxsize=4)
def _encode_ms(at_ms: int) -> bytes:
    """Format a time for a record: calls often end in the same millisecond."""
    return format_ms(at_ms).encode()


@lru_cache(maxsize=2)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat()[:19]


def parse_time(text: str) -> float:
    """Parse an ISO 8601 time, UTC unless it names a zone. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def to_plain(value: Any) -> Any:
    """Return a bounded JSON approximation of a value, with unknown types by name. Never raises."""
    try:
        return _to_plain(value, 0, [_MAX_PLAIN_ITEMS])
    except Exception:  # an object that only looks like a dict or a list
        return f"<{type(value).__name__}>"


def _to_plain(value: Any, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int):
        return value if value.bit_length() <= _MAX_BITS else f"<integer of {value.bit_length()} bits>"
    if depth < _MAX_PLAIN_DEPTH and left[0] > 0:
        if isinstance(value, Mapping):
            return {
                _to_plain(str(key), depth, left): _to_plain(item, depth + 1, left)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [_to_plain(item, depth + 1, left) for item in value]
    return f"<{type(value).__name__}>"


def _shorten(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > _MAX_STRING
    return f"{value[:_MAX_STRING]}… ({len(value)} characters)" if is_long else value


# --- redaction ---

REDACTED = HIDDEN
MAX_TEXT = 256
MAX_ITEMS = 50
MAX_DEPTH = 6
MAX_PARTS = 300
"""Values recorded of one call. Every `_TEXT_PART` characters of text count as one more."""
_TEXT_PART = 512
_MAX_SEARCHED = 16_384
_MAX_NAME = 64

_PERSONAL_NAME = re.compile(
    r"(?i)(?:^|[_. -]|(?-i:(?<=[a-z])(?=[A-Z])))(?:bearer|card_?number|credit_?card|cvc|cvv|jwt|keys?|otp"
    r"|passcode|pin|pw|session(?:_?id)?|signature|ssn)$"
)
"""Names of values that belong into no record, besides those that the log hides."""
_CARD = re.compile(r"(?<![\d.])\d(?:[ -]?\d){12,18}(?!\d)")


class Redaction:
    """Selects the argument values that may be recorded.

    `values` are globs of argument names to record; `redact` are globs of names and `re:` patterns of text to
    hide. Nested names are dotted: `order.amount`.
    """

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
        """Return the values to record, redacted; None if there are none."""
        return self._pick(arguments, "", 1, [MAX_PARTS]) or None

    def _pick(self, members: Mapping[str, Any], prefix: str, depth: int, left: list[int]) -> dict[str, Any]:
        picked: dict[str, Any] = {}
        for name, value in members.items():
            path = f"{prefix}{name}"
            if any(fnmatchcase(path, glob) for glob in self._values):
                picked[self._redact_name(name)] = self._redact_member(path, str(name), value, depth, left)
            elif isinstance(value, dict) and depth < MAX_DEPTH:
                inner = self._pick(value, f"{path}.", depth + 1, left)
                if inner:
                    picked[self._redact_name(name)] = inner
            if len(picked) >= MAX_ITEMS or left[0] <= 0:
                break
        return picked

    def _redact_member(self, path: str, name: str, value: Any, depth: int, left: list[int]) -> Any:
        if value is not None and (_is_secret(name) or self._is_hidden(path, name)):
            return REDACTED
        return self._redact(path, value, depth, left)

    def _is_hidden(self, path: str, name: str) -> bool:
        spellings = (path.lower(), name.lower())
        return any(fnmatchcase(spelling, glob) for glob in self._names for spelling in spellings)

    def _redact(self, path: str, value: Any, depth: int, left: list[int]) -> Any:
        left[0] -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, float):
            return REDACTED if value.is_integer() and _is_card_number(str(int(value))) else value
        if isinstance(value, str):
            left[0] -= len(value) // _TEXT_PART  # searching text takes time on the event loop
            return self._redact_text(value)
        if isinstance(value, int):
            return REDACTED if value.bit_length() > 256 or _is_card_number(str(value)) else value
        if isinstance(value, dict | list | tuple):
            if depth >= MAX_DEPTH or left[0] <= 0:
                return f"[{len(value)} more]"
            return self._redact_items(path, value, depth + 1, left)
        return f"[{type(value).__name__}]"

    def _redact_items(self, path: str, value: Any, depth: int, left: list[int]) -> Any:
        if isinstance(value, dict):
            members: dict[str, Any] = {}
            for name, item in value.items():
                if len(members) >= MAX_ITEMS or left[0] <= 0:
                    members["…"] = f"[{len(value) - len(members)} more]"
                    break
                key = self._redact_name(name)
                members[key] = self._redact_member(f"{path}.{name}", str(name), item, depth, left)
            return members
        items: list[Any] = []
        for item in value:
            if len(items) >= MAX_ITEMS or left[0] <= 0:
                items.append(f"[{len(value) - len(items)} more]")
                break
            items.append(self._redact(path, item, depth, left))
        return items

    def _redact_text(self, text: str) -> str:
        if len(text) > _MAX_SEARCHED:
            return f"[{len(text)} characters]"  # too long to be searched for secrets
        text = package_filter.redact(text)
        for pattern in self._patterns:
            text = pattern.sub(REDACTED, text)
        text = _CARD.sub(lambda found: REDACTED if _is_card_number(found[0]) else found[0], text)
        return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text)} characters)"

    def _redact_name(self, name: Any) -> str:
        """Names come from the caller too, and may hold secrets."""
        text = str(name)
        text = self._redact_text(text) if len(text) <= _TEXT_PART else f"[{len(text)} characters]"
        return text if len(text) <= _MAX_NAME else f"{text[:_MAX_NAME]}…"


def _is_secret(name: str) -> bool:
    return is_secret_name(name) or _PERSONAL_NAME.search(name[-_MAX_NAME:]) is not None


def _is_card_number(text: str) -> bool:
    """Whether the digits have the length and check digit of a payment card number."""
    digits = [int(sign) for sign in text if sign.isdecimal()]
    if not 13 <= len(digits) <= 19:
        return False
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(doubled) + sum(digits[-1::-2])) % 10 == 0


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        message = f"invalid regular expression {pattern!r}: {error}"
        raise ConfigurationError(message, key="audit.redact") from None
