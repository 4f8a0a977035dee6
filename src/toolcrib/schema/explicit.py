"""A handler with a schema of its own becomes a blueprint: the schema is taken, and enforced, as written.

A handler with one parameter called `arguments` gets the whole object, any other gets keywords; one that
asks for `server` or a Context gets that too. Knows JSON Schema as data; makes none.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from toolcrib import validation
from toolcrib.definition import ToolOptions, check_input_schema, join_words
from toolcrib.errors import InvalidSignatureError
from toolcrib.schema.docstrings import parse_docstring
from toolcrib.schema.parameters import Callee, words_of
from toolcrib.schema.shapes import admits_null
from toolcrib.schema.signature import Binder, Blueprint, is_context, resolve_hints

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def build_handler(callee: Callee, name: str, options: ToolOptions) -> Blueprint:
    """A function beside its schema: gets `arguments` whole, or keywords."""
    return _build(callee, name, options, takes_whole=False)


def build_object(callee: Callee, name: str, options: ToolOptions) -> Blueprint:
    """The `execute` method of a tool object: its parameter gets the whole, whatever it is called."""
    return _build(callee, name, options, takes_whole=True)


def _build(callee: Callee, name: str, options: ToolOptions, *, takes_whole: bool) -> Blueprint:
    schema = check_input_schema(options.input_schema, name)
    if options.output_schema is not None:
        validation.check_schema(options.output_schema)
    binder = _bind(callee, name, schema, takes_whole)
    docs = parse_docstring(words_of(callee.handler))
    description = options.description
    raises = tuple((item.name, item.description) for item in docs.raises)
    if description is None:
        description = docs.description
        if options.output_schema is None:
            description = join_words(description, docs.returns, raises)
    return Blueprint(
        description,
        schema,
        options.output_schema,
        binder,
        returns=docs.returns,
        raises=raises,
        tags=docs.tags,
        trusted=False,
    )


def _bind(callee: Callee, name: str, schema: Mapping[str, Any], takes_whole: bool) -> Binder:
    hints = resolve_hints(callee, name)
    context = server = None
    rest: list[inspect.Parameter] = []
    for parameter in callee.signature.parameters.values():
        if is_context(hints.get(parameter.name, inspect.Parameter.empty)):
            context = parameter.name
        elif parameter.name == "server" and "server" not in schema.get("properties", {}):
            server = parameter.name
        else:
            rest.append(parameter)
    whole = None
    if takes_whole and rest:
        whole = rest[0].name
    elif len(rest) == 1 and rest[0].name == "arguments" and rest[0].kind in _NAMED:
        whole = "arguments"
    else:
        _check_keywords(callee, name, schema, rest)
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    optional = {
        key
        for key, value in properties.items()
        if key not in required and isinstance(value, Mapping) and not admits_null(value)
    }
    positional = tuple(
        (item.name, item.default)
        for item in callee.signature.parameters.values()
        if item.kind is inspect.Parameter.POSITIONAL_ONLY
    )
    return Binder(
        known=frozenset(properties),
        optional=frozenset(optional),
        positional=positional,
        context=context,
        server=server,
        whole=whole,
        closed=False,
    )


def _check_keywords(
    callee: Callee, name: str, schema: Mapping[str, Any], parameters: list[inspect.Parameter]
) -> None:
    """A handler and a schema that do not fit together are found here, not at the first call."""
    properties = schema.get("properties", {})
    hint = "call its one parameter `arguments` to get the whole object, or name the properties"
    open_ended = any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters)
    names = {item.name for item in parameters if item.kind in (*_NAMED, inspect.Parameter.POSITIONAL_ONLY)}
    for key in properties:
        if key not in names and not open_ended:
            raise InvalidSignatureError(
                f"The handler of tool '{name}' does not take '{key}', which its schema has",
                tool=name,
                parameter=key,
                source=callee.source,
                hint=hint,
            )
    required = schema.get("required", ())
    for item in parameters:
        named = item.kind in (*_NAMED, inspect.Parameter.POSITIONAL_ONLY)
        if named and item.default is inspect.Parameter.empty and item.name not in required:
            raise InvalidSignatureError(
                f"The handler of tool '{name}' needs '{item.name}', which its schema does not require",
                tool=name,
                parameter=item.name,
                source=callee.source,
                hint=hint,
            )
