"""Parse the tools and results that a server sends. Input is untrusted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolcrib.client.session import SERVER_INFO
from toolcrib.content import Result
from toolcrib.definition import ToolDefinition
from toolcrib.errors import InvalidResponseError, InvalidSchemaError, Location

logger = logging.getLogger("toolcrib")

T = TypeVar("T")


@dataclass(frozen=True)
class RemoteTool:
    """A tool of another server; `wire` is its definition as received."""

    definition: ToolDefinition
    wire: Mapping[str, Any] = field(repr=False)
    header_arguments: Mapping[tuple[str, ...], str] = field(default_factory=dict, repr=False)
    """The path of each argument that is repeated in an HTTP header, and the header's name."""

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def description(self) -> str:
        return self.definition.description

    @property
    def input_schema(self) -> Mapping[str, Any]:
        return self.definition.input_schema

    @property
    def output_schema(self) -> Mapping[str, Any] | None:
        return self.definition.output_schema


def read_items(items: Any, label: str, what: str, parse: Callable[[Mapping[str, Any]], T]) -> Iterator[T]:
    """Yield the entries of one page of a list, skipping invalid ones with a warning."""
    if not isinstance(items, list):
        raise InvalidResponseError(f"{label} sent a list of {what}s without entries")
    for item in items:
        try:
            if not isinstance(item, Mapping):
                raise ValueError("not an object")
            yield parse(item)
        except ValueError as error:
            logger.warning("%s lists an invalid %s: %s", label, what, error)


def parse_tool(item: Mapping[str, Any], label: str, *, over_http: bool) -> RemoteTool:
    """Parse an entry of tools/list. Raises ValueError."""
    if not isinstance(item.get("name"), str):
        raise ValueError("missing name")
    name, schema, output = item["name"], item.get("inputSchema"), item.get("outputSchema")
    if not isinstance(schema, Mapping):
        raise ValueError(f"'{name:.100}' has no inputSchema")
    annotations, title = item.get("annotations"), item.get("title")
    description, icons, meta = item.get("description"), item.get("icons"), item.get("_meta")
    definition = ToolDefinition(
        name=name,
        description=description if isinstance(description, str) else "",
        input_schema=schema,
        output_schema=output if isinstance(output, Mapping) else None,
        title=title if isinstance(title, str) else None,
        annotations=annotations if isinstance(annotations, Mapping) else {},
        icons=icons if isinstance(icons, list) and all(isinstance(icon, Mapping) for icon in icons) else (),
        meta=meta if isinstance(meta, Mapping) else {},
        source=Location(label),
    )
    try:
        # Over HTTP an invalid x-mcp-header makes the tool uncallable; other transports ignore it.
        header_arguments = definition.mirrored if over_http else {}
    except (InvalidSchemaError, RecursionError) as error:
        raise ValueError(f"'{name:.100}': {error}") from None
    return RemoteTool(definition, item, header_arguments)


def read_result(result: Mapping[str, Any], label: str) -> Result:
    """Parse the result of a call. Raises InvalidResponseError."""
    content = result.get("content", [])
    if not isinstance(content, list) or not all(is_block(item) for item in content):
        raise InvalidResponseError(f"{label} returned invalid content")
    if "content" not in result and "structuredContent" not in result:
        raise InvalidResponseError(f"{label} returned a result without content")
    meta = result.get("_meta")
    meta = {key: item for key, item in meta.items() if key != SERVER_INFO} if isinstance(meta, dict) else None
    return Result(
        content,
        result.get("structuredContent"),
        is_error=result.get("isError") is True,
        is_structured="structuredContent" in result,
        meta=meta or None,
    )


def is_block(item: Any) -> bool:
    """Return whether an item of a result is a content block."""
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        return False
    return item["type"] != "text" or isinstance(item.get("text"), str)
