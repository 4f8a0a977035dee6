"""Mends what models commonly get wrong: a number, a list or an object sent as a string.

Only where the schema cannot mean a string; a value that may be a string is never touched. Knows JSON
Schema and JSON text; decides nothing about validity, which is checked again afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib import codec

_MAX_DEPTH = 32
_LONGEST = 1 << 20


def repair(value: Any, schema: Mapping[str, Any]) -> Any:
    """`value` with strings decoded where a string cannot be meant; itself where nothing is to mend."""
    return _repair(value, schema, schema, 0)


def _repair(value: Any, schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    if depth > _MAX_DEPTH or not isinstance(schema, Mapping):
        return value
    schema = follow(schema, root)
    if isinstance(value, str):
        return value if may_be_string(schema, root) else _decode(value)
    if isinstance(value, dict):
        return _repair_object(value, schema, root, depth)
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        items = [_repair(item, schema["items"], root, depth + 1) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _repair_object(
    value: dict[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], depth: int
) -> Any:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    mended: dict[str, Any] = {}
    for name, item in value.items():
        new = _repair(item, properties.get(name, others), root, depth + 1)
        if new is not item:
            mended[name] = new
    return {**value, **mended} if mended else value


def _decode(text: str) -> Any:
    """The JSON value that a string spells; the string where it spells none, or spells a string."""
    if len(text) > _LONGEST:
        return text
    try:
        decoded = codec.decode(text)
    except ValueError:
        return text
    return text if isinstance(decoded, str) else decoded


def may_be_string(schema: Any, root: Mapping[str, Any], depth: int = 0) -> bool:
    """Whether some string could be valid. In doubt, yes."""
    if not isinstance(schema, Mapping):
        return schema is not False
    if depth > _MAX_DEPTH:
        return True
    schema = follow(schema, root)
    kind = schema.get("type")
    if kind is not None:
        return kind == "string" or (isinstance(kind, list) and "string" in kind)
    if isinstance(schema.get("enum"), list):
        return any(isinstance(item, str) for item in schema["enum"])
    if "const" in schema:
        return isinstance(schema["const"], str)
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            return any(may_be_string(item, root, depth + 1) for item in schema[keyword])
    if isinstance(schema.get("allOf"), list):
        return all(may_be_string(item, root, depth + 1) for item in schema["allOf"])
    return True


def follow(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema behind local references of the plain kind."""
    for _ in range(_MAX_DEPTH):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
            return schema
        target = root.get("$defs", {}).get(reference[8:])
        if not isinstance(target, Mapping):
            return schema
        schema = target
    return schema
