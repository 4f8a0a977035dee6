"""Tools, resources and prompts without code: described by a file, by another server or by a catalog.

They have a definition like any other, for lists, exports, locks and searches. Calling one fails.

    describe_entry({"uri": "orders://list", "name": "orders"})      # a resource without code
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from toolcrib.component import Component, Tool
from toolcrib.definition import ToolDefinition
from toolcrib.errors import NO_LOCATION, DefinitionError, Finding, InvalidToolError, Location, ToolError
from toolcrib.options import OptionFields, ToolOptions
from toolcrib.registry.prompts import Prompt
from toolcrib.registry.resources import Resource
from toolcrib.registry.uri_template import URITemplate
from toolcrib.schema.function import ToolParts, build_handler
from toolcrib.schema.parameters import HandlerInfo

ANNOTATION_OPTIONS = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}


class MissingHandler:
    """The handler of a tool without code."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self.__doc__ = None

    async def __call__(self, arguments: dict[str, Any]) -> Any:  # noqa: ARG002
        raise ToolError(f"'{self.__name__}' is only described here: its code is not available")


def describe(definition: ToolDefinition) -> Component:
    """Return a tool with this definition, which is checked when the tool is built."""
    info = HandlerInfo(MissingHandler(definition.name))
    info.source = definition.source
    build = partial(_build, definition)
    return Tool(info, definition.name, options_in(definition), build, definition)


class ListedTool(Tool):
    """A tool as another server lists it: shown whatever it is, even if it could not be one of ours."""

    __slots__ = ("_listed",)

    def __init__(self, definition: ToolDefinition) -> None:
        info = HandlerInfo(MissingHandler(definition.name))
        info.source = definition.source
        build = partial(_build, definition)
        super().__init__(info, definition.name, options_in(definition), build, definition)
        self._listed = definition

    @property
    def definition(self) -> ToolDefinition:
        return self._listed

    @property
    def findings(self) -> tuple[Finding, ...]:
        try:
            return super().findings
        except DefinitionError as error:
            return tuple(replace(finding, level="warning", line=None) for finding in error.all_findings)


def is_described(tool: Component) -> bool:
    return isinstance(tool.info.handler, MissingHandler)


def options_in(definition: ToolDefinition) -> ToolOptions:
    """Return the options that result in this definition."""
    hints = {
        option: definition.annotations[hint]
        for hint, option in ANNOTATION_OPTIONS.items()
        if isinstance(definition.annotations.get(hint), bool)
    }
    if hints.get("read_only") and hints.get("destructive"):
        del hints["destructive"]  # it has no meaning for a read-only tool
    given: OptionFields = {
        "name": definition.name,
        "title": definition.title,
        "description": definition.description,
        "input_schema": definition.input_schema,
        "output_schema": definition.output_schema,
        "tags": definition.tags,
        "version": definition.version,
        "metadata": definition.metadata,
        "icons": definition.icons,
        "meta": definition.meta,
        **hints,  # type: ignore[typeddict-item]
    }
    return ToolOptions(**given)


def _build(definition: ToolDefinition, info: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
    parts = build_handler(info, name, options)
    return replace(
        parts, annotations=definition.annotations, returns=definition.returns, raises=definition.raises
    )


# --- resources and prompts, as they are listed -----------------------------------------------------------


class OpaqueTemplate(URITemplate):
    """A template of another server that toolcrib cannot match with URIs. Only its text is known."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.variables = ()
        self.optional = frozenset()

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
        input_schema=arguments_schema(wire),
        icons=wire.get("icons", ()),
        meta=wire.get("_meta", {}),
        version=version,
    )
    info = HandlerInfo(MissingHandler(wire["name"]))
    info.source = source
    return DescribedPrompt(info, wire, options) if is_prompt else DescribedResource(info, wire, options)


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


def arguments_schema(wire: Mapping[str, Any]) -> dict[str, Any]:
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
