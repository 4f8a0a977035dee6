"""The cheap look at a callable that registration pays for: what it is, where it is, can it be a tool.

Knows `inspect`. Refuses to look at hints, docstrings and schemas, which cost a hundred times more and
wait until somebody wants the definition (signature.py). Even a signature is only read where the code object
does not tell enough.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from toolcrib.errors import NO_LOCATION, InvalidSignatureError, InvalidToolError, Location

_VARIABLE: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_VARIABLE_FLAGS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_ASYNC_FLAGS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


EMPTY: Any = inspect.Parameter.empty
POSITIONAL_ONLY = inspect.Parameter.POSITIONAL_ONLY
_BY_NAME = inspect.Parameter.POSITIONAL_OR_KEYWORD
_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


class Parameter(NamedTuple):
    """What `inspect.Parameter` tells, at a tenth of its price."""

    name: str
    kind: Any
    default: Any = EMPTY
    annotation: Any = EMPTY


class Callee:
    """A callable, seen through its wrappers. `function` is where hints, words and source are found."""

    __slots__ = ("_parameters", "_signature", "function", "handler", "is_async", "source")

    def __init__(self, handler: Callable[..., Any]) -> None:
        self.handler = handler
        self.function: Any = find_function(handler)
        self.source = locate(self.function)
        self.is_async = is_async_callable(handler)
        self._signature: inspect.Signature | None = None
        self._parameters: list[Parameter] | None = None

    @property
    def parameters(self) -> list[Parameter]:
        """Read when first wanted, off the code object where that tells all."""
        if self._parameters is None:
            if self.is_plain and not self.function.__code__.co_flags & _VARIABLE_FLAGS:
                found = _read_code(self.function)
                self._parameters = found[1:] if type(self.handler) is MethodType else found
            else:
                shown = self.signature.parameters.values()
                self._parameters = [
                    Parameter(item.name, item.kind, item.default, item.annotation) for item in shown
                ]
        return self._parameters

    @property
    def signature(self) -> inspect.Signature:
        """Read when first wanted. Raises TypeError or ValueError where there is none."""
        if self._signature is None:
            self._signature = inspect.signature(self.handler)
        return self._signature

    @property
    def is_plain(self) -> bool:
        """Whether its code object tells all about its parameters: no wrapper stands between."""
        function, handler = self.function, self.handler
        if handler is not function and (type(handler) is not MethodType or handler.__func__ is not function):
            return False
        return type(function) is FunctionType and "__signature__" not in function.__dict__


def _read_code(function: Any) -> list[Parameter]:
    """The parameters of a plain function, in order; it takes no variable ones."""
    code, hints = function.__code__, function.__annotations__
    count, by_place = code.co_argcount, code.co_posonlyargcount
    defaults = (EMPTY,) * count + (function.__defaults__ or ())
    defaults = defaults[len(defaults) - count :]
    make = tuple.__new__  # what Parameter(...) comes to, without a call of Python code for each
    places = [
        make(Parameter, (name, _BY_NAME, default, hints.get(name, EMPTY)))
        for name, default in zip(code.co_varnames[:count], defaults, strict=True)
    ]
    if by_place:
        places[:by_place] = [item._replace(kind=POSITIONAL_ONLY) for item in places[:by_place]]
    if not code.co_kwonlyargcount:
        return places
    filled = function.__kwdefaults__ or {}
    keywords = [
        Parameter(name, _KEYWORD_ONLY, filled.get(name, EMPTY), hints.get(name, EMPTY))
        for name in code.co_varnames[count : count + code.co_kwonlyargcount]
    ]
    return places + keywords


class Filled(functools.partial[Any]):
    """A handler that gets what its caller leaves out, where its own defaults are `Field(...)` objects."""

    factories: Mapping[str, Callable[[], Any]]

    def __call__(self, /, *args: Any, **given: Any) -> Any:
        made = {name: make() for name, make in self.factories.items() if name not in given}
        return super().__call__(*args, **made, **given)


def fill(
    handler: Callable[..., Any], values: Mapping[str, Any], factories: Mapping[str, Callable[[], Any]]
) -> Callable[..., Any]:
    """The handler with defaults of its own; itself where there are none."""
    if not values and not factories:
        return handler
    filled = Filled(handler, **values)
    filled.factories = factories
    return filled


def inspect_callable(handler: Callable[..., Any], name: str) -> Callee:
    """What `handler` is and where it stands."""
    callee = Callee(handler)
    if not callee.is_plain:
        try:
            _ = callee.signature
        except (TypeError, ValueError):
            raise InvalidToolError(
                f"Tool '{name}' has no signature that can be read",
                tool=name,
                source=callee.source,
                hint="wrap it in a function",
            ) from None
    return callee


def check_parameters(callee: Callee, name: str) -> None:
    """Raise InvalidSignatureError where the parameters cannot be a tool's arguments."""
    if not callee.is_plain or callee.function.__code__.co_flags & _VARIABLE_FLAGS:
        for parameter in callee.parameters:
            if stars := _VARIABLE.get(parameter.kind):
                raise InvalidSignatureError(
                    f"Tool '{name}' takes {stars}{parameter.name}, which no schema can describe",
                    tool=name,
                    parameter=parameter.name,
                    source=callee.source,
                    hint="name each parameter, or give an explicit input_schema",
                )
    _refuse_unbound(callee, name)


def _refuse_unbound(callee: Callee, name: str) -> None:
    qualname = getattr(callee.function, "__qualname__", "")
    owner = qualname.rpartition(".")[0] if "." in qualname else ""
    if callee.handler is not callee.function or not owner or owner.endswith("<locals>"):
        return
    first = next(iter(callee.parameters), None)
    if first is None or first.name not in ("self", "cls") or first.annotation is not EMPTY:
        return
    raise InvalidSignatureError(
        f"Tool '{name}' is a method without its object: '{first.name}' would be asked of the model",
        tool=name,
        parameter=first.name,
        source=callee.source,
        hint=f"add a method of an instance: {owner.rpartition('.')[2]}().{callee.function.__name__}",
    )


def find_function(handler: Any) -> Any:
    """The plain function behind partials, methods, wrappers and callable objects."""
    if type(handler) is FunctionType and not hasattr(handler, "__wrapped__"):
        return handler  # as most are
    for _ in range(32):  # wrappers of wrappers, but not for ever
        if isinstance(handler, functools.partial):
            handler = handler.func
        elif isinstance(handler, MethodType):
            handler = handler.__func__
        elif hasattr(handler, "__wrapped__"):
            handler = handler.__wrapped__
        elif inspect.isroutine(handler) or isinstance(handler, type):
            break
        elif callable(handler) and isinstance(handler.__call__, MethodType):
            handler = handler.__call__
        else:
            break
    return handler


def constructor_of(cls: type) -> Any:
    """What was written to make instances of a class: where its hints are, and maybe words."""
    init = inspect.getattr_static(cls, "__init__")
    return init if isinstance(init, FunctionType) else cls.__new__


def parameter_names(callee: Callee) -> set[str]:
    """Every parameter that is there, those included that a partial has filled in."""
    code = getattr(callee.function, "__code__", None)
    written = code.co_varnames if code is not None else ()
    return {*(parameter.name for parameter in callee.parameters), *written}


def locate(function: Any) -> Location:
    code = getattr(function, "__code__", None)
    if code is not None:
        return Location(code.co_filename, code.co_firstlineno)
    if isinstance(function, type):
        try:
            return Location(inspect.getsourcefile(function), inspect.getsourcelines(function)[1])
        except (OSError, TypeError):
            return NO_LOCATION
    return NO_LOCATION


def is_async_callable(handler: Any) -> bool:
    """Whether calling it gives a coroutine, wrappers and callable objects included."""
    if type(handler) is FunctionType and handler.__code__.co_flags & _ASYNC_FLAGS:
        return True
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
    if name is None:
        name = _WORD_STARTS.sub("_", type(handler).__name__).lower().strip("_")
    return "" if name == "<lambda>" else str(name)


def words_of(handler: Any) -> str | None:
    """The docstring that speaks of this callable, inherited ones included."""
    if type(handler) is FunctionType and handler.__doc__:
        return handler.__doc__
    if isinstance(handler, functools.partial):
        return words_of(handler.func)
    if inspect.isroutine(handler) or hasattr(handler, "__wrapped__"):
        return handler.__doc__ or inspect.getdoc(handler)
    if isinstance(handler, type):
        own = handler.__dict__.get("__doc__")
        if isinstance(own, str) and not own.startswith(f"{handler.__name__}("):  # as @dataclass writes
            return own
        written = constructor_of(handler)
        return (
            written.__doc__ if isinstance(written, FunctionType) and written.__name__ == "__init__" else None
        )
    return getattr(find_function(handler), "__doc__", None) or type(handler).__doc__
