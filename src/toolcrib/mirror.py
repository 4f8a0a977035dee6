"""Arguments that a client repeats in HTTP headers: properties marked with `x-mcp-header`.

A wrong mark makes clients drop the tool, so it is found at registration. Knows schemas as plain data;
refuses to know requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolcrib.errors import InvalidSchemaError

MARK = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}")
_KINDS = ("string", "integer", "boolean")

Mirrored = dict[tuple[str, ...], str]


def mirrored_parameters(schema: Mapping[str, Any]) -> Mirrored:
    """The path of every marked property, with the label of its header. Raises InvalidSchemaError."""
    found: Mirrored = {}
    _walk(schema, (), found)
    reached = sum(1 for _ in _marks(schema))
    if reached != len(found):
        raise InvalidSchemaError(
            f"'{MARK}' is used where no client looks",
            hint="mark properties of the root, or of objects below its properties",
        )
    seen: dict[str, str] = {}
    for label in found.values():
        if label.lower() in seen:
            raise InvalidSchemaError(f"'{MARK}' names {label!r} twice", hint="case makes no difference")
        seen[label.lower()] = label
    return found


def _walk(schema: Any, path: tuple[str, ...], found: Mirrored) -> None:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return
    for name, value in properties.items():
        if not isinstance(value, Mapping):
            continue
        here = (*path, name)
        if MARK in value:
            label = value[MARK]
            if not isinstance(label, str) or _TOKEN.fullmatch(label) is None:
                raise InvalidSchemaError(f"'{MARK}' of '{'.'.join(here)}' is no header name: {label!r:.80}")
            if value.get("type") not in _KINDS:
                raise InvalidSchemaError(
                    f"'{MARK}' of '{'.'.join(here)}' needs a type that a header can say",
                    hint=f"one of {', '.join(_KINDS)}",
                )
            found[here] = label
        _walk(value, here, found)


def _marks(schema: Any) -> Any:
    """Every mark in a schema, wherever it is; property names that happen to be the word are none."""
    if isinstance(schema, Mapping):
        if MARK in schema:
            yield schema[MARK]
        for key, value in schema.items():
            if key in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
                for item in value.values() if isinstance(value, Mapping) else ():
                    yield from _marks(item)
            elif key not in ("default", "const", "enum", "examples"):
                yield from _marks(value)
    elif isinstance(schema, list | tuple):
        for item in schema:
            yield from _marks(item)
