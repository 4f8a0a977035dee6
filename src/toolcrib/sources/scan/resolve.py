"""Resolve expressions to what they stand for: functions, classes, objects, servers, data.

Nothing is executed step by step. A name stands for what it is bound to (names.py), an attribute of an object
for what its class assigns to it, a call for the server, the object or the returned expression. A parameter
stands for the argument of each call of its function that the scanned files contain; a call path is a `Frame`.
Depth and numbers are limited, and whatever is none of these patterns is `Data` or UNKNOWN.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from toolcrib.sources.scan.files import Library, SourceFile
from toolcrib.sources.scan.names import Names, Outside, Place, Site, Whole
from toolcrib.sources.scan.scopes import Binding, Definition, Scope
from toolcrib.sources.scan.stubs import Reader
from toolcrib.sources.scan.survey import CallAt, FunctionNode, Guess, Loop, Spot, Stored, Survey, survey
from toolcrib.sources.scan.values import Unresolved, show

Maker = Literal["toolcrib", "mcp", "fastmcp", "unknown"]
"""Whose rules a server has."""
MARKS = frozenset({"toolcrib.tool", "toolcrib.tool.tool"})
OUR_APPLICATIONS = frozenset({"Application", "APIApplication"})
OWN_PACKAGES = frozenset({"toolcrib", "mcp", "mcp_types", "fastmcp"})
MAX_DEPTH = 24
"""How deep calls and aliases are followed."""
MAX_FRAMES = 100
"""Calls of one function that are followed."""
MAX_ITEMS = 1_000
"""Items of a list that are looked at."""
_SERVERS: dict[tuple[str, str], Maker] = {
    ("toolcrib", "MCPServer"): "toolcrib",
    ("toolcrib", "ToolRegistry"): "toolcrib",
    ("mcp", "MCPServer"): "mcp",
    ("mcp", "FastMCP"): "mcp",
    ("fastmcp", "FastMCP"): "fastmcp",
}
_PLAIN_BASES = frozenset(
    {"builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol", "typing.NamedTuple"}
)
_SAME_SERVER = frozenset({"registry", "local_provider"})
_LISTS = frozenset(f"builtins.{name}" for name in ("list", "tuple", "set", "frozenset"))
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_KINDS = {
    "builtins.staticmethod": "static",
    "builtins.classmethod": "class",
    "builtins.property": "property",
    "functools.cached_property": "property",
    "abc.abstractmethod": "abstract",
}


class Thing:
    """Anything that an expression may stand for."""

    __slots__ = ()


UNKNOWN = Thing()


@dataclass(eq=False, slots=True)
class Known(Thing):
    """Something of a package that is not read, by its full name. `call` is set for what calling it returns."""

    name: str
    call: Arguments | None = None

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(eq=False, slots=True)
class Module(Thing):
    file: SourceFile


@dataclass(eq=False, slots=True)
class Function(Thing):
    """A function; `owner` is the object or class that it is bound to as a method."""

    node: FunctionNode
    scope: Scope
    owner: Thing | None = None
    guesses: tuple[Guess, ...] = ()

    @property
    def line(self) -> int:
        return first_line(self.node)


@dataclass(eq=False, slots=True)
class Class(Thing):
    node: ast.ClassDef
    scope: Scope

    @property
    def line(self) -> int:
        return first_line(self.node)

    @property
    def body(self) -> Scope:
        file: SourceFile = self.scope.file
        return file.scope_in(self.node)


@dataclass(eq=False, slots=True)
class Instance(Thing):
    """An object of a scanned class. `call` is None for the one that a class or an unbound method implies."""

    cls: Class
    call: Arguments | None = None


@dataclass(eq=False, slots=True)
class Super(Thing):
    """`super()` in a method."""

    cls: Class
    owner: Thing


@dataclass(eq=False, slots=True)
class Data(Thing):
    """An expression that is none of the other things."""

    node: ast.expr
    scope: Scope
    frame: Frame


@dataclass(eq=False, slots=True)
class Server(Thing):
    """A server or a registry, and what is registered on it."""

    maker: Maker
    label: str = ""
    call: Arguments | None = None
    cls: Class | None = None
    registrations: list[Any] = field(default_factory=list)
    mounts: list[Any] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    disabled: set[str] = field(default_factory=set)
    guesses: list[Guess] = field(default_factory=list)
    file: SourceFile | None = None
    is_low_level: bool = False
    is_ours: bool = False
    listers: list[Function] = field(default_factory=list)
    callers: list[Function] = field(default_factory=list)


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


class Frame:
    """One way in which a function comes to be called: what its parameters are, and what is uncertain."""

    def __init__(
        self,
        key: tuple[int, ...] = (),
        values: dict[int, Thing] | None = None,
        guesses: tuple[Guess, ...] = (),
        lines: tuple[int, ...] = (),
    ) -> None:
        self.key = key
        self.values = values or {}
        """What parameters and loop variables stand for, by the id of their binding."""
        self.names: dict[str, Thing] = {}
        """The variables of comprehensions."""
        self.guesses = guesses
        self.lines = lines
        """The lines of the calls that lead here, outermost first."""
        self.calls: dict[int, tuple[int, ...]] = {}
        """The keys of the calls on the way here, by the id of the function."""

    def home(self, scope: Scope) -> tuple[int, ...]:
        """Return the key of the call in which the code of a scope runs."""
        place: Scope | None = scope
        while place is not None and place.kind != "function":
            place = place.parent
        return () if place is None else self.calls.get(id(place.node), self.key)

    def round(self, *key: int, guesses: tuple[Guess, ...] = ()) -> Frame:
        """Return a copy for one round of a loop or comprehension."""
        made = Frame((*self.key, *key), dict(self.values), (*self.guesses, *guesses), self.lines)
        made.names, made.calls = dict(self.names), self.calls
        return made


ROOT = Frame()


@dataclass(eq=False, slots=True)
class Arguments:
    """The arguments of a call as they are written, and where their names are looked up."""

    args: Sequence[ast.expr]
    keywords: Sequence[ast.keyword]
    scope: Scope
    frame: Frame
    line: int
    key: int = 0
    """The identity of the call."""
    is_called: bool = True

    @property
    def file(self) -> SourceFile:
        file: SourceFile = self.scope.file
        return file

    def keyword(self, name: str) -> ast.expr | None:
        return next((item.value for item in self.keywords if item.arg == name), None)

    def after_first(self) -> Arguments:
        return replace(self, args=self.args[1:])

    def without_args(self, *names: str) -> Arguments:
        return replace(self, args=(), keywords=[item for item in self.keywords if item.arg not in names])


class Item(NamedTuple):
    """An item of a list or a dict that is written down. Without a node, there is more than could be read."""

    node: ast.expr | None
    scope: Scope
    frame: Frame
    key: ast.expr | None = None
    guesses: tuple[Guess, ...] = ()


def first_line(node: Definition) -> int:
    """Return the line of a definition as Python counts: that of its first decorator."""
    return node.decorator_list[0].lineno if node.decorator_list else node.lineno


class Resolver:
    """Resolves expressions of the files of one library."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.surveys: dict[SourceFile, Survey] = {}
        self.readers: dict[SourceFile, Reader] = {}
        self.servers: dict[tuple[Any, ...], Server] = {}
        self._things: dict[tuple[Any, ...], Any] = {}
        self._frames: dict[int, list[Frame]] = {}
        self._active: set[Any] = set()
        self._calls: dict[str, list[CallAt]] | None = None
        self._aliases: dict[str, set[str]] = {}
        self._depth = 0

    @property
    def names(self) -> Names:
        return self.reader(next(iter(self.surveys))).names

    def reader(self, file: SourceFile) -> Reader:
        if file not in self.readers:
            self.readers[file] = Reader(file, self.library)
        return self.readers[file]

    def survey(self, file: SourceFile) -> Survey:
        if file not in self.surveys:
            self.surveys[file] = survey(file)
            self._calls = None
            self._frames.clear()
        return self.surveys[file]

    def full_name(self, node: ast.expr, scope: Scope) -> str:
        """Return the dotted name behind a name or attribute, "" where there is none."""
        try:
            return self.names.qualify(node, Site(scope)) or ""
        except RecursionError:
            return ""

    # --- expressions ---------------------------------------------------------------------------------

    def resolve(self, node: ast.expr, scope: Scope, frame: Frame = ROOT) -> Thing:
        """Return what an expression stands for."""
        if self._depth > MAX_DEPTH:
            return UNKNOWN
        self._depth += 1
        try:
            if isinstance(node, ast.Await):
                return self.resolve(node.value, scope, frame)
            if isinstance(node, ast.Name):
                return frame.names.get(node.id) or self._name(node, scope, frame)
            if isinstance(node, ast.Attribute):
                return self._attribute(node, scope, frame)
            if isinstance(node, ast.Call):
                return self._call(node, scope, frame)
            return Data(node, scope, frame)
        finally:
            self._depth -= 1

    def _name(self, node: ast.Name | ast.Attribute, scope: Scope, frame: Frame) -> Thing:
        for meaning in self.names.find(node, Site(scope)).meanings:
            return self._meaning(meaning, frame)
        if isinstance(node, ast.Name):
            for star in scope.module.stars:
                if star.module.partition(".")[0] in OWN_PACKAGES:
                    return Known(f"{star.module}.{node.id}")
            if hasattr(builtins, node.id):
                return Known(f"builtins.{node.id}")
        return UNKNOWN

    def _meaning(self, meaning: Outside | Place | Whole, frame: Frame) -> Thing:
        if isinstance(meaning, Outside):
            return Known(meaning.dotted)
        if isinstance(meaning, Whole):
            return Module(meaning.file)
        return self.bound(meaning.binding, meaning.scope, frame)

    def bound(self, binding: Binding, scope: Scope, frame: Frame = ROOT) -> Thing:
        """Return what a binding binds its name to."""
        if id(binding) in frame.values:
            return frame.values[id(binding)]
        node = binding.node
        if isinstance(node, ast.ClassDef):
            return self._keep(("class", id(node)), lambda: Class(node, scope))
        if binding.kind == "function" and isinstance(node, _FUNCTIONS):
            return self.function(node, scope)
        if binding.kind == "value" and binding.value is not None:
            if (id(binding), frame.key) in self._active:
                return UNKNOWN
            self._active.add((id(binding), frame.key))
            try:
                return self.resolve(binding.value, scope, frame)
            finally:
                self._active.discard((id(binding), frame.key))
        if isinstance(node, _FUNCTIONS) and scope.node is node:
            return self._parameter(binding, node, scope)
        return UNKNOWN

    def function(self, node: FunctionNode, scope: Scope, owner: Thing | None = None) -> Function:
        found: Function = self._keep(("function", id(node), id(owner)), lambda: Function(node, scope, owner))
        return found

    def _keep(self, key: tuple[Any, ...], make: Any) -> Any:
        if key not in self._things:
            self._things[key] = make()
        return self._things[key]

    def _parameter(self, binding: Binding, node: FunctionNode, scope: Scope) -> Thing:
        """Return what stands for a parameter that no call in the files gives: a server, by its annotation."""
        cls = self.class_around(node, scope.parent)
        places = [*node.args.posonlyargs, *node.args.args]
        if cls is not None and places and places[0].arg == binding.name:
            return self.instance(cls)
        item = next((each for each in (*places, *node.args.kwonlyargs) if each.arg == binding.name), None)
        hint = item.annotation if item is not None else None
        if isinstance(hint, ast.Constant) and isinstance(hint.value, str) and hint.value.isidentifier():
            hint = ast.Name(hint.value, ast.Load(), lineno=hint.lineno, col_offset=0)
        outer = scope.parent or scope
        if isinstance(hint, ast.Name | ast.Attribute):
            thing = self.resolve(hint, outer)
            maker = self.server_maker(thing)
            if maker is not None or self._is_low_level(thing):
                return self._server(
                    (id(binding),), maker or "mcp", f"{node.name}({binding.name})", None, scope
                )
        return Data(ast.Name(binding.name, ast.Load(), lineno=node.lineno, col_offset=0), scope, ROOT)

    def class_around(self, node: FunctionNode, outer: Scope | None) -> Class | None:
        """Return the class that a function is a method of."""
        while outer is not None and outer.kind == "types":
            outer = outer.parent
        if outer is None or outer.kind != "class" or "static" in self.kinds(node, outer):
            return None
        cls_node, place = outer.node, outer.parent
        while place is not None and place.kind == "types":
            place = place.parent
        assert place is not None  # nosec B101  # a class has a scope around it
        found: Class = self._keep(("class", id(cls_node)), lambda: Class(cls_node, place))
        return found

    def instance(self, cls: Class, call: Arguments | None = None) -> Thing:
        """Return the object that calling a class makes: a server, for a subclass of one."""
        maker = self.server_maker(cls)
        if maker is not None or self.is_low_level_class(cls):
            # One for all objects of the class: what a method of it registers is on each of them.
            server = self._server(("class", id(cls.node)), maker or "mcp", cls.node.name, call, cls.scope)
            if server.cls is None:
                server.cls = cls
                server.guesses.append(Guess("guessed-server", f"the server is a {cls.node.name}", cls.line))
            server.is_low_level = maker is None
            return server
        key = ("object", id(cls.node), *(() if call is None else (*call.frame.home(call.scope), call.key)))
        made: Instance = self._keep(key, lambda: Instance(cls, call))
        return made

    def _server(
        self, key: tuple[Any, ...], maker: Maker, label: str, call: Arguments | None, scope: Scope
    ) -> Server:
        if key not in self.servers:
            self.servers[key] = Server(maker, label, call, file=scope.file)
        return self.servers[key]

    def unknown_server(self, node: ast.expr, scope: Scope, name: str = "") -> Server:
        """Return the server behind an expression that cannot be followed, the same for the same name."""
        key = ("unknown", name or (id(scope.node), show(node)))
        return self._server(key, "unknown", name or show(node), None, scope)

    # --- attributes ----------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute, scope: Scope, frame: Frame) -> Thing:
        base = self.resolve(node.value, scope, frame)
        if isinstance(base, Known | Module | Class):
            if (
                isinstance(base, Known)
                and node.attr in ("tool", "add_tool")
                and self._is_object(node.value, scope)
            ):
                return Method(self.unknown_server(node.value, scope, base.name), node.attr)
            if isinstance(base, Known) and base.call is not None:
                return UNKNOWN
            found = self._name(node, scope, frame)
            if found is not UNKNOWN:
                return found
        thing = self.attribute(base, node.attr)
        if thing is UNKNOWN and node.attr in ("tool", "add_tool") and not isinstance(base, Class | Instance):
            return Method(self.unknown_server(node.value, scope), node.attr)
        return thing

    def _is_object(self, node: ast.expr, scope: Scope) -> bool:
        """Whether a dotted name of another package is not only a module, as far as can be told."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            return True
        for place in scope.visible():
            for binding in place.names.get(node.id, ()):
                package = binding.module.partition(".")[0]
                return binding.kind != "import" and package not in OWN_PACKAGES
        return False

    def attribute(self, thing: Thing, name: str) -> Thing:
        """Return an attribute of what an expression stands for."""
        match thing:
            case Module():
                for meaning in self.names.member(Whole(thing.file), name).meanings:
                    return self._meaning(meaning, ROOT)
            case Known() if thing.call is None:
                return Known(f"{thing.name}.{name}")
            case Server() if name in _SAME_SERVER:
                return thing
            case Server():
                return self._of_server_class(thing, name) or Method(thing, name)
            case Instance():
                return self.of_instance(thing, name)
            case Class():
                member = self.member(thing, name)
                if isinstance(member, Function) and "class" in self.kinds(member.node, member.scope):
                    return self.function(member.node, member.scope, thing)
                return member or UNKNOWN
            case Super():
                return self._of_super(thing, name)
        return UNKNOWN

    def _of_server_class(self, server: Server, name: str) -> Thing | None:
        """Return what a server's own class, where it is scanned, has under a name."""
        if server.cls is None:
            return None
        member = self.member(server.cls, name)
        if isinstance(member, Function):
            return self.function(member.node, member.scope, server)
        for stored in self._assigned(server.cls, name) if member is None else ():
            return self.resolve(stored.value, stored.spot.scope, self._frame_with_self(stored.spot, server))
        return member

    def of_instance(self, instance: Instance, name: str) -> Thing:
        """Return an attribute of an object: what its class assigns to it, or has."""
        key = (id(instance), name)
        if key in self._active:
            return UNKNOWN
        self._active.add(key)
        try:
            for stored in self._assigned(instance.cls, name):
                frame = self._frame_with_self(stored.spot, instance)
                return self.resolve(stored.value, stored.spot.scope, frame)
            given = self._field(instance, name)
            if given is not None:
                return given
            member = self.member(instance.cls, name)
        finally:
            self._active.discard(key)
        if not isinstance(member, Function):
            return member or UNKNOWN
        kinds = self.kinds(member.node, member.scope)
        if "property" in kinds:
            return self.returned(self.function(member.node, member.scope, instance), None)
        return member if "static" in kinds else self.function(member.node, member.scope, instance)

    def _assigned(self, cls: Class, name: str) -> Iterator[Stored]:
        """The assignments `self.name = ...` in the methods of a class, those of its constructor first."""
        found: list[Stored] = []
        for item in self.ancestors(cls):
            if not isinstance(item, Class):
                continue
            for stored in self.survey(item.scope.file).stored:
                target, spot = stored.target, stored.spot
                if (
                    isinstance(target, ast.Attribute)
                    and target.attr == name
                    and isinstance(target.value, ast.Name)
                    and len(spot.around) >= 2
                    and spot.around[-2] is item.node
                    and isinstance(spot.around[-1], _FUNCTIONS)
                    and target.value.id == _first_parameter(spot.around[-1])
                ):
                    found.append(stored)
        yield from sorted(found, key=lambda stored: stored.spot.around[-1].name != "__init__")

    def _frame_with_self(self, spot: Spot, owner: Thing) -> Frame:
        """Return the frame of a method of an object: of its constructor, with the arguments it was given."""
        node = spot.function
        assert node is not None  # nosec B101  # the caller found it in a method
        call = owner.call if isinstance(owner, Instance | Server) else None
        return self._bind(node, spot.file.scope_in(node), call if node.name == "__init__" else None, owner)

    def _field(self, instance: Instance, name: str) -> Thing | None:
        """Return a field of a dataclass or model from the call that makes it."""
        if instance.call is None or not self.is_record(instance.cls):
            return None
        given = iter(instance.call.args)
        for key, default, owner in self.fields(instance.cls):
            node = next(given, None) or instance.call.keyword(key)
            if key == name and node is not None:
                return self.resolve(node, instance.call.scope, instance.call.frame)
            if key == name and default is not None:
                return self.resolve(default, owner.body)
        return None

    def _of_super(self, thing: Super, name: str) -> Thing:
        cls = thing.owner.cls if isinstance(thing.owner, Instance) else thing.cls
        member = self.member(cls, name, after=thing.cls)
        if isinstance(member, Function):
            return self.function(member.node, member.scope, thing.owner)
        return member or UNKNOWN

    # --- classes -------------------------------------------------------------------------------------

    def ancestors(self, cls: Class) -> list[Class | Known]:
        """Return a class and its bases in the order in which Python asks them, nearly."""
        found: list[Class | Known] = self._keep(("bases", id(cls.node)), list)
        if not found:
            order: list[Class | Known] = []
            self._gather(cls, order, ())
            last = {_key(item): position for position, item in enumerate(order)}
            found += [item for position, item in enumerate(order) if last[_key(item)] == position]
        return found

    def _gather(self, cls: Class, found: list[Class | Known], active: tuple[int, ...]) -> None:
        found.append(cls)
        if id(cls.node) in active or len(found) > 200 or len(active) > MAX_DEPTH:
            return
        for node in cls.node.bases:
            base = self.resolve(node.value if isinstance(node, ast.Subscript) else node, cls.scope)
            if isinstance(base, Class):
                self._gather(base, found, (*active, id(cls.node)))
            else:
                found.append(base if isinstance(base, Known) else Known("?"))

    def member(self, cls: Class, name: str, *, after: Class | None = None) -> Thing | None:
        """Return what a class, or one of its bases, binds to a name in its body."""
        line = self.ancestors(cls)
        if after is not None and after in line:
            line = line[line.index(after) + 1 :]
        for item in line:
            if isinstance(item, Class):
                bindings = item.body.names.get(name)
                if bindings:
                    return self.bound(bindings[-1], item.body)
        return None

    def server_maker(self, thing: Thing) -> Maker | None:
        """Return whose server calling a class makes; None where it makes none."""
        if isinstance(thing, Known) and thing.call is None:
            return _SERVERS.get((thing.package, thing.last))
        if isinstance(thing, Class):
            makers = (self.server_maker(item) for item in self.ancestors(thing) if isinstance(item, Known))
            return next((maker for maker in makers if maker), None)
        return None

    @staticmethod
    def _is_low_level(thing: Thing) -> bool:
        return (
            isinstance(thing, Known)
            and thing.call is None
            and (thing.package, thing.last) == ("mcp", "Server")
        )

    def is_low_level_class(self, cls: Class) -> bool:
        return any(self._is_low_level(item) for item in self.ancestors(cls))

    def unread_bases(self, cls: Class) -> list[str]:
        """Return the bases that are not scanned and of which nothing is known."""
        return [
            item.name
            for item in self.ancestors(cls)
            if isinstance(item, Known) and item.name not in _PLAIN_BASES and not is_our_application(item)
        ]

    def is_model(self, cls: Class) -> bool:
        return any(isinstance(item, Known) and item.package == "pydantic" for item in self.ancestors(cls))

    def is_record(self, cls: Class) -> bool:
        """Whether the constructor of a class is made from its annotations."""
        return self.is_model(cls) or any(
            self.full_name(item.func if isinstance(item, ast.Call) else item, cls.scope).endswith("dataclass")
            for item in cls.node.decorator_list
        )

    def fields(self, cls: Class) -> Iterator[tuple[str, ast.expr | None, Class]]:
        """Yield the fields of a dataclass or model with their defaults, bases first."""
        found: dict[str, tuple[ast.expr | None, Class]] = {}
        for item in reversed(self.ancestors(cls)):
            for statement in item.node.body if isinstance(item, Class) else ():
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    found[statement.target.id] = (statement.value, item)  # type: ignore[assignment]
        for name, (default, owner) in found.items():
            yield name, default, owner

    def kinds(self, node: FunctionNode, scope: Scope) -> frozenset[str]:
        """Return the kinds of a function: async, static, class, property, abstract."""
        found = {"async"} if isinstance(node, ast.AsyncFunctionDef) else set()
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Name | ast.Attribute):
                kind = _KINDS.get(self.full_name(decorator, scope))
                if getattr(decorator, "attr", "") in ("setter", "deleter"):
                    kind = "property"
                found |= {kind} if kind else set()
        return frozenset(found)

    # --- calls ---------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, scope: Scope, frame: Frame) -> Thing:
        key = ("call", id(node), frame.key)
        if key in self._things and not frame.names:
            return self._things[key]  # type: ignore[no-any-return]
        if key in self._active:
            return UNKNOWN
        self._active.add(key)
        try:
            thing = self._called(node, scope, frame)
        finally:
            self._active.discard(key)
        if not frame.names and self._depth < MAX_DEPTH - 2:
            self._things[key] = thing
        return thing

    def _called(self, node: ast.Call, scope: Scope, frame: Frame) -> Thing:
        call = Arguments(node.args, node.keywords, scope, frame, node.lineno, id(node))
        callee = self.resolve(node.func, scope, frame)
        match callee:
            case Known() if callee.call is None:
                return self._known(callee, call, node)
            case Class():
                return self.instance(callee, call)
            case Function():
                return self.returned(callee, call)
            case Method() if callee.name == "tool":
                first = self.first(call)
                return first if isinstance(first, Function | Class) else Marker(call, callee.server)
            case Marker():
                return self.first(call)
        return self._wrapped(node, call) or Data(node, scope, frame)

    def first(self, call: Arguments) -> Thing:
        """Return what the first argument of a call stands for."""
        return self.resolve(call.args[0], call.scope, call.frame) if call.args else UNKNOWN

    def _known(self, callee: Known, call: Arguments, node: ast.Call) -> Thing:
        maker = self.server_maker(callee)
        if maker is not None or self._is_low_level(callee):
            label = self._server_label(node, call)
            key = ("call", id(node), call.frame.home(call.scope))
            server = self._server(key, maker or "mcp", label, call, call.scope)
            server.is_low_level = maker is None
            server.is_ours = maker == "toolcrib" and callee.last == "MCPServer"
            return server
        if callee.name in MARKS:
            first = self.first(call)
            return first if isinstance(first, Function | Class) else Marker(call)
        if callee.name == "builtins.super":
            return self._super(call)
        if callee.name == "builtins.getattr" and len(call.args) >= 2:
            name = call.args[1]
            if isinstance(name, ast.Name) and isinstance(
                data := self.resolve(name, call.scope, call.frame), Data
            ):
                name = data.node
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                return self.attribute(self.first(call), name.value)
            return UNKNOWN
        if callee.package == "builtins":
            return Data(node, call.scope, call.frame)
        return self._wrapped(node, call) or Known(callee.name, call)

    def _server_label(self, node: ast.Call, call: Arguments) -> str:
        """Return the name of a server: the one that it is given, else the variable that holds it."""
        for name in (*call.args[:1], call.keyword("name")):
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                return name.value
        for name, bindings in call.scope.names.items():
            if any(binding.value is node for binding in bindings):
                return name
        return call.file.path.stem

    def _super(self, call: Arguments) -> Thing:
        scope: Scope | None = call.scope
        while scope is not None and scope.kind != "function":
            scope = scope.parent
        cls = None if scope is None else self.class_around(scope.node, scope.parent)
        if scope is None or cls is None:
            return UNKNOWN
        bindings = scope.names.get(_first_parameter(scope.node), ())
        owner = next(
            (call.frame.values[id(item)] for item in bindings if id(item) in call.frame.values), None
        )
        return Super(cls, owner or self.instance(cls))

    def _wrapped(self, node: ast.Call, call: Arguments) -> Function | None:
        """`unknown(function)`: most likely a wrapper that passes for the function."""
        if len(call.args) != 1 or call.keywords or not isinstance(call.args[0], ast.Name | ast.Attribute):
            return None
        thing = self.first(call)
        if not isinstance(thing, Function):
            return None
        wrapped = copy.copy(thing)
        guess = Guess("guessed-decorator", f"{show(node)} may change it", call.line)
        wrapped.guesses = (*thing.guesses, guess)
        return wrapped

    def returned(self, function: Function, call: Arguments | None) -> Thing:
        """Return what a function returns, where that is one thing."""
        node = function.node
        returns = self.survey(function.scope.file).returns.get(id(node), [])
        if not returns or ("return", id(node)) in self._active:
            return UNKNOWN
        frame = self._bind(node, function.scope.file.scope_in(node), call, function.owner)
        self._active.add(("return", id(node)))
        try:
            things = [self.resolve(value, at.scope, frame) for value, at in returns]
        finally:
            self._active.discard(("return", id(node)))
        if len(things) == 1 or all(thing is things[0] for thing in things):
            return things[0]
        servers = [thing for thing in things if isinstance(thing, Server)]
        return servers[-1] if servers else UNKNOWN

    # --- frames --------------------------------------------------------------------------------------

    def frames(self, spot: Spot) -> list[Frame]:
        """Return every way in which the code at a spot comes to run."""
        node = spot.function
        found = [ROOT] if node is None else self._calls_of(node, spot)
        for loop in spot.loops:
            found = [inner for frame in found[:MAX_FRAMES] for inner in self._rounds(loop, spot, frame)]
        return found

    def _calls_of(self, node: FunctionNode, spot: Spot) -> list[Frame]:
        if id(node) in self._frames:
            return self._frames[id(node)]
        self._frames[id(node)] = []  # a function that calls itself
        scope = spot.file.scope_in(node)
        place = self.survey(spot.file).spots[id(node)].scope
        cls = self.class_around(node, place)
        found: dict[tuple[int, ...], Frame] = {}
        for call, owner, guesses in self._find_calls(node, cls):
            made = self._bind(node, scope, call, owner)
            made.guesses, made.lines = guesses, (*call.frame.lines, call.line)
            found.setdefault(made.key, made)
            if len(found) >= MAX_FRAMES:
                break
        if not found:
            name = f"{cls.node.name}.{node.name}" if cls is not None else node.name
            guess = Guess("guessed-call", f"it is registered when {name}() is called", node.lineno)
            owner = None if cls is None else self.instance(cls)
            made = self._bind(node, scope, None, owner)
            outer = self.survey(spot.file).spots[id(node)]
            around = self.frames(outer)[:1] if outer.function is not None else []
            made.values = {**(around[0].values if around else {}), **made.values}
            made.guesses = (guess,)
            found[made.key] = made
        self._frames[id(node)] = list(found.values())
        return self._frames[id(node)]

    def _find_calls(
        self, node: FunctionNode, cls: Class | None
    ) -> Iterator[tuple[Arguments, Thing | None, tuple[Guess, ...]]]:
        """Yield the calls of a function, with the object that it is called on, and what is uncertain."""
        names = {node.name}
        if cls is not None and node.name == "__init__":
            names |= {
                item.name
                for found in self.surveys.values()
                for item, at in found.classes
                if item is cls.node or (item.bases and cls in self.ancestors(self._class_at(item, at)))
            }
        index = self._call_index()
        names |= {alias for name in names for alias in self._aliases.get(name, ())}
        for at in [at for name in names for at in index.get(name, ())]:
            if at.spot.function is node:
                continue
            for frame in self.frames(at.spot):
                callee = self.resolve(at.node.func, at.spot.scope, frame)
                call = Arguments(
                    at.node.args, at.node.keywords, at.spot.scope, frame, at.node.lineno, id(at.node)
                )
                guesses = (*frame.guesses, *at.spot.guesses)
                if isinstance(callee, Class) and self._is_constructor(callee, node):
                    yield call, self.resolve(at.node, at.spot.scope, frame), guesses
                elif isinstance(callee, Function) and callee.node is node:
                    if not isinstance(node, ast.AsyncFunctionDef) or at.is_awaited:
                        yield call, callee.owner, guesses

    def _class_at(self, node: ast.ClassDef, spot: Spot) -> Class:
        found: Class = self._keep(("class", id(node)), lambda: Class(node, spot.scope))
        return found

    def _is_constructor(self, cls: Class, node: FunctionNode) -> bool:
        member = self.member(cls, "__init__")
        return isinstance(member, Function) and member.node is node

    def _call_index(self) -> dict[str, list[CallAt]]:
        """Return the calls of all files by the last name of what is called."""
        if self._calls is None:
            self._calls = {}
            for found in self.surveys.values():
                for at in found.calls:
                    name = getattr(at.node.func, "attr", None) or getattr(at.node.func, "id", None)
                    if name:
                        self._calls.setdefault(name, []).append(at)
                for name, bindings in found.file.scope.names.items():
                    for binding in bindings:
                        if binding.kind == "from" and binding.name != name:
                            self._aliases.setdefault(binding.name, set()).add(name)
                        elif binding.kind == "value" and isinstance(binding.value, ast.Name):
                            self._aliases.setdefault(binding.value.id, set()).add(name)
        return self._calls

    def _bind(self, node: FunctionNode, scope: Scope, call: Arguments | None, owner: Thing | None) -> Frame:
        """Return the frame of a call: what each parameter stands for."""
        made = Frame((id(node),))
        if call is not None:
            key = (*call.frame.home(call.scope), call.key)
            made = Frame(key, dict(call.frame.values), call.frame.guesses)
            made.calls = dict(call.frame.calls)
        made.calls[id(node)] = made.key
        places = [*node.args.posonlyargs, *node.args.args]
        if owner is not None and places:
            self._set(made, scope, places.pop(0).arg, owner)
        if call is None:
            return made
        starred = any(isinstance(item, ast.Starred) for item in call.args)
        queue = [] if starred else list(call.args)
        defaults = dict(
            zip([item.arg for item in reversed(places)], reversed(node.args.defaults), strict=False)
        )
        for item, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            if value is not None:
                defaults[item.arg] = value
        named = [*places, *node.args.kwonlyargs]
        for position, item in enumerate(named):
            given = queue[position] if position < min(len(places), len(queue)) else call.keyword(item.arg)
            if given is not None:
                self._set(made, scope, item.arg, self.resolve(given, call.scope, call.frame))
            elif item.arg in defaults and not starred:
                self._set(made, scope, item.arg, self.resolve(defaults[item.arg], scope.parent or scope))
        if node.args.vararg is not None and not starred:
            rest: ast.expr = ast.List(queue[len(places) :], ast.Load(), lineno=call.line, col_offset=0)
            self._set(made, scope, node.args.vararg.arg, Data(rest, call.scope, call.frame))
        others = [item for item in call.keywords if item.arg not in {each.arg for each in named}]
        if node.args.kwarg is not None and all(item.arg is not None for item in others):
            keys: list[ast.expr | None] = [
                ast.Constant(item.arg, lineno=call.line, col_offset=0) for item in others
            ]
            more = ast.Dict(keys, [item.value for item in others], lineno=call.line, col_offset=0)
            self._set(made, scope, node.args.kwarg.arg, Data(more, call.scope, call.frame))
        return made

    def _set(self, frame: Frame, scope: Scope, name: str, thing: Thing) -> None:
        for binding in scope.names.get(name, ()):
            if binding.node is scope.node:
                frame.values[id(binding)] = thing

    # --- lists and dicts -----------------------------------------------------------------------------

    def _rounds(self, loop: Loop, spot: Spot, frame: Frame) -> Iterator[Frame]:
        """Return a frame for each round of a loop; one with a guess, where the loop cannot be followed."""
        scope = spot.scope
        items = list(self.items(loop.items, scope, frame))
        if any(item.node is None for item in items):
            words = f"it is registered in a loop over {show(loop.items)}, which cannot be followed"
            guess = Guess("guessed-loop", words, loop.items.lineno)
            yield frame.round(id(loop.items), guesses=(guess,))
            return
        for position, item in enumerate(items):
            made = frame.round(id(loop.items), position, guesses=item.guesses)
            made.lines = (*frame.lines, position)
            self.assign(loop.target, item, scope, made)
            yield made

    def assign(self, target: ast.expr, item: Item, scope: Scope, frame: Frame) -> None:
        """Let the target of a loop or comprehension stand for an item."""
        if item.node is None:
            return
        if isinstance(target, ast.Tuple | ast.List):
            inner = list(self.items(item.node, item.scope, item.frame))
            if len(inner) == len(target.elts):
                for part, value in zip(target.elts, inner, strict=True):
                    self.assign(part, value, scope, frame)
        elif isinstance(target, ast.Name):
            thing = self.resolve(item.node, item.scope, item.frame)
            bindings = [each for each in scope.names.get(target.id, ()) if each.kind == "unknown"]
            for binding in bindings:
                frame.values[id(binding)] = thing
            if not bindings:
                frame.names[target.id] = thing

    def items(self, node: ast.expr, scope: Scope, frame: Frame, depth: int = 0) -> Iterator[Item]:
        """Yield the items of a list that is written down or built step by step; at the end one without a
        node, where there is more than could be read."""
        if depth > MAX_DEPTH:
            yield Item(None, scope, frame)
            return
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            for count, inner in enumerate(node.elts):
                if count >= MAX_ITEMS:
                    yield Item(None, scope, frame)
                    return
                if isinstance(inner, ast.Starred):
                    yield from self.items(inner.value, scope, frame, depth + 1)
                else:
                    yield Item(inner, scope, frame)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield from self.items(node.left, scope, frame, depth + 1)
            yield from self.items(node.right, scope, frame, depth + 1)
        elif isinstance(node, ast.Name | ast.Attribute):
            yield from self._items_of_name(node, scope, frame, depth)
        elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            yield from self._items_of_comprehension(node, scope, frame, depth)
        elif isinstance(node, ast.Call):
            yield from self._items_of_call(node, scope, frame, depth)
        else:
            yield Item(None, scope, frame)

    def _items_of_name(
        self, node: ast.Name | ast.Attribute, scope: Scope, frame: Frame, depth: int
    ) -> Iterator[Item]:
        thing = self.resolve(node, scope, frame)
        if isinstance(node, ast.Name):
            home = next((place for place in scope.visible() if node.id in place.names), None)
            bindings = [] if home is None else home.names[node.id]
            written = [item for item in bindings if not isinstance(item.node, ast.AugAssign)]
            if home is not None and len(written) < len(bindings) and len(written) == 1:
                thing = self.bound(written[0], home, frame)
        if isinstance(thing, Data) and not isinstance(thing.node, ast.Name | ast.Attribute):
            yield from self.items(thing.node, thing.scope, thing.frame, depth + 1)
        else:
            yield Item(None, scope, frame)
        if isinstance(node, ast.Name):
            yield from self._added(node, scope, frame, depth)

    def _added(self, node: ast.Name, scope: Scope, frame: Frame, depth: int) -> Iterator[Item]:
        """What `name.append(...)`, `name.extend(...)` and `name += ...` add in the same function."""
        home = next((place for place in scope.visible() if node.id in place.names), None)
        if home is None or home.file not in self.surveys:
            return
        found = self.survey(home.file)
        changes: list[tuple[int, str, ast.expr, Spot]] = []
        for at in found.calls:
            function = at.node.func
            if (
                isinstance(function, ast.Attribute)
                and isinstance(function.value, ast.Name)
                and function.value.id == node.id
                and function.attr in ("append", "add", "extend", "insert", "remove", "pop", "clear", "update")
                and at.spot.scope is home
            ):
                argument = at.node.args[-1] if at.node.args else function
                changes.append((at.node.lineno, function.attr, argument, at.spot))
        for stored in found.stored:
            if (
                isinstance(stored.target, ast.Name)
                and stored.target.id == node.id
                and stored.spot.scope is home
            ):
                changes.append((stored.target.lineno, "extend", stored.value, stored.spot))
        for _, how, value, spot in sorted(changes, key=lambda change: change[0]):
            rounds = [frame]
            for loop in spot.loops:
                rounds = [inner for each in rounds for inner in self._rounds(loop, spot, each)]
            for inner in rounds:
                if how in ("append", "add", "insert"):
                    yield Item(value, home, inner, guesses=spot.guesses + inner.guesses[len(frame.guesses) :])
                elif how == "extend":
                    for item in self.items(value, home, inner, depth + 1):
                        yield item._replace(guesses=(*item.guesses, *spot.guesses))
                elif how != "update":
                    yield Item(None, home, inner)

    def _items_of_comprehension(
        self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, scope: Scope, frame: Frame, depth: int
    ) -> Iterator[Item]:
        first, *more = node.generators
        if more or first.ifs or first.is_async:
            yield Item(None, scope, frame)
            return
        for position, item in enumerate(self.items(first.iter, scope, frame, depth + 1)):
            if item.node is None:
                yield item
                continue
            inner = frame.round(id(node), position)
            self.assign(first.target, item, scope, inner)
            yield Item(node.elt, scope, inner)

    def _items_of_call(self, node: ast.Call, scope: Scope, frame: Frame, depth: int) -> Iterator[Item]:
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if method in ("values", "items", "keys", "copy") and not node.args:
            assert isinstance(node.func, ast.Attribute)  # nosec B101  # it has a name
            if method == "copy":
                yield from self.items(node.func.value, scope, frame, depth + 1)
                return
            for item in self.pairs(node.func.value, scope, frame):
                if item.node is None or item.key is None:
                    yield Item(None, scope, frame)
                    continue
                both = ast.Tuple([item.key, item.node], ast.Load(), lineno=node.lineno, col_offset=0)
                chosen = {"items": both, "values": item.node, "keys": item.key}[method]
                yield item._replace(node=chosen, key=None)
            return
        if self.full_name(node.func, scope) in _LISTS and len(node.args) <= 1 and not node.keywords:
            if node.args:
                yield from self.items(node.args[0], scope, frame, depth + 1)
            return
        callee = self.resolve(node.func, scope, frame)
        if isinstance(callee, Function):
            call = Arguments(node.args, node.keywords, scope, frame, node.lineno, id(node))
            yield from self.returned_items(callee, call, depth + 1)
        elif method == "list_tools" and isinstance(self.resolve(node.func.value, scope, frame), Super):  # type: ignore[attr-defined]
            yield Item(node, scope, frame)  # of a class that is not scanned
        else:
            yield Item(None, scope, frame)

    def returned_items(self, function: Function, call: Arguments | None, depth: int = 0) -> Iterator[Item]:
        """Yield the items of the list that a function returns, with a guess where it may return another."""
        file: SourceFile = function.scope.file
        returns = self.survey(file).returns.get(id(function.node), [])
        scope = file.scope_in(function.node)
        key = ("items", id(function.node))
        if not returns or key in self._active:
            yield Item(None, scope, ROOT)
            return
        frame = self._bind(function.node, scope, call, function.owner)
        seen: list[tuple[ast.expr, tuple[int, ...]]] = []
        self._active.add(key)
        try:
            for value, spot in returns:
                for item in self.items(value, spot.scope, frame, depth + 1):
                    same = (item.node, item.frame.key)
                    if item.node is None or len(returns) == 1 or same not in seen:
                        seen.append(same)  # type: ignore[arg-type]
                        yield item._replace(guesses=(*item.guesses, *spot.guesses))
        finally:
            self._active.discard(key)

    def pairs(self, node: ast.expr, scope: Scope, frame: Frame, depth: int = 0) -> Iterator[Item]:
        """Yield the entries of a dict that is written down; one without a key, where there may be more."""
        thing: Thing = Data(node, scope, frame)
        if isinstance(node, ast.Name | ast.Attribute):
            thing = self.resolve(node, scope, frame)
        if not isinstance(thing, Data) or depth > MAX_DEPTH:
            yield Item(None, scope, frame)
            return
        found = thing.node
        if isinstance(found, ast.Dict) and len(found.keys) <= MAX_ITEMS:
            for key, value in zip(found.keys, found.values, strict=True):
                if key is None:
                    yield from self.pairs(value, thing.scope, thing.frame, depth + 1)
                else:
                    yield Item(value, thing.scope, thing.frame, key)
        elif isinstance(found, ast.BinOp) and isinstance(found.op, ast.BitOr):
            yield from self.pairs(found.left, thing.scope, thing.frame, depth + 1)
            yield from self.pairs(found.right, thing.scope, thing.frame, depth + 1)
        elif isinstance(found, ast.Call) and self.full_name(found.func, thing.scope) == "builtins.dict":
            for keyword in found.keywords:
                if keyword.arg is not None:
                    name = ast.Constant(keyword.arg, lineno=found.lineno, col_offset=0)
                    yield Item(keyword.value, thing.scope, thing.frame, name)
            if found.args or any(keyword.arg is None for keyword in found.keywords):
                yield Item(None, thing.scope, thing.frame)
        else:
            yield Item(None, scope, frame)
        if isinstance(node, ast.Name):
            yield from self._put(node, scope, frame, depth)

    def _put(self, node: ast.Name, scope: Scope, frame: Frame, depth: int) -> Iterator[Item]:
        """What `name[key] = value` and `name.update(...)` add in the same function."""
        home = next((place for place in scope.visible() if node.id in place.names), None)
        if home is None or home.file not in self.surveys:
            return
        found = self.survey(home.file)
        for stored in found.stored:
            target = stored.target
            if stored.spot.scope is not home or not isinstance(target, ast.Subscript):
                continue
            if isinstance(target.value, ast.Name) and target.value.id == node.id:
                yield Item(stored.value, home, frame, target.slice, stored.spot.guesses)
        for at in found.calls:
            function = at.node.func
            if (
                isinstance(function, ast.Attribute)
                and isinstance(function.value, ast.Name)
                and function.value.id == node.id
                and at.spot.scope is home
                and function.attr in ("update", "pop", "popitem", "clear", "setdefault")
            ):
                if function.attr == "update" and at.node.args:
                    yield from self.pairs(at.node.args[0], home, frame, depth + 1)
                else:
                    yield Item(None, home, frame)

    # --- data ----------------------------------------------------------------------------------------

    def data(self, node: ast.expr, scope: Scope, frame: Frame) -> Any:
        """Return the value of an expression. Raises Unresolved where only running the code would tell."""
        made: dict[str, object] = {}
        if frame.values or frame.names:
            for item in ast.walk(node):
                if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load):
                    thing = self._given(item, scope, frame)
                    if isinstance(thing, Data) and thing.node is not item:
                        made[item.id] = self.data(thing.node, thing.scope, thing.frame)
        return self.reader(scope.file).value_at(node, Site(scope, made=made))

    def _given(self, node: ast.Name, scope: Scope, frame: Frame) -> Thing | None:
        """Return what a parameter, or the variable of a loop, stands for."""
        if node.id in frame.names:
            return frame.names[node.id]
        for meaning in self.names.find(node, Site(scope)).meanings:
            if isinstance(meaning, Place) and id(meaning.binding) in frame.values:
                return frame.values[id(meaning.binding)]
        return None

    def data_of(self, thing: Thing) -> Any:
        """Return the value of a thing that is data."""
        if isinstance(thing, Data):
            return self.data(thing.node, thing.scope, thing.frame)
        raise Unresolved("it is no data")


def is_our_application(item: Class | Known) -> bool:
    """Whether this is toolcrib's own class for applications."""
    return isinstance(item, Known) and item.package == "toolcrib" and item.last in OUR_APPLICATIONS


def _key(item: Class | Known) -> int | str:
    return item.name if isinstance(item, Known) else id(item)


def _first_parameter(node: FunctionNode) -> str:
    places = [*node.args.posonlyargs, *node.args.args]
    return places[0].arg if places else ""
