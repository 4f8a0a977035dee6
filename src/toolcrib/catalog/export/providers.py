"""Formats for Anthropic, Amazon Bedrock and Google's Gemini."""

from __future__ import annotations

import base64
import re
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
from toolcrib.catalog.schemas import Node
from toolcrib.content import Result
from toolcrib.validation import codec

ANTHROPIC = Dialect(property_name=PLAIN_NAME)
BEDROCK = Dialect(property_name=PLAIN_NAME, root_keywords=frozenset({"properties", "required", "type"}))
_GEMINI_KEYWORDS = frozenset(
    {"additionalProperties", "anyOf", "default", "description", "enum", "format", "items", "maxItems"}
    | {"maximum", "minItems", "minimum", "prefixItems", "properties", "required", "title", "type"}
)
GEMINI = Dialect(
    _GEMINI_KEYWORDS,
    property_name=re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}"),
    formats=frozenset({"date", "date-time", "double", "float", "int32", "int64", "time"}),
    enum_types=frozenset({"integer", "number", "string"}),
)


class Anthropic(ProviderExporter):
    """Tools for the Messages API, which rejects compositions at the root and some property names."""

    name = "anthropic"
    summary = "Anthropic Messages API"
    dialect = ANTHROPIC

    def write_tool(self, name: str, description: str, schema: Node, strict: bool) -> dict[str, Any]:  # noqa: ARG002
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

    def write_tool(self, name: str, description: str, schema: Node, strict: bool) -> dict[str, Any]:  # noqa: ARG002
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


class Gemini(ProviderExporter):
    """Function declarations with `parametersJsonSchema`, which has the keywords of structured output."""

    name = "gemini"
    summary = "Gemini function declarations"
    dialect = GEMINI

    def write_tool(self, name: str, description: str, schema: Node, strict: bool) -> dict[str, Any]:  # noqa: ARG002
        return {**describe_tool(name, description), "parametersJsonSchema": schema}

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:
        """`{"functionCall": {"id"?, "name", "args": {...}}}`; Google's package has `function_call`."""
        inner = node.get("functionCall", node.get("function_call"))
        if isinstance(inner, Mapping) and "name" in inner:
            return RawCall(inner.get("id"), inner["name"], inner.get("args", inner.get("arguments")))
        return None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:
        """Return a part of the next user content."""
        if result.is_error:
            response: dict[str, Any] = {"error": result_text(result)}
        else:
            response = {"output": result.structured_content if result.is_structured else result_text(result)}
        inner: dict[str, Any] = {"name": call.exported or call.name, "response": response}
        return {"functionResponse": {"id": call.id, **inner} if call.id else inner}
