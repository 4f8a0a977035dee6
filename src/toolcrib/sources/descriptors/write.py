"""Write descriptors: tools as text that `read_descriptors` reads back.

Published fields have the names of MCP; tags, version, group and metadata are additional fields. Metadata that
JSON cannot represent is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal, get_args

from toolcrib.definition import ToolDefinition
from toolcrib.errors import ConfigurationError
from toolcrib.sources.descriptors.yaml import write_yaml
from toolcrib.tool import Tool
from toolcrib.validation import codec

Format = Literal["json", "yaml", "toml"]
FORMATS: tuple[str, ...] = get_args(Format)


def write_descriptor(tools: Iterable[Tool], format: Format = "json") -> str:  # noqa: A002
    """Return a text that describes these tools. Raises DefinitionError for a tool that cannot be built."""
    entries = [_entry_of(tool) for tool in tools]
    if format == "json":
        return json.dumps({"tools": entries}, indent=2, ensure_ascii=False) + "\n"
    if format == "yaml":
        return write_yaml({"tools": entries}, "the descriptor")
    if format == "toml":
        return _write_toml(entries)
    raise ConfigurationError(f"must be one of {', '.join(FORMATS)}, got {format!r}", key="format")


def _entry_of(tool: Tool) -> dict[str, Any]:
    definition, options = tool.definition, tool.options
    entry = dict(definition.to_wire())
    extra: dict[str, Any] = {
        "version": definition.version,
        "tags": list(definition.tags),
        "group": options.group,
        "aliases": list(options.aliases),
        "scopes": list(options.scopes),
        "returns": definition.returns,
        "raises": [{"name": name, "description": text} for name, text in definition.raises],
        "metadata": _plain_metadata(definition),
    }
    entry |= {key: value for key, value in extra.items() if value}
    if not options.enabled:
        entry["enabled"] = False
    plain: dict[str, Any] = codec.decode(codec.encode(entry))
    return plain


def _plain_metadata(definition: ToolDefinition) -> dict[str, Any]:
    """Return the metadata that JSON can represent and that is not in another field."""
    plain: dict[str, Any] = {}
    for key, value in definition.metadata.items():
        if key == "raises" and value == dict(definition.raises):
            continue
        try:
            plain[str(key)] = codec.decode(codec.encode(value))
        except (TypeError, ValueError, ArithmeticError, RecursionError):
            continue  # not JSON
    return plain


# --- TOML --------------------------------------------------------------------------------------------


def _write_toml(entries: list[dict[str, Any]]) -> str:
    import tomlkit  # few descriptors are TOML

    return tomlkit.dumps({"tools": [{key: _without_null(entry[key]) for key in entry} for entry in entries]})


def _without_null(value: Any) -> Any:
    """Return the value, or its JSON as a text where it contains null, which TOML does not have."""
    return codec.encode_text(value) if _has_null(value) else value


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    if isinstance(value, list):
        return any(map(_has_null, value))
    return value is None
