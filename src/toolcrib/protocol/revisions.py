"""The MCP revisions: the features of each, and tool definitions and results in the form each one knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.content import Block, Result, text_block
from toolcrib.definition import ToolDefinition
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import rewrite_references


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision and its features.

    `structured_output` covers titles, output schemas, structured results and resource links.
    `argument_errors_as_rpc` makes invalid arguments a JSON-RPC error instead of a result.
    `resumable_streams` sends an empty first event, so that a client knows where to resume.
    """

    name: str
    modern: bool = False
    annotations: bool = True
    structured_output: bool = True
    audio: bool = True
    icons: bool = True
    argument_errors_as_rpc: bool = False
    elicitation: bool = True
    url_elicitation: bool = True
    resumable_streams: bool = False

    def shape_tool(self, definition: ToolDefinition) -> dict[str, Any]:
        """Return a definition as this revision lists it."""
        wire = definition.to_wire()
        if self.modern:
            return wire
        if not self.icons:
            wire.pop("icons", None)
        if not self.structured_output:
            for key in ("title", "outputSchema", "_meta"):
                wire.pop(key, None)
            if definition.standalone_description:
                wire["description"] = definition.standalone_description
            if not self.annotations:
                wire.pop("annotations", None)
        elif "outputSchema" in wire:
            wire["outputSchema"] = _as_object(wire["outputSchema"])
        return wire

    def shape_entry(self, wire: dict[str, Any]) -> dict[str, Any]:
        """Return a resource, a template or a prompt as this revision lists it."""
        if not self.icons:
            wire.pop("icons", None)
        if not self.structured_output:
            for key in ("title", "_meta"):
                wire.pop(key, None)
            kept = {k: v for k, v in wire.pop("annotations", {}).items() if k != "lastModified"}
            if kept:
                wire["annotations"] = kept
        return wire

    def shape_content(self, blocks: list[Block]) -> list[Block]:
        """Return content blocks with those that this revision does not know as text."""
        if self.structured_output and self.audio:
            return blocks
        shaped = []
        for block in blocks:
            kind = block.get("type")
            if kind == "resource_link" and not self.structured_output:
                name = block.get("title") or block.get("name")
                block = text_block(f"{name}: {block.get('uri')}")
            elif kind == "audio" and not self.audio:
                block = text_block(f"[audio, {block.get('mimeType')}: this client cannot play it]")
            shaped.append(block)
        return shaped

    def shape_result(self, result: Result, schema: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the result of a call. `schema` is the published output schema; only older peers need it."""
        if self.modern:
            wire: dict[str, Any] = {"resultType": "complete", "content": result.content}
        else:
            wire = {"content": self.shape_content(result.content)}
        if result.is_structured and self.structured_output:
            value = result.structured_content
            if not self.modern and (type(value) is not dict or is_wrapped(schema)):
                value = {"result": value}
            wire["structuredContent"] = value
        wire["isError"] = result.is_error
        return wire


def is_wrapped(schema: Mapping[str, Any] | None) -> bool:
    """Return whether legacy peers see values of this output schema under the key `result`."""
    return schema is not None and schema.get("type") != "object"


_DEFINITIONS = ("$defs", "definitions")


def _as_object(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if not is_wrapped(schema):
        return schema
    inner = dict(schema)
    outer: dict[str, Any] = {}
    for key in ("$schema", *_DEFINITIONS):  # references start at the root
        if key in inner:
            outer[key] = inner.pop(key)
    wrapped = {**outer, "type": "object", "properties": {"result": inner}, "required": ["result"]}
    return rewrite_references(wrapped, _move_reference) if b'"$ref":"#' in codec.write(wrapped) else wrapped


def _move_reference(reference: str) -> str:
    """Return a reference to the old root, or to a part that has moved, with its new location."""
    is_pointer = reference == "#" or reference.startswith("#/")
    if not is_pointer or reference.startswith(tuple(f"#/{key}/" for key in _DEFINITIONS)):
        return reference
    return f"#/properties/result{reference[1:]}"


_BEFORE_2025_11 = {"icons": False, "argument_errors_as_rpc": True, "url_elicitation": False}
_BEFORE_2025_06 = {**_BEFORE_2025_11, "structured_output": False, "elicitation": False}

MODERN = Revision("2026-07-28", modern=True)
LEGACY: Mapping[str, Revision] = {
    revision.name: revision
    for revision in (
        Revision("2025-11-25", resumable_streams=True),
        Revision("2025-06-18", **_BEFORE_2025_11),
        Revision("2025-03-26", **_BEFORE_2025_06),
        Revision("2024-11-05", **_BEFORE_2025_06, annotations=False, audio=False),
    )
}
NEWEST_LEGACY = LEGACY["2025-11-25"]
ASSUMED = LEGACY["2025-03-26"]
"""The revision of an HTTP client that does not name one."""
