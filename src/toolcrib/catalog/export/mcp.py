"""Formats of toolcrib itself: tools as MCP lists them, the catalog of five keys, and the descriptor file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.catalog.build import build_catalog, function_schema
from toolcrib.catalog.export.base import ExportedTool, Exporter
from toolcrib.catalog.export.calls import RawCall
from toolcrib.registry.registry import ToolRegistry
from toolcrib.sources.descriptors import write_descriptor
from toolcrib.tool import Tool
from toolcrib.validation import codec


class MCP(Exporter):
    name = "mcp"
    summary = "tools as MCP lists them"

    def export(self, tool: Tool, name: str, *, strict: bool) -> ExportedTool:  # noqa: ARG002
        value = codec.decode(codec.encode(tool.definition.to_wire()))
        return ExportedTool(tool, value, codec.write(value).decode())

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:
        """`{"id", "method": "tools/call", "params": {"name", "arguments": {...}}}`"""
        params = node.get("params")
        if node.get("method") == "tools/call" and isinstance(params, Mapping) and "name" in params:
            return RawCall(node.get("id"), params["name"], params.get("arguments"))
        return None


class Catalog(Exporter):
    name = "catalog"
    summary = "the catalog of five keys"

    def export(self, tool: Tool, name: str, *, strict: bool) -> ExportedTool:  # noqa: ARG002
        return ExportedTool(tool, tool, codec.write(function_schema(tool)).decode())

    def combine(self, tools: Sequence[ExportedTool], title: str) -> Any:  # noqa: ARG002
        return build_catalog([exported.tool for exported in tools] or ToolRegistry())

    def refuses(self, document: Any, name: str) -> str | None:
        if name in {schema["name"] for schema in document["functionSchema"]}:
            return None
        return "the catalog leaves it out because of its name or version"


class Descriptor(Exporter):
    name = "descriptor"
    summary = "a file that describes tools without their code"

    def export(self, tool: Tool, name: str, *, strict: bool) -> ExportedTool:  # noqa: ARG002
        return ExportedTool(tool, tool, write_descriptor([tool], "json"))

    def combine(self, tools: Sequence[ExportedTool], title: str) -> Any:  # noqa: ARG002
        return codec.decode(write_descriptor([exported.tool for exported in tools], "json"))
