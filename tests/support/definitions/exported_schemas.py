"""Schemas of exported tools as JSON Schema, and the arguments that a model would send."""

from __future__ import annotations

from itertools import product
from typing import Any

import jsonschema_rs

from toolcrib.catalog.export import Export
from toolcrib.catalog.export.dialect import WRAPPER

_PLACES: dict[str, tuple[str, ...]] = {
    "openai": ("function", "parameters"),
    "openai-responses": ("parameters",),
    "anthropic": ("input_schema",),
    "gemini": ("parametersJsonSchema",),
    "bedrock": ("toolSpec", "inputSchema", "json"),
    "mcp": ("inputSchema",),
}


def schema_of(to: str, tool: dict[str, Any]) -> dict[str, Any]:
    """The input schema of an exported tool, as JSON Schema."""
    found: Any = tool
    for step in _PLACES[to]:
        found = found[step]
    schema: dict[str, Any] = found
    return schema


def name_of(to: str, tool: dict[str, Any]) -> str:
    holder = {"openai": "function", "bedrock": "toolSpec"}.get(to)
    name: str = (tool[holder] if holder else tool)["name"]
    return name


def opened(node: Any) -> Any:
    """Return the schema with its objects open to undeclared names."""
    if isinstance(node, dict):
        return {
            key: opened(item)
            for key, item in node.items()
            if not (key == "additionalProperties" and item is False)
        }
    return [opened(item) for item in node] if isinstance(node, list) else node


def is_strict_tool(tool: dict[str, Any]) -> bool:
    return bool(tool.get("function", tool).get("strict"))


def forward(found: Export, value: dict[str, Any], name: str = "any") -> list[dict[str, Any]]:
    """Return what a model may send for these arguments: several where alternatives overlap."""
    decoder = found._decoders[name]
    tool = next(tool for tool in found.tools if name_of(found.to, tool) == name)
    schema = schema_of(found.to, tool)
    is_strict = is_strict_tool(tool)
    sent = [_rename(value, {old: new for new, old in decoder.renamed.items()})]
    if is_strict:
        sent = _with_nulls(sent[0], schema["properties"][WRAPPER] if decoder.is_wrapped else schema)
    return [{WRAPPER: item} for item in sent] if decoder.is_wrapped else sent


def _rename(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {names.get(key, key): _rename(item, names) for key, item in value.items()}
    return [_rename(item, names) for item in value] if isinstance(value, list) else value


def _with_nulls(value: Any, schema: dict[str, Any]) -> list[Any]:
    """The value with null for every property that a strict schema requires and that is missing."""
    if "anyOf" in schema:
        tried = [(item, branch) for branch in schema["anyOf"] for item in _with_nulls(value, branch)]
        valid = [item for item, branch in tried if jsonschema_rs.validator_for(opened(branch)).is_valid(item)]
        return valid[:4] or [value]
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        options = [_with_nulls(item, properties.get(key, {})) for key, item in value.items()]
        missing = {key: None for key in schema.get("required", ()) if key not in value}
        return [
            {**dict(zip(value, chosen, strict=True)), **missing} for chosen in list(product(*options))[:4]
        ]
    if isinstance(value, list):
        options = [_with_nulls(item, schema.get("items", {})) for item in value]
        return [list(chosen) for chosen in list(product(*options))[:4]]
    return [value]
