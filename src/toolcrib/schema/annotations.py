"""Type variables get their arguments: in generic classes, their bases, and type aliases.

Knows what `typing` keeps on generic objects. Refuses to know what the types mean.

Annotations, evaluated: those of functions and those of classes.

Knows where names in annotations are looked up: the module, and what a function has closed over. One that
cannot be resolved is an error that names it. Refuses to know what hints mean.
"""

from __future__ import annotations

import functools
import sys
import types
import typing
from collections.abc import Mapping
from typing import Any

from toolcrib.errors import InvalidSignatureError
from toolcrib.schema.parameters import EMPTY, Callee, constructor_of


def hints_of_function(callee: Callee, name: str) -> dict[str, Any]:
    """The hints of a callable by parameter, `return` included."""
    function = callee.function
    written = _written(callee)
    for hint in written.values():
        if type(hint) is not type and not _is_settled(hint):
            break
    else:
        return written
    try:
        return _evaluate(function, written)
    except Exception:
        parameter, error = _failures(function, written)[0]
    subject = "The result" if parameter == "return" else f"Parameter '{parameter}'"
    raise InvalidSignatureError(
        f"{subject} of tool '{name}' has an annotation that cannot be resolved: {error}",
        tool=name,
        parameter=parameter,
        source=callee.source,
        hint="import the name at run time, at the top of the module, not under TYPE_CHECKING",
    )


def _failures(function: Any, written: dict[str, Any]) -> list[tuple[str, Exception]]:
    """Which annotations cannot be evaluated, one by one, and why."""
    found: list[tuple[str, Exception]] = []
    for parameter, hint in written.items():
        try:
            _evaluate(function, {parameter: hint})
        except Exception as error:
            found.append((parameter, error))
    return found


def _evaluate(function: Any, written: dict[str, Any]) -> dict[str, Any]:
    """Annotations of a function or class, with the names that it sees."""
    module = sys.modules.get(function.__module__) if isinstance(function, type) else None
    scope = getattr(function, "__globals__", {}) if module is None else vars(module)
    own = {variable.__name__: variable for variable in getattr(function, "__type_params__", ())}
    names = {**own, **_closure_of(function)}
    found = {
        key: eval(_compile(hint), scope, names) if type(hint) is str else hint  # nosec B307: as `typing` does
        for key, hint in written.items()
    }
    if all(map(_is_settled, found.values())):
        return found
    probe = types.SimpleNamespace(__annotations__=written)
    return typing.get_type_hints(probe, scope, names, include_extras=True)


@functools.lru_cache(maxsize=1024)
def _compile(text: str) -> types.CodeType:
    """Annotations of one program are much alike, and compiling them is most of what evaluating costs."""
    return compile(text, "<annotation>", "eval", dont_inherit=True)


def hints_of_class(cls: type) -> dict[str, Any]:
    """The hints of a class's fields, inherited ones included."""
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception as error:
        raise InvalidSignatureError(
            f"class '{cls.__name__}' has an annotation that cannot be resolved: {error}",
            hint=f"define the name in module {cls.__module__}, or import it there at run time",
        ) from None


def _written(callee: Callee) -> dict[str, Any]:
    """Annotations as they were written; a signature of its own tells of them where a wrapper has one."""
    function = constructor_of(callee.function) if isinstance(callee.function, type) else callee.function
    written: dict[str, Any] = getattr(function, "__annotations__", {})
    if callee.is_plain:
        return written
    shown = {item.name: item.annotation for item in callee.parameters if item.annotation is not EMPTY}
    return {**written, **shown}


def _is_settled(hint: Any) -> bool:
    """Whether a hint is what it says: no text in it that `typing` would have to evaluate, at a price."""
    kind = type(hint)
    if kind is type or hint is None:
        return True  # as most are
    if kind is types.UnionType:
        return all(map(_is_settled, hint.__args__))
    origin = getattr(hint, "__origin__", None)
    if origin is typing.Literal:
        return True
    if origin is not None:
        return all(map(_is_settled, getattr(hint, "__args__", ())))
    return isinstance(hint, type)


def _closure_of(function: Any) -> dict[str, Any]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    found: dict[str, Any] = {}
    for free, cell in zip(code.co_freevars, cells, strict=True) if code is not None and cells else ():
        try:
            found[free] = cell.cell_contents
        except ValueError:  # assigned later than the function was made
            continue
    return found


_LONGEST_ALIAS = 32  # an alias of an alias of ..., but not for ever


def origin_of(hint: Any) -> Any:
    """`typing.get_origin`, with a short cut for plain classes, which have none."""
    return None if type(hint) is type else typing.get_origin(hint)


def substitute(hint: Any, arguments: Mapping[Any, Any]) -> Any:
    """The hint with its type variables replaced; those that no argument is known for stay."""
    if hint in arguments:
        return arguments[hint]
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or isinstance(hint, type) or not any(item in arguments for item in parameters):
        return hint
    return hint[tuple(arguments.get(item, item) for item in parameters)]


def arguments_by_class(hint: Any) -> dict[type, dict[Any, Any]]:
    """For a class and each of its bases, what its type variables stand for, seen from `hint`."""
    found: dict[type, dict[Any, Any]] = {}
    waiting = [hint]
    while waiting:
        item = waiting.pop()
        cls = origin_of(item) or item
        arguments = dict(zip(getattr(cls, "__parameters__", ()), typing.get_args(item), strict=False))
        found.setdefault(cls, arguments)
        bases = vars(cls).get("__orig_bases__") or getattr(cls, "__bases__", ())
        waiting.extend(
            substitute(base, arguments)
            for base in bases
            if origin_of(base) not in (typing.Generic, typing.Protocol)
        )
    return found


def is_alias(hint: Any) -> bool:
    """Whether this was made by a `type` statement, or by the class behind it."""
    return type(hint).__name__ == "TypeAliasType"


def unalias(hint: Any) -> Any:
    """What a `type X = ...` stands for, its arguments filled in; any other hint is itself."""
    for _ in range(_LONGEST_ALIAS):
        if is_alias(hint):
            hint = hint.__value__
        elif is_alias(origin := origin_of(hint)):
            arguments = dict(zip(origin.__type_params__, typing.get_args(hint), strict=False))
            hint = substitute(origin.__value__, arguments)
        else:
            break
    return hint
