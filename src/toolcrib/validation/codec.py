"""JSON in and out; the only module that imports msgspec.

Knows JSON. Refuses to know schemas, tools and messages. `NaN` and infinities never leave here as
`null`: `encode` looks for them whenever the output contains that word. `parse` is for what strangers send:
it refuses what two readers could understand differently, and what costs more to read than to send.

JSON as text: what it would cost to read, judged before it is read.

A document of a few megabytes is sent in a millisecond; some take seconds to build. So large ones are looked
at first, quickly, as bytes; what seems odd then is looked at once more without what is in strings. Knows what
is dear to read; refuses to know what is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache, reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import msgspec

MAX_STRING = 1024 * 1024
MAX_NESTED = 100_000
"""Objects and arrays in one document: more of them cost more to look through than to send."""
MAX_MEMBERS = 10_000
MAX_DIGITS = 100

_DIGIT, _BACKSLASH = b"0\\"
_DIGITS = re.compile(rb"0*")
_HALF = b"0" * 50
_TWENTY = b"0" * 20
_FEW = 100
_BLANKS = (b" :", b"\n:", b"\t:", b"\r:")
_BLOCK = 128 * 1024
_KEPT = {byte: bytes([byte]) for byte in b"+-."}
_KEPT |= dict.fromkeys(b"0123456789", b"0") | dict.fromkeys(b"eE", b"e")
_MARKS = b"".join(_KEPT.get(byte, b" ") for byte in range(256))
_IS_DIGIT = bytes(byte == _DIGIT for byte in range(256))
_AFTER, _BEFORE = range(1, 50, 8), range(51, 100, 8)


class Text:
    """A document, or what of it is outside of strings, as it looks from afar."""

    __slots__ = ("colons", "data", "marks", "objects", "openings", "size")

    def __init__(self, data: bytes, size: int | None = None) -> None:
        self.data = data
        self.size = len(data) if size is None else size
        self.objects = data.count(b"{")
        self.openings = self.objects + data.count(b"[")
        self.colons = data.count(b":")
        self.marks = data.translate(_MARKS)

    def check(self) -> None:
        """Raise ValueError, in words that can be sent back, for what costs more to read than to send."""
        data = self.data
        if data.count(b'",') > 50_000 + len(data) // 5:
            raise ValueError("too many strings for its size")
        odd = [is_dear for is_dear in _DEAR if is_dear(self)]
        is_long = len(data) > MAX_STRING and _may_hold_long_string(data)
        if not odd and not is_long:
            return
        parts = _split_strings(data)
        if is_long and max(map(len, parts[1::2]), default=0) > MAX_STRING:
            raise ValueError(f"a string of more than {MAX_STRING} bytes")
        bare = Text(b"".join(parts[::2]), len(data))
        for is_dear in odd:
            if is_dear(bare):
                raise ValueError(_DEAR[is_dear])


def check_numbers(data: bytes) -> None:
    """The same for a document that is not large: only numbers can be dear in it."""
    text = Text(data)
    if _is_precise(text):
        text.check()


def has_repeats(data: bytes, members: int) -> bool:
    """Whether the objects of a text, which is JSON, have more members than were read of it: some were lost to
    others of the same key. Every member has a colon, outside of strings."""
    if data.count(b":") == members:
        return False  # no string has one
    if data.count(b'":') == members and not any(blank in data for blank in _BLANKS):
        return False  # where no blank stands before a colon, every member has its own `":`
    return b"".join(_split_strings(data)[::2]).count(b":") != members


def _split_strings(data: bytes) -> list[bytes]:
    """The text, cut at its quotes: every second part is a string."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    if data.count(b'"') > 20_000 + len(data) // 5:
        raise ValueError("too many strings for its size")
    return data.split(b'"')


# --- what is dear ------------------------------------------------------------------------------------


def _is_nested(text: Text) -> bool:
    return text.openings > min(MAX_NESTED, 20_000 + text.size // 20)


def _is_crowded(text: Text) -> bool:
    """Whether there are so many members that one of the objects must have too many."""
    most = MAX_MEMBERS * max(1, text.objects)
    if text.colons <= most:
        return False
    return text.data.count(b'":') + sum(map(text.data.count, _BLANKS)) > most


def _is_long(text: Text) -> bool:
    """Whether more than a hundred digits stand together that are neither a fraction nor an exponent, nor
    followed by one. Such a run covers one byte in a hundred, and fifty to one side of it."""
    marks, end = text.marks, 0
    if not (_are_digits(marks, _AFTER) or _are_digits(marks, _BEFORE)):
        return False
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


def _are_digits(marks: bytes, places: range) -> bool:
    """Whether, in some stretch of a hundred bytes, all of these places are digits."""
    columns = (marks[place::MAX_DIGITS].translate(_IS_DIGIT) for place in places)
    return reduce(lambda found, column: found & int.from_bytes(column, "little"), columns, -1) != 0


def _is_precise(text: Text) -> bool:
    """Whether too many numbers are not read the quick way: those near the ends of the range, halfway between
    two floating point numbers, or of twenty digits with an exponent."""
    marks = text.marks
    if marks.count(b"e") < _FEW or b"0e" not in marks:
        return False
    worth, cost = 1_500_000 + 12 * text.size, 0  # nanoseconds
    for start in range(0, len(marks), _BLOCK):  # so that what is refused is refused early
        cost += _cost_of_numbers(marks[start : start + _BLOCK].translate(None, b".+"))
        if cost > worth:
            return True
    return False


def _cost_of_numbers(marks: bytes) -> int:
    large, small = marks.count(b"0e00"), marks.count(b"0e-00")
    if not large and not small:
        return 0
    far = marks.count(b"0e000") + marks.count(b"e-000")
    precise = sum(part.endswith(_TWENTY) for part in marks.split(b"e"))
    return 12_000 * far + 2_500 * precise + 500 * large


_DEAR: dict[Callable[[Text], bool], str] = {
    _is_nested: "too many objects and arrays for its size",
    _is_crowded: f"an object of more than {MAX_MEMBERS} members",
    _is_long: f"an integer of more than {MAX_DIGITS} digits",
    _is_precise: "too many numbers with large exponents for its size",
}


def _may_hold_long_string(data: bytes) -> bool:
    """Whether a string may be too long: then there is a stretch in which no string ends."""
    half = MAX_STRING // 2
    is_plain = b"\\" not in data
    for start in range(0, len(data) - half, half):
        if _has_quote(data, start, start + half):
            continue
        is_outside = is_plain and data.count(b'"', 0, start) % 2 == 0
        if not is_outside:
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


_CONTAINERS = frozenset({dict, list, tuple})

MAX_DEPTH = 64
_MAX_INTEGER = 10**100
_LONG_INTEGER = "an integer of more than 100 digits"
_SMALL = 16 * 1024
_TINY = 900
_ONLY_DIGITS = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))
_HUNDRED_DIGITS = b"0" * 101


class NotFiniteError(ValueError):
    """A NaN or an infinity where JSON wants a number; `path` says where."""

    def __init__(self, path: str, value: float) -> None:
        super().__init__(f"{value} is not a JSON number")
        self.path = path
        self.value = value


@cache
def _engine() -> Any:
    """The one place that loads the engine: 35 ms that an import of toolcrib does not pay."""
    import msgspec

    return msgspec


@cache
def _encoder(order: str | None) -> msgspec.json.Encoder:
    encoder: msgspec.json.Encoder = _engine().json.Encoder(order=order)
    return encoder


def encode(value: Any) -> bytes:
    """JSON bytes of plain data.

    Raises NotFiniteError, UnicodeEncodeError for half a character, OverflowError for a number that nobody
    could read back, TypeError for what is not plain, RecursionError for what nests too deep or holds itself.
    """
    try:
        data = _encoder(None).encode(value)
    except UnicodeEncodeError:
        raise
    except ValueError:
        raise OverflowError("an integer has too many digits") from None
    if b"null" in data:
        check_finite(value)
    return data


def write(value: Any) -> bytes:
    """JSON bytes of what is known to be plain and finite."""
    return _encoder(None).encode(value)


def written(value: Any) -> Any:
    """Something that is written as `value` is, again and again, for the price of a copy."""
    return _engine().Raw(write(value))


def encode_text(value: Any) -> str:
    return encode(value).decode()


def decode(text: str | bytes) -> Any:
    """Strict JSON. Raises ValueError for all else, overflowing numbers and half characters included."""
    try:
        return _engine().json.decode(text)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("JSON contains a lone surrogate") from None


def parse(data: bytes) -> Any:
    """JSON from a stranger. Raises ValueError, in words that can be sent back, for everything that is not
    JSON, has a key twice, or goes beyond the limits above."""
    text: Text | None = None
    if len(data) > _SMALL or data.count(b"{") + data.count(b"[") > MAX_DEPTH:
        text = Text(data)
        text.check()
    elif len(data) > _TINY:
        check_numbers(data)
    try:
        value = _decoder().decode(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeError:
        raise ValueError("not valid UTF-8") from None
    except ValueError as error:
        raise ValueError(str(error).removeprefix("JSON is malformed: ")) from None
    if text is not None:
        if type(value) in _CONTAINERS:
            _check_tree(value, text)
    elif _encoder(None).encode(value) == data and not _has_long_number(data):
        pass  # most programs write as we do, and what is written back whole has lost no member to another
    elif type(value) not in _CONTAINERS:
        _count_members([value])
    else:
        _refuse_repeats(_count_members(value), data)
    return value


def _has_long_number(data: bytes) -> bool:
    """Whether more than a hundred digits stand together: then one of them stands at every hundredth place."""
    sample = data[::100]
    if len(sample.translate(None, b"0123456789")) == len(sample):
        return False
    return _HUNDRED_DIGITS in data.translate(_ONLY_DIGITS)


def _count_members(value: Any) -> int:
    """The members of all objects in a small document; its integers are looked at on the way."""
    total = 0
    waiting = [value]
    for item in waiting:  # grows on the way
        if type(item) is dict:
            total += len(item)
            item = item.values()
        for child in item:
            kind = type(child)
            if kind is dict or kind is list:
                waiting.append(child)
            elif kind is int and not -_MAX_INTEGER < child < _MAX_INTEGER:
                raise ValueError(_LONG_INTEGER)
    return total


def _check_tree(value: Any, text: Text) -> None:
    """The limits of a large document, level by level, and whether it has all the members of its text."""
    level: list[Any] = [value]
    left = text.openings  # or more, where strings have brackets in them
    members = depth = 0
    while level:
        depth += 1
        left -= len(level)
        if depth > MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH}")
        objects = [item for item in level if type(item) is dict]
        sizes = list(map(len, objects))
        members += sum(sizes)
        if max(sizes, default=0) > MAX_MEMBERS:
            raise ValueError(f"an object of more than {MAX_MEMBERS} members")
        if not left:
            break
        arrays = [item for item in level if type(item) is list]
        inner = chain(chain.from_iterable(arrays), chain.from_iterable(map(dict.values, objects)))
        level = [item for item in inner if type(item) in _CONTAINERS]
    if members != text.colons:
        _refuse_repeats(members, text.data)


def _refuse_repeats(members: int, data: bytes) -> None:
    if has_repeats(data, members):
        raise ValueError("an object has a key twice")


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    decoder: msgspec.json.Decoder[Any] = _engine().json.Decoder()
    return decoder


def canonical(value: Any) -> bytes:
    """One spelling per value: sorted keys, no spaces."""
    return _encoder("sorted").encode(value)


def digest(value: Any) -> str:
    import hashlib

    return hashlib.sha256(canonical(value)).hexdigest()


def to_plain(value: Any, unknown: Callable[[Any], Any]) -> Any:
    """Dicts, lists, strings and numbers out of dataclasses, dates, UUIDs and the like.

    `unknown` is asked for everything the engine does not know; it returns something plainer or raises
    TypeError.
    """
    return _without_tuples(_engine().to_builtins(value, enc_hook=unknown, str_keys=True))


def _without_tuples(plain: Any) -> Any:
    """Tuples as the lists they will be for any reader. In place: the engine has made a copy."""
    kind = type(plain)
    if kind is tuple:
        plain = list(plain)
    if kind is dict:
        for key, item in plain.items():
            if type(item) in _CONTAINERS:
                plain[key] = _without_tuples(item)
    elif kind in _CONTAINERS:
        for index, item in enumerate(plain):
            if type(item) in _CONTAINERS:
                plain[index] = _without_tuples(item)
    return plain


def check_finite(value: Any, path: str = "") -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotFiniteError(path, value)
    elif isinstance(value, dict):
        for key, item in value.items():
            check_finite(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            check_finite(item, f"{path}[{index}]")
