"""Annotations, evaluated: those of functions and those of classes.

Knows where names in annotations are looked up: the module, and what a function has closed over. One that
cannot be resolved is an error that names it. Refuses to know what hints mean.
"""

from __future__ import annotations

import types
import typing
from typing import Any, NoReturn

from toolcrib.errors import InvalidSignatureError
from toolcrib.schema.parameters import Callee, constructor_of


def hints_of_function(callee: Callee, name: str) -> dict[str, Any]:
    """The hints of a function by parameter, `return` included."""
    function = callee.function
    if isinstance(function, type):
        function = constructor_of(function)
    written: dict[str, Any] = getattr(function, "__annotations__", {})
    if all(map(_is_settled, written.values())):
        return written
    closure = _closure_of(function)
    try:
        return typing.get_type_hints(function, localns=closure or None, include_extras=True)
    except Exception as error:
        _blame(callee, name, written, {**function.__globals__, **closure}, error)


def hints_of_class(cls: type) -> dict[str, Any]:
    """The hints of a class's fields, inherited ones included."""
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception as error:
        raise InvalidSignatureError(
            f"class '{cls.__name__}' has an annotation that cannot be resolved: {error}",
            hint=f"define the name in module {cls.__module__}, or import it there at run time",
        ) from None


def _is_settled(hint: Any) -> bool:
    """Whether a hint is what it says: no text in it that `typing` would have to evaluate, at a price."""
    origin = getattr(hint, "__origin__", None)
    if origin is typing.Literal:
        return True
    if origin is not None or isinstance(hint, types.UnionType):
        return all(map(_is_settled, getattr(hint, "__args__", ())))
    return hint is None or isinstance(hint, type)


def _blame(callee: Callee, name: str, written: dict[str, Any], scope: Any, error: Exception) -> NoReturn:
    """Raise for the first annotation that cannot be evaluated by itself."""
    found = "return"
    for parameter, hint in written.items():
        probe = type("Probe", (), {"__annotations__": {parameter: hint}, "__module__": "builtins"})
        try:
            typing.get_type_hints(probe, globalns=scope, localns=scope)
        except Exception as reason:
            found, error = parameter, reason
            break
    subject = f"The result of tool '{name}'" if found == "return" else f"Parameter '{found}' of tool '{name}'"
    raise InvalidSignatureError(
        f"{subject} has an annotation that cannot be resolved: {error}",
        tool=name,
        parameter=found,
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
