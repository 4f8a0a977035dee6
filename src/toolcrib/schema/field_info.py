"""The metadata in `Annotated[...]` and `Field(...)`: description, bounds, alias, default.

Objects of pydantic, annotated-types and msgspec are recognised by their attributes, so that none of these
packages has to be loaded.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from toolcrib.errors import InvalidSignatureError
from toolcrib.schema.annotations import origin_of
from toolcrib.schema.pydantic_types import to_plain
from toolcrib.schema.shapes import (
    MISSING,
    Array,
    Constrained,
    Dictionary,
    Enumeration,
    FixedArray,
    Named,
    Record,
    Scalar,
    Shape,
    Union,
)
from toolcrib.validation.validator import check_schema

_NUMBER_KEYWORDS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
}
_KEYWORDS = {
    "string": {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
    "integer": _NUMBER_KEYWORDS,
    "number": _NUMBER_KEYWORDS,
}
_BOUNDS = (*_NUMBER_KEYWORDS, *_KEYWORDS["string"])
_TEXT_CHANGES = ("strip_whitespace", "to_upper", "to_lower", "ascii_only")
_REQUIRED = {"Required": True, "NotRequired": False}
_QUALIFIERS = (*_REQUIRED, "ReadOnly", "Final", "ClassVar")
_PREDICATES = ("Predicate", "Not")  # of annotated-types: code that only pydantic runs


@dataclass(slots=True)
class FieldInfo:
    """The metadata of one type.

    `required` comes from `Required` and `NotRequired`. With `needs_pydantic`, only pydantic can enforce all
    of it.
    """

    description: str = ""
    alias: str | None = None
    default: Any = MISSING
    factory: Callable[[], Any] | None = None
    required: bool | None = None
    bounds: dict[str, Any] = field(default_factory=dict)
    keywords: dict[str, Any] = field(default_factory=dict)
    needs_pydantic: bool = False


NO_INFO: Final = FieldInfo()
"""Shared by all types without metadata; not to be changed."""


def split_annotated(hint: Any) -> tuple[Any, FieldInfo]:
    """Return the bare type and its metadata; where two items contradict each other, the last wins."""
    if type(hint) is type:
        return hint, NO_INFO
    info = FieldInfo()
    while (origin := origin_of(hint)) is not None:
        if origin is typing.Annotated:
            for item in hint.__metadata__:
                _read_metadata(item, info)
            hint = hint.__origin__
        elif is_qualifier(origin):
            info.required = _REQUIRED.get(origin._name, info.required)
            hint = hint.__args__[0]
        else:
            break
    return hint, info


def is_qualifier(origin: Any) -> bool:
    """Whether this is `Required`, `Final` or the like, of typing or typing_extensions."""
    return getattr(origin, "_name", None) in _QUALIFIERS


def is_pydantic_field(item: Any) -> bool:
    """Whether this was made by pydantic's `Field(...)`."""
    return type(item).__name__ == "FieldInfo" and type(item).__module__.startswith("pydantic")


def _read_metadata(item: Any, info: FieldInfo) -> None:
    """Add one item of metadata to `info`; unknown ones are ignored."""
    kind = type(item)
    if kind is str:
        info.description = item
    elif is_pydantic_field(item):
        _read_pydantic_field(item, info)
    elif kind.__name__ == "Doc":
        info.description = item.documentation
    elif kind.__module__.startswith("msgspec"):
        _read_msgspec_meta(item, info)
    elif not _read_bounds(item, info):
        package = kind.__module__.partition(".")[0]
        if package.startswith("pydantic") or (package == "annotated_types" and kind.__name__ in _PREDICATES):
            info.needs_pydantic = True


def _read_pydantic_field(item: Any, info: FieldInfo) -> None:
    if item.description:
        info.description = item.description
    alias = item.validation_alias or item.alias
    if isinstance(alias, str):
        info.alias = alias
    elif alias is not None:
        info.needs_pydantic = True
    if item.discriminator is not None or callable(item.json_schema_extra):
        info.needs_pydantic = True
    if item.default is not ... and type(item.default).__name__ != "PydanticUndefinedType":
        info.default = item.default
    elif item.default_factory is not None:
        info.factory = item.default_factory
    if item.title:
        info.keywords["title"] = item.title
    if item.examples:
        info.keywords["examples"] = list(item.examples)
    if item.deprecated:
        info.keywords["deprecated"] = True
    if isinstance(item.json_schema_extra, dict):
        info.keywords.update(item.json_schema_extra)
    for inner in item.metadata:
        _read_metadata(inner, info)


def _read_msgspec_meta(meta: Any, info: FieldInfo) -> None:
    _read_bounds(meta, info)
    info.description = meta.description or info.description
    if meta.title:
        info.keywords["title"] = meta.title
    if meta.examples:
        info.keywords["examples"] = list(meta.examples)
    info.keywords.update(meta.extra_json_schema or {})


def _read_bounds(item: Any, info: FieldInfo) -> bool:
    """Add the bounds of any object that has them under the usual names; return False if it has none."""
    found = {name: getattr(item, name, None) for name in _BOUNDS}
    found = {name: value for name, value in found.items() if value is not None and not callable(value)}
    for name, value in found.items():
        info.bounds[name] = value.pattern if isinstance(value, re.Pattern) else value
        if name in _NUMBER_KEYWORDS and not isinstance(value, int | float | Decimal):
            info.needs_pydantic = True  # an earliest date, a longest duration: no schema says that
    if any(getattr(item, name, None) for name in _TEXT_CHANGES):
        info.needs_pydantic = True
    return bool(found) or hasattr(item, "strict")


def constrain(shape: Shape, info: FieldInfo) -> Shape:
    """Return the shape with the bounds and keywords of `info`; raise where they are wrong or do not apply."""
    keywords = to_plain(info.keywords)
    pattern = {"pattern": info.bounds["pattern"]} if "pattern" in info.bounds else {}
    if keywords or pattern:
        check_schema({**keywords, **pattern})
    if info.bounds:
        shape, used = _bound(shape, info.bounds)
        unused = [name for name in info.bounds if name not in used]
        if unused:
            raise InvalidSignatureError(
                f"{', '.join(unused)} cannot bound this type", hint="remove the bound or change the type"
            )
    return Constrained(shape, keywords) if keywords else shape


def _bound(shape: Shape, bounds: dict[str, Any]) -> tuple[Shape, Set[str]]:
    """Return the shape within the bounds that apply to it, and their names; in a union, each member."""
    match shape:
        case Union(options=options):
            parts = [_bound(option, bounds) for option in options]
            return Union(tuple(part for part, _ in parts)), {name for _, used in parts for name in used}
        case Enumeration():
            return shape, bounds.keys()  # its values are listed
        case Named(target=target) if not isinstance(target, Record):
            return _bound(target, bounds)
    names = _KEYWORDS.get(_json_type(shape), {})
    keywords = {
        names[name]: float(value) if isinstance(value, Decimal) else value
        for name, value in bounds.items()
        if name in names
    }
    return (Constrained(shape, keywords) if keywords else shape), names.keys()


def _json_type(shape: Shape) -> str:
    match shape:
        case Scalar(kind=kind):
            return kind
        case Array() | FixedArray():
            return "array"
        case Dictionary() | Record() | Named():
            return "object"
        case Constrained(base=base):
            return _json_type(base)
    return ""
