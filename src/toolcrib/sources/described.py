"""Tools without code: described by a file, by another server or by a catalog.

A described tool has a definition like any other, for lists, exports, locks and searches. Calling it fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from toolcrib.component import Component, Tool
from toolcrib.definition import ToolDefinition
from toolcrib.errors import Location, ToolError
from toolcrib.options import OptionFields, ToolOptions
from toolcrib.registry.prompts import Prompt
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


def describe_prompt(name: str, facts: Mapping[str, Any], source: Location) -> Prompt:
    """Return a prompt of this name, with a title, a description and arguments as MCP writes them."""
    info = HandlerInfo(MissingHandler(name))
    info.source = source
    arguments = [
        item for item in facts.get("arguments") or () if isinstance(item, Mapping) and "name" in item
    ]
    schema = {
        "type": "object",
        "properties": {
            item["name"]: {
                "type": "string",
                **({"description": item["description"]} if item.get("description") else {}),
            }
            for item in arguments
        },
        "required": [item["name"] for item in arguments if item.get("required")],
    }
    given: OptionFields = {
        "title": facts.get("title"),
        "description": facts.get("description") or "",
        "input_schema": schema,
    }
    made = Prompt(info, name, ToolOptions(**given), facts)
    made._build = build_handler
    return made
