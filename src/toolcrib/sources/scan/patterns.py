"""The patterns that register tools: decorators, calls of servers, marks; and code that is only announced.

Each pattern ends in a `Registration` on a server, or in a mark on a function. Guards and calls that are
uncertain travel along as guesses; code that cannot be followed is a finding.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from typing import Any

from toolcrib.errors import Finding, Level
from toolcrib.sources.scan.resolve import MARKS, Resolver
from toolcrib.sources.scan.source_file import (
    CallAt,
    Definition,
    Guess,
    Scope,
    SourceFile,
    Spot,
    first_line,
    show,
    words_in,
)
from toolcrib.sources.scan.things import (
    ROOT,
    UNKNOWN,
    Arguments,
    Data,
    Frame,
    Function,
    Known,
    Marker,
    Method,
    Server,
    Thing,
    Written,
    call_at,
)

MAX_REGISTRATIONS = 1_000
"""Tools that are taken from one server; one with more is generated."""
_HARMLESS = words_in(
    """
    abc.abstractmethod builtins.classmethod builtins.property builtins.staticmethod dataclasses.dataclass
    functools.cache functools.cached_property functools.lru_cache functools.total_ordering functools.wraps
    typing.final typing.no_type_check typing.overload typing.override typing.runtime_checkable
    typing_extensions.deprecated typing_extensions.final typing_extensions.override warnings.deprecated
    """
)
_ONE = frozenset({"add_tool", "register_tool", "replace"})
_MANY = frozenset({"add_all", "register_all_tools"})
_MOUNTS = frozenset({"mount", "import_server"})
_CHANGES = words_in("add_provider add_tool_transformation add_transform disable enable remove remove_tool")
_FIXED = frozenset({"add_resource", "add_skills"})
_OFTEN_ON_PARAMETERS = frozenset({"add", "mount", "import_server", "register_tool"}) | _MANY | _FIXED
FEATURES = _FIXED | {"prompt", "resource"}
_METHODS = _ONE | _MANY | _MOUNTS | _CHANGES | _FIXED | {"add", "prompt", "tool"}
_REGISTERING = re.compile(r"tool|regist|setup|mount|publish|^(?:setattr|delattr)$", re.IGNORECASE)


@dataclass(eq=False, slots=True)
class Registration:
    """One thing that is put on a server."""

    thing: Thing
    call: Arguments
    method: str
    guesses: tuple[Guess, ...]


@dataclass(eq=False, slots=True)
class Mount:
    """A server inside another, and the prefix that its tools get."""

    server: Server
    prefix: str
    guesses: tuple[Guess, ...]


def placed(finding: Finding, file: SourceFile, line: int | None) -> Finding:
    """Return a finding with a place, unless it has one."""
    return finding if finding.file is not None else replace(finding, file=str(file.path), line=line)


class Patterns:
    """Finds the registrations in surveyed files. `marks` are those of `@tool`, `options` those of fastmcp's,
    `doubts` the guesses about a function or class wherever it is used; all by the id of the node."""

    def __init__(self, resolver: Resolver, findings: list[Finding]) -> None:
        self.resolver = resolver
        self.findings = findings
        self.marks: dict[int, Arguments] = {}
        self.options: dict[int, Arguments] = {}
        self.marked: dict[SourceFile, list[Definition]] = {}
        self.doubts: dict[int, tuple[Guess, ...]] = {}

    def find(self, found: SourceFile) -> None:
        """Find what one file registers."""
        steps: list[Any] = [(self._decorators, *item) for item in found.decorated]
        steps += [(self._call, at.node, at) for at in found.calls]
        steps += [(self._stored, target, spot) for target, _, spot in found.stored]
        for take, node, *rest in steps:
            try:
                take(node, *rest)
            except RecursionError:
                text = f"The code here in {found.path.name} is too deeply nested to be read"
                hint = "there may be more tools in it; split it"
                self.report("guessed-end", "warning", text, found.scope, node.lineno, hint)

    def report(self, code: str, level: Level, text: str, scope: Scope, line: int | None, hint: str) -> None:
        self.findings.append(Finding(code, level, text, None, None, str(scope.file.path), line, hint))

    # --- decorators ----------------------------------------------------------------------------------

    def _decorators(self, node: Definition, spot: Spot) -> None:
        for decorator in reversed(node.decorator_list):
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = str(getattr(called, "attr", None) or getattr(called, "id", ""))
            is_often = spot.function is not None and ("tool" in name.lower() or name in FEATURES)
            for frame in self.resolver.frames(spot) if is_often else [ROOT]:
                call = call_at(decorator, spot, frame)
                if isinstance(called, ast.Attribute) and name == "list_tools":
                    self._handler(node, called, call)
                else:
                    self._decorate(node, decorator, called, call)

    def _decorate(self, node: Definition, decorator: ast.expr, called: ast.expr, call: Arguments) -> None:
        scope, resolver = call.scope, self.resolver
        if not isinstance(called, ast.Name | ast.Attribute):
            self._doubt(node, called)
            text = f"Whether '{node.name}' is a tool cannot be told without running @{show(decorator)}"
            hint = "decorate it with @tool itself"
            self.report("unresolved-tool", "warning", text, scope, decorator.lineno, hint)
            return
        thing = resolver.resolve(called, scope, call.frame)
        if isinstance(thing, Function) and call.is_called:
            made = resolver.resolve(decorator, scope, call.frame)
            thing = made if isinstance(made, Marker) else thing
        match thing:
            case Method(name="tool" | "resource" | "prompt"):
                self._register(thing.server, self._defined(node, scope), call, thing.name)
            case Marker():
                self._apply(thing, self._defined(node, scope), call)
            case Known() if thing.name in MARKS:
                self._mark(node, call, call.file)
            case Known() if thing.name in _HARMLESS or thing.last in ("setter", "deleter"):
                pass
            case Known(package="fastmcp") if thing.last == "tool" and thing.call is None:
                self.options[id(node)] = call
                somewhere = resolver.unknown_server(called, scope, "fastmcp")
                self._register(somewhere, self._defined(node, scope), call, "tool")
            case Known() if thing.last == "tool" and thing.call is None:
                self._note_other(node, thing, call)
            case Function() if self._keeps(thing):
                pass
            case _:
                self._doubt(node, called)

    def _defined(self, node: Definition, scope: Scope) -> Thing:
        is_class = isinstance(node, ast.ClassDef)
        return (self.resolver.cls if is_class else self.resolver.function)(node, scope)  # type: ignore[arg-type]

    def _doubt(self, node: ast.AST, called: ast.expr) -> None:
        self._guess(node, Guess("guessed-decorator", f"@{show(called)} may change it"))

    def _guess(self, node: ast.AST, guess: Guess) -> None:
        self.doubts[id(node)] = (*self.doubts.get(id(node), ()), guess)

    def _mark(self, node: Definition, call: Arguments, file: SourceFile) -> None:
        if id(node) not in self.marks:
            self.marks[id(node)] = call
            self.marked.setdefault(file, []).append(node)

    def _apply(self, marker: Marker, thing: Thing, call: Arguments) -> None:
        """Do what the decorator that a call returned does to a function."""
        if marker.server is not None:
            self._register(marker.server, thing, marker.call, "tool", call)
        elif isinstance(thing, Written):
            guesses = (*call.frame.guesses, *thing.file.spots[id(thing.node)].guesses)
            self._mark(thing.node, replace(marker.call, guesses=guesses), thing.file)

    def _keeps(self, decorator: Function) -> bool:
        """Return whether a decorator of the scanned files returns the function, or one that `wraps` it."""
        names = {item.arg for item in (*decorator.node.args.posonlyargs, *decorator.node.args.args)}
        returns = decorator.file.returns.get(id(decorator.node), [])
        if returns and all(getattr(value, "id", "") in names for value, _ in returns):
            return True
        made = [
            self.resolver.resolve(value.func, at.scope)
            for value, at in returns
            if isinstance(value, ast.Call)
        ]
        if any(isinstance(each, Function) and each is not decorator and self._keeps(each) for each in made):
            return True
        inner = ast.walk(decorator.node)
        return any("wraps" in (getattr(item, "id", ""), getattr(item, "attr", "")) for item in inner)

    def _note_other(self, node: Definition, maker: Known, call: Arguments) -> None:
        self._guess(node, Guess("guessed-decorator", f"{maker.name} makes something else of it"))
        if not isinstance(node, ast.ClassDef):
            text = f"'{node.name}' is decorated with {maker.name}, which makes no tool for MCP"
            hint = "mark it with toolcrib.tool to offer it"
            path, line = str(call.file.path), first_line(node)
            found = Finding("other-decorator", "advice", text, node.name, None, path, line, hint)
            self.findings.append(found)

    def _handler(self, node: Definition, called: ast.Attribute, call: Arguments) -> None:
        """`@server.list_tools()` of a low-level server."""
        base = self.resolver.resolve(called.value, call.scope, call.frame)
        server = base if isinstance(base, Server) else self.resolver.unknown_server(called.value, call.scope)
        thing = self._defined(node, call.scope)
        if not isinstance(thing, Function) or server.library not in ("low-level", "unknown"):
            return  # a method of that name, and no decorator
        server.library = "low-level"
        if thing not in server.listers:
            server.listers.append(thing)
            server.guesses += [guess for guess in call.guesses if guess not in server.guesses]

    # --- calls ---------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, at: CallAt) -> None:
        function = node.func
        frames: list[Frame] | None = None
        if any(item.arg == "tools" for item in node.keywords):
            pass  # a server may be given its tools when it is made
        elif isinstance(function, ast.Attribute):
            if getattr(function.value, "attr", "") in ("__annotations__", "__dict__"):
                self._stored(function.value, at.spot)
            if function.attr not in _METHODS:
                if not _REGISTERING.search(function.attr):
                    return
                frames = [ROOT]  # a server may be handed over
            elif function.attr not in ("tool", "add_tool") and not self._may_be_server(function, at):
                return
        elif isinstance(function, ast.Name):
            if at.spot.function is not None and not _REGISTERING.search(function.id):
                return
            callee = self.resolver.resolve(function, at.spot.scope)
            if not isinstance(callee, Method | Marker) and getattr(callee, "name", "") not in MARKS:
                frames = [ROOT]
        elif not isinstance(function, ast.Call) or "tool" not in show(function.func).lower():
            return
        for frame in self.resolver.frames(at.spot) if frames is None else frames:
            self._called(at, frame)

    def _may_be_server(self, function: ast.Attribute, at: CallAt) -> bool:
        """Return whether a method such as `add` or `remove`, which many objects have, may be a server's."""
        if not isinstance(function.value, ast.Name | ast.Attribute) or len(at.node.args) > 2:
            return False
        base = self.resolver.resolve(function.value, at.spot.scope)
        is_parameter = isinstance(base, Data) and isinstance(base.node, ast.Name)
        return isinstance(base, Server) or (is_parameter and function.attr in _OFTEN_ON_PARAMETERS)

    def _called(self, at: CallAt, frame: Frame) -> None:
        node, call = at.node, call_at(at.node, at.spot, frame)
        bare = replace(call, args=(), keywords=(), is_called=False)
        callee = self.resolver.resolve(node.func, call.scope, frame)
        tools = call.keyword("tools")
        if tools is not None and self.resolver.library_of(callee) in ("mcp", "fastmcp"):
            server: Any = self.resolver.resolve(node, call.scope, frame)
            self._register_items(server, tools, bare, "add_tool")
        match callee:
            case Method():
                self._method(callee, call)
            case Marker():
                self._apply(callee, self.resolver.first(call), call)
            case Known() if callee.name in MARKS:
                self._apply(Marker(bare), self.resolver.first(call), call)
            case Known(name="builtins.setattr" | "builtins.delattr") if len(node.args) >= 2:
                name = str(getattr(node.args[1], "value", "__dict__"))
                self._doubt_change(self.resolver.first(call), name)
            case Written() if not callee.file.is_followed:
                given = (*call.args, *(item.value for item in call.keywords))
                if any(
                    isinstance(self.resolver.resolve(each, call.scope, call.frame), Server) for each in given
                ):
                    self.resolver.add(callee.file)

    def _method(self, method: Method, call: Arguments) -> None:
        """Do what calling a method of a server does."""
        server, name, resolver = method.server, method.name, self.resolver
        first = resolver.first(call)
        if name in _FIXED and server.library == "toolcrib":
            self._register(server, UNKNOWN, call, name)
        elif name in ("tool", "prompt"):
            if isinstance(first, Written) or (call.args and isinstance(call.args[0], ast.Lambda)):
                self._register(server, first, call.after_first(), name)
        elif name in _ONE:
            node = call.args[0] if call.args else next((item.value for item in call.keywords), None)
            thing = resolver.resolve(node, call.scope, call.frame) if node is not None else UNKNOWN
            self._register(server, thing, call.after_first(), name)
        elif name == "add" and server.library == "toolcrib":
            for node in call.args:
                self._add(server, node, replace(call, args=()))
        elif name in _MANY and call.args:
            self._register_items(server, call.args[0], replace(call, args=()), name)
        elif name in _MOUNTS:
            self._mount(server, call)
        elif name in _CHANGES:
            server.guesses.append(Guess("guessed-server", f"the server's {name}() may change it"))

    def _add(self, server: Server, node: ast.expr, call: Arguments) -> None:
        """`server.add(...)` takes functions, objects, and lists of either."""
        value = node.value if isinstance(node, ast.Starred) else node
        thing = self.resolver.resolve(value, call.scope, call.frame)
        written = thing.node if isinstance(thing, Data) else None
        if isinstance(node, ast.Starred) or isinstance(written, ast.List | ast.Tuple | ast.Set | ast.BinOp):
            self._register_items(server, value, call, "add")
        else:
            self._register(server, thing, call, "add")

    def _register_items(self, server: Server, node: ast.expr, call: Arguments, method: str) -> None:
        for item in self.resolver.items(node, call.scope, call.frame):
            guesses = (*call.guesses, *item.guesses)
            self._register(server, self.resolver.of(item), replace(call, guesses=guesses), method)

    def _register(
        self, server: Server, thing: Thing, call: Arguments, method: str, at: Arguments | None = None
    ) -> None:
        """Register a thing. `at` is the call that does it, if not the one with the options."""
        at = at or call
        found = server.features if method in FEATURES else server.registrations
        if len(found) >= MAX_REGISTRATIONS:
            guess = Guess("guessed-more", f"only the first {MAX_REGISTRATIONS} tools of the server are read")
            server.guesses += [guess] if guess not in server.guesses else []
            return
        doubts = thing.guesses if isinstance(thing, Function) else ()
        guesses = tuple(dict.fromkeys((*at.guesses, *doubts)))
        found.append(Registration(thing, call, method, guesses))

    def _mount(self, server: Server, call: Arguments) -> None:
        nodes = [*call.args, *filter(None, [call.keyword("server")])]
        things = [self.resolver.resolve(node, call.scope, call.frame) for node in nodes]
        inner = next((thing for thing in things if isinstance(thing, Server)), None)
        if inner is None or inner is server:
            server.guesses.append(Guess("guessed-more", "another server is mounted in it"))
            return
        texts = [item for item in call.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        prefix = call.keyword("namespace") or call.keyword("prefix") or next(iter(texts), None)
        guesses = call.guesses
        if prefix is not None and not isinstance(prefix, ast.Constant):
            text = "the prefix of the server it is mounted in is not known"
            guesses = (*guesses, Guess("guessed-name", text))
        server.mounts.append(Mount(inner, str(getattr(prefix, "value", None) or ""), guesses))

    # --- changes of functions ------------------------------------------------------------------------

    def _stored(self, target: ast.expr, spot: Spot) -> None:
        """`function.__doc__ = ...`, `function.__annotations__[...] = ...` and calls of its methods."""
        part = target.value if isinstance(target, ast.Subscript) else target
        if isinstance(part, ast.Attribute) and part.attr.startswith("__"):
            self._doubt_change(self.resolver.resolve(part.value, spot.scope), part.attr)

    def _doubt_change(self, thing: Thing, name: str) -> None:
        if isinstance(thing, Written) and name.startswith("__"):
            code = "guessed-name" if name == "__name__" else "guessed-change"
            self._guess(thing.node, Guess(code, f"its {name} is changed after it is made"))
