"""Resolve expressions to what they stand for: functions, classes, objects, servers, data.

Nothing is executed step by step. A name stands for what it is bound to (names.py), an attribute of an object
for what its class assigns to it, a call for the server, the object or the returned expression. A parameter
stands for the argument of each call of its function that the scanned files contain; a call path is a `Frame`.
Depth and numbers are limited, and whatever is none of these patterns is `Data` or UNKNOWN.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

from toolcrib.sources.scan.files import Library
from toolcrib.sources.scan.names import BoundName, Meaning, Site
from toolcrib.sources.scan.source_file import (
    FUNCTIONS,
    GROWING,
    SHRINKING,
    Binding,
    CallAt,
    FunctionNode,
    Guess,
    Loop,
    Scope,
    SourceFile,
    Spot,
    Stored,
    defaults_of,
    show,
    words_in,
)
from toolcrib.sources.scan.stubs import Stubs
from toolcrib.sources.scan.things import (
    ROOT,
    UNKNOWN,
    Arguments,
    Class,
    Data,
    Frame,
    Function,
    Instance,
    Known,
    LibraryName,
    Marker,
    Method,
    Module,
    Server,
    Thing,
    Written,
    call_at,
)
from toolcrib.sources.scan.values import Unresolved

MARKS = frozenset({"toolcrib.tool", "toolcrib.tool.tool"})
OWN_PACKAGES = frozenset({"toolcrib", "mcp", "mcp_types", "fastmcp"})
MAX_DEPTH = 24
"""How deep calls and aliases are followed."""
MAX_FRAMES = 100
"""Calls of one function that are followed."""
MAX_ITEMS = 1_000
"""Items of a list that are looked at."""
_SERVERS: dict[tuple[str, str], LibraryName] = {
    ("toolcrib", "MCPServer"): "toolcrib",
    ("toolcrib", "ToolRegistry"): "toolcrib",
    ("mcp", "MCPServer"): "mcp",
    ("mcp", "FastMCP"): "mcp",
    ("mcp", "Server"): "low-level",
    ("fastmcp", "FastMCP"): "fastmcp",
}
_CHOOSING = words_in("add_tool get_tools list_tools tool _list_tools _list_tools_mcp")
"""The methods of servers that decide which tools there are."""
_PLAIN_BASES = words_in("builtins.object abc.ABC typing.Generic typing.Protocol typing.NamedTuple")
_KINDS = {
    "builtins.staticmethod": "static",
    "builtins.classmethod": "class",
    "builtins.property": "property",
    "functools.cached_property": "property",
    "abc.abstractmethod": "abstract",
}


class Resolver:
    """Resolves expressions of the files of one library."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.files: list[SourceFile] = []
        self.servers: dict[tuple[Any, ...], Server] = {}
        self.stubs = Stubs(library)
        self.names = self.stubs.names
        self._things: dict[tuple[Any, ...], Any] = {}
        self._frames: dict[int, list[Frame]] = {}
        self._active: set[Any] = set()
        self._depth = 0

    def full_name(self, node: ast.expr, scope: Scope) -> str:
        """Return the dotted name behind a name or attribute, "" where there is none."""
        return self.names.qualify(node, Site(scope))

    @contextmanager
    def _following(self, key: Any) -> Iterator[bool]:
        """Yield whether something is followed already, so that following it again would not end."""
        is_active = key in self._active
        self._active.add(key)
        try:
            yield is_active
        finally:
            if not is_active:
                self._active.discard(key)

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
                return self._name(node, scope, frame)
            if isinstance(node, ast.Attribute):
                return self._attribute(node, scope, frame)
            if isinstance(node, ast.Call):
                return self._call(node, scope, frame)
            return Data(node, scope, frame)
        finally:
            self._depth -= 1

    def of(self, item: Data) -> Thing:
        """Return what an item of a list stands for."""
        return UNKNOWN if item.is_open else self.resolve(item.node, item.scope, item.frame)

    def first(self, call: Arguments) -> Thing:
        """Return what the first argument of a call stands for."""
        return self.resolve(call.args[0], call.scope, call.frame) if call.args else UNKNOWN

    def _name(self, node: ast.Name | ast.Attribute, scope: Scope, frame: Frame) -> Thing:
        meaning = self.names.find(node, Site(scope)).meaning
        if meaning is not None:
            return self._meaning(meaning, frame)
        if isinstance(node, ast.Name):
            for star in scope.file.scope.stars:
                if star.module.partition(".")[0] in OWN_PACKAGES:
                    return Known(f"{star.module}.{node.id}")
            if hasattr(builtins, node.id):
                return Known(f"builtins.{node.id}")
        return UNKNOWN

    def _meaning(self, meaning: Meaning, frame: Frame) -> Thing:
        if isinstance(meaning, BoundName):
            return self.bound(meaning.binding, meaning.scope, frame)
        return meaning

    def bound(self, binding: Binding, scope: Scope, frame: Frame = ROOT) -> Thing:
        """Return what a binding binds its name to."""
        if id(binding) in frame.values:
            return frame.values[id(binding)]
        node = binding.node
        if isinstance(node, ast.ClassDef):
            return self.cls(node, scope)
        if binding.kind == "function" and isinstance(node, FUNCTIONS):
            return self.function(node, scope)
        if binding.kind == "value" and binding.value is not None:
            with self._following((id(binding), frame.key)) as is_active:
                return UNKNOWN if is_active else self.resolve(binding.value, scope, frame)
        if isinstance(node, FUNCTIONS) and scope.node is node:
            return self._parameter(binding, node, scope)
        return UNKNOWN

    def cls(self, node: ast.ClassDef, scope: Scope) -> Class:
        found: Class = self._things.setdefault(("class", id(node)), Class(node, scope))
        return found

    def function(self, node: FunctionNode, scope: Scope, owner: Thing | None = None) -> Function:
        key = ("function", id(node), id(owner))
        found: Function = self._things.setdefault(key, Function(node, scope, owner))
        return found

    def _parameter(self, binding: Binding, node: FunctionNode, scope: Scope) -> Thing:
        """Return what stands for a parameter that no call in the files gives: a server, by its annotation."""
        cls = self.class_around(node, scope.parent)
        places = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if cls is not None and places and places[0].arg == binding.name:
            return self.instance(cls)
        hint = next((each.annotation for each in places if each.arg == binding.name), None)
        if isinstance(hint, ast.Constant) and str(hint.value).isidentifier():
            hint = _at(ast.Name(str(hint.value), ast.Load()), hint.lineno)
        if isinstance(hint, ast.Name | ast.Attribute):
            library = self.library_of(self.resolve(hint, scope.parent or scope))
            if library is not None:
                made = Server(library, f"{node.name}({binding.name})", scope.file)
                return self.servers.setdefault((id(binding),), made)
        return Data(_at(ast.Name(binding.name, ast.Load()), node.lineno), scope, ROOT)

    def class_around(self, node: FunctionNode, outer: Scope | None) -> Class | None:
        """Return the class that a function is a method of."""
        if outer is None or outer.kind != "class" or "static" in self.kinds(node, outer):
            return None
        return self.cls(outer.node, outer.parent or outer)

    # --- servers and objects -------------------------------------------------------------------------

    def instance(self, cls: Class, call: Arguments | None = None) -> Thing:
        """Return the object that calling a class makes: a server, for a subclass of one."""
        library = self.library_of(cls)
        key = ("object", id(cls.node), *(() if call is None else (*call.frame.home(call.scope), call.key)))
        if library is None:
            made: Instance = self._things.setdefault(key, Instance(cls, call))
            return made
        label = cls.node.name if call is None else _label(call, cls.node.name)
        made_of = Server(library, label, cls.file if call is None else call.file, call)
        server = self.servers.setdefault(key, made_of)
        if server.cls is None:
            server.cls = cls
            if any(name in item.body.names for item in self.classes(cls) for name in _CHOOSING):
                server.guesses.append(Guess("guessed-server", f"the server is a {cls.node.name}"))
        return server

    def unknown_server(self, node: ast.expr, scope: Scope, name: str = "") -> Server:
        """Return the server behind an expression that cannot be followed, the same for the same name."""
        key = ("unknown", name or (id(scope.node), show(node)))
        return self.servers.setdefault(key, Server("unknown", name or show(node), scope.file))

    def library_of(self, thing: Thing) -> LibraryName | None:
        """Return the library of the server that calling a class makes; None where it makes none."""
        if isinstance(thing, Known) and thing.call is None:
            return _SERVERS.get((thing.package, thing.last))
        if isinstance(thing, Class):
            libraries = (self.library_of(item) for item in self.ancestors(thing) if isinstance(item, Known))
            return next(filter(None, libraries), None)
        return None

    # --- attributes ----------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute, scope: Scope, frame: Frame) -> Thing:
        if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super":
            return self._of_super(node.attr, scope.function, frame)
        base = self.resolve(node.value, scope, frame)
        is_registering = node.attr in ("tool", "add_tool")
        if isinstance(base, Known) and is_registering and self._is_object(node.value, scope):
            return Method(self.unknown_server(node.value, scope, base.name), node.attr)
        if isinstance(base, Known | Module | Class) and getattr(base, "call", None) is None:
            found = self._name(node, scope, frame)
            if found is not UNKNOWN:
                return found
        thing = self.attribute(base, node.attr)
        if thing is UNKNOWN and is_registering and not isinstance(base, Class | Instance):
            return Method(self.unknown_server(node.value, scope), node.attr)
        return thing

    def _is_object(self, node: ast.expr, scope: Scope) -> bool:
        """Return whether a dotted name of another package may be more than a module."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            return True
        bindings = next((place.names[node.id] for place in scope.visible() if node.id in place.names), [])
        packages = [item.module.partition(".")[0] for item in bindings[:1] if item.kind != "import"]
        return bool(packages) and packages[0] not in OWN_PACKAGES

    def attribute(self, thing: Thing, name: str) -> Thing:
        """Return an attribute of what an expression stands for."""
        match thing:
            case Module():
                meaning = self.names.member(thing, name).meaning
                return UNKNOWN if meaning is None else self._meaning(meaning, ROOT)
            case Server() if name in ("registry", "local_provider"):
                return thing
            case Server() if name in ("tool", "add_tool"):
                return Method(thing, name)  # also where its class overrides it
            case Server():
                found = UNKNOWN if thing.cls is None else self._of_object(thing, thing.cls, name)
                return Method(thing, name) if found is UNKNOWN else found
            case Instance():
                return self._of_object(thing, thing.cls, name)
            case Class():
                member = self.member(thing, name)
                if isinstance(member, Function) and "class" in self.kinds(member.node, member.scope):
                    return self.function(member.node, member.scope, thing)
                return member or UNKNOWN
        return UNKNOWN

    def _of_super(self, name: str, scope: Scope | None, frame: Frame) -> Thing:
        """Return `super().name` in a method."""
        cls = None if scope is None else self.class_around(scope.node, scope.parent)
        if scope is None or cls is None:
            return UNKNOWN
        bindings = scope.names.get(first_parameter(scope.node), ())
        owners = (frame.values[id(item)] for item in bindings if id(item) in frame.values)
        owner = next(owners, None) or self.instance(cls)
        member = self.member(getattr(owner, "cls", None) or cls, name, after=cls)
        if isinstance(member, Function):
            return self.function(member.node, member.scope, owner)
        return member or UNKNOWN

    def _of_object(self, owner: Instance | Server, cls: Class, name: str) -> Thing:
        """Return an attribute of an object: what its class assigns to it, or has."""
        with self._following((id(owner), name)) as is_active:
            if is_active:
                return UNKNOWN
            for stored in self.assigned(cls, name):
                node: Any = stored.spot.scope.node
                call = owner.call if node.name == "__init__" else None
                frame = self.bind(node, stored.spot.scope, call, owner)
                return self.resolve(stored.value, stored.spot.scope, frame)
            member = self.member(cls, name)
        if not isinstance(member, Function) or member.owner is not None:
            return member or UNKNOWN
        kinds = self.kinds(member.node, member.scope)
        if "property" in kinds:
            return self.returned(self.function(member.node, member.scope, owner), None)
        return member if "static" in kinds else self.function(member.node, member.scope, owner)

    def assigned(self, cls: Class, name: str) -> list[Stored]:
        """Return the assignments `self.name = ...` in the methods of a class, its constructor's first."""
        found: list[Stored] = []
        for item in self.classes(cls):
            for stored in item.file.attributes.get(name, ()):
                scope, holder = stored.spot.scope, stored.target.value  # type: ignore[attr-defined]
                is_method = scope.kind == "function" and scope.parent is item.body
                if is_method and getattr(holder, "id", "") == first_parameter(scope.node):
                    found.append(stored)
        return sorted(found, key=lambda stored: stored.spot.scope.node.name != "__init__")

    # --- classes -------------------------------------------------------------------------------------

    def ancestors(self, cls: Class) -> list[Class | Known]:
        """Return a class and its bases in the order in which Python asks them, nearly."""
        found: list[Class | Known] = self._things.setdefault(("bases", id(cls.node)), [])
        if not found:
            order: list[Class | Known] = []
            self._gather(cls, order, ())
            last = {getattr(item, "name", item): position for position, item in enumerate(order)}
            found += [item for position, item in enumerate(order) if position in last.values()]
        return found

    def classes(self, cls: Class) -> list[Class]:
        """Return a class and those of its bases that are scanned."""
        return [item for item in self.ancestors(cls) if isinstance(item, Class)]

    def _gather(self, cls: Class, found: list[Class | Known], active: tuple[Class, ...]) -> None:
        found.append(cls)
        if cls in active or len(found) > 200 or len(active) > MAX_DEPTH:
            return
        for node in cls.node.bases:
            base = self.resolve(node.value if isinstance(node, ast.Subscript) else node, cls.scope)
            if isinstance(base, Class):
                self._gather(base, found, (*active, cls))
            else:
                found.append(base if isinstance(base, Known) else Known("?"))

    def member(self, cls: Class, name: str, *, after: Class | None = None) -> Thing | None:
        """Return what a class, or one of its bases, binds to a name in its body."""
        line = self.ancestors(cls)
        if after is not None and after in line:
            line = line[line.index(after) + 1 :]
        for item in line:
            if isinstance(item, Class) and name in item.body.names:
                return self.bound(item.body.names[name][-1], item.body)
        return None

    def unread_bases(self, cls: Class) -> list[str]:
        """Return the bases that are not scanned and of which nothing is known."""
        bases = [item for item in self.ancestors(cls) if isinstance(item, Known)]
        return [item.name for item in bases if item.name not in _PLAIN_BASES and not item.is_application]

    def is_model(self, cls: Class) -> bool:
        return any(isinstance(item, Known) and item.package == "pydantic" for item in self.ancestors(cls))

    def fields(self, cls: Class) -> dict[str, ast.expr | None]:
        """Return the annotated names of a class and its bases, with their values."""
        statements = [statement for item in reversed(self.classes(cls)) for statement in item.node.body]
        fields = [item for item in statements if isinstance(item, ast.AnnAssign)]
        return {item.target.id: item.value for item in fields if isinstance(item.target, ast.Name)}

    def kinds(self, node: FunctionNode, scope: Scope) -> set[str]:
        """Return the kinds of a function: async, static, class, property, abstract."""
        found = {"async"} if isinstance(node, ast.AsyncFunctionDef) else set()
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Name | ast.Attribute):
                found.add(_KINDS.get(self.full_name(decorator, scope), ""))
        return found

    # --- calls ---------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, scope: Scope, frame: Frame) -> Thing:
        key = ("call", id(node), frame.key)
        if key in self._things:
            found: Thing = self._things[key]
            return found
        with self._following(key) as is_active:
            thing = UNKNOWN if is_active else self._called(node, call_at(node, Spot(scope), frame))
        if not is_active and self._depth < MAX_DEPTH - 2:
            self._things[key] = thing
        return thing

    def _called(self, node: ast.Call, call: Arguments) -> Thing:
        callee = self.resolve(node.func, call.scope, call.frame)
        match callee:
            case Known() if callee.call is None:
                return self._known(callee, call, node)
            case Class():
                return self.instance(callee, call)
            case Function():
                return self.returned(callee, call)
            case Method() if callee.name == "tool":
                first = self.first(call)
                return first if isinstance(first, Written) else Marker(call, callee.server)
            case Marker():
                return self.first(call)
        return self._wrapped(node, call) or Data(node, call.scope, call.frame)

    def _known(self, callee: Known, call: Arguments, node: ast.Call) -> Thing:
        library = self.library_of(callee)
        if library is not None:
            key = ("call", id(node), call.frame.home(call.scope))
            made = Server(library, _label(call, call.file.path.stem), call.file, call)
            server = self.servers.setdefault(key, made)
            server.is_ours = (library, callee.last) == ("toolcrib", "MCPServer")
            return server
        if callee.name in MARKS:
            first = self.first(call)
            return first if isinstance(first, Written) else Marker(call)
        if callee.package == "builtins":
            return Data(node, call.scope, call.frame)
        return self._wrapped(node, call) or Known(callee.name, call)

    def _wrapped(self, node: ast.Call, call: Arguments) -> Function | None:
        """`unknown(function)`: most likely a wrapper that passes for the function."""
        is_one = len(call.args) == 1 and not call.keywords
        thing = self.first(call) if is_one and isinstance(call.args[0], ast.Name | ast.Attribute) else None
        guess = Guess("guessed-decorator", f"{show(node)} may change it")
        return replace(thing, guesses=(*thing.guesses, guess)) if isinstance(thing, Function) else None

    def returned(self, function: Function, call: Arguments | None) -> Thing:
        """Return what a function returns, where that is one thing."""
        returns = function.file.returns.get(id(function.node), [])
        with self._following(("return", id(function.node))) as is_active:
            if not returns or is_active:
                return UNKNOWN
            frame = self.bind(function.node, function.body, call, function.owner)
            things = [self.resolve(value, at.scope, frame) for value, at in returns]
        if all(thing is things[0] for thing in things):
            return things[0]
        servers = [thing for thing in things if isinstance(thing, Server)]
        return servers[-1] if servers else UNKNOWN

    # --- frames --------------------------------------------------------------------------------------

    def frames(self, spot: Spot) -> list[Frame]:
        """Return every way in which the code at a spot comes to run."""
        node = spot.function
        return self._repeat(spot, [ROOT] if node is None else self._calls_of(node, spot))

    def _repeat(self, spot: Spot, frames: list[Frame]) -> list[Frame]:
        """Return a frame for each round of the loops around a spot."""
        for loop in spot.loops:
            frames = [made for frame in frames[:MAX_FRAMES] for made in self._rounds(loop, spot.scope, frame)]
        return frames

    def _rounds(self, loop: Loop, scope: Scope, frame: Frame) -> Iterator[Frame]:
        items = list(self.items(loop.items, scope, frame))
        if any(item.is_open for item in items):
            words = f"it is registered in a loop over {show(loop.items)}, which cannot be followed"
            guess = Guess("guessed-loop", words)
            yield replace(frame, key=(*frame.key, id(loop.items)), guesses=(*frame.guesses, guess))
            return
        for position, item in enumerate(items):
            key, guesses = (*frame.key, id(loop.items), position), (*frame.guesses, *item.guesses)
            made = Frame(key, dict(frame.values), guesses, frame.calls)
            self._assign(loop.target, item, scope, made)
            yield made

    def _assign(self, target: ast.expr, item: Data, scope: Scope, frame: Frame) -> None:
        """Let the target of a loop stand for an item."""
        if isinstance(target, ast.Tuple | ast.List):
            for part, value in zip(target.elts, self.items(item.node, item.scope, item.frame), strict=False):
                self._assign(part, value, scope, frame)
        elif isinstance(target, ast.Name):
            for binding in scope.names.get(target.id, ()):
                if binding.kind == "unknown":
                    frame.values[id(binding)] = self.of(item)

    def _calls_of(self, node: FunctionNode, spot: Spot) -> list[Frame]:
        """Return a frame for each call of a function; without one, a guess."""
        if id(node) in self._frames:
            return self._frames[id(node)]
        self._frames[id(node)] = []  # a function that calls itself
        file = spot.scope.file
        scope, outer = file.scope_in(node), file.spots[id(node)]
        cls = self.class_around(node, outer.scope)
        found: dict[tuple[int, ...], Frame] = {}
        for call, owner in self._find_calls(node, cls):
            made = self.bind(node, scope, call, owner)
            made.guesses = call.guesses
            found.setdefault(made.key, made)
            if len(found) >= MAX_FRAMES:
                break
        if not found:
            name = f"{cls.node.name}.{node.name}" if cls is not None else node.name
            made = self.bind(node, scope, None, None if cls is None else self.instance(cls))
            made.guesses = (Guess("guessed-call", f"it is registered when {name}() is called"),)
            for frame in self.frames(outer)[:1] if outer.function is not None else ():
                made.values = {**frame.values, **made.values}
            found[made.key] = made
        self._frames[id(node)] = list(found.values())
        return self._frames[id(node)]

    def _find_calls(self, node: FunctionNode, cls: Class | None) -> Iterator[tuple[Arguments, Thing | None]]:
        """Yield the calls of a function, with the object that it is called on."""
        names, is_async = {node.name}, isinstance(node, ast.AsyncFunctionDef)
        if cls is not None and node.name == "__init__":
            names |= self._heirs.get(cls, set())
        index, aliases = self._call_index
        names |= {alias for name in names for alias in aliases.get(name, ())}
        for at in [at for name in names for at in index.get(name, ()) if at.spot.function is not node]:
            scope = at.spot.scope
            if not self._may_call(self.resolve(at.node.func, scope), node, cls):
                continue
            for frame in self.frames(at.spot):
                callee = self.resolve(at.node.func, scope, frame)
                call = call_at(at.node, at.spot, frame)
                if isinstance(callee, Class) and self._may_call(callee, node, None):
                    yield call, self.resolve(at.node, scope, frame)
                elif isinstance(callee, Function) and callee.node is node and (at.is_awaited or not is_async):
                    yield call, callee.owner

    def _may_call(self, callee: Thing, node: FunctionNode, cls: Class | None) -> bool:
        """Return whether calling something calls a function, as far as can be told without frames."""
        if isinstance(callee, Class):
            member = self.member(callee, "__init__")
            return isinstance(member, Function) and member.node is node
        if not isinstance(callee, Function) or callee.node is node or cls is None:
            return isinstance(callee, Function) and callee.node is node
        owner = self.class_around(callee.node, callee.scope)  # what it overrides
        return callee.node.name == node.name and owner in self.ancestors(cls)

    @cached_property
    def _heirs(self) -> dict[Class, set[str]]:
        """The names of each class and of those that inherit from it."""
        found: dict[Class, set[str]] = {}
        for item, spot in (each for file in self.files for each in file.classes):
            for cls in self.classes(self.cls(item, spot.scope)):
                found.setdefault(cls, set()).add(item.name)
        return found

    def add(self, file: SourceFile) -> None:
        """Look into a file too."""
        file.is_followed = True
        self.files.append(file)
        for name in ("_heirs", "_call_index"):
            vars(self).pop(name, None)

    @cached_property
    def _call_index(self) -> tuple[dict[str, list[CallAt]], dict[str, set[str]]]:
        """The calls of all files by the last name of what is called, and the aliases of each name."""
        calls: dict[str, list[CallAt]] = {}
        aliases: dict[str, set[str]] = {}
        for file in self.files:
            for at in (*file.calls, *_decorator_calls(file)):
                name = str(getattr(at.node.func, "attr", None) or getattr(at.node.func, "id", ""))
                calls.setdefault(name, []).append(at)
            for name, bindings in file.scope.names.items():
                for binding in bindings:
                    meant = binding.name if binding.kind == "from" else getattr(binding.value, "id", name)
                    if meant != name:
                        aliases.setdefault(meant, set()).add(name)
        return calls, aliases

    def bind(self, node: FunctionNode, scope: Scope, call: Arguments | None, owner: Thing | None) -> Frame:
        """Return the frame of a call: what each parameter stands for."""
        made = Frame((id(node),))
        if call is not None:
            frame = call.frame
            key = (*frame.home(call.scope), call.key)
            made = Frame(key, dict(frame.values), frame.guesses, dict(frame.calls))
        made.calls[id(node)] = made.key
        places = [item.arg for item in (*node.args.posonlyargs, *node.args.args)]
        given: dict[str, Thing] = {}
        if owner is not None and places:
            given[places.pop(0)] = owner
        if call is not None and not any(isinstance(item, ast.Starred) for item in call.args):
            for name, value in defaults_of(node.args):
                given[name] = self.resolve(value, scope.parent or scope)
            named = {*places, *(item.arg for item in node.args.kwonlyargs)}
            written = dict(zip(places, call.args, strict=False))
            written |= {item.arg: item.value for item in call.keywords if item.arg in named}
            for name, value in written.items():
                given[name] = self.resolve(value, call.scope, call.frame)
        for name, thing in given.items():
            for binding in scope.names.get(name, ()):
                if binding.node is node:
                    made.values[id(binding)] = thing
        return made

    # --- lists and dicts -----------------------------------------------------------------------------

    def items(self, node: ast.expr, scope: Scope, frame: Frame, depth: int = 0) -> Iterator[Data]:
        """Yield the items of a list or dict that is written down or built step by step; an open one, where
        there is more than could be read."""
        more = Data(node, scope, frame, is_open=True)
        if depth > MAX_DEPTH:
            yield more
        elif isinstance(node, ast.List | ast.Tuple | ast.Set):
            for inner in node.elts[:MAX_ITEMS]:
                if isinstance(inner, ast.Starred):
                    yield from self.items(inner.value, scope, frame, depth + 1)
                else:
                    yield Data(inner, scope, frame)
            if len(node.elts) > MAX_ITEMS:
                yield more
        elif isinstance(node, ast.Dict) and len(node.keys) <= MAX_ITEMS:
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None:
                    yield from self.items(value, scope, frame, depth + 1)
                else:
                    yield Data(value, scope, frame, key)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.BitOr):
            yield from self.items(node.left, scope, frame, depth + 1)
            yield from self.items(node.right, scope, frame, depth + 1)
        elif isinstance(node, ast.Name | ast.Attribute):
            yield from self._items_of_name(node, scope, frame, depth)
        elif isinstance(node, ast.Call):
            yield from self._items_of_call(node, scope, frame, depth)
        else:
            yield more

    def _items_of_name(
        self, node: ast.Name | ast.Attribute, scope: Scope, frame: Frame, depth: int
    ) -> Iterator[Data]:
        thing = self.resolve(node, scope, frame)
        name = node.id if isinstance(node, ast.Name) else ""
        home = next((place for place in scope.visible() if name in place.names), None)
        if home is not None:
            written = [item for item in home.names[name] if not isinstance(item.node, ast.AugAssign)]
            if len(written) == 1 < len(home.names[name]):
                thing = self.bound(written[0], home, frame)
        if isinstance(thing, Data) and not isinstance(thing.node, ast.Name | ast.Attribute):
            yield from self.items(thing.node, thing.scope, thing.frame, depth + 1)
        else:
            yield Data(node, scope, frame, is_open=True)
        if home is None:
            return
        for how, value, key, spot in self._changes(name, home):
            for inner in self._repeat(spot, [frame]):
                guesses = (*spot.guesses, *inner.guesses[len(frame.guesses) :])
                if how in ("append", "add", "insert"):
                    yield Data(value, home, inner, key, guesses)
                elif how in GROWING:
                    for item in self.items(value, home, inner, depth + 1):
                        yield replace(item, guesses=(*item.guesses, *guesses))
                else:
                    yield Data(value, home, inner, is_open=True)

    def _changes(self, name: str, home: Scope) -> list[tuple[str, ast.expr, ast.expr | None, Spot]]:
        """Return what `name.append(...)`, `name += ...` and `name[key] = ...` do in the same function."""
        found: list[tuple[int, str, ast.expr, ast.expr | None, Spot]] = []
        for at in home.file.calls:
            function = at.node.func
            if not isinstance(function, ast.Attribute) or getattr(function.value, "id", "") != name:
                continue
            if function.attr in GROWING | SHRINKING and at.spot.scope is home:
                value = at.node.args[-1] if at.node.args else function
                found.append((at.node.lineno, function.attr, value, None, at.spot))
        for target, value, spot in home.file.stored:
            key = target.slice if isinstance(target, ast.Subscript) else None
            changed = target.value if isinstance(target, ast.Subscript) else target
            if isinstance(changed, ast.Name) and changed.id == name and spot.scope is home:
                found.append((target.lineno, "extend" if key is None else "add", value, key, spot))
        return [change[1:] for change in sorted(found, key=lambda change: change[0])]

    def _items_of_call(self, node: ast.Call, scope: Scope, frame: Frame, depth: int) -> Iterator[Data]:
        function = node.func
        method = function.attr if isinstance(function, ast.Attribute) else ""
        owner: Any = getattr(function, "value", None)
        more = Data(node, scope, frame, is_open=True)
        if method in ("values", "items", "keys") and not node.args:
            for item in self.items(owner, scope, frame, depth + 1):
                if item.is_open or item.key is None:
                    yield more
                    continue
                both = _at(ast.Tuple([item.key, item.node], ast.Load()), node.lineno)
                chosen = {"items": both, "values": item.node, "keys": item.key}[method]
                yield replace(item, node=chosen, key=None)
            return
        callee = self.resolve(function, scope, frame)
        if isinstance(callee, Function):
            yield from self.returned_items(callee, call_at(node, Spot(scope), frame), depth + 1)
        elif method == "list_tools" and show(owner).startswith("super("):
            yield Data(node, scope, frame)  # of a class that is not scanned
        else:
            yield more

    def returned_items(self, function: Function, call: Arguments | None, depth: int = 0) -> Iterator[Data]:
        """Yield the items of the list that a function returns, with a guess where it may return another."""
        returns = function.file.returns.get(id(function.node), [])
        with self._following(("items", id(function.node))) as is_active:
            if not returns or is_active:
                yield Data(_at(ast.Constant(None), function.line), function.body, ROOT, is_open=True)
                return
            frame = self.bind(function.node, function.body, call, function.owner)
            seen: list[Any] = []
            for value, spot in returns:
                for item in self.items(value, spot.scope, frame, depth + 1):
                    if len(returns) == 1 or (item.node, item.frame.key) not in seen:
                        seen.append((item.node, item.frame.key))
                        yield replace(item, guesses=(*item.guesses, *spot.guesses))

    # --- data ----------------------------------------------------------------------------------------

    def data(self, node: ast.expr, scope: Scope, frame: Frame) -> Any:
        """Return the value of an expression. Raise Unresolved where only running the code would tell."""
        made: dict[str, object] = {}
        for item in ast.walk(node) if frame.values else ():
            if isinstance(item, ast.Name):
                meaning = self.names.find(item, Site(scope)).meaning
                thing = frame.values.get(id(meaning.binding)) if isinstance(meaning, BoundName) else None
                if isinstance(thing, Data) and thing.node is not item:
                    made[item.id] = self.data_of(thing)
        return self.stubs.value(node, Site(scope, made=made))

    def data_of(self, thing: Thing) -> Any:
        """Return the value of a thing that is data."""
        if isinstance(thing, Data) and not thing.is_open:
            return self.data(thing.node, thing.scope, thing.frame)
        raise Unresolved("it is no data")


def _label(call: Arguments, default: str) -> str:
    """Return the name of a server: the one that it is given, else the variable that holds it."""
    for given in (*call.args[:1], call.keyword("name")):
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            return given.value
    for name, bindings in call.scope.names.items():
        if any(id(item.value) == call.key for item in bindings):
            return name
    return default


def _decorator_calls(file: SourceFile) -> Iterator[CallAt]:
    """Yield the calls that decorators without arguments are."""
    for node, spot in file.decorated:
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Name | ast.Attribute):
                name = _at(ast.Name(node.name, ast.Load()), node.lineno)
                yield CallAt(_at(ast.Call(decorator, [name], []), decorator.lineno), spot)


def _at(node: Any, line: int) -> Any:
    """Return a node that is not in the source with a line."""
    node.lineno, node.col_offset = line, 0
    return node


def first_parameter(node: FunctionNode) -> str:
    places = [*node.args.posonlyargs, *node.args.args]
    return places[0].arg if places else ""
