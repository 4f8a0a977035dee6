"""`toolcrib export`: export tools in the format of a model provider."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from toolcrib.catalog.catalog import Catalog
from toolcrib.catalog.export import EXPORTERS, Export, find_exporter
from toolcrib.catalog.export import export as export_tools
from toolcrib.cli.catalog import ToolSource, source_options
from toolcrib.cli.options import Command, CommandError, complete_from, json_option
from toolcrib.cli.output import Progress, Terminal
from toolcrib.cli.text import NAME_STYLE, count, one_line, style, style_state
from toolcrib.config import FILE_NAME
from toolcrib.registry.selection import count_kinds, label_of
from toolcrib.sources.targets import is_address

EXAMPLES = """
toolcrib export --to openai tools.py > tools.json
toolcrib export --to gemini --static servers/   without importing it
toolcrib export --to anthropic http://127.0.0.1:8000/mcp --output tools.json
toolcrib export --to bedrock tools.py --json    with names, notes and costs
toolcrib export --to markdown tools.py --output TOOLS.md
"""
_MAX_NOTES = 3
"""Notes that are printed for each tool."""


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
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file instead of stdout.")
@json_option
def export(
    terminal: Terminal,
    to: str | None,
    strict: bool,
    output: Path | None,
    as_json: bool,
    source: ToolSource,
) -> int:
    """Export tools in the format of a model provider.

    The tools go to stdout; losses and skipped tools are reported on stderr. With --json everything is one
    document. Resources and prompts are exported to mcp only.

    Exit code 0: every tool was exported. 1: some were skipped or invalid. 2: wrong usage.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml or the URL of an MCP server.
    """
    if to is None:
        raise CommandError("Missing option '--to'", f"available: {', '.join(EXPORTERS)}")
    exporter = find_exporter(to)
    _check_output(output, source.targets or (FILE_NAME,))
    found = source.open(terminal)
    found.drop_duplicates()
    files = [tool.source.file for tool in found.components]
    _check_output(output, [file for file in files if file is not None])
    with terminal.log.muted(), Progress(terminal, "exporting tools") as progress:
        exported = export_tools(found.components, to, strict=strict, progress=progress)
    if found.others and not exporter.has_features:
        others = count_kinds(map(label_of, found.others))
        terminal.message("warning", f"{to} exports tools only: {others} left out", "--to mcp exports all")
    document = {**exported.to_json(), "findings": [finding.to_json() for finding in found.findings]}
    data = document if as_json else exported.tools
    if output is not None:
        _save(output, data)
    elif isinstance(data, str):
        terminal.write(data if data.endswith("\n") else f"{data}\n")
    else:
        terminal.json(data)
    if not as_json or output is not None:
        _print_summary(exported, found, terminal, output)
    return 1 if exported.skipped or found.errors else 0


def _check_output(output: Path | None, sources: Iterable[str]) -> None:
    """Refuse to overwrite a source of the tools."""
    files = [source for source in sources if not is_address(source)]
    kept = {os.path.realpath(name) for file in files for name in (file, file.rpartition(":")[0])}
    if output is not None and os.path.realpath(output) in kept and output.is_file():
        raise CommandError(f"{output} is a source of the tools", "write to another file")


def _save(path: Path, data: Any) -> None:
    text = data if isinstance(data, str) else json.dumps(data, indent=2, ensure_ascii=False)
    path.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")


def _print_summary(exported: Export, found: Catalog, terminal: Terminal, output: Path | None) -> None:
    for name, status, text in _describe(exported):
        shown = style(one_line(name), **NAME_STYLE)
        terminal.echo_err(style_state(status, 8), " ", shown, f"  {one_line(text)}")
    for error in found.errors:
        terminal.finding(error)
    is_cut = any(len(notes) > _MAX_NOTES for notes in exported.notes.values())
    terminal.message("note", _summarize(exported, output, found), "--json has every note" if is_cut else None)


def _describe(exported: Export) -> Iterator[tuple[str, str, str]]:
    for name, reason in exported.skipped.items():
        yield name, "skipped", reason
    for new, name in exported.names.items():
        if new != name:
            yield name, "renamed", f"to {new}"
        notes = list(exported.notes.get(name, ()))
        if len(notes) > _MAX_NOTES:
            notes[_MAX_NOTES:] = [f"and {len(notes) - _MAX_NOTES} more"]
        for note in notes:
            yield name, "changed", note


def _summarize(exported: Export, output: Path | None, found: Catalog) -> str:
    place = f", written to {output}" if output is not None else ""
    is_exported = bool(found.others) and find_exporter(exported.to).has_features
    others = count_kinds(map(label_of, found.others)) if is_exported else ""
    if not exported.names and not exported.skipped:
        return f"{others} for {exported.to}{place}" if others else "no tools found"
    skipped = f", {len(exported.skipped)} skipped" if exported.skipped else ""
    cost = f"about {exported.total_tokens:,} tokens"
    more = f"; also {others}" if others else ""
    return f"{count(len(exported.names), 'tool')} for {exported.to}{skipped}; {cost}{more}{place}"
