"""Parts of descriptors with a wrong type are refused, with file and key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolcrib.sources.descriptors import read_descriptors

TOOL = {"name": "forecast", "description": "Tell the weather"}


def read(folder: Path, **more: Any) -> Any:
    path = folder / "tools.json"
    path.write_text(json.dumps([{**TOOL, **more}, {**TOOL, "name": "other"}]))
    return read_descriptors(path)


@pytest.mark.parametrize(
    ("annotations", "key"),
    [
        ({"readOnlyHint": "maybe"}, "readOnlyHint"),
        ({"title": 7}, "title"),
        ({"openWorldHint": 1}, "openWorld"),
    ],
)
def test_an_annotation_of_another_type_is_a_finding(
    tmp_path: Path, annotations: dict[str, Any], key: str
) -> None:
    found = read(tmp_path, annotations=annotations)
    assert [tool.name for tool in found.tools] == ["other"]
    [finding] = found.findings
    assert f"annotations.{key}" in finding.message
    assert finding.file == str(tmp_path / "tools.json")


def test_annotations_that_fit_stay_and_null_says_nothing(tmp_path: Path) -> None:
    given = {"readOnlyHint": True, "title": "Forecast", "destructiveHint": None, "own": [1]}
    [tool, _] = read(tmp_path, annotations=given).tools
    assert tool.definition.annotations == {"readOnlyHint": True, "title": "Forecast", "own": [1]}


@pytest.mark.parametrize("version", [True, 1.10, [1]])
def test_a_version_that_is_not_text_is_a_finding(tmp_path: Path, version: Any) -> None:
    found = read(tmp_path, version=version)
    assert [tool.name for tool in found.tools] == ["other"]
    assert [finding.hint for finding in found.findings] == ["write it in quotes"]


def test_a_whole_number_is_a_version(tmp_path: Path) -> None:
    assert read(tmp_path, version=2).tools[0].version == "2"
