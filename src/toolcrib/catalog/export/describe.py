"""Rules of a schema in words, and types as short expressions, for readers that get no schema, or less of one.

Knows keywords and how to say them. Refuses to know who is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.catalog.export.schema import ANNOTATIONS, TYPE_OF, Node, is_anything, is_nothing, types_of
from toolcrib.validation import codec

_LONGEST = 300
_MOST_CHOICES = 60
_DEEPEST = 5

_SAYINGS = {
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
    "minProperties": "at least {} names",
    "maxProperties": "at most {} names",
    "minContains": "at least {} of them",
    "maxContains": "at most {} of them",
    "contentEncoding": "encoded as {}",
    "contentMediaType": "of the media type {}",
    "default": "default: {}",
}


def tell(keyword: str, value: Any) -> str:
    """One rule in words, as they stand in a description."""
    if keyword in _SAYINGS:
        shown = value if isinstance(value, str) and keyword != "default" else show(value)
        return _SAYINGS[keyword].format(shown)
    match keyword:
        case "enum":
            return f"one of {list_choices(value)}"
        case "examples":
            return "for example " + ", ".join(show(item) for item in value[:3]) if value else ""
        case "uniqueItems":
            return "no item twice"
        case "required":
            return f"needed: {', '.join(value)}"
        case "additionalProperties":
            return "no other names" if is_nothing(value) else f"values of other names: {sketch(value)}"
        case "patternProperties":
            return "; ".join(f"names matching {name}: {sketch(inner)}" for name, inner in value.items())
        case "propertyNames":
            return f"names: {describe(value)}"
        case "dependentRequired":
            return "; ".join(f"{name} needs {', '.join(names)}" for name, names in value.items() if names)
        case "prefixItems":
            return f"in this order: {', '.join(sketch(item) for item in value)}"
        case "contains":
            return f"among the items: {describe(value)}"
        case "not":
            return f"not: {describe(value)}"
    return f"{keyword}: {show(value)}"


def describe(node: Any) -> str:
    """A schema as one expression with its rules."""
    if isinstance(node, bool) or not node:
        return sketch(node)
    told = [tell(key, value) for key, value in node.items() if key in _SAYINGS and key != "default"]
    return ", ".join([sketch(node), *told])


def show(value: Any) -> str:
    text = codec.encode_text(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def list_choices(values: list[Any]) -> str:
    shown = [show(value) for value in values[:_MOST_CHOICES]]
    more = len(values) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def append_words(description: Any, words: list[str]) -> str:
    """A description with rules behind it, in brackets."""
    said = "; ".join(dict.fromkeys(word for word in words if word))
    text = description.rstrip() if isinstance(description, str) else ""
    if not said:
        return text
    return f"{text} ({said})" if text else f"{said[0].upper()}{said[1:]}"


# --- types as expressions ----------------------------------------------------------------------------


def sketch(node: Any, depth: int = 0) -> str:
    """A schema as a short type: `{street: string, zip?: string}[]`."""
    if is_nothing(node):
        return "nothing"
    if is_anything(node) or depth > _DEEPEST:
        return "any"
    if "enum" in node:
        return " | ".join(show(value) for value in node["enum"][:_MOST_CHOICES]) + (
            " | ..." if len(node["enum"]) > _MOST_CHOICES else ""
        )
    if "not" in node and node.keys() <= {"not", *ANNOTATIONS}:
        return f"not {sketch(node['not'], depth + 1)}"
    for keyword in ("anyOf", "oneOf"):
        if keyword in node and not types_of(node):
            return " | ".join(dict.fromkeys(sketch(branch, depth) for branch in node[keyword]))
    kinds = types_of(node) or sorted({TYPE_OF[key] for key in node if key in TYPE_OF}) or ["any"]
    return " | ".join(_sketch_type(kind, node, depth) for kind in kinds)


def _sketch_type(kind: str, node: Node, depth: int) -> str:
    if kind == "array":
        if "prefixItems" in node:
            return f"[{', '.join(sketch(item, depth + 1) for item in node['prefixItems'])}]"
        items = node.get("items", {})
        inner = sketch(items, depth + 1)
        return f"({inner})[]" if _is_union(items) else f"{inner}[]"
    if kind == "object":
        return _sketch_object(node, depth)
    return kind


def _is_union(node: Any) -> bool:
    if not isinstance(node, Mapping):
        return False
    branches = node.get("anyOf", node.get("oneOf", ()))
    return max(len(node.get("enum", ())), len(types_of(dict(node))), len(branches)) > 1


def _sketch_object(node: Node, depth: int) -> str:
    required = node.get("required", ())
    parts = []
    for name, inner in node.get("properties", {}).items():
        if not is_nothing(inner):
            shown = name if name.isidentifier() else show(name)
            parts.append(f"{shown}{'' if name in required else '?'}: {sketch(inner, depth + 1)}")
    parts += [f"{name}: any" for name in required if name not in node.get("properties", {})]
    rest = node.get("additionalProperties")
    if isinstance(rest, Mapping) and not is_anything(rest):
        parts.append(f"[name]: {sketch(rest, depth + 1)}")
    return f"{{{', '.join(parts)}}}" if parts else "object"


def untold(node: Any, depth: int = 0, told: tuple[str, ...] | None = None) -> Iterator[str]:
    """The keywords in a schema that its sketch leaves out; `told` are those said beside it, None for all."""
    if not isinstance(node, Mapping):
        return
    if depth > _DEEPEST:
        yield "what is nested deeper"
        return
    inner: list[Any] = []
    for key, value in node.items():
        if key == "properties":
            inner.extend(value.values())
        elif key in ("anyOf", "oneOf", "prefixItems"):
            inner.extend(value)
        elif key in ("items", "additionalProperties"):
            inner.append(value)
        elif key == "enum":
            if len(value) > _MOST_CHOICES:
                yield key
        elif key in ANNOTATIONS:
            if key == "description" and told == ():
                yield key
        elif key not in ("type", "required") and (told is not None and key not in told):
            yield key
    for item in inner:
        yield from untold(item, depth + 1, ())
