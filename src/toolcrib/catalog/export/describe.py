"""Schemas in words: rules for descriptions, and types as short expressions for prompts and pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolcrib.catalog.schema_algebra import ANNOTATIONS, Node, is_anything, is_nothing, types_of
from toolcrib.catalog.schema_expansion import TYPE_OF
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import LISTED_SCHEMAS, NAMED_SCHEMAS, Path, walk

_MAX_TEXT = 300
_MAX_CHOICES = 60
_MAX_DEPTH = 5

PHRASES = {
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
    "minProperties": "at least {} properties",
    "maxProperties": "at most {} properties",
    "minContains": "at least {} of them",
    "maxContains": "at most {} of them",
    "contentEncoding": "encoded as {}",
    "contentMediaType": "of the media type {}",
    "default": "default: {}",
}

IN_TYPE = (
    frozenset({"type", "enum", "required", "properties", "additionalProperties", "items"}) | LISTED_SCHEMAS
)
_NOUNS = {"contains": "among the items", "not": "not", "propertyNames": "property names"}


def describe_keyword(keyword: str, value: Any) -> str:
    """Return one rule as a phrase for a description. For "if", `value` is the schema that has it."""
    if keyword in PHRASES:
        shown = value if isinstance(value, str) and keyword != "default" else show_value(value)
        return PHRASES[keyword].format(shown)
    match keyword:
        case "enum":
            shown = ", ".join(show_value(item) for item in value[:_MAX_CHOICES])
            more = len(value) - _MAX_CHOICES
            return f"one of {shown} and {more} more" if more > 0 else f"one of {shown}"
        case "examples":
            return "for example " + ", ".join(show_value(item) for item in value[:3]) if value else ""
        case "uniqueItems":
            return "no item twice"
        case "required":
            return f"required: {', '.join(value)}"
        case "additionalProperties":
            return "no other properties" if is_nothing(value) else f"other properties: {show_type(value)}"
        case "patternProperties":
            return "; ".join(
                f"properties matching {name}: {show_type(inner)}" for name, inner in value.items()
            )
        case "contains" | "not" | "propertyNames":
            return f"{_NOUNS[keyword]}: {_describe(value)}"
        case "dependentRequired":
            return "; ".join(f"{name} requires {', '.join(names)}" for name, names in value.items() if names)
        case "dependentSchemas":
            return "; ".join(f"with {name}: {show_type(inner)}" for name, inner in value.items())
        case "prefixItems":
            return f"in this order: {', '.join(show_type(item) for item in value)}"
        case "if":
            return ", ".join(
                f"{word} {show_type(value[word])}" for word in ("if", "then", "else") if word in value
            )
    return f"{keyword}: {show_value(value)}"


def _describe(node: Any) -> str:
    """Return a schema as one expression with its rules."""
    if isinstance(node, bool) or not node:
        return show_type(node)
    rules = [describe_keyword(key, node[key]) for key in PHRASES if key in node and key != "default"]
    return ", ".join([show_type(node), *rules])


def show_value(value: Any) -> str:
    text = codec.encode_text(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def append_notes(description: Any, notes: list[str]) -> str:
    """Return a description followed by notes in brackets."""
    added = "; ".join(dict.fromkeys(note for note in notes if note))
    text = description.rstrip() if isinstance(description, str) else ""
    if not added:
        return text
    return f"{text} ({added})" if text else f"{added[0].upper()}{added[1:]}"


# --- types as expressions -----------------------------------------------------------------------------------


def show_type(node: Any, depth: int = 0) -> str:
    """Return a schema as a short type: `{street: string, zip?: string}[]`."""
    if is_nothing(node):
        return "nothing"
    if is_anything(node) or depth > _MAX_DEPTH:
        return "any"
    if "enum" in node:
        shown = " | ".join(show_value(value) for value in node["enum"][:_MAX_CHOICES])
        return f"{shown} | ..." if len(node["enum"]) > _MAX_CHOICES else shown
    if "not" in node and node.keys() <= {"not", *ANNOTATIONS}:
        return f"not {show_type(node['not'], depth + 1)}"
    for keyword, sign in (("anyOf", " | "), ("oneOf", " | "), ("allOf", " & ")):
        if keyword in node and not types_of(node):
            return sign.join(dict.fromkeys(show_type(branch, depth) for branch in node[keyword]))
    types = types_of(node) or sorted({TYPE_OF[key] for key in node if key in TYPE_OF}) or ["any"]
    return " | ".join(_show_one_type(name, node, depth) for name in types)


def _show_one_type(name: str, node: Node, depth: int) -> str:
    if name == "array":
        if "prefixItems" in node:
            return f"[{', '.join(show_type(item, depth + 1) for item in node['prefixItems'])}]"
        items = node.get("items", {})
        inner = show_type(items, depth + 1)
        return f"({inner})[]" if _is_union(items) else f"{inner}[]"
    return _show_object(node, depth) if name == "object" else name


def _is_union(node: Any) -> bool:
    if not isinstance(node, Mapping):
        return False
    branches = node.get("anyOf", node.get("oneOf", ()))
    return max(len(node.get("enum", ())), len(types_of(dict(node))), len(branches)) > 1


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


def omitted_keywords(node: Any, shown: Iterable[str] | None = None) -> list[str]:
    """Return the keywords of a schema that its type expression leaves out, except those `shown` beside it.

    None for `shown` means that all are, at this level.
    """
    left: set[str] = set()
    for path, part in walk(node):
        rules = part.keys() - IN_TYPE - (ANNOTATIONS if not path else ANNOTATIONS - {"description"})
        if path or shown is not None:
            left |= rules - (set() if path else {*(shown or ())})
        if len(part.get("enum", ())) > _MAX_CHOICES:
            left.add("enum")
        if _count_levels(path) > _MAX_DEPTH and not is_anything(part):
            left.add("deeper levels")
    return sorted(left)


def _count_levels(path: Path) -> int:
    """Return the depth at which `show_type` writes the part at a path: alternatives are no deeper."""
    steps = iter(path)
    levels = 0
    for keyword in steps:
        if keyword in LISTED_SCHEMAS or keyword in NAMED_SCHEMAS:
            next(steps)  # an index or a name
        levels += keyword not in ("allOf", "anyOf", "oneOf")
    return levels
