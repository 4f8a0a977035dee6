"""JSON in and out; the only module that imports msgspec.

Knows JSON. Refuses to know schemas, tools and messages. `NaN` and infinities never leave here as
`null`: `encode` looks for them whenever the output contains that word. `parse` is for what strangers send:
it refuses what two readers could understand differently, and what costs more to read than to send.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from toolcrib.jsontext import MAX_MEMBERS, Text, check_numbers, has_repeats

if TYPE_CHECKING:
    import msgspec


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
        refuse_non_finite(value)
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


def refuse_non_finite(value: Any, path: str = "") -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotFiniteError(path, value)
    elif isinstance(value, dict):
        for key, item in value.items():
            refuse_non_finite(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            refuse_non_finite(item, f"{path}[{index}]")
