"""The things that an expression may stand for, and the calls that lead to it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from toolcrib.sources.scan.source_file import FunctionNode, Guess, Scope, SourceFile, Spot, first_line

LibraryName = Literal["toolcrib", "mcp", "fastmcp", "low-level", "unknown"]
"""The library whose rules a server has; "low-level" is a server of mcp that lists its tools itself."""


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
    """A function; `owner` is the object or class that it is bound to as a method."""

    node: FunctionNode
    owner: Thing | None = None
    guesses: tuple[Guess, ...] = ()


@dataclass(eq=False, slots=True)
class Instance(Thing):
    """An object of a scanned class. `call` is None for the one that a class or an unbound method implies."""

    cls: Class
    call: Arguments | None = None


@dataclass(eq=False, slots=True)
class Frame:
    """One way in which a function comes to be called, or a loop to be run: what parameters and variables
    stand for, by the id of their binding; `calls` are the keys of the calls that lead here, by the id of the
    function."""

    key: tuple[int, ...] = ()
    values: dict[int, Thing] = field(default_factory=dict)
    guesses: tuple[Guess, ...] = ()
    calls: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def home(self, scope: Scope) -> tuple[int, ...]:
        """Return the key of the call in which the code of a scope runs."""
        return () if scope.function is None else self.calls.get(id(scope.function.node), self.key)


ROOT = Frame()


@dataclass(eq=False, slots=True)
class Data(Thing):
    """An expression that is none of the other things; also an item of a list or dict, with its key. An open
    one stands for items that could not be read."""

    node: ast.expr
    scope: Scope
    frame: Frame = ROOT
    key: ast.expr | None = None
    guesses: tuple[Guess, ...] = ()
    is_open: bool = False


@dataclass(eq=False, slots=True)
class Server(Thing):
    """A server or a registry, and what is registered on it."""

    library: LibraryName
    label: str
    file: SourceFile
    call: Arguments | None = None
    cls: Class | None = None
    registrations: list[Any] = field(default_factory=list)
    features: list[Any] = field(default_factory=list)
    mounts: list[Any] = field(default_factory=list)
    guesses: list[Guess] = field(default_factory=list)
    listers: list[Function] = field(default_factory=list)
    is_ours: bool = False


@dataclass(eq=False, slots=True)
class Method(Thing):
    """A method of a server: `server.tool`, `server.add`."""

    server: Server
    name: str


@dataclass(eq=False, slots=True)
class Marker(Thing):
    """The decorator that `tool(...)` or `server.tool(...)` returns; without a server it marks."""

    call: Arguments
    server: Server | None = None


@dataclass(eq=False, slots=True)
class Arguments:
    """The arguments of a call as they are written, and where their names are looked up. `key` identifies the
    call, `guesses` are those about its being run."""

    args: Sequence[ast.expr]
    keywords: Sequence[ast.keyword]
    scope: Scope
    frame: Frame
    line: int
    key: int = 0
    is_called: bool = True
    guesses: tuple[Guess, ...] = ()

    @property
    def file(self) -> SourceFile:
        return self.scope.file

    def keyword(self, name: str) -> ast.expr | None:
        return next((item.value for item in self.keywords if item.arg == name), None)

    def after_first(self) -> Arguments:
        return replace(self, args=self.args[1:])


def call_at(node: ast.expr, spot: Spot, frame: Frame) -> Arguments:
    """Return the arguments of a call; none for a decorator that is not called."""
    is_called, guesses = isinstance(node, ast.Call), (*frame.guesses, *spot.guesses)
    args, keywords = (node.args, node.keywords) if isinstance(node, ast.Call) else ((), ())
    return Arguments(args, keywords, spot.scope, frame, node.lineno, id(node), is_called, guesses)
