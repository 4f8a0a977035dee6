"""Anthropic: tools for the Messages API.

It answers 400 to compositions at the root and to property names outside its pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.catalog.export.base import ProviderExporter, describe_tool
from toolcrib.catalog.export.calls import IMAGE_FORMATS, RawCall, ToolCall, block_text
from toolcrib.catalog.export.dialect import PLAIN_NAME, Dialect
from toolcrib.catalog.schema_algebra import Node
from toolcrib.content import Result
from toolcrib.validation import codec

ANTHROPIC = Dialect("Anthropic", property_name=PLAIN_NAME)


class Anthropic(ProviderExporter):
    name = "anthropic"
    summary = "Anthropic Messages API"
    dialect = ANTHROPIC

    def write_tool(self, name: str, description: str, schema: Node, strict: bool | None) -> dict[str, Any]:  # noqa: ARG002
        return {**describe_tool(name, description), "input_schema": schema}

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:
        """`{"type": "tool_use", "id", "name", "input": {...}}`"""
        if node.get("type") == "tool_use" and "name" in node:
            return RawCall(node.get("id"), node["name"], node.get("input"))
        return None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:
        """Return a content block of the next user message."""
        content: list[dict[str, Any]] = []
        for block in result.content:
            if block.get("type") == "image" and block.get("mimeType") in IMAGE_FORMATS:
                source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
                content.append({"type": "image", "source": source})
            elif text := block_text(block):
                content.append({"type": "text", "text": text})
        if not content and result.is_structured:
            content.append({"type": "text", "text": codec.encode_text(result.structured_content)})
        answer: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id, "content": content}
        return {**answer, "is_error": True} if result.is_error else answer
