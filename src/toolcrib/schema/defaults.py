"""Defaults as JSON says them, and whether they keep to their own type.

Knows shapes and values. What to do about a default that cannot be said is the caller's business.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from toolcrib import definition as wording
from toolcrib.schema import pydantic as rich
from toolcrib.schema.dumper import dumper
from toolcrib.schema.render import to_value_schema
from toolcrib.schema.shapes import MISSING, Array, Foreign, OneOf, Scalar, Shape, Table
from toolcrib.validation import codec
from toolcrib.validation.validator import Validator

UNTOLD: Final = object()
"""The default of a parameter that has one which is not known: its function was read, not imported."""

_PLAIN = (str, int, float, bool)
_SHORT = 1_000
_PLAIN_TYPES = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}


def say_default(shape: Shape, value: Any) -> Any:
    """The default as JSON; raises ValueError or TypeError where it has none, or none that can be shown.

    What depends on the machine, is secret, or a reader could not see is not shown.
    """
    kind = type(value)
    if kind is bool or kind is int or (kind is str and len(value) <= _SHORT and _is_seen(value)):
        return value
    if kind not in _PLAIN:
        if isinstance(value, dt.datetime) and value.tzinfo is None:
            raise ValueError("a time without a zone means something else on another machine")
        if isinstance(shape, Foreign) and shape.schema.get("writeOnly"):
            raise ValueError("a secret is not told")
        dump = dumper(shape)
        value = codec.decode(codec.encode(rich.to_plain(value if dump is None else dump(value))))
    codec.refuse_non_finite(value)
    wording.check_schema_words({"default": value}, "The default")
    return value


def _is_seen(text: str) -> bool:
    """Whether a reader surely sees every character."""
    return text.isascii() and text.isprintable()


def fits(shape: Shape, plain: Any) -> bool:
    """Whether a default keeps to its own schema; the usual ones are compared without the engine."""
    if isinstance(shape, Scalar) and shape.format is None and shape.pattern is None:
        return type(plain) in _PLAIN_TYPES.get(shape.kind, ())
    if (plain == [] and isinstance(shape, Array)) or (plain == {} and isinstance(shape, Table)):
        return True
    if isinstance(shape, OneOf) and plain in shape.values and all(map(_is_plain_text, shape.values)):
        return True
    schema = to_value_schema(shape)
    return not schema or Validator(schema, trusted=True).is_valid(plain)


def _is_plain_text(value: Any) -> bool:
    return type(value) is str and value.isascii()


def publish_default(shape: Shape, value: Any) -> Any:
    """The default as JSON, or MISSING where it is None, has no JSON form or does not keep to its type."""
    if value is None or value is MISSING:
        return MISSING
    try:
        plain = say_default(shape, value)
    except (TypeError, ValueError, RecursionError):
        return MISSING
    return plain if fits(shape, plain) else MISSING
