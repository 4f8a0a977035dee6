"""Exports as a whole: verdicts, names, versions, costs, plugins, and one bad tool among good ones."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.small_tools import broken, named
from toolcrib import Result, Tool
from toolcrib.catalog.export import EXPORTERS, ProviderExporter, RawCall, ToolCall, export
from toolcrib.catalog.export.dialect import Dialect
from toolcrib.errors import ConfigurationError, ToolNotFoundError


@dataclass
class Point:
    x: float
    y: float = 0.0


def move(point: Point, by: list[int], note: str | None = None) -> str:
    """Move a point.

    Args:
        point: Where it is

    Returns:
        Where it went
    """
    return ""


def one(schema: dict[str, Any], to: str, **options: Any) -> Any:
    tool = Tool.from_handler(lambda arguments: None, "any", "Anything.", schema)
    return export([tool], to, **options)


def test_a_function_is_exported_exactly_everywhere_and_strictly_to_openai() -> None:
    tool = Tool.from_function(move)
    for to in EXPORTERS:
        (verdict,) = export([tool], to).verdicts
        assert (verdict.name, verdict.exported, verdict.status) == ("move", "move", "exact"), to
        assert verdict.strict is (True if to.startswith("openai") else None)


def test_a_tool_for_anthropic_in_full() -> None:
    found = export([Tool.from_function(move)], "anthropic")
    assert found.tools == [
        {
            "name": "move",
            "description": "Move a point.\n\nReturns: Where it went",
            "input_schema": {
                "type": "object",
                "properties": {
                    "point": {
                        "type": "object",
                        "properties": {"x": {"type": "number"}, "y": {"type": "number", "default": 0.0}},
                        "required": ["x"],
                        "description": "Where it is",
                    },
                    "by": {"type": "array", "items": {"type": "integer"}},
                    "note": {"type": "string"},
                },
                "required": ["point", "by"],
            },
        }
    ]


def test_strict_mode_can_be_turned_off() -> None:
    (strict,) = export([Tool.from_function(move)], "openai").tools
    (loose,) = export([Tool.from_function(move)], "openai", strict=False).tools
    assert strict["function"]["strict"] is True
    assert loose["function"]["strict"] is False
    assert loose["function"]["parameters"]["required"] == ["point", "by"]
    assert export([Tool.from_function(move)], "openai", strict=False).verdicts[0].changes == ()


def test_a_tool_that_cannot_be_strict_says_why() -> None:
    (verdict,) = one({"type": "object", "properties": {"x": {}}}, "openai").verdicts
    assert (verdict.strict, verdict.status) == (False, "exact")
    assert verdict.changes[0].message == "not strict: /properties/x accepts any value"


def test_an_invalid_tool_does_not_affect_the_others() -> None:
    found = export([named("one"), broken("two"), named("three")], "gemini")
    assert [verdict.status for verdict in found.verdicts] == ["exact", "refused", "exact"]
    assert [tool["name"] for tool in found.tools] == ["one", "three"]
    (refused,) = found.refused
    assert (refused.name, refused.exported) == ("two", None)
    assert "must have type='object'" in (refused.reason or "")


def test_only_exact_leaves_out_lossy_tools() -> None:
    lossy = Tool.from_handler(
        lambda arguments: None, "lossy", "Loses.", {"type": "object", "additionalProperties": False}
    )
    found = export([named("one"), lossy], "gemini", only="exact")
    assert list(found.names) == ["one"] == list(found.tokens) == [tool["name"] for tool in found.tools]
    assert [verdict.status for verdict in found.verdicts] == ["exact", "lossy"]
    with pytest.raises(ToolNotFoundError):
        found.route("lossy")


def test_versions_of_a_tool_get_different_names() -> None:
    tools = [named("price", version="1"), named("price", version="2"), named("other", version="1")]
    found = export(tools, "openai")
    assert found.names == {"price_1": "price@1", "price_2": "price@2", "other": "other"}
    repeated = export([named("same"), named("same")], "openai")
    assert [verdict.status for verdict in repeated.verdicts] == ["exact", "refused"]
    assert repeated.verdicts[1].reason == "another tool has this name already"


def test_costs_are_reported_per_tool_and_in_total() -> None:
    found = export([named("one"), Tool.from_function(move)], "openai")
    assert found.tokens["move"] > found.tokens["one"] > 5
    assert found.total_tokens == sum(found.tokens.values())
    assert found.verdicts[1].tokens == found.tokens["move"]


def test_an_empty_export() -> None:
    assert export([], "openai").tools == []
    assert export([], "prompt").tools == ""
    assert export([], "markdown", title="None").tools == "# None\n"
    assert export([], "catalog").tools["count"] == 0
    assert export([], "descriptor").tools == {"tools": []}


def test_an_unknown_format_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        export([], "open-ai")
    assert refusal.value.hint == "did you mean 'openai'?"
    with pytest.raises(ConfigurationError) as refusal:
        export([], "zzz")
    assert "there are: openai, " in (refusal.value.hint or "")


def test_mcp_and_the_descriptor_are_the_definition_itself() -> None:
    tool = Tool.from_function(move)
    assert export([tool], "mcp").tools == [tool.definition.to_wire()]
    (entry,) = export([tool], "descriptor").tools["tools"]
    assert entry["inputSchema"] == tool.definition.input_schema
    catalog = export([tool], "catalog").tools
    assert catalog.keys() == {"version", "hash", "count", "promptList", "functionSchema"}


def test_an_empty_description_is_left_out() -> None:
    tool = named("bare")
    for to, place in (("openai", "function"), ("bedrock", "toolSpec")):
        assert "description" not in export([tool], to).tools[0][place]
    for to in ("anthropic", "gemini", "gemini-json", "langchain", "openai-responses"):
        assert "description" not in export([tool], to).tools[0]


def test_a_long_list_of_changes_is_cut_and_keeps_the_losses() -> None:
    many = {f"p{number}": {"type": "array", "uniqueItems": number == 149} for number in range(150)}
    (verdict,) = one({"type": "object", "properties": many}, "gemini-json").verdicts
    assert len(verdict.changes) == 100
    assert verdict.status == "lossy"
    assert verdict.losses[0].pointer == "/properties/p149/uniqueItems"
    assert verdict.changes[-1].message == "and 52 more changes"


def test_an_unknown_value_of_only_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="there is no choice 'nope'"):
        export([], "openai", only="nope")  # type: ignore[arg-type]


class Acme(ProviderExporter):
    name = "acme"
    summary = "ACME chat"
    dialect = Dialect("ACME")

    def write_tool(self, name: str, description: str, schema: Any, strict: bool | None) -> dict[str, Any]:
        return {"tool": name, "about": description, "schema": schema, "strict": strict}

    def read_call(self, node: Any) -> RawCall | None:
        return RawCall(node["id"], node["tool"], node["input"]) if "tool" in node else None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:
        return {"id": call.id, "failed": result.is_error}


def test_an_exporter_of_another_package_is_used_like_a_built_in_one() -> None:
    found = export([Tool.from_function(move)], Acme())
    assert found.to == "acme"
    (tool,) = found.tools
    assert (tool["tool"], tool["strict"]) == ("move", None)
    assert tool["schema"]["required"] == ["point", "by"]
    (call,) = found.read_call({"content": [{"id": 7, "tool": "move", "input": {"by": [1]}}]})
    assert call == ToolCall("7", "move", {"by": [1]}, "move")
    assert found.result_for(call, Result()) == {"id": "7", "failed": False}


PLUGIN = """
from toolcrib.catalog.export import Exporter, ExportedTool, find_exporter

class Lines(Exporter):
    name = "lines"
    summary = "one line per tool"

    def export(self, tool, name, *, strict):
        return ExportedTool(tool, name, name)

    def combine(self, tools, title):
        return "\\n".join([title, *(exported.value for exported in tools)])
"""
USE = """
import sys
import time
from toolcrib import Tool
from toolcrib.catalog.export import export

def add(a: int) -> int: return a
print(export([Tool.from_function(add)], "lines", title="All").tools)
"""


def test_an_entry_point_adds_a_format(tmp_path: Path) -> None:
    info = tmp_path / "lines-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lines\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[toolcrib.exporters]\nlines = lines_plugin:Lines\n")
    (tmp_path / "lines_plugin.py").write_text(PLUGIN)
    command = [sys.executable, "-c", USE]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "All\nadd\n"


def test_missing_tools_of_a_large_catalog_are_found_at_once() -> None:
    names = [f"tool_{number}" for number in range(20_000)]
    document = {"functionSchema": [{"name": name} for name in names[1:]]}
    began = time.process_time()
    assert [*EXPORTERS["catalog"].find_refused(document, names)] == ["tool_0"]
    assert time.process_time() - began < 1
