"""Findings about entries of tables have their line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.system.source_folders import forgotten_imports, write
from toolcrib import Finding, collect
from toolcrib.sources.loading import load_file
from toolcrib.sources.tables import add_locations

TABLE = """
SCHEMA = {"type": "object", "properties": {}}
OTHER = "lonely"
TOOL_DEFINITIONS: dict = {
    "good": {"description": "Do it.", "schema": SCHEMA, "handler": print},
    "lonely": {"description": "Do it.", "schema": SCHEMA},
}
TOOL_HANDLERS = {
    "left_over": print,
}
"""


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    with forgotten_imports():
        yield


def found(tool: str | None, file: str | None = None) -> Finding:
    return Finding("x", "error", "Something is wrong", tool=tool, file=file)


def test_entries_and_handlers_are_found_at_their_lines(tmp_path: Path) -> None:
    write(tmp_path, {"crib_table.py": TABLE, "crib_plain.py": "x = 'lonely'"})
    findings = collect(tmp_path).findings
    assert [(finding.tool, finding.file, finding.line) for finding in findings] == [
        ("lonely", str(tmp_path / "crib_table.py"), 6),
        ("left_over", str(tmp_path / "crib_table.py"), 9),
    ]


def test_what_has_a_place_keeps_it_and_what_is_nowhere_has_none(tmp_path: Path) -> None:
    write(tmp_path, {"crib_table.py": TABLE})
    module = load_file(tmp_path / "crib_table.py")
    placed = found("lonely", "elsewhere.py")
    places = [(vars(module).keys(), module.__file__)]
    assert add_locations([placed, found("nobody"), found(None)], places) == [
        placed,
        found("nobody"),
        found(None),
    ]


def test_a_table_without_source_has_no_lines() -> None:
    module = ModuleType("crib_made")
    vars(module)["TOOL_DEFINITIONS"] = {"lonely": {"schema": {}}}
    assert add_locations([found("lonely")], [(vars(module).keys(), None)]) == [found("lonely")]
    assert [finding.file for finding in collect(module).findings] == [None]
