"""Findings as SARIF 2.1.0, the form in which code hosts and editors take the results of static analysis.

Knows findings and rules. Refuses to know how either came about. What somebody opted out of is in it too,
marked as suppressed: a reviewer may want to see it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from toolcrib.catalog.lint.rule import Rule
from toolcrib.catalog.lint.run import Ignored
from toolcrib.catalog.lint.table import RULES, describe_other
from toolcrib.errors import Finding
from toolcrib.validation import codec

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "advice": "note"}
_ROOT = "SRCROOT"


def to_sarif(
    findings: Sequence[Finding], *, version: str, ignored: Iterable[Ignored] = (), root: Path | None = None
) -> dict[str, Any]:
    """One run of one tool. Files below `root` (the current folder) are named from there."""
    folder = (Path.cwd() if root is None else root).resolve()
    hushed = list(ignored)
    codes = dict.fromkeys(
        [*RULES, *(item.code for item in findings), *(item.finding.code for item in hushed)]
    )
    places = {code: number for number, code in enumerate(codes)}
    results = [_result(finding, places, folder) for finding in findings]
    for item in hushed:
        kind = "inSource" if item.by == "source" else "external"
        result = _result(item.finding, places, folder)
        results.append({**result, "suppressions": [{"kind": kind}]})
    driver = {"name": "toolcrib", "semanticVersion": version, "rules": [_rule(code) for code in codes]}
    run = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {_ROOT: {"uri": f"{folder.as_uri().rstrip('/')}/"}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    rule: Rule | None = RULES.get(code)
    if rule is None:
        return {"id": code, "shortDescription": {"text": _sentence(describe_other(code) or code)}}
    return {
        "id": code,
        "shortDescription": {"text": _sentence(rule.summary)},
        "fullDescription": {"text": rule.why},
        "help": {"text": _sentence(rule.mend)},
        "defaultConfiguration": {"level": _LEVELS[rule.level]},
    }


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _result(finding: Finding, places: Mapping[str, int], folder: Path) -> dict[str, Any]:
    words = f"{finding.message} (hint: {finding.hint})" if finding.hint else finding.message
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": places[finding.code],
        "level": _LEVELS[finding.level],
        "message": {"text": words},
        # A finding stays itself when lines move: what it is about makes it, not where it stands.
        "partialFingerprints": {
            "toolcrib/v1": codec.digest([finding.code, finding.tool, finding.parameter, finding.message])
        },
    }
    location: dict[str, Any] = {}
    artifact = _artifact(finding, folder)
    if artifact is not None:
        physical: dict[str, Any] = {"artifactLocation": artifact}
        if finding.line:
            physical["region"] = {"startLine": finding.line}
        location["physicalLocation"] = physical
    if finding.tool is not None:
        logical = [{"name": finding.tool, "kind": "function"}]
        if finding.parameter is not None:
            name = f"{finding.tool}.{finding.parameter}"
            logical = [{"name": finding.parameter, "fullyQualifiedName": name, "kind": "parameter"}]
        location["logicalLocations"] = logical
    if location:
        result["locations"] = [location]
    return result


def _artifact(finding: Finding, folder: Path) -> dict[str, str] | None:
    """The file, or the address of a server; a command that was started is neither."""
    file = finding.file
    if file is None or "://" in file:
        return None if file is None else {"uri": file}
    if finding.line is None and not os.path.exists(file):
        return None
    path = Path(os.path.abspath(file))
    if path.is_relative_to(folder):
        return {"uri": quote(path.relative_to(folder).as_posix()), "uriBaseId": _ROOT}
    return {"uri": path.as_uri()}
