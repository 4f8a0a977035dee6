"""The things that an expression may stand for."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from toolcrib.sources.scan.source_file import FunctionNode, Scope, SourceFile, Spot, first_line

LibraryName = Literal["toolcrib", "mcp", "fastmcp", "unknown"]
"""The library whose rules a server has."""
Kind = Literal["tool", "resource", "prompt"]


class Thing:
    """Anything that an expression may stand for."""

    __slots__ = ()


UNKNOWN = Thing()


@dataclass(eq=False, slots=True)
class Known(Thing):
    """Something of a package that is not read, by its full name. `call`: what calling it returns."""

    name: str
    call: Arguments | None = None

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def is_application(self) -> bool:
        """Whether this is toolcrib's own class for applications."""
        return self.package == "toolcrib" and self.last in ("Application", "APIApplication")


@dataclass(eq=False, slots=True)
class Module(Thing):
    file: SourceFile


@dataclass(eq=False, slots=True)
class Written(Thing):
    """A function or class of a scanned file, and the scope in which it stands."""

    node: Any
    scope: Scope

    @property
    def file(self) -> SourceFile:
        return self.scope.file

    @property
    def line(self) -> int:
        return first_line(self.node)

    @property
    def body(self) -> Scope:
        return self.scope.file.scope_in(self.node)


@dataclass(eq=False, slots=True)
class Class(Written):
    node: ast.ClassDef


@dataclass(eq=False, slots=True)
class Function(Written):
    """A function; `owner` is the class whose object it is bound to as a method."""

    node: FunctionNode
    owner: Class | None = None


@dataclass(eq=False, slots=True)
class Instance(Thing):
    """An object of a scanned class."""

    cls: Class


@dataclass(eq=False, slots=True)
class Data(Thing):
    """An expression that is none of the other things; also an item of a list or dict, with its key. An open
    one stands for items that could not be read."""

    node: ast.expr
    scope: Scope
    key: ast.expr | None = None
    is_open: bool = False


@dataclass(eq=False, slots=True)
class Arguments:
    """The arguments of a call as they are written, and where their names are looked up."""

    args: Sequence[ast.expr]
    keywords: Sequence[ast.keyword]
    scope: Scope
    line: int
    is_called: bool = True

    @classmethod
    def of(cls, node: ast.expr, scope: Scope) -> Arguments:
        """Return the arguments of a call; none for a decorator that is not called."""
        if isinstance(node, ast.Call):
            return cls(node.args, node.keywords, scope, node.lineno)
        return cls((), (), scope, node.lineno, is_called=False)

    @property
    def path(self) -> str:
        return str(self.scope.file.path)

    def keyword(self, *names: str) -> ast.expr | None:
        return next((item.value for item in self.keywords if item.arg in names), None)

    def without_first(self) -> Arguments:
        return replace(self, args=self.args[1:])

    def bare(self) -> Arguments:
        return replace(self, args=(), keywords=())


@dataclass(eq=False, slots=True)
class Registration:
    """One thing that is put on a server by a method of it, and the options."""

    thing: Thing
    options: Arguments
    method: str
    spot: Spot


@dataclass(eq=False, slots=True)
class Server(Thing):
    """A server or a registry, and what is registered on it. `prefix` is that of the server around it."""

    library: LibraryName
    label: str
    file: SourceFile
    call: Arguments | None = None
    cls: Class | None = None
    registrations: list[Registration] = field(default_factory=list)
    prefix: str = ""
