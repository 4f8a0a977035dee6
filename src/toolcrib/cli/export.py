"""`toolcrib export`: the tools in the form that a model provider takes, and what became of each."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Unpack

import click

from toolcrib.catalog.export import EXPORTERS, Export, Verdict, find_exporter
from toolcrib.catalog.export import export as export_tools
from toolcrib.cli.catalog import Stock, Whence, gather, takes_stock
from toolcrib.cli.load import is_address
from toolcrib.cli.options import Command, Failure, takes_json
from toolcrib.cli.output import Terminal
from toolcrib.cli.text import count, one_line
from toolcrib.config import FILE_NAME

EXAMPLES = """
toolcrib export --to openai tools.py > tools.json
toolcrib export --to gemini --static servers/   read the source only
toolcrib export --to anthropic http://127.0.0.1:8000/mcp --output tools.json
toolcrib export --to bedrock tools.py --json    verdicts, costs too
toolcrib export --to markdown tools.py --output TOOLS.md
"""
_MOST_LOSSES = 3
_WIDEST = 40


@click.command("export", cls=Command, examples=EXAMPLES)
@takes_stock
@click.option("--to", metavar="FORM", help=f"One of {', '.join(EXPORTERS)}.")
@click.option(
    "--strict/--no-strict",
    default=True,
    help="Ask OpenAI to keep to the schema, where it can. On by default.",
)
@click.option(
    "--only", type=click.Choice(["exact"]), help="Leave out tools of which something would be lost."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file instead of stdout.")
@click.option(
    "--report", type=click.Path(path_type=Path), help="Write verdicts, names and costs to this file, as JSON."
)
@takes_json
def export(
    terminal: Terminal,
    to: str | None,
    strict: bool,
    only: str | None,
    output: Path | None,
    report: Path | None,
    as_json: bool,
    **whence: Unpack[Whence],
) -> int:
    """Print the tools in the form that a model provider takes.

    The data goes to stdout; what was lost on the way, and what was refused, to stderr. With --json all of it
    is one document. Exit code 0: every tool is there. 1: one was refused or is wrong. 2: given wrongly.

    A TARGET is a Python file, a folder, a module, module:object, a toolcrib.toml or the address of a running
    MCP server.
    """
    if to is None:
        raise Failure("say in which form: --to FORM", f"there are: {', '.join(EXPORTERS)}")
    find_exporter(to)
    _refuse_loss(output, report, whence["targets"] or (FILE_NAME,))
    stock = gather(terminal, **whence)
    _refuse_loss(output, report, [tool.source.file for tool in stock.tools if tool.source.file is not None])
    with terminal.log.muted():
        found = export_tools(stock.tools, to, strict=strict, only="exact" if only else "all")
    document = {**found.to_json(), "findings": [finding.to_json() for finding in stock.findings]}
    if report is not None:
        _save(report, {key: value for key, value in document.items() if key != "tools"})
    data = document if as_json else found.tools
    if output is not None:
        _save(output, data)
    elif isinstance(data, str):
        terminal.content(data if data.endswith("\n") else f"{data}\n")
    else:
        terminal.json(data)
    if not as_json or output is not None:
        _tell(found, stock, terminal, output)
        if only is None and not as_json and any(verdict.status == "lossy" for verdict in found.verdicts):
            terminal.say("hint", "add --json to see every change, or --only exact to leave such tools out")
    return 1 if found.refused or stock.errors else 0


def _refuse_loss(output: Path | None, report: Path | None, sources: Iterable[str]) -> None:
    """What the tools are from is not overwritten, nor one of two files by the other."""
    written = [path for path in (output, report) if path is not None]
    if len(written) == 2 and os.path.realpath(written[0]) == os.path.realpath(written[1]):
        raise Failure(f"--output and --report are both {output}", "give them two names")
    files = [source for source in sources if not is_address(source)]
    kept = {os.path.realpath(name) for file in files for name in (file, file.rpartition(":")[0])}
    for path in written:
        if os.path.realpath(path) in kept and path.is_file():
            raise Failure(f"{path} is where the tools are from", "write to another file")


def _save(path: Path, data: Any) -> None:
    text = data if isinstance(data, str) else json.dumps(data, indent=2, ensure_ascii=False)
    try:
        path.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror or error}") from None


def _tell(found: Export, stock: Stock, terminal: Terminal, output: Path | None) -> None:
    """What is worth knowing, tool by tool, and all of it in one line."""
    rows = [row for verdict in found.verdicts for row in _rows(verdict)]
    width = min(_WIDEST, max((len(name) for _, name, _ in rows), default=0))
    for status, name, words in rows:
        terminal.put(f"{status:<8} {name:<{width}}  {words}".rstrip())
    for error in stock.errors:
        terminal.tell(error)
    if stock.is_sample:
        terminal.say("note", "these are the sample tools; name a file, a folder or a module to export yours")
    terminal.say("note", _sum_up(found, output))


def _rows(verdict: Verdict) -> Iterator[tuple[str, str, str]]:
    name = one_line(verdict.name)
    if verdict.status == "refused":
        yield "refused", name, one_line(verdict.reason or "")
        return
    if verdict.exported != verdict.name:
        yield "renamed", name, f"{verdict.exported} there"
    if verdict.strict is False and verdict.changes and verdict.changes[0].message.startswith("not strict"):
        yield "loose", name, one_line(verdict.changes[0].message)
    losses = verdict.losses
    for number, change in enumerate(losses[:_MOST_LOSSES]):
        yield ("lossy", name, one_line(change)) if number == 0 else ("", "", one_line(change))
    if len(losses) > _MOST_LOSSES:
        yield "", "", f"and {len(losses) - _MOST_LOSSES} more"


def _sum_up(found: Export, output: Path | None) -> str:
    total = len(found.verdicts)
    if not total:
        return "there are no tools"
    statuses = Counter(verdict.status for verdict in found.verdicts)
    parts = [f"{statuses[status]} {status}" for status in ("exact", "lossy", "refused") if statuses[status]]
    left = total - len(found.names) - statuses["refused"]
    loose = sum(verdict.strict is False for verdict in found.verdicts)
    strict = any(verdict.strict for verdict in found.verdicts)
    if loose and strict:
        parts.append(f"{loose} not strict")
    if left:
        parts.append(f"{left} left out")
    place = f", written to {output}" if output is not None else ""
    cost = f"about {found.total_tokens:,} tokens"
    return f"{count(total, 'tool')} for {found.to}: {', '.join(parts)}; {cost}{place}"
