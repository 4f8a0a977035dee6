"""Resolve expressions: names, attributes, lists and calls."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from toolcrib.sources.scan.calls import Calls
from toolcrib.sources.scan.data import read_data, read_thing
from toolcrib.sources.scan.following import find_module, resolve
from toolcrib.sources.scan.lineage import find_member
from toolcrib.sources.scan.preparing import bind_parameters, inherited, prepare
from toolcrib.sources.scan.things import (
    UNKNOWN,
    Class,
    Definition,
    Door,
    Function,
    Instance,
    Known,
    Later,
    Listing,
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
)

if TYPE_CHECKING:
    from toolcrib.sources.scan.tracing import Tracer

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
