"""Classes with fields become records: dataclasses, TypedDicts, NamedTuples, attrs and pydantic classes.

The description of a field comes from the field itself, else from the `Attributes:` or `Args:` section of
the docstring of the class, or of the class it was inherited from.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from toolcrib.schema import pydantic_types
from toolcrib.schema.annotations import arguments_by_class, origin_of, resolve_class_hints, substitute
from toolcrib.schema.converters import published_default
from toolcrib.schema.docstrings import parse_docstring
from toolcrib.schema.field_info import FieldInfo, split_annotated
from toolcrib.schema.shapes import MISSING, Constrained, Field, Record, Shape

ReadHint = Callable[[Any], tuple[Shape, FieldInfo]]
_CONTAINERS = (list, dict, set, frozenset, tuple)


def is_record(hint: type) -> bool:
    return (
        dataclasses.is_dataclass(hint)
        or is_typeddict(hint)
        or hasattr(hint, "__attrs_attrs__")
        or pydantic_types.is_pydantic(hint)
        or (issubclass(hint, tuple) and hasattr(hint, "_fields"))
    )


def is_typeddict(hint: type) -> bool:
    """Whether this is a TypedDict of typing, or of typing_extensions, which is not loaded for it."""
    return typing.is_typeddict(hint) or type(hint).__name__ == "_TypedDictMeta"


def read_record(hint: Any, read: ReadHint, mode: pydantic_types.Mode) -> Shape:
    """Return the shape of a class with fields; `hint` may be a generic class with its arguments."""
    reader = _FieldReader(hint, read, mode)
    return (
        _read_pydantic(reader)
        if pydantic_types.is_pydantic(reader.cls)
        else reader.record(list(reader.fields()))
    )


def constant_of(factory: Callable[[], Any]) -> Any:
    """Return what a default factory makes if that is an empty container, else None.

    Other factories are not called for a definition: they may count, or tell the time.
    """
    return factory() if factory in _CONTAINERS else None


class _FieldReader:
    """Reads the fields of one class: on input what the constructor takes, on output what the object has."""

    def __init__(self, hint: Any, read: ReadHint, mode: pydantic_types.Mode) -> None:
        self.hint = hint
        self.cls: Any = origin_of(hint) or hint
        self.read = read
        self.mode = mode
        self.is_input = mode == "validation"
        self.arguments = arguments_by_class(hint)
        docs = parse_docstring(_docstring_of(self.cls))
        self.description = docs.description
        self.descriptions = {item.name: item.description for item in (*docs.params, *docs.attributes)}
        for base in self.cls.__mro__[1:]:
            inherited = parse_docstring(_docstring_of(base)) if is_record(base) else parse_docstring(None)
            for item in (*inherited.params, *inherited.attributes):
                self.descriptions.setdefault(item.name, item.description)

    def record(self, fields: list[Field]) -> Record:
        return Record(self.cls.__name__, fields, self.description, _is_closed(self.cls), python=self.cls)

    def fields(self) -> Iterator[Field]:
        self.hints = resolve_class_hints(self.cls)
        if is_typeddict(self.cls):
            return self.typed_dict()
        if dataclasses.is_dataclass(self.cls):
            return self.dataclass()
        if hasattr(self.cls, "__attrs_attrs__"):
            return self.attrs()
        return self.named_tuple()

    def field(self, name: str, hint: Any, default: Any = MISSING, *, description: str = "") -> Field:
        shape, info = self.read(hint)
        if default is MISSING:
            default = info.default if info.factory is None else constant_of(info.factory)
        return Field(
            info.alias or name,
            shape,
            required=default is MISSING if info.required is None else info.required,
            default=published_default(shape, default) if self.is_input else MISSING,
            description=description or info.description or self.descriptions.get(name, ""),
            keyword=name,
            attribute=name,
        )

    def hint_of(self, name: str) -> Any:
        """Return the hint of a field, with the arguments of the class that declares it."""
        hint = self.hints.get(name, Any)
        for cls, arguments in self.arguments.items():
            if arguments and name in inspect.get_annotations(cls):
                return substitute(hint, arguments)
        return hint

    def typed_dict(self) -> Iterator[Field]:
        for name in self.hints:
            default = MISSING if name in self.cls.__required_keys__ else None
            yield self.field(name, self.hint_of(name), default)

    def dataclass(self) -> Iterator[Field]:
        for item in self.cls.__dataclass_fields__.values():
            hint = self.hint_of(item.name)
            is_init_only = isinstance(hint, dataclasses.InitVar)
            if hint is ClassVar or origin_of(hint) is ClassVar:
                continue
            if is_init_only if not self.is_input else not item.init:
                continue
            default: Any = MISSING
            if item.default is not dataclasses.MISSING:
                default = item.default
            elif item.default_factory is not dataclasses.MISSING:
                default = constant_of(item.default_factory)
            description = item.metadata.get("description", "")
            made = self.field(item.name, hint, default, description=description)
            made.attribute = None if is_init_only else item.name
            yield made

    def attrs(self) -> Iterator[Field]:
        for item in self.cls.__attrs_attrs__:
            if self.is_input and not item.init:
                continue
            default: Any = MISSING
            if type(item.default).__name__ == "Factory":
                default = None if item.default.takes_self else constant_of(item.default.factory)
            elif getattr(item.default, "name", None) != "NOTHING":
                default = item.default
            description = item.metadata.get("description", "")
            made = self.field(item.name, self.hint_of(item.name), default, description=description)
            made.name = made.keyword = item.alias
            yield made

    def named_tuple(self) -> Iterator[Field]:
        for name in self.cls._fields:
            yield self.field(name, self.hint_of(name), self.cls._field_defaults.get(name, MISSING))

    def pydantic(self) -> Iterator[Field]:
        by_alias = pydantic_types.config_of(self.cls).get("validate_by_alias") is not False
        for name, info in pydantic_types.fields_of(self.cls).items():
            hint = substitute(info.annotation, self.arguments[self.cls])
            made = self.field(name, typing.Annotated[hint, info])
            if not self.is_input:
                made.name = info.serialization_alias or name
            elif by_alias:
                made.keyword = made.name
            else:
                made.name = name
            yield made


def _read_pydantic(reader: _FieldReader) -> Shape:
    """Read a pydantic class by its fields where they say everything, else let pydantic describe it."""
    infos = pydantic_types.fields_of(reader.cls)
    metadata = [split_annotated(typing.Annotated[Any, info])[1] for info in infos.values()]
    needs_pydantic = any(info.needs_pydantic for info in metadata)
    if not needs_pydantic and pydantic_types.is_described_by_fields(reader.cls, reader.mode):
        extra = pydantic_types.config_of(reader.cls).get("json_schema_extra")
        record = reader.record(list(reader.pydantic()))
        return Constrained(record, dict(extra)) if extra else record
    shape = pydantic_types.external_shape(reader.hint, reader.mode)
    properties = shape.schema.get("properties", {})
    for name, info in infos.items():
        alias = info.validation_alias if reader.is_input else info.serialization_alias
        if name in reader.descriptions and (alias or name) in properties:
            properties[alias or name].setdefault("description", reader.descriptions[name])
    if reader.descriptions and reader.description:
        shape.schema["description"] = reader.description
    return shape


def _is_closed(cls: Any) -> bool:
    extra = pydantic_types.config_of(cls).get("extra") if pydantic_types.is_pydantic(cls) else None
    return extra == "forbid" or getattr(cls, "__closed__", None) is True


def _docstring_of(cls: type) -> str | None:
    text = cls.__dict__.get("__doc__")
    if cls.__module__.partition(".")[0] in ("builtins", "pydantic", "typing"):
        return None
    if isinstance(text, str) and text.startswith(f"{cls.__name__}("):
        return None  # made by @dataclass or NamedTuple
    return text
