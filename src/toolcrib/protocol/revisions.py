"""What each revision of MCP knows, and definitions and results cut to that.

Knows the table of revisions; refuses to know messages and calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.content import Block, Result, text_block
from toolcrib.definition import ToolDefinition
from toolcrib.validation import codec


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision. `structures`: titles, output schemas, structured results and links exist; `wraps`: a
    result that is no object goes below a key; `faults_arguments`: bad arguments are a JSON-RPC error."""

    name: str
    modern: bool = False
    annotates: bool = True
    structures: bool = True
    sounds: bool = True
    icons: bool = True
    batches: bool = False
    wraps: bool = True
    faults_arguments: bool = False
    elicits: bool = True
    elicits_by_url: bool = True
    primes: bool = False

    def shape_tool(self, definition: ToolDefinition) -> dict[str, Any]:
        """A definition as this revision lists it."""
        wire = definition.to_wire()
        if self.modern:
            return wire
        if not self.icons:
            wire.pop("icons", None)
        if not self.structures:
            for key in ("title", "outputSchema", "_meta"):
                wire.pop(key, None)
            if definition.standalone_description:
                wire["description"] = definition.standalone_description
            if not self.annotates:
                wire.pop("annotations", None)
        elif "outputSchema" in wire:
            wire["outputSchema"] = _as_object(wire["outputSchema"])
        return wire

    def shape_content(self, blocks: list[Block]) -> list[Block]:
        """Blocks as this revision knows them; what it does not know becomes text."""
        if self.structures and self.sounds:
            return blocks
        return [self._shape_block(block) for block in blocks]

    def _shape_block(self, block: Block) -> Block:
        kind = block.get("type")
        if kind == "resource_link" and not self.structures:
            name = block.get("title") or block.get("name")
            return text_block(f"{name}: {block.get('uri')}")
        if kind == "audio" and not self.sounds:
            return text_block(f"[audio, {block.get('mimeType')}: this client cannot play it]")
        return block

    def shape_result(self, result: Result, schema: Mapping[str, Any] | None) -> dict[str, Any]:
        """A call's result. `schema` is what was published for it, which matters to older peers alone."""
        if self.modern:
            wire: dict[str, Any] = {"resultType": "complete", "content": result.content}
        else:
            wire = {"content": self.shape_content(result.content)}
        if result.is_structured and self.structures:
            value = result.structured_content
            if not self.modern and (type(value) is not dict or is_wrapped(schema)):
                value = {"result": value}
            wire["structuredContent"] = value
        wire["isError"] = result.is_error
        return wire


def is_wrapped(schema: Mapping[str, Any] | None) -> bool:
    """Whether legacy peers are told of this output schema below the key `result`."""
    return schema is not None and schema.get("type") != "object"


def _as_object(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if not is_wrapped(schema):
        return schema
    inner = dict(schema)
    outer: dict[str, Any] = {}
    for key in ("$schema", *_KEPT):  # references start at the root
        if key in inner:
            outer[key] = inner.pop(key)
    wrapped = {**outer, "type": "object", "properties": {"result": inner}, "required": ["result"]}
    return _moved(wrapped) if b'"$ref":"#' in codec.write(wrapped) else wrapped


_KEPT = ("$defs", "definitions")


def _is_kept(target: str) -> bool:
    return target.startswith(tuple(f"#/{key}/" for key in _KEPT))


def _moved(schema: Any) -> Any:
    """References to the old root, or to a place below it that has moved, lead there again."""
    if isinstance(schema, list | tuple):
        return [_moved(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    moved = {key: _moved(value) for key, value in schema.items()}
    target = schema.get("$ref")
    if isinstance(target, str) and (target == "#" or target.startswith("#/")) and not _is_kept(target):
        moved["$ref"] = f"#/properties/result{target[1:]}"
    return moved


MODERN = Revision("2026-07-28", modern=True, wraps=False)
LEGACY: Mapping[str, Revision] = {
    revision.name: revision
    for revision in (
        Revision("2025-11-25", primes=True),
        Revision("2025-06-18", icons=False, faults_arguments=True, elicits_by_url=False),
        Revision(
            "2025-03-26",
            icons=False,
            faults_arguments=True,
            elicits_by_url=False,
            structures=False,
            elicits=False,
            batches=True,
        ),
        Revision(
            "2024-11-05",
            icons=False,
            faults_arguments=True,
            elicits_by_url=False,
            structures=False,
            elicits=False,
            annotates=False,
            sounds=False,
        ),
    )
}
NEWEST_LEGACY = LEGACY["2025-11-25"]
ASSUMED = LEGACY["2025-03-26"]
"""What a client over HTTP speaks that does not say so."""
