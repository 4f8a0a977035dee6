"""Formats for OpenAI, Anthropic, Amazon Bedrock and Google's Gemini.

OpenAI's strict mode follows the guide to structured outputs: a list of keywords, closed objects and limits.
Without it the API answers 400 to compositions, `enum` and `not` at the root, and to arrays without `items`.
"""

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
from toolcrib.catalog.export.dialect import PLAIN_NAME, Dialect, NotStrictError
from toolcrib.catalog.schemas import Node
from toolcrib.content import Result
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import children, walk

# --- OpenAI ----------------------------------------------------------------------------------------------

OPENAI = Dialect()
_STRICT_KEYWORDS = frozenset(
    {"additionalProperties", "anyOf", "description", "enum", "exclusiveMaximum", "exclusiveMinimum", "format"}
    | {"items", "maxItems", "maximum", "minItems", "minimum", "multipleOf", "pattern", "properties"}
    | {"required", "title", "type"}
)
_STRICT_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
)
OPENAI_STRICT = Dialect(_STRICT_KEYWORDS, formats=_STRICT_FORMATS, closed=True)
MAX_PROPERTIES = 5_000
MAX_LEVELS = 10
MAX_ENUM_VALUES = 1_000
MAX_CHARACTERS = 120_000
"""The limits of strict mode; the last one is on all names and enum values together."""
MANY_ENUM_VALUES, MAX_ENUM_CHARACTERS = 250, 15_000
"""An enum with more values than the first may have no more characters than the second."""


class OpenAI(ProviderExporter):
    name = "openai"
    summary = "OpenAI chat completions, and compatible APIs"
    dialect = OPENAI
    strict_dialect = OPENAI_STRICT

    def write_tool(self, name: str, description: str, schema: Node, strict: bool) -> dict[str, Any]:
        function = {**describe_tool(name, description), "parameters": schema, "strict": strict}
        return {"type": "function", "function": function}

    def check_strict(self, schema: Node) -> None:
        check_strict_limits(schema)

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:
        """`{"id", "type": "function", "function": {"name", "arguments": "{...}"}}`"""
        function = node.get("function")
        if isinstance(function, Mapping) and "name" in function and "parameters" not in function:
            return RawCall(node.get("id"), function["name"], function.get("arguments"))
        return None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": call.id, "content": _result_text(result)}


class OpenAIResponses(OpenAI):
    name = "openai-responses"
    summary = "OpenAI Responses API"

    def write_tool(self, name: str, description: str, schema: Node, strict: bool) -> dict[str, Any]:
        # Without `strict` the API tries to make a schema strict by itself.
        tool = {"type": "function", **describe_tool(name, description)}
        return {**tool, "parameters": schema, "strict": strict}

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:
        """`{"type": "function_call", "call_id", "name", "arguments": "{...}"}`"""
        if node.get("type") == "function_call" and "name" in node:
            return RawCall(node.get("call_id") or node.get("id"), node["name"], node.get("arguments"))
        return None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": call.id, "output": _result_text(result)}


def _result_text(result: Result) -> str:
    """OpenAI has no field for errors, so the text says it."""
    text = result_text(result)
    return f"Error: {text}" if result.is_error and not text.startswith("Error") else text


def check_strict_limits(schema: Node) -> None:
    """Raise NotStrictError if a schema exceeds the limits of strict mode."""
    nodes = [node for _, node in walk(schema)]
    names = [name for node in nodes for name in node.get("properties", ())]
    enums = [node["enum"] for node in nodes if "enum" in node]
    lengths = [sum(len(value) for value in values if isinstance(value, str)) for values in enums]
    for values, length in zip(enums, lengths, strict=True):
        if len(values) > MANY_ENUM_VALUES and length > MAX_ENUM_CHARACTERS:
            raise NotStrictError(
                f"an enum of {len(values)} values has {length} characters, "
                f"and strict mode allows {MAX_ENUM_CHARACTERS}"
            )
    limits = (
        (len(names), MAX_PROPERTIES, "properties"),
        (_count_levels(schema), MAX_LEVELS, "levels of objects"),
        (sum(map(len, enums)), MAX_ENUM_VALUES, "enum values in all"),
        (sum(map(len, names)) + sum(lengths), MAX_CHARACTERS, "characters in names and enum values"),
    )
    for count, limit, noun in limits:
        if count > limit:
            raise NotStrictError(f"it has {count} {noun}, and strict mode allows {limit}")


def _count_levels(node: Any) -> int:
    inner = max((_count_levels(child) for _, child in children(node)), default=0)
    return inner + (isinstance(node, Mapping) and node.get("type") == "object")


# --- others ----------------------------------------------------------------------------------------------

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
