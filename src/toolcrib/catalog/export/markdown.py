"""Tools as a page of documentation: contents, and for each tool its words, parameters, result and hints.

Everything from a definition is foreign text. It is written so that no Markdown reader takes it for markup:
what a description says is what a reader sees. Knows Markdown; refuses to know where the page goes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.catalog.export.describe import sketch, tell, untold
from toolcrib.catalog.export.schema import Node, is_nothing, read_schema, simplify
from toolcrib.catalog.export.verdict import Journal, RefusedError
from toolcrib.definition import ToolDefinition

_MARKUP = re.compile(
    r"[\\`*\[\]<|~$@]"  # marks wherever they stand
    r"|(?<![^\W_])_|_(?![^\W_])"  # underscores that are not inside a word
    r"|:(?=//)|(?<=www)\."  # what makes a link of an address
    r"|&(?=\#?\w+;)"  # what makes a character of a name
    r"|(?<=^\d)[.)]|(?<=^\d\d)[.)]|^[#+\-=>:]"  # what makes a list, a heading or a quote of a line
)
_ENTITIES = {"<": "&lt;", "&": "&amp;"}
_INDENT = re.compile(r"^[ \t]+")
_HINTS = {
    "readOnlyHint": ("reads only", "changes something"),
    "destructiveHint": ("may destroy something", "destroys nothing"),
    "idempotentHint": ("may be repeated safely", "repeating it has an effect"),
    "openWorldHint": ("reaches the outside world", "stays inside"),
}
_TOLD = (
    "description",
    "title",
    "type",
    "enum",
    "properties",
    "items",
    "anyOf",
    "oneOf",
    "prefixItems",
    "required",
)


def escape(text: str) -> str:
    """Text that every Markdown reader shows as it is, on one line."""
    flat = " ".join(text.split())
    return _MARKUP.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), flat)


def escape_lines(text: str) -> str:
    """The same for a text of several lines: lines and indents stay, paragraphs too."""
    paragraphs: list[list[str]] = [[]]
    for line in text.splitlines():
        if not line.strip():
            if paragraphs[-1]:
                paragraphs.append([])
            continue
        found = _INDENT.match(line)
        indent = len(found[0].expandtabs(4)) if found else 0
        paragraphs[-1].append("&nbsp;" * min(indent, 12) + escape(line))
    return "\n\n".join("\\\n".join(lines) for lines in paragraphs if lines)


def write_tool(definition: ToolDefinition, journal: Journal) -> str:
    """One tool, under a heading of the second level."""
    tree = simplify(read_schema(definition.input_schema, journal), (), Journal())
    if is_nothing(tree):
        raise RefusedError("no arguments can satisfy its schema")
    for name, inner in tree.get("properties", {}).items():
        left = sorted(set(untold(inner)))
        if left:
            journal.note(("properties", name), f"{', '.join(left)}: not told", "wider")
    parts = [f"## {escape(definition.name)}"]
    if definition.title:
        parts.append(f"**{escape(definition.title)}**")
    if definition.description:
        parts.append(escape_lines(definition.description))
    parts.append(_write_parameters(tree))
    rules = [tell(key, value) for key, value in tree.items() if key not in (*_TOLD, "additionalProperties")]
    if rules:
        parts.append("All together: " + "; ".join(escape(rule) for rule in rules if rule))
    if definition.output_schema is not None or definition.returns:
        parts.append(_write_result(definition))
    if definition.raises:
        lines = [
            f"- {escape(name)}: {escape(text)}" if text else f"- {escape(name)}"
            for name, text in definition.raises
        ]
        parts.append("**Errors**\n\n" + "\n".join(lines))
    notes = _write_notes(definition)
    if notes:
        parts.append(notes)
    return "\n\n".join(parts)


def write_page(title: str, entries: Sequence[tuple[str, str, str]]) -> str:
    """The page: entries are name, description and text of each tool."""
    anchors: Counter[str] = Counter()
    contents = []
    for name, description, _ in entries:
        slug = re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-")
        anchor = f"{slug}-{anchors[slug]}" if anchors[slug] else slug
        anchors[slug] += 1
        first = next((line for line in description.splitlines() if line.strip()), "")
        contents.append(f"- [{escape(name)}](#{anchor}){': ' + escape(first) if first else ''}")
    head = [f"# {escape(title)}"]
    if contents:
        head.append("\n".join(contents))
    return "\n\n".join([*head, *(text for _, _, text in entries)]) + "\n"


def _write_parameters(tree: Node) -> str:
    required = tree.get("required", ())
    rows = [
        f"| {escape(name) or '&nbsp;'} | {_say_type(inner)} | {'yes' if name in required else 'no'} "
        f"| {_say_default(inner)} | {escape(str(inner.get('description', '')))} |"
        for name, inner in tree.get("properties", {}).items()
        if not is_nothing(inner)
    ]
    if not rows:
        rest = tree.get("additionalProperties")
        if isinstance(rest, Mapping):
            return f"Takes any names; their values: {escape(sketch(rest))}"
        return "Takes no parameters."
    head = "| parameter | type | required | default | description |\n|---|---|---|---|---|"
    return "\n".join([head, *rows])


def _say_type(node: Node) -> str:
    rules = [
        tell(key, value)
        for key, value in node.items()
        if key not in (*_TOLD, "default", "additionalProperties")
    ]
    return escape(", ".join([sketch(node), *(rule for rule in rules if rule)]))


def _say_default(node: Node) -> str:
    return escape(tell("default", node["default"]).removeprefix("default: ")) if "default" in node else ""


def _write_result(definition: ToolDefinition) -> str:
    words = " ".join(definition.returns.split())
    if definition.output_schema is None:
        return f"**Result**: {escape(words)}"
    try:
        tree: Any = simplify(read_schema(definition.output_schema, Journal()), (), Journal())
        kind = escape(sketch(tree))
    except RefusedError:
        kind = "structured data"
    return f"**Result**: {kind}{'. ' + escape(words) if words else ''}"


def _write_notes(definition: ToolDefinition) -> str:
    lines = []
    said = [
        words[0] if definition.annotations[hint] else words[1]
        for hint, words in _HINTS.items()
        if isinstance(definition.annotations.get(hint), bool)
    ]
    if said:
        lines.append(f"- Hints: {', '.join(said)}")
    if definition.tags:
        lines.append(f"- Tags: {', '.join(escape(tag) for tag in definition.tags)}")
    if definition.version:
        lines.append(f"- Version: {escape(definition.version)}")
    return "\n".join(lines)
