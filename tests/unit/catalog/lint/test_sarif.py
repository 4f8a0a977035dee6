"""SARIF 2.1.0: complete, valid, and useful where it is shown."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sarif_pydantic import Sarif

from toolcrib.catalog.lint import RULES, Ignored
from toolcrib.catalog.lint.run import to_sarif
from toolcrib.errors import Finding


def make(folder: Path) -> dict[str, Any]:
    inside = str(folder / "some folder" / "tools.py")
    findings = [
        Finding("long-name", "advice", "It is long", "a_tool", None, inside, 3, "shorten it"),
        Finding("untyped-parameter", "warning", "It has no type", "a_tool", "x", inside, 4),
        Finding("credential", "error", "It holds a key", "other", None, "/elsewhere/tools.py", 1),
        Finding("no-tools", "error", "There are none"),
    ]
    ignored_findings = [
        Ignored(Finding("vague-name", "advice", "It is vague", "run", None, inside, 9), "source"),
        Ignored(Finding("vague-name", "advice", "It is vague", "do"), "settings"),
    ]
    return to_sarif(findings, version="1.2.3", ignored=ignored_findings, root=folder)


def test_the_document_is_valid_sarif(tmp_path: Path) -> None:
    read = Sarif.model_validate(make(tmp_path))
    [run] = read.runs
    assert read.version == "2.1.0"
    assert run.tool.driver.name == "toolcrib"
    assert [str(result.level.value) for result in run.results or []][:4] == [
        "note",
        "warning",
        "error",
        "error",
    ]


def test_every_result_refers_to_its_rule_and_location(tmp_path: Path) -> None:
    [run] = make(tmp_path)["runs"]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    first, second, third, fourth, *_ = run["results"]
    physical = first["locations"][0]["physicalLocation"]
    assert physical == {
        "artifactLocation": {"uri": "some%20folder/tools.py", "uriBaseId": "SRCROOT"},
        "region": {"startLine": 3},
    }
    assert run["originalUriBaseIds"]["SRCROOT"]["uri"] == f"{tmp_path.resolve().as_uri()}/"
    assert first["message"]["text"] == "It is long (hint: shorten it)"
    assert second["locations"][0]["logicalLocations"] == [
        {"name": "x", "fullyQualifiedName": "a_tool.x", "kind": "parameter"}
    ]
    assert third["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "file:///elsewhere/tools.py"},
        "region": {"startLine": 1},
    }
    assert "locations" not in fourth


def test_a_tool_of_a_server_has_a_url_or_only_a_name() -> None:
    findings = [
        Finding("long-name", "advice", "It is long", "a_tool", file="http://127.0.0.1:8000/mcp"),
        Finding("long-name", "advice", "It is long", "a_tool", file="python server.py"),
    ]
    first, second = to_sarif(findings, version="1")["runs"][0]["results"]
    physical = first["locations"][0]["physicalLocation"]
    assert physical == {"artifactLocation": {"uri": "http://127.0.0.1:8000/mcp"}}
    assert second["locations"] == [{"logicalLocations": [{"name": "a_tool", "kind": "function"}]}]


def test_all_rules_are_described_with_their_level(tmp_path: Path) -> None:
    rules = {rule["id"]: rule for rule in make(tmp_path)["runs"][0]["tool"]["driver"]["rules"]}
    assert rules.keys() == RULES.keys() | {"no-tools"}
    assert rules["long-name"]["defaultConfiguration"] == {"level": "note"}
    assert rules["long-name"]["help"]["text"].endswith(".")


def test_ignored_findings_are_included_as_suppressed(tmp_path: Path) -> None:
    results = make(tmp_path)["runs"][0]["results"]
    assert [result.get("suppressions") for result in results] == [
        *[None] * 4,
        [{"kind": "inSource"}],
        [{"kind": "external"}],
    ]


def test_the_fingerprint_of_a_finding_does_not_depend_on_its_line(tmp_path: Path) -> None:
    def mark(line: int, message: str = "It is long") -> Any:
        finding = Finding("long-name", "advice", message, "a_tool", None, str(tmp_path / "a.py"), line)
        return to_sarif([finding], version="1")["runs"][0]["results"][0]["partialFingerprints"]

    assert mark(3) == mark(30)
    assert mark(3) != mark(3, "It is longer")


@pytest.mark.skipif("TOOLCRIB_SOAK" not in os.environ, reason="downloads a validator: TOOLCRIB_SOAK=1")
def test_the_sarif_validator_accepts_the_document(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm")
    install = [npm, "install", "--silent", "--no-fund", "--no-audit", "@microsoft/sarif-multitool"]
    done = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        pytest.skip("the npm registry cannot be reached")
    (tmp_path / "lint.sarif").write_text(json.dumps(make(tmp_path)))
    validate = [npm, "exec", "--no", "--", "sarif-multitool", "validate", "lint.sarif"]
    said = subprocess.run(validate, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert "Analysis completed successfully" in said.stdout
    assert ": error " not in said.stdout
