"""The patterns that register tools, resources and prompts: decorators, calls of servers, marks, records.

No call is followed: a function that decorates others counts wherever it is written. Code that puts something
on a server in another way is one finding, at its line.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Any

from toolcrib.errors import Finding, Level
from toolcrib.sources.scan.resolve import (
    MARKS,
    OWN_PACKAGES,
    UNKNOWN,
    Arguments,
    Computed,
    Data,
    Function,
    Kind,
    Known,
    Registration,
    Resolver,
    Server,
    Thing,
    Written,
    first_parameter,
)
from toolcrib.sources.scan.source_file import Definition, Scope, SourceFile, Spot, show, words_in

KINDS: tuple[Kind, ...] = ("tool", "resource", "prompt")
_OWN = re.compile(r"(?:\w*_)?(tool|resource|prompt)")
"""Names of decorators that authors write themselves."""
_OTHERS = words_in(
    """
    agents agno autogen autogen_core click crewai crewai_tools dspy flask flask_restx google haystack
    langchain langchain_core langgraph livekit llama_index openai pydantic_ai semantic_kernel smolagents
    strands typer vanna
    """
)
"""Packages whose objects have decorators of these names for something else."""
_ADDING = words_in("add add_all add_tool register_all_tools register_tool replace")
_FIXED = words_in("add_resource add_skills")
FEATURES = frozenset({"resource", "prompt", *_FIXED})
"""The methods of a server that take no tools."""
_CHANGES = words_in("add_provider add_tool_transformation add_transform disable remove remove_tool")
_LISTERS = words_in("list_tools list_prompts")
_LIST_REQUESTS = words_in("ListPromptsRequest ListToolsRequest")


def found_at(code: str, level: Level, text: str, scope: Scope, line: int | None, hint: str | None) -> Finding:
    """Return a finding at a line."""
    return Finding(code, level, text, None, None, str(scope.file.path), line, hint)


def placed(finding: Finding, file: SourceFile, line: int | None) -> Finding:
    """Return a finding with a place, unless it has one."""
    return finding if finding.file is not None else replace(finding, file=str(file.path), line=line)


def last_name(node: ast.expr) -> str:
    """Return `tool` of `server.tool(...)`, `tool` and `server.tool`."""
    while isinstance(node, ast.Call):
        node = node.func
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _usual(options: Arguments) -> Arguments:
    """Return the options of an author's own decorator that mean what they mean elsewhere."""
    texts = [
        node for node in options.args[:1] if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    usual = [item for item in options.keywords if item.arg in ("name", "title", "description", "annotations")]
    return replace(options, args=texts, keywords=usual)


class Patterns:
    """Finds what surveyed files register. `marks` are the options of `@tool`, by the id of the definition."""

    def __init__(self, resolver: Resolver, findings: list[Finding]) -> None:
        self.resolver = resolver
        self.findings = findings
        self.marks: dict[int, Arguments] = {}
        self.marked: dict[SourceFile, list[Definition]] = {}
        self.records: dict[SourceFile, list[tuple[str, Arguments]]] = {}  # with their kind
        self.listers: list[Function] = []
        self.options: dict[int, Arguments] = {}  # of fastmcp's decorator without a server
        self._registered: set[int] = set()
        self._own: set[int] = set()  # the decorators that authors wrote, by id

    def find_decorated(self, file: SourceFile) -> None:
        for node, spot in file.decorated:
            for decorator in reversed(node.decorator_list):
                self._guarded(self._decorate, node, decorator, spot)

    def find_called(self, file: SourceFile) -> None:
        for call in file.calls:
            self._guarded(self._call, *call)
        if "_handlers[" in file.text:
            for scope in (file.scope, *file.scopes.values()):
                for statement in scope.statements:
                    match statement:
                        case ast.Assign([ast.Subscript(ast.Attribute(attr=name), key)], value):
                            if name.endswith("_handlers") and last_name(key) in _LIST_REQUESTS:
                                self._note_lister(self.resolver.resolve(value, scope))

    def _guarded(self, take: Any, node: Any, *rest: Any) -> None:
        try:
            take(node, *rest)
        except RecursionError:
            spot: Spot = rest[-1]
            text = f"The code here in {spot.scope.file.path.name} is too deeply nested to be read"
            hint = "there may be more tools in it; split it"
            self.report("guessed-end", "warning", text, spot.scope, node.lineno, hint)

    def report(self, code: str, level: Level, text: str, scope: Scope, line: int | None, hint: str) -> None:
        self.findings.append(found_at(code, level, text, scope, line, hint))

    # --- decorators ----------------------------------------------------------------------------------

    def _decorate(self, node: Definition, decorator: ast.expr, spot: Spot) -> None:
        scope, resolver = spot.scope, self.resolver
        options = Arguments.of(decorator, scope)
        called: Any = decorator.func if isinstance(decorator, ast.Call) else decorator
        if not isinstance(called, ast.Name | ast.Attribute):
            self._refuse_decorator(node, decorator, scope)
            return
        thing = resolver.resolve(called, scope)
        if isinstance(thing, Data) and last_name(thing.node) in KINDS:  # `search = server.tool(...)`
            alias, scope = thing.node, thing.scope
            options = Arguments.of(alias, scope) if isinstance(alias, ast.Call) else options
            called = alias.func if isinstance(alias, ast.Call) else alias
            thing = resolver.resolve(called, scope)
        if isinstance(thing, Known) and thing.name in MARKS:
            self._mark(node, options, spot.scope.file)
            return
        name = last_name(called)
        made = (resolver.cls if isinstance(node, ast.ClassDef) else resolver.function)(node, spot.scope)  # type: ignore[arg-type]
        if isinstance(called, ast.Attribute) and name in _LISTERS:
            self._note_lister(made)
        elif isinstance(thing, Known) and thing.package == "fastmcp" and name in KINDS:
            self.options[id(node)] = options
            self._register(self._named("fastmcp", thing.name, scope), made, options, name, spot)
        elif isinstance(called, ast.Attribute) and name in KINDS and self._is_other(called, scope):
            self._note_other(node, show(called), scope)
        elif (
            isinstance(called, ast.Attribute)
            and name in KINDS
            and (not isinstance(thing, Function) or isinstance(resolver.resolve(called.value, scope), Server))
        ):
            self._register(resolver.server(called.value, scope), made, options, name, spot)
        elif isinstance(thing, Known) and name == "tool":
            self._note_other(node, thing.name, scope)
        elif not isinstance(thing, Known) and (kind := self.own_kind(thing, name)):
            if id(node) not in self._registered:
                key = "@" + name
                if isinstance(thing, Function):
                    self._own.add(id(thing.node))
                    key = f"@{name} {thing.file.path}"
                self._register(self._named("unknown", key, scope), made, _usual(options), kind, spot)
        elif any(
            last_name(item) in KINDS and isinstance(item, ast.Attribute | ast.Call) for item in options.args
        ):
            self._refuse_decorator(node, decorator, scope)

    def _named(self, library: Any, name: str, scope: Scope) -> Server:
        return self.resolver.servers.setdefault(name, Server(library, name.partition(" ")[0], scope.file))

    def own_kind(self, decorator: Thing, name: str) -> str:
        """Return what a decorator that an author wrote registers, "" where it only wraps."""
        by_name = match[1] if (match := _OWN.fullmatch(name)) else ""
        if not isinstance(decorator, Function):
            return by_name if name in KINDS else ""
        lines = decorator.file.lines[decorator.node.lineno - 1 : decorator.node.end_lineno]
        text, first = "\n".join(lines), first_parameter(decorator.node) or "\\W"
        if found := re.search(rf"\.(tool|resource|prompt)\(|\.add(?:_tool)?\({first}\b", text):
            return by_name or found[1] or "tool"
        keeps = (
            name in KINDS or "wraps" not in text or "setattr" in text or ".append(" in text or "] = " in text
        )
        return by_name if keeps else ""

    def _refuse_decorator(self, node: Definition, decorator: ast.expr, scope: Scope) -> None:
        text = f"Whether '{node.name}' is a tool cannot be told without running @{show(decorator)}"
        hint = "decorate it with @tool itself"
        self.report("unresolved-tool", "warning", text, scope, decorator.lineno, hint)

    def _mark(self, node: Definition, options: Arguments, file: SourceFile) -> None:
        if id(node) not in self.marks:
            self.marks[id(node)] = options
            self.marked.setdefault(file, []).append(node)
            self._note_guards(file.spots[id(node)])

    def _is_other(self, called: ast.Attribute, scope: Scope) -> bool:
        """Return whether `@name.tool` is that of a library for something else."""
        base = self.resolver.resolve(called.value, scope)
        if not isinstance(base, Known) or base.package in OWN_PACKAGES:
            return False
        root = called.value.id if isinstance(called.value, ast.Name) else ""
        bindings = next((place.names[root] for place in scope.visible() if root in place.names), [])
        return base.package in _OTHERS or any(item.kind == "import" for item in bindings)

    def _note_other(self, node: Definition, name: str, scope: Scope) -> None:
        text = f"'{name}' makes no tool for MCP"
        if not any(item.message == text and item.file == str(scope.file.path) for item in self.findings):
            hint = "mark its functions with toolcrib.tool to offer them"
            self.report("other-decorator", "advice", text, scope, node.decorator_list[0].lineno, hint)

    def _note_lister(self, thing: Thing) -> None:
        if isinstance(thing, Function) and thing not in self.listers:
            self.listers.append(thing)

    # --- calls ---------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, spot: Spot) -> None:
        function, scope = node.func, spot.scope
        call, name = Arguments.of(node, scope), last_name(function)
        for keyword in ("on_list_tools", "on_list_prompts"):
            if (given := call.keyword(keyword)) is not None:
                self._note_lister(self.resolver.resolve(given, scope))
        if (tools := call.keyword("tools")) is not None:
            server = self.resolver.resolve(node, scope)
            if isinstance(server, Server) and server.library in ("mcp", "fastmcp"):
                self._add(server, tools, call, "add_tool", spot)
        if name in KINDS and call.args:
            self._apply(function, call, name, spot)
        elif name in ("Tool", "Prompt") and not node.args:
            self._record(function, call, name, spot)
        elif isinstance(function, ast.Attribute):
            self._method(function, call, name, spot)
        elif self._is_mark(function, scope) and call.args:
            self._apply(function, call, name, spot)

    def _is_mark(self, node: ast.expr, scope: Scope) -> bool:
        thing = self.resolver.resolve(node, scope) if isinstance(node, ast.Name | ast.Attribute) else UNKNOWN
        return isinstance(thing, Known) and thing.name in MARKS

    def _apply(self, function: ast.expr, call: Arguments, name: str, spot: Spot) -> None:
        """`server.tool(...)(function)`, `server.tool(function, ...)`, and the same with a mark."""
        scope, resolver = spot.scope, self.resolver
        options, is_applied = replace(call, args=call.args[1:]), isinstance(function, ast.Call)
        if isinstance(function, ast.Call):
            options, function = Arguments.of(function, scope), function.func
        elif isinstance(call.args[0], ast.Constant | ast.JoinedStr) or name == "resource":
            return  # the decorator of another function
        thing = resolver.resolve(call.args[0], scope)
        if self._is_mark(function, scope):
            if isinstance(thing, Written):
                self._mark(
                    thing.node, options if is_applied else replace(call, args=(), keywords=()), thing.file
                )
        elif isinstance(function, ast.Attribute) and not self._is_other(function, scope):
            is_known = isinstance(resolver.resolve(function.value, scope), Server)
            if is_known or is_applied or isinstance(thing, Written | Known):  # else a name, computed
                self._register(resolver.server(function.value, scope), thing, options, name, spot)

    def _method(self, function: ast.Attribute, call: Arguments, name: str, spot: Spot) -> None:
        """Do what calling a method of a server does."""
        scope, resolver = spot.scope, self.resolver
        base = resolver.resolve(function.value, scope)
        if name == "add_tool" and not self._is_other(function, scope):
            base = resolver.server(function.value, scope)
        elif name == "add" and isinstance(base, Computed):
            is_one = len(call.args) == 1 and isinstance(resolver.resolve(call.args[0], scope), Function)
            uses_ours = any("toolcrib" in file.text for file in resolver.files)
            base = resolver.server(function.value, scope) if is_one and uses_ours else base
            if isinstance(base, Server):
                base.library = "toolcrib"
        if not isinstance(base, Server):
            return
        if name in ("add", "add_all", "register_all_tools") and base.library == "toolcrib":
            for node in call.args:
                self._add(base, node, call, name, spot)
        elif name in _ADDING and (call.args or call.keywords) and name != "add":
            node = call.args[0] if call.args else call.keywords[0].value
            self._register(base, resolver.resolve(node, scope), replace(call, args=call.args[1:]), name, spot)
        elif name in _FIXED and base.library == "toolcrib":
            self._register(base, UNKNOWN, call, name, spot)
        elif name in ("mount", "import_server"):
            self._mount(base, call, spot)
        elif name in _CHANGES:
            text = (
                f"{name}() may change or remove tools of '{base.label}', which are listed as they are written"
            )
            self.report("guessed-server", "advice", text, scope, call.line, "list the running server")

    def _add(self, server: Server, node: ast.expr, call: Arguments, method: str, spot: Spot) -> None:
        """`server.add(...)` takes functions, objects, and lists of either."""
        value = node.value if isinstance(node, ast.Starred) else node
        thing = self.resolver.resolve(value, spot.scope)
        written = thing.node if isinstance(thing, Data) else None
        is_list = isinstance(written, ast.List | ast.Tuple | ast.Set | ast.BinOp)
        options = replace(call, args=(), keywords=call.keywords if method == "add" else ())
        if not (isinstance(node, ast.Starred) or is_list or method != "add"):
            self._register(server, thing, options, "add", spot)
            return
        for item in self.resolver.items(value, spot.scope):
            thing = UNKNOWN if item.is_open else self.resolver.resolve(item.node, item.scope)
            self._register(server, thing, options, "register_tool" if method[0] == "r" else method, spot)

    def _register(self, server: Server, thing: Thing, options: Arguments, method: str, spot: Spot) -> None:
        if self._is_passed_on(spot.scope, thing):
            return
        if isinstance(thing, Written):
            self._registered.add(id(thing.node))
        server.registrations.append(Registration(thing, options, method, spot))
        self._note_guards(spot)

    def _is_passed_on(self, scope: Scope | None, thing: Thing) -> bool:
        """Return whether code stands in a decorator, or a method of a server, that an author wrote: whatever
        is registered there is found where that is used."""
        scope = scope and scope.function
        while scope is not None and scope.parent is not None:
            is_method = scope.parent.kind == "class" and scope.node.name in (*KINDS, "add_tool")
            if is_method or (not isinstance(thing, Written | Known) and id(scope.node) in self._own):
                return True
            scope = scope.parent.function
        return False

    def _note_guards(self, spot: Spot) -> None:
        for guard in spot.guards:
            test = "" if guard.test is None else f" `{show(guard.test)}`"
            text = f"What is registered here {guard.words}{test}"
            found = found_at("guessed-condition", "advice", text, spot.scope, guard.line, None)
            if found not in self.findings:
                self.findings.append(found)

    def _mount(self, server: Server, call: Arguments, spot: Spot) -> None:
        """Give the tools of a mounted server their prefix."""
        nodes = [*call.args, *filter(None, [call.keyword("server")])]
        inner = next(
            (item for node in nodes if isinstance(item := self.resolver.resolve(node, spot.scope), Server)),
            None,
        )
        texts = [item for item in call.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        prefix = call.keyword("namespace", "prefix") or next(iter(texts), None)
        if inner is None or not isinstance(prefix, ast.Constant | None) or inner.prefix:
            text = f"Tools of a server mounted in '{server.label}' may be missing, or have other names"
            self.report("guessed-server", "advice", text, spot.scope, call.line, "list the running server")
        else:
            inner.prefix = str(getattr(prefix, "value", None) or "")

    # --- records -------------------------------------------------------------------------------------

    def _record(self, function: ast.expr, call: Arguments, name: str, spot: Spot) -> None:
        thing = self.resolver.resolve(function, spot.scope)
        is_theirs = isinstance(thing, Known) and thing.package in OWN_PACKAGES - {"toolcrib"}
        has_schema = call.keyword("inputSchema", "input_schema") is not None
        if is_theirs or (name == "Tool" and has_schema and not isinstance(thing, Known)):
            self.records.setdefault(spot.scope.file, []).append((name.lower(), call))
            self._note_guards(spot)
