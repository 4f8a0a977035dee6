"""Formats that are not for providers: MCP, text for a prompt, a page of documentation.

In a prompt every tool and parameter is one line, so that no description can pass for another tool. On a page
text from a definition is escaped, so that no Markdown reader takes it for markup.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.catalog.build import examples_of, first_line
from toolcrib.catalog.export.base import ExportedTool, Exporter, RawCall, ToolCall, result_text
from toolcrib.catalog.export.dialect import SkippedError
from toolcrib.catalog.schemas import ExpansionError, Node, expand, is_nothing, show_type, show_value
from toolcrib.component import Component
from toolcrib.content import Result
from toolcrib.definition import ToolDefinition, describe_hints
from toolcrib.registry.selection import LIST_NAMES, label_of, sort_kinds
from toolcrib.validation import codec


class MCP(Exporter):
    name = "mcp"
    summary = "tools as MCP lists them, with resources and prompts if there are some"
    has_features = True

    def export(self, tool: Component, name: str, *, strict: bool) -> ExportedTool:  # noqa: ARG002
        value = codec.decode(codec.encode(tool.definition.to_wire()))
        return ExportedTool(tool, value, codec.write(value).decode())

    def combine_features(self, document: Any, features: Sequence[Component]) -> Any:
        """Return a list of tools, or an object with the lists of each kind if there are others."""
        lists: dict[str, Any] = {}
        for tool in sort_kinds(features):
            lists.setdefault(LIST_NAMES[label_of(tool)], []).append(
                codec.decode(codec.encode(tool.to_wire()))
            )
        return {"tools": document, **lists} if lists else document

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:
        """`{"id", "method": "tools/call", "params": {"name", "arguments": {...}}}`"""
        params = node.get("params")
        if node.get("method") == "tools/call" and isinstance(params, Mapping) and "name" in params:
            return RawCall(node.get("id"), params["name"], params.get("arguments"))
        return None


# --- text for a prompt --------------------------------------------------------------------------------------


class Prompt(Exporter):
    name = "prompt"
    summary = "text for a prompt"

    def export(self, tool: Component, name: str, *, strict: bool) -> ExportedTool:  # noqa: ARG002
        tree = _expand(tool.definition.input_schema)
        lines = [f"- {name}: {' '.join(first_line(tool).split())}".rstrip()]
        required = tree.get("required", ())
        for parameter, schema in tree.get("properties", {}).items():
            if not is_nothing(schema):
                text = " ".join(str(schema.get("description", "")).split())
                shown = parameter if parameter.isprintable() and parameter.strip() else show_value(parameter)
                mark = "" if parameter in required else "?"
                lines.append(f"  {shown}{mark} ({describe_value(schema)}){': ' + text if text else ''}")
        lines += ["  e.g. " + example.replace("\n", "\n       ") for example in examples_of(tool)]
        text = "\n".join(lines)
        return ExportedTool(tool, text, text)

    def combine(self, tools: Sequence[ExportedTool], title: str) -> Any:  # noqa: ARG002
        return "\n".join(exported.text for exported in tools)

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:
        """Read the line that a prompted model writes: `{"tool_call": {"name", "args": {...}}}`."""
        inner = node.get("tool_call")
        if isinstance(inner, Mapping) and "name" in inner:
            return RawCall(inner.get("id"), inner["name"], inner.get("args", inner.get("arguments")))
        return None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:
        """Return the line that a prompted model gets back."""
        answer: dict[str, Any] = {"name": call.exported or call.name, "ok": not result.is_error}
        if result.is_error:
            answer["error"] = result_text(result)
        else:
            answer["result"] = result.structured_content if result.is_structured else result_text(result)
        return {"tool_result": answer}


def _expand(schema: Mapping[str, Any]) -> Node:
    try:
        return expand(dict(schema)).tree
    except ExpansionError as error:
        raise SkippedError(str(error)) from None


# --- a page of documentation --------------------------------------------------------------------------------

_MARKUP = re.compile(
    r"[\\`*\[\]<|~$@]"  # markup anywhere
    r"|(?<![^\W_])_|_(?![^\W_])"  # underscores that are not inside a word
    r"|:(?=//)|(?<=www)\."  # automatic links
    r"|&(?=\#?\w+;)"  # entities
    r"|(?<=^\d)[.)]|(?<=^\d\d)[.)]|^[#+\-=>:]"  # lists, headings and quotes at the start of a line
)
_ENTITIES = {"<": "&lt;", "&": "&amp;"}
_INDENT = re.compile(r"^[ \t]+")


class Markdown(Exporter):
    name = "markdown"
    summary = "a page of documentation"

    def export(self, tool: Component, name: str, *, strict: bool) -> ExportedTool:  # noqa: ARG002
        text = _write_tool(tool.definition)
        return ExportedTool(tool, text, text)

    def combine(self, tools: Sequence[ExportedTool], title: str) -> Any:
        anchors: Counter[str] = Counter()
        contents = []
        for exported in tools:
            name = exported.tool.name
            slug = re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-")
            anchor = f"{slug}-{anchors[slug]}" if anchors[slug] else slug
            anchors[slug] += 1
            lines = exported.tool.definition.description.splitlines()
            first = next((line for line in lines if line.strip()), "")
            contents.append(f"- [{escape(name)}](#{anchor}){': ' + escape(first) if first else ''}")
        head = [f"# {escape(title)}", *(["\n".join(contents)] if contents else [])]
        return "\n\n".join([*head, *(exported.text for exported in tools)]) + "\n"


def escape(text: str) -> str:
    """Return text on one line that every Markdown reader shows as it is."""
    flat = " ".join(text.split())
    return _MARKUP.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), flat)


def escape_lines(text: str) -> str:
    """Escape a text of several lines; line breaks, indents and paragraphs stay."""
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


def _write_tool(definition: ToolDefinition) -> str:
    """Return the section of one tool."""
    parts = [f"## {escape(definition.name)}"]
    if definition.title:
        parts.append(f"**{escape(definition.title)}**")
    if definition.description:
        parts.append(escape_lines(definition.description))
    parts.append(_write_parameters(_expand(definition.input_schema)))
    if definition.output_schema is not None or definition.returns:
        parts.append(_write_result(definition))
    if definition.raises:
        lines = [
            f"- {escape(name)}: {escape(text)}" if text else f"- {escape(name)}"
            for name, text in definition.raises
        ]
        parts.append("**Errors**\n\n" + "\n".join(lines))
    lines = []
    if hints := describe_hints(definition.annotations):
        lines.append(f"- Hints: {hints}")
    if definition.tags:
        lines.append(f"- Tags: {', '.join(escape(tag) for tag in definition.tags)}")
    if definition.version:
        lines.append(f"- Version: {escape(definition.version)}")
    return "\n\n".join([*parts, *(["\n".join(lines)] if lines else [])])


def _write_parameters(tree: Node) -> str:
    required = tree.get("required", ())
    rows = []
    for name, inner in tree.get("properties", {}).items():
        if not is_nothing(inner):
            default = show_value(inner["default"]) if "default" in inner else ""
            rows.append(
                f"| {escape(name) or '&nbsp;'} | {escape(describe_value(inner, default=False))} "
                f"| {'yes' if name in required else 'no'} | {escape(default)} "
                f"| {escape(str(inner.get('description', '')))} |"
            )
    if not rows:
        rest = tree.get("additionalProperties")
        if isinstance(rest, Mapping):
            return f"Takes parameters of any name; their values: {escape(show_type(rest))}"
        return "Takes no parameters."
    head = "| parameter | type | required | default | description |\n|---|---|---|---|---|"
    return "\n".join([head, *rows])


def _write_result(definition: ToolDefinition) -> str:
    text = " ".join(definition.returns.split())
    if definition.output_schema is None:
        return f"**Result**: {escape(text)}"
    try:
        expression = escape(show_type(_expand(definition.output_schema)))
    except SkippedError:
        expression = "structured data"
    return f"**Result**: {expression}{'. ' + escape(text) if text else ''}"


# --- schemas in words ---------------------------------------------------------------------------------------

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
