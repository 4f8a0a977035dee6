"""A handler with a schema of its own becomes a blueprint: the schema is taken, and enforced, as written.

A handler with one parameter called `arguments` gets the whole object, any other gets keywords; one that
asks for `server` or a Context gets that too. A value that is what its parameter's hint says becomes it; any
other that the schema admits is handed over as it came. Knows JSON Schema as data; makes none.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Annotated, Any

from toolcrib import validation
from toolcrib.definition import ToolOptions, check_input_schema, join_words
from toolcrib.errors import InvalidSignatureError
from toolcrib.schema.annotation import hints_of_function
from toolcrib.schema.binder import Binder, find_defaults
from toolcrib.schema.conversion import Convert
from toolcrib.schema.convert import loader, runs_code
from toolcrib.schema.cost import Bounded
from toolcrib.schema.docstrings import parse_docstring
from toolcrib.schema.hints import HintReader, split_optional
from toolcrib.schema.notes import is_field, split_annotated
from toolcrib.schema.parameters import EMPTY, POSITIONAL_ONLY, Callee, Parameter, fill, words_of
from toolcrib.schema.purpose import is_context
from toolcrib.schema.rendering import to_value_schema
from toolcrib.schema.shapes import MISSING, admits_null
from toolcrib.schema.signature import Blueprint

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
