"""Turn scanned applications, tool objects, tables and functions of other libraries into tools.

Parameters injected by the other library are left out, and its options are applied. Neither library is
loaded.
"""

from __future__ import annotations

import ast
import typing
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from toolcrib.definition import ToolOptions
from toolcrib.errors import DefinitionError, Finding, Location
from toolcrib.schema.function import ToolParts, build_function, build_handler
from toolcrib.schema.parameters import EMPTY, HandlerInfo, check_parameters, docstring_of
from toolcrib.sources.applications import Application
from toolcrib.sources.foreign.reading import is_any_list
from toolcrib.sources.foreign.recognition import PACKAGES
from toolcrib.sources.scan.decorators import read_ours, read_theirs
from toolcrib.sources.scan.files import parse_annotation
from toolcrib.sources.scan.objects import (
    Class,
    Function,
    Guess,
    Instance,
    Known,
    Lister,
    Listing,
    Made,
    Module,
    Pairs,
    Part,
    Registration,
    Said,
    Scope,
    Server,
    Thing,
    Value,
    ancestors,
    find_member,
    guess_of_bases,
    is_abstract,
    is_model,
    is_ours,
    prepare,
    unread_bases,
)
from toolcrib.sources.scan.values import Unresolved
from toolcrib.tool import MARK, Tool

if TYPE_CHECKING:
    from toolcrib.sources.scan.making import Workshop

_CONTENT = frozenset(
    {
        "Audio",
        "AudioContent",
        "CallToolResult",
        "ContentBlock",
        "EmbeddedResource",
        "File",
        "Image",
        "ImageContent",
        "InputRequiredResult",
        "ResourceLink",
        "TextContent",
        "ToolResult",
    }
)
_PRIMITIVES = (str, int, float, bool, bytes, type(None))
_DESCRIBED_BY_NONE = (*_PRIMITIVES, Any, object)
_OTHER = Guess("guessed-condition", "another one of its name may be registered instead")
_OUR_WORDS = frozenset(
    {"aliases", "destructive", "group", "idempotent", "input_schema", "open_world", "read_only", "scopes"}
)


def read_server(workshop: Workshop, server: Server) -> list[Tool]:
    """The tools of a server: of one name, the first counts with mcp and the last with fastmcp."""
    found: dict[str, Tool] = {}
    for registration in server.registrations:
        for tool in _adopt_one(workshop, server, registration):
            if tool.name in found:
                if any(guess.code == "guessed-condition" for guess in registration.guesses):
                    workshop.doubt(found[tool.name].origin, [_OTHER])
                    continue  # one of them is enough
                workshop.findings.append(_taken(tool, found[tool.name], server))
            if tool.name not in found or server.maker == "fastmcp":
                found[tool.name] = tool
    for name in server.removed:
        found.pop(name, None)
    for mount in server.mounts:
        for tool in workshop.tools_of(mount.server):
            workshop.doubt(tool.origin, [*mount.guesses, *server.guesses])
            name = f"{mount.space}_{tool.name}" if mount.space else tool.name
            found.setdefault(name, tool.with_options(name=name) if name != tool.name else tool)
    return list(found.values())


def _adopt_one(workshop: Workshop, server: Server, registration: Registration) -> Iterator[Tool]:
    thing, said = registration.thing, registration.said
    guesses = [*registration.guesses, *server.guesses]
    maker = _maker_of(server, said)
    if isinstance(thing, Made):
        made = workshop.make(thing, guesses)
    elif not isinstance(thing, Function):
        made = None
    elif maker == "toolcrib":
        made = _ours(workshop, thing, said)
    else:
        if maker == "mcp" and not said.is_called and server.maker == "mcp":
            guesses.append(Guess("guessed-decorator", "the tool() of mcp has to be called: @mcp.tool()"))
        made = workshop.adopt(thing, said, maker)
        if made is None:
            return
    if not isinstance(made, Tool):
        workshop.refuse_unknown(registration)
        return
    workshop.doubt(made.origin, guesses)
    yield made


def _ours(workshop: Workshop, function: Function, said: Said) -> Tool | None:
    """Return a tool of an unknown server, by our own rules."""
    stub = workshop.stub(function)
    options, findings = read_ours(workshop.evaluator, said)
    workshop.note(stub, (), findings)
    try:
        return Tool.from_function(stub, **options)
    except DefinitionError as error:
        workshop.refuse(error, said)
        return None


def _maker_of(server: Server, said: Said) -> str:
    """Whose rules hold. For a server from elsewhere, what is imported beside it tells, and how it is used."""
    if server.maker != "unknown":
        return server.maker
    words = {item.arg for item in said.keywords}
    if len(said.args) > 1 or words & _OUR_WORDS:
        return "toolcrib"
    packages = _packages_in(said.scope)
    return next((name for name in ("fastmcp", "mcp", "toolcrib") if name in packages), "mcp")


def _packages_in(scope: Scope) -> set[str]:
    found: set[str] = set()
    for statement in scope.module.file.tree.body:
        if isinstance(statement, ast.ImportFrom) and not statement.level:
            found.add((statement.module or "").partition(".")[0])
        elif isinstance(statement, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in statement.names}
    return found


def _taken(tool: Tool, holder: Tool, server: Server) -> Finding:
    last = server.maker == "fastmcp"
    return Finding(
        "duplicate-name",
        "error",
        f"Tool '{tool.name}' is registered twice on one server: the {'last' if last else 'first'} one counts",
        tool=tool.name,
        file=tool.source.file,
        line=tool.source.line,
        hint=f"the first one is at {holder.source}; rename one",
    )


# --- one function ------------------------------------------------------------------------------------


def adopt(workshop: Workshop, function: Function, said: Said, maker: str) -> Tool:
    """The tool that adopting would make of a function. Raises DefinitionError where it would refuse it."""
    theirs = read_theirs(workshop.evaluator, said, maker)
    reader = _HintNames(workshop, function)
    filled = reader.filled(function.node.args)
    made = workshop.make_stub(function, drops={*filled, *theirs.hidden})
    stub: Any = made.function
    is_theirs, doubt = reader.judge_result(function.node.returns)
    findings = [item for item in made.findings if not (is_theirs and item.parameter == "return")]
    if is_theirs or not theirs.is_structured or _is_unsaid(stub.__annotations__.get("return"), maker):
        stub.__annotations__.pop("return", None)
    workshop.note(stub, workshop.key_of(function), [*findings, *theirs.findings], [*function.guesses, *doubt])
    name = theirs.options.get("name") or function.node.name
    options = ToolOptions(**theirs.options | {"name": name})
    if theirs.description is not None and _words(theirs.description) not in _words(docstring_of(stub)):
        options = replace(options, description=theirs.description)
    callee = HandlerInfo(stub)
    check_parameters(callee, name)
    stated = theirs.stated

    def build(callee: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
        try:
            parts = build_function(callee, name, options)
        except DefinitionError as error:
            return _permit(callee, name, options, error)
        if stated is not None and options.output_schema is None:
            parts.replace_output_schema(stated)
            return parts
        said_of = callee.function.__annotations__.get("return")
        if parts.output_schema is None and isinstance(said_of, type) and said_of not in _DESCRIBED_BY_NONE:
            words = f"The result of tool '{name}' may be described by the other library"
            place = callee.source
            parts.findings.append(
                Finding("guessed-result", "advice", words, name, "return", place.file, place.line)
            )
        return parts

    return Tool(callee, name, options, build, stub)


class _HintNames:
    """The names in an annotation, and whose they are."""

    def __init__(self, workshop: Workshop, function: Function) -> None:
        self.evaluator = workshop.evaluator
        self.scope = function.scope
        self.reader = function.scope.module.reader
        self.names = workshop.hint_names.setdefault(self.scope, {})

    def filled(self, arguments: ast.arguments) -> dict[str, str]:
        """The parameters that the other library fills in, and with what: a context, or something else."""
        places = [*arguments.posonlyargs, *arguments.args]
        missing: list[ast.expr | None] = [None] * (len(places) - len(arguments.defaults))
        pairs = [
            *zip(places, [*missing, *arguments.defaults], strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        kinds = {item.arg: self._kind(item.annotation, default) for item, default in pairs}
        return {name: kind for name, kind in kinds.items() if kind is not None}

    def _kind(self, hint: ast.expr | None, default: ast.expr | None) -> str | None:
        """What the other library puts into a parameter of this kind; None where callers give it."""
        for name in self.known(hint):
            if name.package in ("mcp", "fastmcp") and name.last == "Context":
                return "context"
            if name.package in PACKAGES and name.last == "Resolve":
                return "something"
        if isinstance(default, ast.Call):
            made = self.evaluator.of(default.func, self.scope)
            if isinstance(made, Known) and made.package == "fastmcp":
                return "context" if made.last == "CurrentContext" else "something"
        return None

    def judge_result(self, hint: ast.expr | None) -> tuple[bool, list[Guess]]:
        """Whether a result hint is one that only the other library reads, and the doubt that is in it."""
        theirs = [name for name in self.known(hint) if name.package in PACKAGES]
        strange = [name.last for name in theirs if name.last not in _CONTENT]
        words = f"its result is described by {strange[0]} of the other library" if strange else ""
        return bool(theirs), [Guess("guessed-result", words)] if strange else []

    def known(self, hint: ast.expr | None) -> Iterator[Known]:
        """Everything in an annotation that is of a package that is not read."""
        waiting: list[ast.AST] = [] if hint is None else [hint]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Name):
                if node.id not in self.names:
                    self.names[node.id] = self._meant(node)
                thing = self.names[node.id]
            elif isinstance(node, ast.Attribute):
                thing = self._meant(node)
            elif isinstance(node, ast.Constant):
                if isinstance(node.value, str) and node is hint:
                    inner = parse_annotation(node.value, node.lineno)
                    yield from self.known(inner if not isinstance(inner, ast.Constant) else None)
                continue
            else:
                waiting += ast.iter_child_nodes(node)
                continue
            if thing is not None:
                yield thing

    def _meant(self, node: ast.Name | ast.Attribute) -> Known | None:
        thing = self.evaluator.of(node, self.scope)
        if isinstance(thing, Known):
            return thing if thing.package != "builtins" else None
        name = self.reader.qualify(node)
        return Known(name) if name is not None and name.partition(".")[0] in PACKAGES else None


def _permit(callee: HandlerInfo, name: str, options: ToolOptions, error: DefinitionError) -> ToolParts:
    """What is known of a tool that keeps the schema of the other library, which only that library makes."""
    names: dict[str, Any] = {item.name: {} for item in callee.parameters}
    required = [item.name for item in callee.parameters if item.default is EMPTY]
    schema = {"type": "object", "properties": names, "required": required}
    parts = build_handler(callee, name, replace(options, input_schema=schema))
    words = f"Tool '{name}' keeps the schema of the other library, which is not known here: {error}"
    place = callee.source
    parts.findings.append(
        Finding("guessed-schema", "warning", words, name, None, place.file, place.line, error.hint)
    )
    return parts


def _is_unsaid(hint: Any, maker: str) -> bool:
    """Whether the other library describes no result of this hint."""
    if hint is None or is_any_list(hint):
        return hint is not None
    bare = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    if maker == "fastmcp":
        arms = typing.get_args(bare) if typing.get_origin(bare) else (bare,)
        return bytes in arms and not isinstance(bare, type(list[int]))
    if not isinstance(bare, type) or typing.get_origin(bare) is not None or bare in _PRIMITIVES:
        return False
    if hasattr(bare, "model_fields") or typing.is_typeddict(bare):
        return False
    try:
        return not typing.get_type_hints(bare)  # nothing says what is in it
    except Exception:
        return False


def _words(text: str | None) -> str:
    return " ".join((text or "").split())


_SCHEMA_KEYS = frozenset({"schema", "input_schema", "inputSchema", "parameters"})
_MISSING: Any = object()


def read_table(workshop: Workshop, module: Module, name: str, thing: Thing) -> Any:
    """A table as importing would find it, with stubs for handlers; None where it cannot be followed."""
    reader = _TableReader(workshop, module, name)
    if isinstance(thing, Listing):
        return reader.entries(workshop.evaluator.items(thing))
    if isinstance(thing, Pairs):
        return reader.table(thing)
    made = reader.entry(thing)
    if made is _MISSING:
        reader.refuse(None)
        return None
    return made


def read_handlers(workshop: Workshop, module: Module, name: str, thing: Thing) -> Any:
    """A table of handlers; whatever else stands there is handed on, for others to refuse."""
    reader = _TableReader(workshop, module, name)
    if not isinstance(thing, Pairs):
        return reader.entry(thing)
    handlers: dict[str, Any] = {}
    for part in workshop.evaluator.pairs(thing):
        key = reader.key(part)
        if key is not _MISSING:
            handlers[key] = reader.handler(part.thing, str(key), part.key)
    return handlers


class _TableReader:
    def __init__(self, workshop: Workshop, module: Module, name: str) -> None:
        self.workshop = workshop
        self.evaluator = workshop.evaluator
        self.module = module
        self.name = name

    def entries(self, parts: Any) -> list[Any]:
        made = []
        for part in parts:
            entry = _MISSING if part.is_many else self.entry(part.thing)
            if entry is _MISSING:
                self.refuse(part)
            else:
                made.append(entry)
        return made

    def table(self, thing: Pairs) -> dict[Any, Any]:
        """One definition, or definitions by name."""
        parts = list(self.evaluator.pairs(thing))
        keys = [self.key(part) for part in parts]
        if "name" in keys and _SCHEMA_KEYS & {key for key in keys if isinstance(key, str)}:
            return self.definition(parts, keys)
        made: dict[Any, Any] = {}
        for key, part in zip(keys, parts, strict=True):
            entry = _MISSING if key is _MISSING else self.entry(part.thing, key)
            if entry is _MISSING:
                self.refuse(part)
            else:
                made[key] = entry
        return made

    def entry(self, thing: Thing, label: Any = None) -> Any:
        if isinstance(thing, Pairs):
            parts = list(self.evaluator.pairs(thing))
            return self.definition(parts, [self.key(part) for part in parts], label)
        if isinstance(thing, Known) and thing.is_made and thing.said is not None:
            return self.record(thing)
        try:
            return self.evaluator.data_of(thing)
        except (Unresolved, RecursionError):
            return _MISSING

    def record(self, thing: Known) -> Any:
        """`Tool(name=..., inputSchema=...)` of the official SDK."""
        said = thing.said
        if said is None or thing.package not in ("mcp", "mcp_types") or thing.last != "Tool":
            return _MISSING
        facts: dict[str, Any] = {}
        for keyword in said.keywords:
            try:
                facts[str(keyword.arg)] = self.evaluator.data(keyword.value, said.scope)
            except (Unresolved, RecursionError):
                self.doubt(str(facts.get("name", self.name)), str(keyword.arg), keyword.value.lineno)
        return SimpleNamespace(**facts)

    def definition(self, parts: list[Part], keys: list[Any], label: Any = None) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        handlers: list[Part] = []
        for key, part in zip(keys, parts, strict=True):
            if key == "handler":
                handlers.append(part)
            elif key is not _MISSING:
                try:
                    made[key] = self.evaluator.data_of(part.thing)
                except (Unresolved, RecursionError):
                    line = part.key.lineno if part.key is not None else None
                    self.doubt(str(made.get("name", label or self.name)), str(key), line)
            else:
                self.refuse(part)
        for part in handlers:
            made["handler"] = self.handler(part.thing, str(made.get("name", label)), part.key)
        return made

    def handler(self, thing: Thing, label: str, key: ast.expr | None) -> Any:
        try:
            if isinstance(thing, Function):
                return self.workshop.stub(thing)
            return self.evaluator.data_of(thing)  # no function at all: others say so
        except (Unresolved, RecursionError, DefinitionError):
            guess = Guess("guessed-handler", "its handler cannot be followed")
            where = Location(str(self.module.file.path), 1 if key is None else key.lineno)
            return self.workshop.unknown_handler(label, where, guess)

    def key(self, part: Part) -> Any:
        if part.key is None or part.scope is None or part.is_many:
            return _MISSING
        try:
            key = self.evaluator.data(part.key, part.scope)
            hash(key)
        except (Unresolved, RecursionError, TypeError):
            return _MISSING
        return key

    def doubt(self, tool: str, key: str, line: int | None) -> None:
        words = f"'{key}' of tool '{tool}' cannot be told without running the code"
        self.workshop.findings.append(
            Finding(
                "unresolved-option",
                "warning",
                words,
                tool=tool,
                file=str(self.module.file.path),
                line=line,
                hint="write it down as it is, or as a constant of the module",
            )
        )

    def refuse(self, part: Part | None) -> None:
        line = part.key.lineno if part is not None and part.key is not None else None
        self.workshop.has_open_tables = True
        self.workshop.findings.append(
            Finding(
                "guessed-table",
                "warning",
                f"{self.name} holds something that cannot be told without running the code",
                file=str(self.module.file.path),
                line=line,
                hint="write the definitions down in the table",
            )
        )


_SPELLINGS = {
    "name": ("name", "Name"),
    "description": ("description", "Description"),
    "input_schema": ("input_schema", "InputSchema", "inputSchema"),
    "execute": ("execute", "ExecuteAsync", "execute_async"),
}
_OUTPUT = ("output_schema", "OutputSchema")
_PARTS = ("name", "description", "input_schema", "execute")
_OTHER_PARTS = ("Name", "Description", "InputSchema", "ExecuteAsync")


def is_tool_class(cls: Class) -> bool:
    """Whether instances of this class are tool objects by what the class itself has."""
    if is_model(cls):
        return False
    return any(all(find_member(cls, part) is not None for part in parts) for parts in (_PARTS, _OTHER_PARTS))


def is_tool_object(workshop: Workshop, instance: Instance) -> bool:
    return all(_find(workshop, instance, spellings) for spellings in _SPELLINGS.values())


def _find(workshop: Workshop, instance: Instance, spellings: tuple[str, ...]) -> str | None:
    prepare(workshop.evaluator, instance)
    return next((name for name in spellings if _has(instance, name)), None)


def _has(instance: Instance, name: str) -> bool:
    return name in instance.attributes or find_member(instance.cls, name) is not None


def build_object(workshop: Workshop, instance: Instance) -> Any:
    """A stand-in with the parts of a tool object; None where not even its name can be told."""
    facts: dict[str, Any] = {}
    findings: list[Finding] = []
    for part, spellings in _SPELLINGS.items():
        name = _find(workshop, instance, spellings)
        thing = workshop.evaluator.of_instance(instance, name) if name else None
        if part == "execute":
            if not isinstance(thing, Function):
                findings.append(_unresolved(instance, "execute"))
                workshop.findings += findings
                return None
            facts["execute"] = workshop.stub(thing)  # DefinitionErrors are the caller's
            continue
        try:
            facts[part] = _value(workshop, thing)
        except (Unresolved, RecursionError):
            findings.append(_unresolved(instance, part))
            if part == "name":
                workshop.findings += findings
                return None
            facts[part] = {"type": "object", "properties": {}} if part == "input_schema" else ""
    output = _find(workshop, instance, _OUTPUT)
    if output:
        try:
            facts["output_schema"] = _value(workshop, workshop.evaluator.of_instance(instance, output))
        except (Unresolved, RecursionError):
            findings.append(_unresolved(instance, "output_schema"))
    if instance.cls.mark is not None:
        facts[MARK] = workshop.mark(instance.cls.mark)
    made = type(instance.cls.node.name, (), {})()
    for key, value in facts.items():
        setattr(type(made) if key == MARK else made, key, value)
    workshop.note(made, (id(instance),), findings, instance.cls.guesses, workshop.notes_of(facts["execute"]))
    return made


def _value(workshop: Workshop, thing: Thing | None) -> Any:
    if not isinstance(thing, Value | Listing | Pairs):
        raise Unresolved("it is no data")
    return workshop.evaluator.data_of(thing)


def _unresolved(instance: Instance, part: str) -> Finding:
    cls = instance.cls
    return Finding(
        "unresolved-part",
        "warning",
        f"The {part} of {cls.node.name} cannot be told without running the code",
        file=str(cls.scope.module.file.path),
        line=cls.line,
        hint="write it down as an attribute of the class",
    )


def is_application(cls: Class) -> bool:
    """Whether instances list tools; one that asks a server for them, which takes waiting, is none."""
    member = find_member(cls, "list_tools")
    if member is not None:
        return isinstance(member.thing, Function) and not member.thing.kinds & {"async", "property"}
    if any(is_ours(item) for item in ancestors(cls)):
        return True
    return bool(unread_bases(cls)) and _marks_methods(cls)


def _marks_methods(cls: Class) -> bool:
    return any(isinstance(thing, Function) and thing.mark is not None for thing in cls.body.names.values())


def is_complete(cls: Class) -> bool:
    """Whether a class holds tools and is there to be used, not to be inherited from."""
    if cls.node.name.startswith("_") or is_abstract(cls):
        return False
    if is_application(cls):
        return True
    if not is_tool_class(cls):
        return False
    member = find_member(cls, "name") or find_member(cls, "Name")
    thing = member.thing if member is not None else None
    if isinstance(thing, Value) and isinstance(thing.node, ast.Constant):
        return bool(thing.node.value)
    return thing is not None


def build_application(workshop: Workshop, instance: Instance) -> Any:
    """A stand-in that lists stubs of the methods."""
    cls = instance.cls
    evaluator = workshop.evaluator
    lister = evaluator.of_instance(instance, "list_tools")
    guesses = list(cls.guesses)
    listing: Thing
    if isinstance(lister, Function):
        listing = evaluator.enter(lister, Said([], [], cls.scope, cls.line))
    else:
        if not isinstance(lister, Lister) and (guess := guess_of_bases(cls, "its list of tools")):
            guesses.append(guess)
        listing = evaluator.calls.marked_methods(instance)
    if instance.said is None and find_member(cls, "__init__") is None:
        guess = guess_of_bases(cls, "how it is made")
        if guess is not None and guess not in guesses:
            guesses.append(guess)
    made: list[Any] = []
    is_whole = True
    for part in evaluator.items(listing):
        thing = None if part.is_many else workshop.make(part.thing, (*guesses, *part.guesses))
        if thing is None:
            is_whole = False
        elif isinstance(thing, list):
            made += thing
        else:
            made.append(thing)
    if not is_whole:
        workshop.findings.append(_cannot_follow(cls))
    return _stand_in(workshop, instance, made) if made or is_whole else []


def _stand_in(workshop: Workshop, instance: Instance, listed: list[Any]) -> Any:
    cls = instance.cls
    ours = any(is_ours(item) for item in ancestors(cls))
    lists: Callable[[Any], list[Any]] = lambda _: list(listed)  # noqa: E731 - it becomes a method
    facts: dict[str, Any] = {"list_tools": lists}
    for key in ("name", "namespace"):
        thing = workshop.evaluator.of_instance(instance, key)
        if isinstance(thing, Value | Listing | Pairs):
            try:
                facts[key] = workshop.evaluator.data_of(thing)
            except (Unresolved, RecursionError):
                if key == "namespace":
                    workshop.findings.append(_no_namespace(cls))
    made: Any = type(cls.node.name, (Application,) if ours else (), facts)
    return made.__new__(made)


def _cannot_follow(cls: Class) -> Finding:
    return Finding(
        "guessed-list",
        "warning",
        f"{cls.node.name}.list_tools() builds its list in a way that cannot be followed to its end",
        file=str(cls.scope.module.file.path),
        line=cls.line,
        hint="return a list of methods: [self.first, self.second]",
    )


def _no_namespace(cls: Class) -> Finding:
    return Finding(
        "guessed-name",
        "warning",
        f"The namespace of {cls.node.name} cannot be told without running the code",
        file=str(cls.scope.module.file.path),
        line=cls.line,
        hint="write it down as an attribute of the class",
    )
