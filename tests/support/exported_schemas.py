"""Schemas of exported tools as JSON Schema, and the arguments that a model would send."""

from __future__ import annotations

from itertools import product
from typing import Any

import jsonschema_rs

from toolcrib.catalog.export import Export
from toolcrib.catalog.export.decode import WRAPPER, ValueDecoder

_PLACES: dict[str, tuple[str, ...]] = {
    "openai": ("function", "parameters"),
    "openai-responses": ("parameters",),
    "anthropic": ("input_schema",),
    "gemini": ("parameters",),
    "gemini-json": ("parametersJsonSchema",),
    "bedrock": ("toolSpec", "inputSchema", "json"),
    "langchain": (),
    "mcp": ("inputSchema",),
}
_GOOGLE = frozenset(
    {"anyOf", "description", "enum", "format", "items", "nullable", "pattern", "properties", "required"}
    | {"title", "type", "maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties"}
    | {"maximum", "minimum"}
)


def schema_of(to: str, tool: dict[str, Any]) -> dict[str, Any]:
    """The input schema of an exported tool, as JSON Schema."""
    found: Any = tool
    for step in _PLACES[to]:
        found = found.get(step, {"type": "OBJECT"} if to == "gemini" else None)
    return from_google(found) if to == "gemini" else found


def name_of(to: str, tool: dict[str, Any]) -> str:
    holder = {"openai": "function", "bedrock": "toolSpec"}.get(to)
    inner = tool[holder] if holder else tool
    return inner["title" if to == "langchain" else "name"]


def from_google(node: dict[str, Any]) -> dict[str, Any]:
    """Convert Google's `Schema` to JSON Schema; fail on keywords that it does not support."""
    assert node.keys() <= _GOOGLE, node.keys() - _GOOGLE
    found: dict[str, Any] = {key: value for key, value in node.items() if key != "nullable"}
    if "anyOf" in node:
        assert node.keys() == {"anyOf"}, "Google refuses anything beside anyOf"
        return {"anyOf": [from_google(item) for item in node["anyOf"]]}
    assert isinstance(node["type"], str), "Google takes one type"
    found["type"] = node["type"].lower()
    if "enum" in node:
        assert node["type"] == "STRING", "Google takes choices for strings"
        assert all(isinstance(value, str) and value for value in node["enum"])
    if found.get("format") == "enum":
        del found["format"]
    if node["type"] == "ARRAY":
        found["items"] = from_google(node["items"])
    if "properties" in node:
        found["properties"] = {name: from_google(item) for name, item in node["properties"].items()}
    assert set(node.get("required", ())) <= set(node.get("properties", ())), (
        "Google wants declared names only"
    )
    return {"anyOf": [found, {"type": "null"}]} if node.get("nullable") else found


def opened(node: Any) -> Any:
    """Return the schema with its objects open to undeclared names."""
    if isinstance(node, dict):
        return {
            key: opened(item)
            for key, item in node.items()
            if not (key == "additionalProperties" and item is False)
        }
    return [opened(item) for item in node] if isinstance(node, list) else node


def forward(found: Export, value: dict[str, Any], name: str = "any") -> list[dict[str, Any]]:
    """Return what a model may send for these arguments: several where alternatives overlap."""
    decoder = found._decoders[name]
    sent: list[Any] = [value]
    if decoder.renamed:
        back = {old: new for new, old in decoder.renamed.items()}
        sent = [_rename(value, back)]
    if decoder.value is not None:
        sent = [item for start in sent for item in _encode(start, decoder.value)]
    return [{WRAPPER: item} for item in sent] if decoder.is_wrapped else sent


def _rename(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {names.get(key, key): _rename(item, names) for key, item in value.items()}
    return [_rename(item, names) for item in value] if isinstance(value, list) else value


def _encode(value: Any, decoder: ValueDecoder | None) -> list[Any]:
    if decoder is None:
        return [value]
    if decoder.alternatives:
        tried = [(item, schema) for schema, inner in decoder.alternatives for item in _encode(value, inner)]
        valid = [item for item, schema in tried if jsonschema_rs.validator_for(opened(schema)).is_valid(item)]
        return valid[:4] or [value]
    if isinstance(value, dict):
        names = {old: new for new, old in decoder.names.items()}
        keys = [names.get(key, key) for key in value]
        options = [
            _encode(item, decoder.properties.get(key, decoder.other_properties))
            for key, item in zip(keys, value.values(), strict=True)
        ]
        missing = dict.fromkeys(sorted(decoder.null_if_absent - set(keys)))
        return [{**dict(zip(keys, chosen, strict=True)), **missing} for chosen in list(product(*options))[:4]]
    if isinstance(value, list):
        decoders = [*decoder.first_items, *[decoder.items] * (len(value) - len(decoder.first_items))]
        return [list(chosen) for chosen in list(product(*map(_encode, value, decoders)))[:4]]
    return [value]
