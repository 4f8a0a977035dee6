"""Find the tools of a module: marked functions, servers, applications, tables.

The rules and their order are those of `toolcrib.sources.modules` for imported modules.

Turn scanned objects into stubs and registries that the ordinary code reads.

`collect` finds the tools and a `ToolRegistry` names them. Doubts about a tool are kept with its location.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolcrib.definition import NO_OPTIONS, STRICT, ToolOptions
from toolcrib.errors import DefinitionError, Finding, InvalidSignatureError, Location
from toolcrib.registry.registry import ToolRegistry, finding_of
from toolcrib.sources import collect
from toolcrib.sources import objects as strict
from toolcrib.sources.applications import APIApplication
from toolcrib.sources.base import Batch
from toolcrib.sources.modules import GROUP
from toolcrib.sources.scan import builders as foreign
from toolcrib.sources.scan.builders import (
    build_application,
    build_object,
    is_application,
    is_complete,
    is_tool_object,
    read_handlers,
    read_table,
)
from toolcrib.sources.scan.decorators import read_ours, read_said
from toolcrib.sources.scan.files import listed_names
from toolcrib.sources.scan.objects import (
    Class,
    Function,
    Guess,
    Instance,
    Known,
    Later,
    Listing,
    Made,
    Module,
    Pairs,
    Registration,
    Said,
    Scope,
    Server,
    Thing,
    Value,
    ancestors,
    guess_of_bases,
    is_ours,
    needs_arguments,
)
from toolcrib.sources.scan.stubs import Stub
from toolcrib.sources.scan.tracing import Tracer
from toolcrib.sources.scan.values import Unresolved, show
from toolcrib.sources.tables import DEFINITION_TABLES, HANDLER_TABLE
from toolcrib.tool import MARK, Tool

MAX_PARAMETERS = 500
_SETTINGS = ("name_rule", "on_duplicate", "separator", "confusable")
_DOOR_WORDS = ("namespace", "switches", "include", "exclude", "on_duplicate", "strict")


@dataclass(slots=True)
class Note:
    """What is to be said about every tool of one origin. `key` tells whether two origins are one."""

    key: tuple[int, ...]
    findings: list[Finding] = field(default_factory=list)
    guesses: list[Guess] = field(default_factory=list)


class Workshop:
    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.evaluator = tracer.evaluator
        self.findings: list[Finding] = tracer.findings
        self.has_open_tables = False
        self.hint_names: dict[Scope, dict[str, Known | None]] = {}
        self._notes: dict[int, tuple[Any, Note]] = {}
        self._stubs: dict[tuple[int, int], Any] = {}
        self._made: dict[Thing, Any] = {}
        self._registries: dict[Server, ToolRegistry] = {}
        self._foreign: dict[Server, list[Tool]] = {}

    # --- remarks ---

    def note(
        self,
        origin: Any,
        key: tuple[int, ...],
        findings: Sequence[Finding] = (),
        guesses: Sequence[Guess] = (),
        more: Note | None = None,
    ) -> None:
        # The origin is kept, so that its identity stays its own.
        known = self._notes.setdefault(id(origin), (origin, Note(key)))[1]
        known.findings += findings if more is None else [*findings, *more.findings]
        known.guesses += guesses if more is None else [*guesses, *more.guesses]

    def notes_of(self, origin: Any) -> Note | None:
        found = self._notes.get(id(origin))
        return None if found is None else found[1]

    def doubt(self, origin: Any, guesses: Sequence[Guess]) -> None:
        note = self.notes_of(origin)
        if note is not None:
            note.guesses += [guess for guess in guesses if guess not in note.guesses]

    # --- stubs ---

    def stub(self, function: Function) -> Any:
        """A function that says what the real one says, and does nothing; once for each function."""
        holder = function.holder
        key = self.key_of(function)
        if key in self._stubs:
            return self._stubs[key]
        made = self.make_stub(function, keeps_contexts=True)
        stub: Any = made.function
        guesses = list(function.guesses)
        if stub.__doc__ is None and isinstance(holder, Instance):
            stub.__doc__ = _inherit_words(function, holder)
            guess = guess_of_bases(holder.cls, "its description")
            if stub.__doc__ is None and guess is not None:
                guesses.append(guess)
        self._stubs[key] = stub
        self.note(stub, key, made.findings, guesses)
        mark = function.source.mark
        if mark is not None:
            setattr(stub, MARK, self.mark(mark, stub))
        return stub

    def key_of(self, function: Function) -> tuple[int, int]:
        return _identity(function), id(function.node)

    def make_stub(
        self, function: Function, *, drops: Collection[str] = (), keeps_contexts: bool = False
    ) -> Stub:
        name, arguments = function.node.name, function.node.args
        count = len(arguments.args) + len(arguments.posonlyargs) + len(arguments.kwonlyargs)
        if count > MAX_PARAMETERS:
            raise InvalidSignatureError(
                f"Tool '{name}' has {count} parameters, which no scan reads and no model fills in",
                tool=name,
                source=Location(str(function.scope.module.file.path), function.line),
                hint="take one object with fields",
            )
        is_bound = function.holder is not None or "class" in function.kinds
        return function.scope.module.reader.stub(
            function.node,
            owner=function.owner,
            drops_first=is_bound and "static" not in function.kinds,
            drops=drops,
            keeps_contexts=keeps_contexts,
        )

    def mark(self, said: Said, origin: Any = None) -> ToolOptions:
        """What `@tool(...)` said. What it refuses is a finding, and then nothing was said."""
        if not said.args and not said.keywords:
            return NO_OPTIONS
        options, findings = read_ours(self.evaluator, said)
        if origin is not None:
            self.note(origin, (), findings)
        else:
            self.findings += findings
        try:
            return NO_OPTIONS.override(options)
        except DefinitionError as error:
            self.refuse(error, said)
            return NO_OPTIONS

    def unknown_handler(self, label: str, where: Location, guess: Guess) -> Any:
        """What stands where a handler cannot be followed: it takes whatever its schema admits."""

        async def handler(arguments: dict[str, Any]) -> None:
            """Do nothing."""
            _ = arguments

        handler.__name__, handler.__doc__ = label, None
        place = {"co_filename": where.file or "", "co_firstlineno": where.line or 1}
        handler.__code__ = handler.__code__.replace(**place)  # type: ignore[arg-type]
        self.note(handler, (id(handler),), (), (guess,))
        return handler

    # --- things ---

    def make(self, thing: Thing, guesses: Sequence[Guess] = ()) -> Any:
        """What `collect` would be given for a thing; None where it cannot be told. A list for several."""
        try:
            made = self._make(thing)
        except DefinitionError as error:
            self.findings.append(error.finding)
            return []
        if made is not None and guesses:
            for origin in made if isinstance(made, list) else [made]:
                self.doubt(origin.origin if isinstance(origin, Tool) else origin, guesses)
        return made

    def _make(self, thing: Thing) -> Any:
        match thing:
            case Function():
                return self.stub(thing)
            case Class():
                return self._once(thing, lambda: self._object(Instance(thing)))
            case Instance():
                return self._once(thing, lambda: self._object(thing))
            case Made():
                return self._tool(thing)
            case Server():
                return self.server(thing)
            case Value(node=ast.Constant(value=str(text))):
                return text
        return None

    def _once(self, thing: Thing, make: Any) -> Any:
        if thing not in self._made:
            self._made[thing] = make()
        return self._made[thing]

    def _object(self, instance: Instance) -> Any:
        if is_application(instance.cls):
            return build_application(self, instance)
        return build_object(self, instance) if is_tool_object(self, instance) else None

    def _tool(self, thing: Made) -> Any:
        """`Tool.from_function(...)`, of ours or of theirs."""
        said = thing.said
        first = self.evaluator.of(said.args[0], said.scope) if said.args else None
        rest = Said(said.args[1:], said.keywords, said.scope, said.line)
        if thing.maker != "toolcrib":
            return self.adopt(first, rest, thing.maker) if isinstance(first, Function) else None
        origin = None if first is None else self.make(first)
        if origin is None:
            return None
        options, findings = read_ours(self.evaluator, rest)
        self.note(origin, (id(origin),), findings)
        make = Tool.from_object if thing.how == "from_object" else Tool.from_function
        try:
            return make(origin, **options)
        except DefinitionError as error:
            self.refuse(error, said)
            return None

    def adopt(self, function: Function, said: Said, maker: str) -> Tool | None:
        """A function of another library's server as a tool; why not is a finding."""
        try:
            return foreign.adopt(self, function, said, maker)
        except DefinitionError as error:
            self.refuse(error, said)
            return None

    def refuse_unknown(self, registration: Registration) -> None:
        self.findings.append(_cannot_follow(registration))

    def refuse(self, error: DefinitionError, said: Said) -> None:
        if error.source.file is None:
            error.source = Location(str(said.scope.module.file.path), said.line)
        self.findings.append(error.finding)

    # --- servers ---

    def server(self, server: Server) -> Any:
        """The registry of a server of ours; the tools of one of theirs."""
        if server.maker == "toolcrib":
            return self.registry(server)
        return self.tools_of(server)

    def registry(self, server: Server) -> ToolRegistry:
        if server in self._registries:
            return self._registries[server]
        settings: dict[str, Any] = {}
        switches: dict[str, bool] = {}
        if server.said is not None:
            read = read_said(self.evaluator, server.said, ())
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
        for registration in server.registrations:
            try:
                self._register(registry, registration, server, switches)
            except DefinitionError as error:
                self.refuse(error, registration.said)
            except Exception as error:  # options of any type may have been written
                self.findings.append(self._placed(finding_of(registration.thing, error), registration.said))
        for name in server.removed | server.disabled:
            if name in registry:
                (registry.remove if name in server.removed else registry.disable)(name)
        return registry

    def _register(
        self, registry: ToolRegistry, registration: Registration, server: Server, switches: dict[str, bool]
    ) -> None:
        said, guesses = registration.said, [*registration.guesses, *server.guesses]
        thing = self._table(registration) or self.make(registration.thing, guesses)
        if thing is None or (isinstance(thing, str) and thing != "toolcrib.samples"):  # it would be imported
            self.refuse_unknown(registration)
            return
        if registration.door == "register_tool":
            self._strict(registry, thing)
            return
        options, findings = read_ours(self.evaluator, _without(said, "handlers"))
        given: dict[str, Any] = dict(options)
        words = {key: given.pop(key) for key in _DOOR_WORDS if key in given}
        batch: Batch = collect(thing, namespace=words.get("namespace"), **given)
        for tool in batch.tools:
            self.note(tool.origin, (id(tool.origin),), findings, guesses if tool.origin is not thing else ())
        batch.switch({**switches, **(words.get("switches") or {})})
        self.findings += [self._placed(finding, said) for finding in batch.findings]
        if words.get("include") or words.get("exclude"):
            from toolcrib.registry.selection import select  # only who chooses needs it

            batch.tools = select(batch.tools, words.get("include") or (), words.get("exclude") or ())
        if any(guess.code in ("guessed-condition", "guessed-name") for guess in guesses):
            batch.tools = [tool for tool in batch.tools if tool.name not in registry]  # one of them is enough
        report = registry.add_all(batch.tools, on_duplicate=words.get("on_duplicate"))
        self.findings += [self._placed(finding, said) for finding in report.findings]

    def _table(self, registration: Registration) -> Any:
        """`server.add({...}, handlers={...})`: definitions that were handed over."""
        thing, said = registration.thing, registration.said
        if not isinstance(thing, Pairs | Listing):
            return None
        module = said.scope.module
        table = read_table(self, module, "The table", thing)
        if isinstance(table, list) and any(isinstance(item, str) for item in table):
            return None  # names of files and modules: collecting would import them
        node = said.keyword("handlers")
        handlers = self.evaluator.of(node, said.scope) if node is not None else None
        found = read_handlers(self, module, "handlers", handlers) if isinstance(handlers, Pairs) else {}
        batch = collect(table, handlers=found)
        self.findings += [self._placed(finding, said) for finding in batch.findings]
        return batch.tools

    def _strict(self, registry: ToolRegistry, thing: Any) -> None:
        """The checks of `register_tool`, in their order."""
        strict.check_object(thing, registry.check_free)
        registry.add(Tool.from_object(thing), on_duplicate="error", rule=STRICT)

    def tools_of(self, server: Server) -> list[Tool]:
        """The tools of a server of another library, those of servers mounted in it included."""
        if server not in self._foreign:
            self._foreign[server] = []  # it may be mounted in itself, by a detour
            self._foreign[server] = foreign.read_server(self, server)
        return self._foreign[server]

    def _placed(self, finding: Finding, said: Said) -> Finding:
        if finding.file is not None:
            return finding
        return replace(finding, file=str(said.scope.module.file.path), line=said.line)


def _without(said: Said, name: str) -> Said:
    keywords = [item for item in said.keywords if item.arg != name]
    return Said(said.args, keywords, said.scope, said.line, said.is_called)


def _identity(function: Function) -> int:
    """What a function is bound to, as far as it makes it another tool."""
    holder = function.holder
    if not isinstance(holder, Instance) or "static" in function.kinds:
        return 0
    return id(holder.cls) if "class" in function.kinds else id(holder)


def _cannot_follow(registration: Registration) -> Finding:
    thing, said = registration.thing, registration.said
    what = f" ({show(thing.node)})" if isinstance(thing, Value) else ""
    return Finding(
        "unresolved-tool",
        "warning",
        f"What is put on the server here{what} cannot be told without running the code",
        file=str(said.scope.module.file.path),
        line=said.line,
        hint="register functions by their names",
    )


def _inherit_words(function: Function, holder: Instance) -> str | None:
    """The words of a method that has none of its own: those of the one it overrides."""
    name = function.node.name
    for item in ancestors(holder.cls):
        if isinstance(item, Class):
            thing = item.body.names.get(name)
            words = ast.get_docstring(thing.node, clean=False) if isinstance(thing, Function) else None
            if words:
                return inspect.cleandoc(words)
        elif is_ours(item):
            own = getattr(APIApplication, name, None)
            return inspect.getdoc(own) if own is not None else None
    return None


_TAKEN = frozenset({GROUP, HANDLER_TABLE, *DEFINITION_TABLES})


@dataclass(slots=True)
class Found:
    """What a module offers."""

    module: Module
    things: list[Thing] = field(default_factory=list)
    tables: list[Any] = field(default_factory=list)
    handlers: dict[str, Any] = field(default_factory=dict)
    group: str | None = None
    servers: list[Server] = field(default_factory=list)


def find_members(workshop: Workshop, module: Module) -> Found:
    """Everything in a module that is a tool or holds tools, in the order it is written."""
    found = Found(module)
    _find_tables(workshop, found)
    public = set(listed_names(module) or ())
    instances: set[Class] = set()
    classes: list[Class] = []
    for name in list(module.scope.names):
        if name in _TAKEN or name.startswith("__"):
            continue
        thing = _seen(workshop, module, name)
        is_stranger = name in module.scope.imported and name not in public
        if isinstance(thing, Class):
            if thing.body.module is module and is_complete(thing):
                classes.append(thing)
        elif isinstance(thing, Server):
            _take_server(workshop, found, thing, name)
        elif not is_stranger and _is_tool(workshop, thing):
            found.things.append(thing)
            if isinstance(thing, Instance):
                instances.add(thing.cls)
    for cls in dict.fromkeys(classes):
        if cls not in instances:
            _take_class(workshop, found, cls)
    return found


def _seen(workshop: Workshop, module: Module, name: str) -> Thing:
    """What a name stands for; what was imported from a file that was not read is none of ours."""
    thing = module.scope.names[name]
    if isinstance(thing, Later):
        path = workshop.tracer.find_path(thing.module, thing.near)
        below = workshop.tracer.find_path(f"{thing.module}.{thing.key}", thing.near)
        if path in workshop.tracer.modules or below in workshop.tracer.modules:
            return workshop.evaluator.look_up(name, module.scope)
    return thing


def _is_tool(workshop: Workshop, thing: Thing) -> bool:
    if isinstance(thing, Function):
        return thing.source.mark is not None
    if isinstance(thing, Instance):
        return is_application(thing.cls) or is_tool_object(workshop, thing)
    return isinstance(thing, Made) and thing.maker == "toolcrib"


def _take_server(workshop: Workshop, found: Found, server: Server, name: str) -> None:
    if not server.is_low_level:
        found.things.append(server)
        found.servers.append(server)
        return
    text = f"'{name}' is a low-level server of mcp, which has handlers and no tools that could be taken"
    hint = "give toolcrib the functions; toolcrib.transports.mcp_sdk puts its tools on that server"
    file = str(found.module.file.path)
    workshop.findings.append(Finding("low-level-server", "warning", text, file=file, hint=hint))


def _take_class(workshop: Workshop, found: Found, cls: Class) -> None:
    """A class is taken where it can be made without arguments; else its author is told."""
    if not needs_arguments(cls):
        found.things.append(cls)
        return
    text = f"{cls.node.name} holds tools but cannot be made without arguments"
    hint = "make an instance in the module"
    file = str(found.module.file.path)
    workshop.findings.append(Finding("needs-arguments", "advice", text, file=file, line=cls.line, hint=hint))


def _find_tables(workshop: Workshop, found: Found) -> None:
    module = found.module
    names = module.scope.names
    if GROUP in names:
        found.group = _text(workshop, module, GROUP)
    for name in DEFINITION_TABLES:
        if name in names:
            table = read_table(workshop, module, name, workshop.evaluator.look_up(name, module.scope))
            if table is not None:
                found.tables.append(table)
    if HANDLER_TABLE in names:
        thing = workshop.evaluator.look_up(HANDLER_TABLE, module.scope)
        handlers = read_handlers(workshop, module, HANDLER_TABLE, thing)
        if isinstance(handlers, dict):
            found.handlers = handlers
        else:
            text = f"{HANDLER_TABLE} must be a dict, got {type(handlers).__name__}"
            file = str(module.file.path)
            workshop.findings.append(Finding("table-mismatch", "error", text, file=file))


def _text(workshop: Workshop, module: Module, name: str) -> str | None:
    thing = module.scope.names[name]
    try:
        value = workshop.evaluator.data_of(thing) if isinstance(thing, Value) else None
    except (Unresolved, RecursionError):
        value = None
    if isinstance(value, str):
        return value
    words = f"{name} cannot be told without running the code"
    workshop.findings.append(
        Finding("unresolved-option", "warning", words, file=str(module.file.path), hint="write it as a text")
    )
    return None


def find_object(workshop: Workshop, module: Module, name: str) -> Thing | None:
    """The thing behind `file.py:name`; dots reach into it. None where there is nothing of the name."""
    thing: Thing = module
    for part in name.split("."):
        if isinstance(thing, Module) and part not in thing.scope.names:
            return None
        thing = workshop.evaluator.attribute(thing, part)
    return thing
