"""Helpers for type hints: the schema that is published, the value a function receives, the result sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolcrib import Tool
from toolcrib.validation.validator import check_schema

_NOTHING: Any = object()


def taking(hint: Any, default: Any = _NOTHING, **options: Any) -> Tool:
    """Return a tool with one parameter `x` of this hint."""

    def required(x):
        return None

    def optional(x=default):
        return None

    function = required if default is _NOTHING else optional
    function.__annotations__ = {} if hint is _NOTHING else {"x": hint}
    return Tool.from_function(function, name="taking", **options)


def giving(hint: Any, **options: Any) -> Tool:
    """Return a tool whose result has this hint."""

    def give():
        return None

    give.__annotations__ = {"return": hint}
    return Tool.from_function(give, name="giving", **options)


def schema_of(hint: Any, default: Any = _NOTHING) -> dict[str, Any]:
    """Return the published schema of a parameter of this hint, with its `$defs`."""
    schema = taking(hint, default).definition.input_schema
    check_schema(schema)
    shown = dict(schema["properties"]["x"])
    return {**shown, "$defs": schema["$defs"]} if "$defs" in schema else shown


def output_of(hint: Any) -> Any:
    """Return the published schema of a result of this hint."""
    schema = giving(hint).definition.output_schema
    if schema is not None:
        check_schema(schema)
    return schema


def receive(hint: Any, value: Any, **options: Any) -> Any:
    """Return the value a function gets when a client sends `value` for a parameter of this hint."""
    return received_by(taking(hint, **options), x=value)["x"]


def received_by(tool: Tool, **arguments: Any) -> dict[str, Any]:
    """Return all arguments that a function gets, by parameter."""
    plan = tool.arguments
    return plan.bind(plan.check(arguments))


def emit(hint: Any, value: Any) -> Any:
    """Return the JSON that is sent when a function with this result hint returns `value`."""
    return giving(hint).results.finish(value).structured_content


def codes(tool: Tool) -> list[str]:
    return [finding.code for finding in tool.findings]


def definition_of(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """A function's definition as it is listed."""
    return Tool.from_function(function, **options).definition.to_wire()
