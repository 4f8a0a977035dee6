"""Run lint rules over tools, locate the findings in the source, and apply what is ignored or raised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from toolcrib.catalog.lint.ignore import Choice, IgnoreComments, can_be_ignored, is_chosen, read_source
from toolcrib.catalog.lint.rule import LintedTool, Problem, Rule
from toolcrib.catalog.lint.table import RULES, load_rules
from toolcrib.definition import ToolDefinition
from toolcrib.errors import DefinitionError, Finding
from toolcrib.tool import Tool


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
