"""Objects that a module would hold after import: functions, classes, servers, lists, unknown values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from toolcrib.sources.scan.calls import Evaluator
    from toolcrib.sources.scan.files import SourceFile
    from toolcrib.sources.scan.stubs import Reader

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


APPLICATIONS = frozenset({"Application", "APIApplication"})
_PLAIN = frozenset({"builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol", "typing.NamedTuple"})
Ancestor = Class | Known | Unknown


@dataclass(frozen=True, slots=True)
class Member:
    """Something a class has, and which class has it."""

    owner: Class
    thing: Thing


def ancestors(cls: Class) -> list[Ancestor]:
    """A class and its bases in the order that Python asks them; nearly so where that order has no rules."""
    found: list[Ancestor] = []
    _gather(cls, found, set())
    # A base that several classes share comes behind all of them.
    last = {_key(item): position for position, item in enumerate(found)}
    return [item for position, item in enumerate(found) if last[_key(item)] == position]


def _gather(cls: Class, found: list[Ancestor], active: set[int]) -> None:
    found.append(cls)
    if id(cls) in active or len(found) > 200:
        return
    for base in cls.bases:
        if isinstance(base, Class):
            _gather(base, found, active | {id(cls)})
        elif isinstance(base, Known):
            found.append(base)
        else:
            found.append(Unknown())


def _key(item: Ancestor) -> int | str:
    return item.name if isinstance(item, Known) else id(item)


def find_member(cls: Class, name: str, *, after: Class | None = None) -> Member | None:
    """What `name` means on a class, or on what comes after one of its bases, as `super()` asks."""
    line = ancestors(cls)
    if after is not None and after in line:
        line = line[line.index(after) + 1 :]
    for item in line:
        if isinstance(item, Class) and name in item.body.names:
            return Member(item, item.body.names[name])
    return None


def is_ours(item: Ancestor) -> bool:
    """Whether this is toolcrib's own class for applications."""
    return isinstance(item, Known) and item.package == "toolcrib" and item.last in APPLICATIONS


def is_model(cls: Class) -> bool:
    """Whether its class attributes are fields, and no attributes of the class."""
    return any(isinstance(item, Known) and item.name.startswith("pydantic.") for item in ancestors(cls))


def unread_bases(cls: Class) -> list[str]:
    """Bases that nothing is known of; "?" where not even the name is."""
    return [
        item.name if isinstance(item, Known) else "?"
        for item in ancestors(cls)
        if isinstance(item, Unknown)
        or (isinstance(item, Known) and item.name not in _PLAIN and not is_ours(item))
    ]


def guess_of_bases(cls: Class, what: str) -> Guess | None:
    """The guess that lies in not having read a base, where there is such a base."""
    unread = unread_bases(cls)
    if not unread:
        return None
    return Guess("guessed-base", f"{what} may come from {unread[0]}, which was not read", cls.line)


def is_abstract(cls: Class) -> bool:
    """Whether it has methods that a subclass must write, and is of the kind that insists on it."""
    line = ancestors(cls)
    insists = any(
        isinstance(item, Known) and item.name in ("abc.ABC", "typing.Protocol") for item in line
    ) or any(
        keyword.arg == "metaclass" and ast.unparse(keyword.value).endswith("ABCMeta")
        for item in line
        if isinstance(item, Class)
        for keyword in item.node.keywords
    )
    if not insists:
        return False
    missing: set[str] = set()
    for item in reversed(line):
        if not isinstance(item, Class):
            continue
        for name, thing in item.body.names.items():
            if isinstance(thing, Function) and "abstract" in thing.kinds:
                missing.add(name)
            else:
                missing.discard(name)
    return bool(missing)


def is_dataclass(cls: Class) -> bool:
    return any(_last(item).startswith("dataclass") for item in cls.node.decorator_list)


def _last(node: ast.expr) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def fields(cls: Class) -> Iterator[tuple[str, ast.expr | None, Class]]:
    """The fields of a dataclass or model with their defaults, bases first."""
    found: dict[str, tuple[ast.expr | None, Class]] = {}
    for item in reversed(ancestors(cls)):
        if not isinstance(item, Class):
            continue
        for statement in item.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                found[statement.target.id] = (statement.value, item)
    for name, (default, owner) in found.items():
        yield name, default, owner


def needs_arguments(cls: Class) -> bool:
    """Whether it cannot be made without arguments."""
    member = find_member(cls, "__init__")
    if member is None:
        if is_dataclass(cls) or is_model(cls):
            return any(default is None for _, default, _ in fields(cls))
        return False
    if not isinstance(member.thing, Function):
        return False
    arguments = member.thing.node.args
    places = [*arguments.posonlyargs, *arguments.args][1:]
    required = len(places) - len(arguments.defaults)
    return required > 0 or any(default is None for default in arguments.kw_defaults)


_SERVERS: dict[tuple[str, str], Maker] = {
    ("toolcrib", "MCPServer"): "toolcrib",
    ("toolcrib", "ToolRegistry"): "toolcrib",
    ("mcp", "MCPServer"): "mcp",
    ("mcp", "FastMCP"): "mcp",
    ("fastmcp", "FastMCP"): "fastmcp",
}
_ONE = frozenset({"add_tool", "register_tool", "replace"})
_MANY = frozenset({"add_all", "register_all_tools"})
_CHANGES = frozenset({"add_provider", "add_tool_transformation", "add_transform", "disable", "enable"})
MAX_REGISTRATIONS = 1_000
"""Tools that are taken from one server; what has more is generated."""


def server_maker(thing: Thing) -> Maker | None:
    """Whose server calling this makes; None where it makes none."""
    if isinstance(thing, Known) and not thing.is_made:
        return _SERVERS.get((thing.package, thing.last))
    if isinstance(thing, Class):
        return next(
            (maker for item in ancestors(thing) if isinstance(item, Known) and (maker := server_maker(item))),
            None,
        )
    return None


def pass_door(evaluator: Evaluator, door: Door, said: Said) -> Thing:
    """What calling a method of a server comes to."""
    server, name = door.server, door.name
    first = evaluator.of(said.args[0], said.scope) if said.args else UNKNOWN
    if name == "tool":
        if isinstance(first, Function | Class):
            rest = Said(said.args[1:], said.keywords, said.scope, said.line)
            register(evaluator, server, first, rest, "tool")
            return first
        if said.args and isinstance(said.args[0], ast.Lambda):
            register(evaluator, server, first, said, "tool")
            return UNKNOWN
        return Marker(said, server)
    if name in _ONE:
        node = said.args[0] if said.args else next((item.value for item in said.keywords), None)
        thing = evaluator.of(node, said.scope) if node is not None else UNKNOWN
        rest = Said(said.args[1:], said.keywords, said.scope, said.line)
        register(evaluator, server, thing, rest, name)
    elif name == "add" and server.maker == "toolcrib":
        _add(evaluator, server, said)
    elif name in _MANY:
        rest = Said([], said.keywords, said.scope, said.line)
        for part in evaluator.items(first):
            register(evaluator, server, part.thing, rest, name, part.guesses)
    elif name in ("mount", "import_server"):
        _mount(evaluator, server, said)
    elif name in ("remove_tool", "remove") or (name == "disable" and server.maker == "toolcrib"):
        _take_out(server, name, said)
    elif name in _CHANGES:
        server.guesses.append(Guess("guessed-server", f"the server's {name}() may change it", said.line))
    return UNKNOWN


def _add(evaluator: Evaluator, server: Server, said: Said) -> None:
    rest = Said([], said.keywords, said.scope, said.line)
    for node in said.args:
        thing = evaluator.of(node.value if isinstance(node, ast.Starred) else node, said.scope)
        if isinstance(thing, Listing):
            for part in evaluator.items(thing):
                register(evaluator, server, part.thing, rest, "add", part.guesses)
        else:
            register(evaluator, server, thing, rest, "add")


def register(
    evaluator: Evaluator,
    server: Server,
    thing: Thing,
    said: Said,
    door: str,
    guesses: tuple[Guess, ...] = (),
) -> None:
    """Note that a thing was put on a server, with all that is doubtful about it by now."""
    evaluator.tracer.servers[server] = None
    if len(server.registrations) >= MAX_REGISTRATIONS:
        guess = Guess("guessed-more", f"only the first {MAX_REGISTRATIONS} tools of the server are read")
        if guess not in server.guesses:
            server.guesses.append(guess)
        return
    doubts = thing.guesses if isinstance(thing, Function | Class) else ()
    together = tuple(dict.fromkeys((*evaluator.tracer.guesses, *doubts, *guesses)))
    server.registrations.append(Registration(thing, said, door, together))


def _mount(evaluator: Evaluator, server: Server, said: Said) -> None:
    children = [evaluator.of(node, said.scope) for node in said.args]
    node = said.keyword("server")
    if node is not None:
        children.append(evaluator.of(node, said.scope))
    child = next((thing for thing in children if isinstance(thing, Server)), None)
    if child is None or child is server:
        server.guesses.append(Guess("guessed-more", "another server is mounted in it", said.line))
        return
    texts = [item for item in said.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    space = said.keyword("namespace") or said.keyword("prefix") or next(iter(texts), None)
    guesses = evaluator.tracer.guesses
    if space is None or (isinstance(space, ast.Constant) and space.value is None):
        server.mounts.append(Mount(child, "", guesses))
    elif isinstance(space, ast.Constant) and isinstance(space.value, str):
        server.mounts.append(Mount(child, space.value, guesses))
    else:
        guess = Guess("guessed-name", "the prefix of the server it is mounted in is not known", said.line)
        server.mounts.append(Mount(child, "", (*guesses, guess)))


def _take_out(server: Server, name: str, said: Said) -> None:
    gone = server.disabled if name == "disable" else server.removed
    first = said.args[0] if said.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        gone.add(first.value)
    else:
        server.guesses.append(Guess("guessed-server", f"the server's {name}() may take it away", said.line))


def prepare(evaluator: Evaluator, instance: Instance) -> None:
    """Follow the constructor, which may set attributes and register tools."""
    if instance.is_prepared:
        return
    instance.is_prepared = True
    cls, said = instance.cls, instance.said
    member = find_member(cls, "__init__")
    if member is not None and isinstance(member.thing, Function):
        evaluator.enter(evaluator.bound(member.thing, instance), said or Said([], [], cls.scope, 0))
    elif is_dataclass(cls) or is_model(cls):
        given = iter(said.args if said is not None else ())
        for name, default, owner in fields(cls):
            node = next(given, None) or (said.keyword(name) if said is not None else None)
            if node is not None and said is not None:
                instance.attributes[name] = evaluator.of(node, said.scope)
            elif default is not None and is_model(cls):
                instance.attributes[name] = evaluator.of(default, owner.body)
    elif said is not None:
        begin(evaluator, instance, said)


def begin(evaluator: Evaluator, instance: Thing, said: Said) -> None:
    """The constructor of toolcrib's applications: the name is all that matters here."""
    if not isinstance(instance, Instance):
        return
    ours = [item for item in ancestors(instance.cls) if is_ours(item)]
    if not ours:
        return
    name = said.keyword("name")
    if name is None and said.args and isinstance(ours[0], Known) and ours[0].last == "Application":
        name = said.args[0]
    if name is not None and not (isinstance(name, ast.Constant) and name.value is None):
        instance.attributes["name"] = evaluator.of(name, said.scope)


def inherited(cls: Class, thing: Super, name: str) -> Thing:
    """What `super()` finds on toolcrib's own classes."""
    if not any(is_ours(item) for item in ancestors(cls)):
        return UNKNOWN
    if name == "list_tools" and isinstance(thing.holder, Instance):
        return Lister(thing.holder)
    return Known(f"toolcrib.Application.{name}")


def bind_parameters(
    evaluator: Evaluator, function: Function, said: Said | None, given: tuple[Thing, ...], scope: Scope
) -> None:
    """Give a function's parameters what it is called with."""
    arguments = function.node.args
    places = [*arguments.posonlyargs, *arguments.args]
    cls = function.scope.cls
    if cls is not None:
        scope.names["__class__"] = cls
    if cls is not None and places and "static" not in function.kinds:
        holder = function.holder or (cls if "class" in function.kinds else Instance(cls, is_prepared=True))
        scope.names["__self__"] = holder
        scope.names[places[0].arg] = holder
        places = places[1:]
    defaults = dict(zip([item.arg for item in reversed(places)], reversed(arguments.defaults), strict=False))
    defaults |= {
        item.arg: default
        for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    }
    queue: list[Thing | ast.expr] = [*given, *(said.args if said is not None else ())]
    for position, item in enumerate([*places, *arguments.kwonlyargs]):
        node: Thing | ast.expr | None = None
        if position < len(places) and position < len(queue):
            node = queue[position]
        elif said is not None:
            node = said.keyword(item.arg)
        if isinstance(node, ast.Starred):
            node = None
        if isinstance(node, Thing):
            scope.names[item.arg] = node
        elif node is not None and said is not None:
            scope.names[item.arg] = evaluator.of(node, said.scope)
        elif said is not None and item.arg in defaults:
            scope.names[item.arg] = evaluator.of(defaults[item.arg], function.scope)
        else:
            scope.names[item.arg] = _stranger(evaluator, item, function.scope)
    known = {item.arg for item in (*places, *arguments.kwonlyargs)}
    if arguments.vararg is not None:
        rest = queue[len(places) :]
        several = [item for item in rest if isinstance(item, ast.expr)] if said is not None else []
        is_whole = said is not None and len(several) == len(rest)
        scope.names[arguments.vararg.arg] = (
            Listing(node=ast.List(several, ast.Load()), scope=said.scope) if is_whole and said else UNKNOWN
        )
    if arguments.kwarg is not None:
        scope.names[arguments.kwarg.arg] = UNKNOWN if said is None else _others(evaluator, said, known)


def _others(evaluator: Evaluator, said: Said, known: set[str]) -> Thing:
    """The keywords that have no parameter of their own."""
    others = [item for item in said.keywords if item.arg not in known]
    if any(item.arg is None for item in others):
        return UNKNOWN
    parts = [
        Part(evaluator.of(item.value, said.scope), ast.Constant(item.arg), scope=said.scope)
        for item in others
    ]
    return Pairs(parts)


def _stranger(evaluator: Evaluator, parameter: ast.arg, scope: Scope) -> Thing:
    """A parameter that nobody gave: a server, where its annotation says so."""
    hint = parameter.annotation
    if isinstance(hint, ast.Constant) and isinstance(hint.value, str) and hint.value.isidentifier():
        hint = ast.Name(hint.value, ast.Load())
    if not isinstance(hint, ast.Name | ast.Attribute):
        return UNKNOWN
    maker = server_maker(evaluator.of(hint, scope))
    return UNKNOWN if maker is None else Server(maker)


# --- cheap checks that skip code which registers nothing ---------------------------------------------

_DOORS = frozenset({"add", "add_all", "mount", "register"})
# Tuples, made once: a union of classes is made anew each time it is written, and every function passes here.
_FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef)
_WITHOUT_BODY = (ast.Expr, ast.Assign, ast.Return)
_CALL_NODES = (ast.Call, ast.Await)


def looks_registering(node: ast.AST) -> bool:
    """Whether statements below this look as if they registered tools; expressions are hardly looked into."""
    found: list[ast.AST] = list(getattr(node, "body", ()))
    while found:
        item = found.pop()
        if isinstance(item, _FUNCTION_NODES):
            if any("tool" in name.lower() for name in map(_called_name, item.decorator_list)):
                return True
        elif isinstance(item, _WITHOUT_BODY):
            name = _called_name(item.value)
            if "tool" in name.lower() or name in _DOORS:
                return True
            continue  # no statements are in it
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            found += getattr(item, part, ())
    return False


def _called_name(node: ast.AST | None) -> str:
    """The last name in `a.b(...)(...)`."""
    while isinstance(node, _CALL_NODES):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""
