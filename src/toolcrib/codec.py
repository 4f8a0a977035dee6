"""JSON in and out; the only module that imports msgspec.

Knows JSON. Refuses to know schemas, tools and messages. `NaN` and infinities never leave here as
`null`: `encode` looks for them whenever the output contains that word.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import msgspec


_CONTAINERS = frozenset({dict, list, tuple})


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
