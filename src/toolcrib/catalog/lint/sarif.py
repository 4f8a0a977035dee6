"""Findings as SARIF 2.1.0, the format in which code hosts and editors read results of static analysis.

Ignored findings are included, marked as suppressed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from toolcrib.catalog.lint.run import Ignored
from toolcrib.catalog.lint.table import describe_other, load_rules
from toolcrib.errors import Finding
from toolcrib.validation import codec

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "advice": "note"}
_ROOT = "SRCROOT"


def to_sarif(
    findings: Sequence[Finding], *, version: str, ignored: Iterable[Ignored] = (), root: Path | None = None
) -> dict[str, Any]:
    """Return a SARIF log with one run. Files below `root` (the current folder) are relative to it."""
    folder = (Path.cwd() if root is None else root).resolve()
    suppressed = list(ignored)
    found = [*findings, *(item.finding for item in suppressed)]
    codes = dict.fromkeys([*load_rules(), *(finding.code for finding in found)])
    indexes = {code: index for index, code in enumerate(codes)}
    results = [_result(finding, indexes, folder) for finding in findings]
    for item in suppressed:
        kind = "inSource" if item.by == "source" else "external"
        results.append({**_result(item.finding, indexes, folder), "suppressions": [{"kind": kind}]})
    driver = {"name": "toolcrib", "semanticVersion": version, "rules": [_rule(code) for code in codes]}
    run = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {_ROOT: {"uri": f"{folder.as_uri().rstrip('/')}/"}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    rule = load_rules().get(code)
    if rule is None:
        return {"id": code, "shortDescription": {"text": _sentence(describe_other(code) or code)}}
    return {
        "id": code,
        "shortDescription": {"text": _sentence(rule.summary)},
        "fullDescription": {"text": rule.why},
        "help": {"text": _sentence(rule.fix)},
        "defaultConfiguration": {"level": _LEVELS[rule.level]},
    }


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _result(finding: Finding, indexes: Mapping[str, int], folder: Path) -> dict[str, Any]:
    text = f"{finding.message} (hint: {finding.hint})" if finding.hint else finding.message
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": indexes[finding.code],
        "level": _LEVELS[finding.level],
        "message": {"text": text},
        # Without the line, so that a finding keeps its identity when lines move.
        "partialFingerprints": {
            "toolcrib/v1": codec.digest([finding.code, finding.tool, finding.parameter, finding.message])
        },
    }
    location: dict[str, Any] = {}
    artifact = _artifact(finding, folder)
    if artifact is not None:
        location["physicalLocation"] = {"artifactLocation": artifact}
        if finding.line:
            location["physicalLocation"]["region"] = {"startLine": finding.line}
    if finding.tool is not None and finding.parameter is not None:
        name = f"{finding.tool}.{finding.parameter}"
        location["logicalLocations"] = [
            {"name": finding.parameter, "fullyQualifiedName": name, "kind": "parameter"}
        ]
    elif finding.tool is not None:
        location["logicalLocations"] = [{"name": finding.tool, "kind": "function"}]
    if location:
        result["locations"] = [location]
    return result


def _artifact(finding: Finding, folder: Path) -> dict[str, str] | None:
    """Return the file or the URL of a server; a command that was started is neither."""
    file = finding.file
    if file is None or "://" in file:
        return None if file is None else {"uri": file}
    if finding.line is None and not os.path.exists(file):
        return None
    path = Path(os.path.abspath(file))
    if path.is_relative_to(folder):
        return {"uri": quote(path.relative_to(folder).as_posix()), "uriBaseId": _ROOT}
    return {"uri": path.as_uri()}
