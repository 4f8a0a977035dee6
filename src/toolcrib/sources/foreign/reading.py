"""Read a server of `mcp` or `fastmcp` into tools and findings. A tool that cannot be served hides no
other.

Convert one tool of an `mcp` or `fastmcp` server.

If the tool has a function, its definition is built as for any function, keeping the name, description and
output schema that the server gave it. Otherwise, or if the signature has a special meaning to the other
library, its schema is published and enforced as it is, and the tool's own `run` method is called.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from toolcrib.context import Context
from toolcrib.definition import ToolOptions
from toolcrib.errors import (
    DefinitionError,
    Finding,
    InvalidSignatureError,
    InvalidToolError,
    Location,
    SourceError,
)
from toolcrib.schema.annotations import resolve_hints
from toolcrib.schema.parameters import (
    EMPTY,
    HandlerInfo,
    check_parameters,
    docstring_of,
    find_function,
    locate,
)
from toolcrib.sources.foreign import servers
from toolcrib.sources.foreign.bridge import Bridge, read_listing
from toolcrib.sources.foreign.context import Guest, Lender, Lending
from toolcrib.sources.foreign.guards import find_guards
from toolcrib.sources.foreign.handling import CONTEXT, converts_again, handler_of, runner_of
from toolcrib.sources.foreign.offer import Offer, Run, left_out
from toolcrib.sources.foreign.recognition import PACKAGES, Library, is_low_level, library_of, package_of
from toolcrib.sources.foreign.usage import find_gaps, find_refusals
from toolcrib.tool import Adoption, Tool

if typing.TYPE_CHECKING:
    from toolcrib.schema.function import ToolParts

_SCALARS = ("string", "integer", "number", "boolean")


def adopt(offer: Offer, guest: Bridge | Guest, lender: Lending) -> tuple[Tool, list[Finding]]:
    """The tool, and what there is to say about it. Raises DefinitionError where it cannot be served."""
    source = locate(find_function(offer.written))
    findings = [*offer.findings, *_remarks(offer, source)]
    _refuse_uses(offer, source)
    make = _from_run if offer.function is None else _from_function
    tool = make(offer, lender, source)
    tool.owner = guest
    return tool, findings


def _refuse_uses(offer: Offer, source: Location) -> None:
    for parameter in offer.contexts:
        found = dict(find_refusals(offer.function, parameter))
        if found:
            why = next(iter(found.values()))
            raise InvalidSignatureError(
                f"Tool '{offer.name}' uses {', '.join(found)}, which toolcrib cannot give it: {why}",
                tool=offer.name,
                parameter=parameter,
                source=source,
                hint="leave it to the other server, or do without",
            )


def _remarks(offer: Offer, source: Location) -> Iterator[Finding]:
    if offer.guarded:
        words = f"Tool '{offer.name}' has an authorization check, which is not made here: it is off"
        hint = f'turn it on with registry.enable("{offer.name}") if everybody may call it'
        yield Finding("foreign-auth", "warning", words, offer.name, None, source.file, source.line, hint)
    for parameter in offer.contexts:
        for written, why in dict(find_gaps(offer.function, parameter)).items():
            words = f"Tool '{offer.name}' uses {written}, which {why}"
            yield Finding(
                "foreign-request", "warning", words, offer.name, parameter, source.file, source.line
            )


# --- from a function ---------------------------------------------------------------------------------


def _from_function(offer: Offer, lender: Lending, source: Location) -> Tool:
    handler, takes_context = handler_of(offer, lender)
    handler = _dress(handler, offer, takes_context)
    options = ToolOptions(**offer.options())
    if offer.is_described:
        options = replace(options, description=offer.tool.description)
    callee = _callee_of(handler, source)
    check_parameters(callee, offer.name)

    def build(callee: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
        # Loaded when first built: reading hints costs start-up time.
        from toolcrib.schema.function import build_function

        try:
            parts = build_function(callee, name, options)
        except DefinitionError as error:
            parts = _build_theirs(offer, lender, name, options)
            words = f"Tool '{name}' keeps the schema of the other library: {error}"
            place = callee.source
            parts.findings.append(
                Finding("foreign-schema", "warning", words, name, None, place.file, place.line, error.hint)
            )
            return parts
        if converts_again(offer, lender):
            parts.arguments.reconverted = _find_reconverted(parts)
        return _with_their_output(parts, offer) if options.output_schema is None else parts

    return Tool(callee, offer.name, options, build, offer.function)


def _dress(handler: Any, offer: Offer, takes_context: bool) -> Any:
    """The handler with the words and the signature of the function, but for what is not asked of callers."""
    function = offer.function
    assert function is not None  # nosec B101  # only called where there is one
    real = find_function(function)
    hidden = {*offer.contexts, *offer.injected}
    hints = dict(_hints_of(function, offer.name))
    offer.returns = hints.get("return", EMPTY)
    hints["return"] = _result_hint(offer.returns, offer)
    shown = [item for item in inspect.signature(function).parameters.values() if item.name not in hidden]
    if takes_context:
        own = inspect.Parameter(CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=Context)
        place = next((i for i, item in enumerate(shown) if item.kind is item.VAR_KEYWORD), len(shown))
        shown.insert(place, own)
        hints[CONTEXT] = Context
    handler.__annotations__ = {
        name: hint for name, hint in hints.items() if hint is not EMPTY and name not in hidden
    }
    handler.__signature__ = inspect.Signature(
        [item.replace(annotation=hints.get(item.name, item.annotation)) for item in shown]
    )
    handler.__doc__ = docstring_of(function)
    handler.__module__ = real.__module__
    handler.__name__ = getattr(real, "__name__", offer.name)
    handler.__qualname__ = getattr(real, "__qualname__", offer.name)
    return handler


def _hints_of(function: Any, name: str) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(find_function(function), include_extras=True)
    except Exception:
        return resolve_hints(HandlerInfo(function), name)


def _result_hint(hint: Any, offer: Offer) -> Any:
    """What the result is read by: nothing where they publish no schema, where it says what only they read, or
    where it is a list of anything, pictures included."""
    if offer.output_schema is None:
        return EMPTY
    hint = _without_questions(hint)
    return EMPTY if is_any_list(hint) or _mentions_them(hint) else hint


def is_any_list(hint: Any) -> bool:
    """Whether a result of this hint is a list of anything."""
    bare = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    origin = typing.get_origin(bare) or bare
    items = [item for item in typing.get_args(bare) if item is not ...]
    return origin in (list, tuple, Sequence) and all(item in (Any, object) for item in items)


def _without_questions(hint: Any) -> Any:
    """A union without the arm that asks instead of answering."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    arms = [arm for arm in typing.get_args(hint) if getattr(arm, "__name__", "") != "InputRequiredResult"]
    return typing.Union[tuple(arms)] if arms else EMPTY  # noqa: UP007 - there is no other way to say it


def _mentions_them(hint: Any) -> bool:
    if isinstance(hint, type) and not typing.get_args(hint):
        return any(package_of(cls) in PACKAGES for cls in hint.__mro__)
    return any(_mentions_them(part) for part in typing.get_args(hint))


def _find_reconverted(parts: ToolParts) -> frozenset[str]:
    """The arguments of which their library may make something else than we do. It parses texts as JSON, and
    runs validators again; plain texts and numbers stay what they are."""
    properties: Mapping[str, Any] = parts.arguments.schema.get("properties", {})
    plain = {name for name, schema in properties.items() if schema.get("type") in _SCALARS}
    return frozenset(properties) - (plain - parts.arguments.user_code)


def _with_their_output(parts: ToolParts, offer: Offer) -> ToolParts:
    """The parts with the output schema that they published, where somebody had written that by hand."""
    theirs = offer.output_schema
    if theirs is None or _is_content(offer) or not _is_written(theirs, parts.output_schema, offer):
        return parts
    parts.replace_output_schema(theirs)
    return parts


def _is_written(theirs: Mapping[str, Any], ours: Mapping[str, Any] | None, offer: Offer) -> bool:
    stated = getattr(getattr(find_function(offer.function), "__fastmcp__", None), "output_schema", None)
    if isinstance(stated, Mapping):
        return True
    if offer.is_wrapped:
        return False
    return ours is None or set(theirs.get("properties", ())) != set(_root(ours).get("properties", ()))


def _is_content(offer: Offer) -> bool:
    """Whether the function gives pictures or other blocks, which some versions describe like data."""
    hint = offer.returns
    bare = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    return _mentions_them(bare) and getattr(bare, "__name__", "") not in ("CallToolResult", "ToolResult")


def _root(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema behind a reference at the root."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    found: Mapping[str, Any] = schema.get("$defs", {}).get(name, schema)
    return found


# --- from their own way to run it --------------------------------------------------------------------


def _from_run(offer: Offer, lender: Lending, source: Location) -> Tool:
    options = ToolOptions(**offer.options())
    options = replace(options, description=getattr(offer.tool, "description", None) or "")

    def build(_: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
        return _build_theirs(offer, lender, name, options)

    return Tool(_callee_of(runner_of(offer, lender), source), offer.name, options, build, offer.tool)


def _callee_of(handler: Any, source: Location) -> HandlerInfo:
    """A handler of ours in front of something that was written elsewhere."""
    callee = HandlerInfo(handler)
    callee.source = source
    return callee


def _build_theirs(offer: Offer, lender: Lending, name: str, options: ToolOptions) -> ToolParts:
    """Their schemas, taken as they are."""
    # Loaded when first built: reading hints costs start-up time.
    from toolcrib.schema.function import build_handler

    kept = replace(
        options,
        input_schema=options.input_schema or offer.input_schema,
        output_schema=options.output_schema or offer.output_schema,
        description=options.description if options.description is not None else offer.tool.description or "",
    )
    return build_handler(HandlerInfo(runner_of(offer, lender)), name, kept)


@dataclass(slots=True)
class Reading:
    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def read_server(server: Any) -> Reading:
    """Return the tools of a server that was written for `mcp` or `fastmcp`. Raise SourceError where listing
    fails, and where the server authenticates its callers."""
    library = library_of(server)
    if library is None and not is_low_level(server):
        raise SourceError(f"{type(server).__name__} is no server of mcp or fastmcp")
    guards = None if library is None else find_guards(server) or _find_old_library(server, library)
    guest: Bridge | Guest = Guest(server, library) if library and guards is None else Bridge(server)
    try:
        if isinstance(guest, Bridge):
            listed, parts = servers.run_apart(lambda: read_listing(server))
            offers: Iterable[Offer] = [Offer(tool, server, _caller(guest, tool.name)) for tool in listed]
            remarks = [*left_out(guest.name, parts), *([] if guards is None else [guards])]
        elif library == "fastmcp":
            contents = servers.read_contents(server)
            offers = contents.offers
            remarks = list(servers.remark_fast(contents, server))
        else:
            offers = list(servers.read_offers(server))
            remarks = list(servers.remark(server))
    except DefinitionError:
        raise
    except Exception as error:
        words = f"The tools of server '{guest.name}' cannot be listed: {type(error).__name__}: {error}"
        raise SourceError(words) from None
    reading = Reading(findings=remarks)
    lenders: dict[int, Lending] = {}
    for offer in offers:
        lender = lenders.get(id(offer.server))
        if lender is None:
            lender = guest if isinstance(guest, Bridge) else Lender(guest, offer.server)
            lenders[id(offer.server)] = lender
        try:
            tool, findings = adopt(offer, guest, lender)
            way: Literal["native", "handlers"] = "handlers" if isinstance(guest, Bridge) else "native"
            reason = "a plain function" if guards is None else guards.message.partition(": ")[2]
            tool.adoption = Adoption(library or "mcp", way, reason)
        except DefinitionError as error:
            reading.findings.append(error.finding)
        except Exception as error:  # their objects may be of any version
            words = f"Tool '{offer.name}' cannot be taken: {type(error).__name__}: {error}"
            reading.findings.append(InvalidToolError(words, tool=offer.name).finding)
        else:
            reading.tools.append(tool)
            reading.findings += findings
    if not reading.tools and not reading.findings:
        reading.findings.append(Finding("no-tools", "warning", f"Server '{guest.name}' has no tools"))
    return reading


def _find_old_library(server: Any, library: Library) -> Finding | None:
    """Report a server of fastmcp 2, whose functions need a Context that only their library can make."""
    if library != "fastmcp" or hasattr(server, "providers"):
        return None
    version = getattr(sys.modules["fastmcp"], "__version__", "2")
    text = (
        f"The tools of server '{server.name}' are called through its own handlers: it uses fastmcp {version}"
    )
    return Finding("foreign-handlers", "advice", text)


def _caller(bridge: Bridge, name: str) -> Run:
    async def run(arguments: dict[str, Any], context: Any) -> Any:
        return await bridge.call(name, arguments, context)

    return run
