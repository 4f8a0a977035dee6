"""Make tools of what the patterns found: stubs for functions, stand-ins for what holds tools.

Tool objects, applications, tables of definitions and servers become what importing would find, with stubs for
functions, so that the ordinary code reads them. Findings about a tool are kept with its origin.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from toolcrib.component import MARK, SPELLINGS, Component, Tool
from toolcrib.errors import DefinitionError, Finding, InvalidSignatureError, Location
from toolcrib.names import STRICT
from toolcrib.options import NO_OPTIONS, ToolOptions
from toolcrib.registry.registry import ToolRegistry, finding_of
from toolcrib.registry.selection import select
from toolcrib.sources import collect
from toolcrib.sources import objects as strict
from toolcrib.sources.applications import APIApplication, Application
from toolcrib.sources.scan import foreign
from toolcrib.sources.scan.foreign import UNREAD, read_options, read_ours, unread
from toolcrib.sources.scan.patterns import Patterns, placed
from toolcrib.sources.scan.resolve import Resolver, first_parameter
from toolcrib.sources.scan.source_file import FUNCTIONS, Spot, show
from toolcrib.sources.scan.stubs import Stub
from toolcrib.sources.scan.things import (
    Arguments,
    Class,
    Data,
    Function,
    Instance,
    Known,
    Registration,
    Server,
    Thing,
)
from toolcrib.sources.tables import HANDLER_TABLE

MAX_PARAMETERS = 500
_AS_ATTRIBUTE = "write it down as an attribute of the class"
_SETTINGS = ("name_rule", "on_duplicate", "separator")
_ADD_OPTIONS = ("namespace", "switches", "include", "exclude", "on_duplicate", "strict")
_TOOL_CLASSES = frozenset({"Tool", "FunctionTool"})
_NOT_LITERAL = (*UNREAD, DefinitionError, TypeError)


@dataclass(slots=True)
class Note:
    """Findings about the tools of one origin, which is kept so that its id is not used again. Equal keys mean
    one function or object."""

    origin: Any
    key: tuple[int, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    spot: Spot | None = None


class ToolMaker:
    """Makes tools of functions, objects and servers, each once."""

    def __init__(self, resolver: Resolver, patterns: Patterns) -> None:
        self.resolver = resolver
        self.patterns = patterns
        self.findings = patterns.findings
        self.report = patterns.report
        self.read_records: set[int] = set()  # those in tables
        self._notes: dict[int, Note] = {}
        self._stubs: dict[tuple[int, int], Any] = {}
        self._made: dict[Instance, Any] = {}
        self._registries: dict[Server, ToolRegistry] = {}
        self._foreign: dict[Server, list[Component]] = {}

    def note(self, origin: Any, findings: Iterable[Finding] = (), key: tuple[int, ...] = ()) -> Note:
        """Keep findings about the tools of an origin; return all that is known."""
        known = self._notes.get(id(origin))
        if known is None:
            known = self._notes[id(origin)] = Note(origin)
        known.key = known.key or key
        known.findings += findings
        return known

    # --- stubs ---

    def stub(self, function: Function) -> Any:
        """Return a function with the signature of the real one that does nothing, once for each."""
        key = self.key_of(function)
        if key in self._stubs:
            return self._stubs[key]
        made = self.make_stub(function, keeps_contexts=True)
        stub = self._stubs[key] = made.function
        self.note(stub, made.findings, key)
        if stub.__doc__ is None and function.owner is not None:
            stub.__doc__ = self._inherited_docstring(function, function.owner)
        mark = self.patterns.marks.get(id(function.node))
        if mark is not None:
            setattr(stub, MARK, self.mark(mark, stub))
        return stub

    def key_of(self, function: Function) -> tuple[int, int]:
        return id(function.owner), id(function.node)

    def make_stub(
        self, function: Function, *, drops: Collection[str] = (), keeps_contexts: bool = False
    ) -> Stub:
        name, arguments, scope = function.node.name, function.node.args, function.scope
        count = len(arguments.args) + len(arguments.posonlyargs) + len(arguments.kwonlyargs)
        if count > MAX_PARAMETERS:
            raise InvalidSignatureError(
                f"Tool '{name}' has {count} parameters, which no scan reads and no model fills in",
                tool=name,
                source=Location(str(scope.file.path), function.line),
                hint="take one object with fields",
            )
        is_in_class = function.owner is not None or scope.kind == "class"
        kinds = self.resolver.kinds(function.node, scope) if is_in_class else ()
        if "static" not in kinds and (function.owner is not None or "class" in kinds):
            drops = {*drops, first_parameter(function.node)}
        return self.resolver.stubs.make(function.node, scope.file, drops, keeps_contexts=keeps_contexts)

    def _inherited_docstring(self, function: Function, cls: Class) -> str | None:
        for item in self.resolver.ancestors(cls):
            if isinstance(item, Known):
                own = getattr(APIApplication, function.node.name, None) if item.is_application else None
                if own is not None:
                    return inspect.getdoc(own)
                continue
            for binding in item.body.names.get(function.node.name, ()):
                if isinstance(binding.node, FUNCTIONS) and (words := ast.get_docstring(binding.node)):
                    return words
        return None

    def mark(self, call: Arguments, origin: Any) -> ToolOptions:
        """Return the options of `@tool(...)`. What it refuses is a finding, and then there are none."""
        if not call.args and not call.keywords:
            return NO_OPTIONS
        options, findings = read_ours(self.resolver, call)
        self.note(origin, findings)
        try:
            return NO_OPTIONS.override(options)
        except DefinitionError as error:
            self.findings.append(placed(error.finding, call.scope.file, call.line))
            return NO_OPTIONS

    def unknown_handler(self, item: Data) -> Any:
        """Return a handler in place of one that cannot be followed: it takes what its schema admits."""

        async def handler(arguments: dict[str, Any]) -> None:
            _ = arguments

        path, line = str(item.scope.file.path), item.node.lineno
        handler.__code__ = handler.__code__.replace(co_filename=path, co_firstlineno=line)
        return handler

    # --- things ---

    def make(self, thing: Thing) -> Any:
        """Return what `collect` would be given for a thing: None where that is not known, or a list."""
        try:
            return self._make(thing)
        except DefinitionError as error:
            self.findings.append(error.finding)
            return []

    def _make(self, thing: Thing) -> Any:
        match thing:
            case Function():
                return self.stub(thing)
            case Class():
                return self._make(self.resolver.instance(thing))
            case Instance():
                if thing not in self._made:
                    is_app, is_one = is_application(self, thing.cls), is_tool_object(self, thing.cls)
                    build = build_application if is_app else build_object if is_one else None
                    self._made[thing] = None if build is None else build(self, thing.cls)
                return self._made[thing]
            case Server():
                is_ours = foreign.library_of(self, thing) == "toolcrib"
                return self.registry(thing) if is_ours else self.tools_of(thing)
            case Known() if thing.call is not None:
                return self._tool(thing.name, thing.call)
        return None

    def _tool(self, name: str, call: Arguments) -> Any:
        """`Tool.from_function(...)`, of ours or of theirs."""
        package, parts = name.partition(".")[0], name.split(".")
        if parts[-2:-1] and (parts[-2] not in _TOOL_CLASSES or not parts[-1].startswith("from_")):
            return None
        first, options = self.resolver.first(call), call.without_first()
        if package in ("mcp", "fastmcp"):
            if not call.args and (handler := call.keyword("fn")) is not None:
                first = self.resolver.resolve(handler, call.scope)
            return foreign.adopt(self, first, options, package) if isinstance(first, Function) else None
        origin = self.make(first) if package == "toolcrib" else None
        if origin is None:
            return None
        given, findings = read_ours(self.resolver, options)
        self.note(origin, findings)
        make = Tool.from_object if parts[-1] == "from_object" else Tool.from_function
        return make(origin, **given)

    def collide(self, one: Registration, other: Registration) -> bool:
        return collide(one, other)

    def refuse_unknown(self, item: Registration) -> None:
        what = f"`{show(item.thing.node)}`" if isinstance(item.thing, Data) else "Something"
        text = f"{what} is put on the server here, and cannot be told without running the code"
        hint = "register functions by their names"
        self.report("unresolved-tool", "warning", text, item.spot.scope, item.options.line, hint)

    # --- servers ---

    def tools_of(self, server: Server) -> list[Component]:
        """Return the tools of a server of another library."""
        if server not in self._foreign:
            self._foreign[server] = foreign.read_server(self, server)
        return self._foreign[server]

    def registry(self, server: Server) -> ToolRegistry:
        """Return a registry with the tools of a server of ours."""
        if server in self._registries:
            return self._registries[server]
        read = foreign.Options() if server.call is None else read_options(self.resolver, server.call, ())
        settings = {key: value for key, value in read.given.items() if key in _SETTINGS}
        if read.unresolved & {*_SETTINGS, "switches"}:
            self.findings += read.findings
        try:
            registry = ToolRegistry(**settings)
        except ValueError as error:
            self.findings.append(finding_of(server, error))
            registry = ToolRegistry()
        self._registries[server] = registry
        places: dict[str, Registration] = {}
        for item in server.registrations:
            if item.method not in FEATURES:
                try:
                    self._register(registry, item, read.given.get("switches") or {}, places)
                except Exception as error:  # options of any type may have been written
                    place = item.options.scope.file, item.options.line
                    self.findings.append(placed(finding_of(item.thing, error), *place))
        return registry

    def _register(
        self,
        registry: ToolRegistry,
        item: Registration,
        switches: dict[str, bool],
        places: dict[str, Registration],
    ) -> None:
        call, thing = item.options, self.make(item.thing)
        if thing is None:
            self.refuse_unknown(item)
            return
        if item.method == "register_tool" and thing != []:
            strict.check_object(thing, registry.check_free)
            registry.add(Tool.from_object(thing), on_duplicate="error", rule=STRICT)
            return
        options, findings = read_ours(self.resolver, call)
        given: dict[str, Any] = dict(options)
        words = {key: given.pop(key) for key in _ADD_OPTIONS if key in given}
        batch = collect(thing, namespace=words.get("namespace"), **given)
        for tool in batch.tools:
            self.note(tool.origin, findings).spot = item.spot
        batch.switch({**switches, **(words.get("switches") or {})})
        file = call.scope.file
        self.findings += [placed(finding, file, call.line) for finding in batch.findings]
        batch.tools = select(batch.tools, words.get("include") or (), words.get("exclude") or ())
        for tool in list(batch.tools):
            other = places.setdefault(tool.name, item)
            if other is not item and not collide(other, item):
                batch.tools.remove(tool)
        report = registry.add_all(batch.tools, on_duplicate=words.get("on_duplicate"))
        self.findings += [placed(finding, file, call.line) for finding in report.findings]


FEATURES = frozenset({"resource", "prompt", "add_resource", "add_skills"})
"""The methods of a server that take no tools."""


def collide(one: Registration, other: Registration) -> bool:
    """Return whether two registrations certainly happen together, so that one name is refused the second."""
    spots = (one.spot, other.spot)
    is_direct = all(
        not isinstance(item.thing, Function) or item.thing.scope.function in (None, item.spot.scope.function)
        for item in (one, other)
    )
    return is_direct and not any(spot.guards for spot in spots) and one.spot.scope is other.spot.scope


# --- tables ------------------------------------------------------------------------------------------


def read_table(maker: ToolMaker, name: str, item: Data) -> Any:
    """Return a table of definitions or handlers as importing would find it, with stubs for functions. An
    entry of which a part is computed is left out, with a finding; a table that is computed is None."""
    try:
        return _read_part(maker, name, item, 0)
    except _NOT_LITERAL:
        _report_entry(maker, name, item)
        return None


def _read_part(maker: ToolMaker, name: str, item: Data, depth: int) -> Any:
    """Return a table, an entry of it, or a part of an entry."""
    resolver = maker.resolver
    if item.is_open:
        raise TypeError(name)
    thing = resolver.resolve(item.node, item.scope)
    node = thing.node if isinstance(thing, Data) and depth < 2 else None
    if isinstance(thing, Function):
        return maker.stub(thing)
    if isinstance(thing, Known) and thing.call is not None and thing.last == "Tool":
        maker.read_records.add(id(thing.call.keywords))
        return SimpleNamespace(**foreign.read_facts(maker, thing.call))
    if not isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.Set | ast.BinOp):
        return resolver.data_of(thing)
    made: dict[Any, Any] = {}
    for position, part in enumerate(resolver.items(item.node, item.scope)):
        key: Any = position
        try:
            key = position if part.key is None else resolver.data_of(Data(part.key, part.scope))
            made[key] = _read_part(maker, name, part, depth + 1)
        except _NOT_LITERAL:
            if part.key is not None and (key == "handler" or name == HANDLER_TABLE):
                made[key] = maker.unknown_handler(part)
            elif depth:
                raise
            else:
                _report_entry(maker, name, part)
    return made if isinstance(node, ast.Dict) else list(made.values())


def _report_entry(maker: ToolMaker, name: str, item: Data) -> None:
    hint = "write the definitions down in the table"
    line = getattr(item.key or item.node, "lineno", None)
    maker.findings.append(unread(f"A part of {name}", item.scope, line, "guessed-table", hint))


# --- tool objects ------------------------------------------------------------------------------------


def is_tool_object(maker: ToolMaker, cls: Class) -> bool:
    return all(_find(maker, cls, spellings) for spellings in SPELLINGS.values())


def _find(maker: ToolMaker, cls: Class, spellings: Sequence[str]) -> str | None:
    """Return the attribute that holds a part of a tool object."""
    resolver = maker.resolver
    fields = resolver.fields(cls)
    for name in spellings:
        if name in fields or resolver.member(cls, name) is not None or resolver.assigned(cls, name):
            return name
    return None


def build_object(maker: ToolMaker, cls: Class) -> Any:
    """Return a stand-in with the parts of a tool object; None where its name or handler cannot be read."""
    findings: list[Finding] = []
    instance = maker.resolver.instance(cls)
    made = type(cls.node.name, (), {})()
    for part, spellings in (*SPELLINGS.items(), ("output_schema", ("output_schema", "OutputSchema"))):
        name = _find(maker, cls, spellings)
        if name is None:
            continue
        thing = maker.resolver.attribute(instance, name)
        try:
            is_handler = part == "execute" and isinstance(thing, Function)
            setattr(made, part, maker.stub(thing) if is_handler else maker.resolver.data_of(thing))  # type: ignore[arg-type]
        except UNREAD:
            what = f"The {part} of {cls.node.name}"
            findings.append(unread(what, cls.scope, cls.line, "unresolved-part", _AS_ATTRIBUTE))
            if part in ("name", "execute"):
                maker.findings += findings
                return []
            if part != "output_schema":
                setattr(made, part, dict(foreign.OPEN_SCHEMA) if part == "input_schema" else "")
    mark = maker.patterns.marks.get(id(cls.node))
    if mark is not None:
        setattr(type(made), MARK, maker.mark(mark, made))
    maker.note(made, [*findings, *maker.note(made.execute).findings], (id(cls),))
    return made


# --- applications ------------------------------------------------------------------------------------


def is_application(maker: ToolMaker, cls: Class) -> bool:
    """Return whether objects of a class list tools; a client that waits for a server's list does not."""
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
    has_parts = any(all(resolver.member(cls, part) for part in names) for names in strict.TOOL_ATTRIBUTES)
    thing = resolver.member(cls, "name") or resolver.member(cls, "Name")
    is_text = isinstance(thing, Data) and isinstance(thing.node, ast.Constant)
    return has_parts and not resolver.is_model(cls) and (not is_text or bool(thing.node.value))  # type: ignore[union-attr]


def _is_abstract(maker: ToolMaker, cls: Class) -> bool:
    """Return whether a class has methods that a subclass must write, and insists on it."""
    resolver = maker.resolver
    ancestors = resolver.ancestors(cls)
    metas = [keyword.value for item in ancestors if isinstance(item, Class) for keyword in item.node.keywords]
    insists = any(show(item).endswith("ABCMeta") for item in metas)
    if not insists and not {"abc.ABC", "typing.Protocol"} & {getattr(item, "name", "") for item in ancestors}:
        return False
    names = {name for item in resolver.classes(cls) for name in item.body.names}
    members = (resolver.member(cls, name) for name in names)
    functions = [member for member in members if isinstance(member, Function)]
    return any("abstract" in resolver.kinds(member.node, member.scope) for member in functions)


def build_application(maker: ToolMaker, cls: Class) -> Any:
    """Return a stand-in whose `list_tools` returns stubs of the methods."""
    resolver = maker.resolver
    lister, is_ours = resolver.member(cls, "list_tools"), _is_ours(maker, cls)
    unread_bases = resolver.unread_bases(cls)
    if unread_bases and not isinstance(lister, Function) and not is_ours:
        text = f"Tools of {cls.node.name} may come from {unread_bases[0]}, which is not read"
        maker.report("guessed-base", "advice", text, cls.scope, cls.line, "scan it too")
    listed = _marked(maker, cls)
    if isinstance(lister, Function):
        listed = _listed(maker, resolver.function(lister.node, lister.scope, cls), cls)
    made: list[Any] = []
    is_whole = True
    for thing in listed:
        if isinstance(thing, Function) and thing.owner is not None:  # it may be overridden
            thing = resolver.attribute(resolver.instance(cls), thing.node.name)
        found = maker.make(thing) if isinstance(thing, Function | Instance) else None
        is_whole &= found is not None
        made += found if isinstance(found, list) else [] if found is None else [found]
    if not is_whole and (is_ours or made or _names_methods(maker, cls)):
        text = f"{cls.node.name}.list_tools() builds its list in a way that cannot be followed to its end"
        hint = "return a list of methods: [self.first, self.second]"
        line = lister.line if isinstance(lister, Function) else cls.line
        maker.report("guessed-list", "warning", text, cls.scope, line, hint)
    return _stand_in(maker, cls, made, is_ours=is_ours) if made or is_whole else []


def _listed(maker: ToolMaker, lister: Function, cls: Class) -> Iterator[Thing]:
    for item in maker.resolver.returned_items(lister):
        function = item.node.func if isinstance(item.node, ast.Call) else None
        if not item.is_open and getattr(function, "attr", "") != "list_tools":
            yield maker.resolver.resolve(item.node, item.scope)
        elif item.is_open or not _is_ours(maker, cls):
            yield item
        else:  # super().list_tools()
            yield from _marked(maker, cls)


def _names_methods(maker: ToolMaker, cls: Class) -> bool:
    """Return whether `list_tools` names methods of its class, and does not just hand on what it was given."""
    lister = maker.resolver.member(cls, "list_tools")
    names = {item.attr for item in ast.walk(lister.node) if isinstance(item, ast.Attribute)}  # type: ignore[union-attr]
    return any(isinstance(maker.resolver.member(cls, name), Function) for name in names - {"list_tools"})


def _marked(maker: ToolMaker, cls: Class) -> Iterator[Thing]:
    """The public methods that `@tool` marks: inherited ones first, each where it is first defined."""
    classes = reversed(maker.resolver.classes(cls))
    names = {name: several[-1] for item in classes for name, several in item.body.names.items()}
    instance = maker.resolver.instance(cls)
    for name, binding in names.items():
        if name[0] != "_" and id(binding.node) in maker.patterns.marks:
            yield maker.resolver.attribute(instance, name)


def _stand_in(maker: ToolMaker, cls: Class, listed: list[Any], *, is_ours: bool) -> Any:
    facts: dict[str, Any] = {"list_tools": lambda _: list(listed)}
    for key in ("name", "namespace"):
        thing = maker.resolver.attribute(maker.resolver.instance(cls), key)
        try:
            if isinstance(thing, Data) and (value := maker.resolver.data_of(thing)) is not None:
                facts[key] = value
        except UNREAD:
            if key == "namespace":
                what = f"The namespace of {cls.node.name}"
                maker.findings.append(unread(what, cls.scope, cls.line, "guessed-name", _AS_ATTRIBUTE))
    made: Any = type(cls.node.name, (Application,) if is_ours else (), facts)
    return made.__new__(made)
