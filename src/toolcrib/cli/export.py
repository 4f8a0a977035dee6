"""`toolcrib export`: export tools in the format of a model provider."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from toolcrib.catalog.export import EXPORTERS, Export, Verdict, find_exporter
from toolcrib.catalog.export import export as export_tools
from toolcrib.cli.catalog import ToolSet, ToolSource, source_options
from toolcrib.cli.options import Command, CommandError, complete_from, json_option
from toolcrib.cli.output import Progress, Terminal
from toolcrib.cli.text import NAME_STYLE, count, one_line, style, style_state
from toolcrib.config import FILE_NAME
from toolcrib.registry.selection import count_kinds, label_of
from toolcrib.sources.targets import is_address
from toolcrib.tool import Tool

EXAMPLES = """
toolcrib export --to openai tools.py > tools.json
toolcrib export --to gemini --static servers/   without importing it
toolcrib export --to anthropic http://127.0.0.1:8000/mcp --output tools.json
toolcrib export --to bedrock tools.py --json    with verdicts and costs
toolcrib export --to markdown tools.py --output TOOLS.md
"""
_MAX_LOSSES = 3
"""Losses that are printed for each tool."""


@click.command("export", cls=Command, examples=EXAMPLES)
@source_options()
@click.option(
    "--to",
    metavar="FORM",
    shell_complete=complete_from(EXPORTERS),
    help=f"Format: {', '.join(EXPORTERS)}.  [required]",
)
@click.option(
    "--strict/--no-strict", default=True, help="Use OpenAI's strict mode where possible.  [default: strict]"
)
@click.option("--only", type=click.Choice(["exact"]), help="Leave out tools that would lose something.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file instead of stdout.")
@click.option(
    "--report", type=click.Path(path_type=Path), help="Write verdicts, names and costs to this JSON file."
)
@json_option
def export(
    terminal: Terminal,
    to: str | None,
    strict: bool,
    only: str | None,
    output: Path | None,
    report: Path | None,
    as_json: bool,
    source: ToolSource,
) -> int:
    """Export tools in the format of a model provider.

    The tools go to stdout; what was lost or refused is reported on stderr. With --json everything is one
    document. Resources and prompts are exported to mcp only.

    Exit code 0: every tool was exported. 1: some were refused or invalid. 2: wrong usage.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml or the URL of an MCP server.
    """
    if to is None:
        raise CommandError("Missing option '--to'", f"available: {', '.join(EXPORTERS)}")
    exporter = find_exporter(to)
    _check_outputs(output, report, source.targets or (FILE_NAME,))
    found = source.collect(terminal)
    found.drop_duplicates()
    files = [tool.source.file for tool in found.everything]
    _check_outputs(output, report, [file for file in files if file is not None])
    with terminal.log.muted(), Progress(terminal, "exporting tools") as progress:
        exported = export_tools(
            found.everything, to, strict=strict, only="exact" if only else "all", progress=progress
        )
    if found.features and not exporter.has_features:
        others = count_kinds(map(label_of, found.features))
        terminal.message("warning", f"{to} exports tools only: {others} left out", "--to mcp exports all")
    document = {**exported.to_json(), "findings": [finding.to_json() for finding in found.findings]}
    if report is not None:
        _save(report, {key: value for key, value in document.items() if key != "tools"})
    data = document if as_json else exported.tools
    if output is not None:
        _save(output, data)
    elif isinstance(data, str):
        terminal.write(data if data.endswith("\n") else f"{data}\n")
    else:
        terminal.json(data)
    if not as_json or output is not None:
        _print_summary(exported, found, terminal, output)
    return 1 if exported.refused or found.errors else 0


def _check_outputs(output: Path | None, report: Path | None, sources: Iterable[str]) -> None:
    """Refuse to overwrite a source of the tools, or one output with the other."""
    outputs = [path for path in (output, report) if path is not None]
    if len(outputs) == 2 and os.path.realpath(outputs[0]) == os.path.realpath(outputs[1]):
        raise CommandError(f"--output and --report are the same file: {output}")
    files = [source for source in sources if not is_address(source)]
    kept = {os.path.realpath(name) for file in files for name in (file, file.rpartition(":")[0])}
    for path in outputs:
        if os.path.realpath(path) in kept and path.is_file():
            raise CommandError(f"{path} is a source of the tools", "write to another file")


def _save(path: Path, data: Any) -> None:
    text = data if isinstance(data, str) else json.dumps(data, indent=2, ensure_ascii=False)
    path.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")


def _print_summary(exported: Export, found: ToolSet, terminal: Terminal, output: Path | None) -> None:
    for verdict in exported.verdicts:
        for status, text in _describe(verdict):
            name = style(one_line(verdict.name), **NAME_STYLE)
            terminal.echo_err(style_state(status, 8), " ", name, f"  {one_line(text)}")
    for error in found.errors:
        terminal.finding(error)
    is_lossy = any(verdict.status == "lossy" for verdict in exported.verdicts)
    hint = "--json shows every change, --only exact leaves lossy tools out" if is_lossy else None
    terminal.message("note", _summarize(exported, output, found.features), hint)


def _describe(verdict: Verdict) -> Iterator[tuple[str, str]]:
    if verdict.status == "refused":
        yield "refused", verdict.reason or ""
        return
    if verdict.exported != verdict.name:
        yield "renamed", f"to {verdict.exported}"
    if verdict.strict is False and verdict.changes and verdict.changes[0].message.startswith("not strict"):
        yield "loose", verdict.changes[0].message
    losses = list(map(str, verdict.losses))
    if len(losses) > _MAX_LOSSES:
        losses[_MAX_LOSSES:] = [f"and {len(losses) - _MAX_LOSSES} more"]
    for loss in losses:
        yield "lossy", loss


def _summarize(exported: Export, output: Path | None, features: Sequence[Tool]) -> str:
    total = len(exported.verdicts)
    place = f", written to {output}" if output is not None else ""
    others = count_kinds(map(label_of, features)) if find_exporter(exported.to).has_features else ""
    if not total:
        return f"{others} for {exported.to}{place}" if features and others else "no tools found"
    statuses = Counter(verdict.status for verdict in exported.verdicts)
    parts = [f"{statuses[status]} {status}" for status in ("exact", "lossy", "refused") if statuses[status]]
    loose = sum(verdict.strict is False for verdict in exported.verdicts)
    if loose and any(verdict.strict for verdict in exported.verdicts):
        parts.append(f"{loose} not strict")
    if left_out := total - len(exported.names) - statuses["refused"]:
        parts.append(f"{left_out} left out")
    cost = f"about {exported.total_tokens:,} tokens"
    more = f"; also {others}" if features and others else ""
    return f"{count(total, 'tool')} for {exported.to}: {', '.join(parts)}; {cost}{more}{place}"
