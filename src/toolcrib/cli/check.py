"""`toolcrib check`: what would be registered, and everything wrong with the rest, each with a way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from toolcrib.catalog.lint import advise
from toolcrib.cli.frame import Command, takes_json, takes_targets
from toolcrib.cli.targets import Loaded, load
from toolcrib.cli.terminal import Terminal, safe, show_place
from toolcrib.cli.words import count, tool_json
from toolcrib.errors import DefinitionError
from toolcrib.finding import Finding

EXAMPLES = """
toolcrib check                    the toolcrib.toml here, or the samples
toolcrib check tools.py more/     a file and a folder
toolcrib check --strict --json .  in a pipeline: warnings fail it too
"""


@click.command(cls=Command, examples=EXAMPLES)
@takes_targets
@takes_json
@click.option("--strict", is_flag=True, help="Let warnings count as errors, for the exit code.")
def check(terminal: Terminal, targets: Sequence[str], as_json: bool, strict: bool) -> int:
    """Say what would be registered, and what is wrong.

    Builds every tool, so that nothing is found out at the first call. Each finding names file and line and
    a way to mend it. Exit code 0: no errors. 1: errors. 2: the command was given wrongly.

    A TARGET is a Python file, a folder, a module, module:object or a toolcrib.toml.
    """
    loaded = load(targets, terminal)
    with terminal.log.muted():
        findings = list(dict.fromkeys([*loaded.findings, *loaded.server.registry.check()]))
    errors = [finding for finding in findings if finding.level == "error"]
    findings += _advice(loaded)
    findings.sort(key=_by_place)
    if as_json:
        tools = [tool_json(tool) for tool in loaded.list_built()]
        terminal.json({"tools": tools, "findings": [finding.to_json() for finding in findings]})
    else:
        from toolcrib.cli import render  # rich is loaded where people look, and only there

        rows = [*_rows(loaded), *_refused(errors)]
        render.report(rows, findings, _sum_up(loaded, rows, findings), terminal)
    levels = ("error", "warning") if strict else ("error",)
    return 1 if any(finding.level in levels for finding in findings) else 0


def _advice(loaded: Loaded) -> Iterator[Finding]:
    for entry in loaded.entries:
        try:
            yield from advise(entry.tool.definition, entry.tool)
        except DefinitionError:
            continue  # it is among the errors


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
        yield "refused", safe(name), show_place(where)


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
