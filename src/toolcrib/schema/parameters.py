"""Callables as handlers of tools: their parameters, location, name and docstring.

Registration pays for this, so it is cheap: hints, docstrings and schemas are read later (function.py), and
even a signature only where the code object does not tell enough.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from toolcrib.errors import NO_LOCATION, InvalidSignatureError, InvalidToolError, Location

_VARIABLE: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
VARIABLE_KINDS = frozenset(_VARIABLE)
_VARIABLE_FLAGS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_ASYNC_FLAGS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


EMPTY: Any = inspect.Parameter.empty
POSITIONAL_ONLY = inspect.Parameter.POSITIONAL_ONLY
_BY_NAME = inspect.Parameter.POSITIONAL_OR_KEYWORD
_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


class Parameter(NamedTuple):
    """The same as `inspect.Parameter`, at a tenth of its cost."""

    name: str
    kind: Any
    default: Any = EMPTY
    annotation: Any = EMPTY


class HandlerInfo:
    """A handler and the `function` behind its wrappers, which has the hints, the docstring and the source.
    `kind` is the word for the handler in messages."""

    __slots__ = ("_parameters", "_signature", "function", "handler", "is_async", "kind", "source")

    def __init__(self, handler: Callable[..., Any], kind: str = "tool") -> None:
        self.handler = handler
        self.kind = kind
        self.function: Any = find_function(handler)
        self.source = locate(self.function)
        self.is_async = is_async_callable(handler)
        self._signature: inspect.Signature | None = None
        self._parameters: list[Parameter] | None = None

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters, read at first use, from the code object where that is enough."""
        if self._parameters is None:
            if self.is_plain and not self.function.__code__.co_flags & _VARIABLE_FLAGS:
                parameters = _read_code(self.function)
                self._parameters = parameters[1:] if type(self.handler) is MethodType else parameters
            else:
                self._parameters = [
                    Parameter(item.name, item.kind, item.default, item.annotation)
                    for item in self.signature.parameters.values()
                ]
        return self._parameters

    @property
    def signature(self) -> inspect.Signature:
        """The signature, read at first use. Raises TypeError or ValueError where there is none."""
        if self._signature is None:
            self._signature = inspect.signature(self.handler)
        return self._signature

    def refusal(self, name: str, parameter: str, problem: str, hint: str | None) -> InvalidSignatureError:
        """Return the error about a parameter."""
        return InvalidSignatureError(problem, tool=name, parameter=parameter, source=self.source, hint=hint)

    @property
    def is_plain(self) -> bool:
        """Whether the code object has all parameters: there is no wrapper with another signature."""
        function, handler = self.function, self.handler
        if handler is not function and (type(handler) is not MethodType or handler.__func__ is not function):
            return False
        return type(function) is FunctionType and "__signature__" not in function.__dict__


def _read_code(function: Any) -> list[Parameter]:
    """Return the parameters of a plain function without `*args` and `**kwargs`."""
    code, hints = function.__code__, function.__annotations__
    count, only = code.co_argcount, code.co_posonlyargcount
    defaults = (EMPTY,) * count + (function.__defaults__ or ())
    defaults = defaults[len(defaults) - count :]
    make = tuple.__new__  # the same as Parameter(...), without a call of Python code for each
    positional = [
        make(Parameter, (name, _BY_NAME, default, hints.get(name, EMPTY)))
        for name, default in zip(code.co_varnames[:count], defaults, strict=True)
    ]
    if only:
        positional[:only] = [item._replace(kind=POSITIONAL_ONLY) for item in positional[:only]]
    if not code.co_kwonlyargcount:
        return positional
    keyword_defaults = function.__kwdefaults__ or {}
    keywords = [
        Parameter(name, _KEYWORD_ONLY, keyword_defaults.get(name, EMPTY), hints.get(name, EMPTY))
        for name in code.co_varnames[count : count + code.co_kwonlyargcount]
    ]
    return positional + keywords


def inspect_handler(handler: Callable[..., Any], name: str, kind: str = "tool") -> HandlerInfo:
    """Return a HandlerInfo. Raise InvalidToolError where the handler has no signature."""
    info = HandlerInfo(handler, kind)
    if not info.is_plain:
        try:
            _ = info.signature
        except (TypeError, ValueError):
            raise InvalidToolError(
                f"Cannot read the signature of {kind} '{name}'",
                tool=name,
                source=info.source,
                hint="wrap it in a function",
            ) from None
    return info


def check_parameters(info: HandlerInfo, name: str) -> None:
    """Raise InvalidSignatureError where the parameters cannot be arguments of a tool, resource or prompt."""
    if not info.is_plain or info.function.__code__.co_flags & _VARIABLE_FLAGS:
        variable = [item for item in info.parameters if item.kind in _VARIABLE]
        if variable:
            shown = " and ".join(f"{_VARIABLE[item.kind]}{item.name}" for item in variable)
            text = f"{info.kind.capitalize()} '{name}' takes {shown}, which no schema can describe"
            hint = "name each parameter" + (", or give an explicit input_schema" * (info.kind == "tool"))
            raise info.refusal(name, variable[0].name, text, hint)
    _check_bound(info, name)


def _check_bound(info: HandlerInfo, name: str) -> None:
    qualname = getattr(info.function, "__qualname__", "")
    owner = qualname.rpartition(".")[0] if "." in qualname else ""
    if info.handler is not info.function or not owner or owner.endswith("<locals>"):
        return
    first = next(iter(info.parameters), None)
    if first is None or first.name not in ("self", "cls") or first.annotation is not EMPTY:
        return
    problem = f"is an unbound method: the caller would have to send '{first.name}'"
    hint = f"add a method of an instance: {owner.rpartition('.')[2]}().{info.function.__name__}"
    raise info.refusal(name, first.name, f"{info.kind.capitalize()} '{name}' {problem}", hint)


def find_function(handler: Any) -> Any:
    """Return the plain function behind partials, methods, wrappers and callable objects."""
    if type(handler) is FunctionType and not hasattr(handler, "__wrapped__"):
        return handler
    for _ in range(32):  # nested wrappers
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
    """Return the `__init__` or `__new__` of a class, which has the hints."""
    init = inspect.getattr_static(cls, "__init__")
    return init if isinstance(init, FunctionType) else cls.__new__


def parameter_names(info: HandlerInfo) -> set[str]:
    """Return the names of all parameters, including those that a partial has filled in."""
    code = getattr(info.function, "__code__", None)
    names = code.co_varnames if code is not None else ()
    return {*(parameter.name for parameter in info.parameters), *names}


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


def locate_caller() -> Location:
    """Return where the function that asks was called."""
    caller = sys._getframe(2)
    return Location(caller.f_code.co_filename, caller.f_lineno)


def is_async_callable(handler: Any) -> bool:
    """Whether calling it returns a coroutine or an async generator; also for wrappers and callable
    objects."""
    if type(handler) is FunctionType and handler.__code__.co_flags & _ASYNC_FLAGS:
        return True
    while isinstance(handler, functools.partial):
        handler = handler.func
    if inspect.iscoroutinefunction(handler) or inspect.isasyncgenfunction(handler):
        return True
    return not inspect.isroutine(handler) and inspect.iscoroutinefunction(type(handler).__call__)


def name_of(handler: Any) -> str:
    """Return the name that a callable has as a tool, "" for a lambda."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    name = getattr(handler, "__name__", None)
    if name is None:
        name = _WORD_STARTS.sub("_", type(handler).__name__).lower().strip("_")
    return "" if name == "<lambda>" else str(name)


def docstring_of(handler: Any) -> str | None:
    """Return the docstring of a callable, also an inherited one."""
    if type(handler) is FunctionType and handler.__doc__:
        return handler.__doc__
    if isinstance(handler, functools.partial):
        return docstring_of(handler.func)
    if inspect.isroutine(handler) or hasattr(handler, "__wrapped__"):
        return handler.__doc__ or inspect.getdoc(handler)
    if isinstance(handler, type):
        own = handler.__dict__.get("__doc__")
        if isinstance(own, str) and not own.startswith(f"{handler.__name__}("):  # made by @dataclass
            return own
        init = constructor_of(handler)
        return init.__doc__ if isinstance(init, FunctionType) and init.__name__ == "__init__" else None
    return getattr(find_function(handler), "__doc__", None) or type(handler).__doc__
