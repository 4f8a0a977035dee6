"""A server's tools and results, read from the wire with a stranger's caution.

Knows what a list of tools and a call's result look like. Refuses to know how they were asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.client.http import Path, marks_in
from toolcrib.client.session import SERVER_INFO
from toolcrib.content import Result
from toolcrib.definition import ToolDefinition
from toolcrib.errors import BadAnswerError, Location

logger = logging.getLogger("toolcrib")


@dataclass(frozen=True)
class RemoteTool:
    """A tool of another server. `wire` is all that server says of it, as it came."""

    definition: ToolDefinition
    wire: Mapping[str, Any] = field(repr=False)
    header_marks: Mapping[Path, str] = field(default_factory=dict, repr=False)

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


def read_tools(items: Any, place: str, *, over_http: bool) -> Iterator[RemoteTool]:
    """The tools of one page. What is wrong with one hides no other: it is warned of and left out."""
    if not isinstance(items, list):
        raise BadAnswerError(f"{place} listed no tools: the answer has no list of them")
    for item in items:
        try:
            yield _read_tool(item, place, over_http)
        except ValueError as error:
            logger.warning("%s lists a tool that cannot be used: %s", place, error)


def _read_tool(item: Any, place: str, over_http: bool) -> RemoteTool:
    if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
        raise ValueError("it has no name")
    name, schema, output = item["name"], item.get("inputSchema"), item.get("outputSchema")
    if not isinstance(schema, Mapping):
        raise ValueError(f"'{name:.100}' has no inputSchema")
    try:
        # Over HTTP a mark that cannot be followed makes the tool uncallable; elsewhere marks mean nothing.
        marks = marks_in(schema) if over_http else {}
    except ValueError as error:
        raise ValueError(f"'{name:.100}': {error}") from None
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
        source=Location(place),
    )
    return RemoteTool(definition, item, marks)


def read_result(result: Mapping[str, Any], place: str) -> Result:
    """A call's result. Raises BadAnswerError for content that is none."""
    content = result.get("content", [])
    if not isinstance(content, list) or not all(_is_block(item) for item in content):
        raise BadAnswerError(f"{place} returned content that is none")
    if "content" not in result and "structuredContent" not in result:
        raise BadAnswerError(f"{place} returned a result without content")
    meta = result.get("_meta")
    meta = {key: item for key, item in meta.items() if key != SERVER_INFO} if isinstance(meta, dict) else None
    return Result(
        content,
        result.get("structuredContent"),
        is_error=result.get("isError") is True,
        is_structured="structuredContent" in result,
        meta=meta or None,
    )


def _is_block(item: Any) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        return False
    return item["type"] != "text" or isinstance(item.get("text"), str)
