"""The cheap look at a callable that registration pays for: what it is, where it is, can it be a tool.

Knows `inspect`. Refuses to look at hints, docstrings and schemas, which cost a hundred times more and
wait until somebody wants the definition (signature.py).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import InvalidSignatureError, InvalidToolError
from toolcrib.finding import NOWHERE, Source

_VARIABLE: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


@dataclass(frozen=True, slots=True)
class Callee:
    """A callable, seen through its wrappers. `function` is where hints, words and source are found."""

    handler: Callable[..., Any]
    function: Callable[..., Any]
    signature: inspect.Signature
    source: Source
    is_async: bool


def inspect_callable(handler: Callable[..., Any], name: str) -> Callee:
    """What `handler` takes and where it stands."""
    function = find_function(handler)
    source = locate(function)
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):
        raise InvalidToolError(
            f"Tool '{name}' has no signature that can be read",
            tool=name,
            source=source,
            hint="wrap it in a function",
        ) from None
    return Callee(handler, function, signature, source, is_async_callable(handler))


def check_parameters(callee: Callee, name: str) -> None:
    """Raise InvalidSignatureError where the parameters cannot be a tool's arguments."""
    for parameter in callee.signature.parameters.values():
        stars = _VARIABLE.get(parameter.kind)
        if stars:
            raise InvalidSignatureError(
                f"Tool '{name}' takes {stars}{parameter.name}, which no schema can describe",
                tool=name,
                parameter=parameter.name,
                source=callee.source,
                hint="name each parameter, or give an explicit input_schema",
            )
    _refuse_unbound(callee, name)


def _refuse_unbound(callee: Callee, name: str) -> None:
    function: Any = callee.function
    first = next(iter(callee.signature.parameters.values()), None)
    if first is None or first.name not in ("self", "cls") or callee.handler is not function:
        return
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    if owner and not owner.endswith("<locals>") and first.annotation is inspect.Parameter.empty:
        raise InvalidSignatureError(
            f"Tool '{name}' is a method without its object: '{first.name}' would be asked of the model",
            tool=name,
            parameter=first.name,
            source=callee.source,
            hint=f"add a method of an instance: {owner.rpartition('.')[2]}().{function.__name__}",
        )


def find_function(handler: Any) -> Any:
    """The plain function behind partials, methods, wrappers and callable objects."""
    for _ in range(32):  # wrappers of wrappers, but not for ever
        if isinstance(handler, functools.partial):
            handler = handler.func
        elif inspect.ismethod(handler):
            handler = handler.__func__
        elif hasattr(handler, "__wrapped__"):
            handler = handler.__wrapped__
        elif inspect.isfunction(handler) or inspect.isbuiltin(handler) or isinstance(handler, type):
            break
        elif inspect.ismethod(call := handler.__call__ if callable(handler) else None):
            handler = call
        else:
            break
    return handler


def locate(function: Any) -> Source:
    code = getattr(function, "__code__", None)
    if code is not None:
        return Source(code.co_filename, code.co_firstlineno)
    if isinstance(function, type):
        try:
            return Source(inspect.getsourcefile(function), inspect.getsourcelines(function)[1])
        except (OSError, TypeError):
            return NOWHERE
    return NOWHERE


def is_async_callable(handler: Any) -> bool:
    """Whether calling it gives a coroutine, wrappers and callable objects included."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if inspect.iscoroutinefunction(handler) or inspect.isasyncgenfunction(handler):
        return True
    return not inspect.isroutine(handler) and inspect.iscoroutinefunction(type(handler).__call__)


def name_of(handler: Any) -> str:
    """The name a callable would have as a tool; "" where it has none of its own."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    name = getattr(handler, "__name__", None)
    if name is None and callable(handler):
        name = _snake(type(handler).__name__)
    return "" if name is None or name == "<lambda>" else str(name)


def _snake(name: str) -> str:
    text = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return text.strip("_").replace("__", "_")


def words_of(handler: Any) -> str | None:
    """The docstring that speaks of this callable, inherited ones included."""
    if isinstance(handler, functools.partial):
        return words_of(handler.func)
    if inspect.isroutine(handler) or hasattr(handler, "__wrapped__"):
        return handler.__doc__ or inspect.getdoc(handler)
    call = find_function(handler)
    text = getattr(call, "__doc__", None) if inspect.isfunction(call) else None
    return text or type(handler).__doc__
