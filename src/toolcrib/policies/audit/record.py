"""One record as one line: how it is written, chained to the one before, and read again.

    {"seq":7,"at":"2026-05-04T10:00:00.000Z","kind":"call", ... ,"hash":"<64 hex digits>"}

The hash is the SHA-256 of the hash before (its 64 digits) and of the line's own bytes up to `,"hash"`. So
any program can check it without knowing how JSON is spelt. Knows lines; refuses to know where they are kept.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

from toolcrib import codec

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
