"""Make tools of what the patterns found: stubs for functions, stand-ins for what holds tools.

Tool objects, applications, tables of definitions and servers become what importing would find, with stubs for
functions, so that the ordinary code reads them. Findings and guesses about a tool are kept with its origin.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from toolcrib.definition import NO_OPTIONS, STRICT, ToolOptions
from toolcrib.errors import DefinitionError, Finding, InvalidSignatureError, Location
from toolcrib.registry.registry import ToolRegistry, finding_of
from toolcrib.registry.selection import select
from toolcrib.sources import collect
from toolcrib.sources import objects as strict
from toolcrib.sources.applications import APIApplication, Application
from toolcrib.sources.scan import foreign
from toolcrib.sources.scan.foreign import UNREAD, read_options, read_ours, unread
from toolcrib.sources.scan.patterns import Patterns, Registration, placed
from toolcrib.sources.scan.resolve import Resolver, first_parameter
from toolcrib.sources.scan.source_file import FUNCTIONS, Guess, show
from toolcrib.sources.scan.stubs import Stub
from toolcrib.sources.scan.things import Arguments, Class, Data, Function, Instance, Known, Server, Thing
from toolcrib.sources.tables import HANDLER_TABLE
from toolcrib.tool import MARK, SPELLINGS, Tool

MAX_PARAMETERS = 500
_AS_ATTRIBUTE = "write it down as an attribute of the class"
_SETTINGS = ("name_rule", "on_duplicate", "separator")
_ADD_OPTIONS = ("namespace", "switches", "include", "exclude", "on_duplicate", "strict")
_TOOL_CLASSES = frozenset({"Tool", "FunctionTool"})
_NOT_LITERAL = (*UNREAD, DefinitionError, TypeError)


@dataclass(slots=True)
class Note:
    """Findings and guesses about the tools of one origin, which is kept so that its id is not used again.
    Equal keys mean one function or object."""

    origin: Any
    key: tuple[int, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    guesses: list[Guess] = field(default_factory=list)


class ToolMaker:
    """Makes tools of functions, objects and servers, each once."""

    def __init__(self, resolver: Resolver, patterns: Patterns) -> None:
        self.resolver = resolver
        self.patterns = patterns
        self.findings = patterns.findings
        self.report = patterns.report
        self.folders = 0  # that were listed
        self._notes: dict[int, Note] = {}
        self._stubs: dict[tuple[int, int], Any] = {}
        self._made: dict[Instance, Any] = {}
        self._registries: dict[Server, ToolRegistry] = {}
        self._foreign: dict[Server, list[Tool]] = {}
        self._places: set[tuple[int, int]] = set()  # the calls and functions of registrations

    # --- notes ---

    def note(
        self,
        origin: Any,
        findings: Sequence[Finding] = (),
        guesses: Sequence[Guess] = (),
        key: tuple[int, ...] = (),
    ) -> Note:
        """Keep findings and guesses about the tools of an origin; return all that are known."""
        known = self._notes.get(id(origin))
        if known is None:
            known = self._notes[id(origin)] = Note(origin)
        known.key = known.key or key
        known.findings += findings
        if guesses:
            known.guesses += [guess for guess in guesses if guess not in known.guesses]
        return known

    def guesses_about(self, thing: Class | Function) -> list[Guess]:
        """Return what is uncertain about a function or class wherever it is used."""
        own = thing.guesses if isinstance(thing, Function) else ()
        return [*own, *self.patterns.doubts.get(id(thing.node), ())]

    def reach(self, instance: Instance) -> Iterator[Guess]:
        """Yield the guess that there is no object of a class, where it needs arguments and none is made."""
        cls = instance.cls
        yield from cls.file.spots[id(cls.node)].guesses
        if instance.call is None and self.needs_arguments(cls):
            words = f"{cls.node.name} cannot be created without arguments, so it is not served"
            yield Guess("guessed-instance", words)

    def needs_arguments(self, cls: Class) -> bool:
        init = self.resolver.member(cls, "__init__")
        if isinstance(init, Function):
            arguments = init.node.args
            places = [*arguments.posonlyargs, *arguments.args][1:]
            return len(places) > len(arguments.defaults) or None in arguments.kw_defaults
        called = (item.func if isinstance(item, ast.Call) else item for item in cls.node.decorator_list)
        is_record = any(self.resolver.full_name(item, cls.scope).endswith("dataclass") for item in called)
        return (is_record or self.resolver.is_model(cls)) and None in self.resolver.fields(cls).values()

    # --- stubs ---

    def stub(self, function: Function) -> Any:
        """Return a function with the signature of the real one that does nothing, once for each."""
        key = self.key_of(function)
        if key in self._stubs:
            return self._stubs[key]
        made = self.make_stub(function, keeps_contexts=True)
        stub = self._stubs[key] = made.function
        guesses = self.guesses_about(function)
        owner = function.owner
        if stub.__doc__ is None and isinstance(owner, Instance):
            stub.__doc__ = self._inherited_docstring(function, owner.cls)
            unread = self.resolver.unread_bases(owner.cls)
            if stub.__doc__ is None and unread:
                guesses.append(guess_base(unread, "its description"))
        mark = self.patterns.marks.get(id(function.node))
        self.note(stub, made.findings, (*guesses, *(mark.guesses if mark is not None else ())), key)
        if mark is not None:
            setattr(stub, MARK, self.mark(mark, stub))
        return stub

    def key_of(self, function: Function) -> tuple[int, int]:
        owner = function.owner
        return (id(owner) if isinstance(owner, Instance) else 0), id(function.node)

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
        is_in_class = function.owner is not None or scope is not scope.file.scope
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
            self.findings.append(placed(error.finding, call.file, call.line))
            return NO_OPTIONS

    def unknown_handler(self, item: Data) -> Any:
        """Return a handler in place of one that cannot be followed: it takes what its schema admits."""

        async def handler(arguments: dict[str, Any]) -> None:
            _ = arguments

        path, line = str(item.scope.file.path), item.node.lineno
        handler.__code__ = handler.__code__.replace(co_filename=path, co_firstlineno=line)
        self.note(handler, (), [Guess("guessed-handler", "its handler cannot be followed")])
        return handler

    # --- things ---

    def make(self, thing: Thing, guesses: Sequence[Guess] = ()) -> Any:
        """Return what `collect` would be given for a thing: None where that is not known, or a list."""
        try:
            made = self._make(thing)
        except DefinitionError as error:
            self.findings.append(error.finding)
            return []
        for origin in (made if isinstance(made, list) else [made]) if guesses else ():
            self.note(origin.origin if isinstance(origin, Tool) else origin, guesses=guesses)
        return made

    def _make(self, thing: Thing) -> Any:
        match thing:
            case Function():
                return self.stub(thing)
            case Class():
                return self._make(self.resolver.instance(thing))
            case Instance():
                if thing not in self._made:
                    is_app, is_one = is_application(self, thing.cls), is_tool_object(self, thing)
                    build = build_application if is_app else build_object if is_one else None
                    self._made[thing] = None if build is None else build(self, thing)
                return self._made[thing]
            case Server():
                is_ours = foreign.library_of(thing) == "toolcrib"
                return self.registry(thing) if is_ours else self.tools_of(thing)
            case Known() if thing.call is not None:
                return self._tool(thing.name, thing.call)
        return None

    def _tool(self, name: str, call: Arguments) -> Any:
        """`Tool.from_function(...)`, of ours or of theirs."""
        package, parts = name.partition(".")[0], name.split(".")
        if parts[-2:-1] and (parts[-2] not in _TOOL_CLASSES or not parts[-1].startswith("from_")):
            return None
        first = self.resolver.first(call)
        if package in ("mcp", "fastmcp"):
            rest = call.after_first()
            return foreign.adopt(self, first, rest, package) if isinstance(first, Function) else None
        origin = self.make(first) if package == "toolcrib" else None
        if origin is None:
            return None
        options, findings = read_ours(self.resolver, call.after_first())
        self.note(origin, findings)
        make = Tool.from_object if parts[-1] == "from_object" else Tool.from_function
        return make(origin, **options)

    def refuse_unknown(self, registration: Registration) -> None:
        thing, call = registration.thing, registration.call
        what = f"`{show(thing.node)}`" if isinstance(thing, Data) else "The tool"
        words = f"{what} is put on the server here, and cannot be told without running the code"
        hint = "register functions by their names"
        self.report("unresolved-tool", "warning", words, call.scope, call.line, hint)

    # --- servers ---

    def tools_of(self, server: Server) -> list[Tool]:
        """Return the tools of a server of another library, those of servers mounted in it included."""
        if server not in self._foreign:
            self._foreign[server] = []  # it may be mounted in itself, by a detour
            read = foreign.read_low_level if server.library == "low-level" else foreign.read_server
            self._foreign[server] = read(self, server)
        return self._foreign[server]

    def registry(self, server: Server) -> ToolRegistry:
        if server in self._registries:
            return self._registries[server]
        read = foreign.Options() if server.call is None else read_options(self.resolver, server.call, ())
        settings = {key: value for key, value in read.given.items() if key in _SETTINGS}
        switches = read.given.get("switches") or {}
        if read.unresolved & {*_SETTINGS, "switches"}:
            self.findings += read.findings
        try:
            registry = ToolRegistry(**settings)
        except ValueError as error:
            self.findings.append(finding_of(server, error))
            registry = ToolRegistry()
        self._registries[server] = registry
        for item in server.registrations:
            try:
                self._register(registry, item, server, switches)
            except Exception as error:  # options of any type may have been written
                self.findings.append(placed(finding_of(item.thing, error), item.call.file, item.call.line))
        return registry

    def _register(
        self, registry: ToolRegistry, item: Registration, server: Server, switches: dict[str, bool]
    ) -> None:
        call, guesses = item.call, [*item.guesses, *server.guesses]
        thing = self.make(item.thing, guesses)
        if thing is None:
            self.refuse_unknown(item)
            return
        if item.method == "register_tool":
            strict.check_object(thing, registry.check_free)
            registry.add(Tool.from_object(thing), on_duplicate="error", rule=STRICT)
            return
        options, findings = read_ours(self.resolver, call)
        given: dict[str, Any] = dict(options)
        words = {key: given.pop(key) for key in _ADD_OPTIONS if key in given}
        if words.get("namespace") is True and "name" not in vars(type(thing)):
            guesses.append(Guess("guessed-name", "the name of the application may be set elsewhere"))
        batch = collect(thing, namespace=words.get("namespace"), **given)
        for tool in batch.tools:
            self.note(tool.origin, findings, guesses)
        batch.switch({**switches, **(words.get("switches") or {})})
        self.findings += [placed(finding, call.file, call.line) for finding in batch.findings]
        batch.tools = select(batch.tools, words.get("include") or (), words.get("exclude") or ())
        every = [*guesses, *(guess for tool in batch.tools for guess in self.note(tool.origin).guesses)]
        place = (call.key, id(getattr(item.thing, "node", item.thing)))
        if foreign.is_uncertain(every) or place in self._places:
            batch.tools = [tool for tool in batch.tools if tool.name not in registry]  # one of them is enough
        self._places.add(place)
        report = registry.add_all(batch.tools, on_duplicate=words.get("on_duplicate"))
        self.findings += [placed(finding, call.file, call.line) for finding in report.findings]


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
    thing = resolver.of(item)
    node = thing.node if isinstance(thing, Data) and depth < 2 else None
    if isinstance(thing, Function):
        return maker.stub(thing)
    if (call := foreign.record_call(thing)) is not None:
        return SimpleNamespace(**foreign.read_record(maker, call))
    if not isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.Set | ast.BinOp):
        return resolver.data_of(thing)
    made: dict[Any, Any] = {}
    for position, part in enumerate(resolver.items(item.node, item.scope, item.frame)):
        key: Any = position
        try:
            key = position if part.key is None else resolver.data(part.key, part.scope, part.frame)
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


def is_tool_object(maker: ToolMaker, instance: Instance) -> bool:
    return all(_find(maker, instance, spellings) for spellings in SPELLINGS.values())


def _find(maker: ToolMaker, instance: Instance, spellings: Sequence[str]) -> str | None:
    """Return the attribute that holds a part of a tool object."""
    resolver, cls = maker.resolver, instance.cls
    fields = resolver.fields(cls)
    for name in spellings:
        if name in fields or resolver.member(cls, name) is not None or resolver.assigned(cls, name):
            return name
    return None


def build_object(maker: ToolMaker, instance: Instance) -> Any:
    """Return a stand-in with the parts of a tool object; None where its name or handler cannot be read."""
    findings: list[Finding] = []
    cls = instance.cls
    made = type(cls.node.name, (), {})()
    for part, spellings in (*SPELLINGS.items(), ("output_schema", ("output_schema", "OutputSchema"))):
        name = _find(maker, instance, spellings)
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
                return None
            if part != "output_schema":
                setattr(made, part, dict(foreign.OPEN_SCHEMA) if part == "input_schema" else "")
    mark = maker.patterns.marks.get(id(cls.node))
    if mark is not None:
        setattr(type(made), MARK, maker.mark(mark, made))
    note = maker.note(made.execute)
    guesses = [*maker.guesses_about(cls), *maker.reach(instance), *note.guesses]
    maker.note(made, [*findings, *note.findings], guesses, (id(instance),))
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
    insists = any(ast.unparse(item).endswith("ABCMeta") for item in metas)
    if not insists and not {"abc.ABC", "typing.Protocol"} & {getattr(item, "name", "") for item in ancestors}:
        return False
    names = {name for item in resolver.classes(cls) for name in item.body.names}
    members = (resolver.member(cls, name) for name in names)
    functions = [member for member in members if isinstance(member, Function)]
    return any("abstract" in resolver.kinds(member.node, member.scope) for member in functions)


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
    if not is_whole and (is_ours or made):
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
    classes = reversed(maker.resolver.classes(instance.cls))
    names = {name: several[-1] for item in classes for name, several in item.body.names.items()}
    for name, binding in names.items():
        if name[0] != "_" and id(binding.node) in maker.patterns.marks:
            yield maker.resolver.attribute(instance, name), ()


def _stand_in(maker: ToolMaker, instance: Instance, listed: list[Any], *, is_ours: bool) -> Any:
    cls, resolver = instance.cls, maker.resolver
    facts: dict[str, Any] = {"list_tools": lambda _: list(listed)}
    for key in ("name", "namespace"):
        thing = resolver.attribute(instance, key)
        try:
            if isinstance(thing, Data) and (value := resolver.data_of(thing)) is not None:
                facts[key] = value
        except UNREAD:
            if key == "namespace":
                what = f"The namespace of {cls.node.name}"
                maker.findings.append(unread(what, cls.scope, cls.line, "guessed-name", _AS_ATTRIBUTE))
    made: Any = type(cls.node.name, (Application,) if is_ours else (), facts)
    return made.__new__(made)
