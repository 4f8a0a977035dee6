"""Comparing a scan with what importing registers: every difference, and whether it was announced."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.catalog.agreement import DIFFERS, ONLY_REGISTERED, ONLY_SCANNED, ScanDifference, compare_scan
from toolcrib.definition import ToolDefinition
from toolcrib.errors import Finding, Location
from toolcrib.sources.described import describe
from toolcrib.tool import Tool

HERE = Location("a.py", 3)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Where"}, "days": {"type": "integer"}},
    "required": ["city"],
}


def tool(name: str = "forecast", **changes: Any) -> Tool:
    facts: dict[str, Any] = {"description": "Forecast.", "input_schema": SCHEMA, "source": HERE, **changes}
    return describe(ToolDefinition(name=name, **facts))


def differences(scanned: Tool, registered: Tool) -> list[str]:
    return [item.what for item in compare_scan([scanned], [registered])]


def test_the_same_is_no_difference() -> None:
    assert compare_scan([tool()], [tool()]) == []


def changed(name: str, **keywords: Any) -> dict[str, Any]:
    properties = {**SCHEMA["properties"], name: {**SCHEMA["properties"].get(name, {}), **keywords}}
    return {**SCHEMA, "properties": properties}


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"description": "Foretell."}, "description"),
        ({"title": "A title"}, "title"),
        ({"input_schema": changed("city", type="integer")}, "parameter 'city': type"),
        ({"input_schema": changed("days", default=3)}, "parameter 'days': default"),
        ({"input_schema": changed("days", default=None)}, "parameter 'days': default"),
        ({"input_schema": changed("new", type="string")}, "parameter 'new'"),
        ({"input_schema": {**SCHEMA, "required": []}}, "required parameters"),
        ({"input_schema": {**SCHEMA, "$defs": {"A": {}}}}, "input schema: $defs"),
        ({"output_schema": {"type": "integer"}}, "result"),
        ({"annotations": {"readOnlyHint": True}}, "annotations"),
        ({"tags": ("a",)}, "tags"),
        ({"version": "2"}, ""),
        ({"metadata": {"k": 1}}, "metadata"),
        ({"source": Location("a.py", 4)}, "source"),
        ({"meta": {"a/b": 1}}, "meta"),
    ],
)
def test_each_difference_is_named(changes: dict[str, Any], what: str) -> None:
    assert what in differences(tool(), tool(**changes))


def test_the_order_of_parameters_counts() -> None:
    turned = {**SCHEMA, "properties": dict(reversed(SCHEMA["properties"].items()))}
    assert differences(tool(), tool(input_schema=turned)) == ["order of parameters"]


def test_tools_that_only_one_side_has() -> None:
    found = compare_scan([tool("a")], [tool("b")])
    assert [(item.code, item.tool) for item in found] == [(ONLY_SCANNED, "a"), (ONLY_REGISTERED, "b")]
    assert all(item.finding.level == "error" for item in found)


def test_names_are_compared_as_clients_do() -> None:
    assert [item.what for item in compare_scan([tool("Forecast")], [tool("forecast")])] == ["name"]


@pytest.mark.parametrize("code", ["guessed-call", "unresolved-default", "approximate-class"])
def test_an_uncertainty_about_a_tool_announces_its_differences(code: str) -> None:
    doubt = Finding(code, "advice", "Who knows.", tool="forecast")
    (found,) = compare_scan([tool()], [tool(title="x")], [doubt])
    assert found.is_announced
    assert found.finding.level == "advice"


def test_another_finding_announces_nothing() -> None:
    advice = Finding("stale-parameter", "warning", "Old words.", tool="forecast")
    (found,) = compare_scan([tool()], [tool(title="x")], [advice])
    assert not found.is_announced


def test_an_error_about_the_file_announces_what_is_missing_from_it() -> None:
    error = Finding("unreadable-source", "error", "It cannot be imported.", file="a.py")
    (found,) = compare_scan([tool()], [], [error])
    assert found.is_announced


def test_a_difference_has_a_message() -> None:
    difference = ScanDifference(DIFFERS, "forecast", "parameter 'days': default", None, 3, HERE)
    assert difference.finding.message == (
        "Tool 'forecast', parameter 'days': default: nothing in the scan, `3` when imported"
    )
    assert difference.finding.where == HERE


def test_another_name_at_the_location_of_an_uncertain_tool_is_announced() -> None:
    doubt = Finding("unresolved-option", "warning", "Option 'name' cannot be told", "forecast", file="a.py")
    for scanned, registered in ((tool(), tool("other")), (tool("other"), tool())):
        assert all(item.is_announced for item in compare_scan([scanned], [registered], [doubt]))
    elsewhere = tool("other", source=Location("a.py", 9))
    assert [item.is_announced for item in compare_scan([tool()], [elsewhere], [doubt])] == [True, False]


def test_a_tool_from_a_string_is_announced_by_guessed_more() -> None:
    made = tool("made", source=Location("<string>", 1))
    more = Finding("guessed-more", "advice", "What exec() runs here is not read", file="a.py")
    assert [item.is_announced for item in compare_scan([], [made], [more])] == [True]
    assert [item.is_announced for item in compare_scan([], [made])] == [False]
