"""Resources and prompts as they are listed: of a lock file, of another server, and of live ones.

describe_entry({"uri": "orders://list", "name": "orders"})      # a resource without code
content_of(server.prompts.get("plan_trip"))                       # what a lock pins
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.component import Component
from toolcrib.definition import ToolDefinition
from toolcrib.errors import NO_LOCATION, InvalidToolError, Location
from toolcrib.options import ToolOptions
from toolcrib.registry.prompts import Prompt
from toolcrib.registry.resources import Resource
from toolcrib.registry.uri_template import URITemplate
from toolcrib.schema.function import build_handler
from toolcrib.schema.parameters import HandlerInfo
from toolcrib.sources.described import MissingHandler


class OpaqueTemplate(URITemplate):
    """A template of another server that toolcrib cannot match with URIs. Only its text is known."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.variables = ()
        self.optional = self.exploded = frozenset()
        self.greedy = None

    @property
    def skeleton(self) -> str:
        return self.text

    def match(self, uri: str) -> None:  # noqa: ARG002
        return None


class DescribedResource(Resource):
    """A resource or a template without its code."""

    __slots__ = ("_wire",)

    def __init__(self, info: HandlerInfo, wire: Mapping[str, Any], options: ToolOptions) -> None:
        super().__init__(info, wire["uri"] if "uri" in wire else wire["uriTemplate"], options, wire)
        self._wire = wire
        self._build = build_handler
        self.display_name = wire["name"]
        self.mime_type = wire.get("mimeType")
        self.annotations = wire.get("annotations", {})
        self.template = None if "uri" in wire else _read_template(self.name)
        self.is_static = self.template is None  # it may be a file of a folder

    def to_wire(self) -> dict[str, Any]:
        return dict(self._wire)


class DescribedPrompt(Prompt):
    """A prompt without its code."""

    __slots__ = ("_wire",)

    def __init__(self, info: HandlerInfo, wire: Mapping[str, Any], options: ToolOptions) -> None:
        super().__init__(info, wire["name"], options, wire)
        self._wire = wire
        self._build = build_handler

    def to_wire(self) -> dict[str, Any]:
        return dict(self._wire)


def describe_entry(
    wire: Mapping[str, Any], source: Location = NO_LOCATION, version: str | None = None
) -> Component:
    """Return a resource, a template or a prompt without code, from its entry in a list of MCP. Fields that
    MCP does not have, or that have the wrong type, are left out."""
    wire = _read_entry(wire)
    is_prompt = "uri" not in wire and "uriTemplate" not in wire
    options = ToolOptions(
        title=wire.get("title"),
        description=wire.get("description", ""),
        input_schema=_arguments_schema(wire),
        icons=wire.get("icons", ()),
        meta=wire.get("_meta", {}),
        version=version,
    )
    info = HandlerInfo(MissingHandler(wire["name"]))
    info.source = source
    return DescribedPrompt(info, wire, options) if is_prompt else DescribedResource(info, wire, options)


def definition_of_entry(tool: Component) -> ToolDefinition:
    """Return what clients are told of a resource or a prompt as a definition, so that it can be compared. The
    arguments of a prompt are its parameters."""
    wire = tool.to_wire()
    return ToolDefinition(
        name=tool.name,
        description=wire.get("description", ""),
        input_schema=_arguments_schema(wire),
        title=wire.get("title"),
        version=tool.version,
        source=tool.source,
        icons=wire.get("icons", ()),
        meta=wire.get("_meta", {}),
    )


def content_of(tool: Component) -> dict[str, Any]:
    """Return the entry of a resource or a prompt without what its content decides: size and date. That of a
    file whose content is fixed, as in a skill, has the digest of the content."""
    wire = {key: value for key, value in tool.to_wire().items() if key != "size"}
    if isinstance(tool, Resource) and tool.digest is not None:
        wire["digest"] = tool.digest
    if "annotations" in wire:
        kept = {key: value for key, value in wire["annotations"].items() if key != "lastModified"}
        wire = wire | {"annotations": kept}
    return wire


_FIELDS: dict[str, type] = {
    **dict.fromkeys(("uri", "uriTemplate", "name", "title", "description", "mimeType", "digest"), str),
    **dict.fromkeys(("arguments", "icons"), list),
    **dict.fromkeys(("annotations", "_meta"), Mapping),
    "size": int,
}


def _read_entry(given: Mapping[str, Any]) -> dict[str, Any]:
    wire = {key: given[key] for key, kind in _FIELDS.items() if isinstance(given.get(key), kind)}
    wire.setdefault("name", wire.get("uri") or wire.get("uriTemplate") or "")
    for key in {"arguments", "icons"} & wire.keys():
        wire[key] = [dict(item) for item in wire[key] if isinstance(item, Mapping)]
    for argument in wire.get("arguments", ()):
        wrong = [
            key for key in ("name", "title", "description") if not isinstance(argument.get(key, ""), str)
        ]
        for key in wrong:
            del argument[key]
        argument.setdefault("name", "")
    return wire


def _arguments_schema(wire: Mapping[str, Any]) -> dict[str, Any]:
    arguments = wire.get("arguments", ())
    properties = {}
    for argument in arguments:
        texts = {key: argument[key] for key in ("title", "description") if argument.get(key)}
        properties[argument["name"]] = {"type": "string", **texts}
    required = [argument["name"] for argument in arguments if argument.get("required") is True]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _read_template(text: str) -> URITemplate:
    try:
        return URITemplate(text)
    except InvalidToolError:
        return OpaqueTemplate(text)
