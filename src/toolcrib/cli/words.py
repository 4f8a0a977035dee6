"""Tools in words: types, parameters, signatures, counts, and the JSON shape that commands print.

Knows definitions as data; prints nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.cli.terminal import one_line, safe
from toolcrib.definition import ToolDefinition
from toolcrib.tool import Tool

_MAX_CHOICES = 6
_LIMITS = {
    "minimum": ">= {}",
    "exclusiveMinimum": "> {}",
    "maximum": "<= {}",
    "exclusiveMaximum": "< {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matching {}",
}


@dataclass(frozen=True, slots=True)
class ParameterWords:
    """One parameter as `show` prints it."""

    name: str
    type: str
    is_required: bool
    default: str
    description: str


def parameters_of(definition: ToolDefinition) -> list[ParameterWords]:
    schema = definition.input_schema
    required = schema.get("required", ())
    found = []
    for name, value in schema.get("properties", {}).items():
        facts = value if isinstance(value, Mapping) else {}
        default = json.dumps(facts["default"], ensure_ascii=False, default=str) if "default" in facts else ""
        found.append(
            ParameterWords(
                safe(name),
                ", ".join([name_type(facts, schema), *_limits(facts)]),
                name in required,
                one_line(default),
                safe(facts.get("description", "")),
            )
        )
    return found


def sign(definition: ToolDefinition) -> str:
    """The parameters on one line: `a: integer, b?: string`."""
    schema = definition.input_schema
    required = schema.get("required", ())
    return ", ".join(
        f"{one_line(name)}{'' if name in required else '?'}: {name_type(value, schema)}"
        for name, value in schema.get("properties", {}).items()
    )


def name_type(schema: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    """A schema's type as a person says it."""
    if not isinstance(schema, Mapping) or depth > 3:
        return "any"
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        target = root.get("$defs", {}).get(name)
        is_enum = isinstance(target, Mapping) and "enum" in target
        return name_type(target, root, depth + 1) if is_enum else one_line(name)
    if "enum" in schema or "const" in schema:
        return _choices(list(schema.get("enum", [schema.get("const")])))
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            return " | ".join(dict.fromkeys(name_type(item, root, depth + 1) for item in schema[keyword]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(str(item) for item in kind)
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"array of {name_type(schema['items'], root, depth + 1)}"
    if kind is None:
        return "any"
    return f"{kind} ({one_line(schema['format'])})" if schema.get("format") else one_line(kind)


def _choices(values: list[Any]) -> str:
    shown = [one_line(json.dumps(value, ensure_ascii=False, default=str)) for value in values[:_MAX_CHOICES]]
    return " | ".join([*shown, *(["..."] if len(values) > _MAX_CHOICES else [])])


def _limits(schema: Mapping[str, Any]) -> Iterable[str]:
    return (words.format(one_line(schema[key])) for key, words in _LIMITS.items() if key in schema)


def hints_of(definition: ToolDefinition) -> str:
    """The annotations as words: `read-only, not open-world`."""
    labels = {
        "readOnlyHint": "read-only",
        "destructiveHint": "destructive",
        "idempotentHint": "idempotent",
        "openWorldHint": "open-world",
    }
    said = definition.annotations
    return ", ".join(
        label if said[key] else f"not {label}" for key, label in labels.items() if said.get(key) is not None
    )


def first_line(definition: ToolDefinition) -> str:
    return one_line((definition.description.strip().splitlines() or [""])[0])


def count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def suggest(name: str, known: Iterable[str]) -> str | None:
    """`did you mean 'x'?`, or what there is where that is little."""
    import difflib

    names = list(dict.fromkeys(known))
    folded = {item.casefold(): item for item in names}
    close = difflib.get_close_matches(name.casefold(), folded, n=3)
    if close:
        return f"did you mean {' or '.join(repr(folded[item]) for item in close)}?"
    if not names:
        return None
    shown = ", ".join(names[:8])
    return f"there are: {shown}" if len(names) <= 8 else f"there are {len(names)}, among them: {shown}"


def tool_json(tool: Tool) -> dict[str, Any]:
    """A tool as it goes out on the wire, and where it was written."""
    source = tool.source
    return {**tool.definition.to_wire(), "source": {"file": source.file, "line": source.line}}
