"""Run lint rules over tools, and write the findings as SARIF.

Ignored findings are included, marked as suppressed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from toolcrib.catalog.lint.ignore import Choice, IgnoreComments, can_be_ignored, is_chosen, read_source
from toolcrib.catalog.lint.rule import LintedTool, Problem, Rule
from toolcrib.catalog.lint.table import RULES, describe_other, load_rules
from toolcrib.definition import ToolDefinition
from toolcrib.errors import DefinitionError, Finding
from toolcrib.tool import Tool
from toolcrib.validation import codec


@dataclass(frozen=True, slots=True)
class Ignored:
    """A finding that was ignored, by a comment in the source or by settings."""

    finding: Finding
    by: Literal["source", "settings"]


@dataclass(slots=True)
class Inspection:
    """The findings, ordered by file and line, and those that were ignored."""

    findings: list[Finding] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)


def advise(definition: ToolDefinition, tool: Tool) -> list[Finding]:
    """Return what `toolcrib check` reports about one tool: first the tool, then parameter by parameter."""
    linted = LintedTool(tool, definition)
    problems = [
        (problem, rule)
        for rule in RULES.values()
        if rule.in_check and rule.check is not None
        for problem in rule.check(linted)
    ]
    order = {name: number for number, name in enumerate(linted.parameters, 1)}
    problems.sort(key=lambda item: order.get(item[0].parameter or "", 0))
    return [rule.finding(linted, problem) for problem, rule in problems]


def inspect_tools(
    tools: Iterable[Tool],
    *,
    found: Iterable[Finding] = (),
    ignore: Sequence[Choice] = (),
    error: Sequence[Choice] = (),
    use_comments: bool = True,
) -> Inspection:
    """Run every rule, including those of plugins.

    Args:
        tools: The tools to look at
        found: Findings from reading and building the tools, which can be ignored as well
        ignore: Findings to leave out
        error: Findings to raise to errors
        use_comments: Whether comments in the source may ignore findings. False for untrusted code, whose
            author may have written the comment next to a planted text.
    """
    linted, refused = _build(tools)
    sources = [tool.definition.source for tool in linted]
    lines = {(source.file, tool.name): source.line for source, tool in zip(sources, linted, strict=True)}
    comments = IgnoreComments()
    if use_comments:
        for file in {source.file for source in sources} - {None}:
            comments.read(str(file))
    inspection = Inspection()
    for finding in dict.fromkeys([*found, *refused, *_run_rules(linted)]):
        tool_line = lines.get((finding.file, finding.tool or ""), finding.line)
        if can_be_ignored(finding) and is_chosen(finding, ignore):
            inspection.ignored.append(Ignored(finding, "settings"))
        elif use_comments and can_be_ignored(finding) and comments.ignore(finding, tool_line):
            inspection.ignored.append(Ignored(finding, "source"))
        else:
            inspection.findings.append(_raise_level(finding, error))
    for finding in comments.find_problems():
        if not is_chosen(finding, ignore):
            inspection.findings.append(_raise_level(finding, error))
    inspection.findings.sort(key=lambda item: (item.file or "", item.line or 0, item.tool or "", item.code))
    return inspection


def _build(tools: Iterable[Tool]) -> tuple[list[LintedTool], list[Finding]]:
    linted, refused = [], []
    for tool in tools:
        try:
            linted.append(LintedTool(tool))
        except DefinitionError as error:
            refused.append(error.finding)
    return linted, refused


def _run_rules(tools: Sequence[LintedTool]) -> Iterator[Finding]:
    rules = load_rules().values()
    for tool in tools:
        for rule in rules:
            if rule.check is not None:
                for problem in rule.check(tool):
                    yield _locate(rule, tool, problem)
        tool.release_texts()
    for rule in rules:
        if rule.check_all is not None:
            for tool, problem in rule.check_all(tools):
                yield _locate(rule, tool, problem)


def _locate(rule: Rule, tool: LintedTool, problem: Problem) -> Finding:
    """Return the finding, with the line that it is about where the source shows it."""
    finding = rule.finding(tool, problem)
    if finding.file is None or finding.line is None or not (problem.parameter or problem.excerpt):
        return finding
    source = read_source(finding.file)
    span = source.spans.get(finding.line) if source is not None else None
    if source is None or span is None:
        return finding
    line = source.find(problem.excerpt, span) if problem.excerpt else None
    if line is None and problem.parameter:
        line = source.find_parameter(problem.parameter, span)
    return finding if line is None else replace(finding, line=line)


def _raise_level(finding: Finding, error: Sequence[Choice]) -> Finding:
    return replace(finding, level="error") if is_chosen(finding, error) else finding


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
