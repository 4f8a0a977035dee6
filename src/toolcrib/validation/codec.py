"""JSON: encoding, decoding, and parsing of untrusted input. The only module that imports msgspec.

NaN and infinities are never written as `null`: `encode` raises NotFiniteError. `parse` is for untrusted
input: it refuses documents that two readers could understand differently, and documents that cost far more
to read than to send.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import msgspec

T = TypeVar("T")

MAX_DEPTH = 64
MAX_STRING = 1024 * 1024
MAX_CONTAINERS = 100_000
"""Objects and arrays in one document."""
MAX_MEMBERS = 10_000
MAX_DIGITS = 100
MAX_EXPONENTS = 1_000
"""Numbers with an exponent of three digits, in one document: reading one takes 10 us."""

_CONTAINERS = frozenset({dict, list, tuple})


class NotFiniteError(ValueError):
    """A NaN or an infinity, which JSON does not have; `path` says where."""

    def __init__(self, path: str, value: float) -> None:
        super().__init__(f"{value} is not a JSON number")
        self.path = path
        self.value = value


@cache
def _engine() -> Any:
    """Load msgspec, which takes 35 ms that `import toolcrib` does not pay."""
    import msgspec

    return msgspec


@cache
def _encoder() -> msgspec.json.Encoder:
    encoder: msgspec.json.Encoder = _engine().json.Encoder()
    return encoder


@cache
def _sorting_encoder() -> msgspec.json.Encoder:
    encoder: msgspec.json.Encoder = _engine().json.Encoder(order="sorted")
    return encoder


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    decoder: msgspec.json.Decoder[Any] = _engine().json.Decoder()
    return decoder


# --- encoding ----------------------------------------------------------------------------------------


def encode(value: Any) -> bytes:
    """Return the JSON of plain data.

    Raise NotFiniteError, UnicodeEncodeError for a lone surrogate, OverflowError for an integer with too
    many digits, TypeError for what is not plain data, RecursionError for what is nested too deeply or
    contains itself.
    """
    try:
        data = _encoder().encode(value)
    except UnicodeEncodeError:
        raise
    except ValueError:
        raise OverflowError("an integer has too many digits") from None
    if b"null" in data:
        check_finite(value)
    return data


def encode_text(value: Any) -> str:
    return encode(value).decode()


def write(value: Any) -> bytes:
    """Return the JSON of data that is known to be plain and finite."""
    return _encoder().encode(value)


def encoder(*, is_canonical: bool = False) -> Callable[[Any], bytes]:
    """Return what `write` or `canonical` calls, for code that encodes with every call."""
    return (_sorting_encoder() if is_canonical else _encoder()).encode


def is_json(value: Any) -> bool:
    """Return whether a value can be sent; one that cannot would break the list that it is in."""
    try:
        write(value)
    except (TypeError, ValueError, ArithmeticError, RecursionError):
        return False
    return True


def preencode(value: Any) -> Any:
    """Return an object that is encoded like `value`, by copying its JSON."""
    return _engine().Raw(write(value))


def raw(data: bytes) -> Any:
    """Return an object that is encoded as this JSON."""
    return _engine().Raw(data)


def canonical(value: Any) -> bytes:
    """Return JSON with sorted keys and without spaces, the same for equal values."""
    return _sorting_encoder().encode(value)


def digest(value: Any) -> str:
    import hashlib

    return hashlib.sha256(canonical(value)).hexdigest()


def check_finite(value: Any, path: str = "") -> None:
    """Raise NotFiniteError where a number is NaN or infinite."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotFiniteError(path, value)
    elif isinstance(value, dict):
        for key, item in value.items():
            check_finite(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            check_finite(item, f"{path}[{index}]")


def to_plain(value: Any, unknown: Callable[[Any], Any]) -> Any:
    """Return dicts, lists, strings and numbers for dataclasses, dates, UUIDs and the like.

    `unknown` is called for types that the engine does not support; it returns something simpler or raises
    TypeError.
    """
    return _without_tuples(_engine().to_builtins(value, enc_hook=unknown, str_keys=True))


def convert(value: Any, kind: type[T]) -> T:
    """Return JSON data as a value of a standard type. Raise ValueError where it cannot be one."""
    converted: T = _engine().convert(value, kind)
    return converted


def _without_tuples(plain: Any) -> Any:
    """Replace tuples by lists, in place: the engine has made a copy."""
    kind = type(plain)
    if kind is tuple:
        plain = list(plain)
    if kind in _CONTAINERS:
        for key, item in plain.items() if kind is dict else enumerate(plain):
            if type(item) in _CONTAINERS:
                plain[key] = _without_tuples(item)
    return plain


# --- decoding ----------------------------------------------------------------------------------------

_SMALL = 16 * 1024
_TINY = 6 * MAX_EXPONENTS
"""A document of so few bytes cannot have too many numbers with large exponents."""
_INTEGER_LIMIT = 10**MAX_DIGITS
_LONG_INTEGER = f"an integer of more than {MAX_DIGITS} digits"
_CROWDED = f"an object of more than {MAX_MEMBERS} members"
_REPEATED_KEY = "an object has a key twice"
_ONLY_DIGITS = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))
_TOO_MANY_DIGITS = b"0" * (MAX_DIGITS + 1)


def decode(text: str | bytes) -> Any:
    """Decode strict JSON. Raise ValueError for everything else, overflowing numbers and lone surrogates
    included."""
    try:
        return _engine().json.decode(text)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("JSON contains a lone surrogate") from None


def parse(data: bytes) -> Any:
    """Decode untrusted JSON.

    Raise ValueError, with a message that can be sent back, for what is not JSON, has a key twice, or
    exceeds the limits.
    """
    text: _Text | None = None
    if len(data) > _SMALL or data.count(b"{") + data.count(b"[") > MAX_DEPTH:
        text = _Text(data)
        text.check()
    elif len(data) > _TINY and _has_large_exponents(_Text(data)):
        _Text(data).check()
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
    elif _encoder().encode(value) == data and not _has_long_number(data):
        pass  # most programs write as we do, and no key was lost if it is written back the same
    elif has_repeated_key(data, _count_members(value if type(value) in _CONTAINERS else [value])):
        raise ValueError(_REPEATED_KEY)
    return value


def _has_long_number(data: bytes) -> bool:
    """Whether more than a hundred digits stand together: then four in a row of every 25th byte are digits."""
    if b"0000" not in data[:: MAX_DIGITS // 4].translate(_ONLY_DIGITS):
        return False
    return _TOO_MANY_DIGITS in data.translate(_ONLY_DIGITS)


def _count_members(value: Any) -> int:
    """Count the members of all objects in a small document, and check its integers."""
    total = 0
    pending = [value]
    for item in pending:  # grows while it is read
        if type(item) is dict:
            total += len(item)
            item = item.values()
        for child in item:
            kind = type(child)
            if kind is dict or kind is list:
                pending.append(child)
            elif kind is int and not -_INTEGER_LIMIT < child < _INTEGER_LIMIT:
                raise ValueError(_LONG_INTEGER)
    return total


def _check_tree(value: Any, text: _Text) -> None:
    """Check the limits of a large document level by level, and that no key was lost."""
    level: list[Any] = [value]
    left = text.openings  # or more, where strings contain brackets
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
            raise ValueError(_CROWDED)
        if not left:
            break
        arrays = [item for item in level if type(item) is list]
        inner = chain(chain.from_iterable(arrays), chain.from_iterable(map(dict.values, objects)))
        level = [item for item in inner if type(item) in _CONTAINERS]
    if members != text.colons and has_repeated_key(text.data, members):
        raise ValueError(_REPEATED_KEY)


_SPACE_BEFORE_COLON = (b" :", b"\n:", b"\t:", b"\r:")


def has_repeated_key(data: bytes, members: int) -> bool:
    """Whether a JSON document has more members than were read of it, because a key was there twice.

    Every member has a colon outside of strings.
    """
    if data.count(b":") == members:
        return False  # no string contains one
    if data.count(b'":') == members and not any(space in data for space in _SPACE_BEFORE_COLON):
        return False
    return b"".join(_split_strings(data)[::2]).count(b":") != members


# --- the cost of reading a document ------------------------------------------------------------------
# A few megabytes are sent in a millisecond, and some take seconds to decode. Large documents are searched
# for what is expensive, first as they are, which is fast, and where that finds something once more without
# the contents of strings.

_BACKSLASH = b"\\"[0]
_DIGIT_RUN = re.compile(rb"0*")
_TWENTY_DIGITS = b"0" * 20
_MAX_LARGE = 10_000
"""Numbers above 1e10, in one document."""
_FEW = 100
_SIGNS = {byte: bytes([byte]) for byte in b"+-."}
_SIGNS |= dict.fromkeys(b"0123456789", b"0") | dict.fromkeys(b"eE", b"e")
_TO_NUMBERS = b"".join(_SIGNS.get(byte, b" ") for byte in range(256))


class _Text:
    """A document, or the part of it outside of strings, with counts of its signs.

    `numbers` is the text with every digit as 0, exponents as e, and a space for all that is not part of a
    number.
    """

    __slots__ = ("colons", "data", "numbers", "objects", "openings", "size")

    def __init__(self, data: bytes, size: int | None = None) -> None:
        self.data = data
        self.size = len(data) if size is None else size
        self.objects = data.count(b"{")
        self.openings = self.objects + data.count(b"[")
        self.colons = data.count(b":")
        self.numbers = data.translate(_TO_NUMBERS)

    def check(self) -> None:
        """Raise ValueError, with a message that can be sent back, for what costs more to read than to
        send."""
        data = self.data
        max_strings = 50_000 + len(data) // 5
        # One byte is counted five times as fast as two.
        if data.count(b'"') > max_strings and data.count(b'",') > max_strings:
            raise ValueError("too many strings for its size")
        suspicious = [is_expensive for is_expensive in _EXPENSIVE if is_expensive(self)]
        may_be_long = len(data) > MAX_STRING and _may_have_long_string(data)
        if not suspicious and not may_be_long:
            return
        parts = _split_strings(data)
        if may_be_long and max(map(len, parts[1::2]), default=0) > MAX_STRING:
            raise ValueError(f"a string of more than {MAX_STRING} bytes")
        outside = _Text(b"".join(parts[::2]), len(data))
        for is_expensive in suspicious:
            if is_expensive(outside):
                raise ValueError(_EXPENSIVE[is_expensive])


def _split_strings(data: bytes) -> list[bytes]:
    """Split a document at its quotes: every second part is the content of a string."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    if data.count(b'"') > 20_000 + len(data) // 5:
        raise ValueError("too many strings for its size")
    return data.split(b'"')


def _has_many_containers(text: _Text) -> bool:
    return text.openings > min(MAX_CONTAINERS, 20_000 + text.size // 20)


def _has_many_members(text: _Text) -> bool:
    """Whether there are so many members that one of the objects must have too many."""
    limit = MAX_MEMBERS * max(1, text.objects)
    if text.colons <= limit:
        return False
    if b'"' not in text.data:
        return True  # outside of strings every colon is one of a member
    return text.data.count(b'":') + sum(map(text.data.count, _SPACE_BEFORE_COLON)) > limit


def _has_long_integer(text: _Text) -> bool:
    """Whether more than a hundred digits stand together that are an integer: no fraction, no exponent."""
    numbers = text.numbers
    if _TWENTY_DIGITS not in numbers:  # found six times as fast as a hundred
        return False
    start = numbers.find(_TOO_MANY_DIGITS)
    while start >= 0:
        run = _DIGIT_RUN.match(numbers, start)
        end = start + MAX_DIGITS if run is None else run.end()
        is_part = numbers.endswith((b".", b"+", b"e", b"e-"), 0, start)
        if not is_part and not numbers.startswith((b".", b"e"), end):
            return True
        start = numbers.find(_TOO_MANY_DIGITS, end)
    return False


def _has_large_exponents(text: _Text) -> bool:
    """Whether too many numbers are read the slow way: those near the ends of the range, or very large."""
    numbers = text.numbers
    if numbers.count(b"e") <= MAX_EXPONENTS:
        return False
    numbers = numbers.replace(b"+", b"")
    extreme = numbers.count(b"e000") + numbers.count(b"e-000")
    return extreme > MAX_EXPONENTS or numbers.count(b"e00") > _MAX_LARGE


_EXPENSIVE: dict[Callable[[_Text], bool], str] = {
    _has_many_containers: "too many objects and arrays for its size",
    _has_many_members: _CROWDED,
    _has_long_integer: _LONG_INTEGER,
    _has_large_exponents: "too many numbers with large exponents",
}


def _may_have_long_string(data: bytes) -> bool:
    """Whether a string may be too long: then there is a stretch in which no string ends."""
    half = MAX_STRING // 2
    has_escapes = b"\\" in data
    for start in range(0, len(data) - half, half):
        if _has_quote(data, start, start + half):
            continue
        is_outside = not has_escapes and data.count(b'"', 0, start) % 2 == 0
        if not is_outside:
            return True
    return False


def _has_quote(data: bytes, start: int, end: int) -> bool:
    """Whether there is a quote that is not escaped; in doubt, no."""
    for _ in range(_FEW):
        position = data.find(b'"', start, end)
        if position < 0 or data[position - 1] != _BACKSLASH:
            return position >= 0
        start = position + 1
    return False
