"""Fixed sets of values: `Literal` and the kinds of `Enum`.

Knows that JSON cannot say every value: those members go by their names. Words about an Enum and its members
come from its docstring.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

from toolcrib.errors import InvalidSignatureError
from toolcrib.schema.docstrings import parse_docstring
from toolcrib.schema.shapes import OneOf, Refined, Scalar, Shape
from toolcrib.validation import codec

_PLAIN = (str, int, float, bool, type(None))


def read_literal(values: tuple[Any, ...]) -> OneOf:
    plain = tuple(_plain_value(value) for value in values)
    return OneOf(plain, None if _are_same(plain, values) else values)


def merge_literals(options: Iterable[OneOf]) -> OneOf:
    """One set out of several, each value once."""
    pairs = {
        (type(value), value): member
        for option in options
        for value, member in zip(option.values, option.members or option.values, strict=True)
    }
    values = tuple(value for _, value in pairs)
    members = tuple(pairs.values())
    return OneOf(values, None if _are_same(values, members) else members)


def name_keys(option: OneOf) -> OneOf:
    """The same set as keys of an object, which are strings."""
    keys = tuple(value if isinstance(value, str) else codec.encode_text(value) for value in option.values)
    return OneOf(keys, option.members or option.values)


def read_enum(cls: type[enum.Enum]) -> Shape:
    members = tuple(cls)
    if not members:
        raise InvalidSignatureError(f"the enum {cls.__name__} has no members", hint="give it some")
    if issubclass(cls, enum.Flag):
        return _read_flag(cls, members)
    values = tuple(member.value for member in members)
    if not all(type(value) in _PLAIN for value in values):
        values = tuple(member.name for member in members)
    words = _words_of(cls, {member.name: value for member, value in zip(members, values, strict=True)})
    shape = OneOf(values, members)
    return Refined(shape, {"description": words}) if words else shape


def _read_flag(cls: type[enum.Enum], members: tuple[enum.Enum, ...]) -> Shape:
    """Flags travel as the sum of their bits, so their names have to be told in words."""
    bits = {member.name: member.value for member in members}
    words = "sum of " + ", ".join(f"{value} ({name})" for name, value in bits.items())
    every = 0
    for value in bits.values():
        every |= value
    keywords = {"minimum": 0, "maximum": every, "description": words}
    return Refined(Scalar("integer", python=cls), keywords)


def _words_of(cls: type[enum.Enum], values: dict[str, Any]) -> str:
    """The docstring of an Enum, and below it what its `Attributes:` say of the values."""
    docs = parse_docstring(cls.__dict__.get("__doc__"))
    lines = [f"- {values[item.name]}: {item.description}" for item in docs.attributes if item.name in values]
    return "\n".join([docs.description, *lines] if docs.description else lines)


def _are_same(values: tuple[Any, ...], members: tuple[Any, ...]) -> bool:
    """Whether no member has to be made; equality would not do, an IntEnum equals its value."""
    return all(value is member for value, member in zip(values, members, strict=True))


def _plain_value(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        value = value.value if type(value.value) in _PLAIN else value.name
    return value.decode("latin-1") if isinstance(value, bytes) else value
