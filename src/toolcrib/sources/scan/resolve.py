"""Tell what expressions stand for: servers, functions, classes, objects, names of other packages, data.

Names are followed through imports, re-exports, star imports and assignments, attributes of an object to what
its class assigns or has, and a call to the object that it makes or to the one thing that a function returns.
Arguments of calls are not followed into functions. Of the meanings that conditions choose from, the first is
taken, with a doubt.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from toolcrib.sources.scan import known
from toolcrib.sources.scan.files import KNOWN_BY_NAME, Library
from toolcrib.sources.scan.source_file import (
    FUNCTIONS,
    Binding,
    FunctionNode,
    Scope,
    SourceFile,
    Spot,
    arguments_of,
    first_line,
    show,
    words_in,
)
from toolcrib.sources.source_text import parse_annotation

LibraryName = Literal["toolcrib", "mcp", "fastmcp", "unknown"]
"""The library whose rules a server has."""
Kind = Literal["tool", "resource", "prompt"]


class Thing:
    """Anything that an expression may stand for. `doubt` is the reason why it is not certain."""

    doubt = ""


UNKNOWN = Thing()


@dataclass(eq=False)
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


@dataclass(eq=False)
class Module(Thing):
    file: SourceFile


@dataclass(eq=False)
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
        return self.scope.file.scopes[id(self.node)]


@dataclass(eq=False)
class Class(Written):
    node: ast.ClassDef


@dataclass(eq=False)
class Function(Written):
    """A function; `owner` is the class whose object it is bound to as a method."""

    node: FunctionNode
    owner: Class | None = None


@dataclass(eq=False)
class Instance(Thing):
    """An object of a scanned class."""

    cls: Class


@dataclass(eq=False)
class Computed(Thing):
    """The value of a name that only running would tell: a parameter, the variable of a loop."""

    name: str


@dataclass(eq=False)
class Data(Thing):
    """An expression that is none of the other things; also an item of a list or dict, with its key. An open
    one stands for items that could not be read."""

    node: ast.expr
    scope: Scope
    key: ast.expr | None = None
    is_open: bool = False


@dataclass(eq=False)
class Arguments:
    """The arguments of a call as they are written, and where their names are looked up."""

    args: Sequence[ast.expr]
    keywords: Sequence[ast.keyword]
    scope: Scope
    node: ast.expr

    @classmethod
    def of(cls, node: ast.expr, scope: Scope) -> Arguments:
        """Return the arguments of a call; none for a decorator that is not called."""
        if isinstance(node, ast.Call):
            return cls(node.args, node.keywords, scope, node)
        return cls((), (), scope, node)

    @property
    def line(self) -> int:
        return self.node.lineno

    def keyword(self, *names: str) -> ast.expr | None:
        return next((item.value for item in self.keywords if item.arg in names), None)


@dataclass(eq=False)
class Registration:
    """One thing that is put on a server by a method of it, and the options."""

    thing: Thing
    options: Arguments
    method: str
    spot: Spot

    @property
    def place(self) -> tuple[SourceFile, int]:
        return self.options.scope.file, self.options.line


@dataclass(eq=False)
class Server(Thing):
    """A server or a registry, and what is registered on it. `prefix` is that of the server around it."""

    library: LibraryName
    label: str
    file: SourceFile
    call: Arguments | None = None
    cls: Class | None = None
    registrations: list[Registration] = field(default_factory=list)
    prefix: str = ""


# --- resolving ---

MARKS = frozenset({"toolcrib.tool", "toolcrib.component.tool"})
OWN_PACKAGES = frozenset({"toolcrib", "mcp", "mcp_types", "fastmcp"})
MAX_DEPTH = 60
"""How deep names, calls and lists are followed."""
MAX_ITEMS = 5_000
"""Items of a list that are looked at."""
_SERVERS: dict[tuple[str, str], LibraryName] = {
    ("toolcrib", "MCPServer"): "toolcrib",
    ("toolcrib", "ToolRegistry"): "toolcrib",
    ("mcp", "MCPServer"): "mcp",
    ("mcp", "FastMCP"): "mcp",
    ("fastmcp", "FastMCP"): "fastmcp",
}
_PLAIN_BASES = words_in("builtins.object abc.ABC typing.Generic typing.Protocol typing.NamedTuple")
_KINDS = {
    "builtins.staticmethod": "static",
    "builtins.classmethod": "class",
    "builtins.property": "property",
    "functools.cached_property": "property",
    "abc.abstractmethod": "abstract",
}
_GROWING = words_in("add append extend insert update")


class Resolver:
    """Resolves expressions of the files of one library."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.files: list[SourceFile] = []
        self.servers: dict[Any, Server] = {}
        self._things: dict[tuple[Any, ...], Any] = {}
        self._active: set[Any] = set()

    @contextmanager
    def _following(self, *key: Any) -> Iterator[bool]:
        """Yield whether something is followed already, so that following it again would not end."""
        is_active = key in self._active or len(self._active) > MAX_DEPTH
        if is_active:
            yield True
            return
        self._active.add(key)
        try:
            yield False
        finally:
            self._active.discard(key)

    # --- expressions ---------------------------------------------------------------------------------

    def resolve(self, node: ast.expr, scope: Scope, *, lazy: bool = False) -> Thing:
        """Return what an expression stands for. `lazy`: when the module is complete, as text is."""
        if isinstance(node, ast.Await):
            node = node.value
        if not isinstance(node, ast.Name | ast.Attribute | ast.Call):
            return Data(node, scope)
        with self._following(id(node)) as is_active:
            if is_active:
                return UNKNOWN
            if isinstance(node, ast.Name):
                return self._name(node.id, node.lineno, scope, lazy)
            if isinstance(node, ast.Call):
                return self._call(node, scope)
            if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super":
                cls = self.class_around(scope.function)
                return UNKNOWN if cls is None else self._method(cls, node.attr, after=cls)
            owner = self.resolve(node.value, scope, lazy=lazy)
            found = self.attribute(owner, node.attr)
            if found is UNKNOWN:
                return Data(node, scope) if node.attr in ("tool", "resource", "prompt") else found
            if owner.doubt and not found.doubt:
                found = _copy(found)
                found.doubt = owner.doubt
            return found

    def full_name(self, node: ast.expr, scope: Scope, *, lazy: bool = False) -> str:
        """Return the full name of something of another package, also behind aliases; "" for anything else."""
        if not isinstance(node, ast.Name | ast.Attribute):
            return ""
        thing = self.resolve(node, scope, lazy=lazy)
        return known.canonical(thing.name) if isinstance(thing, Known) and thing.call is None else ""

    # --- names ---------------------------------------------------------------------------------------

    def _name(self, name: str, line: int, scope: Scope, lazy: bool) -> Thing:
        for place in scope.visible():
            if bindings := place.names.get(name):
                at_once = not lazy and place.function is scope.function
                made = [item for item in bindings if item.line <= line] if at_once else bindings
                if made or place.kind != "class":
                    return self._choose(name, made or bindings, place)
            if place.stars and (found := self._starred(name, place)) is not UNKNOWN:
                return found
        if _exists(f"builtins.{name}"):
            return Known(f"builtins.{name}")
        return UNKNOWN

    def _choose(self, name: str, several: list[Binding], scope: Scope) -> Thing:
        """Return the meaning that the bindings of one scope give."""
        sure = [index for index, binding in enumerate(several) if not binding.is_conditional]
        live = several[sure[-1] :] if sure else several
        found = self.bound(live[0], scope)
        is_import = live[0].kind in ("import", "from")
        is_there = is_import and isinstance(found, Known) and _exists(found.name)
        if len(live) > 1 and not is_there:
            found = _copy(found) if found is not UNKNOWN else Computed(name)
            found.doubt = f"'{name}' is defined in several ways, depending on conditions; the first was taken"
        return found

    def bound(self, binding: Binding, scope: Scope) -> Thing:
        """Return what a binding binds its name to."""
        node = binding.node
        match binding.kind:
            case "import":
                return self._module(binding.module, scope.file)
            case "from":
                return self._imported(binding, scope.file)
            case "class":
                return self.cls(node, scope)  # type: ignore[arg-type]
            case "function":
                return self.function(node, scope)  # type: ignore[arg-type]
            case "value" if binding.value is not None:
                return self.resolve(binding.value, scope)
        if isinstance(node, FUNCTIONS) and scope.node is node:  # a parameter
            cls, outer = self.class_around(scope), scope.parent or scope
            if cls is not None and first_parameter(node) == binding.name:
                return cls if "class" in self.kinds(node, outer) else self.instance(cls)
            hint = next(item.annotation for item in arguments_of(node.args) if item.arg == binding.name)
            if isinstance(hint, ast.Constant):
                hint = parse_annotation(str(hint.value), node.lineno)
            library = None if hint is None else self.library_of(self.resolve(hint, outer))
            if library is not None:
                return self.servers.setdefault(id(binding), Server(library, binding.name, scope.file))
        found: Thing = self._things.setdefault(("computed", id(binding)), Computed(binding.name))
        return found

    def cls(self, node: ast.ClassDef, scope: Scope) -> Class:
        found: Class = self._things.setdefault(("class", id(node)), Class(node, scope))
        return found

    def function(self, node: FunctionNode, scope: Scope, owner: Class | None = None) -> Function:
        found: Function = self._things.setdefault((id(node), id(owner)), Function(node, scope, owner))
        return found

    def _imported(self, binding: Binding, file: SourceFile) -> Thing:
        origin = self._module(binding.module, file, binding.level)
        if binding.level and not isinstance(origin, Module):
            inner = ".".join(filter(None, (binding.module, binding.name)))
            return self._module(inner, file, binding.level)
        return self.attribute(origin, binding.name, file)

    def _module(self, dotted: str, near: SourceFile, level: int = 0) -> Thing:
        """Return the module of an import; a relative one by the folders of its file."""
        found = self.library.module(dotted, near, level)
        if found is not None:
            return Module(found)
        return UNKNOWN if level else Known(dotted)

    def _starred(self, name: str, scope: Scope) -> Thing:
        """Return the meaning that a name has by `from module import *`."""
        for star in reversed(scope.stars):
            origin = self._module(star.module, scope.file, star.level)
            if isinstance(origin, Known) and _exists(f"{origin.name}.{name}"):
                return Known(f"{origin.name}.{name}")
            if isinstance(origin, Module):
                file = origin.file
                if name in file.public_names or (not name.startswith("_") and file.scope.stars):
                    found = self.attribute(origin, name)
                    if found is not UNKNOWN:
                        return found
        return UNKNOWN

    # --- attributes ----------------------------------------------------------------------------------

    def attribute(self, thing: Thing, name: str, near: SourceFile | None = None) -> Thing:
        """Return an attribute of what an expression stands for."""
        match thing:
            case Module(file=file):
                with self._following(id(file), name) as is_active:
                    if is_active:
                        return UNKNOWN
                    bindings = file.scope.names.get(name)
                    found = self._choose(name, bindings, file.scope) if bindings else UNKNOWN
                    if found is UNKNOWN and file.scope.stars:
                        found = self._starred(name, file.scope)
                    if found is UNKNOWN and not bindings:
                        below = self.library.module(f"{file.name}.{name}", file)
                        found = UNKNOWN if below is None else Module(below)
                    return found
            case Known(call=None):
                if thing.package in KNOWN_BY_NAME:
                    return Known(f"{thing.name}.{name}")
                inner = self.library.module(f"{thing.name}.{name}", near)  # a folder without __init__.py
                return Known(f"{thing.name}.{name}") if inner is None else Module(inner)
            case Server() if name in ("registry", "local_provider"):
                return thing
            case Server(cls=Class() as cls) | Instance(cls=cls):
                with self._following(id(cls), name) as is_active:
                    if is_active:
                        return UNKNOWN
                    for value, scope in self.assigned(cls, name):
                        return self.resolve(value, scope)
                    return self._method(cls, name)
            case Class():
                member = self.member(thing, name)
                if isinstance(member, Function) and "class" in self.kinds(member.node, member.scope):
                    return self.function(member.node, member.scope, thing)
                return member or UNKNOWN
        return UNKNOWN

    def _method(self, cls: Class, name: str, *, after: Class | None = None) -> Thing:
        """Return an attribute of a class as its objects have it."""
        member = self.member(cls, name, after=after)
        if not isinstance(member, Function):
            return member or UNKNOWN
        kinds = self.kinds(member.node, member.scope)
        if "property" in kinds:
            return self.returned(member)
        return member if "static" in kinds else self.function(member.node, member.scope, cls)

    def assigned(self, cls: Class, name: str) -> list[tuple[ast.expr, Scope]]:
        """Return the values of `self.name = ...` in the methods of a class, its constructor's first."""
        key = ("assigned", id(cls.node))
        if key not in self._things:
            found: dict[str, list[tuple[ast.expr, Scope]]] = {}
            self._things[key] = found
            nodes = [(node, item.file) for item in self.classes(cls) for node in item.body.statements]
            methods = [file.scopes[id(node)] for node, file in nodes if isinstance(node, FUNCTIONS)]
            for scope in sorted(methods, key=lambda scope: scope.node.name != "__init__"):
                for statement in scope.statements:
                    match statement:
                        case ast.Assign([ast.Attribute(ast.Name(id=holder), attr)], value) | ast.AnnAssign(
                            ast.Attribute(ast.Name(id=holder), attr), value=ast.expr() as value
                        ) if holder == first_parameter(scope.node):
                            found.setdefault(attr, []).append((value, scope))
        return self._things[key].get(name, [])  # type: ignore[no-any-return]

    # --- servers and objects -------------------------------------------------------------------------

    def instance(self, cls: Class, call: Arguments | None = None) -> Thing:
        """Return the object that calling a class makes: a server, for a subclass of one."""
        library = self.library_of(cls)
        if library is None:
            made: Instance = self._things.setdefault(("object", id(cls.node)), Instance(cls))
            return made
        label = cls.node.name if call is None else _label(call, cls.node.name)
        key = id(cls.node if call is None else call.node)
        return self.servers.setdefault(key, Server(library, label, cls.file, call, cls))

    def server(self, node: ast.expr, scope: Scope) -> Server:
        """Return the server that an expression stands for, or may: the same for the same name."""
        thing = self.resolve(node, scope)
        key: Any = (id(scope.file), id(scope.function), show(node))
        match thing:
            case Server():
                return thing
            case Known():
                key = thing.name
            case Computed():
                key = id(thing)
            case Data(node=value) if value is not node:
                key = id(value)
            case _ if isinstance(node, ast.Attribute):
                owner = self.resolve(node.value, scope)
                key = (id(owner.cls.node), node.attr) if isinstance(owner, Instance) else key
        return self.servers.setdefault(key, Server("unknown", show(node), scope.file))

    def library_of(self, thing: Thing) -> LibraryName | None:
        """Return the library of the server that calling a class makes; None where it makes none."""
        if isinstance(thing, Known) and thing.call is None:
            return _SERVERS.get((thing.package, thing.last))
        if isinstance(thing, Class):
            libraries = (self.library_of(item) for item in self.ancestors(thing) if isinstance(item, Known))
            return next(filter(None, libraries), None)
        return None

    # --- classes -------------------------------------------------------------------------------------

    def class_around(self, scope: Scope | None) -> Class | None:
        """Return the class of the method that a scope is."""
        outer = None if scope is None else scope.parent
        is_method = outer is not None and outer.kind == "class"
        if scope is None or outer is None or not is_method or "static" in self.kinds(scope.node, outer):
            return None
        return self.cls(outer.node, outer.parent or outer)

    def ancestors(self, cls: Class, active: tuple[Class, ...] = ()) -> list[Class | Known]:
        """Return a class and its bases in the order in which Python asks them, nearly."""
        found: list[Class | Known] = self._things.setdefault(("bases", id(cls.node)), [])
        if not found:
            order: list[Class | Known] = [cls]
            for node in cls.node.bases if cls not in active and len(active) < MAX_DEPTH else ():
                base = self.resolve(node.value if isinstance(node, ast.Subscript) else node, cls.scope)
                if isinstance(base, Class):
                    order += self.ancestors(base, (*active, cls))
                else:
                    order.append(base if isinstance(base, Known) else Known("?"))
            last = {getattr(item, "name", item): position for position, item in enumerate(order)}
            found[:] = [item for position, item in enumerate(order) if position in last.values()][:200]
        return found

    def classes(self, cls: Class) -> list[Class]:
        """Return a class and those of its bases that are scanned."""
        return [item for item in self.ancestors(cls) if isinstance(item, Class)]

    def member(self, cls: Class, name: str, *, after: Class | None = None) -> Thing | None:
        """Return what a class, or one of its bases, binds to a name in its body."""
        line = self.ancestors(cls)
        for item in line[line.index(after) + 1 :] if after is not None and after in line else line:
            if isinstance(item, Class) and name in item.body.names:
                return self.bound(item.body.names[name][-1], item.body)
        return None

    def unread_bases(self, cls: Class) -> list[str]:
        """Return the bases that are not scanned and of which nothing is known."""
        bases = [item for item in self.ancestors(cls) if isinstance(item, Known)]
        return [item.name for item in bases if item.name not in _PLAIN_BASES and not item.is_application]

    def kinds(self, node: FunctionNode, scope: Scope) -> set[str]:
        """Return the kinds of a function: async, static, class, property, abstract."""
        found = {"async"} if isinstance(node, ast.AsyncFunctionDef) else set()
        return found | {_KINDS.get(self.full_name(item, scope), "") for item in node.decorator_list}

    # --- calls ---------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, scope: Scope) -> Thing:
        callee, call = self.resolve(node.func, scope), Arguments.of(node, scope)
        if isinstance(callee, Class):
            return self.instance(callee, call)
        if isinstance(callee, Function) and (made := self.returned(callee)) is not UNKNOWN:
            return made
        library = self.library_of(callee)
        if library is not None:
            server = Server(library, _label(call, scope.file.path.stem), scope.file, call)
            return self.servers.setdefault(id(node), server)
        if len(node.args) == 1 and not node.keywords and isinstance(node.args[0], ast.Name | ast.Attribute):
            wrapped = self.resolve(node.args[0], scope)
            if isinstance(wrapped, Function):
                return wrapped  # most likely
        if isinstance(callee, Known) and callee.call is None and callee.package != "builtins":
            return Known(callee.name, call)
        return Data(node, scope)

    def returned(self, function: Function) -> Thing:
        """Return what a function returns, where that is one thing."""
        returns = function.body.returned
        with self._following("return", id(function.node)) as is_active:
            if len(returns) != 1 or is_active:
                return UNKNOWN
            return self.resolve(returns[0], function.body)

    # --- lists and dicts -----------------------------------------------------------------------------

    def items(self, node: ast.expr, scope: Scope, depth: int = 0) -> Iterator[Data]:
        """Yield the items of a list or dict that is written down, or built from such step by step; an open
        one, where there is more than could be read."""
        more = Data(node, scope, is_open=True)
        if depth > MAX_DEPTH:
            yield more
            return
        match node:
            case ast.List(elts) | ast.Tuple(elts) | ast.Set(elts) if len(elts) <= MAX_ITEMS:
                for inner in elts:
                    if isinstance(inner, ast.Starred):
                        yield from self.items(inner.value, scope, depth + 1)
                    else:
                        yield Data(inner, scope)
            case ast.Dict(keys, values) if len(keys) <= MAX_ITEMS:
                for key, value in zip(keys, values, strict=True):
                    if key is None:
                        yield from self.items(value, scope, depth + 1)
                    else:
                        yield Data(value, scope, key)
            case ast.BinOp(left, ast.Add() | ast.BitOr(), right):
                yield from self.items(left, scope, depth + 1)
                yield from self.items(right, scope, depth + 1)
            case ast.Name() | ast.Attribute():
                yield from self._items_of_name(node, scope, depth)
            case ast.Call():
                yield from self._items_of_call(node, scope, depth)
            case _:
                yield more

    def _items_of_call(self, node: ast.Call, scope: Scope, depth: int) -> Iterator[Data]:
        function = node.func
        callee = self.resolve(function, scope)
        if isinstance(callee, Function):
            yield from self.returned_items(callee, depth + 1)
        elif isinstance(function, ast.Attribute) and function.attr == "values":
            for item in self.items(function.value, scope, depth + 1):
                yield replace(item, key=None, is_open=item.is_open or item.key is None)
        elif isinstance(callee, Known) and callee.last in ("list", "tuple") and len(node.args) == 1:
            yield from self.items(node.args[0], scope, depth + 1)
        else:  # the list of a class that is not scanned, or anything
            yield Data(node, scope, is_open=show(function) != "super().list_tools")

    def _items_of_name(self, node: ast.Name | ast.Attribute, scope: Scope, depth: int) -> Iterator[Data]:
        name = node.id if isinstance(node, ast.Name) else ""
        home = next((place for place in scope.visible() if name in place.names), None)
        thing = self.resolve(node, scope)
        if home is not None:
            made = [item for item in home.names[name] if not isinstance(item.node, ast.AugAssign)]
            thing = self.bound(made[0], home) if len(made) == 1 else thing
        if isinstance(thing, Data) and not isinstance(thing.node, ast.Name | ast.Attribute):
            yield from self.items(thing.node, thing.scope, depth + 1)
        else:
            yield Data(node, scope, is_open=True)
        for statement in home.statements if home is not None else ():
            match statement:
                case ast.Expr(ast.Call(ast.Attribute(ast.Name(id=changed), method), [*_, value])) if (
                    changed == name
                ):
                    if method in ("append", "add", "insert"):
                        yield Data(value, home)  # type: ignore[arg-type]
                    elif method in _GROWING:
                        yield from self.items(value, home, depth + 1)  # type: ignore[arg-type]
                    elif method in ("pop", "remove"):
                        yield Data(value, home, is_open=True)  # type: ignore[arg-type]
                case ast.AugAssign(target=ast.Name(id=changed)) if changed == name:
                    yield from self.items(statement.value, home, depth + 1)  # type: ignore[arg-type]
                case ast.Assign([ast.Subscript(ast.Name(id=changed), key)], value) if changed == name:
                    yield Data(value, home, key)  # type: ignore[arg-type]

    def returned_items(self, function: Function, depth: int = 0) -> Iterator[Data]:
        """Yield the items of the lists that a function returns."""
        returns = function.body.returned
        with self._following("items", id(function.node)) as is_active:
            if not returns or is_active:
                yield Data(ast.Constant(None, lineno=function.line), function.body, is_open=True)
                return
            seen: set[int] = set()
            for value in returns:
                for item in self.items(_unwrap(value), function.body, depth + 1):
                    if id(item.node) not in seen:
                        seen.add(id(item.node))
                        yield item


def _unwrap(node: ast.expr) -> ast.expr:
    """Return the list in `ServerResult(ListToolsResult(tools=[...]))`."""
    while isinstance(node, ast.Call):
        listed = next((item.value for item in node.keywords if item.arg in ("tools", "prompts")), None)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if listed is None and not (len(node.args) == 1 and name.endswith("Result")):
            return node
        node = node.args[0] if listed is None else listed
    return node


def _label(call: Arguments, default: str) -> str:
    """Return the name of a server: the one that it is given, else the variable that holds it."""
    for given in (*call.args[:1], call.keyword("name")):
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            return given.value
    return call.scope.name_of(call.node) or default


def first_parameter(node: FunctionNode) -> str:
    places = [*node.args.posonlyargs, *node.args.args]
    return places[0].arg if places else ""


def _copy(thing: Thing) -> Thing:
    """Return a thing that may be given a doubt; a function or class is the same wherever it is named."""
    return replace(thing) if isinstance(thing, Data | Known) else thing


def _exists(name: str) -> bool:
    return known.find(known.canonical(name)) is not known.MISSING
