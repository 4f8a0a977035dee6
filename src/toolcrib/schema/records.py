"""Classes with fields become records: dataclasses, TypedDicts, NamedTuples, attrs classes, pydantic models.

Field descriptions come from the field itself, else from the `Attributes:` or `Args:` of the class's
docstring. What a pydantic model says beyond fields and bounds is rich.py's business.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import Any

from toolcrib.errors import InvalidSignatureError
from toolcrib.schema import rich
from toolcrib.schema.docstrings import Docstring, parse_docstring
from toolcrib.schema.notes import Notes, read_note, refine
from toolcrib.schema.shapes import MISSING, Field, Record, Shape

ReadHint = Callable[[Any], tuple[Shape, Notes]]


def is_record(hint: type) -> bool:
    return (
        dataclasses.is_dataclass(hint)
        or typing.is_typeddict(hint)
        or is_extension_typeddict(hint)
        or hasattr(hint, "__attrs_attrs__")
        or rich.is_model(hint)
        or (issubclass(hint, tuple) and hasattr(hint, "_fields"))
    )


def is_extension_typeddict(hint: Any) -> bool:
    """TypedDict of typing_extensions, without loading that."""
    return type(hint).__name__ == "_TypedDictMeta"


def read_record(hint: Any, read: ReadHint) -> Shape:
    """The shape of a class with fields; `hint` may be a generic class with its arguments."""
    cls = typing.get_origin(hint) or hint
    if rich.is_model(cls):
        return _read_model(hint if isinstance(hint, type) else cls, read)
    docs = _documentation(cls)
    record = Record(cls.__name__, python=cls, description=docs.description)
    reader = _FieldReader(cls, docs, read, _type_arguments(hint))
    if typing.is_typeddict(cls) or is_extension_typeddict(cls):
        record.fields = reader.typed_dict()
        record.closed = getattr(cls, "__closed__", None) is True
    elif dataclasses.is_dataclass(cls):
        record.fields = reader.dataclass()
    elif hasattr(cls, "__attrs_attrs__"):
        record.fields = reader.attrs()
    else:
        record.fields = reader.named_tuple()
    return record


def resolve_hints(cls: type) -> dict[str, Any]:
    """The class's annotations, evaluated; an annotation that cannot be is an error that names it."""
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception as error:
        raise InvalidSignatureError(
            f"Class '{cls.__name__}' has an annotation that cannot be resolved: {error}",
            hint=f"define the name in module {cls.__module__}, or import it there at run time",
        ) from None


def _type_arguments(hint: Any) -> dict[Any, Any]:
    origin = typing.get_origin(hint)
    return (
        dict(zip(getattr(origin, "__parameters__", ()), typing.get_args(hint), strict=False))
        if origin
        else {}
    )


def _documentation(cls: type) -> Docstring:
    text = cls.__dict__.get("__doc__")
    if isinstance(text, str) and text.startswith(f"{cls.__name__}("):
        text = None  # the signature that @dataclass and NamedTuple write where there is no docstring
    return parse_docstring(text)


class _FieldReader:
    """Reads the fields of one class; the flavours differ in where defaults and names are kept."""

    def __init__(self, cls: type, docs: Docstring, read: ReadHint, arguments: dict[Any, Any]) -> None:
        self.cls = cls
        self.hints = resolve_hints(cls)
        self.read = read
        self.arguments = arguments
        self.words = {item.name: item.description for item in (*docs.params, *docs.attributes)}

    def field(self, name: str, default: Any = MISSING, *, key: str | None = None, said: Any = None) -> Field:
        hint = self.hints.get(name, Any)
        shape, notes = self.read(self.arguments.get(hint, hint))
        if said is not None:
            extra = Notes()
            read_note(said, extra)
            shape = refine(shape, extra)
            notes.description = extra.description or notes.description
            notes.alias = extra.alias or notes.alias
            default = extra.default if default is MISSING else default
        if default is MISSING:
            default = notes.default
        return Field(
            key or notes.alias or name,
            shape,
            required=default is MISSING,
            default=plain_default(default),
            description=notes.description or self.words.get(name, ""),
            attribute=name,
        )

    def typed_dict(self) -> list[Field]:
        fields = []
        required: frozenset[str] = self.cls.__required_keys__  # type: ignore[attr-defined]
        for name in self.hints:
            item = self.field(name)
            item.required = name in required
            fields.append(item)
        return fields

    def dataclass(self) -> list[Field]:
        fields = []
        for item in dataclasses.fields(self.cls):
            if not item.init:
                continue
            default: Any = MISSING
            said = None
            if item.default is not dataclasses.MISSING:
                default = item.default
            elif item.default_factory is not dataclasses.MISSING:
                default = item.default_factory()
            if default is not MISSING and type(default).__name__ == "FieldInfo":
                said, default = default, MISSING
            fields.append(self.field(item.name, default, said=said or item.metadata.get("description")))
        return fields

    def attrs(self) -> list[Field]:
        fields = []
        for item in self.cls.__attrs_attrs__:  # type: ignore[attr-defined]
            if not item.init:
                continue
            default: Any = MISSING
            if type(item.default).__name__ == "Factory":
                default = None if item.default.takes_self else item.default.factory()
            elif getattr(item.default, "name", None) != "NOTHING":
                default = item.default
            made = self.field(item.name, default, said=item.metadata.get("description"))
            made.name = made.attribute = item.alias or item.name
            fields.append(made)
        return fields

    def named_tuple(self) -> list[Field]:
        defaults = self.cls._field_defaults  # type: ignore[attr-defined]
        return [self.field(name, defaults.get(name, MISSING)) for name in self.cls._fields]  # type: ignore[attr-defined]


def plain_default(value: Any) -> Any:
    """A default as JSON says it; MISSING for None and for what JSON cannot say."""
    if value is None or value is MISSING:
        return MISSING
    if type(value) in (str, int, float, bool):
        return value
    try:
        return rich.to_plain(value)
    except (TypeError, ValueError, RecursionError):
        return MISSING


def _read_model(model: Any, read: ReadHint) -> Shape:
    """A pydantic model: by its fields where they say everything, else by pydantic itself."""
    if not rich.is_plain_model(model):
        return rich.foreign(model)
    docs = _documentation(model)
    words = {item.name: item.description for item in (*docs.params, *docs.attributes)}
    extra = model.model_config.get("extra")
    record = Record(
        model.__name__,
        python=model,
        description=docs.description,
        closed=extra == "forbid",
        whole=model.model_validate,
        dump=rich.dumper(model),
    )
    for name, info in model.model_fields.items():
        shape, inner = read(info.annotation)
        notes = Notes()
        read_note(info, notes)
        if notes.needs_pydantic or inner.needs_pydantic:
            return rich.foreign(model)
        required = info.is_required()
        record.fields.append(
            Field(
                notes.alias or name,
                refine(shape, notes),
                required=required,
                default=MISSING if required else plain_default(notes.default),
                description=notes.description or inner.description or words.get(name, ""),
                attribute=name,
            )
        )
    return record
