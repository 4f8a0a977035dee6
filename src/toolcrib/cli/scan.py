"""`toolcrib scan`: find tools in source files without importing them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from toolcrib.cli import table
from toolcrib.cli.options import Command, CommandError, json_option, targets_argument
from toolcrib.cli.output import Terminal, show_progress
from toolcrib.cli.text import LEVELS, catalog_json, count, count_findings, count_level
from toolcrib.errors import Finding, SourceError
from toolcrib.sources.scan import Scan
from toolcrib.sources.scan import scan as scan_sources
from toolcrib.sources.targets import is_address

EXAMPLES = """
toolcrib scan server.py           the tools of a file
toolcrib scan servers/ --json     the servers of others, for programs
toolcrib scan shop.api            a module, found on the import path
toolcrib scan                     toolcrib.toml, or the sample tools
"""
_PROGRESS_DELAY_S = 0.7


@click.command(cls=Command, examples=EXAMPLES)
@targets_argument
@json_option
def scan(terminal: Terminal, targets: Sequence[str], as_json: bool) -> int:
    """Find tools in source files without importing them.

    Reads what an import would register: decorated functions, applications, tool objects and tables, for
    toolcrib, mcp and fastmcp. What only running the code could tell is reported with file and line. Exit
    code 0: no errors. 1: errors. 2: wrong usage.

    A TARGET is a Python file, folder, module, module:object, file.py:object or toolcrib.toml.
    """
    found = scan_targets(targets, terminal)
    if as_json:
        terminal.json(catalog_json(found.tools, found.findings))
        return 1 if found.errors else 0
    if found.tools:
        table.print_tools(found.tools, terminal, with_source=True)
        terminal.echo("")
    more = f" and {len(found.unlisted)} disabled or older" if found.unlisted else ""
    tools = f"{count(len(found.tools), 'tool')}{more} in {count(len(found.files), 'file')}"
    summary = f"{tools}; {count_findings(found.findings)}. Nothing was imported."
    table.print_groups(_group(found.findings), summary, terminal)
    return 1 if found.errors else 0


def scan_targets(targets: Sequence[str], terminal: Terminal) -> Scan:
    """Scan targets. Raises CommandError for one that does not exist."""
    for target in targets:
        if is_address(target):
            raise CommandError(f"Cannot scan {target}: it is a running server", "use toolcrib list")
    try:
        with terminal.log.muted(), show_progress(terminal, _PROGRESS_DELAY_S) as update:

            def show(done: int, total: int) -> None:
                if update is not None:
                    update(lambda: f"reading {done} of {count(total, 'file')}")

            return scan_sources(*targets, progress=None if update is None else show)
    except SourceError as error:
        if error.source.file is None:
            raise CommandError(error.message, error.hint) from None
        raise


def _group(findings: Sequence[Finding]) -> list[tuple[str, list[Finding]]]:
    """Group findings by level and code, the most severe first."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in sorted(findings, key=lambda item: LEVELS.index(item.level)):
        groups.setdefault((finding.level, finding.code), []).append(finding)
    return [(f"{count_level(len(group), level)} [{code}]", group) for (level, code), group in groups.items()]
