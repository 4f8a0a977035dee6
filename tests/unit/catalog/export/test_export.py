"""Exports as a whole: notes, names, versions, costs, plugins, and one bad tool among good ones."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.definitions.small_tools import broken, named
from toolcrib import Result, Tool
from toolcrib.catalog.export import EXPORTERS, ProviderExporter, RawCall, ToolCall, export
from toolcrib.catalog.export.dialect import Dialect
from toolcrib.errors import ConfigurationError


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


@pytest.mark.requirement("G-04")
def test_a_function_is_exported_without_loss_everywhere_and_strictly_to_openai() -> None:
    tool = Tool.from_function(move)
    for to in EXPORTERS:
        found = export([tool], to)
        assert (found.names, found.notes, found.skipped) == ({"move": "move"}, {}, {}), to
    assert export([tool], "openai-responses").tools[0]["strict"] is True


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
    assert export([Tool.from_function(move)], "openai", strict=False).notes == {}


def test_a_tool_that_cannot_be_strict_says_why() -> None:
    found = one({"type": "object", "properties": {"x": {}}}, "openai")
    assert found.notes == {"any": ("not strict: /properties/x accepts any value",)}
    assert found.tools[0]["function"]["strict"] is False


@pytest.mark.requirement("G-04")
def test_an_invalid_tool_does_not_affect_the_others() -> None:
    found = export([named("one"), broken("two"), named("three")], "gemini")
    assert [tool["name"] for tool in found.tools] == ["one", "three"]
    assert list(found.skipped) == ["two"]
    assert "must have type='object'" in found.skipped["two"]


def test_versions_of_a_tool_get_different_names() -> None:
    tools = [named("price", version="1"), named("price", version="2"), named("other", version="1")]
    found = export(tools, "openai")
    assert found.names == {"price_1": "price@1", "price_2": "price@2", "other": "other"}
    repeated = export([named("same"), named("same")], "openai")
    assert list(repeated.names) == ["same"]
    assert repeated.skipped == {"same": "another tool has this name already"}


def test_costs_are_reported_per_tool_and_in_total() -> None:
    found = export([named("one"), Tool.from_function(move)], "openai")
    assert found.tokens["move"] > found.tokens["one"] > 5
    assert found.total_tokens == sum(found.tokens.values())


def test_an_empty_export() -> None:
    assert export([], "openai").tools == []
    assert export([], "prompt").tools == ""
    assert export([], "markdown", title="None").tools == "# None\n"


def test_an_unknown_format_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        export([], "open-ai")
    assert refusal.value.hint == "did you mean 'openai'?"
    with pytest.raises(ConfigurationError) as refusal:
        export([], "zzz")
    assert "there are: openai, " in (refusal.value.hint or "")


def test_mcp_is_the_definition_itself() -> None:
    tool = Tool.from_function(move)
    assert export([tool], "mcp").tools == [tool.definition.to_wire()]


def test_an_empty_description_is_left_out() -> None:
    tool = named("bare")
    for to, place in (("openai", "function"), ("bedrock", "toolSpec")):
        assert "description" not in export([tool], to).tools[0][place]
    for to in ("anthropic", "gemini", "openai-responses"):
        assert "description" not in export([tool], to).tools[0]


class Acme(ProviderExporter):
    name = "acme"
    summary = "ACME chat"
    dialect = Dialect()

    def write_tool(self, name: str, description: str, schema: Any, strict: bool) -> dict[str, Any]:
        return {"tool": name, "about": description, "schema": schema, "strict": strict}

    def read_call(self, node: Any) -> RawCall | None:
        return RawCall(node["id"], node["tool"], node["input"]) if "tool" in node else None

    def write_result(self, call: ToolCall, result: Result) -> dict[str, Any]:
        return {"id": call.id, "failed": result.is_error}


def test_an_exporter_of_another_package_is_used_like_a_built_in_one() -> None:
    found = export([Tool.from_function(move)], Acme())
    assert found.to == "acme"
    (tool,) = found.tools
    assert (tool["tool"], tool["strict"]) == ("move", False)
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
