"""JSON as text: what it would cost to read, judged before it is read.

A document of a few megabytes is sent in a millisecond; some take seconds to build. So large ones are looked
at first, quickly, as bytes; what seems odd then is looked at once more without what is in strings. Knows what
is dear to read; refuses to know what is read.
"""

from __future__ import annotations

import re

MAX_STRING = 1024 * 1024
MAX_NESTED = 100_000
"""Objects and arrays in one document: more of them cost more to look through than to send."""
MAX_DIGITS = 100

_DIGIT, _BACKSLASH = b"0\\"
_DIGITS = re.compile(rb"0*")
_HALF = b"0" * 50
_TWENTY = b"0" * 20
_FEW = 100
_KEPT = {byte: bytes([byte]) for byte in b"+-."}
_KEPT |= dict.fromkeys(b"0123456789", b"0") | dict.fromkeys(b"eE", b"e")
_MARKS = b"".join(_KEPT.get(byte, b" ") for byte in range(256))


def check_text(data: bytes) -> None:
    """Raise ValueError, in words that can be sent back, for what costs more to read than to send."""
    marks = data.translate(_MARKS)
    odd = [is_dear for is_dear in _DEAR if is_dear(data, marks, len(data))]
    is_long = len(data) > MAX_STRING and _may_hold_long_string(data)
    if not odd and not is_long:
        return
    parts = _split_strings(data)
    if is_long and max(map(len, parts[1::2]), default=0) > MAX_STRING:
        raise ValueError(f"a string of more than {MAX_STRING} bytes")
    bare = b"".join(parts[::2])
    marks = bare.translate(_MARKS)
    for is_dear in odd:
        if is_dear(bare, marks, len(data)):
            raise ValueError(_DEAR[is_dear])


def check_numbers(data: bytes) -> None:
    """The same for a document that is not large: only numbers can be dear in it."""
    if _is_precise(data, data.translate(_MARKS), len(data)):
        check_text(data)


def count_openings(data: bytes) -> int:
    """How many objects and arrays begin, or seem to."""
    return data.count(b"{") + data.count(b"[")


def has_repeats(data: bytes, members: int) -> bool:
    """Whether the objects of a text, which is JSON, have more members than were read of it: some were lost to
    others of the same key. Every member has a colon, outside of strings."""
    if data.count(b":") == members:
        return False  # no string has one
    return b"".join(_split_strings(data)[::2]).count(b":") != members


def _split_strings(data: bytes) -> list[bytes]:
    """The text, cut at its quotes: every second part is a string."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    if data.count(b'"') > 20_000 + len(data) // 6:
        raise ValueError("too many strings for its size")
    return data.split(b'"')


# --- what is dear: questions about a text, or what of it is outside of strings, and its size -------------


def _is_nested(text: bytes, marks: bytes, size: int) -> bool:  # noqa: ARG001
    return count_openings(text) > min(MAX_NESTED, 5_000 + size // 12)


def _is_long(text: bytes, marks: bytes, size: int) -> bool:  # noqa: ARG001
    """Whether more than a hundred digits stand together that are neither a fraction nor an exponent, nor
    followed by one. Such a run covers one byte in a hundred, and fifty to one side of it."""
    end = 0
    for place in range(0, len(marks), MAX_DIGITS):
        if marks[place] != _DIGIT or place < end:
            continue
        if not (marks.startswith(_HALF, place) or marks.startswith(_HALF, place - 50)):
            continue
        start = max(0, place - MAX_DIGITS)
        after, before = marks.find(b" ", place, place + MAX_DIGITS), marks.rfind(b" ", start, place)
        if after >= 0 and before >= 0 and after - before <= MAX_DIGITS + 1:
            continue
        start += len(marks[start:place].rstrip(b"0"))
        found = _DIGITS.match(marks, place)
        end = place if found is None else found.end()
        is_part = marks.endswith((b".", b"+", b"e", b"e-"), 0, start) or marks.startswith((b".", b"e"), end)
        if end - start > MAX_DIGITS and not is_part:
            return True
    return False


def _is_precise(text: bytes, marks: bytes, size: int) -> bool:  # noqa: ARG001
    """Whether too many numbers are not read the quick way: those near the ends of the range, halfway between
    two floating point numbers, or of twenty digits with an exponent."""
    if marks.count(b"e") < _FEW or b"0e" not in marks:
        return False
    worth = 1_500_000 + 12 * size  # nanoseconds
    dense = marks.translate(None, b".+")
    cost = 12_000 * (dense.count(b"0e000") + dense.count(b"e-000"))
    if cost > worth:
        return True
    large = dense.count(b"0e00")
    cost += 500 * large
    if cost > worth or cost + 2_500 * (large + dense.count(b"0e-00")) <= worth:
        return cost > worth
    return cost + 2_500 * sum(part.endswith(_TWENTY) for part in dense.split(b"e")) > worth


_DEAR = {
    _is_nested: "too many objects and arrays for its size",
    _is_long: f"an integer of more than {MAX_DIGITS} digits",
    _is_precise: "too many numbers with large exponents for its size",
}


def _may_hold_long_string(data: bytes) -> bool:
    """Whether a string may be too long: then there is a stretch in which no string ends."""
    half = MAX_STRING // 2
    is_plain = b"\\" not in data
    for start in range(0, len(data) - half, half):
        is_outside = is_plain and data.count(b'"', 0, start) % 2 == 0
        if not is_outside and not _has_quote(data, start, start + half):
            return True
    return False


def _has_quote(data: bytes, start: int, end: int) -> bool:
    """Whether a quote is there that is not escaped; where in doubt, there is none."""
    for _ in range(_FEW):
        place = data.find(b'"', start, end)
        if place < 0 or data[place - 1] != _BACKSLASH:
            return place >= 0
        start = place + 1
    return False
