"""Gemini: function declarations with `parameters` or with `parametersJsonSchema`.

`parameters` has the fields of Google's `Schema`: enums for strings only, few formats, `anyOf` without
siblings. `parametersJsonSchema` has the keywords that are listed for structured output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolcrib.catalog.export.base import ProviderExporter, RawCall, ToolCall, describe_tool, result_text
from toolcrib.catalog.export.dialect import Dialect
from toolcrib.catalog.schema_algebra import Node
from toolcrib.content import Result

_PROPERTY_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
GEMINI = Dialect(
    "Gemini",
    keywords=frozenset(
        {
            "format",
            "maxItems",
            "maxLength",
            "maxProperties",
            "maximum",
            "minItems",
            "minLength",
            "minProperties",
            "minimum",
            "pattern",
        }
    ),
    formats=frozenset({"date-time", "double", "float", "int32", "int64"}),
    property_name=_PROPERTY_NAME,
    enum_types=frozenset({"string"}),
    any_value=False,
    empty_enum_value=False,
    defaults=False,
)
GEMINI_JSON = Dialect(
    "Gemini",
    keywords=frozenset(
        {"additionalProperties", "format", "maxItems", "maximum", "minItems", "minimum", "prefixItems"}
    ),
    formats=frozenset({"date", "date-time", "double", "float", "int32", "int64", "time"}),
    property_name=_PROPERTY_NAME,
    enum_types=frozenset({"integer", "number", "string"}),
    empty_enum_value=False,
)


class Gemini(ProviderExporter):
    name = "gemini"
    summary = "Gemini function declarations with `parameters`"
    dialect = GEMINI

    def write_tool(self, name: str, description: str, schema: Node, strict: bool | None) -> dict[str, Any]:  # noqa: ARG002
        """Return a declaration. One without parameters has none: older models reject an empty object."""
        tool = describe_tool(name, description)
        if schema.keys() - {"type", "title"} != {"properties"} or schema["properties"]:
            tool["parameters"] = to_openapi(schema)
            if not schema["properties"]:
                del tool["parameters"]["properties"]
        return tool

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


class GeminiJSON(Gemini):
    name = "gemini-json"
    summary = "Gemini function declarations with `parametersJsonSchema`"
    dialect = GEMINI_JSON

    def write_tool(self, name: str, description: str, schema: Node, strict: bool | None) -> dict[str, Any]:  # noqa: ARG002
        return {**describe_tool(name, description), "parametersJsonSchema": schema}


def to_openapi(node: Node) -> Node:
    """Return a schema as Google's `Schema`: types in capitals, `nullable` instead of a null type."""
    branches = node.get("anyOf")
    if branches is None:
        return _write_plain(node)
    annotations = {key: value for key, value in node.items() if key != "anyOf"}
    found = [to_openapi(branch) for branch in branches if branch.get("type") != "null"]
    if not found:
        return {**annotations, "type": "NULL"}
    if len(found) < len(branches):
        found = [_make_nullable(branch) for branch in found]
    # Google rejects anything beside `anyOf`, so the annotations of all go to the first.
    first, *rest = (inner for branch in found for inner in branch.get("anyOf", [branch]))
    texts = [text for text in (annotations.get("description"), first.get("description")) if text]
    first = {**first, **annotations, **({"description": "\n".join(texts)} if texts else {})}
    return {"anyOf": [first, *rest]} if rest else first


def _make_nullable(node: Node) -> Node:
    if "anyOf" in node:
        return {"anyOf": [_make_nullable(inner) for inner in node["anyOf"]]}
    return {**node, "nullable": True}


def _write_plain(node: Node) -> Node:
    found: Node = {}
    for key, value in node.items():
        if key == "type":
            found[key] = value.upper()
        elif key == "properties":
            found[key] = {name: to_openapi(inner) for name, inner in value.items()}
        elif key == "items":
            found[key] = to_openapi(value)
        else:
            found[key] = value
    if "enum" in found:
        found["format"] = "enum"
    return found
