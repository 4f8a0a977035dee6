"""Runs the rules over tools, and puts code, level, place and opt-outs to what they say.

Knows tools, rules and opt-outs. Refuses to know where the tools are from, and what follows from a finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from toolcrib.catalog.lint.ignore import Choice, Marks, can_be_ignored, is_chosen, read_source
from toolcrib.catalog.lint.rule import Remark, Rule, Subject
from toolcrib.catalog.lint.table import RULES
from toolcrib.definition import ToolDefinition
from toolcrib.errors import DefinitionError, Finding
from toolcrib.tool import Tool


@dataclass(frozen=True, slots=True)
class Ignored:
    """A finding that somebody opted out of, and where."""

    finding: Finding
    by: Literal["source", "settings"]


@dataclass(slots=True)
class Inspection:
    """What stands, by file and line, and what was opted out of."""

    findings: list[Finding] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)


def advise(definition: ToolDefinition, tool: Tool) -> list[Finding]:
    """What `toolcrib check` says about one tool: the name first, then its words, then its parameters."""
    subject = Subject(tool, definition)
    found = [
        (remark, rule)
        for rule in RULES.values()
        if rule.in_check and rule.look is not None
        for remark in rule.look(subject)
    ]
    order = {name: number for number, name in enumerate(subject.parameters, 1)}
    found.sort(key=lambda item: order.get(item[0].parameter or "", 0))
    return [rule.finding(subject, remark) for remark, rule in found]


def inspect_tools(
    tools: Iterable[Tool],
    *,
    found: Iterable[Finding] = (),
    ignore: Sequence[Choice] = (),
    error: Sequence[Choice] = (),
    obeys_source: bool = True,
) -> Inspection:
    """Run every rule. `found` is what reading and building had to say, which opt-outs apply to as well.

    `obeys_source=False` takes no notice of comments in the source: for code of strangers, who may have
    written `ignore` beside what they planted.
    """
    subjects, refused = _look_at(tools)
    lines = {
        (subject.definition.source.file, subject.name): subject.definition.source.line for subject in subjects
    }
    made = [*found, *refused, *_run_rules(subjects)]
    inspection = Inspection()
    marks = Marks()
    if obeys_source:
        for file in {subject.definition.source.file for subject in subjects}:
            if file is not None:
                marks.visit(file)
    for finding in dict.fromkeys(made):
        tool_line = lines.get((finding.file, finding.tool or ""), finding.line)
        if can_be_ignored(finding) and is_chosen(finding, ignore):
            inspection.ignored.append(Ignored(finding, "settings"))
        elif obeys_source and can_be_ignored(finding) and marks.ignores(finding, tool_line):
            inspection.ignored.append(Ignored(finding, "source"))
        else:
            inspection.findings.append(_raised(finding, error))
    inspection.findings += [
        _raised(finding, error) for finding in marks.remarks() if not is_chosen(finding, ignore)
    ]
    inspection.findings.sort(key=_by_place)
    return inspection


def _look_at(tools: Iterable[Tool]) -> tuple[list[Subject], list[Finding]]:
    subjects, refused = [], []
    for tool in tools:
        try:
            subjects.append(Subject(tool))
        except DefinitionError as error:
            refused.append(error.finding)
    return subjects, refused


def _run_rules(subjects: Sequence[Subject]) -> Iterator[Finding]:
    for subject in subjects:
        for rule in RULES.values():
            if rule.look is not None:
                for remark in rule.look(subject):
                    yield _place(rule, subject, remark)
        subject.forget_texts()
    for rule in RULES.values():
        if rule.across is not None:
            for subject, remark in rule.across(subjects):
                yield _place(rule, subject, remark)


def _place(rule: Rule, subject: Subject, remark: Remark) -> Finding:
    """The finding, at the line that it is about where that can be told from the source."""
    finding = rule.finding(subject, remark)
    if finding.file is None or finding.line is None or (remark.parameter is None and remark.excerpt is None):
        return finding
    source = read_source(finding.file)
    span = source.span_at(finding.line) if source is not None else None
    if source is None or span is None:
        return finding
    line = source.find(remark.excerpt, span) if remark.excerpt else None
    if line is None and remark.parameter:
        line = source.find_parameter(remark.parameter, span)
    return finding if line is None else replace(finding, line=line)


def _raised(finding: Finding, error: Sequence[Choice]) -> Finding:
    return replace(finding, level="error") if is_chosen(finding, error) else finding


def _by_place(finding: Finding) -> tuple[str, int, str, str]:
    return finding.file or "", finding.line or 0, finding.tool or "", finding.code
