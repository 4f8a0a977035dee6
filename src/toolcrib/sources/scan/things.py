"""Objects that a module would hold after import: functions, classes, servers, lists, unknown values.

Nothing is evaluated or run: each object remembers its syntax and the scope of its names.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from toolcrib.sources.scan.glances import looks_registering

if TYPE_CHECKING:
    from toolcrib.sources.scan.library import SourceFile
    from toolcrib.sources.scan.reader import Reader

Definition = ast.FunctionDef | ast.AsyncFunctionDef
Maker = Literal["toolcrib", "mcp", "fastmcp", "unknown"]
"""Whose rules a server keeps."""


@dataclass(frozen=True, slots=True)
class Guess:
    """Why a tool may not be there, or may be another, when the code runs."""

    code: str
    words: str
    line: int | None = None


class Thing:
    """Anything a name may stand for."""

    __slots__ = ()


class Unknown(Thing):
    """What cannot be followed."""

    __slots__ = ()


UNKNOWN = Unknown()


@dataclass(eq=False, slots=True)
class Known(Thing):
    """Something of a package that is not read, by its full name. `is_made`: what calling it gives."""

    name: str
    is_module: bool = False
    is_made: bool = False
    said: Said | None = None

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(eq=False, slots=True)
class Later(Thing):
    """A name of another module, which is only looked into when the name is used. `near` is the folder that
    the importing file's own imports begin at."""

    module: str
    key: str
    near: Path


@dataclass(eq=False, slots=True)
class Scope:
    """Where names are looked up: a module, the body of a function, or that of a class (`cls`). `depth` is how
    many guesses led here."""

    module: Module
    outer: Scope | None = None
    names: dict[str, Thing] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    imported: set[str] = field(default_factory=set)
    returned: list[tuple[Thing, tuple[Guess, ...]]] = field(default_factory=list)
    qualname: str = ""
    cls: Class | None = None
    depth: int = 0

    def bind(self, name: str, thing: Thing, *, imported: bool = False) -> None:
        self.names[name] = thing
        (self.imported.add if imported else self.imported.discard)(name)

    def kept(self) -> Scope:
        """As it is now, whatever a function binds later; the names of a module are its reader's affair."""
        if self.outer is None:
            return self
        return replace(self, names=dict(self.names), returned=[])


@dataclass(eq=False, slots=True)
class Module(Thing):
    """A file, and what its names stand for so far."""

    file: SourceFile
    reader: Reader
    scope: Scope = field(init=False)
    functions: list[Function] = field(default_factory=list)
    classes: list[Class] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scope = Scope(self)


@dataclass(eq=False, slots=True)
class Said:
    """What was said in a call: arguments as they are written, and where their names are looked up."""

    args: list[ast.expr]
    keywords: list[ast.keyword]
    scope: Scope
    line: int
    is_called: bool = True

    def keyword(self, name: str) -> ast.expr | None:
        return next((item.value for item in self.keywords if item.arg == name), None)


@dataclass(eq=False, slots=True)
class Function(Thing):
    """A function as it is written. `owner` is what stands before its name; `holder` is the object it is bound
    to. `mark` is what `@tool` said of it."""

    node: Definition
    scope: Scope
    owner: str = ""
    kinds: frozenset[str] = frozenset()
    holder: Thing | None = None
    mark: Said | None = None
    guesses: tuple[Guess, ...] = ()
    is_called: bool = False
    written: Function | None = None
    _is_registering: bool | None = None

    @property
    def looks_registering(self) -> bool:
        """Whether its body looks as if it registered tools; looked at once."""
        if self._is_registering is None:
            self._is_registering = looks_registering(self.node)
        return self._is_registering

    @property
    def qualname(self) -> str:
        return f"{self.owner}.{self.node.name}" if self.owner else self.node.name

    @property
    def line(self) -> int:
        """The first line as Python counts: that of the first decorator."""
        return min([self.node.lineno, *(item.lineno for item in self.node.decorator_list)])

    @property
    def source(self) -> Function:
        """The function itself, where this is a method bound to something."""
        return self if self.written is None else self.written


@dataclass(eq=False, slots=True)
class Class(Thing):
    """A class as it is written, with what its body defines."""

    node: ast.ClassDef
    scope: Scope
    body: Scope
    bases: list[Thing]
    qualname: str
    mark: Said | None = None
    guesses: tuple[Guess, ...] = ()

    @property
    def line(self) -> int:
        return min([self.node.lineno, *(item.lineno for item in self.node.decorator_list)])


@dataclass(eq=False, slots=True)
class Instance(Thing):
    """What calling a class gives. `said` is None for the one that a class stands for."""

    cls: Class
    said: Said | None = None
    attributes: dict[str, Thing] = field(default_factory=dict)
    methods: dict[str, Function] = field(default_factory=dict)
    is_prepared: bool = False


@dataclass(eq=False, slots=True)
class Wraps(Thing):
    """`functools.wraps(function)`: whatever it decorates passes for that function."""

    thing: Thing


@dataclass(eq=False, slots=True)
class Super(Thing):
    """`super()` inside a method."""

    cls: Class
    holder: Thing


@dataclass(eq=False, slots=True)
class Lister(Thing):
    """The `list_tools` of toolcrib's own applications: what `@tool` marked among an object's methods."""

    holder: Instance


@dataclass(eq=False, slots=True)
class Registration:
    """One thing that was put on a server."""

    thing: Thing
    said: Said
    door: str
    guesses: tuple[Guess, ...] = ()


@dataclass(eq=False, slots=True)
class Mount:
    """A server inside another. `space` is what names get before them."""

    server: Server
    space: str
    guesses: tuple[Guess, ...] = ()


@dataclass(eq=False, slots=True)
class Server(Thing):
    """A server or a registry, and what was put on it, in order. `is_ours`: it is an MCPServer of toolcrib."""

    maker: Maker
    said: Said | None = None
    registrations: list[Registration] = field(default_factory=list)
    mounts: list[Mount] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    disabled: set[str] = field(default_factory=set)
    guesses: list[Guess] = field(default_factory=list)
    is_low_level: bool = False
    is_ours: bool = False


@dataclass(eq=False, slots=True)
class Door(Thing):
    """A method of a server: `server.tool`, `server.add`."""

    server: Server
    name: str


@dataclass(eq=False, slots=True)
class Marker(Thing):
    """A decorator that was made by a call: `tool(...)`, `server.tool(...)`. Without a server it marks."""

    said: Said
    server: Server | None = None


@dataclass(eq=False, slots=True)
class Made(Thing):
    """`Tool.from_function(...)`, of ours or of another library."""

    maker: Maker
    how: str
    said: Said


@dataclass(eq=False, slots=True)
class Value(Thing):
    """An expression that is data, as far as can be seen."""

    node: ast.expr
    scope: Scope


@dataclass(slots=True)
class Part:
    """A piece of a list or a table: one entry, or everything in another. `key` is for tables."""

    thing: Thing
    key: ast.expr | None = None
    is_many: bool = False
    scope: Scope | None = None
    guesses: tuple[Guess, ...] = ()


@dataclass(eq=False, slots=True)
class Listing(Thing):
    """A list that is written down, or built up piece by piece. `node` is a display that was not yet read."""

    parts: list[Part] = field(default_factory=list)
    node: ast.List | ast.Tuple | ast.Set | None = None
    scope: Scope | None = None


@dataclass(eq=False, slots=True)
class Pairs(Thing):
    """A dict that is written down, or built up piece by piece."""

    parts: list[Part] = field(default_factory=list)
    node: ast.Dict | None = None
    scope: Scope | None = None
