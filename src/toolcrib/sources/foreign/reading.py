"""Read a server of `mcp` or `fastmcp` into tools and findings.

The server is asked for its tools as by any client, so that toolcrib serves what the server shows. Each tool
is run in one of two ways (`Adoption`): a plain function of a server without guards natively, as if it had
been registered with toolcrib; everything else through the server's handlers.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import typing
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from toolcrib.context import Context
from toolcrib.definition import MAX_TIMEOUT_S, OptionFields, ToolOptions
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
from toolcrib.schema.parameters import HandlerInfo, docstring_of, find_function, locate
from toolcrib.sources.foreign.bridge import Bridge, Session, list_all, run_server
from toolcrib.sources.foreign.guards import find_guards, is_own
from toolcrib.sources.foreign.plain import find_obstacle
from toolcrib.sources.foreign.recognition import (
    MAX_MOUNTS,
    check_version,
    has_lifespan,
    is_low_level,
    library_of,
    package_of,
    started_on,
)
from toolcrib.tool import Adoption, Tool

if typing.TYPE_CHECKING:
    from toolcrib.schema.function import ToolParts

T = TypeVar("T")
LIST_S = 30.0
"""How long a server may take to list its tools: one that is a proxy asks others."""
PLAIN = "a plain function"
_PARTS = {
    "resources/list": ("resources", "resources", "resource"),
    "resources/templates/list": ("resources", "resourceTemplates", "resource"),
    "prompts/list": ("prompts", "prompts", "prompt"),
}
"""What a server may have beside tools: the method that lists it, its capability, its key in the reply, and
its name."""
_SCALARS = ("string", "integer", "number", "boolean")
_PROTOCOL_ERRORS = frozenset({("mcp", "MCPError"), ("mcp", "McpError")})
_DELIBERATE = {
    "mcp": frozenset({("mcp", "ResourceError"), ("mcp", "ToolError")}),
    "fastmcp": frozenset({("fastmcp", "FastMCPError")}),
}
"""Errors whose messages their author meant to be read."""


@dataclass(slots=True)
class Reading:
    tools: list[Tool] = field(default_factory=list)
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
    def function(self) -> Any:
        """The function that somebody wrote, at the end of transformations."""
        origin = self.origin
        for _ in range(MAX_MOUNTS):
            origin = getattr(origin, "parent_tool", None) or origin
        return getattr(origin, "fn", None)


def read_server(server: Any) -> Reading:
    """Return the tools of a server that was written for `mcp` or `fastmcp`. Raise SourceError where listing
    fails, where the server authenticates its callers, and where its library is too old."""
    library = library_of(server)
    if library is None and not is_low_level(server):
        raise SourceError(f"{type(server).__name__} is no server of mcp or fastmcp")
    newer = check_version(library or "mcp")
    guards = None if library is None else find_guards(server)
    reason = None if guards is None else guards.message.partition(": ")[2]
    if library is None:
        reason = "it is a low-level server"
    try:
        listed, parts = _run_apart(lambda: _list(server, has_functions=reason is None))
    except DefinitionError:
        raise
    except Exception as error:
        words = f"The tools of server '{server.name}' cannot be listed: {type(error).__name__}: {error}"
        raise SourceError(words) from None
    routes = ("_additional_http_routes", "_custom_starlette_routes")
    parts["HTTP route"] = sum(len(getattr(server, name, ())) for name in routes)
    reading = Reading(findings=[*_left_out(server, parts), *filter(None, (guards, newer))])
    bridge = Bridge(server)
    for item in listed:
        try:
            tool = _Adopting(bridge, item, library or "mcp").adopt(reason)
        except DefinitionError as error:
            reading.findings.append(error.finding)
        except Exception as error:  # their objects may be of any version
            words = f"Tool '{item.name}' cannot be taken: {type(error).__name__}: {error}"
            reading.findings.append(InvalidToolError(words, tool=item.name).finding)
        else:
            reading.tools.append(tool)
            reading.findings += _remarks(item)
    if not reading.tools and not reading.findings:
        reading.findings.append(Finding("no-tools", "warning", f"Server '{server.name}' has no tools"))
    return reading


def _left_out(server: Any, parts: Mapping[str, int]) -> Iterator[Finding]:
    """Report the parts of a server that are not tools."""
    counts = [f"{number} {part}{'s' if number > 1 else ''}" for part, number in parts.items() if number]
    if counts:
        joined = " and ".join([", ".join(counts[:-1]), counts[-1]] if len(counts) > 1 else counts)
        words = f"Server '{server.name}' has {joined}, which toolcrib does not serve: it serves tools only"
        yield Finding("foreign-parts", "advice", words)


def _remarks(item: _Listed) -> Iterator[Finding]:
    if getattr(getattr(item.origin, "task_config", None), "mode", None) == "required":
        words = f"Tool '{item.name}' wants to run in the background; it runs as an ordinary call"
        yield Finding("foreign-task", "advice", words, tool=item.name)


# --- listing -----------------------------------------------------------------------------------------


async def _list(server: Any, *, has_functions: bool) -> tuple[list[_Listed], dict[str, int]]:
    """Return the tools of a server, and the number of its other parts. The lifespan is entered only where
    the list may depend on it: where code of the author makes it, or where it is empty otherwise."""
    if has_functions:
        async with run_server(server, enters_lifespan=False) as sessions:
            listed, parts = await _list_session(await sessions.connect())
        if listed or parts:
            return [found for item in listed for found in await _find_versions(server, item)], parts
    async with run_server(server) as sessions:
        listed, parts = await _list_session(await sessions.connect())
        if has_functions:
            listed = [found for item in listed for found in await _find_versions(server, item)]
        return listed, parts


async def _list_session(session: Session) -> tuple[list[_Listed], dict[str, int]]:
    try:
        tools = await list_all(session, "tools/list", "tools") if "tools" in session.capabilities else []
        parts: dict[str, int] = {}
        for method, (capability, key, word) in _PARTS.items():
            if capability in session.capabilities:
                with contextlib.suppress(ToolError):  # a server may have resources but no templates
                    parts[word] = parts.get(word, 0) + len(await list_all(session, method, key))
        return [_Listed(item) for item in tools], {word: count for word, count in parts.items() if count}
    finally:
        await session.close()


async def _find_versions(server: Any, item: _Listed) -> list[_Listed]:
    """Return a listed tool with the object behind it, and its older versions, which can be called too."""
    fast = _fast_meta(item.wire)
    newest = fast.get("version")
    found = []
    for version in (newest, *(each for each in fast.get("versions") or () if each != newest)):
        origin, home = await _find_origin(server, item.name, version, 0)
        if version == newest:
            found.append(replace(item, origin=origin, home=home))
        elif origin is not None:
            wire = origin.to_mcp_tool(name=item.name).model_dump(
                by_alias=True, mode="json", exclude_none=True
            )
            found.append(_Listed(wire, origin, home, version))
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


def _fast_meta(wire: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = wire.get("_meta") or {}
    return meta.get("fastmcp") or meta.get("_fastmcp") or {}  # the second is of fastmcp 2


def _run_apart(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run async code to its end from wherever we are, also where a loop runs already: on the loop that the
    server was started on, or else on a new one."""
    own_loop = started_on.get()
    outcome: list[T] = []
    problem: list[BaseException] = []

    def work() -> None:
        try:
            if own_loop is None:
                outcome.append(asyncio.run(make()))
            else:
                outcome.append(asyncio.run_coroutine_threadsafe(make(), own_loop).result())
        except BaseException as error:
            problem.append(error)

    thread = threading.Thread(target=work, name="toolcrib-lists-tools", daemon=True)
    thread.start()
    thread.join(LIST_S)
    if problem:
        raise problem[0]
    if not outcome:
        raise SourceError(f"The server did not list its tools within {LIST_S:g} s")
    return outcome[0]


# --- one tool ----------------------------------------------------------------------------------------


class _Adopting:
    """Makes a tool of a listed one."""

    def __init__(self, bridge: Bridge, item: _Listed, library: str) -> None:
        self._bridge = bridge
        self._item = item
        self._library = library

    def adopt(self, reason: str | None) -> Tool:
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
        if reason is not None or has_lifespan(self._bridge.server):
            tool.owner = self._bridge
        way: typing.Literal["native", "handlers"] = "native" if reason is None else "handlers"
        tool.adoption = Adoption(self._library, way, reason or PLAIN, self._explain)
        return tool

    def _find_obstacle(self) -> str | None:
        origin = self._item.origin
        if type(origin).__name__ not in ("FunctionTool", "Tool") or not hasattr(origin, "fn"):
            return "its function is unknown" if origin is None else f"it is a {type(origin).__name__}"
        if not is_own(origin, "run"):
            return "its class overrides run"
        if getattr(origin, "serializer", None) is not None:  # of fastmcp 2
            return "it has a serializer"
        return find_obstacle(origin.fn, self._item.wire["inputSchema"])

    def _find_difference(self, tool: Tool) -> str | None:
        """Return why the definition that toolcrib makes of a function cannot stand for the listed one."""
        theirs = self._item.wire.get("outputSchema")
        if theirs is None:
            return None
        known = ({"result"}, _properties_of(tool.definition.output_schema))
        return None if set(theirs.get("properties", ())) in known else "it has an output schema of its own"

    def _make_native(self) -> Tool:
        wire, origin = self._item.wire, self._item.origin
        options = self._options()
        if not getattr(origin, "run_in_thread", True):
            options["run"] = "inline"
        if getattr(self._item.home, "strict_input_validation", False):
            options["repair"] = False
        timeout_s = getattr(origin, "timeout", None)
        if timeout_s is not None:
            options["timeout_s"] = min(timeout_s, MAX_TIMEOUT_S)
        said = wire.get("description")
        if said and _words(said) not in _words(docstring_of(origin.fn)):
            options["description"] = said
        made = Tool.from_function(origin.fn, **options)

        def build(info: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
            # Loaded when first built: reading hints costs start-up time.
            from toolcrib.schema.function import build_function

            parts = build_function(info, name, options)
            if wire.get("outputSchema") is None and options.output_schema is None:
                parts.output_schema = None
            return parts

        tool = Tool(made.info, made.name, made.options, build, origin.fn)
        _ = tool.definition
        return tool

    def _make_bridged(self) -> Tool:
        item, bridge = self._item, self._bridge
        name, version = item.name, item.version

        async def run_theirs(arguments: dict[str, Any], toolcrib_context: Context) -> Any:
            return await bridge.call(name, arguments, toolcrib_context, version)

        options = replace(
            ToolOptions(**self._options()),
            description=item.wire.get("description") or "",
            input_schema=_describe(item.wire["inputSchema"], item.function),
            output_schema=item.wire.get("outputSchema"),
        )
        if getattr(item.home or bridge.server, "strict_input_validation", False):
            options = replace(options, repair=False)
        info = HandlerInfo(run_theirs)
        info.source = locate(find_function(item.function)) if item.function is not None else Location()

        def build(info: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
            # Loaded when first built: reading hints costs start-up time.
            from toolcrib.schema.function import build_handler

            parts = build_handler(info, name, options)
            parts.arguments.reconverted = _find_reconverted(parts.arguments.schema, item.function)
            return parts

        return Tool(info, name, options, build, item.function or item.origin)

    def _options(self) -> OptionFields:
        """Return what the tool says of itself, except for texts and schemas."""
        wire = self._item.wire
        notes, meta, fast = wire.get("annotations") or {}, wire.get("_meta") or {}, _fast_meta(wire)
        options: OptionFields = {
            "name": self._item.name,
            "title": wire.get("title") or notes.get("title"),
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
        """Return what the library tells callers of an exception of a function."""
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


def _describe(schema: Mapping[str, Any], function: Any) -> Mapping[str, Any]:
    """Return a published schema with descriptions from the docstring for parameters that have none."""
    properties = schema.get("properties") or {}
    if function is None or all("description" in item for item in properties.values()):
        return schema
    from toolcrib.schema.docstrings import parse_docstring  # delayed: few programs need it here

    said = {item.name: item.description for item in parse_docstring(docstring_of(function)).params}
    described = {
        name: {**item, "description": said[name]} if said.get(name) and "description" not in item else item
        for name, item in properties.items()
    }
    return {**schema, "properties": described}


def _find_reconverted(schema: Mapping[str, Any], function: Any) -> frozenset[str]:
    """Return the arguments of which the library may make something else than was checked: it parses strings
    as JSON, and runs validators. Plain strings and numbers stay what they are."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    hints = {} if function is None else getattr(find_function(function), "__annotations__", {})
    plain = {name for name, item in properties.items() if item.get("type") in _SCALARS}
    return frozenset(name for name in properties if name not in plain or not _is_bare(hints.get(name)))


def _is_bare(hint: Any) -> bool:
    """Return whether a hint says nothing, or nothing but a scalar type."""
    return hint is None or hint in (str, int, float, bool, "str", "int", "float", "bool")


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


def _words(text: str | None) -> str:
    return " ".join((text or "").split())
