"""A function becomes a blueprint: schemas, words, and how to call it. One pipeline, read top to bottom.

1. Resolve the hints.  2. Read the docstring.  3. Make a field of every parameter.  4. Read the result.
5. Put the words where they belong.  6. Note how arguments get back into the function.

Knows functions, hints and docstrings. Refuses to know registries and calls.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from toolcrib import validation
from toolcrib.content import MEDIA, Result
from toolcrib.context import Context
from toolcrib.definition import ToolOptions, join_words
from toolcrib.errors import DefinitionError, InvalidSignatureError, ToolcribError
from toolcrib.finding import Finding, Level
from toolcrib.schema import rich, shapes
from toolcrib.schema.convert import Convert, dumper, loader
from toolcrib.schema.docstrings import Docstring, parse_docstring, type_hint_of
from toolcrib.schema.hints import HintReader, split_optional
from toolcrib.schema.notes import Notes, is_field, read_note, refine
from toolcrib.schema.parameters import Callee, words_of
from toolcrib.schema.shapes import MISSING, Anything, Either, Field, Scalar, Shape


@dataclass(slots=True)
class Binder:
    """How checked arguments get back into the function.

    `loads` are the parameters that need converting or renaming; `nullable` take an explicit null as None,
    `optional` take it as left out. `specials` are filled in by the caller: the context, the server.
    """

    known: frozenset[str] = frozenset()
    loads: tuple[tuple[str, str, Convert | None], ...] = ()
    nullable: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    positional: tuple[tuple[str, Any], ...] = ()
    context: str | None = None
    server: str | None = None
    whole: str | None = None
    closed: bool = True
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Blueprint:
    """Everything building a tool comes to."""

    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    binder: Binder
    dump: Convert | None = None
    returns: str = ""
    raises: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()
    trusted: bool = True
    findings: list[Finding] = field(default_factory=list)


def build_blueprint(callee: Callee, name: str, options: ToolOptions) -> Blueprint:
    """Run the pipeline; whatever is wrong is an error that names tool, parameter, file and line."""
    try:
        return _Builder(callee, name, options).build()
    except DefinitionError as error:
        error.tool = error.tool or name
        if error.source.file is None:
            error.source = callee.source
        raise


class _Builder:
    def __init__(self, callee: Callee, name: str, options: ToolOptions) -> None:
        self.callee = callee
        self.name = name
        self.options = options
        self.reader = HintReader()
        self.findings: list[Finding] = []
        self.binder = Binder()

    def build(self) -> Blueprint:
        hints = resolve_hints(self.callee, self.name)
        docs = parse_docstring(words_of(self.callee.handler))
        fields = self.read_fields(hints, docs)
        output, dump = self.read_result(hints.get("return", inspect.Parameter.empty))
        explicit = self.options.output_schema
        if explicit is not None:
            validation.check_schema(explicit)
            output, dump = dict(explicit), None
        self.note_stale(docs)
        raises = tuple((item.name, item.description) for item in docs.raises)
        description = docs.description if self.options.description is None else self.options.description
        if output is None:
            description = join_words(description, docs.returns, raises)
        elif docs.returns and explicit is None:
            output = {**output, "description": docs.returns}
        return Blueprint(
            description,
            shapes.to_schema(fields),
            output,
            self.binder,
            dump,
            returns=docs.returns,
            raises=raises,
            tags=docs.tags,
            trusted=explicit is None,
            findings=self.findings,
        )

    # --- parameters ---

    def read_fields(self, hints: dict[str, Any], docs: Docstring) -> list[Field]:
        words = {item.name: item for item in docs.params}
        fields: list[Field] = []
        loads: list[tuple[str, str, Convert | None]] = []
        nullable: set[str] = set()
        optional: set[str] = set()
        positional: list[tuple[str, Any]] = []
        for parameter in self.callee.signature.parameters.values():
            hint = hints.get(parameter.name, inspect.Parameter.empty)
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                positional.append((parameter.name, parameter.default))
            if is_context(hint):
                self.take_context(parameter.name)
                continue
            documented = words.get(parameter.name)
            if hint is inspect.Parameter.empty and documented is not None and documented.type:
                hint = type_hint_of(documented.type) or hint
            field_, accepts_none = self.read_field(parameter, hint)
            if not field_.description and documented is not None:
                field_.description = documented.description
            fields.append(field_)
            loads.append((field_.name, parameter.name, loader(field_.shape)))
            if not field_.required:
                (nullable if accepts_none else optional).add(field_.name)
        self.binder = Binder(
            known=frozenset(item.name for item in fields),
            loads=tuple(item for item in loads if item[2] is not None or item[0] != item[1]),
            nullable=frozenset(nullable),
            optional=frozenset(optional),
            positional=tuple(positional),
            context=self.binder.context,
            attributes={item[0]: item[1] for item in loads},
        )
        return fields

    def take_context(self, name: str) -> None:
        if self.options.run == "process":
            self.refuse(
                name, "cannot have a Context in another process", "drop the parameter or run='thread'"
            )
        self.binder.context = name

    def read_field(self, parameter: inspect.Parameter, hint: Any) -> tuple[Field, bool]:
        name, default = parameter.name, parameter.default
        bare, accepts_none = split_optional(hint)
        said = Notes()
        if is_field(default):
            read_note(default, said)
            default = inspect.Parameter.empty if said.default is MISSING else said.default
        try:
            shape, notes = self.reader.read(bare)
            if default is inspect.Parameter.empty and notes.default is not MISSING:
                default = notes.default
            required = default is inspect.Parameter.empty
            if required and accepts_none:
                shape = Either((shape, Scalar("null"))) if not isinstance(shape, Anything) else shape
            shape = refine(shape, said)
        except ToolcribError as error:
            self.refuse(name, f"has a hint that cannot be used: {error}", getattr(error, "hint", None))
        except Exception as error:  # pydantic's own schema errors, of many types
            self.refuse(name, f"has a hint that cannot be used: {_first_line(error)}", "use a simpler type")
        self.note_unknown(name)
        field_ = Field(
            said.alias or notes.alias or name,
            shape,
            required=required,
            default=MISSING if required else self.publish_default(name, shape, default, accepts_none),
            description=said.description or notes.description,
            attribute=name,
        )
        return field_, accepts_none

    def publish_default(self, name: str, shape: Shape, default: Any, accepts_none: bool) -> Any:
        """The default as JSON, or MISSING; a default that the hint does not admit is refused."""
        if default is None:
            if not accepts_none and not isinstance(shape, Anything):
                text = f"Parameter '{name}' defaults to None, which its hint does not admit"
                self.note("implicit-optional", "warning", text, name, "write `... | None = None`")
            return MISSING
        try:
            dump = dumper(shape)
            plain = rich.to_plain(default if dump is None else dump(default))
        except (TypeError, ValueError, RecursionError):
            text = f"The default of parameter '{name}' has no JSON form and is not published"
            self.note("unpublished-default", "advice", text, name, "use None and set it inside")
            return MISSING
        if not _fits(shape, plain):
            self.refuse(
                name, f"has the default {default!r}, which its own hint refuses", "change one of them"
            )
        return plain

    # --- the result ---

    def read_result(self, hint: Any) -> tuple[dict[str, Any] | None, Convert | None]:
        """The output schema and what keeps to it; (None, None) for text, nothing, media and the unknown."""
        while typing.get_origin(hint) in (Awaitable, Coroutine):
            hint = typing.get_args(hint)[-1]
        if not _is_structured(hint):
            return None, None
        try:
            shape, notes = self.reader.read(hint)
        except ToolcribError as error:
            self.refuse("return", f"has a hint that cannot be used: {error}", getattr(error, "hint", None))
        except Exception as error:
            self.refuse(
                "return", f"has a hint that cannot be used: {_first_line(error)}", "use a simpler type"
            )
        self.note_unknown("return")
        schema = shapes.to_value_schema(shape)
        if notes.description and schema:
            schema["description"] = notes.description
        return (schema, dumper(shape)) if schema else (None, None)

    # --- remarks ---

    def note_unknown(self, parameter: str) -> None:
        for hint in self.reader.unknown:
            text = f"The type '{hint}' of '{parameter}' is not known: anything is accepted"
            self.note("unknown-type", "warning", text, parameter, "use a dataclass, a model or a plain type")
        self.reader.unknown.clear()

    def note_stale(self, docs: Docstring) -> None:
        for item in docs.params:
            if item.name.lstrip("*") not in self.callee.signature.parameters:
                text = f"The docstring describes a parameter '{item.name}' that does not exist"
                self.note("stale-parameter", "warning", text, item.name, "remove it or rename it")

    def note(self, code: str, level: Level, text: str, parameter: str, hint: str) -> None:
        file, line = self.callee.source.file, self.callee.source.line
        self.findings.append(Finding(code, level, text, self.name, parameter, file, line, hint))

    def refuse(self, parameter: str, problem: str, hint: str | None) -> NoReturn:
        raise InvalidSignatureError(
            f"Parameter '{parameter}' of tool '{self.name}' {problem}",
            tool=self.name,
            parameter=parameter,
            source=self.callee.source,
            hint=hint,
        ) from None


def resolve_hints(callee: Callee, name: str) -> dict[str, Any]:
    """The hints of a function, evaluated; one that cannot be is refused by its parameter's name."""
    function: Any = callee.function
    if isinstance(function, type):
        function = vars(function).get("__init__", object.__init__)
    closure = _closure_of(function)
    try:
        return typing.get_type_hints(function, localns=closure or None, include_extras=True)
    except Exception:
        scope = {**getattr(function, "__globals__", {}), **closure}
        for parameter, hint in getattr(function, "__annotations__", {}).items():
            _try_hint(callee, name, parameter, hint, scope)
        raise


def _try_hint(callee: Callee, name: str, parameter: str, hint: Any, scope: dict[str, Any]) -> None:
    probe = type("Probe", (), {"__annotations__": {parameter: hint}, "__module__": "builtins"})
    try:
        typing.get_type_hints(probe, globalns=scope, localns=scope)
    except Exception as error:
        raise InvalidSignatureError(
            f"Parameter '{parameter}' of tool '{name}' has an annotation that cannot be resolved: {error}",
            tool=name,
            parameter=parameter,
            source=callee.source,
            hint="import the name at run time, at the top of the module, not under TYPE_CHECKING",
        ) from None


def _closure_of(function: Any) -> dict[str, Any]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    found: dict[str, Any] = {}
    for free, cell in zip(code.co_freevars, cells, strict=True) if code is not None and cells else ():
        try:
            found[free] = cell.cell_contents
        except ValueError:  # assigned later than the function was made
            continue
    return found


def is_context(hint: Any) -> bool:
    bare, _ = split_optional(hint)
    return isinstance(bare, type) and issubclass(bare, Context)


def _is_structured(hint: Any) -> bool:
    """Whether a result of this hint is data. Text, nothing, media and whole results are not."""
    if hint in (inspect.Parameter.empty, Any, object, typing.NoReturn, typing.Never):
        return False
    bare, _ = split_optional(hint)
    origin = typing.get_origin(bare)
    if origin is typing.Annotated:
        return _is_structured(bare.__origin__)
    if origin in (list, tuple) and typing.get_args(bare):
        return not _is_content(typing.get_args(bare)[0])
    return not (bare is None or bare is type(None) or _is_content(bare) or bare is str)


def _is_content(hint: Any) -> bool:
    members = typing.get_args(hint) if typing.get_origin(hint) else (hint,)
    return any(isinstance(item, type) and issubclass(item, (*MEDIA, Result)) for item in members)


_PLAIN_TYPES = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}


def _fits(shape: Shape, plain: Any) -> bool:
    """Whether a default keeps to its own schema; plain types are compared without the engine."""
    if isinstance(shape, Scalar) and shape.format is None and shape.kind in _PLAIN_TYPES:
        return type(plain) in _PLAIN_TYPES[shape.kind]
    schema = shapes.to_value_schema(shape)
    return not schema or validation.Validator(schema, trusted=True).is_valid(plain)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
