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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.component import Component, Tool, merge_options
from toolcrib.definition import ToolDefinition
from toolcrib.errors import DefinitionError, Finding, Location
from toolcrib.options import OptionFields, ToolOptions
from toolcrib.registry.prompts import PromptFields, make_prompt
from toolcrib.registry.registry import finding_of
from toolcrib.registry.resources import ResourceFields, add_static, make_resource
from toolcrib.schema.function import ToolParts, build_function, build_handler
from toolcrib.schema.parameters import EMPTY, VARIABLE_KINDS, HandlerInfo, check_parameters, docstring_of
from toolcrib.sources.described import ANNOTATION_OPTIONS, describe, describe_entry
from toolcrib.sources.foreign.reading import is_any_list, plain_words
from toolcrib.sources.foreign.recognition import PACKAGES
from toolcrib.sources.scan.patterns import FEATURES, Record, placed
from toolcrib.sources.scan.resolve import Arguments, Data, Function, Known, Registration, Server
from toolcrib.sources.scan.source_file import Scope, defaults_of, show, words_in
from toolcrib.sources.scan.values import SPELLINGS, Unresolved

if TYPE_CHECKING:
    from toolcrib.sources.scan.making import ToolMaker

_OURS = ("name", "description", "schema")
_SDK = ("name", "title", "description", "annotations", "icons", "meta", "structured_output")
OPEN_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
UNREAD = (Unresolved, RecursionError)
_RECORD_PARTS = words_in(
    "_meta annotations arguments description icons inputSchema input_schema meta name outputSchema "
    "output_schema parameters title"
)


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


def read_ours(maker: ToolMaker, call: Arguments) -> tuple[OptionFields, list[Finding]]:
    """Return the options of `@tool("name", "description", {...}, ...)`."""
    read = read_options(maker, call, _OURS)
    name, description, schema = (read.given.pop(key, None) for key in _OURS)
    return merge_options(name, description, schema, read.given), read.findings  # type: ignore[arg-type]


def read_options(maker: ToolMaker, call: Arguments, places: tuple[str, ...]) -> Options:
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
            items = maker.resolver.items(keyword.value, call.scope)
            written += [(str(getattr(item.key, "value", "**")), item) for item in items]
    for name, item in written:
        try:
            read.given[name] = maker.data_of(item)
        except UNREAD:
            read.unresolved.add(name)
            what = f"{'Options' if name == '**' else f'Option {name!r}'} ({show(item.node)})"
            hint = "write it as a literal, or as a constant of the module"
            read.findings.append(unread(what, call.scope, item.node.lineno, "unresolved-option", hint))
    return read


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


# --- servers -----------------------------------------------------------------------------------------

_CONTENT = words_in(
    """
    Audio AudioContent CallToolResult ContentBlock EmbeddedResource File Image ImageContent
    InputRequiredResult ResourceLink TextContent ToolResult
    """
)
_PRIMITIVES = (str, int, float, bool, bytes, type(None))
_UNDESCRIBED = (*_PRIMITIVES, Any, object)
_OUR_OPTIONS = words_in("aliases destructive group idempotent input_schema open_world read_only scopes")


def read_one(maker: ToolMaker, library: str, item: Registration) -> list[Component]:
    """Return the tools that a registration adds to a server of another library."""
    thing, call = item.thing, item.options
    if not isinstance(thing, Function):
        made = maker.make(thing)
    else:
        try:
            made = adopt(maker, thing, maker.patterns.options.get(id(thing.node), call), library)
        except DefinitionError as error:
            if not any("wraps" in show(decorator) for decorator in thing.node.decorator_list):
                maker.findings.append(placed(error.finding, call.scope.file, call.line))
                return []
            made = None  # it has the parameters of another function
    if made is None:
        maker.refuse_unknown(item)
    return [made] if isinstance(made, Component) else []


def library_of(maker: ToolMaker, server: Server) -> str:
    """Return whose rules hold. For a server from elsewhere, its use tells, and the imports beside it."""
    if server.library != "unknown" or not server.registrations:
        return server.library
    calls = [item.options for item in server.registrations]
    if any(len(call.args) > 1 or {item.arg for item in call.keywords} & _OUR_OPTIONS for call in calls):
        return "toolcrib"
    near = server.registrations[0].spot.scope.file
    beside = (file for file in maker.resolver.files if file.path.parent == near.path.parent)
    named = (
        name
        for file in (near, *beside, *maker.resolver.files)
        for name in ("fastmcp", "mcp", "toolcrib")
        if name in file.packages
    )
    return next(named, "mcp")


# --- one function ------------------------------------------------------------------------------------


def adopt(maker: ToolMaker, function: Function, call: Arguments, library: str) -> Component:
    """Return the tool that adopting makes of a function. Raise DefinitionError where that fails."""
    read = read_options(maker, call, _SDK if library == "mcp" else ("name",))
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
        returns = None
    name = given.get("name") or function.node.name
    maker.note(stub, [*findings, *read.findings], maker.key_of(function))
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
            named = [item for item in callee.parameters if item.kind not in VARIABLE_KINDS]
            required = [item.name for item in named if item.default is EMPTY]
            schema = {**OPEN_SCHEMA, "properties": {item.name: {} for item in named}, "required": required}
            parts = build_handler(callee, name, replace(options, input_schema=schema))
            words = f"Tool '{name}' keeps the schema of the other library, which is not known here: {error}"
            where = (callee.source.file, callee.source.line)
            finding = Finding("guessed-schema", "warning", words, name, None, *where, error.hint)
            return replace(parts, findings=(*parts.findings, finding))
        if isinstance(stated, Mapping) and options.output_schema is None:
            return parts.with_output_schema(stated)
        is_theirs = isinstance(returns, type) and returns not in _UNDESCRIBED
        if parts.output_schema is None and (strange or is_theirs):
            words = f"The result of tool '{name}' may be described by the other library"
            where = (callee.source.file, callee.source.line)
            finding = Finding("guessed-result", "advice", words, name, "return", *where)
            return replace(parts, findings=(*parts.findings, finding))
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


# --- records -----------------------------------------------------------------------------------------


def read_facts(maker: ToolMaker, call: Arguments) -> tuple[dict[str, Any], list[Finding]]:
    """Return the literal parts of `Tool(...)`; parts that are computed are findings."""
    known = replace(call, keywords=[item for item in call.keywords if item.arg in (None, *_RECORD_PARTS)])
    read = read_options(maker, known, ())
    facts = _respelled(read.given)
    return {
        key: item.value if isinstance(item, enum.Enum) else item for key, item in facts.items()
    }, read.findings


def read_record(maker: ToolMaker, record: Record) -> Component | None:
    """Return the tool or prompt that a record describes."""
    facts, findings = read_facts(maker, record.call)
    name = facts.get("name")
    if not isinstance(name, str):
        text = f"The name of a {record.kind} is computed here, so it is not listed"
        hint = "write it as a literal, or as a constant of the module"
        maker.report("unresolved-tool", "warning", text, record.call.scope, record.call.line, hint)
        return None
    source = Location(record.call.path, record.call.line)
    if record.kind == "prompt":
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
    maker.note(made.origin, findings, (id(record.node),))
    return made


def find_gaps(maker: ToolMaker, listers: Iterable[Function]) -> None:
    """Report the handlers of `list_tools` whose list is not written down."""
    records = {id(record.node) for several in maker.patterns.records.values() for record in several}
    for lister in listers:
        for item in maker.resolver.returned_items(lister):
            thing = maker.resolver.resolve(item.node, item.scope)
            is_call = isinstance(thing, Known) and thing.call is not None
            is_record = is_call or id(getattr(thing, "node", item.node)) in records
            if item.is_open or not is_record:
                text = f"{lister.node.name}() builds its list in a way that cannot be followed to its end"
                hint = (
                    "list the running server; to scan it, return a list of Tool(name=..., inputSchema={...})"
                )
                maker.report("guessed-list", "warning", text, lister.scope, lister.line, hint)
                break


# --- resources and prompts -------------------------------------------------------------------------------

_PLACES = {
    "prompt": ("name", "title", "description"),
    "resource": ("uri",),
    "add_resource": ("uri", "content"),
    "add_skills": ("content",),
}


def read_features(maker: ToolMaker, server: Server, kind: str) -> Iterator[Component]:
    """Yield the resources or the prompts of a server."""
    for item in server.registrations:
        if item.method in FEATURES and (item.method == "prompt") is (kind == "prompt"):
            try:
                made = _read(maker, item, library_of(maker, server))
            except Exception as error:  # options of any type may have been written
                found = finding_of(item.thing, error)
                maker.findings.append(placed(found, item.options.scope.file, item.options.line))
                continue
            if made is not None:
                maker.note(made.origin).spot = item.spot
                yield made


def _read(maker: ToolMaker, item: Registration, library: str) -> Component | None:
    read = read_options(maker, item.options, _PLACES[item.method])
    known = (PromptFields if item.method == "prompt" else ResourceFields).__annotations__
    fields: Any = {key: value for key, value in read.given.items() if key in known}
    uri, content = read.given.get("uri"), read.given.get("content", "")
    if item.method == "add_skills" or isinstance(content, Path):
        text, hint = "Files that are put on the server here are not listed", "list it without --static"
        maker.report("guessed-more", "advice", text, item.spot.scope, item.options.line, hint)
        return None
    if read.unresolved & {"uri", "content"}:
        maker.findings += read.findings
        return None
    if item.method == "add_resource":
        source = Location(item.options.path, item.options.line)
        (made,) = add_static(uri, content, fields, source)  # type: ignore[arg-type]
        maker.note(made.origin, read.findings)
        return made
    function, is_ours = item.thing, library == "toolcrib"
    if item.method == "resource" and isinstance(uri, str) and ":" not in uri and not is_ours:
        return None  # of another library: a path
    if not isinstance(function, Function):  # a lambda, or an object that is computed
        maker.refuse_unknown(item)
        return None
    stub = maker.make_stub(function, drops=filled(maker, function), keeps_contexts=is_ours)
    stub.function.__annotations__.pop("return", None)  # nothing describes it
    findings = [*(found for found in stub.findings if found.parameter != "return"), *read.findings]
    maker.note(stub.function, findings, maker.key_of(function))
    if item.method == "prompt":
        return make_prompt(stub.function, None, fields)
    if not is_ours:
        fields.setdefault("mime_type", "text/plain")
    given: Any = stub.function if uri is None else uri  # a decorator that is not called
    return make_resource(given, stub.function, fields)
