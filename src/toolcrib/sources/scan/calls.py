"""Resolve expressions and evaluate calls: creating servers, registering tools, calling functions.

Evaluate calls: creating a server, registering or marking a tool, creating an object, calling a
function.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from toolcrib.errors import Finding
from toolcrib.sources.scan.changes import MARKS, doubt_call, note_call, note_decorator
from toolcrib.sources.scan.files import find_module, resolve
from toolcrib.sources.scan.objects import (
    UNKNOWN,
    Class,
    Definition,
    Door,
    Function,
    Guess,
    Instance,
    Known,
    Later,
    Lister,
    Listing,
    Made,
    Maker,
    Marker,
    Module,
    Pairs,
    Part,
    Said,
    Scope,
    Server,
    Super,
    Thing,
    Unknown,
    Value,
    Wraps,
    ancestors,
    begin,
    bind_parameters,
    find_member,
    inherited,
    pass_door,
    prepare,
    register,
    server_maker,
)
from toolcrib.sources.scan.values import read_data, read_thing, show

if TYPE_CHECKING:
    from toolcrib.sources.scan.tracing import Tracer

_HARMLESS = frozenset(
    {
        "abc.abstractmethod",
        "builtins.classmethod",
        "builtins.property",
        "builtins.staticmethod",
        "dataclasses.dataclass",
        "functools.cache",
        "functools.lru_cache",
        "functools.total_ordering",
        "typing.final",
        "typing.no_type_check",
        "typing.overload",
        "typing.override",
        "typing.runtime_checkable",
        "typing_extensions.deprecated",
        "typing_extensions.final",
        "typing_extensions.override",
        "warnings.deprecated",
    }
)
_RUNNERS = frozenset({"asyncio.run", "anyio.run", "trio.run"})
_SEQUENCES = frozenset({"builtins.list", "builtins.tuple", "builtins.set", "builtins.frozenset"})
_TOOL_CLASSES = frozenset({"Tool", "FunctionTool"})


class Calls:
    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator

    def call(self, node: ast.Call, scope: Scope, *, awaited: bool = False) -> Thing:
        is_silent = not node.args and not node.keywords
        said = Said(node.args, node.keywords, scope if is_silent else scope.kept(), node.lineno)
        if isinstance(node.func, ast.Attribute):
            holder = self.evaluator.of(node.func.value, scope)
            if isinstance(holder, Listing | Pairs):
                return self._method(holder, node.func.attr, said)
            doubt_call(self.evaluator, node.func, scope)
            callee = self.evaluator.attribute(holder, node.func.attr)
            if (
                isinstance(holder, Super)
                and node.func.attr == "__init__"
                and not isinstance(callee, Function)
            ):
                begin(self.evaluator, holder.holder, said)
        else:
            callee = self.evaluator.of(node.func, scope)
        match callee:
            case Known():
                made = self._known(callee, said)
                is_plain = isinstance(made, Known) and callee.package != "builtins"
                return (self._wrapped(node, said) or made) if is_plain else made
            case Class():
                return self._instance(callee, said)
            case Door():
                return pass_door(self.evaluator, callee, said)
            case Marker() | Wraps():
                thing = self.evaluator.of(node.args[0], scope) if node.args else UNKNOWN
                return self.apply(callee, thing)
            case Function() if "async" not in callee.kinds or awaited:
                return self.evaluator.enter(callee, said)
            case Lister():
                return self.marked_methods(callee.holder)
        return self._wrapped(node, said) or UNKNOWN

    def _wrapped(self, node: ast.expr, said: Said) -> Function | None:
        """`unknown(function)`: most likely a wrapper that passes for the function."""
        if len(said.args) != 1 or said.keywords or not isinstance(said.args[0], ast.Name | ast.Attribute):
            return None
        thing = self.evaluator.of(said.args[0], said.scope)
        if not isinstance(thing, Function):
            return None
        wrapped = copy.copy(thing)
        words = f"{show(node)} may change it"
        wrapped.guesses = (*thing.guesses, Guess("guessed-decorator", words, said.line))
        return wrapped

    def marked_methods(self, instance: Instance) -> Listing:
        """The public methods that `@tool` marked: inherited ones first, each where it was first defined."""
        names: dict[str, Thing] = {}
        for item in reversed(ancestors(instance.cls)):
            if isinstance(item, Class):
                names.update(item.body.names)
        return Listing(
            [
                Part(self.evaluator.of_instance(instance, name), guesses=thing.guesses)
                for name, thing in names.items()
                if name[0] != "_" and isinstance(thing, Function) and thing.mark is not None
            ]
        )

    def _known(self, callee: Known, said: Said) -> Thing:
        maker = server_maker(callee)
        if maker is not None:
            server = self._server(maker, said)
            server.is_ours = maker == "toolcrib" and callee.last == "MCPServer"
            return server
        if callee.name in MARKS:
            thing = self._first_callable(said)
            return Marker(said) if thing is None else self.apply(Marker(_nothing_said(said)), thing)
        if callee.package == "mcp" and callee.last == "Server":
            low = self._server("mcp", said)
            low.is_low_level = True
            return low
        first = said.args[0] if said.args else None
        if callee.name in _RUNNERS and isinstance(first, ast.Call):
            return self.call(first, said.scope, awaited=True)
        if callee.name == "functools.wraps" and first is not None:
            return Wraps(self.evaluator.of(first, said.scope))
        if callee.name in _SEQUENCES and len(said.args) == 1 and first is not None:
            return self.evaluator.of(first, said.scope)
        if callee.name in _SEQUENCES and not said.args:
            return Listing()
        if callee.name == "builtins.dict" and not said.args and not said.keywords:
            return Pairs()
        if callee.name == "builtins.getattr" and len(said.args) >= 2:
            return self._getattr(said)
        if callee.name == "builtins.super":
            return self._super(said)
        if callee.name == "builtins.staticmethod" and first is not None:
            return self.evaluator.of(first, said.scope)
        if callee.package in ("toolcrib", "mcp", "fastmcp"):
            parts = callee.name.split(".")
            if parts[-2:-1] and parts[-2] in _TOOL_CLASSES and parts[-1].startswith("from_"):
                owner: Maker = callee.package  # type: ignore[assignment]
                return Made(owner, parts[-1], said)
        self._hand_over(callee, said)
        note_call(self.evaluator, callee.name, said)
        return Known(callee.name, is_made=True, said=said)

    def _server(self, maker: Maker, said: Said) -> Server:
        server = Server(maker, said)
        self.evaluator.tracer.servers[server] = None
        tools = said.keyword("tools")
        if tools is not None and maker != "toolcrib":
            for part in self.evaluator.items(self.evaluator.of(tools, said.scope)):
                register(self.evaluator, server, part.thing, _nothing_said(said), "add_tool", part.guesses)
        return server

    def _instance(self, cls: Class, said: Said) -> Thing:
        maker = server_maker(cls)
        if maker is not None:
            server = self._server(maker, said)
            server.guesses.append(Guess("guessed-server", f"the server is a {cls.node.name}", said.line))
            return server
        instance = Instance(cls, said)
        prepare(self.evaluator, instance)
        return instance

    def _getattr(self, said: Said) -> Thing:
        name = said.args[1]
        thing = self.evaluator.of(name, said.scope)
        if isinstance(thing, Value):
            name = thing.node
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            return self.evaluator.attribute(self.evaluator.of(said.args[0], said.scope), name.value)
        return UNKNOWN

    def _super(self, said: Said) -> Thing:
        cls = self.evaluator.look_up("__class__", said.scope)
        holder = self.evaluator.look_up("__self__", said.scope)
        return Super(cls, holder) if isinstance(cls, Class) else UNKNOWN

    def _hand_over(self, callee: Known, said: Said) -> None:
        """A server that is given to code that is not read may get tools from there."""
        if not any(word in callee.last.lower() for word in ("tool", "regist", "setup", "mount")):
            return
        for argument in said.args:
            thing = self.evaluator.of(argument, said.scope)
            if isinstance(thing, Server):
                words = f"`{show(argument)}` is handed to {callee.name}(), which may add tools to it"
                self.evaluator.tracer.findings.append(
                    Finding(
                        "guessed-more",
                        "advice",
                        words,
                        file=str(said.scope.module.file.path),
                        line=said.line,
                        hint="name the folder of that package too, to scan both",
                    )
                )

    # --- decorators ---

    def decorate(self, thing: Thing, decorator: ast.expr, scope: Scope) -> Thing:
        maker = self.evaluator.of(decorator, scope)
        match maker:
            case Door(name="tool"):
                register(self.evaluator, maker.server, thing, _bare(decorator, scope), "tool")
                return thing
            case Marker() | Wraps():
                return self.apply(maker, thing)
            case Known() if maker.name in MARKS and not maker.is_made:
                return self.apply(Marker(_bare(decorator, scope)), thing)
            case Known() if maker.name in _HARMLESS:
                return thing
            case Known() if maker.last == "tool":
                self._note_other(maker, thing, scope)
                return UNKNOWN
            case Function() if "async" not in maker.kinds:
                given = self.evaluator.enter(maker, Said([], [], scope, decorator.lineno), (thing,))
                if isinstance(given, Function | Class | Marker):
                    return given
        note_decorator(self.evaluator, thing, decorator, scope)
        return self._doubt(thing, decorator, scope)

    def _doubt(self, thing: Thing, decorator: ast.expr, scope: Scope) -> Thing:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        words = f"@{show(called)} may change it"
        guess = Guess("guessed-decorator", words, decorator.lineno)
        if isinstance(thing, Function | Class):
            thing.guesses = (*thing.guesses, guess)
            if isinstance(called, ast.Name) and called.id == "tool":  # nobody says where it is from
                said = _bare(decorator, scope)
                if isinstance(decorator, ast.Call):
                    said = Said(decorator.args, decorator.keywords, scope, decorator.lineno)
                thing.mark = said
        return thing

    def _note_other(self, maker: Known, thing: Thing, scope: Scope) -> None:
        if not isinstance(thing, Function):
            return
        words = f"'{thing.node.name}' is decorated with {maker.name}, which makes no tool for MCP"
        place = str(scope.module.file.path)
        self.evaluator.tracer.findings.append(
            Finding(
                "other-decorator",
                "advice",
                words,
                tool=thing.node.name,
                file=place,
                line=thing.line,
                hint="mark it with toolcrib.tool to offer it",
            )
        )

    def apply(self, maker: Marker | Wraps, thing: Thing) -> Thing:
        """What a decorator that was made by a call does to a thing."""
        if isinstance(maker, Wraps):
            return maker.thing if isinstance(maker.thing, Function) else thing
        if maker.server is not None:
            register(self.evaluator, maker.server, thing, maker.said, "tool")
        elif isinstance(thing, Function | Class):
            thing.mark = maker.said
        return thing

    def _first_callable(self, said: Said) -> Function | Class | None:
        thing = self.evaluator.of(said.args[0], said.scope) if said.args else None
        return thing if isinstance(thing, Function | Class) else None

    # --- lists ---

    def _method(self, holder: Listing | Pairs, name: str, said: Said) -> Thing:
        of, guesses = self.evaluator.of, self.evaluator.tracer.guesses
        things = [of(argument, said.scope) for argument in said.args[:2]]
        match name, things:
            case "append" | "add", [thing, *_]:
                holder.parts.append(Part(thing, scope=said.scope, guesses=guesses))
            case "extend" | "update", [thing, *_]:
                holder.parts.append(Part(thing, is_many=True, scope=said.scope, guesses=guesses))
            case "insert", [_, thing]:
                holder.parts.append(Part(thing, scope=said.scope, guesses=guesses))
            case ("copy", []) | ("values", []) if isinstance(holder, Listing) or name == "copy":
                return holder
            case (("items" | "values" | "keys"), []) if isinstance(holder, Pairs):
                return self._view(holder, name)
            case (("remove" | "pop" | "clear"), _):
                holder.parts.append(Part(UNKNOWN, is_many=True, scope=said.scope, guesses=guesses))
        return UNKNOWN

    def _view(self, holder: Pairs, name: str) -> Listing:
        made = Listing()
        for part in self.evaluator.pairs(holder):
            if part.key is None or part.scope is None:
                made.parts.append(part)
                continue
            key: Thing = Value(part.key, part.scope)
            both = Listing([Part(key, scope=part.scope), Part(part.thing, scope=part.scope)])
            thing = {"items": both, "values": part.thing, "keys": key}[name]
            made.parts.append(Part(thing, scope=part.scope, guesses=part.guesses))
        return made


def _nothing_said(said: Said) -> Said:
    return Said([], [], said.scope, said.line, is_called=False)


def _bare(decorator: ast.expr, scope: Scope) -> Said:
    return Said([], [], scope, decorator.lineno, is_called=False)


MAX_DEPTH = 24
"""How deep calls of functions are followed."""
MAX_ITEMS = 10_000
"""How much of a list is looked at."""
OWN_PACKAGES = frozenset({"toolcrib", "mcp", "mcp_types", "fastmcp"})
_NAMES = (ast.Name, ast.Attribute)
_NO_KINDS: frozenset[str] = frozenset()
_ASYNC = frozenset({"async"})
_UNKNOWN_DOORS = frozenset({"tool", "add_tool"})
_SAME = frozenset({"registry", "local_provider"})
_KINDS = {
    "builtins.staticmethod": "static",
    "builtins.classmethod": "class",
    "builtins.property": "property",
    "functools.cached_property": "property",
    "abc.abstractmethod": "abstract",
}


class Evaluator:
    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.calls = Calls(self)
        self._active: list[Definition] = []
        self._unknown_servers: dict[str, Server] = {}

    def of(self, node: ast.expr, scope: Scope) -> Thing:
        evaluate = _EXPRESSIONS.get(type(node))
        return Value(node, scope) if evaluate is None else evaluate(self, node, scope)

    def decorate(self, thing: Thing, decorator: ast.expr, scope: Scope) -> Thing:
        return self.calls.decorate(thing, decorator, scope)

    # --- names ---

    def _name(self, node: ast.Name, scope: Scope) -> Thing:
        return self.look_up(node.id, scope)

    def look_up(self, name: str, scope: Scope) -> Thing:
        place: Scope | None = scope
        while place is not None:
            if name in place.names and (place.cls is None or place is scope):
                thing = place.names[name]
                if isinstance(thing, Later):
                    thing = place.names[name] = resolve(self.tracer, thing)
                return thing
            place = place.outer
        for star in scope.module.scope.stars:
            if star.partition(".")[0] in OWN_PACKAGES:
                return Known(f"{star}.{name}")
        return Known(f"builtins.{name}") if hasattr(builtins, name) else UNKNOWN

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Thing:
        return self.attribute(self.of(node.value, scope), node.attr)

    def attribute(self, thing: Thing, name: str) -> Thing:
        match thing:
            case Module():
                return self._of_module(thing, name)
            case Server():
                return thing if name in _SAME else Door(thing, name)
            case Instance():
                return self.of_instance(thing, name)
            case Class():
                member = find_member(thing, name)
                return UNKNOWN if member is None else member.thing
            case Super():
                return self._of_super(thing, name)
            case Known() if thing.is_module or (thing.package in OWN_PACKAGES and not thing.is_made):
                return Known(f"{thing.name}.{name}")
            case Known() if name in _UNKNOWN_DOORS:
                return Door(self._unknown_servers.setdefault(thing.name, Server("unknown")), name)
            case Known() if not thing.is_made:
                return Known(f"{thing.name}.{name}")
            case Unknown() | Value() | Known() if name in _UNKNOWN_DOORS:
                return Door(Server("unknown"), name)
        return UNKNOWN

    def _of_module(self, module: Module, name: str) -> Thing:
        names = module.scope.names
        if name in names:
            return self.look_up(name, module.scope)
        below = find_module(self.tracer, f"{module.file.name}.{name}", module.file.base)
        return UNKNOWN if below is None else below

    def of_instance(self, instance: Instance, name: str) -> Thing:
        """An attribute of an object: what its constructor set, or what its class has, bound to it."""
        prepare(self, instance)
        if name in instance.attributes:
            return instance.attributes[name]
        if name in instance.methods:
            return instance.methods[name]
        member = find_member(instance.cls, name)
        if member is None:
            return inherited(instance.cls, Super(instance.cls, instance), name)
        if not isinstance(member.thing, Function):
            return member.thing
        if "property" in member.thing.kinds:
            return self.enter(self.bound(member.thing, instance), Said([], [], member.thing.scope, 0))
        made = self.bound(member.thing, instance)
        instance.methods[name] = made
        return made

    def bound(self, function: Function, holder: Thing) -> Function:
        """A method as it is when it is taken from an object."""
        if "static" in function.kinds:
            return function
        made = copy.copy(function)
        made.holder, made.written = holder, function.source
        return made

    def _of_super(self, thing: Super, name: str) -> Thing:
        cls = thing.holder.cls if isinstance(thing.holder, Instance) else thing.cls
        member = find_member(cls, name, after=thing.cls)
        if member is not None and isinstance(member.thing, Function):
            return self.bound(member.thing, thing.holder)
        if member is not None:
            return member.thing
        return inherited(cls, thing, name)

    def kinds_of(self, node: Definition, scope: Scope) -> frozenset[str]:
        kinds = _ASYNC if isinstance(node, ast.AsyncFunctionDef) else _NO_KINDS
        for decorator in node.decorator_list:
            if isinstance(decorator, _NAMES):
                thing = self.of(decorator, scope)
                if isinstance(thing, Known) and thing.name in _KINDS:
                    kinds |= {_KINDS[thing.name]}
                elif isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "deleter"):
                    kinds |= {"property"}
        return kinds

    # --- calls ---

    def _call(self, node: ast.Call, scope: Scope) -> Thing:
        return self.calls.call(node, scope)

    def _await(self, node: ast.Await, scope: Scope) -> Thing:
        if isinstance(node.value, ast.Call):
            return self.calls.call(node.value, scope, awaited=True)
        return self.of(node.value, scope)

    def enter(self, function: Function, said: Said | None, given: tuple[Thing, ...] = ()) -> Thing:
        """Follow a function with what it is called with; without, as if somebody called it some day."""
        node = function.node
        if node in self._active or len(self._active) >= MAX_DEPTH:
            return UNKNOWN
        function.source.is_called = True
        place = function.scope.outer if function.scope.cls is not None else function.scope
        scope = Scope(
            function.scope.module,
            place,
            qualname=f"{function.qualname}.<locals>",
            depth=len(self.tracer.guesses),
        )
        self._active.append(node)
        try:
            bind_parameters(self, function, said, given, scope)
            self.tracer.run(node.body, scope)
        finally:
            self._active.pop()
        return _settle(scope)

    def data(self, node: ast.expr, scope: Scope) -> Any:
        """The value of an expression. Raises Unresolved where it cannot be told without running it."""
        return read_data(self, node, scope)

    def data_of(self, thing: Thing) -> Any:
        """The value of a thing that is data."""
        return read_thing(self, thing)

    # --- lists ---

    def _display(self, node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Thing:
        return Listing(node=node, scope=scope)

    def _pairs(self, node: ast.Dict, scope: Scope) -> Thing:
        return Pairs(node=node, scope=scope)

    def _both(self, node: ast.BinOp, scope: Scope) -> Thing:
        if not isinstance(node.op, ast.Add | ast.BitOr):
            return Value(node, scope)
        left = self.of(node.left, scope)
        if not isinstance(left, Listing | Pairs):
            return Value(node, scope)
        right = self.of(node.right, scope)
        return type(left)([Part(left, is_many=True, scope=scope), Part(right, is_many=True, scope=scope)])

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, scope: Scope) -> Thing:
        first, *more = node.generators
        rounds = None if more or first.ifs or first.is_async else self.rounds(first.iter, scope, MAX_ITEMS)
        if rounds is None:
            return UNKNOWN
        made = Listing()
        for thing in rounds:
            inner = Scope(scope.module, scope, qualname=scope.qualname)
            self.tracer.store(first.target, thing, inner)
            made.parts.append(Part(self.of(node.elt, inner), scope=inner))
        return made

    def items(self, thing: Thing, limit: int = MAX_ITEMS) -> Iterator[Part]:
        """The entries of a list one by one; something in it that cannot be followed is an entry of many."""
        return self._items(thing, _Walk(limit))

    def _items(self, thing: Thing, walk: _Walk) -> Iterator[Part]:
        if not isinstance(thing, Listing) or not walk.enter(thing):
            yield Part(thing, is_many=True)
            return
        scope = thing.scope
        for node in thing.node.elts if thing.node is not None and scope is not None else ():
            if not walk.step():
                yield Part(UNKNOWN, is_many=True)
                return
            if isinstance(node, ast.Starred):
                yield from self._items(self.of(node.value, scope), walk)  # type: ignore[arg-type]
            else:
                yield Part(self.of(node, scope), scope=scope)  # type: ignore[arg-type]
        for part in list(thing.parts):
            if not walk.step():
                yield Part(UNKNOWN, is_many=True)
                return
            if not part.is_many:
                yield part
                continue
            for inner in self._items(part.thing, walk):
                guesses = (*part.guesses, *inner.guesses)
                yield Part(inner.thing, inner.key, inner.is_many, inner.scope, guesses)
        walk.leave(thing)

    def pairs(self, thing: Thing) -> Iterator[Part]:
        """The entries of a dict one by one; what cannot be followed has no key and is many."""
        return self._pairs_in(thing, _Walk(MAX_ITEMS))

    def _pairs_in(self, thing: Thing, walk: _Walk) -> Iterator[Part]:
        if not isinstance(thing, Pairs) or not walk.enter(thing):
            yield Part(thing, is_many=True)
            return
        scope, node = thing.scope, thing.node
        if node is not None and scope is not None:
            for key, value in zip(node.keys, node.values, strict=True):
                if not walk.step():
                    yield Part(UNKNOWN, is_many=True)
                    return
                if key is None:
                    yield from self._pairs_in(self.of(value, scope), walk)
                else:
                    yield Part(self.of(value, scope), key, scope=scope)
        for part in list(thing.parts):
            if not walk.step():
                yield Part(UNKNOWN, is_many=True)
                return
            if part.is_many:
                yield from self._pairs_in(part.thing, walk)
            else:
                yield part
        walk.leave(thing)

    def rounds(self, node: ast.expr, scope: Scope, limit: int) -> list[Thing] | None:
        """What a loop goes over, where all of it is written down."""
        thing = self.of(node, scope)
        if not isinstance(thing, Listing):
            return None
        parts = list(self.items(thing, limit))
        return None if any(part.is_many for part in parts) else [part.thing for part in parts]


class _Walk:
    """How much of a list was looked at, and which lists one is inside of: a list may hold itself."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self._inside: set[int] = set()

    def enter(self, thing: Thing) -> bool:
        if id(thing) in self._inside or len(self._inside) > 4 * MAX_DEPTH:
            return False
        self._inside.add(id(thing))
        return self.step()

    def step(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def leave(self, thing: Thing) -> None:
        self._inside.discard(id(thing))


def _settle(scope: Scope) -> Thing:
    """What a function gives back: what it returns for certain; a list is a guess where it has other ends."""
    certain = [thing for thing, guesses in scope.returned if not guesses]
    doubts = [guesses for _, guesses in scope.returned if guesses]
    if not scope.returned:
        return UNKNOWN
    thing = certain[0] if certain else scope.returned[0][0]
    if not doubts or all(other is thing for other, _ in scope.returned):
        return thing
    if isinstance(thing, Listing):
        ends = {id(other): other for other, _ in scope.returned if isinstance(other, Listing)}
        return Listing([Part(other, is_many=True, guesses=doubts[0]) for other in ends.values()])
    return UNKNOWN


def _nothing(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Thing:  # noqa: ARG001
    return UNKNOWN


_EXPRESSIONS: dict[type[ast.expr], Callable[[Evaluator, Any, Scope], Thing]] = {
    ast.Name: Evaluator._name,
    ast.Attribute: Evaluator._attribute,
    ast.Call: Evaluator._call,
    ast.Await: Evaluator._await,
    ast.List: Evaluator._display,
    ast.Tuple: Evaluator._display,
    ast.Set: Evaluator._display,
    ast.Dict: Evaluator._pairs,
    ast.BinOp: Evaluator._both,
    ast.ListComp: Evaluator._comprehension,
    ast.GeneratorExp: Evaluator._comprehension,
    ast.SetComp: Evaluator._comprehension,
    ast.IfExp: _nothing,
}
