"""`toolcrib check`: what would be registered, and everything wrong with the rest, each with a way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from toolcrib.catalog.lint import advise
from toolcrib.cli import table as render
from toolcrib.cli.load import Loaded, load
from toolcrib.cli.options import Command, takes_json, takes_targets
from toolcrib.cli.output import Terminal, show_place
from toolcrib.cli.policy import find_idle, find_unreadable
from toolcrib.cli.text import count, tool_json
from toolcrib.errors import DefinitionError, Finding

if TYPE_CHECKING:
    from toolcrib.sources.scan import Scan

EXAMPLES = """
toolcrib check                    the toolcrib.toml here, or the samples
toolcrib check tools.py more/     a file and a folder
toolcrib check --strict --json .  in a pipeline: warnings fail it too
toolcrib check --against-scan .   is the scan of it the same?
"""


@click.command(cls=Command, examples=EXAMPLES)
@takes_targets
@takes_json
@click.option("--strict", is_flag=True, help="Let warnings count as errors, for the exit code.")
@click.option(
    "--against-scan",
    is_flag=True,
    help="Compare with what `toolcrib scan` reads: a difference that it did not announce is an error.",
)
def check(terminal: Terminal, targets: Sequence[str], as_json: bool, strict: bool, against_scan: bool) -> int:
    """Say what would be registered, and what is wrong.

    Builds every tool, so that nothing is found out at the first call. Each finding names file and line and
    a way to mend it. Exit code 0: no errors. 1: errors. 2: the command was given wrongly.

    With --against-scan, the differences between importing and reading the source take the place of advice.

    A TARGET is a Python file, a folder, a module, module:object or a toolcrib.toml.
    """
    scanned = _scan(targets, terminal) if against_scan else None  # before anything is imported
    loaded = load(targets, terminal)
    with terminal.log.muted():
        found = [*loaded.findings, *loaded.server.registry.check()]
        findings = list(dict.fromkeys([*found, *find_idle(loaded.server, loaded.refused)]))
    errors = [finding for finding in findings if finding.level == "error"]
    findings += find_unreadable(loaded.server, loaded.refused)
    findings += _advice(loaded) if scanned is None else _disagreements(scanned, loaded, findings)
    findings.sort(key=_by_place)
    if as_json:
        tools = [tool_json(tool) for tool in loaded.list_built()]
        terminal.json({"tools": tools, "findings": [finding.to_json() for finding in findings]})
    else:
        rows = [*_rows(loaded), *_refused(errors)]
        summary = _sum_up(loaded, rows, findings)
        if scanned is not None:
            summary = f"{summary} {_say_agreement(scanned, findings)}"
        render.report(rows, findings, summary, terminal)
    levels = ("error", "warning") if strict else ("error",)
    return 1 if any(finding.level in levels for finding in findings) else 0


def _advice(loaded: Loaded) -> Iterator[Finding]:
    for entry in loaded.entries:
        try:
            yield from advise(entry.tool.definition, entry.tool)
        except DefinitionError:
            continue  # it is among the errors


def _scan(targets: Sequence[str], terminal: Terminal) -> Scan:
    from toolcrib.cli.scan import scan_targets  # most checks read no source

    return scan_targets(targets, terminal)


def _disagreements(scanned: Scan, loaded: Loaded, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Where reading the source and importing it differ, and what the scan had said about that before."""
    from toolcrib.catalog.agreement import compare_scan  # as above

    registered = []
    for entry in loaded.entries:
        try:
            _ = entry.tool.definition
        except DefinitionError:
            continue  # it is among the errors
        registered.append(entry.tool)
    tools = [*scanned.tools, *scanned.unlisted]
    differences = compare_scan(tools, registered, [*scanned.findings, *findings])
    announced = {item.tool.casefold() for item in differences if item.is_announced}
    yield from (item.finding for item in differences)
    for finding in scanned.findings:
        if finding.tool is not None and finding.tool.casefold() in announced and finding not in findings:
            yield finding


def _say_agreement(scanned: Scan, findings: Sequence[Finding]) -> str:
    from toolcrib.catalog.agreement import CODES  # as above

    levels = [finding.level for finding in findings if finding.code in CODES]
    read = f"A scan of the source finds {count(len(scanned.tools), 'tool')}"
    if not levels:
        return f"{read}: the same."
    if "error" not in levels:
        return f"{read}: the same, but for {count(len(levels), 'difference')} that it announced."
    return f"{read}: {count(levels.count('error'), 'difference')} that it did not announce."


def _by_place(finding: Finding) -> tuple[str, int]:
    return finding.file or "", finding.line or 0


def _rows(loaded: Loaded) -> Iterator[tuple[str, str, str]]:
    for entry in loaded.entries:
        tool = entry.tool
        try:
            _ = tool.definition
        except DefinitionError:
            continue  # it is among the refused
        name = f"{tool.name}@{tool.version}" if tool.version else tool.name
        if not entry.enabled and tool.options.group:
            name = f"{name} (enable_{tool.options.group}_tools)"
        yield "ok" if entry.enabled else "off", name, show_place(tool.source)


def _refused(errors: list[Finding]) -> Iterator[tuple[str, str, str]]:
    named = dict.fromkeys((error.tool, error.where) for error in sorted(errors, key=_by_place) if error.tool)
    for name, where in named:
        yield "refused", name, show_place(where)


def _sum_up(loaded: Loaded, rows: list[tuple[str, str, str]], findings: list[Finding]) -> str:
    states = [state for state, _, _ in rows]
    tools = [f"{count(states.count('ok'), 'tool')} ok" if states else "no tools"]
    tools += [f"{states.count(state)} {state}" for state in ("refused", "off") if state in states]
    levels = [finding.level for finding in findings]
    nouns = (
        ("error", "error", None),
        ("warning", "warning", None),
        ("advice", "piece of advice", "pieces of advice"),
    )
    problems = [count(levels.count(level), noun, plural) for level, noun, plural in nouns if level in levels]
    samples = "The sample tools: " if loaded.is_sample else ""
    return f"{samples}{', '.join(tools)}; {', '.join(problems) or 'nothing to complain about'}."
