"""`toolcrib scan`: the tools in source files, found by reading them; nothing is imported or run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from toolcrib.cli import table as render
from toolcrib.cli.load import is_address
from toolcrib.cli.options import Command, Failure, takes_json, takes_targets
from toolcrib.cli.output import Terminal, telling
from toolcrib.cli.text import count, tool_json
from toolcrib.errors import Finding, SourceError
from toolcrib.sources.scan import Scan
from toolcrib.sources.scan import scan as scan_sources
from toolcrib.sources.scan.scan import Progress

EXAMPLES = """
toolcrib scan server.py           the tools of a file, packages or not
toolcrib scan servers/ --json     anybody's servers, for programs
toolcrib scan shop.api            a module, found on the import path
toolcrib scan                     the toolcrib.toml here, or the samples
"""
_PATIENCE_S = 0.7
_LEVELS = (
    ("error", "error", None),
    ("warning", "warning", None),
    ("advice", "piece of advice", "pieces of advice"),
)


@click.command(cls=Command, examples=EXAMPLES)
@takes_targets
@takes_json
def scan(terminal: Terminal, targets: Sequence[str], as_json: bool) -> int:
    """Find tools in source files, without importing or running them.

    Reads what importing would register: decorated functions, applications, tool objects and tables, for
    toolcrib, mcp and fastmcp. What only running could tell is a finding, with file and line. Exit code 0: no
    errors. 1: errors. 2: the command was given wrongly.

    A TARGET is a Python file, a folder, a module, module:object, file.py:object or a toolcrib.toml.
    """
    found = scan_targets(targets, terminal)
    if as_json:
        tools = [tool_json(tool) for tool in found.tools]
        terminal.json({"tools": tools, "findings": [finding.to_json() for finding in found.findings]})
        return 1 if found.errors else 0
    if found.tools:
        render.list_places(found.tools, terminal)
        terminal.data("")
    render.report_groups(group(found.findings), sum_up(found), terminal)
    return 1 if found.errors else 0


def scan_targets(targets: Sequence[str], terminal: Terminal) -> Scan:
    """The scan of what the command line names. Naming something that is not there is the caller's mistake."""
    for target in targets:
        if is_address(target):
            raise Failure(f"{target} is a running server, which has no source to scan", "list asks it")
    try:
        with terminal.log.muted(), _telling(terminal) as progress:
            return scan_sources(*targets, progress=progress)
    except SourceError as error:
        if error.source.file is None:
            raise Failure(error.message, error.hint) from None
        raise


@contextmanager
def _telling(terminal: Terminal) -> Iterator[Progress | None]:
    """Say how far it is, where somebody waits and looks."""
    with telling(terminal, _PATIENCE_S) as tell:
        yield tell and (lambda done, total: tell(lambda: f"reading {done} of {count(total, 'file')}"))


def group(findings: Sequence[Finding]) -> list[tuple[str, list[Finding]]]:
    """Findings of one kind under one heading, the worst first."""
    ranks = {level: rank for rank, (level, _, _) in enumerate(_LEVELS)}
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for finding in sorted(findings, key=lambda item: ranks[item.level]):
        kinds.setdefault((finding.level, finding.code), []).append(finding)
    nouns = {level: (noun, plural) for level, noun, plural in _LEVELS}
    return [
        (f"{count(len(several), *nouns[level])} [{code}]", several)
        for (level, code), several in kinds.items()
    ]


def sum_up(found: Scan) -> str:
    levels = [finding.level for finding in found.findings]
    problems = [
        count(levels.count(level), noun, plural) for level, noun, plural in _LEVELS if level in levels
    ]
    more = f" and {len(found.unlisted)} more that are off or outdated" if found.unlisted else ""
    tools = f"{count(len(found.tools), 'tool')}{more} in {count(len(found.files), 'file')}"
    return f"{tools}; {', '.join(problems) or 'nothing to complain about'}. Nothing was imported."
