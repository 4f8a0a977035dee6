"""Things that hold tools: applications, tool objects, tables of definitions, low-level servers.

Each becomes what importing would find, with stubs for functions, so that the ordinary code reads it.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from toolcrib.definition import ToolDefinition
from toolcrib.errors import DefinitionError, Finding, Location
from toolcrib.sources.applications import Application
from toolcrib.sources.described import describe
from toolcrib.sources.scan.resolve import (
    Arguments,
    Class,
    Data,
    Function,
    Instance,
    Item,
    Known,
    Server,
    Thing,
    is_our_application,
)
from toolcrib.sources.scan.scopes import Scope
from toolcrib.sources.scan.survey import Guess
from toolcrib.sources.scan.values import Unresolved
from toolcrib.tool import MARK, Tool

if TYPE_CHECKING:
    from toolcrib.sources.scan.making import Workshop

_SCHEMA_KEYS = frozenset({"schema", "input_schema", "inputSchema", "parameters"})
_MISSING: Any = object()
_OPEN_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}

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
        if not isinstance(thing, Data):
            self.refuse(None)
            return None
        if isinstance(thing.node, ast.Dict):
            return self._by_name(list(self.resolver.pairs(node, self.scope, thing.frame)))
        if isinstance(thing.node, ast.List | ast.Tuple | ast.Set | ast.BinOp | ast.ListComp):
            made = []
            for item in self.resolver.items(node, self.scope, thing.frame):
                entry = _MISSING if item.node is None else self._entry(item)
                if entry is _MISSING:
                    self.refuse(item)
                else:
                    made.append(entry)
            return made
        entry = self._entry(Item(thing.node, thing.scope, thing.frame))
        if entry is _MISSING:
            self.refuse(None)
            return None
        return entry

    def handlers(self, thing: Thing, node: ast.expr) -> Any:
        """Return a table of handlers; anything else as it is, for others to refuse."""
        if not isinstance(thing, Data) or not isinstance(thing.node, ast.Dict):
            return self._entry(Item(node, self.scope, getattr(thing, "frame", None) or self.workshop.root))
        handlers: dict[str, Any] = {}
        for item in self.resolver.pairs(node, self.scope, thing.frame):
            key = self._key(item)
            if key is not _MISSING:
                handlers[key] = self._handler(item, str(key))
        return handlers

    def _by_name(self, items: list[Item]) -> dict[Any, Any]:
        """Return one definition, or definitions by name."""
        keys = [self._key(item) for item in items]
        if "name" in keys and _SCHEMA_KEYS & {key for key in keys if isinstance(key, str)}:
            return self._definition(items, keys)
        made: dict[Any, Any] = {}
        for key, item in zip(keys, items, strict=True):
            entry = _MISSING if key is _MISSING else self._entry(item, key)
            if entry is _MISSING:
                self.refuse(item)
            else:
                made[key] = entry
        return made

    def _entry(self, item: Item, label: Any = None) -> Any:
        assert item.node is not None  # nosec B101  # callers look
        thing = self.resolver.resolve(item.node, item.scope, item.frame)
        if isinstance(thing, Data) and isinstance(thing.node, ast.Dict):
            items = list(self.resolver.pairs(thing.node, thing.scope, thing.frame))
            return self._definition(items, [self._key(each) for each in items], label)
        if is_record(thing):
            facts = read_record(self.workshop, thing.call)  # type: ignore[attr-defined]
            return SimpleNamespace(**facts)
        try:
            return self.resolver.data_of(thing)
        except (Unresolved, RecursionError):
            return _MISSING

    def _definition(self, items: list[Item], keys: list[Any], label: Any = None) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, item in zip(keys, items, strict=True):
            if key is _MISSING or item.node is None:
                self.refuse(item)
            elif key != "handler":
                try:
                    made[key] = self.resolver.data(item.node, item.scope, item.frame)
                except (Unresolved, RecursionError):
                    tool = str(made.get("name", label or self.name))
                    self.workshop.findings.append(_unread(tool, str(key), self.scope, _line(item)))
        for key, item in zip(keys, items, strict=True):
            if key == "handler" and item.node is not None:
                made["handler"] = self._handler(item, str(made.get("name", label)))
        return made

    def _handler(self, item: Item, label: str) -> Any:
        assert item.node is not None  # nosec B101  # callers look
        thing = self.resolver.resolve(item.node, item.scope, item.frame)
        try:
            if isinstance(thing, Function):
                return self.workshop.stub(thing)
            return self.resolver.data_of(thing)  # no function at all: others report it
        except (Unresolved, RecursionError, DefinitionError):
            guess = Guess("guessed-handler", "its handler cannot be followed")
            where = Location(str(self.scope.file.path), _line(item) or 1)
            return self.workshop.unknown_handler(label, where, guess)

    def _key(self, item: Item) -> Any:
        if item.key is None or item.node is None:
            return _MISSING
        try:
            key = self.resolver.data(item.key, item.scope, item.frame)
            hash(key)
        except (Unresolved, RecursionError, TypeError):
            return _MISSING
        return key

    def refuse(self, item: Item | None) -> None:
        words = f"{self.name} holds something that cannot be told without running the code"
        hint = "write the definitions down in the table"
        self.workshop.has_open_tables = True
        line = None if item is None else _line(item)
        self.workshop.findings.append(
            Finding("guessed-table", "warning", words, file=str(self.scope.file.path), line=line, hint=hint)
        )


def _line(item: Item) -> int | None:
    node = item.key or item.node
    return getattr(node, "lineno", None)


def _unread(tool: str, key: str, scope: Scope, line: int | None) -> Finding:
    words = f"'{key}' of tool '{tool}' cannot be told without running the code"
    hint = "write it as a literal, or as a constant of the module"
    return Finding("unresolved-option", "warning", words, tool, None, str(scope.file.path), line, hint)


# --- low-level servers -------------------------------------------------------------------------------


def is_record(thing: Thing) -> bool:
    """Whether this is `Tool(name=..., inputSchema=...)` of the official SDK."""
    return (
        isinstance(thing, Known)
        and thing.call is not None
        and thing.package in ("mcp", "mcp_types")
        and thing.last == "Tool"
    )


def read_record(workshop: Workshop, call: Arguments) -> dict[str, Any]:
    """Return the literal parts of a record; parts that are computed are findings."""
    facts: dict[str, Any] = {}
    for keyword in call.keywords:
        try:
            value = workshop.resolver.data(keyword.value, call.scope, call.frame)
            facts[str(keyword.arg)] = value.value if isinstance(value, enum.Enum) else value
        except (Unresolved, RecursionError):
            name = str(facts.get("name", "?"))
            workshop.findings.append(_unread(name, str(keyword.arg), call.scope, keyword.value.lineno))
    return facts


def read_low_level(workshop: Workshop, server: Server) -> list[Tool]:
    """Return the tools in the literal list of a low-level server's `list_tools` handler."""
    resolver = workshop.resolver
    listers = list(server.listers)
    given = server.call.keyword("on_list_tools") if server.call is not None else None
    if given is not None and server.call is not None:
        thing = resolver.resolve(given, server.call.scope, server.call.frame)
        listers += [thing] if isinstance(thing, Function) else []
    found: dict[str, Tool] = {}
    is_whole = bool(listers)
    for lister in listers:
        for item in _listed(workshop, lister):
            tool = _described(workshop, item, server) if item.node is not None else None
            if tool is None:
                is_whole = False
            else:
                found.setdefault(tool.name, tool)
    file = server.file
    if file is not None:
        place = listers[0].line if listers else server.call.line if server.call is not None else None
        _report(workshop, server, str(file.path), place, found, is_whole=is_whole)
    return list(found.values())


def _listed(workshop: Workshop, lister: Function) -> Iterable[Item]:
    """Yield the items of the list that a handler returns, also inside a `ListToolsResult(tools=[...])`."""
    resolver = workshop.resolver
    thing = resolver.returned(lister, None)
    if isinstance(thing, Known) and thing.call is not None and thing.last == "ListToolsResult":
        tools = thing.call.keyword("tools")
        if tools is not None:
            return resolver.items(tools, thing.call.scope, thing.call.frame)
    return resolver.returned_items(lister, None)


def _described(workshop: Workshop, item: Item, server: Server) -> Tool | None:
    assert item.node is not None  # nosec B101  # the caller looked
    thing = workshop.resolver.resolve(item.node, item.scope, item.frame)
    if not is_record(thing) or not isinstance(thing, Known) or thing.call is None:
        return None
    facts = read_record(workshop, thing.call)
    name = facts.get("name")
    if not isinstance(name, str):
        return None
    schema = facts.get("inputSchema", facts.get("input_schema"))
    output = facts.get("outputSchema", facts.get("output_schema"))
    definition = ToolDefinition(
        name=name,
        description=str(facts.get("description") or ""),
        input_schema=schema if isinstance(schema, dict) else dict(_OPEN_SCHEMA),
        output_schema=output if isinstance(output, dict) else None,
        title=facts.get("title"),
        source=Location(str(thing.call.file.path), thing.call.line),
    )
    tool = describe(definition)
    workshop.note(tool.origin, (id(thing.call),), (), [*item.guesses, *server.guesses])
    return tool


def _report(
    workshop: Workshop, server: Server, file: str, line: int | None, found: dict[str, Tool], *, is_whole: bool
) -> None:
    words = f"'{server.label}' is a low-level server of mcp: its handlers, not functions, answer calls"
    hint = "toolcrib lists its literal definitions"
    workshop.findings.append(Finding("low-level-server", "warning", words, file=file, line=line, hint=hint))
    if not is_whole:
        words = f"The tools of the low-level server '{server.label}' cannot all be read"
        hint = "return a list of Tool(name=..., inputSchema={...})"
        workshop.findings.append(Finding("guessed-list", "warning", words, file=file, line=line, hint=hint))
        return
    for caller in server.callers:
        for name in sorted(_dispatched(caller.node) - found.keys()):
            words = f"The call_tool handler answers '{name}', which list_tools does not list"
            workshop.findings.append(Finding("guessed-more", "advice", words, file=file, line=caller.line))


def _dispatched(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names that a `call_tool(name, arguments)` handler compares its first parameter with."""
    places = [
        item.arg for item in (*node.args.posonlyargs, *node.args.args) if item.arg not in ("self", "cls")
    ]
    found: set[str] = set()
    for item in ast.walk(node):
        if isinstance(item, ast.Compare) and isinstance(item.left, ast.Name) and item.left.id in places[:1]:
            for operator, other in zip(item.ops, item.comparators, strict=True):
                if isinstance(operator, ast.Eq) and isinstance(other, ast.Constant):
                    found |= {other.value} if isinstance(other.value, str) else set()
        elif (
            isinstance(item, ast.Match)
            and isinstance(item.subject, ast.Name)
            and item.subject.id in places[:1]
        ):
            for case in item.cases:
                value = case.pattern.value if isinstance(case.pattern, ast.MatchValue) else None
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    found.add(value.value)
    return found


# --- tool objects ------------------------------------------------------------------------------------

_SPELLINGS = {
    "name": ("name", "Name"),
    "description": ("description", "Description"),
    "input_schema": ("input_schema", "InputSchema", "inputSchema"),
    "execute": ("execute", "ExecuteAsync", "execute_async"),
}
_OUTPUT = ("output_schema", "OutputSchema")
_CLASS_PARTS = (
    ("name", "description", "input_schema", "execute"),
    ("Name", "Description", "InputSchema", "ExecuteAsync"),
)


def is_tool_class(workshop: Workshop, cls: Class) -> bool:
    """Whether the body of a class has all parts of a tool object."""
    resolver = workshop.resolver
    return not resolver.is_model(cls) and any(
        all(resolver.member(cls, part) is not None for part in parts) for parts in _CLASS_PARTS
    )


def is_tool_object(workshop: Workshop, instance: Instance) -> bool:
    return all(_find(workshop, instance, spellings) for spellings in _SPELLINGS.values())


def _find(workshop: Workshop, instance: Instance, spellings: tuple[str, ...]) -> str | None:
    resolver = workshop.resolver
    for name in spellings:
        fields = (
            {key for key, _, _ in resolver.fields(instance.cls)} if resolver.is_record(instance.cls) else ()
        )
        has = name in fields or resolver.member(instance.cls, name) is not None
        if has or next(resolver._assigned(instance.cls, name), None) is not None:
            return name
    return None


def build_object(workshop: Workshop, instance: Instance) -> Any:
    """Return a stand-in with the parts of a tool object; None where its name or handler cannot be read."""
    facts: dict[str, Any] = {}
    findings: list[Finding] = []
    for part, spellings in {**_SPELLINGS, "output_schema": _OUTPUT}.items():
        name = _find(workshop, instance, spellings)
        if name is None:
            continue
        thing = workshop.resolver.of_instance(instance, name)
        if part == "execute" and isinstance(thing, Function):
            facts["execute"] = workshop.stub(thing)
            continue
        try:
            facts[part] = workshop.resolver.data_of(thing)
        except (Unresolved, RecursionError):
            findings.append(_unread_part(instance.cls, part))
            if part in ("name", "execute"):
                workshop.findings += findings
                return None
            facts[part] = dict(_OPEN_SCHEMA) if part == "input_schema" else ""
            if part == "output_schema":
                del facts[part]
    mark = workshop.patterns.marks.get(id(instance.cls.node))
    if mark is not None:
        facts[MARK] = workshop.mark(mark[0])
    made = type(instance.cls.node.name, (), {})()
    for key, value in facts.items():
        setattr(type(made) if key == MARK else made, key, value)
    guesses = [*workshop.guesses_about(instance.cls), *workshop.reach(instance)]
    workshop.note(made, (id(instance),), findings, guesses, workshop.notes_of(facts["execute"]))
    return made


def _unread_part(cls: Class, part: str) -> Finding:
    words = f"The {part} of {cls.node.name} cannot be told without running the code"
    hint = "write it down as an attribute of the class"
    file = str(cls.scope.file.path)
    return Finding("unresolved-part", "warning", words, file=file, line=cls.line, hint=hint)


# --- applications ------------------------------------------------------------------------------------


def is_application(workshop: Workshop, cls: Class) -> bool:
    """Whether objects of a class list tools; a client that waits for a server to list them does not."""
    resolver = workshop.resolver
    member = resolver.member(cls, "list_tools")
    if member is not None:
        if resolver.server_maker(cls) is not None or resolver.is_low_level_class(cls):
            return False
        return isinstance(member, Function) and not resolver.kinds(member.node, member.scope) & {
            "async",
            "property",
        }
    if any(is_our_application(item) for item in resolver.ancestors(cls)):
        return True
    return bool(resolver.unread_bases(cls)) and any(
        isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and id(item) in workshop.patterns.marks
        for item in cls.node.body
    )


def is_complete(workshop: Workshop, cls: Class) -> bool:
    """Whether a class holds tools and is there to be used, not to be inherited from."""
    if cls.node.name.startswith("_") or _is_abstract(workshop, cls):
        return False
    if is_application(workshop, cls):
        return True
    if not is_tool_class(workshop, cls):
        return False
    thing = workshop.resolver.member(cls, "name") or workshop.resolver.member(cls, "Name")
    if isinstance(thing, Data) and isinstance(thing.node, ast.Constant):
        return bool(thing.node.value)
    return thing is not None


def _is_abstract(workshop: Workshop, cls: Class) -> bool:
    """Whether a class has methods that a subclass must write, and insists on it."""
    resolver = workshop.resolver
    line = resolver.ancestors(cls)
    insists = any(
        isinstance(item, Known) and item.name in ("abc.ABC", "typing.Protocol") for item in line
    ) or any(
        keyword.arg == "metaclass" and ast.unparse(keyword.value).endswith("ABCMeta")
        for item in line
        if isinstance(item, Class)
        for keyword in item.node.keywords
    )
    missing: set[str] = set()
    for item in reversed(line) if insists else ():
        for statement in item.node.body if isinstance(item, Class) else ():
            name = getattr(statement, "name", None)
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                assert isinstance(item, Class)  # nosec B101  # it has a body
                is_missing = "abstract" in resolver.kinds(statement, item.body)
                (missing.add if is_missing else missing.discard)(statement.name)
            elif name is not None:
                missing.discard(name)
    return bool(missing)


def build_application(workshop: Workshop, instance: Instance) -> Any:
    """Return a stand-in whose `list_tools` returns stubs of the methods."""
    cls, resolver = instance.cls, workshop.resolver
    lister = resolver.member(cls, "list_tools")
    guesses = [*workshop.guesses_about(cls), *workshop.reach(instance)]
    items: Iterable[Item] = ()
    if isinstance(lister, Function):
        items = resolver.returned_items(resolver.function(lister.node, lister.scope, instance), None)
    unread = resolver.unread_bases(cls)
    is_ours = any(is_our_application(item) for item in resolver.ancestors(cls))
    if unread and not isinstance(lister, Function) and not is_ours:
        guesses.append(guess_base(cls, unread, "its list of tools"))
    if unread and instance.call is None and resolver.member(cls, "__init__") is None:
        guesses.append(guess_base(cls, unread, "how it is made"))
    made: list[Any] = []
    is_whole = True
    for thing, doubts in [*_marked(workshop, instance, lister), *_things(workshop, items, instance)]:
        if thing is None:
            is_whole = False
            continue
        found = workshop.make(thing, (*guesses, *doubts))
        if found is None:
            is_whole = False
        else:
            made += found if isinstance(found, list) else [found]
    if not is_whole:
        words = f"{cls.node.name}.list_tools() builds its list in a way that cannot be followed to its end"
        hint = "return a list of methods: [self.first, self.second]"
        file = str(cls.scope.file.path)
        workshop.findings.append(
            Finding("guessed-list", "warning", words, file=file, line=cls.line, hint=hint)
        )
    return _stand_in(workshop, instance, made, is_ours=is_ours) if made or is_whole else []


def guess_base(cls: Class, unread: list[str], what: str) -> Guess:
    return Guess("guessed-base", f"{what} may come from {unread[0]}, which was not read", cls.line)


def _things(
    workshop: Workshop, items: Iterable[Item], instance: Instance
) -> Iterable[tuple[Thing | None, tuple[Guess, ...]]]:
    for item in items:
        if item.node is None:
            yield None, item.guesses
            continue
        call = item.node
        is_super = isinstance(call, ast.Call) and ast.unparse(call.func) == "super().list_tools"
        if is_super and any(is_our_application(each) for each in workshop.resolver.ancestors(instance.cls)):
            yield from _marked(workshop, instance, None)
        elif is_super:
            yield None, item.guesses
        else:
            yield workshop.resolver.resolve(item.node, item.scope, item.frame), item.guesses


def _marked(
    workshop: Workshop, instance: Instance, lister: Thing | None
) -> Iterable[tuple[Thing | None, tuple[Guess, ...]]]:
    """The public methods that `@tool` marks: inherited ones first, each where it is first defined."""
    if isinstance(lister, Function):
        return
    resolver = workshop.resolver
    names: dict[str, Any] = {}
    for item in reversed(resolver.ancestors(instance.cls)):
        if isinstance(item, Class):
            names.update({name: bindings[-1] for name, bindings in item.body.names.items()})
    for name, binding in names.items():
        if name[0] != "_" and id(binding.node) in workshop.patterns.marks:
            thing = resolver.of_instance(instance, name)
            if isinstance(thing, Function):
                yield thing, workshop.patterns.marks[id(binding.node)][1]


def _stand_in(workshop: Workshop, instance: Instance, listed: list[Any], *, is_ours: bool) -> Any:
    cls, resolver = instance.cls, workshop.resolver
    lists: Callable[[Any], list[Any]] = lambda _: list(listed)  # noqa: E731 - it becomes a method
    facts: dict[str, Any] = {"list_tools": lists}
    for key in ("name", "namespace"):
        thing = resolver.of_instance(instance, key)
        if key == "name" and is_ours:
            thing = _given_name(workshop, instance) or thing
        if not isinstance(thing, Data):
            continue
        try:
            facts[key] = resolver.data_of(thing)
        except (Unresolved, RecursionError):
            if key == "namespace":
                words = f"The namespace of {cls.node.name} cannot be told without running the code"
                hint = "write it down as an attribute of the class"
                file = str(cls.scope.file.path)
                workshop.findings.append(
                    Finding("guessed-name", "warning", words, file=file, line=cls.line, hint=hint)
                )
    if facts.get("name", "") is None:
        del facts["name"]
    made: Any = type(cls.node.name, (Application,) if is_ours else (), facts)
    return made.__new__(made)


def _given_name(workshop: Workshop, instance: Instance) -> Thing | None:
    """Return the name that the constructor of toolcrib's own class is given."""
    resolver = workshop.resolver
    init = resolver.member(instance.cls, "__init__")
    calls: list[Arguments] = []
    if isinstance(init, Function):
        scope = init.scope.file.scope_in(init.node)
        frame = resolver._bind(init.node, scope, instance.call, instance)
        for at in resolver.survey(init.scope.file).calls:
            function = at.node.func
            if (
                at.spot.function is init.node
                and isinstance(function, ast.Attribute)
                and function.attr == "__init__"
            ):
                calls.append(Arguments(at.node.args, at.node.keywords, scope, frame, at.node.lineno))
    elif instance.call is not None:
        calls.append(instance.call)
    base = next(item for item in resolver.ancestors(instance.cls) if is_our_application(item))
    for call in calls:
        node = call.keyword("name")
        if node is None and call.args and isinstance(base, Known) and base.last == "Application":
            node = call.args[0]
        if node is not None:
            return resolver.resolve(node, call.scope, call.frame)
    return None
