"""Text for a prompt: the lines of the catalog's `promptList`, with the parameters below each tool.

Short: the first line of a description, types as expressions, examples. Every tool and parameter is one line,
so that no description can pass for another tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.catalog.build import examples_of, first_line
from toolcrib.catalog.export.base import ExportedTool, Exporter
from toolcrib.catalog.export.calls import RawCall, ToolCall, result_text
from toolcrib.catalog.export.describe import describe_keyword, omitted_keywords, show_type, show_value
from toolcrib.catalog.export.schema import read_schema
from toolcrib.catalog.export.verdict import ChangeLog
from toolcrib.catalog.schema_algebra import Node, is_nothing
from toolcrib.content import Result
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


class Prompt(Exporter):
    name = "prompt"
    summary = "text for a prompt"

    def export(self, tool: Tool, name: str, *, strict: bool) -> ExportedTool:  # noqa: ARG002
        log = ChangeLog()
        tree = read_schema(tool.definition.input_schema, log)
        lines = [f"- {name}: {' '.join(first_line(tool).split())}".rstrip()]
        required = tree.get("required", ())
        lines += [
            f"  {_write_parameter(parameter, schema, parameter in required)}"
            for parameter, schema in tree.get("properties", {}).items()
            if not is_nothing(schema)
        ]
        lines += ["  e.g. " + example.replace("\n", "\n       ") for example in examples_of(tool)]
        _log_omissions(tree, log)
        text = "\n".join(lines)
        return ExportedTool(tool, text, text, log.close())

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


def _write_parameter(name: str, node: Node, is_required: bool) -> str:
    rules = [describe_keyword(key, node[key]) for key in _RULES if key in node]
    expression = ", ".join([show_type(node), *rules])
    text = " ".join(str(node.get("description", "")).split())
    mark = "" if is_required else "?"
    shown = name if name.isprintable() and name.strip() else show_value(name)
    return f"{shown}{mark} ({expression}){': ' + text if text else ''}"


def _log_omissions(tree: Node, log: ChangeLog) -> None:
    """Log what the text leaves out, which makes it lossy."""
    omitted = tree.keys() - {"type", "properties", "required", "description", "title", "$schema"}
    if tree.get("additionalProperties") is False:
        omitted.discard("additionalProperties")  # a list of parameters implies it
    if omitted:
        log.add((), f"{', '.join(sorted(omitted))}: left out", "wider")
    for name, schema in tree.get("properties", {}).items():
        left = sorted(set(omitted_keywords(schema, 0, _RULES)))
        if left:
            log.add(("properties", name), f"{', '.join(left)}: left out", "wider")
