"""The built-in formats: OpenAI, Anthropic, Bedrock, Gemini, MCP, prompts, and a page of documentation.

OpenAI's strict mode follows the guide to structured outputs: a list of keywords, closed objects and limits.
Without it the API answers 400 to compositions, `enum` and `not` at the root, and to arrays without `items`.
In a prompt every tool and parameter is one line, so that no description can pass for another tool. On a page
text from a definition is escaped, so that no Markdown reader takes it for markup.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.catalog.build import examples_of, first_line
from toolcrib.catalog.export.base import (
    IMAGE_FORMATS,
    ExportedTool,
    Exporter,
    ProviderExporter,
    RawCall,
    ToolCall,
    block_text,
    describe_tool,
    result_text,
)
from toolcrib.catalog.export.dialect import PLAIN_NAME, Dialect, NotStrictError, SkippedError
from toolcrib.catalog.schemas import ExpansionError, Node, expand, is_nothing, show_type, show_value
from toolcrib.component import Component
from toolcrib.content import Result
from toolcrib.definition import ToolDefinition, describe_hints
from toolcrib.registry.selection import LIST_NAMES, label_of, sort_kinds
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import children, walk

# --- OpenAI ----------------------------------------------------------------------------------------------

OPENAI = Dialect()
_STRICT_KEYWORDS = frozenset(
    {"additionalProperties", "anyOf", "description", "enum", "exclusiveMaximum", "exclusiveMinimum", "format"}
    | {"items", "maxItems", "maximum", "minItems", "minimum", "multipleOf", "pattern", "properties"}
    | {"required", "title", "type"}
)
_STRICT_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
)
OPENAI_STRICT = Dialect(_STRICT_KEYWORDS, formats=_STRICT_FORMATS, closed=True)
MAX_PROPERTIES = 5_000
MAX_LEVELS = 10
MAX_ENUM_VALUES = 1_000
MAX_CHARACTERS = 120_000
"""The limits of strict mode; the last one is on all names and enum values together."""
MANY_ENUM_VALUES, MAX_ENUM_CHARACTERS = 250, 15_000
"""An enum with more values than the first may have no more characters than the second."""


class OpenAI(ProviderExporter):
    name = "openai"
    summary = "OpenAI chat completions, and compatible APIs"
    dialect = OPENAI
    strict_dialect = OPENAI_STRICT

    def write_tool(self, name: str, description: str, schema: Node, strict: bool) -> dict[str, Any]:
        function = {**describe_tool(name, description), "parameters": schema, "strict": strict}
        return {"type": "function", "function": function}

    def check_strict(self, schema: Node) -> None:
        check_strict_limits(schema)

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:
        """`{"id", "type": "function", "function": {"name", "arguments": "{...}"}}`"""
        function = node.get("function")
        if isinstance(function, Mapping) and "name" in function and "parameters" not in function:
            return RawCall(node.get("id"), function["name"], function.get("arguments"))
        return None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": call.id, "content": _result_text(result)}


class OpenAIResponses(OpenAI):
    name = "openai-responses"
    summary = "OpenAI Responses API"

    def write_tool(self, name: str, description: str, schema: Node, strict: bool) -> dict[str, Any]:
        # Without `strict` the API tries to make a schema strict by itself.
        tool = {"type": "function", **describe_tool(name, description)}
        return {**tool, "parameters": schema, "strict": strict}

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:
        """`{"type": "function_call", "call_id", "name", "arguments": "{...}"}`"""
        if node.get("type") == "function_call" and "name" in node:
            return RawCall(node.get("call_id") or node.get("id"), node["name"], node.get("arguments"))
        return None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": call.id, "output": _result_text(result)}


def _result_text(result: Result) -> str:
    """OpenAI has no field for errors, so the text says it."""
    text = result_text(result)
    return f"Error: {text}" if result.is_error and not text.startswith("Error") else text


def check_strict_limits(schema: Node) -> None:
    """Raise NotStrictError if a schema exceeds the limits of strict mode."""
    nodes = [node for _, node in walk(schema)]
    names = [name for node in nodes for name in node.get("properties", ())]
    enums = [node["enum"] for node in nodes if "enum" in node]
    lengths = [sum(len(value) for value in values if isinstance(value, str)) for values in enums]
    for values, length in zip(enums, lengths, strict=True):
        if len(values) > MANY_ENUM_VALUES and length > MAX_ENUM_CHARACTERS:
            raise NotStrictError(
                f"an enum of {len(values)} values has {length} characters, "
                f"and strict mode allows {MAX_ENUM_CHARACTERS}"
            )
    limits = (
        (len(names), MAX_PROPERTIES, "properties"),
        (_count_levels(schema), MAX_LEVELS, "levels of objects"),
        (sum(map(len, enums)), MAX_ENUM_VALUES, "enum values in all"),
        (sum(map(len, names)) + sum(lengths), MAX_CHARACTERS, "characters in names and enum values"),
    )
    for count, limit, noun in limits:
        if count > limit:
            raise NotStrictError(f"it has {count} {noun}, and strict mode allows {limit}")


def _count_levels(node: Any) -> int:
    inner = max((_count_levels(child) for _, child in children(node)), default=0)
    return inner + (isinstance(node, Mapping) and node.get("type") == "object")


# --- other providers -------------------------------------------------------------------------------------

ANTHROPIC = Dialect(property_name=PLAIN_NAME)
BEDROCK = Dialect(property_name=PLAIN_NAME, root_keywords=frozenset({"properties", "required", "type"}))
_GEMINI_KEYWORDS = frozenset(
    {"additionalProperties", "anyOf", "default", "description", "enum", "format", "items", "maxItems"}
    | {"maximum", "minItems", "minimum", "prefixItems", "properties", "required", "title", "type"}
)
GEMINI = Dialect(
    _GEMINI_KEYWORDS,
    property_name=re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}"),
    formats=frozenset({"date", "date-time", "double", "float", "int32", "int64", "time"}),
    enum_types=frozenset({"integer", "number", "string"}),
)


class Anthropic(ProviderExporter):
    """Tools for the Messages API, which rejects compositions at the root and some property names."""

    name = "anthropic"
    summary = "Anthropic Messages API"
    dialect = ANTHROPIC

    def write_tool(self, name: str, description: str, schema: Node, strict: bool) -> dict[str, Any]:  # noqa: ARG002
        return {**describe_tool(name, description), "input_schema": schema}

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:
        """`{"type": "tool_use", "id", "name", "input": {...}}`"""
        if node.get("type") == "tool_use" and "name" in node:
            return RawCall(node.get("id"), node["name"], node.get("input"))
        return None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:
        """Return a content block of the next user message."""
        content: list[dict[str, Any]] = []
        for block in result.content:
            if block.get("type") == "image" and block.get("mimeType") in IMAGE_FORMATS:
                source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
                content.append({"type": "image", "source": source})
            elif text := block_text(block):
                content.append({"type": "text", "text": text})
        if not content and result.is_structured:
            content.append({"type": "text", "text": codec.encode_text(result.structured_content)})
        answer: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id, "content": content}
        return {**answer, "is_error": True} if result.is_error else answer


class Bedrock(ProviderExporter):
    """Tool specifications for Converse, as in `toolConfig.tools`.

    Amazon's own models accept three fields at the root, and Anthropic's rules hold for Anthropic's models.
    """

    name = "bedrock"
    summary = "Amazon Bedrock Converse"
    dialect = BEDROCK

    def write_tool(self, name: str, description: str, schema: Node, strict: bool) -> dict[str, Any]:  # noqa: ARG002
        return {"toolSpec": {**describe_tool(name, description), "inputSchema": {"json": schema}}}

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:
        """`{"toolUse": {"toolUseId", "name", "input": {...}}}`"""
        inner = node.get("toolUse")
        if isinstance(inner, Mapping) and "name" in inner:
            return RawCall(inner.get("toolUseId"), inner["name"], inner.get("input"))
        return None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:
        """Return a content block of the next user message. Images are bytes, as boto3 takes them."""
        content: list[dict[str, Any]] = []
        for block in result.content:
            if block.get("type") == "image" and block.get("mimeType") in IMAGE_FORMATS:
                image = {
                    "format": IMAGE_FORMATS[block["mimeType"]],
                    "source": {"bytes": base64.b64decode(block["data"])},
                }
                content.append({"image": image})
            else:
                content.append({"text": block_text(block)})
        if not content:
            data = result.structured_content
            is_object = result.is_structured and isinstance(data, dict)
            content.append({"json": data} if is_object else {"text": result_text(result)})
        status = "error" if result.is_error else "success"
        return {"toolResult": {"toolUseId": call.id, "content": content, "status": status}}


class Gemini(ProviderExporter):
    """Function declarations with `parametersJsonSchema`, which has the keywords of structured output."""

    name = "gemini"
    summary = "Gemini function declarations"
    dialect = GEMINI

    def write_tool(self, name: str, description: str, schema: Node, strict: bool) -> dict[str, Any]:  # noqa: ARG002
        return {**describe_tool(name, description), "parametersJsonSchema": schema}

    def read_call(self, node: Mapping[str, Any]) -> RawCall | None:
        """`{"functionCall": {"id"?, "name", "args": {...}}}`; Google's package has `function_call`."""
        inner = node.get("functionCall", node.get("function_call"))
        if isinstance(inner, Mapping) and "name" in inner:
            return RawCall(inner.get("id"), inner["name"], inner.get("args", inner.get("arguments")))
        return None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:
        """Return a part of the next user content."""
        if result.is_error:
            response: dict[str, Any] = {"error": result_text(result)}
        else:
            response = {"output": result.structured_content if result.is_structured else result_text(result)}
        inner: dict[str, Any] = {"name": call.exported or call.name, "response": response}
        return {"functionResponse": {"id": call.id, **inner} if call.id else inner}


# --- MCP --------------------------------------------------------------------------------------------------


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
