"""Evaluate calls: creating a server, registering or marking a tool, creating an object, calling a
function.
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

from toolcrib.errors import Finding
from toolcrib.sources.scan.changes import MARKS, doubt_call, note_call, note_decorator
from toolcrib.sources.scan.doors import pass_door, register, server_maker
from toolcrib.sources.scan.lineage import ancestors
from toolcrib.sources.scan.preparing import begin, prepare
from toolcrib.sources.scan.remarks import show
from toolcrib.sources.scan.things import (
    UNKNOWN,
    Class,
    Door,
    Function,
    Guess,
    Instance,
    Known,
    Lister,
    Listing,
    Made,
    Maker,
    Marker,
    Pairs,
    Part,
    Said,
    Scope,
    Server,
    Super,
    Thing,
    Value,
    Wraps,
)

if TYPE_CHECKING:
    from toolcrib.sources.scan.expressions import Evaluator

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
