"""Received arguments as plain data: what a tool gets, in the terms of its published schema.

Conditions compare JSON values, and tools get Python objects. Objects are read by their fields and not
serialised: a serialiser may mask, rename or leave out what the tool still sees. A value without a plain form
is OPAQUE, and so is one whose own code fails while it is read.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import enum
import math
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from copy import copy
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Final

from toolcrib.schema import pydantic as rich
from toolcrib.schema.enums import read_enum
from toolcrib.schema.hints import HintReader
from toolcrib.schema.records import is_record
from toolcrib.schema.shapes import bare
from toolcrib.validation import codec

_MOST_DIGITS = 400
"""Longer numbers are not written out: a Decimal of ten characters can stand for gigabytes of digits."""


class _Opaque:
    __slots__ = ()

    def __repr__(self) -> str:
        return "OPAQUE"


OPAQUE: Final = _Opaque()
"""A value that cannot be compared with anything."""
CANNOT_BE_SHOWN: Final = "(cannot be shown)"

FieldsOf = Callable[[Any, Mapping[str, Any]], Iterable[tuple[str, str]]]
"""The attributes of an object and their names in JSON, for an object that was made of this mapping."""


class Received(Mapping[str, Any]):
    """The arguments of one call as the tool gets them, by their published names, and the defaults of those
    that were left out, where the schema does not publish them.

    Each becomes plain data when it is first looked at. `sent` are the arguments as they came.
    """

    __slots__ = ("_plain", "_values", "sent")

    def __init__(self, values: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
        self.sent = sent
        self._values = values
        self._plain: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._plain:
            self._plain[name] = plain_value(self._values[name], self.sent.get(name))
        return self._plain[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def shown(self) -> dict[str, Any]:
        """The arguments that were sent, as they are shown to a person: the whole value that the tool gets.

        Where a part of it cannot be shown, the value that came stands beside it."""
        return {
            name: _show(self._values[name], item) if name in self._values else item
            for name, item in self.sent.items()
        }


def _show(value: Any, sent: Any) -> Any:
    received = plain_value(value, sent, _fields_to_show)
    visible = _without_opaque(received)
    return visible if visible == received else {"received": visible, "sent": sent}


def _without_opaque(value: Any) -> Any:
    if value is OPAQUE:
        return CANNOT_BE_SHOWN
    if isinstance(value, dict):
        return {name: _without_opaque(item) for name, item in value.items()}
    return [_without_opaque(item) for item in value] if isinstance(value, list) else value


def _items_of(sent: Any, count: int) -> list[Any]:
    return sent if isinstance(sent, list) and len(sent) == count else [None] * count


def plain_value(value: Any, sent: Any = None, fields_of: FieldsOf | None = None) -> Any:
    """JSON data that says what `value` is; parts without a plain form are OPAQUE. It was made of `sent`."""
    try:
        make = _MAKERS.get(type(value))
        return _plain(value, sent, fields_of or _published_fields) if make is None else make(value)
    except Exception:  # the author's code runs here: properties, `__str__`, `__iter__`
        return OPAQUE


def _plain(value: Any, sent: Any, fields_of: FieldsOf) -> Any:
    cls: Any = type(value)
    if _is_record(cls):
        return _plain_record(value, sent, fields_of)
    if isinstance(value, enum.Enum):
        return value.value if isinstance(value, enum.Flag) else _values_of(type(value))[value.name]
    for kind, make in _KINDS:
        if isinstance(value, kind):
            return make(value)
    if isinstance(value, _BYTES):
        return _plain_bytes(bytes(value), sent)
    if isinstance(value, Mapping):
        came = sent if isinstance(sent, Mapping) else {}
        pairs = ((_plain_key(key), item) for key, item in value.items())
        found = {key: plain_value(item, came.get(key), fields_of) for key, item in pairs}
        return found if len(found) == len(value) else OPAQUE  # 1 and "1" are two keys, and the same in JSON
    if isinstance(value, _LIST_ITERATOR):
        value = list(copy(value))  # the tool is to find all of it
    if isinstance(value, Sequence | Set):
        items = _plain_items(value, sent, fields_of)
        return items if isinstance(value, Sequence) else _sort(items)
    if hasattr(value, "get_secret_value"):
        return plain_value(value.get_secret_value(), sent, fields_of)
    return str(value) if _TEXTS.intersection(base.__module__ for base in cls.__mro__) else OPAQUE


def _plain_items(value: Any, sent: Any, fields_of: FieldsOf) -> list[Any]:
    kinds = set(map(type, value))
    if kinds <= _AS_THEY_ARE or (kinds == {float} and all(map(math.isfinite, value))):
        return list(value)  # half a million numbers take 10 ms, one by one 300 ms
    pairs = zip(value, _items_of(sent, len(value)), strict=True)
    return [plain_value(item, came, fields_of) for item, came in pairs]


def _sort(items: list[Any]) -> list[Any]:
    """The items of a set in an order that is the same in every process."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)


def _plain_float(value: float) -> Any:
    return float.__float__(value) if math.isfinite(value) else OPAQUE


def _plain_decimal(value: decimal.Decimal) -> Any:
    """The JSON number that says exactly this, if there is one."""
    if not value.is_finite() or abs(value.adjusted()) > _MOST_DIGITS:
        return OPAQUE
    if value == value.to_integral_value():
        return int(value)
    near = float(value)
    return near if decimal.Decimal(repr(near)) == value else OPAQUE


def _plain_bytes(value: bytes, sent: Any) -> Any:
    """The text that these bytes came as: base64 for some types, the text itself for others. Bytes that were
    changed on the way have no known form."""
    is_same = isinstance(sent, str) and (sent.encode() == value or sent == base64.b64encode(value).decode())
    return sent if is_same else OPAQUE


def _plain_key(key: Any) -> str:
    plain = plain_value(key)
    return plain if isinstance(plain, str) else codec.encode_text(plain)


_TEXTS = frozenset({"fractions", "ipaddress", "pydantic.networks", "zoneinfo"})
"""The modules of classes whose objects are all that their text says."""
_LIST_ITERATOR: Any = type(iter([]))
_KINDS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, _plain_float),
    (decimal.Decimal, _plain_decimal),
    ((dt.date, dt.time, dt.timedelta), rich.to_plain),
    ((uuid.UUID, PurePath, complex), str),
    (re.Pattern, lambda value: value.pattern),
)
_BYTES = (bytes, bytearray, memoryview)
_AS_THEY_ARE: frozenset[type] = frozenset({str, int, bool, type(None)})
_MAKERS: Mapping[type, Callable[[Any], Any]] = {
    **dict.fromkeys(_AS_THEY_ARE, lambda value: value),
    float: _plain_float,
    decimal.Decimal: _plain_decimal,
    **dict.fromkeys((dt.date, dt.datetime, dt.time, dt.timedelta), rich.to_plain),
    uuid.UUID: str,
}
"""The kinds again, by their exact types: most values are found here at once."""


# --- classes -------------------------------------------------------------------------------------------


@lru_cache(maxsize=1_000)
def _is_record(cls: Any) -> bool:
    """Whether objects of a class are read by their fields, and are no text, number or enum besides."""
    return is_record(cls) and not issubclass(cls, (enum.Enum, *_BYTES, *(kind for kind, _ in _KINDS)))


def _plain_record(value: Any, sent: Any, fields_of: FieldsOf) -> Any:
    cls: Any = type(value)
    if getattr(cls, "__pydantic_root_model__", False):
        return plain_value(value.root, sent, fields_of)
    came = sent if isinstance(sent, Mapping) else {}
    extra = getattr(value, "__pydantic_extra__", None)
    found = {}
    if extra:
        found = {name: plain_value(item, came.get(name), fields_of) for name, item in extra.items()}
    for attribute, name in fields_of(value, came):
        found[name] = plain_value(getattr(value, attribute), came.get(name), fields_of)
    return found


def _published_fields(value: Any, _: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    cls: Any = type(value)
    return _fields_of(cls)


def _fields_to_show(value: Any, came: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Each field by one name, the one that it came by.

    Ids and times from a default factory are left out: they are made again when the answer comes, and would
    be another question every time. Neither the caller nor a validator has set them.
    """
    names: dict[str, str] = {}
    for attribute, name in _published_fields(value, came):
        if attribute not in names or name in came:
            names[attribute] = name
    for attribute in rich.find_made(value):
        if type(getattr(value, attribute)) in _MAKERS:
            del names[attribute]
    return names.items()


@lru_cache(maxsize=1_000)
def _fields_of(cls: Any) -> tuple[tuple[str, str], ...]:
    """Where objects of a class keep their fields, and the names these are published by."""
    if rich.is_pydantic(cls):
        return rich.published_names(cls)
    fields = getattr(bare(HintReader().shape(cls)), "fields", ())
    return tuple((item.attribute, item.name) for item in fields if item.attribute is not None)


@lru_cache(maxsize=1_000)
def _values_of(cls: Any) -> dict[str, Any]:
    """The JSON values of the members, by name."""
    shape: Any = bare(read_enum(cls))
    names = [member.name for member in shape.members]
    return dict(zip(names, shape.values, strict=True))
