"""The rules of the MCP registry for a `server.json`: its schema of 2025-12-11, in our own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCHEMA_URL = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_FILLED = {"type": "string", "minLength": 1}
_URI = {"type": "string", "format": "uri"}
_VERSION = {"type": "string", "minLength": 1, "maxLength": 255}


def _table(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(name: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/definitions/{name}"}}


def _where(key: str, value: str, then: Mapping[str, Any], otherwise: Mapping[str, Any]) -> dict[str, Any]:
    return {"if": {"properties": {key: {"const": value}}, "required": [key]}, "then": then, "else": otherwise}


_INPUT: dict[str, Any] = {
    "description": _TEXT,
    "isRequired": _FLAG,
    "isSecret": _FLAG,
    "format": {"enum": ["string", "number", "boolean", "filepath"]},
    "value": _TEXT,
    "default": _TEXT,
    "placeholder": _TEXT,
    "choices": {"type": "array", "items": _TEXT},
}
_VARIABLES = {"type": "object", "additionalProperties": {"$ref": "#/definitions/Input"}}
_WITH_VARIABLES = {**_INPUT, "variables": _VARIABLES}
_HTTP = {"url": _FILLED, "headers": _list("NamedInput")}
_SERVER = {
    "$schema": _URI,
    "name": {
        "type": "string",
        "minLength": 3,
        "maxLength": 200,
        "pattern": r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$",
    },
    "title": {"type": "string", "minLength": 1, "maxLength": 100},
    "description": {"type": "string", "minLength": 1, "maxLength": 100},
    "version": _VERSION,
    "websiteUrl": _URI,
    "repository": _table({"url": _URI, "source": _TEXT, "id": _TEXT, "subfolder": _TEXT}, "url", "source"),
    "icons": _list("Icon"),
    "packages": _list("Package"),
    "remotes": _list("Remote"),
    "_meta": _table({"io.modelcontextprotocol.registry/publisher-provided": {"type": "object"}}),
}
_ARGUMENT = {
    "type": {"enum": ["positional", "named"]},
    "name": _TEXT,
    "valueHint": _TEXT,
    "isRepeated": _FLAG,
    **_WITH_VARIABLES,
}
_ICON = {
    "src": {**_URI, "maxLength": 255},
    "mimeType": {"enum": ["image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp"]},
    "sizes": {"type": "array", "items": {"type": "string", "pattern": r"^([0-9]+x[0-9]+|any)$"}},
    "theme": {"enum": ["light", "dark"]},
}
_PACKAGE = {
    "registryType": {"enum": ["npm", "pypi", "oci", "nuget", "mcpb"]},
    "registryBaseUrl": _URI,
    "identifier": _FILLED,
    "version": _VERSION,
    "fileSha256": {"type": "string", "pattern": "^[a-f0-9]{64}$"},
    "runtimeHint": _TEXT,
    "runtimeArguments": _list("Argument"),
    "packageArguments": _list("Argument"),
    "environmentVariables": _list("NamedInput"),
    "transport": {"$ref": "#/definitions/Transport"},
}
_VERSIONED = ("npm", "pypi", "nuget")
_VALUED = {"anyOf": [{"required": ["value"]}, {"required": ["valueHint"]}]}

SCHEMA: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    **_table(_SERVER, "name", "description", "version"),
    "definitions": {
        "Input": _table(_INPUT),
        "NamedInput": _table({"name": _TEXT, **_WITH_VARIABLES}, "name"),
        "Argument": {**_table(_ARGUMENT, "type"), **_where("type", "named", {"required": ["name"]}, _VALUED)},
        "Transport": {
            **_table({"type": {"enum": ["stdio", "streamable-http", "sse"]}, **_HTTP}, "type"),
            **_where("type", "stdio", {}, {"required": ["url"]}),
        },
        "Remote": _table(
            {"type": {"enum": ["streamable-http", "sse"]}, **_HTTP, "variables": _VARIABLES}, "type", "url"
        ),
        "Icon": _table(_ICON, "src"),
        "Package": {
            **_table(_PACKAGE, "registryType", "identifier", "transport"),
            "allOf": [
                _where("registryType", "mcpb", {"required": ["fileSha256"]}, {}),
                *(_where("registryType", kind, {"required": ["version"]}, {}) for kind in _VERSIONED),
            ],
        },
    },
}
