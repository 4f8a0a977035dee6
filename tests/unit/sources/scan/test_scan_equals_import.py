"""Every fixture, scanned here and imported in a process of its own: what has no finding is the same.

A fixture says in its first lines what the scan cannot tell about it; anything else that it leaves open, or
gets wrong, fails.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.scanning.import_results import (
    describe_scan,
    doubted_tools,
    fixtures,
    headers,
    import_targets,
)
from toolcrib.sources.scan import scan

pytest.importorskip("mcp", reason="mcp is not installed: fixtures for it cannot be imported")
pytest.importorskip("fastmcp", reason="fastmcp is not installed: fixtures for it cannot be imported")

FIXTURES = fixtures()
REMARKS = {"shortened-name", "stale-parameter", "unknown-type", "implicit-optional", "unpublished-default"}
"""Findings that building a tool has, wherever it comes from."""

NOT_LISTED = {"guessed-list", "guessed-table", "unresolved-part", "unresolved-tool"}
"""Findings that stand for tools of which nothing is listed."""


@pytest.fixture(scope="module")
def registered() -> dict[str, Any]:
    return import_targets(FIXTURES)


def test_there_are_fixtures_of_every_style() -> None:
    assert len(FIXTURES) >= 40
    assert {path.parent.name for path in FIXTURES} >= {"ours", "sdk", "fast", "apps", "objects", "tables"}


@pytest.mark.parametrize("path", FIXTURES, ids=[f"{path.parent.name}/{path.name}" for path in FIXTURES])
def test_a_fixture_scans_to_what_importing_registers(path: Path, registered: dict[str, Any]) -> None:
    before = set(sys.modules)
    found = scan(path)
    assert not {name for name in set(sys.modules) - before if name.startswith(("mcp", "fastmcp", path.stem))}
    said = headers(path)
    expected = set(said.get("doubts", ()))
    assert {finding.code for finding in found.findings} - REMARKS == expected
    real = registered[str(path)]
    assert "failed" not in real
    tools, doubted = describe_scan(found), doubted_tools(found)
    if said.get("imports") == ["no"]:
        assert not real["tools"]
        assert tools
        return
    certain = {key for key in tools if key.partition("@")[0].casefold() not in doubted}
    certain -= {f"{name}@" for name in said.get("extra", ())}  # in functions and below conditions
    for key in sorted(certain):
        assert tools[key] == real["tools"].get(key), key
    if not expected & NOT_LISTED:
        assert set(real["tools"]) <= set(tools)


@pytest.mark.parametrize(
    "name", ["ours/refused.py", "ours/names.py", "odd/duplicates.py", "tables/mismatched.py"]
)
def test_anything_that_is_refused_is_refused_with_the_same_words(
    name: str, registered: dict[str, Any]
) -> None:
    path = next(item for item in FIXTURES if str(item).endswith(name))
    errors = [finding for finding in scan(path).findings if finding.level == "error"]
    real = [finding for finding in registered[str(path)]["findings"] if finding["level"] == "error"]
    assert sorted((item.code, item.message, item.line) for item in errors) == sorted(
        (item["code"], item["message"], item["line"]) for item in real
    )
