"""Tools for OpenAI: chat completions and responses, strict where a schema has a strict form.

Knows OpenAI's wrapping and the limits of strict mode. Refuses to know OpenAI's package.
"""

from __future__ import annotations

from typing import Any

from toolcrib.catalog.export import dialects
from toolcrib.catalog.export.schema import Node
from toolcrib.catalog.export.verdict import NotStrictError


def dress_chat(name: str, description: str, schema: Node, strict: bool | None) -> dict[str, Any]:
    function = _describe(name, description)
    function["parameters"] = schema
    if strict is not None:
        function["strict"] = strict
    return {"type": "function", "function": function}


def dress_responses(name: str, description: str, schema: Node, strict: bool | None) -> dict[str, Any]:
    # Where nothing is said, the responses API tries to make a schema strict by itself.
    tool: dict[str, Any] = {"type": "function", **_describe(name, description)}
    return {**tool, "parameters": schema, "strict": bool(strict)}


def _describe(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "description": description} if description else {"name": name}


def check_strict_limits(schema: Node) -> None:
    """Raise NotStrictError where a strict schema is larger than strict mode takes."""
    tally = _Tally()
    tally.count(schema, 1)
    limits = (
        (tally.properties, dialects.MOST_PROPERTIES, "properties"),
        (tally.depth, dialects.MOST_NESTED, "levels of objects"),
        (tally.choices, dialects.MOST_CHOICES, "choices in all"),
        (tally.letters, dialects.LONGEST_NAMES, "characters of names and choices"),
    )
    for count, most, words in limits:
        if count > most:
            raise NotStrictError(f"it has {count} {words}, and strict mode takes {most}")


class _Tally:
    def __init__(self) -> None:
        self.properties = self.depth = self.choices = self.letters = 0

    def count(self, node: Node, depth: int) -> None:
        self.depth = max(self.depth, depth)
        values = node.get("enum", ())
        self.choices += len(values)
        length = sum(len(value) for value in values if isinstance(value, str))
        self.letters += length
        if len(values) > dialects.MANY_CHOICES and length > dialects.LONGEST_CHOICES:
            words = f"a list of {len(values)} choices has {length} characters"
            raise NotStrictError(f"{words}, and strict mode takes {dialects.LONGEST_CHOICES}")
        for name, inner in node.get("properties", {}).items():
            self.properties += 1
            self.letters += len(name)
            self.count(inner, depth + 1 if _holds_object(inner) else depth)
        for inner in (*node.get("anyOf", ()), *([node["items"]] if "items" in node else ())):
            self.count(inner, depth + 1 if node.get("type") == "array" and _holds_object(inner) else depth)


def _holds_object(node: Node) -> bool:
    return node.get("type") == "object" or any(_holds_object(inner) for inner in node.get("anyOf", ()))
