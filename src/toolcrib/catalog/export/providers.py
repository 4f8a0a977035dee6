"""Formats for Anthropic, Amazon Bedrock and LangChain, which support nearly all of JSON Schema."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from toolcrib.catalog.export.base import (
    IMAGE_FORMATS,
    ProviderExporter,
    RawCall,
    ToolCall,
    block_text,
    describe_tool,
    result_text,
)
from toolcrib.catalog.export.dialect import PLAIN_NAME, Dialect
from toolcrib.catalog.schema_algebra import Node
from toolcrib.content import Result
from toolcrib.validation import codec

ANTHROPIC = Dialect("Anthropic", property_name=PLAIN_NAME)
BEDROCK = Dialect(
    "Bedrock",
    property_name=PLAIN_NAME,
    root_keywords=frozenset({"properties", "required", "type"}),
    annotations_at_root=False,
)
LANGCHAIN = Dialect("LangChain", property_name=PLAIN_NAME, annotations_at_root=False)


class Anthropic(ProviderExporter):
    """Tools for the Messages API, which rejects compositions at the root and some property names."""

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


class Bedrock(ProviderExporter):
    """Tool specifications for Converse, as in `toolConfig.tools`.

    Amazon's own models accept three fields at the root, and Anthropic's rules hold for Anthropic's models.
    """

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


class LangChain(ProviderExporter):
    """A JSON Schema with the tool's name as its title, for `bind_tools` and as an `args_schema`.

    The model behind it is not known, so the rules of all providers hold that can be kept without loss.
    """

    name = "langchain"
    summary = "LangChain: JSON Schemas with a title"
    dialect = LANGCHAIN

    def write_tool(self, name: str, description: str, schema: Node, strict: bool | None) -> dict[str, Any]:  # noqa: ARG002
        rest = {key: value for key, value in schema.items() if key not in ("title", "description")}
        return {"title": name, **({"description": description} if description else {}), **rest}

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:
        """`{"type": "tool_call", "id", "name", "args": {...}}`, or only `{"name", "args"}`"""
        if "name" in node and isinstance(node.get("args"), Mapping | str):
            return RawCall(node.get("id"), node["name"], node["args"])
        return None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:
        """Return what `ToolMessage(**...)` and `convert_to_messages` take."""
        return {
            "role": "tool",
            "tool_call_id": call.id,
            "name": call.exported or call.name,
            "content": result_text(result),
            "status": "error" if result.is_error else "success",
        }
