"""Things that hold tools: applications, tool objects, tables of definitions, low-level servers.

Each becomes what importing would find, with stubs for functions, so that the ordinary code reads it.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from toolcrib.definition import ToolDefinition
from toolcrib.errors import DefinitionError, Finding, Location
from toolcrib.sources.applications import Application
from toolcrib.sources.described import describe
from toolcrib.sources.scan.source_file import FUNCTIONS, FunctionNode, Guess, Scope
from toolcrib.sources.scan.things import (
    ROOT,
    Arguments,
    Class,
    Data,
    Function,
    Instance,
    Known,
    Server,
    Thing,
    call_at,
)
from toolcrib.sources.scan.values import Unresolved
from toolcrib.tool import MARK, Tool

if TYPE_CHECKING:
    from toolcrib.sources.scan.making import ToolMaker

_SCHEMA_KEYS = frozenset({"schema", "input_schema", "inputSchema", "parameters"})
_MISSING: Any = object()
_OPEN_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
_UNREAD = (Unresolved, RecursionError)
_AS_ATTRIBUTE = "write it down as an attribute of the class"

# --- tables ------------------------------------------------------------------------------------------


class TableReader:
    """Reads a table of definitions or handlers as importing would find it, with stubs for handlers."""

    def __init__(self, maker: ToolMaker, scope: Scope, name: str) -> None:
        self.maker = maker
        self.resolver = maker.resolver
        self.scope = scope
        self.name = name

    def table(self, thing: Thing, node: ast.expr) -> Any:
        """Return a table; None where it cannot be followed. `node` is the expression it was found by."""
        written = thing.node if isinstance(thing, Data) else None
        if isinstance(written, ast.Dict):
            pairs = self._pairs(node, self.scope)
            keys = [key for key, _ in pairs if isinstance(key, str)]
            if "name" in keys and not _SCHEMA_KEYS.isdisjoint(keys):
                return self._definition(pairs)
            made = {key: self._entry(item, key) for key, item in pairs}
            return {key: entry for key, entry in made.items() if entry is not _MISSING}
        if isinstance(written, ast.List | ast.Tuple | ast.Set | ast.BinOp):
            entries = [self._entry(item) for item in self.resolver.items(node, self.scope, ROOT)]
            return [entry for entry in entries if entry is not _MISSING]
        entry = self._entry(thing if isinstance(thing, Data) else Data(node, self.scope, ROOT))
        return None if entry is _MISSING else entry

    def handlers(self, thing: Thing, node: ast.expr) -> Any:
        """Return a table of handlers; anything else as it is, for others to refuse."""
        if not isinstance(thing, Data) or not isinstance(thing.node, ast.Dict):
            return self._entry(Data(node, self.scope, ROOT))
        return {key: self._handler(item, str(key)) for key, item in self._pairs(node, self.scope)}

    def _pairs(self, node: ast.expr, scope: Scope, frame: Any = ROOT) -> list[tuple[Any, Data]]:
        """Return the items of a dict with their keys, except those that cannot be read."""
        items = list(self.resolver.items(node, scope, frame))
        return [(key, item) for item in items if (key := self._key(item)) is not _MISSING]

    def _key(self, item: Data) -> Any:
        try:
            if item.key is not None:
                key = self.resolver.data(item.key, item.scope, item.frame)
                hash(key)
                return key
        except (*_UNREAD, TypeError):
            pass
        return self._report(item)

    def _report(self, item: Data) -> Any:
        self.maker.has_open_tables = True
        words = f"{self.name} holds something that cannot be told without running the code"
        hint = "write the definitions down in the table"
        self.maker.report("guessed-table", "warning", words, self.scope, _line(item), hint)
        return _MISSING

    def _entry(self, item: Data, label: Any = None) -> Any:
        thing = self.resolver.of(item)
        if isinstance(thing, Data) and isinstance(thing.node, ast.Dict):
            return self._definition(self._pairs(thing.node, thing.scope, thing.frame), label)
        if isinstance(thing, Known) and thing.call is not None and is_record(thing):
            return SimpleNamespace(**read_record(self.maker, thing.call))
        try:
            return self.resolver.data_of(thing)
        except _UNREAD:
            return self._report(item)

    def _definition(self, pairs: list[tuple[Any, Data]], label: Any = None) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, item in sorted(pairs, key=lambda pair: pair[0] == "handler"):
            name = str(made.get("name", label or self.name))
            try:
                made[key] = self._handler(item, name) if key == "handler" else self.resolver.data_of(item)
            except _UNREAD:
                self.maker.report_unread(name, str(key), self.scope, _line(item))
        return made

    def _handler(self, item: Data, label: str) -> Any:
        thing = self.resolver.of(item)
        try:
            if isinstance(thing, Function):
                return self.maker.stub(thing)
            return self.resolver.data_of(thing)  # no function at all: others report it
        except (*_UNREAD, DefinitionError):
            where = Location(str(self.scope.file.path), _line(item) or 1)
            return self.maker.unknown_handler(label, where)


def _line(item: Data) -> int | None:
    return getattr(item.key or item.node, "lineno", None)


# --- low-level servers -------------------------------------------------------------------------------


def is_record(thing: Known) -> bool:
    """Return whether this is `Tool(name=..., inputSchema=...)` of the official SDK."""
    return thing.call is not None and thing.package in ("mcp", "mcp_types") and thing.last == "Tool"


def read_record(maker: ToolMaker, call: Arguments) -> dict[str, Any]:
    """Return the literal parts of a record; parts that are computed are findings."""
    facts: dict[str, Any] = {}
    for keyword in call.keywords:
        try:
            value = maker.resolver.data(keyword.value, call.scope, call.frame)
            facts[str(keyword.arg)] = value.value if isinstance(value, enum.Enum) else value
        except _UNREAD:
            name = str(facts.get("name", "?"))
            maker.report_unread(name, str(keyword.arg), call.scope, keyword.value.lineno)
    return facts


def read_low_level(maker: ToolMaker, server: Server) -> list[Tool]:
    """Return the tools in the literal list of a low-level server's `list_tools` handler."""
    resolver, listers = maker.resolver, list(server.listers)
    if server.call is not None and (given := server.call.keyword("on_list_tools")) is not None:
        thing = resolver.resolve(given, server.call.scope, server.call.frame)
        listers += [thing] if isinstance(thing, Function) else []
    found: dict[str, Tool] = {}
    is_whole = bool(listers)
    for lister in listers:
        made = resolver.returned(lister, None)
        items = resolver.returned_items(lister, None)
        if isinstance(made, Known) and made.call is not None and made.last == "ListToolsResult":
            tools = made.call.keyword("tools")
            items = items if tools is None else resolver.items(tools, made.call.scope, made.call.frame)
        described = [_described(maker, item, server) for item in items]
        is_whole = is_whole and None not in described
        for tool in filter(None, described):
            found.setdefault(tool.name, tool)
    line = listers[0].line if listers else server.call.line if server.call is not None else None
    words = f"'{server.label}' is a low-level server of mcp: its own handlers answer calls"
    hint = "serve the file that starts it; the server is then asked for its tools, which may be others"
    maker.report("low-level-server", "advice", words, server.file.scope, line, hint)
    if not is_whole:
        words = f"The tools of the low-level server '{server.label}' cannot all be read"
        hint = "serving it lists them all; to scan them, return a list of Tool(name=..., inputSchema={...})"
        maker.report("guessed-list", "warning", words, server.file.scope, line, hint)
    for caller in server.callers if is_whole else ():
        for name in sorted(_dispatched(caller.node) - found.keys()):
            words = f"The call_tool handler answers '{name}', which list_tools does not list"
            maker.report("guessed-more", "advice", words, caller.scope, caller.line, "list it")
    return list(found.values())


def _described(maker: ToolMaker, item: Data, server: Server) -> Tool | None:
    thing = maker.resolver.of(item)
    if not isinstance(thing, Known) or thing.call is None or not is_record(thing):
        return None
    facts = read_record(maker, thing.call)
    if not isinstance(facts.get("name"), str):
        return None
    schema = facts.get("inputSchema", facts.get("input_schema"))
    output = facts.get("outputSchema", facts.get("output_schema"))
    definition = ToolDefinition(
        name=facts["name"],
        description=str(facts.get("description") or ""),
        input_schema=schema if isinstance(schema, dict) else dict(_OPEN_SCHEMA),
        output_schema=output if isinstance(output, dict) else None,
        title=facts.get("title"),
        source=Location(str(thing.call.file.path), thing.call.line),
    )
    tool = describe(definition)
    maker.note(tool.origin, (thing.call.key,), (), [*item.guesses, *server.guesses])
    return tool


def _dispatched(node: FunctionNode) -> set[str]:
    """Return the texts that a `call_tool(name, arguments)` handler compares its first parameter with."""
    places = [item.arg for item in (*node.args.posonlyargs, *node.args.args) if item.arg != "self"]
    found: list[Any] = []
    for item in ast.walk(node):
        subject = getattr(item, "left", None) or getattr(item, "subject", None)
        if isinstance(subject, ast.Name) and subject.id in places[:1]:
            if isinstance(item, ast.Compare) and isinstance(item.ops[0], ast.Eq):
                found += item.comparators
            elif isinstance(item, ast.Match):
                found += [getattr(case.pattern, "value", None) for case in item.cases]
    return {item.value for item in found if isinstance(item, ast.Constant) and isinstance(item.value, str)}


# --- tool objects ------------------------------------------------------------------------------------

_SPELLINGS = {
    "name": ("name", "Name"),
    "description": ("description", "Description"),
    "input_schema": ("input_schema", "InputSchema", "inputSchema"),
    "execute": ("execute", "ExecuteAsync", "execute_async"),
    "output_schema": ("output_schema", "OutputSchema"),
}


def is_tool_object(maker: ToolMaker, instance: Instance) -> bool:
    return all(_find(maker, instance, part) for part in _SPELLINGS if part != "output_schema")


def _find(maker: ToolMaker, instance: Instance, part: str) -> str | None:
    """Return the attribute that holds a part of a tool object."""
    resolver, cls = maker.resolver, instance.cls
    fields = {key for key, _, _ in resolver.fields(cls)} if resolver.is_record(cls) else set()
    for name in _SPELLINGS[part]:
        if name in fields or resolver.member(cls, name) is not None or resolver.assigned(cls, name):
            return name
    return None


def build_object(maker: ToolMaker, instance: Instance) -> Any:
    """Return a stand-in with the parts of a tool object; None where its name or handler cannot be read."""
    findings: list[Finding] = []
    cls = instance.cls
    made = type(cls.node.name, (), {})()
    for part in _SPELLINGS:
        name = _find(maker, instance, part)
        if name is None:
            continue
        thing = maker.resolver.attribute(instance, name)
        try:
            is_handler = part == "execute" and isinstance(thing, Function)
            setattr(made, part, maker.stub(thing) if is_handler else maker.resolver.data_of(thing))  # type: ignore[arg-type]
        except _UNREAD:
            words = f"The {part} of {cls.node.name} cannot be told without running the code"
            file = str(cls.file.path)
            findings.append(
                Finding("unresolved-part", "warning", words, file=file, line=cls.line, hint=_AS_ATTRIBUTE)
            )
            if part in ("name", "execute"):
                maker.findings += findings
                return None
            if part != "output_schema":
                setattr(made, part, dict(_OPEN_SCHEMA) if part == "input_schema" else "")
    mark = maker.patterns.marks.get(id(cls.node))
    if mark is not None:
        setattr(type(made), MARK, maker.mark(mark[0]))
    guesses = [*maker.guesses_about(cls), *maker.reach(instance)]
    maker.note(made, (id(instance),), findings, guesses, maker.notes_of(made.execute))
    return made


# --- applications ------------------------------------------------------------------------------------


def is_application(maker: ToolMaker, cls: Class) -> bool:
    """Return whether objects of a class list tools; a client that waits for a server to list them does
    not."""
    resolver = maker.resolver
    member = resolver.member(cls, "list_tools")
    if member is not None:
        if resolver.library_of(cls) is not None or not isinstance(member, Function):
            return False
        return not resolver.kinds(member.node, member.scope) & {"async", "property"}
    marks = maker.patterns.marks
    return _is_ours(maker, cls) or (
        bool(resolver.unread_bases(cls))
        and any(id(item) in marks and isinstance(item, FUNCTIONS) for item in cls.node.body)
    )


def _is_ours(maker: ToolMaker, cls: Class) -> bool:
    return any(isinstance(item, Known) and item.is_application for item in maker.resolver.ancestors(cls))


def is_complete(maker: ToolMaker, cls: Class) -> bool:
    """Return whether a class holds tools and is there to be used, not to be inherited from."""
    resolver = maker.resolver
    if cls.node.name.startswith("_") or _is_abstract(maker, cls):
        return False
    if is_application(maker, cls):
        return True
    parts = ("name", "description", "input_schema", "execute")
    others = ("Name", "Description", "InputSchema", "ExecuteAsync")
    has_parts = any(all(resolver.member(cls, part) for part in names) for names in (parts, others))
    thing = resolver.member(cls, "name") or resolver.member(cls, "Name")
    is_text = isinstance(thing, Data) and isinstance(thing.node, ast.Constant)
    return has_parts and not resolver.is_model(cls) and (not is_text or bool(thing.node.value))  # type: ignore[union-attr]


def _is_abstract(maker: ToolMaker, cls: Class) -> bool:
    """Return whether a class has methods that a subclass must write, and insists on it."""
    resolver, missing = maker.resolver, set[str]()
    line = resolver.ancestors(cls)
    metas = [keyword.value for item in line if isinstance(item, Class) for keyword in item.node.keywords]
    insists = any(ast.unparse(item).endswith("ABCMeta") for item in metas)
    if not insists and not {"abc.ABC", "typing.Protocol"} & {getattr(item, "name", "") for item in line}:
        return False
    for item in reversed(line):
        for statement in item.node.body if isinstance(item, Class) else ():
            if isinstance(statement, FUNCTIONS):
                is_missing = "abstract" in resolver.kinds(statement, item.body)  # type: ignore[union-attr]
                (missing.add if is_missing else missing.discard)(statement.name)
    return bool(missing)


def guess_base(unread: list[str], what: str) -> Guess:
    return Guess("guessed-base", f"{what} may come from {unread[0]}, which was not read")


def build_application(maker: ToolMaker, instance: Instance) -> Any:
    """Return a stand-in whose `list_tools` returns stubs of the methods."""
    cls, resolver = instance.cls, maker.resolver
    lister = resolver.member(cls, "list_tools")
    guesses = [*maker.guesses_about(cls), *maker.reach(instance)]
    unread, is_ours = resolver.unread_bases(cls), _is_ours(maker, cls)
    if unread and not isinstance(lister, Function) and not is_ours:
        guesses.append(guess_base(unread, "its list of tools"))
    if unread and instance.call is None and resolver.member(cls, "__init__") is None:
        guesses.append(guess_base(unread, "how it is made"))
    listed = _marked(maker, instance)
    if isinstance(lister, Function):
        listed = _listed(maker, resolver.function(lister.node, lister.scope, instance), instance)
    made: list[Any] = []
    is_whole = True
    for thing, doubts in listed:
        found = None if thing is None else maker.make(thing, (*guesses, *doubts))
        is_whole &= found is not None
        made += found if isinstance(found, list) else [] if found is None else [found]
    if not is_whole:
        words = f"{cls.node.name}.list_tools() builds its list in a way that cannot be followed to its end"
        hint = "return a list of methods: [self.first, self.second]"
        maker.report("guessed-list", "warning", words, cls.scope, cls.line, hint)
    return _stand_in(maker, instance, made, is_ours=is_ours) if made or is_whole else []


_Listed = Iterable[tuple[Thing | None, tuple[Guess, ...]]]


def _listed(maker: ToolMaker, lister: Function, instance: Instance) -> _Listed:
    for item in maker.resolver.returned_items(lister, None):
        function = item.node.func if isinstance(item.node, ast.Call) else None
        if not item.is_open and getattr(function, "attr", "") != "list_tools":
            yield maker.resolver.of(item), item.guesses
        elif item.is_open or not _is_ours(maker, instance.cls):
            yield None, item.guesses
        else:  # super().list_tools()
            yield from _marked(maker, instance)


def _marked(maker: ToolMaker, instance: Instance) -> _Listed:
    """The public methods that `@tool` marks: inherited ones first, each where it is first defined."""
    names: dict[str, Any] = {}
    for item in reversed(maker.resolver.ancestors(instance.cls)):
        if isinstance(item, Class):
            names.update({name: bindings[-1] for name, bindings in item.body.names.items()})
    for name, binding in names.items():
        mark = maker.patterns.marks.get(id(binding.node)) if name[0] != "_" else None
        thing = maker.resolver.attribute(instance, name) if mark is not None else None
        if mark is not None and isinstance(thing, Function):
            yield thing, mark[1]


def _stand_in(maker: ToolMaker, instance: Instance, listed: list[Any], *, is_ours: bool) -> Any:
    cls, resolver = instance.cls, maker.resolver
    facts: dict[str, Any] = {"list_tools": lambda _: list(listed)}
    for key in ("name", "namespace"):
        thing = resolver.attribute(instance, key)
        if key == "name" and is_ours:
            thing = next(_given_names(maker, instance), thing)
        try:
            if isinstance(thing, Data) and (value := resolver.data_of(thing)) is not None:
                facts[key] = value
        except _UNREAD:
            if key == "namespace":
                words = f"The namespace of {cls.node.name} cannot be told without running the code"
                maker.report("guessed-name", "warning", words, cls.scope, cls.line, _AS_ATTRIBUTE)
    made: Any = type(cls.node.name, (Application,) if is_ours else (), facts)
    return made.__new__(made)


def _given_names(maker: ToolMaker, instance: Instance) -> Iterator[Thing]:
    """Yield the name that the constructor of toolcrib's own class is given."""
    resolver = maker.resolver
    init = resolver.member(instance.cls, "__init__")
    calls = [instance.call] if instance.call is not None else []
    if isinstance(init, Function):
        frame = resolver.bind(init.node, init.body, instance.call, instance)
        calls = [
            call_at(at.node, init.body, frame)
            for at in init.file.calls
            if at.spot.function is init.node and getattr(at.node.func, "attr", "") == "__init__"
        ]
    bases = [item for item in resolver.ancestors(instance.cls) if isinstance(item, Known)]
    is_first = any(item.is_application and item.last == "Application" for item in bases)
    for call in calls:
        node = call.keyword("name") or (call.args[0] if call.args and is_first else None)
        if node is not None:
            yield resolver.resolve(node, call.scope, call.frame)
