"""Tell what expressions stand for: servers, functions, classes and their objects, lists.

Names are followed to what they are bound to, attributes of an object to what its class assigns or has, and a
call to the object that it makes or to the one thing that a function returns. Arguments of calls are not
followed into functions: a parameter stands for itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from toolcrib.sources.scan.files import Library
from toolcrib.sources.scan.names import BoundName, Site
from toolcrib.sources.scan.source_file import (
    FUNCTIONS,
    Binding,
    FunctionNode,
    Scope,
    SourceFile,
    show,
    words_in,
)
from toolcrib.sources.scan.stubs import Stubs
from toolcrib.sources.scan.things import (
    UNKNOWN,
    Arguments,
    Class,
    Data,
    Function,
    Instance,
    Known,
    LibraryName,
    Module,
    Server,
    Thing,
    Written,
)
from toolcrib.sources.scan.values import Unresolved

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
        self.stubs = Stubs(library)
        self.names = self.stubs.names
        self._things: dict[tuple[Any, ...], Any] = {}
        self._active: set[Any] = set()

    def full_name(self, node: ast.expr, scope: Scope) -> str:
        """Return the dotted name behind a name or attribute, "" where there is none."""
        return self.names.qualify(node, Site(scope))

    @contextmanager
    def _following(self, key: Any) -> Iterator[bool]:
        """Yield whether something is followed already, so that following it again would not end."""
        is_active = key in self._active or len(self._active) > MAX_DEPTH
        self._active.add(key)
        try:
            yield is_active
        finally:
            if not is_active:
                self._active.discard(key)

    # --- expressions ---------------------------------------------------------------------------------

    def resolve(self, node: ast.expr, scope: Scope) -> Thing:
        """Return what an expression stands for."""
        if not isinstance(node, ast.Await | ast.Name | ast.Attribute | ast.Call):
            return Data(node, scope)
        with self._following((id(node), "node")) as is_active:
            if is_active:
                return UNKNOWN
            if isinstance(node, ast.Await):
                return self.resolve(node.value, scope)
            if isinstance(node, ast.Name):
                return self._name(node, scope)
            return (
                self._attribute(node, scope) if isinstance(node, ast.Attribute) else self._call(node, scope)
            )

    def first(self, call: Arguments) -> Thing:
        """Return what the first argument of a call stands for."""
        return self.resolve(call.args[0], call.scope) if call.args else UNKNOWN

    def _name(self, node: ast.Name | ast.Attribute, scope: Scope) -> Thing:
        meaning = self.names.find(node, Site(scope)).meaning
        if isinstance(meaning, BoundName):
            return self.bound(meaning.binding, meaning.scope)
        if meaning is None and isinstance(node, ast.Name):
            for star in scope.file.scope.stars:
                if star.module.partition(".")[0] in OWN_PACKAGES:
                    return Known(f"{star.module}.{node.id}")
        return meaning or UNKNOWN

    def bound(self, binding: Binding, scope: Scope) -> Thing:
        """Return what a binding binds its name to."""
        node = binding.node
        if isinstance(node, ast.ClassDef):
            return self.cls(node, scope)
        if binding.kind == "function" and isinstance(node, FUNCTIONS):
            return self.function(node, scope)
        if binding.kind == "value" and binding.value is not None:
            return self.resolve(binding.value, scope)
        if isinstance(node, FUNCTIONS) and scope.node is node:
            return self._parameter(binding, node, scope)
        return UNKNOWN

    def cls(self, node: ast.ClassDef, scope: Scope) -> Class:
        found: Class = self._things.setdefault(("class", id(node)), Class(node, scope))
        return found

    def function(self, node: FunctionNode, scope: Scope, owner: Class | None = None) -> Function:
        found: Function = self._things.setdefault((id(node), id(owner)), Function(node, scope, owner))
        return found

    def _parameter(self, binding: Binding, node: FunctionNode, scope: Scope) -> Thing:
        """Return what a parameter stands for: the object of its class, or a server by its annotation."""
        cls = self.class_around(scope)
        if cls is not None and first_parameter(node) == binding.name:
            return cls if "class" in self.kinds(node, scope.parent or scope) else self.instance(cls)
        places = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        hint = next((each.annotation for each in places if each.arg == binding.name), None)
        if isinstance(hint, ast.Constant) and str(hint.value).isidentifier():
            hint = _at(ast.Name(str(hint.value), ast.Load()), hint.lineno)
        if isinstance(hint, ast.Name | ast.Attribute):
            library = self.library_of(self.resolve(hint, scope.parent or scope))
            if library is not None:
                return self.servers.setdefault(id(binding), Server(library, binding.name, scope.file))
        return Data(_at(ast.Name(binding.name, ast.Load()), node.lineno), scope)

    def class_around(self, scope: Scope | None) -> Class | None:
        """Return the class of the method that a scope is."""
        outer = None if scope is None else scope.parent
        if (
            scope is None
            or outer is None
            or outer.kind != "class"
            or "static" in self.kinds(scope.node, outer)
        ):
            return None
        return self.cls(outer.node, outer.parent or outer)

    # --- servers and objects -------------------------------------------------------------------------

    def instance(self, cls: Class, call: Arguments | None = None) -> Thing:
        """Return the object that calling a class makes: a server, for a subclass of one."""
        library = self.library_of(cls)
        if library is None:
            made: Instance = self._things.setdefault(("object", id(cls.node)), Instance(cls))
            return made
        label = cls.node.name if call is None else _label(call, cls.node.name)
        return self.servers.setdefault(id(cls.node), Server(library, label, cls.file, call, cls))

    def server(self, node: ast.expr, scope: Scope) -> Server:
        """Return the server that an expression stands for, or may: the same for the same name."""
        thing = self.resolve(node, scope)
        if isinstance(thing, Server):
            return thing
        meaning = self.names.find(node, Site(scope)).meaning
        key: Any = (id(scope.file), id(scope.function), show(node))
        if isinstance(meaning, BoundName):
            key = id(meaning.binding)
        elif isinstance(thing, Known):
            key = thing.name
        elif isinstance(node, ast.Attribute) and isinstance(
            owner := self.resolve(node.value, scope), Instance
        ):
            key = (id(owner.cls.node), node.attr)
        return self.servers.setdefault(key, Server("unknown", show(node), scope.file))

    def library_of(self, thing: Thing) -> LibraryName | None:
        """Return the library of the server that calling a class makes; None where it makes none."""
        if isinstance(thing, Known) and thing.call is None:
            return _SERVERS.get((thing.package, thing.last))
        if isinstance(thing, Class):
            libraries = (self.library_of(item) for item in self.ancestors(thing) if isinstance(item, Known))
            return next(filter(None, libraries), None)
        return None

    # --- attributes ----------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Thing:
        if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super":
            cls = self.class_around(scope.function)
            return UNKNOWN if cls is None else self._method(cls, node.attr, after=cls)
        base = self.resolve(node.value, scope)
        if isinstance(base, Known | Module | Class) and getattr(base, "call", None) is None:
            found = self._name(node, scope)
            if found is not UNKNOWN and not isinstance(found, Written):
                return found
        return self.attribute(base, node.attr)

    def attribute(self, thing: Thing, name: str) -> Thing:
        """Return an attribute of what an expression stands for."""
        match thing:
            case Module():
                meaning = self.names.member(thing, name).meaning
                is_bound = isinstance(meaning, BoundName)
                return self.bound(meaning.binding, meaning.scope) if is_bound else meaning or UNKNOWN  # type: ignore[union-attr,return-value]
            case Server() if name in ("registry", "local_provider"):
                return thing
            case Server(cls=Class() as cls) | Instance(cls=cls):
                with self._following((id(cls), name)) as is_active:
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
            methods = [item.body.file.scope_in(node) for item in self.classes(cls) for node in _methods(item)]
            for scope in sorted(methods, key=lambda scope: scope.node.name != "__init__"):
                for statement, _ in scope.statements:
                    if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                        targets = (
                            statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                        )
                        for target in targets:
                            holder = getattr(target, "value", None)
                            is_own = getattr(holder, "id", "") == first_parameter(scope.node)
                            if isinstance(target, ast.Attribute) and is_own:
                                found.setdefault(target.attr, []).append((statement.value, scope))
        return self._things[key].get(name, [])  # type: ignore[no-any-return]

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
        for item in line[line.index(after) + 1 :] if after is not None and after in line else line:
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

    def _call(self, node: ast.Call, scope: Scope) -> Thing:
        callee, call = self.resolve(node.func, scope), Arguments.of(node, scope)
        if isinstance(callee, Class):
            return self.instance(callee, call)
        if isinstance(callee, Function):
            made = self.returned(callee)
            if made is not UNKNOWN:
                return made
        library = self.library_of(callee)
        if library is not None:
            made = Server(library, _label(call, scope.file.path.stem), scope.file, call)
            return self.servers.setdefault(id(node), made)
        is_wrapper = (
            len(call.args) == 1 and not call.keywords and isinstance(call.args[0], ast.Name | ast.Attribute)
        )
        wrapped = self.first(call) if is_wrapper else UNKNOWN
        if isinstance(wrapped, Function):
            return wrapped  # most likely
        if isinstance(callee, Known) and callee.call is None and callee.package != "builtins":
            return Known(callee.name, call)
        return Data(node, scope)

    def returned(self, function: Function) -> Thing:
        """Return what a function returns, where that is one thing."""
        returns = function.file.returns.get(id(function.node), [])
        with self._following(("return", id(function.node))) as is_active:
            if len(returns) != 1 or is_active:
                return UNKNOWN
            value, spot = returns[0]
            return self.resolve(value, spot.scope)

    # --- lists and dicts -----------------------------------------------------------------------------

    def items(self, node: ast.expr, scope: Scope, depth: int = 0) -> Iterator[Data]:
        """Yield the items of a list or dict that is written down, or built from such step by step; an open
        one, where there is more than could be read."""
        more = Data(node, scope, is_open=True)
        if depth > MAX_DEPTH:
            yield more
        elif isinstance(node, ast.List | ast.Tuple | ast.Set):
            for inner in node.elts[:MAX_ITEMS]:
                if isinstance(inner, ast.Starred):
                    yield from self.items(inner.value, scope, depth + 1)
                else:
                    yield Data(inner, scope)
            if len(node.elts) > MAX_ITEMS:
                yield more
        elif isinstance(node, ast.Dict) and len(node.keys) <= MAX_ITEMS:
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None:
                    yield from self.items(value, scope, depth + 1)
                else:
                    yield Data(value, scope, key)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.BitOr):
            yield from self.items(node.left, scope, depth + 1)
            yield from self.items(node.right, scope, depth + 1)
        elif isinstance(node, ast.Name | ast.Attribute):
            yield from self._items_of_name(node, scope, depth)
        elif isinstance(node, ast.Call):
            yield from self._items_of_call(node, scope, depth)
        else:
            yield more

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
        for statement, _ in home.statements if home is not None else ():
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

    def _items_of_call(self, node: ast.Call, scope: Scope, depth: int) -> Iterator[Data]:
        function = node.func
        method = function.attr if isinstance(function, ast.Attribute) else ""
        callee = self.resolve(function, scope)
        if isinstance(function, ast.Attribute) and method == "values" and not node.args:
            for item in self.items(function.value, scope, depth + 1):
                yield replace(item, key=None, is_open=item.is_open or item.key is None)
        elif isinstance(callee, Function):
            yield from self.returned_items(callee, depth + 1)
        elif method == "list_tools" and show(function).startswith("super("):
            yield Data(node, scope)  # of a class that is not scanned
        elif isinstance(callee, Known) and callee.last in ("list", "tuple") and len(node.args) == 1:
            yield from self.items(node.args[0], scope, depth + 1)
        else:
            yield Data(node, scope, is_open=True)

    def returned_items(self, function: Function, depth: int = 0) -> Iterator[Data]:
        """Yield the items of the lists that a function returns."""
        returns = function.file.returns.get(id(function.node), [])
        with self._following(("items", id(function.node))) as is_active:
            if not returns or is_active:
                yield Data(_at(ast.Constant(None), function.line), function.body, is_open=True)
                return
            seen: set[int] = set()
            for value, spot in returns:
                for item in self.items(_unwrap(value), spot.scope, depth + 1):
                    if id(item.node) not in seen:
                        seen.add(id(item.node))
                        yield item

    # --- data ----------------------------------------------------------------------------------------

    def data_of(self, thing: Thing) -> Any:
        """Return the value of a thing that is data. Raise Unresolved where only running would tell."""
        if isinstance(thing, Data) and not thing.is_open:
            return self.stubs.value(thing.node, Site(thing.scope))
        raise Unresolved("it is no data")


def _methods(cls: Class) -> list[FunctionNode]:
    return [statement for statement, _ in cls.body.statements if isinstance(statement, FUNCTIONS)]


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
    for name, bindings in call.scope.names.items():
        if any(getattr(item.value, "args", None) is call.args for item in bindings):
            return name
    return default


def _at(node: Any, line: int) -> Any:
    """Return a node that is not in the source with a line."""
    node.lineno, node.col_offset = line, 0
    return node


def first_parameter(node: FunctionNode) -> str:
    places = [*node.args.posonlyargs, *node.args.args]
    return places[0].arg if places else ""
