"""Writes descriptors: tools from anywhere, as a file that `read_descriptors` reads back the same.

What clients are told is MCP's own spelling; tags, version, groups and metadata stand beside it. Metadata that
JSON cannot say stays behind. Knows texts; writes no files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from toolcrib.definition import ToolDefinition
from toolcrib.errors import ConfigurationError
from toolcrib.sources.descriptors.yaml import write_yaml
from toolcrib.tool import Tool
from toolcrib.validation import codec

Format = Literal["json", "yaml", "toml"]
FORMATS: tuple[str, ...] = get_args(Format)

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def write_descriptor(tools: Iterable[Tool], format: Format = "json") -> str:  # noqa: A002
    """A text that describes these tools. Raises DefinitionError for a tool that cannot be built."""
    entries = [_entry_of(tool) for tool in tools]
    if format == "json":
        return json.dumps({"tools": entries}, indent=2, ensure_ascii=False) + "\n"
    if format == "yaml":
        return write_yaml({"tools": entries}, "what is to be written")
    if format == "toml":
        return _write_toml(entries)
    raise ConfigurationError(f"there is no format {format!r}; there are {', '.join(FORMATS)}", key="format")


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
        "raises": [{"name": name, "description": words} for name, words in definition.raises],
        "metadata": _sayable(definition),
    }
    entry |= {key: value for key, value in extra.items() if value}
    if not options.enabled:
        entry["enabled"] = False
    plain: dict[str, Any] = codec.decode(codec.encode(entry))
    return plain


def _sayable(definition: ToolDefinition) -> dict[str, Any]:
    """The metadata that JSON can say and that is not said elsewhere."""
    said: dict[str, Any] = {}
    for key, value in definition.metadata.items():
        if key == "raises" and value == dict(definition.raises):
            continue
        try:
            said[str(key)] = codec.decode(codec.encode(value))
        except (TypeError, ValueError, ArithmeticError, RecursionError):
            continue  # an object of the author's own
    return said


# --- TOML --------------------------------------------------------------------------------------------


def _write_toml(entries: list[dict[str, Any]]) -> str:
    if not entries:
        return "tools = []\n"
    lines: list[str] = []
    for entry in entries:
        lines += ["[[tools]]", *_table_lines("tools", {key: _without_null(entry[key]) for key in entry}), ""]
    return "\n".join(lines)


def _without_null(value: Any) -> Any:
    """The value, or all of it as JSON in a text where it has a null: TOML has none."""
    return codec.encode_text(value) if _has_null(value) else value


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    if isinstance(value, list):
        return any(map(_has_null, value))
    return value is None


def _table_lines(path: str, table: Mapping[str, Any]) -> Iterator[str]:
    """Plain values first, because they would belong to the table before them otherwise."""
    below = {key: value for key, value in table.items() if isinstance(value, dict)}
    for key, value in table.items():
        if key not in below:
            yield f"{_write_key(key)} = {_write_value(value)}"
    for key, value in below.items():
        name = f"{path}.{_write_key(key)}"
        yield f"[{name}]"
        yield from _table_lines(name, value)


def _write_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _write_value(key)


def _write_value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_write_value, value))}]"
    if isinstance(value, dict):
        pairs = ", ".join(f"{_write_key(key)} = {_write_value(item)}" for key, item in value.items())
        return f"{{{pairs}}}"
    return repr(value)
