"""What `Annotated[...]` and `Field(...)` say beside a type: words, bounds, an alias, a default.

Reads pydantic's, annotated-types' and msgspec's objects by their attributes, so that none of these
packages has to be loaded. Refuses to know shapes beyond hanging keywords on them.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from toolcrib.errors import InvalidSignatureError
from toolcrib.schema import pydantic as rich
from toolcrib.schema.annotations import origin_of
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
from toolcrib.validation.validator import check_schema

_NUMBER_WORDS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
}
_LENGTH_WORDS = {
    "string": {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}
_WORDS = {**_LENGTH_WORDS, "integer": _NUMBER_WORDS, "number": _NUMBER_WORDS}
_BOUNDS = (*_NUMBER_WORDS, *_LENGTH_WORDS["string"])
_CHANGES_TEXT = ("strip_whitespace", "to_upper", "to_lower", "ascii_only")
_REQUIRED = {"Required": True, "NotRequired": False}
_QUALIFIERS = (*_REQUIRED, "ReadOnly", "Final", "ClassVar")
_PREDICATES = ("Predicate", "Not")  # of annotated-types: code, which only pydantic runs


@dataclass(slots=True)
class Notes:
    """Everything said beside one type.

    `required` is what `Required` and `NotRequired` say. `needs_pydantic`: only pydantic can honour all of it.
    """

    description: str = ""
    alias: str | None = None
    default: Any = MISSING
    factory: Callable[[], Any] | None = None
    required: bool | None = None
    bounds: dict[str, Any] = field(default_factory=dict)
    keywords: dict[str, Any] = field(default_factory=dict)
    needs_pydantic: bool = False


SILENCE: Final = Notes()
"""What is said beside most types. Not to be changed."""


def split_annotated(hint: Any) -> tuple[Any, Notes]:
    """The bare type and what was said beside it; of two that say the same thing, the last wins."""
    if type(hint) is type:
        return hint, SILENCE
    notes = Notes()
    while (origin := origin_of(hint)) is not None:
        if origin is typing.Annotated:
            for item in hint.__metadata__:
                read_note(item, notes)
            hint = hint.__origin__
        elif is_qualifier(origin):
            notes.required = _REQUIRED.get(origin._name, notes.required)
            hint = hint.__args__[0]
        else:
            break
    return hint, notes


def is_qualifier(origin: Any) -> bool:
    """Whether this is `Required`, `Final` or the like, of typing or of typing_extensions."""
    return getattr(origin, "_name", None) in _QUALIFIERS


def read_note(item: Any, notes: Notes) -> None:
    """Take one piece of metadata into `notes`; what it does not understand it leaves."""
    kind = type(item)
    if kind is str:
        notes.description = item
    elif is_field(item):
        _read_field(item, notes)
    elif kind.__name__ == "Doc":
        notes.description = item.documentation
    elif kind.__module__.startswith("msgspec"):
        _read_meta(item, notes)
    elif not _read_bounds(item, notes):
        package = kind.__module__.partition(".")[0]
        if package.startswith("pydantic") or (package == "annotated_types" and kind.__name__ in _PREDICATES):
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
    elif alias is not None:
        notes.needs_pydantic = True
    if info.discriminator is not None or callable(info.json_schema_extra):
        notes.needs_pydantic = True
    if not _is_undefined(info.default):
        notes.default = info.default
    elif info.default_factory is not None:
        notes.factory = info.default_factory
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


def _read_meta(meta: Any, notes: Notes) -> None:
    """msgspec's Meta: bounds under the usual names, and words."""
    _read_bounds(meta, notes)
    notes.description = meta.description or notes.description
    if meta.title:
        notes.keywords["title"] = meta.title
    if meta.examples:
        notes.keywords["examples"] = list(meta.examples)
    notes.keywords.update(meta.extra_json_schema or {})


def _read_bounds(item: Any, notes: Notes) -> bool:
    """Take the bounds out of any object that has them under the usual names; False if it has none."""
    found = {name: getattr(item, name, None) for name in _BOUNDS}
    found = {name: value for name, value in found.items() if value is not None and not callable(value)}
    for name, value in found.items():
        notes.bounds[name] = value.pattern if isinstance(value, re.Pattern) else value
        if name in _NUMBER_WORDS and not isinstance(value, int | float | Decimal):
            notes.needs_pydantic = True  # an earliest date, a longest duration: no schema says that
    if any(getattr(item, name, None) for name in _CHANGES_TEXT):
        notes.needs_pydantic = True
    return bool(found) or hasattr(item, "strict")


def refine(shape: Shape, notes: Notes) -> Shape:
    """The shape with the bounds and keywords of `notes`; raises where they are wrong or do not apply."""
    keywords = rich.to_plain(notes.keywords)
    pattern = {"pattern": notes.bounds["pattern"]} if "pattern" in notes.bounds else {}
    if keywords or pattern:
        check_schema({**keywords, **pattern})
    if notes.bounds:
        shape, used = _bound(shape, notes.bounds)
        unused = [name for name in notes.bounds if name not in used]
        if unused:
            raise InvalidSignatureError(
                f"{', '.join(unused)} cannot bound this type", hint="bound a type that it applies to"
            )
    return Refined(shape, keywords) if keywords else shape


def _bound(shape: Shape, bounds: dict[str, Any]) -> tuple[Shape, Set[str]]:
    """The shape within those bounds that apply to it, and which they were; of a union, to each member."""
    match shape:
        case Either(options=options):
            parts = [_bound(option, bounds) for option in options]
            return Either(tuple(part for part, _ in parts)), {name for _, used in parts for name in used}
        case OneOf():
            return shape, bounds.keys()  # its values are told one by one
        case Named(target=target) if not isinstance(target, Record):
            return _bound(target, bounds)
    words = _WORDS.get(_json_kind(shape), {})
    keywords = {words[name]: _plain_bound(value) for name, value in bounds.items() if name in words}
    return (Refined(shape, keywords) if keywords else shape), words.keys()


def _plain_bound(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


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
