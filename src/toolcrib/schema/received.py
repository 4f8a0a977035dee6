"""The arguments of a call as the tool receives them, as plain data.

Conditions compare JSON values, and tools get Python objects. Objects are read by their fields and not
serialized: a serializer may mask, rename or leave out what the tool still sees. A value without a plain
form is OPAQUE, and so is one whose own code fails while it is read.
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

from toolcrib.schema import pydantic_types
from toolcrib.schema.converters import sort_set
from toolcrib.schema.hints import HintReader, is_record, read_enum
from toolcrib.schema.shapes import unwrap
from toolcrib.validation import codec

_MAX_DIGITS = 400
"""Longer numbers are not written out: a Decimal of ten characters can stand for gigabytes of digits."""


class _Opaque:
    __slots__ = ()

    def __repr__(self) -> str:
        return "OPAQUE"


OPAQUE: Final = _Opaque()
"""A value that cannot be compared with anything."""
CANNOT_BE_SHOWN: Final = "(cannot be shown)"

FieldsOf = Callable[[Any, Mapping[str, Any]], Iterable[tuple[str, str]]]
"""Returns pairs of attribute and JSON name for an object that was made of this mapping."""


class Received(Mapping[str, Any]):
    """The arguments of one call as the tool gets them, by published name.

    Arguments that were left out have their default, unless the schema publishes it. Each value becomes
    plain data when it is first used. `sent` has the arguments as the client sent them.
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
        """Return the sent arguments as shown to a person: the whole value that the tool gets.

        Where a part of a value cannot be shown, the value that was sent is shown beside it.
        """
        return {
            name: _show(self._values[name], item) if name in self._values else item
            for name, item in self.sent.items()
        }


def _show(value: Any, sent: Any) -> Any:
    received = plain_value(value, sent, _fields_to_show)
    visible = _replace_opaque(received)
    return visible if visible == received else {"received": visible, "sent": sent}


def _replace_opaque(value: Any) -> Any:
    if value is OPAQUE:
        return CANNOT_BE_SHOWN
    if isinstance(value, dict):
        return {name: _replace_opaque(item) for name, item in value.items()}
    return [_replace_opaque(item) for item in value] if isinstance(value, list) else value


def plain_value(value: Any, sent: Any = None, fields_of: FieldsOf | None = None) -> Any:
    """Return `value`, which was made of `sent`, as JSON data; parts without a plain form are OPAQUE."""
    try:
        make = _BY_TYPE.get(type(value))
        return _plain(value, sent, fields_of or _published_fields) if make is None else make(value)
    except Exception:  # the author's code runs here: properties, `__str__`, `__iter__`
        return OPAQUE


def _plain(value: Any, sent: Any, fields_of: FieldsOf) -> Any:
    cls: Any = type(value)
    if _is_record(cls):
        return _plain_record(value, sent, fields_of)
    if isinstance(value, enum.Enum):
        return value.value if isinstance(value, enum.Flag) else _values_of_enum(type(value))[value.name]
    for kind, make in _BY_CLASS:
        if isinstance(value, kind):
            return make(value)
    if isinstance(value, _BYTES):
        return _plain_bytes(bytes(value), sent)
    if isinstance(value, Mapping):
        sent = sent if isinstance(sent, Mapping) else {}
        pairs = ((_plain_key(key), item) for key, item in value.items())
        plain = {key: plain_value(item, sent.get(key), fields_of) for key, item in pairs}
        return plain if len(plain) == len(value) else OPAQUE  # 1 and "1" are two keys, and the same in JSON
    if isinstance(value, _LIST_ITERATOR):
        value = list(copy(value))  # the tool has to find all of its items
    if isinstance(value, Sequence | Set):
        items = _plain_items(value, sent, fields_of)
        return items if isinstance(value, Sequence) else sort_set(items)
    if hasattr(value, "get_secret_value"):
        return plain_value(value.get_secret_value(), sent, fields_of)
    is_text = _SHOWN_AS_TEXT.intersection(base.__module__ for base in cls.__mro__)
    return str(value) if is_text else OPAQUE


def _plain_items(value: Any, sent: Any, fields_of: FieldsOf) -> list[Any]:
    kinds = set(map(type, value))
    if kinds <= _UNCHANGED or (kinds == {float} and all(map(math.isfinite, value))):
        return list(value)  # half a million numbers take 10 ms, one by one 300 ms
    is_same_length = isinstance(sent, list) and len(sent) == len(value)
    pairs = zip(value, sent if is_same_length else [None] * len(value), strict=True)
    return [plain_value(item, sent_item, fields_of) for item, sent_item in pairs]


def _plain_float(value: float) -> Any:
    return float.__float__(value) if math.isfinite(value) else OPAQUE


def _plain_decimal(value: decimal.Decimal) -> Any:
    """Return the JSON number that equals a Decimal, if there is one."""
    if not value.is_finite() or abs(value.adjusted()) > _MAX_DIGITS:
        return OPAQUE
    if value == value.to_integral_value():
        return int(value)
    near = float(value)
    return near if decimal.Decimal(repr(near)) == value else OPAQUE


def _plain_bytes(value: bytes, sent: Any) -> Any:
    """Return the text that bytes were sent as: base64 for some types, the text itself for others.

    Bytes that were changed on the way have no known form.
    """
    is_same = isinstance(sent, str) and (sent.encode() == value or sent == base64.b64encode(value).decode())
    return sent if is_same else OPAQUE


def _plain_key(key: Any) -> str:
    plain = plain_value(key)
    return plain if isinstance(plain, str) else codec.encode_text(plain)


_SHOWN_AS_TEXT = frozenset({"fractions", "ipaddress", "pydantic.networks", "zoneinfo"})
"""Modules of classes whose objects are completely described by their text."""
_LIST_ITERATOR: Any = type(iter([]))
_BYTES = (bytes, bytearray, memoryview)
_BY_CLASS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, _plain_float),
    (decimal.Decimal, _plain_decimal),
    ((dt.date, dt.time, dt.timedelta), pydantic_types.to_plain),
    ((uuid.UUID, PurePath, complex), str),
    (re.Pattern, lambda value: value.pattern),
)
_UNCHANGED: frozenset[type] = frozenset({str, int, bool, type(None)})
_BY_TYPE: Mapping[type, Callable[[Any], Any]] = {
    **dict.fromkeys(_UNCHANGED, lambda value: value),
    **dict.fromkeys((dt.date, dt.datetime, dt.time, dt.timedelta), pydantic_types.to_plain),
    float: _plain_float,
    decimal.Decimal: _plain_decimal,
    uuid.UUID: str,
}
"""The same by exact type: most values are found here at once."""


# --- classes -----------------------------------------------------------------------------------------


@lru_cache(maxsize=1_000)
def _is_record(cls: Any) -> bool:
    """Whether objects of a class are read by their fields, and are not text, numbers or enums as well."""
    return is_record(cls) and not issubclass(cls, (enum.Enum, *_BYTES, *(kind for kind, _ in _BY_CLASS)))


def _plain_record(value: Any, sent: Any, fields_of: FieldsOf) -> Any:
    cls: Any = type(value)
    if getattr(cls, "__pydantic_root_model__", False):
        return plain_value(value.root, sent, fields_of)
    sent = sent if isinstance(sent, Mapping) else {}
    extra = getattr(value, "__pydantic_extra__", None) or {}
    plain = {name: plain_value(item, sent.get(name), fields_of) for name, item in extra.items()}
    for attribute, name in fields_of(value, sent):
        plain[name] = plain_value(getattr(value, attribute), sent.get(name), fields_of)
    return plain


def _published_fields(value: Any, _: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    cls: Any = type(value)
    return _fields_of_class(cls)


def _fields_to_show(value: Any, sent: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Return each field once, by the name that it was sent by.

    Ids and times from a default factory are left out: nobody has set them, and they would be different when
    the confirmation comes.
    """
    names: dict[str, str] = {}
    for attribute, name in _published_fields(value, sent):
        if attribute not in names or name in sent:
            names[attribute] = name
    for attribute in pydantic_types.factory_made_fields(value):
        if type(getattr(value, attribute)) in _BY_TYPE:
            del names[attribute]
    return names.items()


@lru_cache(maxsize=1_000)
def _fields_of_class(cls: Any) -> tuple[tuple[str, str], ...]:
    """Return pairs of attribute and published name for the fields of a class."""
    if pydantic_types.is_pydantic(cls):
        return pydantic_types.published_names(cls)
    fields = getattr(unwrap(HintReader().shape(cls)), "fields", ())
    return tuple((item.attribute, item.name) for item in fields if item.attribute is not None)


@lru_cache(maxsize=1_000)
def _values_of_enum(cls: Any) -> dict[str, Any]:
    """Return the JSON values of the members by name."""
    shape: Any = unwrap(read_enum(cls))
    names = [member.name for member in shape.members]
    return dict(zip(names, shape.values, strict=True))
