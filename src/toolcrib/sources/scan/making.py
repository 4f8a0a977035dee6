"""Make tools of what the patterns found, by the rules of the library that each is registered with.

Functions become stubs, from which the ordinary code builds tools. Of mcp and fastmcp, neither of which is
loaded, parameters that they fill in are left out, and their options are applied. An option that cannot be
known without running code is left out, with a finding. Findings about a tool are kept with its origin.
"""

from __future__ import annotations

import ast
import enum
import inspect
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from toolcrib.component import MARK, Component, Tool, merge_options
from toolcrib.definition import ToolDefinition
from toolcrib.errors import DefinitionError, Finding, InvalidSignatureError, Location
from toolcrib.options import NO_OPTIONS, OptionFields, ToolOptions
from toolcrib.registry.prompts import PromptFields, make_prompt
from toolcrib.registry.registry import finding_of
from toolcrib.registry.resources import ResourceFields, add_static, make_resource
from toolcrib.registry.selection import select
from toolcrib.schema.function import ToolParts, build_function, build_handler
from toolcrib.schema.parameters import EMPTY, VARIABLE_KINDS, HandlerInfo, check_parameters, docstring_of
from toolcrib.sources import collect
from toolcrib.sources.described import ANNOTATION_OPTIONS, describe, describe_entry
from toolcrib.sources.foreign.reading import is_any_list, plain_words
from toolcrib.sources.foreign.recognition import PACKAGES
from toolcrib.sources.objects import check_object
from toolcrib.sources.scan import holders
from toolcrib.sources.scan.patterns import FEATURES, Patterns, found_at, last_name, placed
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
from toolcrib.sources.scan.source_file import FUNCTIONS, Spot, defaults_of, show, words_in
from toolcrib.sources.scan.stubs import Stub, Stubs
from toolcrib.sources.scan.values import SPELLINGS, Site, Unresolved

MAX_PARAMETERS = 500
OPEN_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
UNREAD = (Unresolved, RecursionError)
_OURS = ("name", "description", "schema")
_SDK = ("name", "title", "description", "annotations", "icons", "meta", "structured_output")
_SETTINGS = ("name_rule", "separator", "switches")
_ADD_OPTIONS = ("namespace", "switches", "include", "exclude", "on_duplicate", "strict")
_OUR_OPTIONS = words_in("aliases destructive group idempotent input_schema open_world read_only scopes")
_RECORD_PARTS = words_in(
    "_meta annotations arguments description icons inputSchema input_schema meta name outputSchema "
    "output_schema parameters title"
)
_PLACES = {
    "prompt": ("name", "title", "description"),
    "resource": ("uri",),
    "add_resource": ("uri", "content"),
    "add_skills": ("content",),
}
_CONTENT = words_in(
    """
    Audio AudioContent CallToolResult ContentBlock EmbeddedResource File Image ImageContent
    InputRequiredResult ResourceLink TextContent ToolResult
    """
)
_PRIMITIVES = (str, int, float, bool, bytes, type(None))
_UNDESCRIBED = (*_PRIMITIVES, Any, object)


@dataclass(slots=True)
class Note:
    """Findings about the tools of one origin, which is kept so that its id is not used again. Equal keys mean
    one function or object."""

    origin: Any
    key: tuple[int, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    spot: Spot | None = None


@dataclass(slots=True)
class Options:
    """The options by name, findings, and the names of those that could not be read."""

    given: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    unresolved: set[str] = field(default_factory=set)


class ToolMaker:
    """Makes tools of functions, objects, servers and records, each once."""

    def __init__(self, resolver: Resolver, patterns: Patterns) -> None:
        self.resolver = resolver
        self.patterns = patterns
        self.stubs = Stubs(resolver)
        self.stubs.evaluator.make_function = self.stub
        self.findings = patterns.findings
        self.report = patterns.report
        self.tabled: set[int] = set()  # the records in tables, by the ids of their nodes
        self._notes: dict[int, Note] = {}
        self._made: dict[Any, Any] = {}

    def note(self, origin: Any, findings: Iterable[Finding] = (), key: tuple[int, ...] = ()) -> Note:
        """Keep findings about the tools of an origin; return all that is known."""
        known = self._notes.setdefault(id(origin), Note(origin))
        known.key = known.key or key
        known.findings += findings
        return known

    def data_of(self, thing: Thing, *, is_table: bool = False) -> Any:
        """Return the value of a thing that is data. Raise Unresolved where only running would tell."""
        if isinstance(thing, Data) and not thing.is_open:
            return self.stubs.value(thing.node, Site(thing.scope, is_table=is_table))
        raise Unresolved("it is no data")

    # --- options -------------------------------------------------------------------------------------

    def read_options(self, call: Arguments, places: tuple[str, ...] = ()) -> Options:
        """Return all arguments of a call by name; `places` are the names of positional ones."""
        read = Options()
        written = [
            (name, Data(node, call.scope))
            for name, node in zip(places, call.args, strict=False)
            if not isinstance(node, ast.Starred)
        ]
        for keyword in call.keywords:
            if keyword.arg is not None:
                written.append((keyword.arg, Data(keyword.value, call.scope)))
            else:
                items = self.resolver.items(keyword.value, call.scope)
                written += [(str(getattr(item.key, "value", "**")), item) for item in items]
        for name, item in written:
            try:
                read.given[name] = self.data_of(item)
            except UNREAD:
                read.unresolved.add(name)
                what = "Options" if name == "**" else f"Option {name!r}"
                text = f"{what} ({show(item.node)}) cannot be told without running the code"
                hint = "write it as a literal, or as a constant of the module"
                found = found_at("unresolved-option", "warning", text, call.scope, item.node.lineno, hint)
                read.findings.append(found)
        return read

    def _read_ours(self, call: Arguments) -> tuple[OptionFields, list[Finding]]:
        """Return the options of `@tool("name", "description", {...}, ...)`."""
        read = self.read_options(call, _OURS)
        name, description, schema = (read.given.pop(key, None) for key in _OURS)
        return merge_options(name, description, schema, read.given), read.findings  # type: ignore[arg-type]

    def mark(self, node: ast.AST, origin: Any, holder: Any) -> None:
        """Give a stub the options of its `@tool(...)`; there are none, and a finding, if they are invalid."""
        call = self.patterns.marks.get(id(node))
        if call is None:
            return
        options, findings = self._read_ours(call)
        self.note(origin, findings)
        setattr(holder, MARK, NO_OPTIONS)
        try:
            setattr(holder, MARK, NO_OPTIONS.override(options))
        except DefinitionError as error:
            self.findings.append(placed(error.finding, call.scope.file, call.line))

    # --- functions -----------------------------------------------------------------------------------

    def stub(self, function: Function) -> Any:
        """Return a function with the signature of the real one that does nothing, once for each."""
        key = _key_of(function)
        if key not in self._made:
            made = self._make_stub(function, keeps_contexts=True)
            stub = self._made[key] = made.function
            self.note(stub, made.findings, key)
            if stub.__doc__ is None and function.owner is not None:  # that of the method it overrides
                bodies = [item.body.names for item in self.resolver.classes(function.owner)]
                nodes = [names[stub.__name__][-1].node for names in bodies if stub.__name__ in names]
                texts = (ast.get_docstring(node) for node in nodes if isinstance(node, FUNCTIONS))
                stub.__doc__ = next(filter(None, texts), None)
            self.mark(function.node, stub, stub)
        return self._made[key]

    def _make_stub(
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
                        self._made[thing] = holders.build(self, cls)
                    return self._made[thing]
                case Server():
                    return self.tools_of(thing)
                case Known(call=Arguments() as call):
                    return self._from_function(call, is_ours=thing.package == "toolcrib")
                case Data(node=ast.Call() as node, scope=scope):
                    return self._from_function(Arguments.of(node, scope), is_ours=False)
        except DefinitionError as error:
            self.findings.append(error.finding)
            return []
        return None

    def _from_function(self, call: Arguments, *, is_ours: bool) -> Any:
        """`Tool.from_function(...)`, of ours or of theirs."""
        node = call.args[0] if call.args else call.keyword("fn")
        thing = None if node is None else self.resolver.resolve(node, call.scope)
        if last_name(call.node) != "from_function" or not isinstance(thing, Function):
            return None
        if not is_ours:
            return self._adopt(thing, replace(call, args=call.args[1:]), "fastmcp")
        given, findings = self._read_ours(replace(call, args=call.args[1:]))
        self.note(self.stub(thing), findings)
        return Tool.from_function(self.stub(thing), **given)

    # --- servers -------------------------------------------------------------------------------------

    def library_of(self, server: Server) -> str:
        """Return whose rules hold. For a server from elsewhere, its use tells, and the imports beside it."""
        if server.library != "unknown" or not server.registrations:
            return server.library
        calls = [item.options for item in server.registrations]
        if any(len(call.args) > 1 or {item.arg for item in call.keywords} & _OUR_OPTIONS for call in calls):
            return "toolcrib"
        near = server.registrations[0].spot.scope.file
        beside = (file for file in self.resolver.files if file.path.parent == near.path.parent)
        named = (
            name
            for file in (near, *beside, *self.resolver.files)
            for name in ("fastmcp", "mcp", "toolcrib")
            if name in file.packages
        )
        return next(named, "mcp")

    def settings(self, server: Server) -> dict[str, Any]:
        """Return the options of a server of ours that its tools depend on."""
        read = Options() if server.call is None else self.read_options(server.call)
        if read.unresolved & {*_SETTINGS}:
            self.findings += read.findings
        return {key: value for key, value in read.given.items() if key in _SETTINGS}

    def tools_of(self, server: Server) -> list[Component]:
        """Return the tools of a server, each time the same."""
        if server in self._made:
            return self._made[server]  # type: ignore[no-any-return]
        found: list[Component] = []
        self._made[server] = found
        library = self.library_of(server)
        for item in server.registrations:
            if item.method in FEATURES:
                continue
            try:
                tools = self._add(item, server) if library == "toolcrib" else self._add_theirs(item, library)
            except Exception as error:  # options of any type may have been written
                self.findings.append(placed(finding_of(item.thing, error), *item.place))
                continue
            for tool in tools:
                self.note(tool.origin).spot = item.spot
                name = f"{server.prefix}_{tool.name}"
                found.append(tool.with_options(name=name) if server.prefix else tool)
        return found

    def _add(self, item: Registration, server: Server) -> list[Component]:
        """Return what `server.add(...)` adds."""
        thing = self.make(item.thing)
        if thing is None:
            self._refuse(item)
            return []
        if item.method == "register_tool" and thing != []:
            check_object(thing, lambda _: None)
            return [Tool.from_object(thing)]
        options, findings = self._read_ours(item.options)
        given: dict[str, Any] = dict(options)
        words = {key: given.pop(key) for key in _ADD_OPTIONS if key in given}
        batch = collect(thing, namespace=words.get("namespace"), **given)
        for tool in batch.tools:
            self.note(tool.origin, findings)
        batch.switch({**(self.settings(server).get("switches") or {}), **(words.get("switches") or {})})
        self.findings += [placed(finding, *item.place) for finding in batch.findings]
        return select(batch.tools, words.get("include") or (), words.get("exclude") or ())

    def _add_theirs(self, item: Registration, library: str) -> list[Component]:
        """Return the tools that a registration adds to a server of another library."""
        thing, made = item.thing, None
        if not isinstance(thing, Function):
            made = self.make(thing)
        elif not any("wraps(" in show(decorator) for decorator in thing.node.decorator_list):
            made = self._adopt(thing, self.patterns.options.get(id(thing.node), item.options), library)
        if made is None:
            self._refuse(item)
        return [made] if isinstance(made, Component) else []

    def _refuse(self, item: Registration) -> None:
        what = f"`{show(item.thing.node)}`" if isinstance(item.thing, Data) else "Something"
        text = f"{what} is put on the server here, and cannot be told without running the code"
        hint = "register functions by their names"
        self.report("unresolved-tool", "warning", text, item.spot.scope, item.options.line, hint)

    # --- functions on servers of mcp and fastmcp -----------------------------------------------------

    def _adopt(self, function: Function, call: Arguments, library: str) -> Component:
        """Return the tool that adopting makes of a function. Raise DefinitionError where that fails."""
        read = self.read_options(call, _SDK if library == "mcp" else ("name",))
        given, stated = read.given, read.given.get("output_schema")
        drops = {*self._filled(function), *(given.get("exclude_args") or ())}
        made = self._make_stub(function, drops=drops)
        stub: Any = made.function
        returns = stub.__annotations__.get("return")
        names = list(_foreign_names(returns))
        is_strange = any(name not in _CONTENT for name in names)
        findings = [item for item in made.findings if not (names and item.parameter == "return")]
        is_described = "output_schema" not in given or isinstance(stated, Mapping)
        is_described = is_described and given.get("structured_output") is not False
        if names or not is_described or _is_undescribed(returns, library):
            stub.__annotations__.pop("return", None)
            returns = None
        name = given.get("name") or function.node.name
        self.note(stub, [*findings, *read.findings], _key_of(function))
        options = ToolOptions(**_their_options(read) | {"name": name})
        said = given.get("description")
        if said and plain_words(said) not in plain_words(docstring_of(stub)):
            options = replace(options, description=said)
        callee = HandlerInfo(stub)
        if function.node.args.vararg or not function.node.args.kwarg:  # `**kwargs` are further properties
            check_parameters(callee, name)

        def build(callee: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
            place = (callee.source.file, callee.source.line)
            try:
                check_parameters(callee, name)
                parts = build_function(callee, name, options)
            except DefinitionError as error:
                named = [item for item in callee.parameters if item.kind not in VARIABLE_KINDS]
                required = [item.name for item in named if item.default is EMPTY]
                properties: Any = {item.name: {} for item in named}
                schema = {"type": "object", "properties": properties, "required": required}
                parts = build_handler(callee, name, replace(options, input_schema=schema))
                words = f"Tool '{name}' keeps the schema of the other library, unknown here: {error}"
                finding = Finding("guessed-schema", "warning", words, name, None, *place, error.hint)
                return replace(parts, findings=(*parts.findings, finding))
            if isinstance(stated, Mapping) and options.output_schema is None:
                return parts.with_output_schema(stated)
            is_theirs = isinstance(returns, type) and returns not in _UNDESCRIBED
            if parts.output_schema is None and (is_strange or is_theirs):
                words = f"The result of tool '{name}' may be described by the other library"
                finding = Finding("guessed-result", "advice", words, name, "return", *place)
                return replace(parts, findings=(*parts.findings, finding))
            return parts

        return Tool(callee, name, options, build, stub)

    def _filled(self, function: Function) -> Iterator[str]:
        """Yield the parameters that fastmcp fills in by their defaults, such as `Depends(...)`."""
        for name, default in defaults_of(function.node.args):
            called = default.func if isinstance(default, ast.Call) else None
            if called and self.resolver.full_name(called, function.scope).startswith("fastmcp."):
                yield name

    # --- records -------------------------------------------------------------------------------------

    def read_record(self, kind: str, call: Arguments) -> Component | None:
        """Return the tool or prompt of `Tool(name="...", ...)` or `Prompt(...)`; None for one in a table."""
        if id(call.node) in self.tabled:
            return None
        known = [item for item in call.keywords if item.arg in (None, *_RECORD_PARTS)]
        read = self.read_options(replace(call, keywords=known))
        given = _respelled(read.given)
        facts = {key: item.value if isinstance(item, enum.Enum) else item for key, item in given.items()}
        name = facts.get("name")
        if not isinstance(name, str):
            text = f"The name of a {kind} is computed here, so it is not listed"
            hint = "write it as a literal, or as a constant of the module"
            self.report("unresolved-tool", "warning", text, call.scope, call.line, hint)
            return None
        source = Location(str(call.scope.file.path), call.line)
        if kind == "prompt":
            made = describe_entry({**facts, "name": name}, source)
        else:
            schema, output = facts.get("inputSchema") or facts.get("parameters"), facts.get("outputSchema")
            definition = ToolDefinition(
                name=name,
                description=str(facts.get("description") or ""),
                input_schema=schema if isinstance(schema, dict) else dict(OPEN_SCHEMA),
                output_schema=output if isinstance(output, dict) else None,
                title=facts.get("title"),
                annotations=_respelled(facts.get("annotations")),
                icons=facts.get("icons") or (),
                meta=facts.get("_meta") or facts.get("meta") or {},
                source=source,
            )
            made = describe(definition)
        self.note(made.origin, read.findings, (id(call.node),))
        return made

    def find_gaps(self) -> None:
        """Report the handlers of `list_tools` whose list is not written down."""
        records = {id(call.node) for several in self.patterns.records.values() for _, call in several}
        for lister in self.patterns.listers:
            for item in self.resolver.returned_items(lister):
                thing = self.resolver.resolve(item.node, item.scope)
                is_call = isinstance(thing, Known) and thing.call is not None
                is_record = is_call or id(getattr(thing, "node", item.node)) in records
                if item.is_open or not is_record:
                    text = f"{lister.node.name}() builds its list in a way that cannot be followed to its end"
                    hint = "list the running server; or return a list of Tool(name=..., inputSchema={...})"
                    self.report("guessed-list", "warning", text, lister.scope, lister.line, hint)
                    break

    # --- resources and prompts -----------------------------------------------------------------------

    def features_of(self, server: Server, kind: str) -> Iterator[Component]:
        """Yield the resources or the prompts of a server."""
        for item in server.registrations:
            if item.method in FEATURES and (item.method == "prompt") is (kind == "prompt"):
                try:
                    made = self._read_feature(item, is_ours=self.library_of(server) == "toolcrib")
                except Exception as error:  # options of any type may have been written
                    self.findings.append(placed(finding_of(item.thing, error), *item.place))
                    continue
                if made is not None:
                    self.note(made.origin).spot = item.spot
                    yield made

    def _read_feature(self, item: Registration, *, is_ours: bool) -> Component | None:
        read = self.read_options(item.options, _PLACES[item.method])
        known = (PromptFields if item.method == "prompt" else ResourceFields).__annotations__
        fields: Any = {key: value for key, value in read.given.items() if key in known}
        uri, content = read.given.get("uri"), read.given.get("content", "")
        if item.method == "add_skills" or isinstance(content, Path):
            text, hint = "Files that are put on the server here are not listed", "list it without --static"
            self.report("guessed-more", "advice", text, item.spot.scope, item.options.line, hint)
            return None
        if read.unresolved & {"uri", "content"}:
            self.findings += read.findings
            return None
        if item.method == "add_resource":
            source = Location(str(item.options.scope.file.path), item.options.line)
            (made,) = add_static(uri, content, fields, source)  # type: ignore[arg-type]
            self.note(made.origin, read.findings)
            return made
        function = item.thing
        if item.method == "resource" and isinstance(uri, str) and ":" not in uri and not is_ours:
            return None  # of another library: a path
        if not isinstance(function, Function):  # a lambda, or an object that is computed
            self._refuse(item)
            return None
        stub = self._make_stub(function, drops={*self._filled(function)}, keeps_contexts=is_ours)
        stub.function.__annotations__.pop("return", None)  # nothing describes it
        findings = [*(found for found in stub.findings if found.parameter != "return"), *read.findings]
        self.note(stub.function, findings, _key_of(function))
        if item.method == "prompt":
            return make_prompt(stub.function, None, fields)
        if not is_ours:
            fields.setdefault("mime_type", "text/plain")
        given: Any = stub.function if uri is None else uri  # a decorator that is not called
        return make_resource(given, stub.function, fields)


def _key_of(function: Function) -> tuple[int, int]:
    return id(function.owner), id(function.node)


def _their_options(read: Options) -> dict[str, Any]:
    """Return the options of `@mcp.tool(...)` as options of toolcrib, except for texts and schemas."""
    given = read.given
    notes = _respelled(given.get("annotations"))
    meta = {key: value for key, value in (given.get("meta") or {}).items() if key != "fastmcp"}
    is_open = not given.get("auth") and "auth" not in read.unresolved
    options = {
        "title": given.get("title") or notes.get("title"),
        **{option: notes.get(hint) for hint, option in ANNOTATION_OPTIONS.items()},
        "tags": sorted(given.get("tags") or ()),
        "version": str(given["version"]) if given.get("version") is not None else None,
        "icons": [_respelled(icon) or icon for icon in given.get("icons") or ()],
        "meta": {**meta, "ui": True} if given.get("app") is True else meta,
        "enabled": given.get("enabled") is not False and is_open,
    }
    if options["read_only"] and options["destructive"]:
        options["destructive"] = None  # it has no meaning for a tool that only reads
    return options


def _respelled(value: Any) -> dict[str, Any]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {SPELLINGS.get(str(key), str(key)): item for key, item in pairs}


def _foreign_names(hint: Any, depth: int = 0) -> Iterator[str]:
    """Yield the names of the classes of mcp and fastmcp in a hint."""
    cls = typing.get_origin(hint) or hint
    module = getattr(cls, "__module__", "")
    if isinstance(cls, type) and isinstance(module, str) and module.partition(".")[0] in PACKAGES:
        yield cls.__name__
    for part in typing.get_args(hint) if depth < 20 else ():
        yield from _foreign_names(part, depth + 1)


def _is_undescribed(hint: Any, library: str) -> bool:
    """Whether the other library describes no result of this hint."""
    if hint is None or is_any_list(hint):
        return hint is not None
    bare = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    if library == "fastmcp":
        arms = typing.get_args(bare) if typing.get_origin(bare) else (bare,)
        return bytes in arms and not isinstance(bare, type(list[int]))
    if not isinstance(bare, type) or typing.get_origin(bare) is not None or bare in _PRIMITIVES:
        return False
    if hasattr(bare, "model_fields") or typing.is_typeddict(bare):
        return False
    return not any(map(inspect.get_annotations, bare.__mro__))  # nothing says what is in it
