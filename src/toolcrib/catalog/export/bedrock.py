"""Amazon Bedrock: tool specifications for Converse, as in `toolConfig.tools`.

The root is an object; Amazon's own models accept three fields there, and Anthropic's rules hold for
Anthropic's models.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from toolcrib.catalog.export.base import ProviderExporter, describe_tool
from toolcrib.catalog.export.calls import IMAGE_FORMATS, RawCall, ToolCall, block_text, result_text
from toolcrib.catalog.export.dialect import PLAIN_NAME, Dialect
from toolcrib.catalog.schema_algebra import Node
from toolcrib.content import Result

BEDROCK = Dialect(
    "Bedrock",
    property_name=PLAIN_NAME,
    root_keywords=frozenset({"properties", "required", "type"}),
    annotations_at_root=False,
)


class Bedrock(ProviderExporter):
    name = "bedrock"
    summary = "Amazon Bedrock Converse"
    dialect = BEDROCK

    def write_tool(self, name: str, description: str, schema: Node, strict: bool | None) -> dict[str, Any]:  # noqa: ARG002
        return {"toolSpec": {**describe_tool(name, description), "inputSchema": {"json": schema}}}

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:
        """`{"toolUse": {"toolUseId", "name", "input": {...}}}`"""
        inner = node.get("toolUse")
        if isinstance(inner, Mapping) and "name" in inner:
            return RawCall(inner.get("toolUseId"), inner["name"], inner.get("input"))
        return None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:
        """Return a content block of the next user message. Images are bytes, as boto3 takes them."""
        content: list[dict[str, Any]] = []
        for block in result.content:
            if block.get("type") == "image" and block.get("mimeType") in IMAGE_FORMATS:
                image = {
                    "format": IMAGE_FORMATS[block["mimeType"]],
                    "source": {"bytes": base64.b64decode(block["data"])},
                }
                content.append({"image": image})
            else:
                content.append({"text": block_text(block)})
        if not content:
            data = result.structured_content
            is_object = result.is_structured and isinstance(data, dict)
            content.append({"json": data} if is_object else {"text": result_text(result)})
        status = "error" if result.is_error else "success"
        return {"toolResult": {"toolUseId": call.id, "content": content, "status": status}}
