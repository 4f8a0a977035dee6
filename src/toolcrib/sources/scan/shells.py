"""Functions with the parameters, docstring and location of a real one, and an empty body.

A shell is an empty function of ours whose code object gets other parameters, so no foreign code is
compiled.
"""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Collection
from copy import copy
from types import CodeType, FunctionType
from typing import Any, NamedTuple

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def _nothing() -> None:
    return None


def _something() -> Any:
    return 0


def _items() -> Any:
    return
    yield


async def _later_nothing() -> None:
    return None


async def _later_something() -> Any:
    return 0


async def _later_items() -> Any:
    return
    yield


_CODES: dict[tuple[bool, str], CodeType] = {
    (False, "nothing"): _nothing.__code__,
    (False, "something"): _something.__code__,
    (False, "items"): _items.__code__,
    (True, "nothing"): _later_nothing.__code__,
    (True, "something"): _later_something.__code__,
    (True, "items"): _later_items.__code__,
}


_NAMES: dict[str, Any] = {"__builtins__": {}, "__name__": ""}
"""What shells see around them: nothing. They run nothing either, so one for all will do."""


class Outline(NamedTuple):
    """The parameters of a function by kind."""

    by_place: tuple[str, ...] = ()
    by_name: tuple[str, ...] = ()
    by_keyword: tuple[str, ...] = ()
    rest: str | None = None
    more: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        if self[0] == self[2] == () and self.rest is self.more is None:
            return self.by_name  # as of most
        known = self.by_place + self.by_name + self.by_keyword
        if self.rest is not None:
            known += (self.rest,)
        return known if self.more is None else (*known, self.more)

    def without(self, names: Collection[str]) -> Outline:
        return Outline(
            tuple(name for name in self.by_place if name not in names),
            tuple(name for name in self.by_name if name not in names),
            tuple(name for name in self.by_keyword if name not in names),
            self.rest if self.rest not in names else None,
            self.more if self.more not in names else None,
        )


def outline_of(arguments: ast.arguments, owner: str = "") -> Outline:
    """The parameters as they are written; names that are private to a class are changed as Python does it."""
    others = arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg
    if not others and not owner:
        return Outline((), tuple([item.arg for item in arguments.args]))
    return Outline(
        names_of(arguments.posonlyargs, owner),
        names_of(arguments.args, owner),
        names_of(arguments.kwonlyargs, owner),
        None if arguments.vararg is None else mangle(arguments.vararg.arg, owner),
        None if arguments.kwarg is None else mangle(arguments.kwarg.arg, owner),
    )


def names_of(arguments: list[ast.arg], owner: str) -> tuple[str, ...]:
    names = [item.arg for item in arguments]
    return tuple([mangle(name, owner) for name in names] if owner else names)


def mangle(name: str, owner: str) -> str:
    if not owner or not name.startswith("__") or name.endswith("__"):
        return name
    owner = owner.rpartition(".")[2].lstrip("_")
    return f"_{owner}{name}" if owner else name


def make_shell(
    name: str,
    outline: Outline,
    *,
    is_async: bool = False,
    gives: str = "nothing",
    file: str = "",
    line: int = 1,
) -> FunctionType:
    """An empty function. It gives "nothing", "something" or "items", as far as its code shows."""
    code = _CODES[is_async, gives]
    names = outline.names
    flags = code.co_flags
    flags |= inspect.CO_VARARGS if outline.rest is not None else 0
    flags |= inspect.CO_VARKEYWORDS if outline.more is not None else 0
    code = code.replace(
        co_name=name,
        co_filename=file,
        co_firstlineno=line,
        co_argcount=len(outline.by_place) + len(outline.by_name),
        co_posonlyargcount=len(outline.by_place),
        co_kwonlyargcount=len(outline.by_keyword),
        co_nlocals=len(names),
        co_varnames=names,
        co_flags=flags,
    )
    return FunctionType(code, _NAMES, name)


def words_in(node: _Function) -> str | None:
    """The docstring as it is written: what `ast.get_docstring` gives, for a third of its price."""
    first = node.body[0] if node.body else None
    value = first.value if type(first) is ast.Expr else None
    return value.value if type(value) is ast.Constant and type(value.value) is str else None


def inert() -> None:
    """Stands for a factory of defaults: that there is one counts, not what it makes."""


def inert_check(value: Any) -> Any:
    """Stands for a validator."""
    return value


def what_it_gives(node: _Function) -> tuple[str, str | None]:
    """Whether a function returns anything, as its code would show; and what is wrong where Python refuses it.

    The function is compiled for this and thrown away.
    """
    bare = copy(node)
    bare.args, bare.decorator_list, bare.returns = _bare_arguments(node.args), [], None
    if "type_params" in node._fields:  # of Python 3.12
        bare.type_params = []  # type: ignore[union-attr,unused-ignore]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = compile(ast.Module([bare], []), "<scanned>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return "nothing", str(getattr(error, "msg", None) or error)
    except (RecursionError, MemoryError, TypeError):
        return "nothing", "it is nested too deeply"
    code = next(item for item in module.co_consts if isinstance(item, CodeType))
    if code.co_flags & _GENERATOR:
        return "items", None
    return ("something" if _returns_something(node) else "nothing"), None


def _bare_arguments(arguments: ast.arguments) -> ast.arguments:
    """The parameters without annotations and defaults; a place in the source is all the compiler asks for."""

    def bare(item: ast.arg) -> ast.arg:
        return ast.arg(item.arg, lineno=item.lineno, col_offset=item.col_offset)

    return ast.arguments(
        posonlyargs=[bare(item) for item in arguments.posonlyargs],
        args=[bare(item) for item in arguments.args],
        vararg=None if arguments.vararg is None else bare(arguments.vararg),
        kwonlyargs=[bare(item) for item in arguments.kwonlyargs],
        kw_defaults=[None] * len(arguments.kwonlyargs),
        kwarg=None if arguments.kwarg is None else bare(arguments.kwarg),
        defaults=[],
    )


def _returns_something(node: _Function) -> bool:
    """Whether some `return` of the function itself gives more than None."""
    waiting: list[ast.stmt] = list(node.body)
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, ast.Return):
            if statement.value is not None and not _is_none(statement.value):
                return True
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for field in ("body", "orelse", "finalbody"):
                waiting += getattr(statement, field, ())
            for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                waiting += part.body
    return False


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
