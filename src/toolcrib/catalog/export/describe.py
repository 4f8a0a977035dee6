"""Schemas in words for prompts and pages: types as short expressions, and rules beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.catalog.schemas import TYPE_OF, Node, is_anything, is_nothing, types_of
from toolcrib.validation import codec

_MAX_TEXT = 300
_MAX_CHOICES = 60
_MAX_DEPTH = 5
_PHRASES = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matching the pattern {}",
    "format": "in the format {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "default": "default: {}",
}


def describe_value(node: Node, *, default: bool = True) -> str:
    """Return the type of a schema and its simple rules: `integer, at least 1, default: 5`."""
    rules = []
    for key, phrase in _PHRASES.items():
        if key in node and (default or key != "default"):
            is_text = isinstance(node[key], str) and key != "default"
            rules.append(phrase.format(node[key] if is_text else show_value(node[key])))
    return ", ".join([show_type(node), *rules])


def show_value(value: Any) -> str:
    text = codec.encode_text(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def show_type(node: Any, depth: int = 0) -> str:
    """Return a schema as a short type: `{street: string, zip?: string}[]`."""
    if is_nothing(node):
        return "nothing"
    if is_anything(node) or depth > _MAX_DEPTH:
        return "any"
    if "enum" in node:
        shown = " | ".join(show_value(value) for value in node["enum"][:_MAX_CHOICES])
        return f"{shown} | ..." if len(node["enum"]) > _MAX_CHOICES else shown
    for keyword, sign in (("anyOf", " | "), ("oneOf", " | "), ("allOf", " & ")):
        if keyword in node and not types_of(node):
            return sign.join(dict.fromkeys(show_type(branch, depth) for branch in node[keyword]))
    types = types_of(node) or sorted({TYPE_OF[key] for key in node if key in TYPE_OF}) or ["any"]
    return " | ".join(_show_one_type(name, node, depth) for name in types)


def _show_one_type(name: str, node: Node, depth: int) -> str:
    if name == "object":
        return _show_object(node, depth)
    if name != "array":
        return name
    if "prefixItems" in node:
        return f"[{', '.join(show_type(item, depth + 1) for item in node['prefixItems'])}]"
    inner = show_type(node.get("items", {}), depth + 1)
    return f"({inner})[]" if " | " in inner and not inner.startswith("{") else f"{inner}[]"


def _show_object(node: Node, depth: int) -> str:
    required = node.get("required", ())
    parts = []
    for name, inner in node.get("properties", {}).items():
        if not is_nothing(inner):
            shown = name if name.isidentifier() else show_value(name)
            parts.append(f"{shown}{'' if name in required else '?'}: {show_type(inner, depth + 1)}")
    parts += [f"{name}: any" for name in required if name not in node.get("properties", {})]
    rest = node.get("additionalProperties")
    if isinstance(rest, Mapping) and not is_anything(rest):
        parts.append(f"[name]: {show_type(rest, depth + 1)}")
    return f"{{{', '.join(parts)}}}" if parts else "object"
