"""Annotations of functions and classes: evaluated, with type variables and aliases replaced."""

from __future__ import annotations

import functools
import sys
import types
import typing
from collections.abc import Mapping
from typing import Any

from toolcrib.errors import InvalidSignatureError
from toolcrib.schema.parameters import EMPTY, HandlerInfo, constructor_of

_MAX_ALIASES = 32


def resolve_hints(info: HandlerInfo, name: str) -> dict[str, Any]:
    """Return the hints of a handler by parameter, `return` included.

    Raise InvalidSignatureError, with the parameter, where an annotation cannot be evaluated.
    """
    annotations = _annotations_of(info)
    for hint in annotations.values():
        if type(hint) is not type and not _is_evaluated(hint):
            break
    else:
        return annotations
    try:
        return _evaluate(info.function, annotations)
    except Exception:
        parameter, error = _find_failure(info.function, annotations)
    subject = "The result" if parameter == "return" else f"Parameter '{parameter}'"
    raise InvalidSignatureError(
        f"{subject} of tool '{name}' has an annotation that cannot be resolved: {error}",
        tool=name,
        parameter=parameter,
        source=info.source,
        hint="import the name at run time, at the top of the module, not under TYPE_CHECKING",
    )


def resolve_class_hints(cls: type) -> dict[str, Any]:
    """Return the hints of the fields of a class, inherited ones included."""
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception as error:
        raise InvalidSignatureError(
            f"class '{cls.__name__}' has an annotation that cannot be resolved: {error}",
            hint=f"define the name in module {cls.__module__}, or import it there at run time",
        ) from None


def _annotations_of(info: HandlerInfo) -> dict[str, Any]:
    """Return annotations as written; those of a wrapper's own signature win."""
    function = constructor_of(info.function) if isinstance(info.function, type) else info.function
    annotations: dict[str, Any] = getattr(function, "__annotations__", {})
    if info.is_plain:
        return annotations
    shown = {item.name: item.annotation for item in info.parameters if item.annotation is not EMPTY}
    return {**annotations, **shown}


def _find_failure(function: Any, annotations: dict[str, Any]) -> tuple[str, Exception]:
    """Return the first annotation that cannot be evaluated, and why."""
    for parameter, hint in annotations.items():
        try:
            _evaluate(function, {parameter: hint})
        except Exception as error:
            return parameter, error
    raise AssertionError("every annotation can be evaluated alone")


def _evaluate(function: Any, annotations: dict[str, Any]) -> dict[str, Any]:
    """Evaluate the annotations of a function or class with the names that it sees."""
    module = sys.modules.get(function.__module__) if isinstance(function, type) else None
    scope = getattr(function, "__globals__", {}) if module is None else vars(module)
    type_params = {variable.__name__: variable for variable in getattr(function, "__type_params__", ())}
    names = {**type_params, **_closure_of(function)}
    hints = {
        key: eval(_compile(hint), scope, names) if type(hint) is str else hint  # nosec B307: as `typing` does
        for key, hint in annotations.items()
    }
    if all(map(_is_evaluated, hints.values())):
        return hints
    probe = types.SimpleNamespace(__annotations__=annotations)
    return typing.get_type_hints(probe, scope, names, include_extras=True)


@functools.lru_cache(maxsize=1024)
def _compile(text: str) -> types.CodeType:
    """Compile an annotation. Programs repeat them, and compiling is most of the cost of evaluating."""
    return compile(text, "<annotation>", "eval", dont_inherit=True)


def _is_evaluated(hint: Any) -> bool:
    """Whether a hint contains no string that `typing` would have to evaluate, which is slow."""
    kind = type(hint)
    if kind is type or hint is None:
        return True
    if kind is types.UnionType:
        return all(map(_is_evaluated, hint.__args__))
    origin = getattr(hint, "__origin__", None)
    if origin is typing.Literal:
        return True
    if origin is not None:
        return all(map(_is_evaluated, getattr(hint, "__args__", ())))
    return isinstance(hint, type)


def _closure_of(function: Any) -> dict[str, Any]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    found: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars, cells, strict=True) if code is not None and cells else ():
        try:
            found[name] = cell.cell_contents
        except ValueError:  # assigned after the function was made
            continue
    return found


def origin_of(hint: Any) -> Any:
    """Do the same as `typing.get_origin`, faster for plain classes."""
    return None if type(hint) is type else typing.get_origin(hint)


def substitute(hint: Any, arguments: Mapping[Any, Any]) -> Any:
    """Return the hint with its type variables replaced by their arguments, as far as these are known."""
    if hint in arguments:
        return arguments[hint]
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or isinstance(hint, type) or not any(item in arguments for item in parameters):
        return hint
    return hint[tuple(arguments.get(item, item) for item in parameters)]


def arguments_by_class(hint: Any) -> dict[type, dict[Any, Any]]:
    """Return the arguments of the type variables of a class and of each of its bases."""
    found: dict[type, dict[Any, Any]] = {}
    pending = [hint]
    while pending:
        item = pending.pop()
        cls = origin_of(item) or item
        arguments = dict(zip(getattr(cls, "__parameters__", ()), typing.get_args(item), strict=False))
        found.setdefault(cls, arguments)
        bases = vars(cls).get("__orig_bases__") or getattr(cls, "__bases__", ())
        pending += [
            substitute(base, arguments)
            for base in bases
            if origin_of(base) not in (typing.Generic, typing.Protocol)
        ]
    return found


def is_alias(hint: Any) -> bool:
    """Whether this was made by a `type` statement, or by TypeAliasType."""
    return type(hint).__name__ == "TypeAliasType"


def resolve_alias(hint: Any) -> Any:
    """Return the type behind `type X = ...`, with its arguments; any other hint as it is."""
    for _ in range(_MAX_ALIASES):
        if is_alias(hint):
            hint = hint.__value__
        elif is_alias(origin := origin_of(hint)):
            arguments = dict(zip(origin.__type_params__, typing.get_args(hint), strict=False))
            hint = substitute(origin.__value__, arguments)
        else:
            break
    return hint
