"""JSON in and out; the only module that imports msgspec.

Knows JSON. Refuses to know schemas, tools and messages. `NaN` and infinities never leave here as
`null`: `encode` looks for them whenever the output contains that word. `parse` is for what strangers send:
it refuses what two readers could understand differently, and what costs more to read than to send.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import msgspec


_CONTAINERS = frozenset({dict, list, tuple})

MAX_DEPTH = 64
MAX_MEMBERS = 10_000
MAX_STRING = 1024 * 1024
MAX_NESTED = 100_000
"""Objects and arrays in one document: more of them cost more to look through than to send."""
_MAX_INTEGER = 10**100
_LONG_INTEGER = "an integer of more than 100 digits"
_SMALL = 16 * 1024
_ONLY_DIGITS = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))
_HUNDRED_DIGITS = b"0" * 101
_LONG = rb"(?<![0-9.eE+])(?<![eE]-)[0-9]{101}+[0-9]*+(?![.eE])"
"""More than a hundred digits that are neither a fraction nor an exponent, nor followed by one."""
_STEPS = bytes(byte in b"[{" for byte in range(256))
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


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
    try:
        value = _decoder().decode(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeError:
        raise ValueError("not valid UTF-8") from None
    except ValueError as error:
        raise ValueError(str(error).removeprefix("JSON is malformed: ")) from None
    if len(data) > _SMALL or data.count(b"{") + data.count(b"[") > MAX_DEPTH:
        _check_large(data)
    elif _encoder(None).encode(value) == data and _HUNDRED_DIGITS not in data.translate(_ONLY_DIGITS):
        pass  # most programs write as we do, and what is written back whole has lost no member to another
    elif type(value) not in _CONTAINERS:
        _count_members([value])
    # Where no blank stands before a colon, every member of the text has its own `":`. So if there are as many
    # of those as members were read, no member was lost to another of the same key.
    elif (
        _count_members(value) != data.count(b'":')
        or b" :" in data
        or b"\n:" in data
        or b"\t:" in data
        or b"\r:" in data
    ):
        _refuse_repeats(data)
    return value


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


def _check_large(data: bytes) -> None:
    """The limits of a document that is large or has many parts, by its text: building it was cheap, looking
    through what was built would not be."""
    unescaped = data.replace(b"\\\\", b"  ").replace(b'\\"', b"  ") if b"\\" in data else data
    parts = unescaped.split(b'"')  # every second one is a string
    if len(data) > MAX_STRING and max(map(len, parts[1::2]), default=0) > MAX_STRING:
        raise ValueError(f"a string of more than {MAX_STRING} bytes")
    bare = b"".join(parts[::2])
    if _HUNDRED_DIGITS in bare.translate(_ONLY_DIGITS) and re.search(_LONG, bare):
        raise ValueError(_LONG_INTEGER)
    brackets = bare.translate(_STEPS, _NO_BRACKETS)
    if len(brackets) > 2 * MAX_NESTED:
        raise ValueError(f"more than {MAX_NESTED} objects and arrays")
    if max(accumulate(1 if step else -1 for step in brackets), default=0) > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if b"{" in bare:
        _refuse_repeats(data)


def _refuse_repeats(data: bytes) -> None:
    """The slow way to be sure."""
    import json  # rarely needed

    def refuse(pairs: list[tuple[str, Any]]) -> None:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("an object has a key twice")
        if len(pairs) > MAX_MEMBERS:
            raise ValueError(f"an object of more than {MAX_MEMBERS} members")

    json.loads(data, object_pairs_hook=refuse)


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
