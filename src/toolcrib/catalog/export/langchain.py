"""LangChain: a JSON Schema with the tool's name as its title.

It can be passed to `bind_tools` and `convert_to_openai_tool`, and be the `args_schema` of a
`StructuredTool`. The model behind it is not known, so the rules of all providers hold that can be kept
without loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.catalog.export.base import ProviderExporter
from toolcrib.catalog.export.calls import RawCall, ToolCall, result_text
from toolcrib.catalog.export.dialect import PLAIN_NAME, Dialect
from toolcrib.catalog.schema_algebra import Node
from toolcrib.content import Result

LANGCHAIN = Dialect("LangChain", property_name=PLAIN_NAME, annotations_at_root=False)


class LangChain(ProviderExporter):
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
