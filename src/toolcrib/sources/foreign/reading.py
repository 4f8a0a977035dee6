"""Read a server of `mcp` or `fastmcp` into tools, resources, prompts and findings.

The server is asked for its tools as by any client, so that toolcrib serves what the server shows. Each tool
is run in one of two ways (`Adoption`): a plain function of a server without guards natively, as if it had
been registered with toolcrib; everything else, resources and prompts included, through the server's handlers.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import sys
import threading
import types
import typing
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

from toolcrib.component import Adoption, Component, Tool
from toolcrib.context import Context
from toolcrib.errors import (
    CallError,
    DefinitionError,
    Finding,
    InvalidToolError,
    Location,
    SourceError,
    ToolCrashedError,
    ToolError,
)
from toolcrib.options import MAX_TIMEOUT_S, OptionFields, ToolOptions
from toolcrib.schema.parameters import (
    EMPTY,
    HandlerInfo,
    check_parameters,
    docstring_of,
    find_function,
    locate,
)
from toolcrib.sources.foreign.bridge import (
    Bridge,
    Features,
    Lifespan,
    Session,
    list_all,
    list_features,
    run_server,
)
from toolcrib.sources.foreign.guards import (
    NOT_OVER_HTTP,
    find_guards,
    find_override,
    lists_features_itself,
    locate_server,
)
from toolcrib.sources.foreign.plain import (
    adds_features,
    find_change,
    find_library_type,
    find_lifespan_change,
    find_obstacle,
    hints_of,
)
from toolcrib.sources.foreign.recognition import (
    MAX_MOUNTS,
    Library,
    check_version,
    has_lifespan,
    is_low_level,
    keeps_lifespan,
    library_of,
    lifespans_of,
    low_level_of,
    package_of,
    started_on,
)

if typing.TYPE_CHECKING:
    from toolcrib.schema.function import ToolParts

LIST_S = 30.0
"""How long a server may take to list its tools: one that is a proxy asks others."""
PLAIN = "a plain function"
_SCALARS = ("string", "integer", "number", "boolean")
_PROTOCOL_ERRORS = frozenset({("mcp", "MCPError"), ("mcp", "McpError")})
_DELIBERATE = {
    "mcp": frozenset({("mcp", "ResourceError"), ("mcp", "ToolError")}),
    "fastmcp": frozenset({("fastmcp", "FastMCPError")}),
}
"""Errors that a function raises on purpose, with a message for the caller."""


@dataclass(slots=True)
class Reading:
    tools: list[Component] = field(default_factory=list)
    resources: list[Component] = field(default_factory=list)
    prompts: list[Component] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


@dataclass(slots=True)
class _Listed:
    """A tool as the server lists it. `origin` is the library's object behind it, where that is known, and
    `home` the mounted server that it belongs to."""

    wire: Mapping[str, Any]
    origin: Any = None
    home: Any = None
    version: str | None = None

    @property
    def name(self) -> str:
        name: str = self.wire["name"]
        return name

    @property
    def is_function(self) -> bool:
        """Whether the tool is a function without a transformation."""
        return type(self.origin).__name__ in ("FunctionTool", "Tool") and hasattr(self.origin, "fn")

    @property
    def is_wrapped(self) -> bool:
        """Whether the library wraps the result as `{"result": ...}`, because it is not an object."""
        schema = self.wire.get("outputSchema") or {}
        metadata = getattr(self.origin, "fn_metadata", None)
        return bool(schema.get("x-fastmcp-wrap-result") or getattr(metadata, "wrap_output", False))

    @property
    def function(self) -> Any:
        """The function behind the tool and its transformations."""
        origin = self.origin
        for _ in range(MAX_MOUNTS):
            origin = getattr(origin, "parent_tool", None) or origin
        return getattr(origin, "fn", None)


class _List(NamedTuple):
    """The tools that a server lists, its resources and prompts, and the bridge for calling it."""

    listed: list[_Listed]
    features: Features
    bridge: Bridge


def read_server(server: Any) -> Reading:
    """Return what a server offers that was written for `mcp` or `fastmcp`. Raise SourceError where listing
    fails, where the server authenticates its callers, and where its library is too old."""
    library = library_of(server)
    if library is None and not is_low_level(server):
        raise SourceError(f"{type(server).__name__} is no server of mcp or fastmcp")
    newer = check_version(library or "mcp")
    guards = None if library is None else find_guards(server)
    reason = None if guards is None else guards.message.partition(": ")[2]
    if library is None:
        reason = "it is a low-level server"
    reason = reason or _find_lifespan_change(server)
    try:
        keeps = keeps_lifespan.get() and has_lifespan(server)
        needs_lifespan = reason is not None or _lists_features_late(server)
        listing = _run_listing(
            lambda: _list(
                server,
                has_functions=reason is None,
                needs_lifespan=needs_lifespan,
                keeps_lifespan=keeps,
            )
        )
    except DefinitionError:
        raise
    except Exception as error:
        words = f"The tools of server '{server.name}' cannot be listed: {type(error).__name__}: {error}"
        raise SourceError(words) from None
    listed, features, bridge = listing
    reading = Reading(findings=[*_report_routes(server), *filter(None, (guards, newer))])
    reason = reason or _find_change(listed)
    for item in listed:
        try:
            tool = _Adopter(bridge, item, library or "mcp").adopt(reason)
        except DefinitionError as error:
            reading.findings.append(error.finding)
        except Exception as error:  # their objects may be of any version
            words = f"Tool '{item.name}' cannot be taken: {type(error).__name__}: {error}"
            reading.findings.append(InvalidToolError(words, tool=item.name).finding)
        else:
            reading.tools.append(tool)
            reading.findings += _report_task(item)
    _add_features(reading, features, bridge, library or "mcp")
    for each in (*reading.tools, *reading.resources, *reading.prompts):
        if guards is not None and guards.code == NOT_OVER_HTTP and each.adoption is not None:
            each.adoption = replace(each.adoption, refuses_http=True)
    if not (reading.tools or reading.resources or reading.prompts or reading.findings):
        reading.findings.append(Finding("no-tools", "warning", f"Server '{server.name}' has no tools"))
    return reading


def _add_features(reading: Reading, features: Features, bridge: Bridge, library: Library) -> None:
    reading.findings += features.findings
    if not features:
        return
    from toolcrib.sources.foreign.features import Catalog  # start-up time: many servers have none

    catalog = Catalog(bridge, library, locate_server(bridge.server))
    catalog.read(features)
    reading.resources, reading.prompts = catalog.resources, catalog.prompts
    reading.findings += catalog.findings


def _lists_features_late(server: Any) -> bool:
    """Return whether the list of resources and prompts may depend on the lifespan of a server."""
    return has_lifespan(server) and (
        lists_features_itself(server) or any(adds_features(lifespan) for lifespan in lifespans_of(server))
    )


def _find_lifespan_change(server: Any) -> str | None:
    """Return why the tools of a server depend on its lifespan."""
    found = (find_lifespan_change(lifespan) for lifespan in lifespans_of(server))
    return next((f"its lifespan may change the server ({name})" for name in found if name), None)


def _find_change(listed: Iterable[_Listed]) -> str | None:
    """Return why tools that are listed now may be removed or restricted while the server runs."""
    for item in listed:
        if item.function is None or (name := find_change(item.function)) is None:
            continue
        if find_obstacle(item.function, item.wire["inputSchema"]) is not None:  # it may reach the server
            return f"the tool '{item.name}' may change the server ({name})"
    return None


def _report_routes(server: Any) -> Iterator[Finding]:
    """Report the HTTP routes of a server, which are not served."""
    names = ("_additional_http_routes", "_custom_starlette_routes")
    count = sum(len(getattr(server, name, ())) for name in names)
    if count:
        routes = "1 HTTP route" if count == 1 else f"{count} HTTP routes"
        words = f"Server '{server.name}' has {routes}, which toolcrib does not serve"
        yield Finding("foreign-parts", "advice", words, hint="use @server.route(...)")


def _report_task(item: _Listed) -> Iterator[Finding]:
    if getattr(getattr(item.origin, "task_config", None), "mode", None) == "required":
        words = f"Tool '{item.name}' wants to run in the background; it runs as an ordinary call"
        yield Finding("foreign-task", "advice", words, tool=item.name)


# --- listing -----------------------------------------------------------------------------------------


async def _list(server: Any, *, has_functions: bool, needs_lifespan: bool, keeps_lifespan: bool) -> _List:
    """List a server. The lifespan is entered only where the list may depend on it: where code of the author
    makes it, or where it is empty otherwise. With `keeps_lifespan` it goes on then."""
    low_level = low_level_of(server)
    if not needs_lifespan:
        async with run_server(server, enters_lifespan=False) as sessions:
            listed, features = await _list_session(await sessions.connect(), low_level)
        if listed or features:
            return _List(await _find_versions(server, listed, has_functions=True), features, Bridge(server))
    lifespan = Lifespan(run_server(server))
    await lifespan.begin()
    try:
        listed, features = await _list_session(await lifespan.value.connect(), low_level)
        listed = await _find_versions(server, listed, has_functions=has_functions)
    except BaseException:
        await lifespan.end()
        raise
    if keeps_lifespan:
        lifespan.keep()
        return _List(listed, features, Bridge(server, lifespan))
    await lifespan.end()
    return _List(listed, features, Bridge(server, has_run=True))


async def _list_session(session: Session, low_level: Any) -> tuple[list[_Listed], Features]:
    try:
        tools = await list_all(session, "tools/list", "tools") if "tools" in session.capabilities else []
        return [_Listed(item) for item in tools], await list_features(session, low_level)
    finally:
        await session.close()


async def _find_versions(server: Any, listed: list[_Listed], *, has_functions: bool) -> list[_Listed]:
    """Return the listed tools and their older versions, which can be called too; where `has_functions`, each
    with the object behind it."""
    found: list[_Listed] = []
    for item in listed:
        fast = _fastmcp_meta(item.wire)
        newest = fast.get("version")
        found.append(item)
        if has_functions:
            origin, home = await _find_origin(server, item.name, newest, 0)
            found[-1] = replace(item, origin=origin, home=home)
        for version in fast.get("versions") or () if library_of(server) == "fastmcp" else ():
            if version == newest:
                continue
            origin, home = await _find_origin(server, item.name, version, 0)
            if origin is not None:
                tool = origin.to_mcp_tool(name=item.name)
                wire = tool.model_dump(by_alias=True, mode="json", exclude_none=True)
                older = _Listed(wire, version=version)
                found.append(replace(older, origin=origin, home=home) if has_functions else older)
    return found


async def _find_origin(server: Any, name: str, version: str | None, depth: int) -> tuple[Any, Any]:
    """Return the library's object of a tool, and the server that it belongs to."""
    if library_of(server) == "mcp":
        manager = getattr(server, "tool_manager", None) or server._tool_manager  # the first: universal-mcp
        return manager.get_tool(name), server
    if version is None:
        tool = await server.get_tool(name)
    else:
        spec = sys.modules["fastmcp.utilities.versions"].VersionSpec(eq=version)
        tool = await server.get_tool(name, version=spec)
    child = getattr(tool, "_server", None)
    if child is not None and type(tool).__name__ == "FastMCPProviderTool" and depth < MAX_MOUNTS:
        return await _find_origin(child, tool._original_name, version, depth + 1)
    return tool, server


def _fastmcp_meta(wire: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = wire.get("_meta") or {}
    return meta.get("fastmcp") or meta.get("_fastmcp") or {}  # the second is of fastmcp 2


def _run_listing(make: Callable[[], Coroutine[Any, Any, _List]]) -> _List:
    """Run async code from wherever we are, also where a loop runs already: on the loop that the server was
    started on, or else on a new one, which runs as long as the lifespan that was entered there."""
    outcome: Future[_List] = Future()
    own_loop = started_on.get()

    async def work() -> None:
        try:
            listing = await make()
        except BaseException as error:
            outcome.set_exception(error)
            return
        outcome.set_result(listing)
        if own_loop is None and listing.bridge.lifespan is not None:
            await asyncio.wait({listing.bridge.lifespan.task})

    if own_loop is None:
        threading.Thread(target=lambda: asyncio.run(work()), name="toolcrib-lists-tools", daemon=True).start()
    else:
        asyncio.run_coroutine_threadsafe(work(), own_loop)
    if not futures.wait([outcome], LIST_S).done:
        raise SourceError(f"The server did not list its tools within {LIST_S:g} s")
    return outcome.result()


# --- one tool ----------------------------------------------------------------------------------------


class _Adopter:
    """Makes a tool of toolcrib from one that a server lists."""

    def __init__(self, bridge: Bridge, item: _Listed, library: str) -> None:
        self._bridge = bridge
        self._item = item
        self._library = library

    def adopt(self, reason: str | None) -> Component:
        """Return the tool. `reason` is why all tools of the server go through its handlers, if they do."""
        reason = reason or self._find_obstacle()
        tool = None
        if reason is None:
            try:
                tool = self._make_native()
            except DefinitionError as error:
                reason = f"toolcrib does not take its signature: {error}"
            else:
                reason = self._find_difference(tool)
        if tool is None or reason is not None:
            tool = self._make_bridged()
        tool.owner = self._bridge
        way: typing.Literal["native", "handlers"] = "native" if reason is None else "handlers"
        needs_server = reason is not None or has_lifespan(self._bridge.server)
        tool.adoption = Adoption(self._library, way, reason or PLAIN, self._explain, needs_server)
        return tool

    def _find_obstacle(self) -> str | None:
        origin = self._item.origin
        if not self._item.is_function:
            return "its function is unknown" if origin is None else f"it is a {type(origin).__name__}"
        if getattr(origin, "auth", None) is not None:
            return "it has an authorization check"
        parts = [part for part in (origin, getattr(origin, "fn_metadata", None)) if part is not None]
        if (override := next(filter(None, map(find_override, parts)), None)) is not None:
            return override
        if getattr(origin, "serializer", None) is not None:  # of fastmcp 2
            return "it has a serializer"
        obstacle = find_obstacle(origin.fn, self._item.wire["inputSchema"])
        return obstacle or ("its arguments have a schema of their own" if self._has_own_input else None)

    @functools.cached_property
    def _made(self) -> Any:
        """The tool that the library makes of the function alone, or None if it does not."""
        origin = self._item.origin
        with contextlib.suppress(Exception):  # the function may have been replaced, too
            return type(origin).from_function(origin.fn, name="tool")

    @property
    def _has_own_input(self) -> bool:
        """Return whether the author changed the schema of the arguments, or how they are checked."""
        return self._made is None or _input_of(self._made) != _input_of(self._item.origin)

    @property
    def _has_own_output(self) -> bool:
        """Return whether the author wrote or changed the output schema."""
        if self._item.wire.get("outputSchema") is None:
            return False
        return self._made is None or self._made.output_schema != self._item.origin.output_schema

    def _find_difference(self, tool: Component) -> str | None:
        """Return why the definition that toolcrib makes of a function cannot stand for the listed one."""
        theirs = self._item.wire.get("outputSchema")
        if theirs is None:
            return None
        if self._has_own_output:
            return "it has an output schema of its own"
        known = ({"result"}, _properties_of(tool.definition.output_schema))
        return None if set(theirs.get("properties", ())) in known else "it has an output schema of its own"

    def _make_native(self) -> Component:
        wire, origin = self._item.wire, self._item.origin
        options = self._options()
        if not getattr(origin, "run_in_thread", True):
            options["run"] = "inline"
        if getattr(self._item.home, "strict_input_validation", False):
            options["repair"] = False
        timeout_s = getattr(origin, "timeout", None)
        if timeout_s is not None:
            options["timeout_s"] = min(timeout_s, MAX_TIMEOUT_S)
        if (said := self._find_own_description()) is not None:
            options["description"] = said
        made = Tool.from_function(origin.fn, **options)

        def build(info: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
            # Loaded when first built: reading hints costs start-up time.
            from toolcrib.schema.function import build_function

            parts = build_function(info, name, options)
            has_no_schema = wire.get("outputSchema") is None or is_any_list(hints_of(origin.fn).get("return"))
            if has_no_schema and options.output_schema is None:
                if options.description is None:
                    return parts.without_output_schema()
                return replace(parts, output_schema=None)  # a description of the author stays as it is
            return parts

        tool = Tool(made.info, made.name, made.options, build, origin.fn)
        _ = tool.definition
        return tool

    def _make_bridged(self) -> Component:
        """Make a tool that goes through the handlers. If its function is known, it is described as any
        function is, and otherwise, or with another schema, as the server lists it."""
        item, bridge = self._item, self._bridge
        name, version = item.name, item.version
        described = self._describe() if item.is_function and not self._has_own_input else None
        unwraps = described is not None and item.is_wrapped and not self._has_own_output
        has_data = described is not None and described.output_schema is not None

        async def call_server(arguments: dict[str, Any], toolcrib_context: Context) -> Any:
            result = await bridge.call(name, arguments, toolcrib_context, version)
            if unwraps and not result.is_error:
                result.structured_content = result.structured_content["result"] if has_data else None
                result.is_structured = has_data
            return result

        def build(info: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
            # Loaded when first built: reading hints costs start-up time.
            from toolcrib.schema.function import build_handler

            if described is None:
                parts = build_handler(info, name, options)
                arguments = parts.arguments
                reconverted = _find_reconverted(arguments.schema, frozenset())
                return replace(parts, arguments=replace(arguments, reconverted=reconverted))
            said = options.description if options.description is not None else described.description
            output_schema = options.output_schema or described.output_schema
            input_schema = described.arguments.schema
            kept = replace(options, description=said, input_schema=input_schema, output_schema=output_schema)
            parts = build_handler(info, name, kept)
            arguments = replace(
                parts.arguments,
                closed=described.arguments.closed,
                reconverted=_find_reconverted(input_schema, described.arguments.user_code),
            )
            return replace(
                parts,
                arguments=arguments,
                returns=described.returns,
                raises=described.raises,
                tags=described.tags,
            )

        options = ToolOptions(**self._options())
        if described is None:
            options = replace(
                options,
                description=item.wire.get("description") or "",
                input_schema=item.wire["inputSchema"],
                output_schema=item.wire.get("outputSchema"),
            )
        elif (said := self._find_own_description()) is not None:
            options = replace(options, description=said)
        if getattr(item.home or bridge.server, "strict_input_validation", False):
            options = replace(options, repair=False)
        info = HandlerInfo(call_server)
        info.source = self._source
        return Tool(info, name, options, build, item.function or item.origin)

    @property
    def _source(self) -> Location:
        function = self._item.function
        return Location() if function is None else locate(find_function(function))

    def _find_own_description(self) -> str | None:
        """Return the description if its author gave one that is not in the docstring."""
        said: str = self._item.wire.get("description") or ""
        return (
            said if said and plain_words(said) not in plain_words(docstring_of(self._item.function)) else None
        )

    def _describe(self) -> ToolParts | None:
        """Return the definition of a function without the parameters that the library fills. None where
        toolcrib reads its signature in another way than the library does."""
        from toolcrib.schema.function import build_function  # start-up time

        function, theirs = self._item.function, self._item.wire.get("outputSchema")
        published = self._item.wire["inputSchema"].get("properties", {})
        hints = dict(hints_of(function))
        returns = hints.pop("return", EMPTY)
        try:
            signature = inspect.signature(function)
            stub = _make_stub(function, signature, hints, published)
            if (
                theirs is not None
                and not is_any_list(returns)
                and find_library_type(_without_questions(returns)) is None
            ):
                stub.__annotations__["return"] = _without_questions(returns)
            info = HandlerInfo(stub)
            info.source = self._source
            check_parameters(info, self._item.name)
            parts = build_function(info, self._item.name, ToolOptions(**self._options()))
        except (DefinitionError, TypeError, ValueError):
            return None
        if set(parts.arguments.schema.get("properties", ())) != set(published):
            return None
        if theirs is None:
            return parts.without_output_schema()
        if self._has_own_output or self._says_more(parts.output_schema, returns):
            return replace(parts, output_schema=theirs)
        return parts

    def _says_more(self, ours: Mapping[str, Any] | None, returns: Any) -> bool:
        """Return whether the listed output schema says more than the hint of the function."""
        theirs = self._item.wire["outputSchema"]
        bare = typing.get_args(returns)[0] if typing.get_origin(returns) is typing.Annotated else returns
        is_content = find_library_type(bare) not in (None, "CallToolResult", "ToolResult")
        if self._item.is_wrapped or is_content:  # some versions describe pictures like data
            return False
        return ours is None or set(theirs.get("properties", ())) != _properties_of(ours)

    def _options(self) -> OptionFields:
        """Return the options of the listed tool, except for its description and schemas."""
        wire = self._item.wire
        source = self._item.origin or SimpleNamespace(**wire)  # fastmcp lists a title that it made up
        notes, meta, fast = wire.get("annotations") or {}, wire.get("_meta") or {}, _fastmcp_meta(wire)
        options: OptionFields = {
            "name": self._item.name,
            "title": getattr(source, "title", None) or notes.get("title"),
            "read_only": notes.get("readOnlyHint"),
            "destructive": notes.get("destructiveHint"),
            "idempotent": notes.get("idempotentHint"),
            "open_world": notes.get("openWorldHint"),
            "tags": sorted(fast.get("tags") or ()),
            "version": fast.get("version"),
            "icons": wire.get("icons") or [],
            "meta": {key: value for key, value in meta.items() if key not in ("fastmcp", "_fastmcp")},
        }
        if options["read_only"] and options["destructive"]:
            options["destructive"] = None  # says nothing about a tool that only reads
        return options

    def _explain(self, error: BaseException) -> CallError:
        """Return the error that the library shows to callers for an exception of a function."""
        name, text = self._item.name, str(error)
        kinds = {(package_of(cls), cls.__name__) for cls in type(error).__mro__}
        if not kinds.isdisjoint(_PROTOCOL_ERRORS):
            return ToolError(text)
        is_deliberate = not kinds.isdisjoint(_DELIBERATE[self._library])
        if self._library == "fastmcp":
            home = self._item.home
            older = getattr(getattr(home, "_tool_manager", None), "mask_error_details", False)  # fastmcp 2
            hides = getattr(home, "_mask_error_details", older)
            shown = f"Error calling tool {name!r}" + ("" if hides else f": {text}")
            return ToolError(text) if is_deliberate else ToolCrashedError(shown)
        hides = hasattr(sys.modules.get("mcp.server.mcpserver.exceptions"), "UnexpectedToolError")
        shown = f"Error executing tool {name}" + ("" if hides and not is_deliberate else f": {text}")
        return ToolError(shown) if is_deliberate else ToolCrashedError(shown)


def _input_of(tool: Any) -> tuple[Any, ...]:
    """Return the schema of a tool's arguments, and the model that checks them in `mcp`."""
    metadata = getattr(tool, "fn_metadata", None)
    model = getattr(metadata, "arg_model", None)
    return (
        tool.parameters,
        type(metadata),
        getattr(model, "__bases__", None),
        getattr(model, "model_config", None),
    )


def _make_stub(
    function: Any, signature: inspect.Signature, hints: Mapping[str, Any], published: Mapping[str, Any]
) -> Any:
    """Return a function with the docstring and the published parameters of another one."""

    def stub(*_: Any, **__: Any) -> None:
        pass

    made: Any = stub
    shown = [
        item
        for item in signature.parameters.values()
        if item.name in published or item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD)
    ]
    real = find_function(function)
    made.__signature__ = signature.replace(
        parameters=[item.replace(annotation=hints.get(item.name, item.annotation)) for item in shown],
        return_annotation=EMPTY,
    )
    made.__annotations__ = {item.name: hints[item.name] for item in shown if item.name in hints}
    made.__doc__ = docstring_of(function)
    made.__module__ = real.__module__
    made.__name__ = made.__qualname__ = getattr(real, "__name__", "tool")
    return made


def _without_questions(hint: Any) -> Any:
    """Return the hint of a result without `InputRequiredResult`, which asks instead of answering."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    arms = [arm for arm in typing.get_args(hint) if getattr(arm, "__name__", "") != "InputRequiredResult"]
    return typing.Union[tuple(arms)] if arms else EMPTY  # noqa: UP007 - `|` takes no tuple


def _find_reconverted(schema: Mapping[str, Any], user_code: frozenset[str]) -> frozenset[str]:
    """Return the arguments of which the library may make something else than was checked: it parses strings
    as JSON, and runs validators. Plain strings and numbers stay what they are."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    plain = {name for name, item in properties.items() if item.get("type") in _SCALARS}
    return frozenset(properties) - (plain - user_code)


def _properties_of(schema: Mapping[str, Any] | None) -> set[str]:
    """Return the properties of a schema, also behind a reference at the root."""
    if schema is None:
        return set()
    target = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    return set(schema.get("$defs", {}).get(target, schema).get("properties", ()))


def is_any_list(hint: Any) -> bool:
    """Return whether a result of this hint is a list of anything."""
    bare = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    origin = typing.get_origin(bare) or bare
    items = [item for item in typing.get_args(bare) if item is not ...]
    return origin in (list, tuple, Sequence) and all(item in (Any, object) for item in items)


def plain_words(text: str | None) -> str:
    return " ".join((text or "").split())
