"""A handler becomes the parts of a tool: schemas, description, arguments and results.

`build_function` makes the schemas from the signature: resolve the hints, read the docstring, make a field
of every parameter, read the result, publish the docstring. `build_handler` takes explicit schemas, and
enforces them as written; the hints of its parameters only tell what values are converted to.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, NoReturn, TypeVar

from toolcrib.content import MEDIA, Result
from toolcrib.context import Context, Depends
from toolcrib.definition import check_input_schema, join_descriptions, publish_docs
from toolcrib.errors import Finding, InvalidSignatureError, Level, ToolcribError, suggest
from toolcrib.options import ToolOptions
from toolcrib.schema.annotations import (
    NO_INFO,
    FieldInfo,
    is_pydantic_field,
    origin_of,
    resolve_hints,
    split_annotated,
    try_hints,
)
from toolcrib.schema.arguments import ToolArguments
from toolcrib.schema.converters import (
    UNKNOWN_DEFAULT,
    build_dumper,
    is_valid_default,
    published_default,
    render_default,
)
from toolcrib.schema.docstrings import Docstring, Documented, parse_docstring, type_hint_of
from toolcrib.schema.hints import ARRAYS, HintReader, constant_of, split_optional
from toolcrib.schema.injection import Injector, find_depends
from toolcrib.schema.parameters import (
    EMPTY,
    POSITIONAL_ONLY,
    HandlerInfo,
    Parameter,
    docstring_of,
    parameter_names,
)
from toolcrib.schema.render import arguments_schema, value_schema
from toolcrib.schema.shapes import MISSING, Convert, Field, Shape, accepts_none, accepts_null
from toolcrib.validation.validator import check_schema

R = TypeVar("R")
_CHOICES = re.compile(r"""\{[^{}:]*+\}|\bone of\b|(['"])[^'"]++\1\s*+(?:[,|]|or\b)\s*+['"]""", re.I)
_find_choices = functools.lru_cache(maxsize=500)(_CHOICES.search)
_NOISE = re.compile(r"\b\w+\.|\s|\[(?:str, )?(?:typing\.)?Any\]")
_BY_NAME = (POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(slots=True)
class ToolParts:
    """Everything that a tool is built from. `handler` is what a call runs. Made once, like ToolArguments."""

    handler: Final[Callable[..., Any]]
    description: Final[str]
    arguments: Final[ToolArguments]
    output_schema: Final[Mapping[str, Any] | None]
    dump: Final[Convert | None]
    """Makes JSON data of results, by the hints."""
    returns: Final[str]
    raises: Final[tuple[tuple[str, str], ...]]
    tags: Final[tuple[str, ...]]
    annotations: Final[Mapping[str, Any]] = field(default_factory=dict)
    findings: Final[tuple[Finding, ...]] = ()

    def with_output_schema(self, schema: Mapping[str, Any]) -> ToolParts:
        """Return the parts with an explicit output schema instead of the one made from the hints."""
        return replace(
            self, output_schema=schema, dump=None, arguments=replace(self.arguments, trusted=False)
        )

    def without_output_schema(self) -> ToolParts:
        """Return the parts without an output schema: what it would say goes to the description."""
        if self.output_schema is None:
            return self
        description, _ = publish_docs(self.description, self.returns, self.raises, None)
        return replace(self, description=description, output_schema=None)


def build_function(info: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
    """Build a tool from the signature and the docstring of a function.

    Raise InvalidSignatureError, with the parameter and the location, where the signature cannot be used.
    """
    return _FunctionBuilder(info, name, options).build()


def build_open(info: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
    """Build a tool from a function with `**kwargs`: an object that takes further properties."""
    named = copy(info)
    named._parameters = [item for item in info.parameters if item.kind is not inspect.Parameter.VAR_KEYWORD]
    parts = build_function(named, name, options)
    schema = {**parts.arguments.schema, "additionalProperties": True}
    return replace(parts, arguments=replace(parts.arguments, closed=False, schema=schema))


class _FunctionBuilder:
    def __init__(self, info: HandlerInfo, name: str, options: ToolOptions) -> None:
        self.info = info
        self.name = name
        self.options = options
        self.findings: list[Finding] = []
        self.errors: list[InvalidSignatureError] = []
        self.fields: dict[str, Field] = {}
        self.nullable: set[str] = set()
        self.optional: set[str] = set()
        self.defaults: dict[str, Any] = {}
        """Defaults in `Field(...)`, by parameter."""
        self.factories: dict[str, Callable[[], Any]] = {}
        self.injector = Injector(name, info.kind, options.run)

    @functools.cached_property
    def reader(self) -> HintReader:
        return HintReader()

    def build(self) -> ToolParts:
        hints, self.errors = try_hints(self.info, self.name)
        docs = parse_docstring(docstring_of(self.info.handler))
        self.read_parameters(hints, docs)
        output_schema: Mapping[str, Any] | None
        result_hint = hints.get("return", EMPTY)
        try:
            output_schema, dump, description_of_result = self.read_result(result_hint)
        except InvalidSignatureError as error:
            self.errors.append(error)
        if self.errors:
            raise self.errors[0].add(self.errors[1:])
        fields = self.fields
        schema = arguments_schema(list(fields.values()))
        self.find_stale_parameters(docs, schema["properties"])
        explicit = self.options.output_schema
        if explicit is not None:
            check_schema(explicit)
            output_schema, dump = dict(explicit), None
        if self.info.kind != "tool":  # only the results of tools have a schema
            output_schema = None
        returns = description_of_result or _describe_result(docs, result_hint)
        raises = tuple([(item.name, item.description) for item in docs.raises])
        description, output_schema = publish_docs(
            docs.description, returns, raises, output_schema, is_explicit=explicit is not None
        )
        if self.options.description is not None:
            description = self.options.description
        defaults = _read_defaults(self.info, self.defaults, self.injector.functions)
        arguments = ToolArguments(
            name=self.name,
            kind=self.info.kind,
            schema=schema,
            trusted=explicit is None,
            options=self.options,
            parameters={name: item.keyword for name, item in fields.items() if name != item.keyword},
            shapes={name: item.shape for name, item in fields.items()},
            nullable=frozenset(self.nullable),
            optional=frozenset(self.optional),
            positional=defaults.positional,
            context=self.injector.context,
            defaults=defaults.of_parameters,
            field_defaults=defaults.of_fields,
            factories=self.factories,
        )
        handler = self.injector.wrap(self.info, defaults.positional)
        findings = tuple(self.findings)
        return ToolParts(
            handler, description, arguments, output_schema, dump, returns, raises, docs.tags, {}, findings
        )

    # --- parameters ---

    def read_parameters(self, hints: dict[str, Any], docs: Docstring) -> None:
        documented: dict[str, Documented] = {}
        for item in docs.params:
            if item.name in documented:  # described twice
                earlier = documented[item.name]
                item = earlier._replace(description=join_descriptions(earlier.description, item.description))
            documented[item.name] = item
        refused = {error.parameter for error in self.errors}
        for parameter in self.info.parameters:
            try:
                if parameter.name not in refused:
                    self.read_parameter(parameter, hints, documented)
            except InvalidSignatureError as error:  # the others are read too, to report everything at once
                self.errors.append(error)

    def read_parameter(
        self, parameter: Parameter, hints: dict[str, Any], documented: Mapping[str, Documented]
    ) -> None:
        name = parameter.name
        entry = documented.get(name)
        hint = hints.get(name, parameter.annotation)
        plain = find_plain_hint(hint)
        is_uncertain = False
        default = parameter.default
        if plain is not None and not is_pydantic_field(default) and type(default) is not Depends:
            made = self.make_field(parameter, plain.shape, plain.bare, plain.accepts_none)
        else:
            if hint is EMPTY and entry is not None and entry.type:
                hint = self.documented_hint(parameter, entry)
                is_uncertain, hint = hint is None, hint or EMPTY
            bare, is_optional = self.guard(name, split_optional, hint)
            if (depends := _find_depends(bare, parameter, self.info, self.name)) is not None:
                self.injector.add(self.info, name, parameter.kind, depends)
                return
            if is_context(bare, self.info, self.name, name):
                self.take_context(name)
                return
            made = self.read_field(parameter, hint, bare if is_optional else hint)
        entry = entry or documented.get(made.name)
        if not made.description and entry is not None:
            made.description = entry.description
            # It may be out of date, so no call is refused for what only the docstring has.
            has_choices = entry.type and _find_choices(entry.type)
            if is_uncertain or (has_choices and "'enum': " not in str(value_schema(made.shape))):
                made.description = ": ".join(filter(None, (entry.type, entry.description)))
        if made.name in self.fields:
            self.refuse(name, f"has the same name as another: '{made.name}'", "change its alias")
        self.fields[made.name] = made

    def make_field(self, parameter: Parameter, shape: Shape, bare: Shape, is_optional: bool) -> Field:
        """Make a field of a parameter without metadata. `bare` is its shape without None, which only a
        required one publishes."""
        name, default = parameter.name, parameter.default
        if default is EMPTY:
            return Field(name, shape, True, MISSING, "", name, name)
        (self.nullable if is_optional else self.optional).add(name)  # null means None, or nothing was given
        return Field(
            name, bare, False, self.publish_default(name, bare, default, is_optional), "", name, name
        )

    def documented_hint(self, parameter: Parameter, entry: Documented) -> Any:
        """Return the type in the docstring: None if not certain, EMPTY if the default contradicts it."""
        hint: Any = type_hint_of(entry.type or "")
        if hint is None or parameter.default in (EMPTY, UNKNOWN_DEFAULT):
            return hint
        if parameter.default is None:
            return hint | None
        if published_default(self.reader.shape(hint), parameter.default) is not MISSING:
            return hint
        message = f"The docstring says parameter '{parameter.name}' is {entry.type}, but its default is not"
        self.note("stale-type", "warning", message, parameter.name, "annotate the parameter")
        return EMPTY

    def take_context(self, name: str) -> None:
        if self.options.run == "process":
            hint = "drop the parameter, or use run='thread'"
            self.refuse(name, "cannot be a Context: the tool runs in another process", hint)
        if self.injector.own_context is not None:
            self.refuse(name, "is a second Context", f"use '{self.injector.own_context}'")
        self.injector.own_context = name

    def read_field(self, parameter: Parameter, hint: Any, bare: Any) -> Field:
        """Make a field of a parameter. `bare` is its hint without None, which only a required one
        publishes."""
        name, default = parameter.name, parameter.default
        is_optional = bare is not hint
        if is_pydantic_field(default):  # `= Field(...)` is the same as Annotated[..., Field(...)]
            hint, bare = (Annotated[Any if item is EMPTY else item, default] for item in (hint, bare))
            default = EMPTY
        if default is EMPTY and (info := split_annotated(bare)[1]) is not NO_INFO:
            default = self.default_of_field(parameter, info)
        required = default is EMPTY
        shape, info = self.read_hint(self.reader, hint if required else bare, name)
        made = Field(
            info.alias or name, shape, required, description=info.description, keyword=name, attribute=name
        )
        if not required:
            shape_accepts_none = self.guard(name, accepts_none, shape)
            made.default = self.publish_default(name, shape, default, is_optional or shape_accepts_none)
            if not shape_accepts_none:
                (self.nullable if is_optional else self.optional).add(made.name)
        return made

    def read_hint(self, reader: HintReader, hint: Any, name: str) -> tuple[Shape, FieldInfo]:
        read = self.guard(name, reader.read, hint)
        for unknown in reader.unknown:
            message = f"The type '{unknown}' of '{name}' is not supported: any value is accepted"
            self.note("unknown-type", "warning", message, name, "use a dataclass, a model or a plain type")
        reader.unknown.clear()
        return read

    def guard(self, name: str, read: Callable[[Any], R], hint: Any) -> R:
        """Call a function on a hint; every error becomes one that names the parameter."""
        try:
            return read(hint)
        except ToolcribError as error:
            self.refuse(name, f"has a hint that cannot be used: {error}", getattr(error, "hint", None))
        except Exception as error:  # pydantic's own schema errors, and names in aliases
            first, *rest = str(error).splitlines() or [type(error).__name__]
            first += f" {rest[0].strip()}" if first.endswith(":") and rest else ""
            self.refuse(name, f"has a hint that cannot be used: {first}", "use a simpler type")

    def default_of_field(self, parameter: Parameter, info: FieldInfo) -> Any:
        """Return the default in `Field(...)`, and remember it: calls have to pass it."""
        if info.factory is not None:
            if parameter.kind is POSITIONAL_ONLY:
                self.refuse(parameter.name, "is positional-only and has a default factory", "drop the `/`")
            self.factories[parameter.name] = info.factory
            return constant_of(info.factory)
        if info.default is MISSING:
            return EMPTY
        self.defaults[parameter.name] = info.default
        return info.default

    def publish_default(self, name: str, shape: Shape, default: Any, admits_none: bool) -> Any:
        """Return the default as JSON, or MISSING; refuse one that does not fit the hint."""
        if default is UNKNOWN_DEFAULT:
            return MISSING
        if default is None:
            if not admits_none and name not in self.factories:
                message = f"Parameter '{name}' defaults to None, which its hint does not allow"
                self.note("implicit-optional", "warning", message, name, "write `... | None = None`")
            return MISSING
        if default is ...:
            self.refuse(
                name, "defaults to `...`, which is not a value", "drop the default to make it required"
            )
        try:
            plain = render_default(shape, default)
        except (TypeError, ValueError, RecursionError):
            message = f"The default of parameter '{name}' cannot be shown as JSON and is not published"
            self.note("unpublished-default", "advice", message, name, "use None and set it inside")
            return MISSING
        if not is_valid_default(shape, plain):
            self.refuse(
                name, f"has the default {default!r}, which does not fit its hint", "change one of them"
            )
        return plain

    # --- the result ---

    def read_result(self, hint: Any) -> tuple[dict[str, Any] | None, Convert | None, str]:
        """Return the output schema, the dumper and the description of the result.

        There is no schema for text, None, media and unknown types.
        """
        plain = find_plain_hint(hint)
        if plain is not None:
            return (value_schema(plain.shape), plain.dump, "") if plain.is_data else (None, None, "")
        while origin_of(hint) in (Awaitable, Coroutine):
            hint = typing.get_args(hint)[-1]
        if not self.guard("return", is_structured, hint):
            return None, None, split_annotated(hint)[1].description
        shape, info = self.read_hint(HintReader("serialization"), hint, "return")
        schema = value_schema(shape)
        return (schema, build_dumper(shape), info.description) if schema else (None, None, info.description)

    # --- findings ---

    def find_stale_parameters(self, docs: Docstring, properties: Mapping[str, Any]) -> None:
        """Report names where all parameters are plain values: others may be the fields of an object."""
        stale = (
            {item.name for item in docs.params if item.name.islower()} - self.fields.keys() - _NO_PARAMETERS
        )
        if not stale or not all(map(_is_plain_value, properties.values())):
            return
        for name in sorted(stale - parameter_names(self.info)):
            message = f"The docstring describes a parameter '{name}' that does not exist"
            missing = self.fields.keys() - {item.name for item in docs.params}
            hint = suggest(name, sorted(missing), "remove it or rename it")
            self.note("stale-parameter", "warning", message, name, hint)

    def note(self, code: str, level: Level, message: str, parameter: str, hint: str) -> None:
        file, line = self.info.source.file, self.info.source.line
        self.findings.append(Finding(code, level, message, self.name, parameter, file, line, hint))

    def refuse(self, parameter: str, problem: str, hint: str | None) -> NoReturn:
        subject = "The result" if parameter == "return" else f"Parameter '{parameter}'"
        text = f"{subject} of {self.info.kind} '{self.name}' {problem}"
        raise self.info.refusal(self.name, parameter, text, hint) from None


# Names in a list of parameters that are not parameters: injected values, types, and headings in prose.
_NO_PARAMETERS = {
    *("self", "cls", "ctx", "context", "args", "kwargs", "*args", "**kwargs", "int", "str", "bool", "float"),
    *("list", "dict", "tuple", "set", "bytes", "object", "none", "null", "any", "note", "notes", "example"),
    *("examples", "return", "returns", "raises", "yields", "default", "defaults", "format", "options"),
    *("usage", "warning", "tip", "important", "type", "values"),
}


def _is_plain_value(schema: Any) -> bool:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return kind in ("string", "integer", "number", "boolean") or (
        kind == "array" and _is_plain_value(schema.get("items"))
    )


class _Defaults(NamedTuple):
    """The defaults of parameters, of those in `Field(...)`, and of the positional-only ones, in order."""

    of_parameters: dict[str, Any]
    of_fields: dict[str, Any]
    positional: tuple[tuple[str, Any], ...]


def _read_defaults(info: HandlerInfo, of_fields: Mapping[str, Any], injected: Collection[str]) -> _Defaults:
    """Return the defaults of all parameters but the injected ones."""
    defaults = {
        item.name: of_fields.get(item.name, item.default)
        for item in info.parameters
        if item.name in of_fields or not (item.default is EMPTY or is_pydantic_field(item.default))
        if item.name not in injected
    }
    positional = [item.name for item in info.parameters if item.kind is POSITIONAL_ONLY]
    return _Defaults(
        defaults,
        {name: default for name, default in of_fields.items() if name not in positional},
        tuple([(name, defaults.get(name, EMPTY)) for name in positional]),
    )


# --- hints with a meaning of their own ---------------------------------------------------------------

_NO_DATA = (EMPTY, Any, object, typing.NoReturn, typing.Never, None, NoneType, str, typing.LiteralString)
"""Result hints that declare no data."""


def is_context(hint: Any, info: HandlerInfo, name: str, parameter: str) -> bool:
    """Whether a parameter gets the Context. Raise InvalidSignatureError for the Context of another
    library."""
    bare = hint.__origin__ if origin_of(hint) is Annotated else hint
    cls = origin_of(bare) or bare
    if not isinstance(cls, type):
        return False
    if cls.__name__ == "Context" and cls.__module__.partition(".")[0] in ("mcp", "fastmcp"):
        problem = f"is a Context of {cls.__module__}, which toolcrib does not provide"
        text = f"Parameter '{parameter}' of {info.kind} '{name}' {problem}"
        raise info.refusal(name, parameter, text, "annotate it with toolcrib.Context")
    return issubclass(cls, Context)


def _find_depends(hint: Any, parameter: Parameter, info: HandlerInfo, name: str) -> Depends | None:
    try:
        return find_depends(hint, parameter.default)
    except TypeError as error:
        text = f"Parameter '{parameter.name}' of {info.kind} '{name}' {error}"
        raise info.refusal(name, parameter.name, text, "import Depends from toolcrib") from None


def is_structured(hint: Any) -> bool:
    """Whether a result of this hint is data. Text, None, media and whole results are not."""
    bare, _ = split_optional(hint)
    origin = origin_of(bare)
    if origin is Annotated:
        return is_structured(bare.__origin__)
    if isinstance(bare, typing.NewType):
        return is_structured(bare.__supertype__)
    if origin in ARRAYS:
        return not any(_is_content(item) for item in typing.get_args(bare))
    return not (bare in _NO_DATA or _is_content(bare))


def _is_content(hint: Any) -> bool:
    members = typing.get_args(hint) if origin_of(hint) else (hint,)
    return any(isinstance(item, type) and issubclass(item, (*MEDIA, Result)) for item in members)


def _describe_result(docs: Docstring, hint: Any) -> str:
    """Return the Returns section of a docstring, with its type unless the hint says the same or more."""
    documented = docs.returns_type
    if not documented or documented == getattr(hint, "__name__", None):
        return docs.returns
    # Answers about plain hints are remembered; classes of the author are not kept alive.
    says_type = _says_type if find_plain_hint(hint) else _says_type.__wrapped__
    return (
        docs.returns if says_type(hint, documented) else ": ".join(filter(None, (documented, docs.returns)))
    )


@functools.lru_cache(maxsize=500)
def _says_type(hint: Any, documented: str) -> bool:
    said, told = map(_canonical_type, (inspect.formatannotation(hint), documented))
    return said == told or said.startswith((f"{told}[", f"{told}|"))


@functools.lru_cache(maxsize=500)
def _canonical_type(text: str) -> str:
    """Return the text of a type such that `Dict[str, Any]`, `object` and `dict` are the same."""
    hint = type_hint_of(text)
    return _NOISE.sub("", text if hint is None else inspect.formatannotation(hint)).lower()


# --- plain hints -------------------------------------------------------------------------------------
# Most hints name plain types only. What they mean is read once and shared by all tools: with thousands of
# tools this takes most of the time out of building them.

_MAX_REMEMBERED = 2_000
_PLAIN_TYPES = frozenset({str, int, float, bool})
_PLAIN_MEMBERS = _PLAIN_TYPES | {NoneType}
_PLAIN_ITEMS = _PLAIN_TYPES | {Any}
_PLAIN_CONTAINERS = frozenset({list, dict})
_STRINGS = frozenset({str})
_LITERAL = type(typing.Literal["a"])
_UNIONS = frozenset({UnionType, type(typing.Optional[int])})  # noqa: UP045 - the older way to write it


class PlainHint(NamedTuple):
    """A hint of plain types: `bare` is its shape without None. A result of it `is_data` if it is not text."""

    shape: Shape
    bare: Shape
    accepts_none: bool
    is_data: bool
    dump: Convert | None


def find_plain_hint(hint: Any) -> PlainHint | None:
    """Return the meaning of a hint of plain types, None for every other hint."""
    kind = type(hint)
    if kind is type:
        return _PLAIN_HINTS.get(hint)
    # The key has the parts in order: `int | str` equals `str | int`, and has another schema.
    if kind is GenericAlias:
        key = (hint.__origin__, hint.__args__)
    elif kind in _UNIONS:
        key = (UnionType, hint.__args__)
    elif kind is _LITERAL and _STRINGS.issuperset(map(type, hint.__args__)):
        key = (_LITERAL, hint.__args__)
    else:
        return None
    try:
        known = _PLAIN_HINTS.get(key)
    except TypeError:  # unhashable metadata
        return None
    if known is not None or len(_PLAIN_HINTS) >= _MAX_REMEMBERED:
        return known
    members = hint.__args__ if kind in _UNIONS else () if kind is _LITERAL else (hint,)
    if all(item in _PLAIN_MEMBERS or _is_plain_container(item) for item in members):
        try:
            known = _PLAIN_HINTS[key] = _read_plain_hint(hint)
        except InvalidSignatureError:  # reported when the tool is built
            return None
    return known


def _is_plain_container(hint: Any) -> bool:
    """Whether this is a list or a dict of plain types or of such lists and dicts, without unions."""
    return (
        type(hint) is GenericAlias
        and hint.__origin__ in _PLAIN_CONTAINERS
        and all(item in _PLAIN_ITEMS or _is_plain_container(item) for item in hint.__args__)
    )


def _read_plain_hint(hint: Any) -> PlainHint:
    reader = HintReader()
    shape = reader.shape(hint)
    bare_hint, is_optional = split_optional(hint)
    bare = reader.shape(bare_hint) if is_optional else shape
    return PlainHint(shape, bare, is_optional, bare_hint is not str, build_dumper(shape))


_PLAIN_HINTS: dict[Any, PlainHint] = {
    hint: _read_plain_hint(hint) for hint in (*_PLAIN_TYPES, *_PLAIN_CONTAINERS)
}


# --- explicit schemas --------------------------------------------------------------------------------


def build_handler(info: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
    """Build a tool from a handler and explicit schemas.

    A handler whose only parameter is called `arguments` gets all of them in a dict, any other gets keywords.
    """
    return _build_explicit(info, name, options, takes_all=False)


def build_object(info: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
    """Build a tool from the `execute` method of an object: its first parameter gets all arguments in a
    dict."""
    return _build_explicit(info, name, options, takes_all=True)


def _build_explicit(info: HandlerInfo, name: str, options: ToolOptions, *, takes_all: bool) -> ToolParts:
    # Copies: the author may change the dicts later, but not what is published and enforced.
    schema = deepcopy(check_input_schema(options.input_schema, name))
    output_schema = deepcopy(options.output_schema)
    if output_schema is not None:
        check_schema(output_schema)
    docs = parse_docstring(docstring_of(info.handler))
    raises = tuple((item.name, item.description) for item in docs.raises)
    returns = _describe_result(docs, EMPTY)
    description = options.description
    if description is None:
        description, _ = publish_docs(docs.description, returns, raises, output_schema, is_explicit=True)
    fields = {
        item.name: split_annotated(Annotated[Any, item.default])[1]
        for item in info.parameters
        if is_pydantic_field(item.default)
    }
    injector = Injector(name, info.kind, options.run)
    roles = _assign_roles(info, name, schema, injector, takes_all=takes_all)
    defaults = _read_defaults(
        info,
        {key: field.default for key, field in fields.items() if field.default is not MISSING},
        injector.functions,
    )
    properties, required = schema.get("properties", {}), schema.get("required", ())
    optional = [
        key
        for key, value in properties.items()
        if key not in required and isinstance(value, Mapping) and not accepts_null(value)
    ]
    arguments = ToolArguments(
        name=name,
        kind=info.kind,
        schema=schema,
        trusted=False,
        options=options,
        closed=False,
        shapes=roles.shapes,
        is_lenient=True,
        optional=frozenset(optional),
        positional=defaults.positional,
        context=injector.context,
        server=roles.server,
        whole=roles.whole,
        defaults=defaults.of_parameters,
        field_defaults=defaults.of_fields,
        factories={key: field.factory for key, field in fields.items() if field.factory is not None},
    )
    handler = injector.wrap(info, defaults.positional)
    return ToolParts(handler, description, arguments, output_schema, None, returns, raises, docs.tags)


class _Roles(NamedTuple):
    """The parameters of a handler that get the server and all arguments, and the shapes of the others."""

    server: str | None
    whole: str | None
    shapes: dict[str, Shape]


def _assign_roles(
    info: HandlerInfo, name: str, schema: Mapping[str, Any], injector: Injector, *, takes_all: bool
) -> _Roles:
    hints = resolve_hints(info, name)
    properties = schema.get("properties", {})
    server = whole = None
    rest: list[Parameter] = []
    for parameter in info.parameters:
        hint, _ = split_optional(hints.get(parameter.name))
        if (depends := _find_depends(hint, parameter, info, name)) is not None:
            injector.add(info, parameter.name, parameter.kind, depends)
        elif is_context(hint, info, name, parameter.name):
            injector.own_context = parameter.name
        elif parameter.name == "server" and "server" not in properties:
            server = parameter.name
        else:
            rest.append(parameter)
    if (takes_all and rest) or [(p.name, p.kind in _BY_NAME) for p in rest] == [("arguments", True)]:
        whole = rest[0].name
        _check_other_parameters(info, name, rest[1:])
        return _Roles(server, whole, {})
    _check_keywords(info, name, schema, rest)
    read = {key: _read_lenient(hints[key]) for key in properties if key in hints}
    return _Roles(server, None, {key: shape for key, shape in read.items() if shape is not None})


def _read_lenient(hint: Any) -> Shape | None:
    try:
        return HintReader().read(split_optional(hint)[0])[0]
    except Exception:  # a hint without a schema; this tool has an explicit one
        return None


def _check_other_parameters(info: HandlerInfo, name: str, parameters: list[Parameter]) -> None:
    """Raise where a handler that gets all arguments in a dict needs something else."""
    for item in parameters:
        if item.kind in _BY_NAME and item.default is EMPTY:
            text = f"The handler of tool '{name}' requires '{item.name}', which no call provides"
            hint = "give it a default; for cancellation annotate a parameter with Context"
            raise info.refusal(name, item.name, text, hint)


def _check_keywords(
    info: HandlerInfo, name: str, schema: Mapping[str, Any], parameters: list[Parameter]
) -> None:
    """Raise where the parameters of a handler do not fit its schema."""
    named = {item.name: item for item in parameters if item.kind in _BY_NAME}
    takes_any = any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters)
    required = schema.get("required", ())
    extra = [] if takes_any else [key for key in schema.get("properties", {}) if key not in named]
    missing = [key for key, item in named.items() if item.default is EMPTY and key not in required]
    if extra:
        problem = f"does not take '{extra[0]}', which its schema has"
    elif missing:
        problem = f"requires '{missing[0]}', which its schema does not require"
    else:
        return
    hint = "call its only parameter `arguments` to get all of them in a dict, or name the properties"
    raise info.refusal(name, (extra or missing)[0], f"The handler of tool '{name}' {problem}", hint)
