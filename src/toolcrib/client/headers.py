"""The HTTP headers that repeat what a 2026-07-28 request says, so that a proxy need not read its body.

Knows methods, tool schemas and header values as text. Refuses to know connections.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.bounds import LISTED_SCHEMAS, SINGLE_SCHEMAS

Path = tuple[str, ...]

MARK = "x-mcp-header"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"(?! )[\x20-\x7e]*(?<! )")
_SENTINEL = re.compile(r"=\?base64\?.*\?=", re.DOTALL)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_ALLOWED_TYPES = ("string", "integer", "boolean")
_HELD_BY_NAME = ("patternProperties", "dependentSchemas", "$defs", "definitions")


def headers_for(version: str, method: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Version, method, and the name of what is called."""
    headers = {"mcp-protocol-version": version, "mcp-method": method}
    name = params.get(_NAMED_BY.get(method, ""))
    if isinstance(name, str):
        headers["mcp-name"] = to_header(name)
    return headers


def to_header(value: str) -> str:
    """The value as it is where a header can carry it, else in base64 between marks."""
    if _PLAIN.fullmatch(value) and not _SENTINEL.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


# --- arguments that are headers too ---------------------------------------------------------------------


def marks_in(schema: Any) -> dict[Path, str]:
    """Where the arguments are that go into headers, and what those are called.

    Raises ValueError for a mark that a client must not follow.
    """
    marks: dict[Path, str] = {}
    taken: set[str] = set()
    for path, place in _walk(schema):
        if MARK not in place:
            continue
        name = place[MARK]
        if not path:
            raise ValueError(f"{MARK} stands where no argument is meant for certain")
        where = f"{MARK} of '{'.'.join(path)}'"
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ValueError(f"{where} is not a name for a header")
        if place.get("type") not in _ALLOWED_TYPES:
            raise ValueError(f"{where} is on a value that is neither string, integer nor boolean")
        if name.lower() in taken:
            raise ValueError(f"{where} repeats another one")
        taken.add(name.lower())
        marks[path] = name
    return marks


def argument_headers(marks: Mapping[Path, str], arguments: Mapping[str, Any]) -> dict[str, str]:
    """A header for each marked argument that is there."""
    headers = {}
    for path, name in marks.items():
        value: Any = arguments
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            headers[f"mcp-param-{name.lower()}"] = "true" if value else "false"
        elif isinstance(value, str | int):
            headers[f"mcp-param-{name.lower()}"] = to_header(str(value))
        elif isinstance(value, float) and value.is_integer():
            headers[f"mcp-param-{name.lower()}"] = str(int(value))
    return headers


def _walk(root: Any) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every place of a schema, with the properties that lead there; none where anything else does too."""
    waiting: list[tuple[Path | None, Any]] = [((), root)]
    while waiting:
        path, place = waiting.pop()
        if not isinstance(place, Mapping):
            continue
        yield path or (), place
        for key, value in place.items():
            if key == "properties" and isinstance(value, Mapping):
                waiting += ((None if path is None else (*path, name), item) for name, item in value.items())
            elif key in SINGLE_SCHEMAS:
                waiting.append((None, value))
            elif key in LISTED_SCHEMAS and isinstance(value, list):
                waiting += ((None, item) for item in value)
            elif key in _HELD_BY_NAME and isinstance(value, Mapping):
                waiting += ((None, item) for item in value.values())
