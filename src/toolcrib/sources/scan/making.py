"""Make tools of what the patterns found: stubs for functions, stand-ins for what holds tools.

Tool objects, applications and tables of definitions become what importing would find, with stubs for
functions, so that the ordinary code reads them. Findings about a tool are kept with its origin.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from toolcrib.component import MARK, SPELLINGS, Component, Tool
from toolcrib.errors import DefinitionError, Finding, InvalidSignatureError, Location
from toolcrib.options import NO_OPTIONS
from toolcrib.registry.registry import finding_of
from toolcrib.registry.selection import select
from toolcrib.sources import collect
from toolcrib.sources import objects as strict
from toolcrib.sources.applications import Application
from toolcrib.sources.scan import foreign
from toolcrib.sources.scan.foreign import UNREAD, Options, read_options, read_ours, unread
from toolcrib.sources.scan.patterns import FEATURES, Patterns, Record, last_name, placed
from toolcrib.sources.scan.resolve import (
    Arguments,
    Class,
    Data,
    Function,
    Instance,
    Known,
    Registration,
    Resolver,
    Server,
    Thing,
    first_parameter,
)
from toolcrib.sources.scan.source_file import FUNCTIONS, Spot, show
from toolcrib.sources.scan.stubs import Stub, Stubs
from toolcrib.sources.scan.values import Site, Unresolved

MAX_PARAMETERS = 500
_AS_ATTRIBUTE = "write it down as an attribute of the class"
_SETTINGS = ("name_rule", "separator", "switches")
_ADD_OPTIONS = ("namespace", "switches", "include", "exclude", "on_duplicate", "strict")


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
        self.stubs = Stubs(resolver)
        self.stubs.evaluator.make_function = self.stub
        self.findings = patterns.findings
        self.report = patterns.report
        self.tabled: set[int] = set()  # the records in tables
        self._notes: dict[int, Note] = {}
        self._made: dict[Any, Any] = {}

    def note(self, origin: Any, findings: Iterable[Finding] = (), key: tuple[int, ...] = ()) -> Note:
        """Keep findings about the tools of an origin; return all that is known."""
        known = self._notes.setdefault(id(origin), Note(origin))
        known.key = known.key or key
        known.findings += findings
        return known

    def is_in_table(self, record: Record) -> bool:
        return id(record.node) in self.tabled

    def data_of(self, thing: Thing, *, is_table: bool = False) -> Any:
        """Return the value of a thing that is data. Raise Unresolved where only running would tell."""
        if isinstance(thing, Data) and not thing.is_open:
            return self.stubs.value(thing.node, Site(thing.scope, is_table=is_table))
        raise Unresolved("it is no data")

    # --- stubs ---

    def stub(self, function: Function) -> Any:
        """Return a function with the signature of the real one that does nothing, once for each."""
        key = self.key_of(function)
        if key not in self._made:
            made = self.make_stub(function, keeps_contexts=True)
            stub = self._made[key] = made.function
            self.note(stub, made.findings, key)
            if stub.__doc__ is None and function.owner is not None:
                stub.__doc__ = self._inherited_docstring(function, function.owner)
            self._mark(function.node, stub, stub)
        return self._made[key]

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
        return self.stubs.make(function.node, scope.file, drops, keeps_contexts=keeps_contexts)

    def _inherited_docstring(self, function: Function, cls: Class) -> str | None:
        for item in self.resolver.classes(cls):
            for binding in item.body.names.get(function.node.name, ()):
                if isinstance(binding.node, FUNCTIONS) and (words := ast.get_docstring(binding.node)):
                    return words
        return None

    def _mark(self, node: ast.AST, origin: Any, holder: Any) -> None:
        """Give a stub the options of its `@tool(...)`; there are none, and a finding, if they are invalid."""
        call = self.patterns.marks.get(id(node))
        if call is None:
            return
        options, findings = read_ours(self, call)
        self.note(origin, findings)
        setattr(holder, MARK, NO_OPTIONS)
        try:
            setattr(holder, MARK, NO_OPTIONS.override(options))
        except DefinitionError as error:
            self.findings.append(placed(error.finding, call.scope.file, call.line))

    # --- things ---

    def make(self, thing: Thing) -> Any:
        """Return what `collect` would be given for a thing: None where that is not known, or a list."""
        try:
            match thing:
                case Function():
                    return self.stub(thing)
                case Class():
                    return self.make(self.resolver.instance(thing))
                case Instance(cls=cls):
                    if thing not in self._made:
                        is_app, is_one = is_application(self, cls), is_tool_object(self, cls)
                        build = build_application if is_app else build_object if is_one else None
                        self._made[thing] = None if build is None else build(self, cls)
                    return self._made[thing]
                case Server():
                    return self.tools_of(thing)
                case Known(call=Arguments() as call):
                    return self._tool(call, is_ours=thing.package == "toolcrib")
                case Data(node=ast.Call() as node, scope=scope):
                    return self._tool(Arguments.of(node, scope), is_ours=False)
        except DefinitionError as error:
            self.findings.append(error.finding)
            return []
        return None

    def _tool(self, call: Arguments, *, is_ours: bool) -> Any:
        """`Tool.from_function(...)`, of ours or of theirs."""
        node = call.args[0] if call.args else call.keyword("fn")
        if last_name(call.node) != "from_function" or node is None:
            return None
        thing, options = self.resolver.resolve(node, call.scope), call.without_first()
        if not isinstance(thing, Function):
            return None
        if not is_ours:
            return foreign.adopt(self, thing, options, "fastmcp")
        given, findings = read_ours(self, options)
        self.note(self.stub(thing), findings)
        return Tool.from_function(self.stub(thing), **given)

    # --- servers ---

    def settings(self, server: Server) -> dict[str, Any]:
        """Return the options of a server of ours that its tools depend on."""
        read = Options() if server.call is None else read_options(self, server.call, ())
        if read.unresolved & {*_SETTINGS}:
            self.findings += read.findings
        return {key: value for key, value in read.given.items() if key in _SETTINGS}

    def tools_of(self, server: Server) -> list[Component]:
        """Return the tools of a server, each time the same."""
        if server in self._made:
            return self._made[server]  # type: ignore[no-any-return]
        found: list[Component] = []
        self._made[server] = found
        library = foreign.library_of(self, server)
        for item in server.registrations:
            if item.method in FEATURES:
                continue
            try:
                if library == "toolcrib":
                    tools = self._registered(item, self.settings(server).get("switches") or {})
                else:
                    tools = foreign.read_one(self, library, item)
            except Exception as error:  # options of any type may have been written
                place = item.options.scope.file, item.options.line
                self.findings.append(placed(finding_of(item.thing, error), *place))
                continue
            for tool in tools:
                self.note(tool.origin).spot = item.spot
                found.append(
                    tool.with_options(name=f"{server.prefix}_{tool.name}") if server.prefix else tool
                )
        return found

    def _registered(self, item: Registration, switches: dict[str, bool]) -> list[Component]:
        """Return what `server.add(...)` adds."""
        call, thing = item.options, self.make(item.thing)
        if thing is None:
            self.refuse_unknown(item)
            return []
        if item.method == "register_tool" and thing != []:
            strict.check_object(thing, lambda _: None)
            return [Tool.from_object(thing)]
        options, findings = read_ours(self, call)
        given: dict[str, Any] = dict(options)
        words = {key: given.pop(key) for key in _ADD_OPTIONS if key in given}
        batch = collect(thing, namespace=words.get("namespace"), **given)
        for tool in batch.tools:
            self.note(tool.origin, findings)
        batch.switch({**switches, **(words.get("switches") or {})})
        self.findings += [placed(finding, call.scope.file, call.line) for finding in batch.findings]
        return select(batch.tools, words.get("include") or (), words.get("exclude") or ())

    def refuse_unknown(self, item: Registration) -> None:
        what = f"`{show(item.thing.node)}`" if isinstance(item.thing, Data) else "Something"
        text = f"{what} is put on the server here, and cannot be told without running the code"
        hint = "register functions by their names"
        self.report("unresolved-tool", "warning", text, item.spot.scope, item.options.line, hint)


# --- tables ------------------------------------------------------------------------------------------


def read_table(maker: ToolMaker, name: str, item: Data) -> Any:
    """Return a table of definitions or handlers as importing would find it, with stubs for functions. An
    entry of which a part is computed is left out, with a finding; a table that is computed is None."""
    thing = maker.resolver.resolve(item.node, item.scope)
    node = thing.node if isinstance(thing, Data) else None
    if not isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.Set | ast.BinOp):
        try:
            return maker.data_of(thing)
        except UNREAD:
            _report_entry(maker, name, item)
            return None
    made: dict[Any, Any] = {}
    for position, part in enumerate(maker.resolver.items(item.node, item.scope)):
        try:
            key = position if part.key is None else maker.data_of(Data(part.key, part.scope))
            made[key] = maker.data_of(part, is_table=True)
        except (*UNREAD, DefinitionError, TypeError):
            _report_entry(maker, name, part)
        else:
            entry = maker.resolver.resolve(part.node, part.scope)
            maker.tabled.add(id(getattr(getattr(entry, "call", None), "node", None)))
    return made if isinstance(node, ast.Dict) else list(made.values())


def _report_entry(maker: ToolMaker, name: str, item: Data) -> None:
    hint = "write the definitions down in the table"
    line = getattr(item.key or item.node, "lineno", None)
    maker.findings.append(unread(f"A part of {name}", item.scope, line, "guessed-table", hint))


# --- tool objects ------------------------------------------------------------------------------------


def is_tool_object(maker: ToolMaker, cls: Class) -> bool:
    return all(_find(maker, cls, spellings) for spellings in SPELLINGS.values())


def _find(maker: ToolMaker, cls: Class, spellings: Iterable[str]) -> str | None:
    """Return the attribute that holds a part of a tool object."""
    resolver = maker.resolver
    statements = [item for each in resolver.classes(cls) for item in each.node.body]
    fields = {getattr(item.target, "id", "") for item in statements if isinstance(item, ast.AnnAssign)}
    for name in spellings:
        if name in fields or resolver.member(cls, name) is not None or resolver.assigned(cls, name):
            return name
    return None


def build_object(maker: ToolMaker, cls: Class) -> Any:
    """Return a stand-in with the parts of a tool object; a list where its name or handler cannot be read."""
    made = type(cls.node.name, (), {})()
    defaults: dict[str, Any] = {"description": "", "input_schema": dict(foreign.OPEN_SCHEMA)}
    findings: list[Finding] = []
    for part, spellings in (*SPELLINGS.items(), ("output_schema", ("output_schema", "OutputSchema"))):
        name = _find(maker, cls, spellings)
        if name is None:
            continue
        thing = maker.resolver.attribute(maker.resolver.instance(cls), name)
        try:
            is_handler = part == "execute" and isinstance(thing, Function)
            setattr(made, part, maker.stub(thing) if is_handler else maker.data_of(thing))  # type: ignore[arg-type]
        except UNREAD:
            what = f"The {part} of {cls.node.name}"
            findings.append(unread(what, cls.scope, cls.line, "unresolved-part", _AS_ATTRIBUTE))
            if part in defaults:
                setattr(made, part, defaults[part])
    if not hasattr(made, "name") or not hasattr(made, "execute"):
        maker.findings += findings
        return []
    maker.note(made, [*findings, *maker.note(made.execute).findings], (id(cls),))
    maker._mark(cls.node, made, type(made))
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


def holds_tools(maker: ToolMaker, cls: Class) -> bool:
    return is_application(maker, cls) or is_tool_object(maker, cls)


def is_complete(maker: ToolMaker, cls: Class) -> bool:
    """Return whether a class holds tools and is there to be used, not to be inherited from."""
    resolver = maker.resolver
    members = [resolver.member(cls, name) for item in resolver.classes(cls) for name in item.body.names]
    methods = [member for member in members if isinstance(member, Function)]
    if cls.node.name.startswith("_") or any(
        "abstract" in resolver.kinds(item.node, item.scope) for item in methods
    ):
        return False
    if is_application(maker, cls):
        return True
    is_model = any(isinstance(item, Known) and item.package == "pydantic" for item in resolver.ancestors(cls))
    has_parts = any(all(resolver.member(cls, part) for part in names) for names in strict.TOOL_ATTRIBUTES)
    thing = resolver.member(cls, "name") or resolver.member(cls, "Name")
    is_unnamed = isinstance(thing, Data) and isinstance(thing.node, ast.Constant) and not thing.node.value
    return has_parts and not is_model and not is_unnamed


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
            if isinstance(thing, Data) and (value := maker.data_of(thing)) is not None:
                facts[key] = value
        except UNREAD:
            if key == "namespace":
                what = f"The namespace of {cls.node.name}"
                maker.findings.append(unread(what, cls.scope, cls.line, "guessed-name", _AS_ATTRIBUTE))
    made: Any = type(cls.node.name, (Application,) if is_ours else (), facts)
    return made.__new__(made)
