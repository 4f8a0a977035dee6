"""Tools as text for a prompt: the lines of the catalog's `promptList`, and the parameters below each name.

Short, as a prompt has to be: the first line of a description, types as expressions, examples. No description
can pass for another tool, since it has one line. Knows tools and lines; refuses to know who reads them.
"""

from __future__ import annotations

from toolcrib.catalog.build import examples_of, first_line
from toolcrib.catalog.export.describe import show, sketch, tell, untold
from toolcrib.catalog.export.schema import Node, is_nothing, read_schema, simplify
from toolcrib.catalog.export.verdict import Journal, RefusedError
from toolcrib.tool import Tool

_RULES = (
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "default",
)


def write_tool(tool: Tool, label: str, journal: Journal) -> str:
    """One entry of the list."""
    tree = simplify(read_schema(tool.definition.input_schema, journal), (), Journal())
    if is_nothing(tree):
        raise RefusedError("no arguments can satisfy its schema")
    lines = [f"- {label}: {' '.join(first_line(tool).split())}".rstrip()]
    required = tree.get("required", ())
    lines += [
        f"  {_write_parameter(name, inner, name in required)}"
        for name, inner in tree.get("properties", {}).items()
        if not is_nothing(inner)
    ]
    lines += ["  e.g. " + example.replace("\n", "\n       ") for example in examples_of(tool)]
    _note_untold(tree, journal)
    return "\n".join(lines)


def _write_parameter(name: str, node: Node, is_required: bool) -> str:
    rules = [tell(key, node[key]) for key in _RULES if key in node]
    kind = ", ".join([sketch(node), *rules])
    words = " ".join(str(node.get("description", "")).split())
    mark = "" if is_required else "?"
    shown = name if name.isprintable() and name.strip() else show(name)
    return f"{shown}{mark} ({kind}){': ' + words if words else ''}"


def _note_untold(tree: Node, journal: Journal) -> None:
    """What the text leaves out makes it lossy."""
    beyond = sorted(tree.keys() - {"type", "properties", "required", "description", "title", "$schema"})
    if tree.get("additionalProperties") is False:
        beyond.remove("additionalProperties")  # nobody thinks otherwise of a list of parameters
    if beyond:
        journal.note((), f"{', '.join(beyond)}: not told", "wider")
    for name, inner in tree.get("properties", {}).items():
        left = sorted(set(untold(inner, 0, _RULES)))
        if left:
            journal.note(("properties", name), f"{', '.join(left)}: not told", "wider")
