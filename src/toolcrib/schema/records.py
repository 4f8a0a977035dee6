"""Classes with fields become records: dataclasses, TypedDicts, NamedTuples, attrs and pydantic classes.

Field descriptions come from the field itself, else from the `Attributes:` or `Args:` of the class's
docstring, or of the class it was inherited from. What a pydantic class says beyond fields and bounds is
rich.py's business.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from toolcrib.schema import pydantic as rich
from toolcrib.schema.annotations import arguments_by_class, hints_of_class, origin_of, substitute
from toolcrib.schema.defaults import publish_default
from toolcrib.schema.docstrings import parse_docstring
from toolcrib.schema.notes import Notes, split_annotated
from toolcrib.schema.shapes import MISSING, Field, Foreign, Record, Refined, Shape, children

ReadHint = Callable[[Any], tuple[Shape, Notes]]
_CONTAINERS = (list, dict, set, frozenset, tuple)


def is_record(hint: type) -> bool:
    return (
        dataclasses.is_dataclass(hint)
        or is_typeddict(hint)
        or hasattr(hint, "__attrs_attrs__")
        or rich.is_pydantic(hint)
        or (issubclass(hint, tuple) and hasattr(hint, "_fields"))
    )


def is_typeddict(hint: type) -> bool:
    """A TypedDict of typing, or of typing_extensions, without loading that."""
    return typing.is_typeddict(hint) or type(hint).__name__ == "_TypedDictMeta"


def read_record(hint: Any, read: ReadHint, mode: rich.Mode) -> Shape:
    """The shape of a class with fields; `hint` may be a generic class with its arguments."""
    reader = _FieldReader(hint, read, mode)
    return _read_pydantic(reader) if rich.is_pydantic(reader.cls) else reader.record(list(reader.fields()))


def value_of(factory: Callable[[], Any]) -> Any:
    """What a default factory would give, as far as it is always the same: an empty container, else None.

    Anybody else's code is not run for a definition: it may count, or tell the time.
    """
    return factory() if factory in _CONTAINERS else None


class _FieldReader:
    """Reads the fields of one class; the flavours differ in where defaults and names are kept.

    Going in, fields are what the constructor takes; coming out, what the object keeps.
    """

    def __init__(self, hint: Any, read: ReadHint, mode: rich.Mode) -> None:
        self.hint = hint
        self.cls: Any = origin_of(hint) or hint
        self.read = read
        self.mode = mode
        self.is_input = mode == "validation"
        self.arguments = arguments_by_class(hint)
        docs = parse_docstring(_own_words(self.cls))
        self.description = docs.description
        self.words = {item.name: item.description for item in (*docs.params, *docs.attributes)}
        for base in self.cls.__mro__[1:]:
            inherited = parse_docstring(_own_words(base)) if is_record(base) else parse_docstring(None)
            for item in (*inherited.params, *inherited.attributes):
                self.words.setdefault(item.name, item.description)

    def record(self, fields: list[Field]) -> Record:
        return Record(self.cls.__name__, fields, self.description, _is_closed(self.cls), python=self.cls)

    def fields(self) -> Iterator[Field]:
        self.hints = hints_of_class(self.cls)
        if is_typeddict(self.cls):
            return self.typed_dict()
        if dataclasses.is_dataclass(self.cls):
            return self.dataclass()
        if hasattr(self.cls, "__attrs_attrs__"):
            return self.attrs()
        return self.named_tuple()

    def field(self, name: str, hint: Any, default: Any = MISSING, *, description: str = "") -> Field:
        shape, notes = self.read(hint)
        if default is MISSING:
            default = notes.default if notes.factory is None else value_of(notes.factory)
        return Field(
            notes.alias or name,
            shape,
            required=default is MISSING if notes.required is None else notes.required,
            default=publish_default(shape, default) if self.is_input else MISSING,
            description=description or notes.description or self.words.get(name, ""),
            keyword=name,
            attribute=name,
        )

    def hint_of(self, name: str) -> Any:
        """The hint of a field, type variables filled in as the class that declares it means them."""
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
            passing = isinstance(hint, dataclasses.InitVar)
            if hint is ClassVar or origin_of(hint) is ClassVar:
                continue
            if passing if not self.is_input else not item.init:
                continue
            default: Any = MISSING
            if item.default is not dataclasses.MISSING:
                default = item.default
            elif item.default_factory is not dataclasses.MISSING:
                default = value_of(item.default_factory)
            words = item.metadata.get("description", "")
            made = self.field(item.name, hint, default, description=words)
            made.attribute = None if passing else item.name
            yield made

    def attrs(self) -> Iterator[Field]:
        for item in self.cls.__attrs_attrs__:
            if self.is_input and not item.init:
                continue
            default: Any = MISSING
            if type(item.default).__name__ == "Factory":
                default = None if item.default.takes_self else value_of(item.default.factory)
            elif getattr(item.default, "name", None) != "NOTHING":
                default = item.default
            words = item.metadata.get("description", "")
            made = self.field(item.name, self.hint_of(item.name), default, description=words)
            made.name = made.keyword = item.alias
            yield made

    def named_tuple(self) -> Iterator[Field]:
        for name in self.cls._fields:
            yield self.field(name, self.hint_of(name), self.cls._field_defaults.get(name, MISSING))

    def pydantic(self) -> Iterator[Field]:
        by_alias = rich.config_of(self.cls).get("validate_by_alias") is not False
        for name, info in rich.fields_of(self.cls).items():
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
    """A pydantic class: by its fields where they say everything, else by pydantic itself."""
    infos = rich.fields_of(reader.cls)
    said = [split_annotated(typing.Annotated[Any, info])[1] for info in infos.values()]
    if rich.tells_all(reader.cls, reader.mode) and not any(notes.needs_pydantic for notes in said):
        fields = list(reader.pydantic())
        if not any(_holds_code(field.shape) for field in fields):
            extra = rich.config_of(reader.cls).get("json_schema_extra")
            record = reader.record(fields)
            return Refined(record, dict(extra)) if extra else record
    shape = rich.foreign(reader.hint, reader.mode)
    properties = shape.schema.get("properties", {})
    for name, info in infos.items():
        alias = info.validation_alias if reader.is_input else info.serialization_alias
        if name in reader.words and (alias or name) in properties:
            properties[alias or name].setdefault("description", reader.words[name])
    if reader.words and reader.description:
        shape.schema["description"] = reader.description
    return shape


def _holds_code(shape: Shape) -> bool:
    """Whether a field is made by validators of its own; those would run again when the model is made."""
    seen: set[int] = set()
    waiting = [shape]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Foreign) and item.python is None:
            return True
        if not isinstance(item, Record) and id(item) not in seen:
            seen.add(id(item))
            waiting.extend(children(item))
    return False


def _is_closed(cls: Any) -> bool:
    extra = rich.config_of(cls).get("extra") if rich.is_pydantic(cls) else None
    return extra == "forbid" or getattr(cls, "__closed__", None) is True


def _own_words(cls: type) -> str | None:
    text = cls.__dict__.get("__doc__")
    if cls.__module__.partition(".")[0] in ("builtins", "pydantic", "typing"):
        return None
    if isinstance(text, str) and text.startswith(f"{cls.__name__}("):
        return None  # the signature that @dataclass and NamedTuple write where there is no docstring
    return text
