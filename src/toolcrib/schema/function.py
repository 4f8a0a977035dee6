"""A handler with a schema of its own becomes a blueprint: the schema is taken, and enforced, as written.

A handler with one parameter called `arguments` gets the whole object, any other gets keywords; one that
asks for `server` or a Context gets that too. A value that is what its parameter's hint says becomes it; any
other that the schema admits is handed over as it came. Knows JSON Schema as data; makes none.

A function becomes a blueprint: schemas, words, and how to call it. One pipeline, read top to bottom.

1. Resolve the hints.  2. Read the docstring.  3. Make a field of every parameter.  4. Read the result.
5. Put the words where they belong.  6. Note how arguments get back into the function.

Knows functions, hints and docstrings. Refuses to know registries and calls.
"""

from __future__ import annotations

import functools
import inspect
import math
import typing
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Annotated, Any, NoReturn, TypeVar

from toolcrib.definition import ToolOptions, check_input_schema, join_words
from toolcrib.errors import Finding, InvalidSignatureError, Level, ToolcribError
from toolcrib.schema.annotations import hints_of_function, origin_of
from toolcrib.schema.arguments import Binder, find_defaults
from toolcrib.schema.conversion import Convert
from toolcrib.schema.defaults import UNTOLD, fits, publish_default, say_default
from toolcrib.schema.docstring_text import is_plainly_shown, type_hint_of
from toolcrib.schema.docstrings import Docstring, Documented, parse_docstring
from toolcrib.schema.dumper import dumper
from toolcrib.schema.hints import HintReader, split_optional
from toolcrib.schema.loader import Bounded, loader, runs_code
from toolcrib.schema.notes import SILENCE, Notes, is_field, split_annotated
from toolcrib.schema.parameters import (
    EMPTY,
    POSITIONAL_ONLY,
    Callee,
    Parameter,
    fill,
    parameter_names,
    words_of,
)
from toolcrib.schema.plain import PlainHint, find_plain
from toolcrib.schema.purpose import is_context, is_structured
from toolcrib.schema.records import value_of
from toolcrib.schema.render import join_descriptions, to_schema, to_value_schema
from toolcrib.schema.shapes import MISSING, Field, Shape, admits_none, admits_null
from toolcrib.validation import validator as validation

R = TypeVar("R")
_NONE: frozenset[str] = frozenset()


@dataclass(slots=True)
class Blueprint:
    """Everything building a tool comes to. `handler` is what a call runs. `trusted` schemas were made here;
    with those that are `is_plain` too nothing can be wrong: plain types, and words that hide nothing."""

    handler: Callable[..., Any]
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    binder: Binder
    dump: Convert | None = None
    returns: str = ""
    raises: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()
    annotations: Mapping[str, Any] = field(default_factory=dict)
    trusted: bool = True
    findings: list[Finding] = field(default_factory=list)
    is_plain: bool = False


def build_blueprint(callee: Callee, name: str, options: ToolOptions) -> Blueprint:
    """Run the pipeline; whatever is wrong with a parameter is an error that names it, file and line."""
    return _Builder(callee, name, options).build()


class _Builder:
    def __init__(self, callee: Callee, name: str, options: ToolOptions) -> None:
        self.callee = callee
        self.name = name
        self.options = options
        self.findings: list[Finding] = []
        self.fields: list[Field] = []
        self.attributes: dict[str, str] = {}
        self.loads: list[tuple[str, str, Convert | None]] = []
        self.nullable: set[str] = set()
        self.optional: set[str] = set()
        self.defaults: dict[str, Any] = {}
        self.places: dict[str, Any] = {}
        self.factories: dict[str, Callable[[], Any]] = {}
        self.coded: set[str] = set()
        self.context: str | None = None
        self.is_plain = True

    @functools.cached_property
    def reader(self) -> HintReader:
        return HintReader()

    def build(self) -> Blueprint:
        hints = hints_of_function(self.callee, self.name)
        text = words_of(self.callee.handler)
        docs = parse_docstring(text)
        self.read_parameters(hints, docs)
        output, dump, said = self.read_result(hints.get("return", EMPTY))
        explicit = self.options.output_schema
        if explicit is not None:
            validation.check_schema(explicit)
            output, dump = dict(explicit), None
        self.note_stale(docs)
        returns = said or docs.returns
        raises = tuple([(item.name, item.description) for item in docs.raises])
        if output is not None and explicit is None and returns:
            output = {**output, "description": join_descriptions(returns, output.get("description"))}
        description = self.options.description
        if description is None:
            has_schema = output is not None
            description = docs.description if has_schema else join_words(docs.description, returns, raises)
        return Blueprint(
            fill(self.callee.handler, self.defaults, self.factories),
            description,
            to_schema(self.fields),
            output,
            self.bind(),
            dump,
            returns=returns,
            raises=raises,
            tags=docs.tags,
            trusted=explicit is None,
            findings=self.findings,
            is_plain=self.is_plain
            and len(self.fields) <= _MANY
            and _is_seen(text)
            and _is_seen(self.options.description)
            and _is_seen(self.options.title),
        )

    # --- parameters ---

    def read_parameters(self, hints: dict[str, Any], docs: Docstring) -> None:
        words: dict[str, Documented] = {}
        for item in docs.params:
            earlier = words.get(item.name)
            words[item.name] = item if earlier is None else _join_words_of(earlier, item)
        for parameter in self.callee.parameters:
            name = parameter.name
            documented = words.get(name)
            hint = hints.get(name, parameter.annotation)
            plain = find_plain(hint) if _is_simple(parameter.default) else None
            if plain is not None:
                made, load = self.read_plain(name, plain, parameter.default)
            else:
                self.is_plain = False
                if hint is EMPTY and documented is not None and documented.type:
                    hint = self.documented_hint(parameter, documented)
                bare, accepts_none = self.guard(name, split_optional, hint)
                if is_context(bare, self.callee, self.name, name):
                    self.take_context(name)
                    continue
                made = self.read_field(parameter, hint, bare if accepts_none else hint)
                load = loader(made.shape)
                if load is not None and runs_code(made.shape):
                    self.coded.add(made.name)
            documented = documented or words.get(made.name)
            if not made.description and documented is not None:
                made.description = documented.description
            if made.name in self.attributes:
                self.refuse(name, f"is called '{made.name}', as another is", "change its alias")
            self.attributes[made.name] = name
            self.fields.append(made)
            if load is not None or made.name != name:
                self.loads.append((made.name, name, load))

    def read_plain(self, name: str, plain: PlainHint, default: Any) -> tuple[Field, Convert | None]:
        """The short way for most parameters: a plain hint, and a plain default if any. Says the same as
        `read_field`, and has the loader at hand."""
        if not name.isascii() or len(name) > _SHORT:
            self.is_plain = False
        if default is EMPTY:
            return Field(name, plain.shape, True, MISSING, "", name, name), plain.load
        (self.nullable if plain.accepts_none else self.optional).add(name)
        shown = default
        if type(default) is not plain.fitting and default not in plain.choices:
            shown = self.show_default(name, plain.bare, default, plain.accepts_none)
        return Field(name, plain.bare, False, shown, "", name, name), plain.load_bare

    def documented_hint(self, parameter: Parameter, documented: Documented) -> Any:
        """The type that only the docstring gives; one that the default contradicts is out of date."""
        hint: Any = type_hint_of(documented.type or "")
        if hint is None or parameter.default in (EMPTY, UNTOLD):
            return EMPTY if hint is None else hint
        if parameter.default is None:
            return hint | None
        if publish_default(self.reader.shape(hint), parameter.default) is not MISSING:
            return hint
        text = f"The docstring calls parameter '{parameter.name}' {documented.type}, its default is not"
        self.note("stale-type", "warning", text, parameter.name, "annotate the parameter")
        return EMPTY

    def take_context(self, name: str) -> None:
        if self.options.run == "process":
            self.refuse(
                name, "cannot have a Context in another process", "drop the parameter or run='thread'"
            )
        if self.context is not None:
            self.refuse(name, "asks for a second Context", f"use '{self.context}'")
        self.context = name

    def read_field(self, parameter: Parameter, hint: Any, bare: Any) -> Field:
        """A parameter as a field; `bare` is its hint without None, which only a required one publishes."""
        name, default = parameter.name, parameter.default
        accepts_none = bare is not hint
        if is_field(default):  # pydantic's other way to write Annotated
            hint, bare = (typing.Annotated[Any if item is EMPTY else item, default] for item in (hint, bare))
            default = EMPTY
        if default is EMPTY and (notes := split_annotated(bare)[1]) is not SILENCE:
            default = self.take_default(parameter, notes)
        required = default is EMPTY
        shape, notes = self.read_hint(self.reader, hint if required else bare, name)
        made = Field(
            notes.alias or name,
            shape,
            required,
            description=notes.description,
            keyword=name,
            attribute=name,
        )
        if not required:
            speaks_of_none = self.guard(name, admits_none, shape)
            made.default = self.show_default(name, shape, default, accepts_none or speaks_of_none)
            if not speaks_of_none:
                (self.nullable if accepts_none else self.optional).add(made.name)
        return made

    def read_hint(self, reader: HintReader, hint: Any, name: str) -> tuple[Shape, Notes]:
        read = self.guard(name, reader.read, hint)
        for unknown in reader.unknown:
            text = f"The type '{unknown}' of '{name}' is not known: anything is accepted"
            self.note("unknown-type", "warning", text, name, "use a dataclass, a model or a plain type")
        reader.unknown.clear()
        return read

    def guard(self, name: str, read: Callable[[Any], R], hint: Any) -> R:
        """Read a hint; whatever is wrong with it is an error that names the parameter."""
        try:
            return read(hint)
        except ToolcribError as error:
            self.refuse(name, f"has a hint that cannot be used: {error}", getattr(error, "hint", None))
        except Exception as error:  # pydantic's own schema errors, and names in aliases
            self.refuse(name, f"has a hint that cannot be used: {_first_line(error)}", "use a simpler type")

    def take_default(self, parameter: Parameter, notes: Notes) -> Any:
        """The default that `Field(...)` gives, which Python does not know of: calls have to fill it in."""
        if notes.factory is not None:
            if parameter.kind is POSITIONAL_ONLY:
                self.refuse(parameter.name, "is positional-only and made by a factory", "drop the `/`")
            self.factories[parameter.name] = notes.factory
            return value_of(notes.factory)
        if notes.default is MISSING:
            return EMPTY
        by_place = parameter.kind is POSITIONAL_ONLY
        (self.places if by_place else self.defaults)[parameter.name] = notes.default
        return notes.default

    def show_default(self, name: str, shape: Shape, default: Any, admits_none: bool) -> Any:
        """The default as JSON, or MISSING; a default that the hint does not admit is refused."""
        if default is UNTOLD:
            return MISSING
        if default is None:
            if not admits_none and name not in self.factories:
                text = f"Parameter '{name}' defaults to None, which its hint does not admit"
                self.note("implicit-optional", "warning", text, name, "write `... | None = None`")
            return MISSING
        if default is ...:
            self.refuse(name, "defaults to `...`, which is no value", "drop the default: it is required then")
        try:
            plain = say_default(shape, default)
        except (TypeError, ValueError, RecursionError):
            text = (
                f"The default of parameter '{name}' has no JSON form that can be shown and is not published"
            )
            self.note("unpublished-default", "advice", text, name, "use None and set it inside")
            return MISSING
        if not fits(shape, plain):
            self.refuse(
                name, f"has the default {default!r}, which its own hint refuses", "change one of them"
            )
        return plain

    # --- the way back ---

    def bind(self) -> Binder:
        positional = [
            (item.name, self.places.get(item.name, item.default))
            for item in self.callee.parameters
            if item.kind is POSITIONAL_ONLY
        ]
        return Binder(
            known=frozenset(self.attributes),
            loads=tuple(self.loads),
            nullable=frozenset(self.nullable) if self.nullable else _NONE,
            optional=frozenset(self.optional) if self.optional else _NONE,
            positional=tuple(positional),
            context=self.context,
            attributes=self.attributes,
            defaults=find_defaults(self.callee.parameters, {**self.defaults, **self.places}),
            factories=self.factories,
            coded=frozenset(self.coded) if self.coded else _NONE,
        )

    # --- the result ---

    def read_result(self, hint: Any) -> tuple[dict[str, Any] | None, Convert | None, str]:
        """The output schema, what keeps to it, and words; no schema for text, nothing, media, the unknown."""
        plain = find_plain(hint)
        if plain is not None:
            return (to_value_schema(plain.shape), plain.dump, "") if plain.is_data else (None, None, "")
        self.is_plain = self.is_plain and (hint is EMPTY or hint is None)
        while origin_of(hint) in (Awaitable, Coroutine):
            hint = typing.get_args(hint)[-1]
        if not self.guard("return", is_structured, hint):
            return None, None, split_annotated(hint)[1].description
        shape, notes = self.read_hint(HintReader("serialization"), hint, "return")
        schema = to_value_schema(shape)
        return (schema, dumper(shape), notes.description) if schema else (None, None, notes.description)

    # --- remarks ---

    def note_stale(self, docs: Docstring) -> None:
        for item in docs.params:
            name = item.name.lstrip("*")
            if name not in self.attributes and name not in parameter_names(self.callee):
                text = f"The docstring describes a parameter '{item.name}' that does not exist"
                self.note("stale-parameter", "warning", text, item.name, "remove it or rename it")

    def note(self, code: str, level: Level, text: str, parameter: str, hint: str) -> None:
        file, line = self.callee.source.file, self.callee.source.line
        self.findings.append(Finding(code, level, text, self.name, parameter, file, line, hint))

    def refuse(self, parameter: str, problem: str, hint: str | None) -> NoReturn:
        subject = "The result" if parameter == "return" else f"Parameter '{parameter}'"
        raise InvalidSignatureError(
            f"{subject} of tool '{self.name}' {problem}",
            tool=self.name,
            parameter=parameter,
            source=self.callee.source,
            hint=hint,
        ) from None


_SIMPLE = frozenset({bool, type(None)})
_SMALL = range(-(2**53), 2**53)
# So much is far below what a definition may hold, and far above what most do.
_LONG, _SHORT, _MANY = 10_000, 1_000, 100


def _is_simple(default: Any) -> bool:
    """Whether there is no default, or a plain one that JSON can surely say and a reader see."""
    kind = type(default)
    return (
        default is EMPTY
        or kind in _SIMPLE
        or (kind is int and default in _SMALL)
        or (kind is float and math.isfinite(default))
        or (kind is str and len(default) <= _SHORT and is_plainly_shown(default))
    )


def _is_seen(text: str | None) -> bool:
    """Whether a reader surely sees every character, and there are not too many of them."""
    return text is None or (len(text) < _LONG and is_plainly_shown(text))


def _join_words_of(first: Documented, second: Documented) -> Documented:
    """A parameter that is described twice."""
    return first._replace(description=join_descriptions(first.description, second.description))


def _first_line(error: Exception) -> str:
    """What an error says, without the essay that may follow."""
    first, *rest = str(error).splitlines() or [type(error).__name__]
    return f"{first} {rest[0].strip()}" if first.endswith(":") and rest else first


_NAMED = (
    POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)


def build_handler(callee: Callee, name: str, options: ToolOptions) -> Blueprint:
    """A function beside its schema: gets `arguments` whole, or keywords."""
    return _build(callee, name, options, takes_whole=False)


def build_object(callee: Callee, name: str, options: ToolOptions) -> Blueprint:
    """The `execute` method of a tool object: its parameter gets the whole, whatever it is called."""
    return _build(callee, name, options, takes_whole=True)


def _build(callee: Callee, name: str, options: ToolOptions, *, takes_whole: bool) -> Blueprint:
    # Copies: what is published and what is enforced must stay one, whatever the author does to the dict.
    schema = deepcopy(check_input_schema(options.input_schema, name))
    output_schema = deepcopy(options.output_schema)
    if output_schema is not None:
        validation.check_schema(output_schema)
    docs = parse_docstring(words_of(callee.handler))
    raises = tuple((item.name, item.description) for item in docs.raises)
    description = options.description
    if description is None:
        description = docs.description
        if output_schema is None:
            description = join_words(description, docs.returns, raises)
    return Blueprint(
        fill(callee.handler, *_fillings_of(callee)),
        description,
        schema,
        output_schema,
        _bind(callee, name, schema, takes_whole),
        returns=docs.returns,
        raises=raises,
        tags=docs.tags,
        trusted=False,
    )


def _fillings_of(callee: Callee) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
    """What the `= Field(...)` parameters of a handler default to: values, and what factories make."""
    said = {
        item.name: split_annotated(Annotated[Any, item.default])[1]
        for item in callee.parameters
        if is_field(item.default) and item.kind is not POSITIONAL_ONLY
    }
    values = {key: notes.default for key, notes in said.items() if notes.default is not MISSING}
    return values, {key: notes.factory for key, notes in said.items() if notes.factory is not None}


def _bind(callee: Callee, name: str, schema: Mapping[str, Any], takes_whole: bool) -> Binder:
    hints = hints_of_function(callee, name)
    properties = schema.get("properties", {})
    context = server = whole = None
    rest: list[Parameter] = []
    for parameter in callee.parameters:
        hint, _ = split_optional(hints.get(parameter.name))
        if is_context(hint, callee, name, parameter.name):
            context = parameter.name
        elif parameter.name == "server" and "server" not in properties:
            server = parameter.name
        else:
            rest.append(parameter)
    if (takes_whole and rest) or [(item.name, item.kind in _NAMED) for item in rest] == [("arguments", True)]:
        whole = rest[0].name
        _refuse_more(callee, name, rest[1:])
    else:
        _check_keywords(callee, name, schema, rest)
    loads = {} if whole else {key: _loader_of(hints[key]) for key in properties if key in hints}
    optional = {
        key
        for key, value in properties.items()
        if key not in schema.get("required", ()) and isinstance(value, Mapping) and not admits_null(value)
    }
    positional = [(item.name, item.default) for item in callee.parameters if item.kind is POSITIONAL_ONLY]
    filled, factories = _fillings_of(callee)
    return Binder(
        known=frozenset(properties),
        loads=tuple((key, key, load) for key, (load, _) in loads.items() if load is not None),
        coded=frozenset(key for key, (_, is_coded) in loads.items() if is_coded),
        optional=frozenset(optional),
        positional=tuple(positional),
        context=context,
        server=server,
        whole=whole,
        closed=False,
        defaults=find_defaults(callee.parameters, filled),
        factories=factories,
    )


def _loader_of(hint: Any) -> tuple[Convert | None, bool]:
    """Makes a value what the hint says, where it is that; None where there is nothing to make. And whether
    that runs code of the author's."""
    try:
        shape, _ = HintReader().read(split_optional(hint)[0])
    except Exception:  # a hint that means nothing as a schema: this tool has a schema
        return None, False
    load = loader(shape)
    if load is None:
        return None, False
    validator: list[validation.Validator] = []

    def load_fitting(value: Any) -> Any:
        if not validator:
            validator.append(validation.Validator(to_value_schema(shape), trusted=True))
        return load(value) if validator[0].is_valid(value) else value

    if isinstance(load, Bounded):
        return Bounded(load_fitting, load.cost, is_flat=load.is_flat), runs_code(shape)
    return load_fitting, runs_code(shape)


def _refuse_more(callee: Callee, name: str, parameters: list[Parameter]) -> None:
    """A handler that gets the whole object gets nothing else, but for what it asks for by type or name."""
    for item in parameters:
        if item.kind in _NAMED and item.default is EMPTY:
            raise InvalidSignatureError(
                f"The handler of tool '{name}' needs '{item.name}', which nothing gives it",
                tool=name,
                parameter=item.name,
                source=callee.source,
                hint="give it a default; for cancellation annotate a parameter with Context",
            )


def _check_keywords(
    callee: Callee, name: str, schema: Mapping[str, Any], parameters: list[Parameter]
) -> None:
    """A handler and a schema that do not fit together are found here, not at the first call."""
    named = {item.name: item for item in parameters if item.kind in _NAMED}
    takes_any = any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters)
    required = schema.get("required", ())
    untaken = [] if takes_any else [key for key in schema.get("properties", {}) if key not in named]
    unmet = [key for key, item in named.items() if item.default is EMPTY and key not in required]
    if untaken:
        words = f"does not take '{untaken[0]}', which its schema has"
    elif unmet:
        words = f"needs '{unmet[0]}', which its schema does not require"
    else:
        return
    raise InvalidSignatureError(
        f"The handler of tool '{name}' {words}",
        tool=name,
        parameter=(untaken or unmet)[0],
        source=callee.source,
        hint="call its one parameter `arguments` to get the whole object, or name the properties",
    )
