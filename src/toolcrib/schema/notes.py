"""What `Annotated[...]` and `Field(...)` say beside a type: words, bounds, an alias, a default.

Reads pydantic's, annotated-types' and msgspec's objects by their attributes, so that none of these
packages has to be loaded. Refuses to know shapes beyond hanging keywords on them.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from toolcrib.schema.shapes import (
    MISSING,
    Array,
    Either,
    Named,
    OneOf,
    Record,
    Refined,
    Row,
    Scalar,
    Shape,
    Table,
)

_BOUNDS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
_NUMBER_WORDS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
}
_LENGTH_WORDS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_CHANGES_TEXT = ("strip_whitespace", "to_upper", "to_lower")


@dataclass(slots=True)
class Notes:
    """Everything said beside one type. `needs_pydantic`: only pydantic can honour what is said."""

    description: str = ""
    alias: str | None = None
    default: Any = MISSING
    bounds: dict[str, Any] = field(default_factory=dict)
    keywords: dict[str, Any] = field(default_factory=dict)
    needs_pydantic: bool = False


def split_annotated(hint: Any) -> tuple[Any, Notes]:
    """The bare type and what was said beside it."""
    notes = Notes()
    while typing.get_origin(hint) is typing.Annotated:
        for item in hint.__metadata__:
            read_note(item, notes)
        hint = hint.__origin__
    return hint, notes


def read_note(item: Any, notes: Notes) -> None:
    """Take one piece of metadata into `notes`; what it does not understand it leaves."""
    if isinstance(item, str):
        notes.description = item
    elif is_field(item):
        _read_field(item, notes)
    elif type(item).__name__ == "Doc":
        notes.description = item.documentation
    elif not _read_bounds(item, notes) and type(item).__module__.partition(".")[0].startswith("pydantic"):
        notes.needs_pydantic = True


def is_field(item: Any) -> bool:
    """Whether this is what pydantic's `Field(...)` returns."""
    return type(item).__name__ == "FieldInfo" and type(item).__module__.startswith("pydantic")


def _is_undefined(value: Any) -> bool:
    return value is ... or type(value).__name__ == "PydanticUndefinedType"


def _read_field(info: Any, notes: Notes) -> None:
    if info.description:
        notes.description = info.description
    alias = info.validation_alias or info.alias
    if isinstance(alias, str):
        notes.alias = alias
    elif alias is not None or info.discriminator is not None or callable(info.json_schema_extra):
        notes.needs_pydantic = True
    if not _is_undefined(info.default):
        notes.default = info.default
    elif info.default_factory is not None and not getattr(
        info, "default_factory_takes_validated_data", False
    ):
        notes.default = info.default_factory()
    if info.title:
        notes.keywords["title"] = info.title
    if info.examples:
        notes.keywords["examples"] = list(info.examples)
    if info.deprecated:
        notes.keywords["deprecated"] = True
    if isinstance(info.json_schema_extra, dict):
        notes.keywords.update(info.json_schema_extra)
    for item in info.metadata:
        read_note(item, notes)


def _read_bounds(item: Any, notes: Notes) -> bool:
    found = {name: value for name in _BOUNDS if (value := getattr(item, name, None)) is not None}
    if any(getattr(item, name, None) for name in _CHANGES_TEXT):
        notes.needs_pydantic = True
    for name, value in found.items():
        notes.bounds[name] = getattr(value, "pattern", value) if name == "pattern" else value
    if isinstance(getattr(item, "description", None), str):  # msgspec.Meta
        notes.description = item.description
        return True
    return bool(found) or hasattr(item, "strict")


def refine(shape: Shape, notes: Notes) -> Shape:
    """The shape with the bounds and keywords of `notes`, where they apply to it."""
    if notes.bounds:
        shape = _bound(shape, notes.bounds)
    return Refined(shape, dict(notes.keywords)) if notes.keywords else shape


def _bound(shape: Shape, bounds: dict[str, Any]) -> Shape:
    match shape:
        case Either(options=options):
            return Either(tuple(_bound(option, bounds) for option in options))
        case Scalar(kind="null") | OneOf():
            return shape
        case Named(target=target) if not isinstance(target, Record):
            return _bound(target, bounds)
    keywords = dict(_keywords(_json_kind(shape), bounds.items()))
    return Refined(shape, keywords) if keywords else shape


def _json_kind(shape: Shape) -> str:
    match shape:
        case Scalar(kind=kind):
            return kind
        case Array() | Row():
            return "array"
        case Table() | Record() | Named():
            return "object"
        case Refined(base=base):
            return _json_kind(base)
    return ""


def _keywords(kind: str, bounds: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
    for name, value in bounds:
        if name in _NUMBER_WORDS and kind in ("integer", "number"):
            yield _NUMBER_WORDS[name], value if isinstance(value, int | float) else float(value)
        elif name in ("min_length", "max_length") and kind in _LENGTH_WORDS:
            yield _LENGTH_WORDS[kind][name == "max_length"], value
        elif name == "pattern" and kind == "string":
            yield "pattern", value
