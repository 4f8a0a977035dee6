"""`@tool`, which marks a function, a method or a tool class and returns it unchanged; and how a mark is read.

Knows options as what is said of a tool. Refuses to know what becomes of a marked thing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Unpack, overload

from toolcrib.definition import NO_OPTIONS, OptionFields, ToolOptions
from toolcrib.errors import InvalidToolError

MARK = "__toolcrib__"
F = TypeVar("F", bound=Callable[..., Any])


def marked_options(thing: Any) -> ToolOptions:
    """What `@tool` said about a function or a class; nothing said gives the defaults."""
    options = getattr(thing, MARK, None)
    while options is None and hasattr(thing, "func"):  # a partial of a marked function
        thing = thing.func
        options = getattr(thing, MARK, None)
    return options if isinstance(options, ToolOptions) else NO_OPTIONS


def is_marked(thing: Any) -> bool:
    return isinstance(getattr(thing, MARK, None), ToolOptions)


def options_of(first: Any, description: str | None, schema: Any, given: OptionFields) -> OptionFields:
    """The keywords behind `@tool("name", "description", {...}, ...)`."""
    merged = given.copy()
    if first is not None:
        merged["name"] = first
    if description is not None:
        merged["description"] = description
    if schema is not None:
        merged["input_schema"] = schema
    return merged


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    /,
    **options: Unpack[OptionFields],
) -> Callable[[F], F]: ...
def tool(
    first: Any = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    /,
    **options: Unpack[OptionFields],
) -> Any:
    """Mark a function, a method or a tool class to be found and registered later; it stays what it is.

    Works bare (`@tool`), with options (`@tool(read_only=True)`), with a name, and with a name, a
    description and an explicit schema.
    """
    if callable(first) or isinstance(first, classmethod):
        return _mark(first, NO_OPTIONS)
    if first is not None and not isinstance(first, str):
        raise InvalidToolError(f"@tool takes a name first, got {type(first).__name__}")
    chosen = NO_OPTIONS.over(options_of(first, description, schema, options))
    return lambda function: _mark(function, chosen)


def _mark(function: Any, options: ToolOptions) -> Any:
    target = function.__func__ if isinstance(function, staticmethod | classmethod) else function
    try:
        setattr(target, MARK, options)
    except (AttributeError, TypeError):
        raise InvalidToolError(
            f"@tool cannot mark a {type(target).__name__}", hint="give the options where it is added"
        ) from None
    return function
