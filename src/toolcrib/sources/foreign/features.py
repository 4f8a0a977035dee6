"""Resources, prompts and completion of a server of another library.

They are listed as the server lists them, and read, rendered and completed through its handlers: a URI, the
arguments of a prompt and what comes back are passed on as they are. Nothing is run natively.

The server decides what a URI leads to, so toolcrib matches URIs with its templates generously, and gives a
URI to the first template that may fit. Several may: then the caller has to see all of them, and all must be
served. A URI that is listed itself never counts as one of a template.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from toolcrib.component import Adoption, Component, Tool
from toolcrib.content import RelayedResult, Result
from toolcrib.context import Context
from toolcrib.errors import (
    CallError,
    DefinitionError,
    Finding,
    InvalidToolError,
    Location,
    NotFoundError,
    RelayedError,
    ToolCrashedError,
)
from toolcrib.names import check_text
from toolcrib.options import ToolOptions
from toolcrib.registry.prompts import Prompt
from toolcrib.registry.resources import Resource
from toolcrib.registry.uri_template import URITemplate
from toolcrib.schema.function import ToolParts, build_handler
from toolcrib.schema.parameters import HandlerInfo
from toolcrib.sources.foreign.bridge import Bridge, Features, meta_of
from toolcrib.sources.foreign.recognition import Library

T = TypeVar("T", bound=Component)

COMPLETE_S = 10.0
"""How long a server may take to complete an argument."""
MASKED = "Internal server error"
"""What `mcp` 2 tells clients of an exception that it does not know."""
_NOT_FOUND = -32002
_INVALID_PARAMS = -32602
_UNKNOWN = ("Unknown resource", "Resource not found", "Unknown prompt", "Prompt not found")
_CRASHES = ("Error reading resource", "Error creating resource", "Error rendering prompt")
"""How both libraries begin the message of an exception in a resource or a prompt."""
_VARIABLES = re.compile(r"\{([+#./;?&]?)([^{}]+)\}")
_WILDCARD = re.compile(r"\{([A-Za-z0-9_]+)\*\}")
_SPECIAL = "?#&,%"
"""Characters that some versions take as part of a variable."""


# --- what is registered ------------------------------------------------------------------------------


class ListedTemplate(URITemplate):
    """A URI template of another server. `match` returns whether a URI may fit, as `{"uri": ...}`."""

    def __init__(self, text: str) -> None:
        self.text = text
        lists = [names for _, names in _VARIABLES.findall(text)]
        self.variables = tuple(name.strip().rstrip("*") for names in lists for name in names.split(","))
        self.optional = frozenset()
        self._blanks = str.maketrans(dict.fromkeys((mark for mark in _SPECIAL if mark not in text), "_"))
        self._parsed = _parse(text)

    @property
    def skeleton(self) -> str:
        return self.text if self._parsed is None else self._parsed.skeleton

    def match(self, uri: str) -> dict[str, Any] | None:
        shorter = re.split("[?#]", uri, maxsplit=1)[0]  # fastmcp ignores a query that is not in the template
        return {"uri": uri} if self._fits(uri.translate(self._blanks)) or self._fits(shorter) else None

    def expand(self, values: Mapping[str, Any]) -> str:
        return str(values["uri"])  # other spellings are looked up in the catalog

    def _fits(self, uri: str) -> bool:
        if self._parsed is not None:
            return self._parsed.match(uri) is not None
        first, last = self.text.partition("{")[0], self.text.rpartition("}")[2]
        return len(uri) >= len(first) + len(last) and uri.startswith(first) and uri.endswith(last)


def _parse(text: str) -> URITemplate | None:
    """Return a template for matching, in which `{path*}` of fastmcp is `{+path}`. None where only the
    literals can be compared."""
    plain = _VARIABLES.sub(lambda found: "{" + found[1] + found[2].replace("-", "_") + "}", text)
    try:
        return URITemplate(_WILDCARD.sub(r"{+\1}", plain))
    except InvalidToolError:
        return None


class ListedResource(Resource):
    """A resource or a template as another server lists it. Its handler gets the URI that was asked for."""

    __slots__ = ("_catalog", "_wire")

    def __init__(
        self, info: HandlerInfo, wire: Mapping[str, Any], options: ToolOptions, catalog: Catalog
    ) -> None:
        self._wire = wire
        self._catalog = catalog
        super().__init__(info, wire.get("uri") or wire["uriTemplate"], options, catalog.server)
        self.template = None if "uri" in wire else ListedTemplate(self.name)
        self.display_name = wire["name"]
        self.mime_type, self.size = wire.get("mimeType"), wire.get("size")
        self.annotations = wire.get("annotations") or {}
        self._build = build_handler

    def to_wire(self) -> dict[str, Any]:
        return dict(self._wire)

    def match(self, uri: str) -> dict[str, Any] | None:
        if self.template is None:
            return super().match(uri)
        return None if self._catalog.lists(uri) else self.template.match(uri)


class ListedPrompt(Prompt):
    """A prompt as another server lists it."""

    __slots__ = ("_wire",)

    def __init__(self, info: HandlerInfo, wire: Mapping[str, Any], options: ToolOptions, origin: Any) -> None:
        super().__init__(info, wire["name"], options, origin)
        self._wire = wire
        self._build = _build_prompt

    def to_wire(self) -> dict[str, Any]:
        return {**self._wire, "name": self.name}


def _build_prompt(info: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
    parts = build_handler(info, name, options)
    # The library may parse the strings as JSON.
    reconverted = frozenset(parts.arguments.schema["properties"])
    return replace(parts, arguments=replace(parts.arguments, kind="prompt", reconverted=reconverted))


# --- making them -------------------------------------------------------------------------------------


class Catalog:
    """Makes the resources and prompts of one server."""

    def __init__(self, bridge: Bridge, library: Library, source: Location) -> None:
        self.server = bridge.server
        self.resources: list[Component] = []
        self.prompts: list[Component] = []
        self.findings: list[Finding] = []
        self._bridge = bridge
        self._library = library
        self._source = source
        self._uris: set[str] = set()
        self._templates: list[ListedResource] = []

    def read(self, features: Features) -> None:
        """Make what a server lists. What cannot be served becomes a finding."""
        self._uris = {wire["uri"] for wire in features.resources}
        for wire in (*features.resources, *features.templates):
            self._add(wire, self._make_resource, self.resources, features)
        for wire in features.prompts:
            self._add(wire, self._make_prompt, self.prompts, features)

    def lists(self, uri: str) -> bool:
        """Return whether a URI is listed itself, also as the library spells it."""
        return uri in self._uris or self._spell(uri) in self._uris

    def _add(
        self, wire: dict[str, Any], make: Callable[[Any], Any], into: list[Component], features: Features
    ) -> None:
        try:
            made = make(wire)
            made.definition  # noqa: B018 - to build it
        except DefinitionError as error:
            self.findings.append(error.finding)
            return
        if features.completes:
            self._add_completers(made)
        if isinstance(made, ListedResource) and made.template is not None:
            self._templates.append(made)
        into.append(made)

    def _make_resource(self, wire: Mapping[str, Any]) -> ListedResource:
        uri = wire.get("uri")
        name = uri or wire["uriTemplate"]
        check_text(wire["name"], f"The name of resource '{name}'", name)

        async def read(arguments: dict[str, Any], toolcrib_context: Context) -> Result:
            wanted = uri or arguments["uri"]
            self._check_templates(wanted, toolcrib_context)
            reply = await self._request("resources/read", {"uri": wanted}, toolcrib_context)
            return RelayedResult(reply["contents"], meta=meta_of(reply))

        names = () if uri else ("uri",)
        options = self._options(wire, {name: {"type": "string"} for name in names}, names, read_only=True)
        return self._finish(ListedResource(self._info(read), wire, options, self))

    def _make_prompt(self, wire: Mapping[str, Any]) -> ListedPrompt:
        own_name = wire["name"]
        listed = wire.get("arguments") or ()

        async def render(arguments: dict[str, Any], toolcrib_context: Context) -> Result:
            params = {"name": own_name, "arguments": arguments}
            reply = await self._request("prompts/get", params, toolcrib_context)
            return RelayedResult(reply["messages"], reply.get("description") or "", meta=meta_of(reply))

        properties = {
            item["name"]: {
                "type": "string",
                **{key: item[key] for key in ("title", "description") if item.get(key)},
            }
            for item in listed
        }
        required = tuple(item["name"] for item in listed if item.get("required"))
        options = self._options(wire, properties, required)
        return self._finish(ListedPrompt(self._info(render), wire, options, self.server))

    def _add_completers(self, made: ListedResource | ListedPrompt) -> None:
        from toolcrib.registry.completion import names_of

        is_prompt = made.kind == "prompt"
        ref = (
            {"type": "ref/prompt", "name": made.name}
            if is_prompt
            else {"type": "ref/resource", "uri": made.name}
        )
        for name in names_of(made):
            made.completers[name] = self._make_completer(ref, name)

    def _make_completer(self, ref: Mapping[str, str], name: str) -> Component:
        async def complete(value: str, arguments: dict[str, Any], toolcrib_context: Context) -> Result:
            params: dict[str, Any] = {"ref": ref, "argument": {"name": name, "value": value}}
            if arguments:
                params["context"] = {"arguments": arguments}
            reply = await self._request("completion/complete", params, toolcrib_context)
            return Result(structured_content=reply["completion"], is_structured=True)

        properties = {"value": {"type": "string"}, "arguments": {"type": "object"}}
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        options = ToolOptions(description="", input_schema=schema, timeout_s=COMPLETE_S, repair=False)
        return self._finish(Tool(self._info(complete), f"complete_{name}", options, "handler", self.server))

    def _options(
        self,
        wire: Mapping[str, Any],
        properties: Mapping[str, Any],
        required: tuple[str, ...],
        *,
        read_only: bool | None = None,
    ) -> ToolOptions:
        meta = wire.get("_meta") or {}
        fast = meta.get("fastmcp") or meta.get("_fastmcp") or {}
        return ToolOptions(
            title=wire.get("title"),
            description=wire.get("description") or "",
            input_schema={"type": "object", "properties": properties, "required": list(required)},
            read_only=read_only,
            tags=tuple(sorted(fast.get("tags") or ())),
            icons=wire.get("icons") or (),
            meta=meta,
            repair=False,
        )

    def _info(self, handler: Callable[..., Coroutine[Any, Any, Result]]) -> HandlerInfo:
        info = HandlerInfo(handler)
        info.source = self._source
        return info

    def _finish(self, made: T) -> T:
        made.owner = self._bridge
        reason = f"it is a {made.kind}"
        made.adoption = Adoption(self._library, "handlers", reason, self._explain)
        return made

    # --- calls ---

    async def _request(self, method: str, params: dict[str, Any], context: Context) -> dict[str, Any]:
        try:
            return await self._bridge.request(method, params, context)
        except RelayedError as error:
            _refine(error)
        except CallError:
            raise
        except Exception as error:
            if str(error).startswith(_UNKNOWN):  # `mcp` 2 raises ValueError for prompts
                raise NotFoundError(str(error)) from error
            raise

    def _check_templates(self, uri: str, context: Context) -> None:
        """Raise NotFoundError where another template fits that is not served, or not for this caller: the
        server may choose that one."""
        for other in self._matching(uri):
            registry = getattr(context.server, "resources", None)
            found = None if registry is None else registry.try_get(other.name)
            is_served = found is not None and found.owner is self._bridge
            if not is_served or not context.server.dispatcher.is_visible(context.principal, found):
                raise NotFoundError(f"Resource not found: {uri[:200]}")

    def _matching(self, uri: str) -> Iterator[ListedResource]:
        spelled = {uri, self._spell(uri)}
        for each in self._templates:
            if any(each.match(text) is not None for text in spelled):
                yield each

    def _spell(self, uri: str) -> str:
        """Return a URI as the library reads it: before `mcp` 2, it is parsed and written again."""
        kind = getattr(sys.modules.get("mcp.types"), "ReadResourceRequestParams", None)
        if kind is None or kind.model_fields["uri"].annotation is str:
            return uri
        try:
            return str(kind(uri=uri).uri)
        except ValueError:
            return uri

    def _explain(self, error: BaseException) -> CallError:
        """Return what the library tells clients of an exception that is not an answer."""
        if isinstance(error, RelayedError):
            return ToolCrashedError(str(error))
        return ToolCrashedError(MASKED if self._library == "mcp" else str(error))


def _refine(error: RelayedError) -> NoReturn:
    """Raise an error of a server as what it means."""
    has_uri = isinstance(error.data, Mapping) and "uri" in error.data
    is_unknown = str(error).startswith(_UNKNOWN) or (error.rpc_code == _INVALID_PARAMS and has_uri)
    if error.rpc_code == _NOT_FOUND or is_unknown:
        raise NotFoundError(str(error)) from error
    error.is_crash = error.rpc_code == 0 or str(error).startswith(_CRASHES)
    raise error
