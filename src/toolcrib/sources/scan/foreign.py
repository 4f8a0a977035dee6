"""Read the options of decorators, and turn functions on servers of mcp and fastmcp into tools.

Parameters that the library fills in are left out, and its options are applied. Neither library is loaded. An
option whose value cannot be known without running code is left out, with a finding.
"""

from __future__ import annotations

import ast
import enum
import inspect
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from toolcrib.definition import OptionFields, ToolDefinition, ToolOptions
from toolcrib.errors import DefinitionError, Finding, Location
from toolcrib.schema.function import ToolParts, build_function, build_handler
from toolcrib.schema.parameters import EMPTY, VARIABLE_KINDS, HandlerInfo, check_parameters, docstring_of
from toolcrib.sources.described import ANNOTATION_OPTIONS, describe
from toolcrib.sources.foreign.reading import is_any_list, plain_words
from toolcrib.sources.foreign.recognition import PACKAGES
from toolcrib.sources.scan.patterns import Registration, placed
from toolcrib.sources.scan.resolve import Resolver
from toolcrib.sources.scan.source_file import Guess, Scope, defaults_of, show, words_in
from toolcrib.sources.scan.things import Arguments, Data, Function, Known, Server, Thing
from toolcrib.sources.scan.values import Unresolved
from toolcrib.tool import Tool, merge_options

if TYPE_CHECKING:
    from toolcrib.sources.scan.making import ToolMaker

_OURS = ("name", "description", "schema")
_SDK = ("name", "title", "description", "annotations", "icons", "meta", "structured_output")
_SPELLINGS = {
    "read_only_hint": "readOnlyHint",
    "destructive_hint": "destructiveHint",
    "idempotent_hint": "idempotentHint",
    "open_world_hint": "openWorldHint",
    "mime_type": "mimeType",
    "input_schema": "inputSchema",
    "output_schema": "outputSchema",
}
OPEN_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
UNREAD = (Unresolved, RecursionError)
_RECORDS = frozenset({"Annotations", "Icon", "ToolAnnotations"})


@dataclass(slots=True)
class Options:
    """The options by name, findings, and the names of those that could not be read."""

    given: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    unresolved: set[str] = field(default_factory=set)


def unread(what: str, scope: Scope, line: int | None, code: str, hint: str) -> Finding:
    """Return the finding that something cannot be read."""
    words = f"{what} cannot be told without running the code"
    return Finding(code, "warning", words, file=str(scope.file.path), line=line, hint=hint)


def read_ours(resolver: Resolver, call: Arguments) -> tuple[OptionFields, list[Finding]]:
    """Return the options of `@tool("name", "description", {...}, ...)`."""
    read = read_options(resolver, call, _OURS)
    name, description, schema = (read.given.pop(key, None) for key in _OURS)
    return merge_options(name, description, schema, read.given), read.findings  # type: ignore[arg-type]


def read_options(resolver: Resolver, call: Arguments, places: tuple[str, ...]) -> Options:
    """Return all arguments of a call by name; `places` are the names of positional ones."""
    read = Options()
    given = [Data(node, call.scope, call.frame) for node in call.args]
    starred = [position for position, node in enumerate(call.args) if isinstance(node, ast.Starred)]
    written = list(zip(places, given[: starred[0] if starred else None], strict=False))
    for keyword in call.keywords:
        if keyword.arg is not None:
            written.append((keyword.arg, Data(keyword.value, call.scope, call.frame)))
        else:
            items = resolver.items(keyword.value, call.scope, call.frame)
            written += [(str(getattr(item.key, "value", "**")), item) for item in items]
    for name, item in written:
        try:
            read.given[name] = _read_value(resolver, item)
        except UNREAD:
            read.unresolved.add(name)
            what = f"{'Options' if name == '**' else f'Option {name!r}'} ({show(item.node)})"
            hint = "write it as a literal, or as a constant of the module"
            read.findings.append(unread(what, call.scope, item.node.lineno, "unresolved-option", hint))
    return read


def _read_value(resolver: Resolver, item: Data) -> Any:
    """Return data, and the records of other libraries as the data they hold."""
    node = item.node
    if isinstance(node, ast.List | ast.Tuple) and any(isinstance(part, ast.Call) for part in node.elts):
        return [_read_value(resolver, replace(item, node=part)) for part in node.elts]
    made = resolver.of(item)
    call = made.call if isinstance(made, Known) and made.last in _RECORDS else None
    if call is None or call.args:
        return resolver.data_of(item)
    facts = {str(each.arg): resolver.data(each.value, call.scope, call.frame) for each in call.keywords}
    return {key: value for key, value in _respelled(facts).items() if value is not None}


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
    return {_SPELLINGS.get(str(key), str(key)): item for key, item in pairs}


# --- servers -----------------------------------------------------------------------------------------

_CONTENT = words_in(
    """
    Audio AudioContent CallToolResult ContentBlock EmbeddedResource File Image ImageContent
    InputRequiredResult ResourceLink TextContent ToolResult
    """
)
_PRIMITIVES = (str, int, float, bool, bytes, type(None))
_UNDESCRIBED = (*_PRIMITIVES, Any, object)
_OTHER = Guess("guessed-condition", "another one of its name may be registered instead")
_OUR_OPTIONS = words_in("aliases destructive group idempotent input_schema open_world read_only scopes")


def read_server(maker: ToolMaker, server: Server) -> list[Tool]:
    """Return the tools of a server: of one name and version, mcp keeps the first, fastmcp the last."""
    found: dict[tuple[str, str | None], Tool] = {}
    for registration in server.registrations:
        tool = _read_one(maker, server, registration)
        if tool is None:
            continue
        key = (tool.name, tool.version)
        earlier = found.setdefault(key, tool)
        before, note = maker.note(earlier.origin), maker.note(tool.origin)
        if before is note or before.key == note.key != ():  # one function, reached in several ways
            found[key] = tool if len(note.guesses) < len(before.guesses) else earlier
        elif is_uncertain([*before.guesses, *note.guesses]):
            maker.note(earlier.origin, guesses=[_OTHER])
        else:
            which = "last" if server.library == "fastmcp" else "first"
            words = f"Tool '{tool.name}' is registered twice on one server: the {which} one counts"
            hint = f"the first one is at {earlier.source}; rename one"
            place = (str(registration.call.file.path), tool.source.line)
            maker.findings.append(Finding("duplicate-name", "error", words, tool.name, None, *place, hint))
            found[key] = tool if server.library == "fastmcp" else earlier
    for mount in server.mounts:
        for tool in maker.tools_of(mount.server):
            maker.note(tool.origin, guesses=[*mount.guesses, *server.guesses])
            name = f"{mount.prefix}_{tool.name}" if mount.prefix else tool.name
            renamed = tool.with_options(name=name) if name != tool.name else tool
            found.setdefault((name, tool.version), renamed)
    return list(found.values())


def is_uncertain(guesses: Iterable[Guess]) -> bool:
    """Return whether a tool may be missing, or be on another server or under another name."""
    return any(guess.code not in ("guessed-decorator", "guessed-result") for guess in guesses)


def _read_one(maker: ToolMaker, server: Server, registration: Registration) -> Tool | None:
    thing, call = registration.thing, registration.call
    guesses = [*registration.guesses, *server.guesses]
    if not isinstance(thing, Function):
        made = maker.make(thing, guesses)
    else:
        call = maker.patterns.options.get(id(thing.node), call)
        library = library_of(server)
        if library == "mcp" == server.library and not call.is_called:
            guesses.append(Guess("guessed-decorator", "the tool() of mcp has to be called: @mcp.tool()"))
        try:
            made = adopt(maker, thing, call, library)
        except DefinitionError as error:
            if any("wraps" in show(item) for item in thing.node.decorator_list):
                maker.refuse_unknown(registration)  # it has the parameters of another function
            else:
                maker.findings.append(placed(error.finding, call.file, call.line))
            return None
    if not isinstance(made, Tool):
        maker.refuse_unknown(registration)
        return None
    maker.note(made.origin, guesses=guesses)
    return made


def library_of(server: Server) -> str:
    """Return whose rules hold. For a server from elsewhere, its use tells, and the imports beside it."""
    if server.library != "unknown" or not server.registrations:
        return server.library
    calls = [item.call for item in server.registrations]
    if any(len(call.args) > 1 or {item.arg for item in call.keywords} & _OUR_OPTIONS for call in calls):
        return "toolcrib"
    scope = calls[0].file.scope
    imports = [*scope.stars, *(item for bindings in scope.names.values() for item in bindings)]
    packages = {item.module.partition(".")[0] for item in imports if not item.level}
    return next((name for name in ("fastmcp", "mcp", "toolcrib") if name in packages), "mcp")


# --- one function ------------------------------------------------------------------------------------


def adopt(maker: ToolMaker, function: Function, call: Arguments, library: str) -> Tool:
    """Return the tool that adopting makes of a function. Raises DefinitionError where that fails."""
    read = read_options(maker.resolver, call, _SDK if library == "mcp" else ("name",))
    given, stated = read.given, read.given.get("output_schema")
    made = maker.make_stub(function, drops={*filled(maker, function), *(given.get("exclude_args") or ())})
    stub: Any = made.function
    returns = stub.__annotations__.get("return")
    names = list(_foreign_names(returns))
    strange = [name for name in names if name not in _CONTENT]
    findings = [item for item in made.findings if not (names and item.parameter == "return")]
    is_described = "output_schema" not in given or isinstance(stated, Mapping)
    is_described = is_described and given.get("structured_output") is not False
    if names or not is_described or _is_undescribed(returns, library):
        stub.__annotations__.pop("return", None)
    guesses = maker.guesses_about(function)
    if strange:
        words = f"its result is described by {strange[0]} of the other library"
        guesses.append(Guess("guessed-result", words))
    maker.note(stub, [*findings, *read.findings], guesses, maker.key_of(function))
    name = given.get("name") or function.node.name
    options = ToolOptions(**_their_options(read) | {"name": name})
    said = given.get("description")
    if said and plain_words(said) not in plain_words(docstring_of(stub)):
        options = replace(options, description=said)
    callee = HandlerInfo(stub)
    if function.node.args.vararg or not function.node.args.kwarg:  # `**kwargs` are further properties
        check_parameters(callee, name)

    def build(callee: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
        try:
            check_parameters(callee, name)
            parts = build_function(callee, name, options)
        except DefinitionError as error:
            return _permit(callee, name, options, error)
        if isinstance(stated, Mapping) and options.output_schema is None:
            parts.replace_output_schema(stated)
            return parts
        hint = callee.function.__annotations__.get("return")
        if parts.output_schema is None and isinstance(hint, type) and hint not in _UNDESCRIBED:
            words = f"The result of tool '{name}' may be described by the other library"
            where = (callee.source.file, callee.source.line)
            parts.findings.append(Finding("guessed-result", "advice", words, name, "return", *where))
        return parts

    return Tool(callee, name, options, build, stub)


def filled(maker: ToolMaker, function: Function) -> set[str]:
    """Return the parameters that fastmcp fills in by their defaults, such as `Depends(...)`."""
    found = set()
    for name, default in defaults_of(function.node.args):
        if isinstance(default, ast.Call):
            called = maker.resolver.full_name(default.func, function.scope)
            found |= {name} if called.startswith("fastmcp.") else set()
    return found


def _foreign_names(hint: Any, depth: int = 0) -> Iterator[str]:
    """Yield the names of the classes of mcp and fastmcp in a hint."""
    cls = typing.get_origin(hint) or hint
    module = getattr(cls, "__module__", "")
    if isinstance(cls, type) and isinstance(module, str) and module.partition(".")[0] in PACKAGES:
        yield cls.__name__
    for part in typing.get_args(hint) if depth < 20 else ():
        yield from _foreign_names(part, depth + 1)


def _permit(callee: HandlerInfo, name: str, options: ToolOptions, error: DefinitionError) -> ToolParts:
    """Return what is known of a tool whose schema only the other library makes."""
    named = [item for item in callee.parameters if item.kind not in VARIABLE_KINDS]
    required = [item.name for item in named if item.default is EMPTY]
    names: dict[str, Any] = {item.name: {} for item in named}
    schema: dict[str, Any] = {"type": "object", "properties": names, "required": required}
    if len(named) < len(callee.parameters):
        schema["additionalProperties"] = True
    parts = build_handler(callee, name, replace(options, input_schema=schema))
    words = f"Tool '{name}' keeps the schema of the other library, which is not known here: {error}"
    where = (callee.source.file, callee.source.line)
    parts.findings.append(Finding("guessed-schema", "warning", words, name, None, *where, error.hint))
    return parts


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


# --- low-level servers -------------------------------------------------------------------------------


def record_call(thing: Thing) -> Arguments | None:
    """Return the call `Tool(name=..., inputSchema=...)` of the official SDK."""
    is_record = isinstance(thing, Known) and thing.package in ("mcp", "mcp_types") and thing.last == "Tool"
    return thing.call if is_record else None  # type: ignore[attr-defined]


def read_record(maker: ToolMaker, call: Arguments) -> dict[str, Any]:
    """Return the literal parts of a record; parts that are computed are findings."""
    read = read_options(maker.resolver, call, ())
    maker.findings += [replace(item, tool=str(read.given.get("name", "?"))) for item in read.findings]
    facts = _respelled(read.given)
    return {key: value.value if isinstance(value, enum.Enum) else value for key, value in facts.items()}


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
    return list(found.values())


def _described(maker: ToolMaker, item: Data, server: Server) -> Tool | None:
    call = record_call(maker.resolver.of(item))
    facts = {} if call is None else read_record(maker, call)
    if call is None or not isinstance(facts.get("name"), str):
        return None
    schema, output = facts.get("inputSchema"), facts.get("outputSchema")
    definition = ToolDefinition(
        name=facts["name"],
        description=str(facts.get("description") or ""),
        input_schema=schema if isinstance(schema, dict) else dict(OPEN_SCHEMA),
        output_schema=output if isinstance(output, dict) else None,
        title=facts.get("title"),
        annotations=_respelled(facts.get("annotations")),
        icons=facts.get("icons") or (),
        meta=facts.get("_meta") or facts.get("meta") or {},
        source=Location(str(call.file.path), call.line),
    )
    tool = describe(definition)
    maker.note(tool.origin, (), [*item.guesses, *server.guesses], (call.key,))
    return tool
