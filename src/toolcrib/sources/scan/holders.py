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
from toolcrib.sources.scan.scopes import FUNCTIONS, FunctionNode, Scope
from toolcrib.sources.scan.survey import Guess
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
    from toolcrib.sources.scan.making import Workshop

_SCHEMA_KEYS = frozenset({"schema", "input_schema", "inputSchema", "parameters"})
_MISSING: Any = object()
_OPEN_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
_UNREAD = (Unresolved, RecursionError)

# --- tables ------------------------------------------------------------------------------------------


class TableReader:
    """Reads a table of definitions or handlers as importing would find it, with stubs for handlers."""

    def __init__(self, workshop: Workshop, scope: Scope, name: str) -> None:
        self.workshop = workshop
        self.resolver = workshop.resolver
        self.scope = scope
        self.name = name

    def table(self, thing: Thing, node: ast.expr) -> Any:
        """Return a table; None where it cannot be followed. `node` is the expression it was found by."""
        written = thing.node if isinstance(thing, Data) else None
        if isinstance(written, ast.Dict | ast.List | ast.Tuple | ast.Set | ast.BinOp):
            items = list(self.resolver.items(node, self.scope, ROOT))
            keys = [self._key(item) for item in items]
            if isinstance(written, ast.Dict):
                if "name" in keys and not _SCHEMA_KEYS.isdisjoint(
                    key for key in keys if isinstance(key, str)
                ):
                    return self._definition(items, keys)
                pairs = zip(keys, items, strict=True)
                entries = [
                    (key, _MISSING if key is _MISSING else self._entry(item, key)) for key, item in pairs
                ]
                return {
                    key: entry
                    for (key, entry), item in zip(entries, items, strict=True)
                    if self._has(entry, item)
                }
            made = [(self._entry(item), item) for item in items]
            return [entry for entry, item in made if self._has(entry, item)]
        entry = self._entry(thing) if isinstance(thing, Data) else _MISSING
        return entry if self._has(entry, None) else None

    def handlers(self, thing: Thing, node: ast.expr) -> Any:
        """Return a table of handlers; anything else as it is, for others to refuse."""
        if not isinstance(thing, Data) or not isinstance(thing.node, ast.Dict):
            return self._entry(Data(node, self.scope, ROOT))
        items = [(self._key(item), item) for item in self.resolver.items(node, self.scope, ROOT)]
        return {key: self._handler(item, str(key)) for key, item in items if key is not _MISSING}

    def _has(self, entry: Any, item: Data | None) -> bool:
        """Report an entry that could not be read."""
        if entry is _MISSING:
            words = f"{self.name} holds something that cannot be told without running the code"
            self.workshop.has_open_tables = True
            line, hint = None if item is None else _line(item), "write the definitions down in the table"
            self.workshop.report("guessed-table", "warning", words, self.scope, line, hint)
        return entry is not _MISSING

    def _entry(self, item: Data, label: Any = None) -> Any:
        thing = self.resolver.of(item)
        if isinstance(thing, Data) and isinstance(thing.node, ast.Dict):
            items = list(self.resolver.items(thing.node, thing.scope, thing.frame))
            return self._definition(items, [self._key(each) for each in items], label)
        if isinstance(thing, Known) and thing.call is not None and is_record(thing):
            return SimpleNamespace(**read_record(self.workshop, thing.call))
        try:
            return self.resolver.data_of(thing)
        except _UNREAD:
            return _MISSING

    def _definition(self, items: list[Data], keys: list[Any], label: Any = None) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, item in zip(keys, items, strict=True):
            try:
                if self._has(key, item) and key != "handler":
                    made[key] = self.resolver.data_of(item)
            except _UNREAD:
                tool = str(made.get("name", label or self.name))
                self.workshop.report_unread(tool, str(key), self.scope, _line(item))
        for key, item in zip(keys, items, strict=True):
            if key == "handler":
                made["handler"] = self._handler(item, str(made.get("name", label)))
        return made

    def _handler(self, item: Data, label: str) -> Any:
        thing = self.resolver.of(item)
        try:
            if isinstance(thing, Function):
                return self.workshop.stub(thing)
            return self.resolver.data_of(thing)  # no function at all: others report it
        except (*_UNREAD, DefinitionError):
            guess = Guess("guessed-handler", "its handler cannot be followed")
            where = Location(str(self.scope.file.path), _line(item) or 1)
            return self.workshop.unknown_handler(label, where, guess)

    def _key(self, item: Data) -> Any:
        try:
            if item.key is None:
                return _MISSING
            key = self.resolver.data(item.key, item.scope, item.frame)
            hash(key)
        except (*_UNREAD, TypeError):
            return _MISSING
        return key


def _line(item: Data) -> int | None:
    return getattr(item.key or item.node, "lineno", None)


# --- low-level servers -------------------------------------------------------------------------------


def is_record(thing: Known) -> bool:
    """Whether this is `Tool(name=..., inputSchema=...)` of the official SDK."""
    return thing.call is not None and thing.package in ("mcp", "mcp_types") and thing.last == "Tool"


def read_record(workshop: Workshop, call: Arguments) -> dict[str, Any]:
    """Return the literal parts of a record; parts that are computed are findings."""
    facts: dict[str, Any] = {}
    for keyword in call.keywords:
        try:
            value = workshop.resolver.data(keyword.value, call.scope, call.frame)
            facts[str(keyword.arg)] = value.value if isinstance(value, enum.Enum) else value
        except _UNREAD:
            name = str(facts.get("name", "?"))
            workshop.report_unread(name, str(keyword.arg), call.scope, keyword.value.lineno)
    return facts


def read_low_level(workshop: Workshop, server: Server) -> list[Tool]:
    """Return the tools in the literal list of a low-level server's `list_tools` handler."""
    resolver, listers = workshop.resolver, list(server.listers)
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
        for item in items:
            tool = _described(workshop, item, server)
            if tool is None:
                is_whole = False
            else:
                found.setdefault(tool.name, tool)
    line = listers[0].line if listers else server.call.line if server.call is not None else None
    words = f"'{server.label}' is a low-level server of mcp: its handlers, not functions, answer calls"
    hint = "the definitions in its list are listed"
    workshop.report("low-level-server", "warning", words, server.file.scope, line, hint)
    if not is_whole:
        words = f"The tools of the low-level server '{server.label}' cannot all be read"
        hint = "return a list of Tool(name=..., inputSchema={...})"
        workshop.report("guessed-list", "warning", words, server.file.scope, line, hint)
    for caller in server.callers if is_whole else ():
        for name in sorted(_dispatched(caller.node) - found.keys()):
            words = f"The call_tool handler answers '{name}', which list_tools does not list"
            workshop.report("guessed-more", "advice", words, caller.scope, caller.line, "list it")
    return list(found.values())


def _described(workshop: Workshop, item: Data, server: Server) -> Tool | None:
    thing = workshop.resolver.of(item)
    if not isinstance(thing, Known) or thing.call is None or not is_record(thing):
        return None
    facts = read_record(workshop, thing.call)
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
    workshop.note(tool.origin, (thing.call.key,), (), [*item.guesses, *server.guesses])
    return tool


def _dispatched(node: FunctionNode) -> set[str]:
    """Return the texts that a `call_tool(name, arguments)` handler compares its first parameter with."""
    places = [
        item.arg for item in (*node.args.posonlyargs, *node.args.args) if item.arg not in ("self", "cls")
    ]
    found: list[Any] = []
    for item in ast.walk(node):
        subject = getattr(item, "left", None) or getattr(item, "subject", None)
        if not isinstance(subject, ast.Name) or subject.id not in places[:1]:
            continue
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
}
_CLASS_PARTS = (
    ("name", "description", "input_schema", "execute"),
    ("Name", "Description", "InputSchema", "ExecuteAsync"),
)


def is_tool_object(workshop: Workshop, instance: Instance) -> bool:
    return all(_find(workshop, instance, spellings) for spellings in _SPELLINGS.values())


def _find(workshop: Workshop, instance: Instance, spellings: tuple[str, ...]) -> str | None:
    resolver, cls = workshop.resolver, instance.cls
    fields = {key for key, _, _ in resolver.fields(cls)} if resolver.is_record(cls) else set()
    for name in spellings:
        if name in fields or resolver.member(cls, name) is not None or resolver.assigned(cls, name):
            return name
    return None


def build_object(workshop: Workshop, instance: Instance) -> Any:
    """Return a stand-in with the parts of a tool object; None where its name or handler cannot be read."""
    facts: dict[str, Any] = {}
    findings: list[Finding] = []
    cls = instance.cls
    for part, spellings in {**_SPELLINGS, "output_schema": ("output_schema", "OutputSchema")}.items():
        name = _find(workshop, instance, spellings)
        if name is None:
            continue
        thing = workshop.resolver.attribute(instance, name)
        try:
            is_handler = part == "execute" and isinstance(thing, Function)
            facts[part] = workshop.stub(thing) if is_handler else workshop.resolver.data_of(thing)  # type: ignore[arg-type]
        except _UNREAD:
            words = f"The {part} of {cls.node.name} cannot be told without running the code"
            hint = "write it down as an attribute of the class"
            file, line = str(cls.file.path), cls.line
            findings.append(Finding("unresolved-part", "warning", words, file=file, line=line, hint=hint))
            if part in ("name", "execute"):
                workshop.findings += findings
                return None
            if part != "output_schema":
                facts[part] = dict(_OPEN_SCHEMA) if part == "input_schema" else ""
    made = type(cls.node.name, (), {})()
    for key, value in facts.items():
        setattr(made, key, value)
    mark = workshop.patterns.marks.get(id(cls.node))
    if mark is not None:
        setattr(type(made), MARK, workshop.mark(mark[0]))
    guesses = [*workshop.guesses_about(cls), *workshop.reach(instance)]
    workshop.note(made, (id(instance),), findings, guesses, workshop.notes_of(facts["execute"]))
    return made


# --- applications ------------------------------------------------------------------------------------


def is_application(workshop: Workshop, cls: Class) -> bool:
    """Whether objects of a class list tools; a client that waits for a server to list them does not."""
    resolver = workshop.resolver
    member = resolver.member(cls, "list_tools")
    if member is not None:
        if resolver.server_maker(cls) is not None or not isinstance(member, Function):
            return False
        return not resolver.kinds(member.node, member.scope) & {"async", "property"}
    if _is_ours(workshop, cls):
        return True
    marks = workshop.patterns.marks
    return bool(resolver.unread_bases(cls)) and any(
        id(item) in marks and isinstance(item, FUNCTIONS) for item in cls.node.body
    )


def _is_ours(workshop: Workshop, cls: Class) -> bool:
    return any(isinstance(item, Known) and item.is_application for item in workshop.resolver.ancestors(cls))


def is_complete(workshop: Workshop, cls: Class) -> bool:
    """Whether a class holds tools and is there to be used, not to be inherited from."""
    resolver = workshop.resolver
    if cls.node.name.startswith("_") or _is_abstract(workshop, cls):
        return False
    if is_application(workshop, cls):
        return True
    if resolver.is_model(cls) or not any(
        all(resolver.member(cls, part) is not None for part in parts) for parts in _CLASS_PARTS
    ):
        return False
    thing = resolver.member(cls, "name") or resolver.member(cls, "Name")
    is_text = isinstance(thing, Data) and isinstance(thing.node, ast.Constant)
    return bool(thing.node.value) if is_text else True  # type: ignore[union-attr]


def _is_abstract(workshop: Workshop, cls: Class) -> bool:
    """Whether a class has methods that a subclass must write, and insists on it."""
    resolver, missing = workshop.resolver, set[str]()
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


def guess_base(cls: Class, unread: list[str], what: str) -> Guess:
    return Guess("guessed-base", f"{what} may come from {unread[0]}, which was not read", cls.line)


def build_application(workshop: Workshop, instance: Instance) -> Any:
    """Return a stand-in whose `list_tools` returns stubs of the methods."""
    cls, resolver = instance.cls, workshop.resolver
    lister = resolver.member(cls, "list_tools")
    guesses = [*workshop.guesses_about(cls), *workshop.reach(instance)]
    unread, is_ours = resolver.unread_bases(cls), _is_ours(workshop, cls)
    if unread and not isinstance(lister, Function) and not is_ours:
        guesses.append(guess_base(cls, unread, "its list of tools"))
    if unread and instance.call is None and resolver.member(cls, "__init__") is None:
        guesses.append(guess_base(cls, unread, "how it is made"))
    listed = _marked(workshop, instance)
    if isinstance(lister, Function):
        bound = resolver.function(lister.node, lister.scope, instance)
        listed = _listed(workshop, resolver.returned_items(bound, None), instance)
    made: list[Any] = []
    is_whole = True
    for thing, doubts in listed:
        found = None if thing is None else workshop.make(thing, (*guesses, *doubts))
        is_whole &= found is not None
        made += found if isinstance(found, list) else [] if found is None else [found]
    if not is_whole:
        words = f"{cls.node.name}.list_tools() builds its list in a way that cannot be followed to its end"
        hint = "return a list of methods: [self.first, self.second]"
        workshop.report("guessed-list", "warning", words, cls.scope, cls.line, hint)
    return _stand_in(workshop, instance, made, is_ours=is_ours) if made or is_whole else []


_Listed = Iterable[tuple[Thing | None, tuple[Guess, ...]]]


def _listed(workshop: Workshop, items: Iterable[Data], instance: Instance) -> _Listed:
    for item in items:
        function = item.node.func if isinstance(item.node, ast.Call) else None
        if item.is_open or (isinstance(function, ast.Attribute) and function.attr == "list_tools"):
            if item.is_open or not _is_ours(workshop, instance.cls):
                yield None, item.guesses
            else:
                yield from _marked(workshop, instance)
        else:
            yield workshop.resolver.of(item), item.guesses


def _marked(workshop: Workshop, instance: Instance) -> _Listed:
    """The public methods that `@tool` marks: inherited ones first, each where it is first defined."""
    names: dict[str, Any] = {}
    for item in reversed(workshop.resolver.ancestors(instance.cls)):
        if isinstance(item, Class):
            names.update({name: bindings[-1] for name, bindings in item.body.names.items()})
    for name, binding in names.items():
        mark = workshop.patterns.marks.get(id(binding.node)) if name[0] != "_" else None
        thing = workshop.resolver.attribute(instance, name) if mark is not None else None
        if mark is not None and isinstance(thing, Function):
            yield thing, mark[1]


def _stand_in(workshop: Workshop, instance: Instance, listed: list[Any], *, is_ours: bool) -> Any:
    cls, resolver = instance.cls, workshop.resolver
    facts: dict[str, Any] = {"list_tools": lambda _: list(listed)}
    for key in ("name", "namespace"):
        thing = resolver.attribute(instance, key)
        if key == "name" and is_ours:
            thing = next(_given_names(workshop, instance), thing)
        try:
            if isinstance(thing, Data) and (value := resolver.data_of(thing)) is not None:
                facts[key] = value
        except _UNREAD:
            if key == "namespace":
                words = f"The namespace of {cls.node.name} cannot be told without running the code"
                hint = "write it down as an attribute of the class"
                workshop.report("guessed-name", "warning", words, cls.scope, cls.line, hint)
    made: Any = type(cls.node.name, (Application,) if is_ours else (), facts)
    return made.__new__(made)


def _given_names(workshop: Workshop, instance: Instance) -> Iterator[Thing]:
    """Yield the name that the constructor of toolcrib's own class is given."""
    resolver = workshop.resolver
    init = resolver.member(instance.cls, "__init__")
    calls = [instance.call] if instance.call is not None else []
    if isinstance(init, Function):
        scope = init.file.scope_in(init.node)
        frame = resolver.bind(init.node, scope, instance.call, instance)
        calls = [
            call_at(at.node, scope, frame)
            for at in resolver.survey(init.file).calls
            if at.spot.function is init.node and getattr(at.node.func, "attr", "") == "__init__"
        ]
    bases = [item for item in resolver.ancestors(instance.cls) if isinstance(item, Known)]
    is_first = any(item.is_application and item.last == "Application" for item in bases)
    for call in calls:
        node = call.keyword("name") or (call.args[0] if call.args and is_first else None)
        if node is not None:
            yield resolver.resolve(node, call.scope, call.frame)
