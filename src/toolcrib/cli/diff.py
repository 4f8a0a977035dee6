"""`toolcrib diff`: show the changes between two catalogs and how severe they are.

A side is a target, a lock file, the URL of a server, or a git commit, whose files are read and never run.
Names, descriptions and values are untrusted: they are escaped on a terminal, and stand in code spans in
Markdown.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

import click

from toolcrib.catalog.catalog import Catalog
from toolcrib.catalog.compare import Comparison, compare
from toolcrib.catalog.compare_schemas import GRADES, Change
from toolcrib.catalog.entries import describe_entry
from toolcrib.cli.catalog import ToolSource, open_catalog, scan_targets, static_option
from toolcrib.cli.git import Repository
from toolcrib.cli.options import Command, CommandError, exclusive, json_option
from toolcrib.cli.output import Progress, Terminal, format_source
from toolcrib.cli.text import NAME_STYLE, Styled, count, join, one_line, style
from toolcrib.client.session import VERSIONS
from toolcrib.config import FILE_NAME
from toolcrib.errors import ConfigurationError, Location
from toolcrib.sources.described import describe
from toolcrib.sources.targets import is_address

EXAMPLES = """
toolcrib diff old.py new.py
toolcrib diff main tools.py            a commit and the current file
toolcrib diff v1.0:shop v2.0:shop      a folder in two commits, not run
toolcrib diff old.lock http://127.0.0.1:8000/mcp
toolcrib diff main . --markdown        for a pull request
"""
_COLOURS = {"suspicious": "magenta", "breaking": "red", "compatible": "green", "cosmetic": "cyan"}
_GRADE_WIDTH = max(map(len, GRADES))
_MAX_MARKDOWN_CHANGES = 300


def report_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a report about changes."""
    choices = click.Choice([*reversed(GRADES), "never"])
    text = "Lowest grade that makes the exit code 1.  [default: breaking]"
    function = click.option("--fail-on", type=choices, help=text)(function)
    function = click.option("--markdown", is_flag=True, help="Print Markdown for a review.")(function)
    return json_option(function)


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("old")
@click.argument("new")
@report_options
@static_option
@click.option("--header", "headers", multiple=True, metavar="'K: V'", help="HTTP header to send.")
@click.option("--protocol", type=click.Choice(["auto", *VERSIONS]), help="MCP version to use.")
def diff(
    terminal: Terminal,
    old: str,
    new: str,
    as_json: bool,
    markdown: bool,
    fail_on: str | None,
    static: bool,
    headers: Sequence[str],
    protocol: str | None,
) -> int:
    """Show the changes of tools, resources and prompts between two catalogs.

    OLD and NEW are each a target (a Python file, folder, module, toolcrib.toml or descriptor), a lock file,
    the URL of an MCP server, or a git commit: REVISION or REVISION:PATH. `toolcrib lock --check` compares
    with the lock file.

    Changes are graded cosmetic, compatible, breaking or suspicious. Exit code 1: some changes are of the
    grade of --fail-on, or worse.
    """
    if (headers or protocol) and not (is_address(old) or is_address(new)):
        raise CommandError("--header and --protocol require a running server", "give its URL")
    source = ToolSource((), static, None, headers, protocol)
    sides = parse_side(old), parse_side(new)
    if any(isinstance(side, Commit) for side in sides):
        source = replace(source, static=True)  # a commit is never run, so that the other side is not either
    after = read_side(sides[1], sides[0], source, terminal)  # a missing target comes before a missing lock
    before = read_side(sides[0], sides[1], source, terminal)
    with Progress(terminal, "comparing tools") as progress:
        comparison = compare(before.everything, after.everything, progress)
    report(comparison, before, after, terminal, as_json=as_json, markdown=markdown)
    return 1 if after.errors and fail_on != "never" else exit_code(comparison, fail_on)


def exit_code(comparison: Comparison, fail_on: str | None) -> int:
    grade = next((grade for grade in GRADES if grade == (fail_on or "breaking")), None)
    return 1 if grade is not None and comparison.at_least(grade) else 0


def report(
    comparison: Comparison,
    old: Catalog,
    new: Catalog,
    terminal: Terminal,
    *,
    as_json: bool,
    markdown: bool,
    **facts: Any,
) -> None:
    """Print the changes between two catalogs; `facts` are added to the JSON."""
    if as_json and markdown:
        raise exclusive("--json", "--markdown")
    for side in (old, new):
        for error in side.errors:
            terminal.finding(error)
        if side.errors:
            text = f"{count(len(side.errors), 'problem')} in {side.label}: invalid tools are not compared"
            terminal.message("warning", text)
    if as_json:
        terminal.json(
            {
                **facts,
                "old": {"name": old.label, "tools": comparison.before},
                "new": {"name": new.label, "tools": comparison.after},
                "counts": comparison.counts,
                "worst": comparison.worst,
                "advice": comparison.advice,
                "changes": [change.to_json() for change in comparison.changes],
                "findings": [finding.to_json() for side in (old, new) for finding in side.findings],
            }
        )
    elif markdown:
        terminal.echo(to_markdown(comparison, old.label, new.label))
    else:
        for line in format_changes(comparison):
            terminal.echo(line)


# --- output ----------------------------------------------------------------------------------------------


def format_changes(comparison: Comparison) -> Iterator[Styled]:
    """Yield every change as lines for a terminal, then a summary."""
    indent = " " * (_GRADE_WIDTH + 6)
    for tool, group in groupby(comparison.changes, key=lambda change: change.tool):
        changes = list(group)
        place = format_source(changes[0].source)
        yield join(style(one_line(tool), **NAME_STYLE), style(f"  {place}", dim=True) if place != "-" else "")
        for change in changes:
            grade = style(change.grade.ljust(_GRADE_WIDTH), fg=_COLOURS[change.grade])
            yield join("  ", grade, "  ", one_line(change.message))
            if change.pointer and (change.old is not None or change.new is not None):
                yield join(f"{indent}at {one_line(change.pointer)}")
            for sign, value in (("-", change.old), ("+", change.new)):
                if value is not None:
                    yield join(f"{indent}{sign} {one_line(value)}")
        yield join()
    yield join(_summarize(comparison))


def _summarize(comparison: Comparison) -> str:
    if not comparison.changes:
        return f"No changes: {count(comparison.after, comparison.noun)}."
    counts = ", ".join(f"{number} {grade}" for grade, number in comparison.counts.items() if number)
    tools = count(len(comparison.tools), comparison.noun)
    advice = f"next version: {comparison.advice}"
    if comparison.counts["suspicious"]:
        advice = f"review the suspicious changes first; {advice}"
    return f"{tools} changed ({comparison.before} before, {comparison.after} after): {counts}; {advice}."


def to_markdown(comparison: Comparison, old: str, new: str) -> str:
    """Return the changes as a comment for a pull request."""
    lines = [
        f"### {comparison.noun.capitalize()}s: {code_span(old)} → {code_span(new)}",
        "",
        _summarize(comparison),
    ]
    shown = comparison.changes[:_MAX_MARKDOWN_CHANGES]
    for tool, group in groupby(shown, key=lambda change: change.tool):
        changes = list(group)
        place = format_source(changes[0].source)
        lines += ["", f"**{code_span(tool)}**{f' ({code_span(place)})' if place != '-' else ''}", ""]
        for change in changes:
            lines += _change_markdown(change)
    if len(comparison.changes) > len(shown):
        lines += ["", f"And {len(comparison.changes) - len(shown)} more."]
    return "\n".join(lines) + "\n"


def _change_markdown(change: Change) -> Iterator[str]:
    yield f"- **{change.grade}**: {change.template.format(*map(code_span, change.names))}"
    for label, value in (("was", change.old), ("is", change.new)):
        if value:
            yield f"  - {label} {code_span(value)}"


def code_span(text: str) -> str:
    """Return untrusted text as a Markdown code span that it cannot break out of."""
    plain = one_line(text) or " "
    longest = max((len(run) for run in re.findall(r"`+", plain)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest or plain.startswith(" ") else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


# --- sides -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit and a path in it; an empty path means the tools configured there."""

    repository: Repository
    hash: str
    name: str
    path: str


Side = Commit | Path | str
"""A commit, a lock file, or a target."""


def parse_side(text: str) -> Side:
    """Return what a side is. An existing file takes precedence over a commit."""
    path = Path(text)
    if text.endswith(".lock"):
        return path
    if path.exists() or is_address(text):
        return text
    name, _, inside = text.partition(":")
    try:
        repository = Repository.around(Path.cwd())
    except ConfigurationError:
        return text
    found = repository.find_commit(name)
    if found is None:
        return text
    below = repository.here / inside
    if inside and (below.is_absolute() or os.path.normpath(below).startswith("..")):
        raise CommandError(f"{inside} is not in the repository", "use REVISION:PATH")
    return Commit(repository, found, name, inside)


def read_side(side: Side, other: Side, source: ToolSource, terminal: Terminal) -> Catalog:
    """Return the catalog of a side. A commit without a path is read at the path of the other side."""
    if isinstance(side, Commit):
        return read_commit(side, other if isinstance(other, str) else "", terminal)
    if isinstance(side, Path):
        return open_catalog([str(side)], terminal, how="lock")
    if not is_address(side):
        source = replace(source, headers=(), protocol=None)
    return replace(source, targets=(side,)).open(terminal)


def read_commit(commit: Commit, other: str, terminal: Terminal) -> Catalog:
    """Read the tools in the files of a commit. Without a path, the path of the other side is read."""
    repository = commit.repository
    found = Catalog(label=commit.name)
    with tempfile.TemporaryDirectory(prefix="toolcrib-") as folder:
        root = Path(folder).resolve()
        repository.extract(commit.hash, root, repository.here / commit.path)
        target = _find_target(commit, root, other)
        if not target.exists():
            return found  # it did not exist yet
        scanned = scan_targets([str(target)], terminal)
        for finding in scanned.findings:
            if finding.code != "no-tools":  # there may have been none at that commit
                message = finding.message.replace(f"{root}/", "").replace(str(root), commit.name)
                file = _name_place(finding.where, root, commit.name).file
                found.findings.append(replace(finding, message=message, file=file))
        for tool in (*scanned.tools, *scanned.features, *scanned.unlisted):
            path = Path(tool.source.file or root)
            # An import may have led to a file of the working tree, which is not part of the commit.
            if path.is_relative_to(root) or not path.resolve().is_relative_to(repository.root.resolve()):
                place = _name_place(tool.source, root, commit.name)
                moved = describe_entry(tool.to_wire(), place, tool.version)
                if tool.kind == "tool":
                    moved = describe(replace(tool.definition, source=place))
                scopes = tool.options.scopes
                found.components.append(moved.with_options(scopes=scopes) if scopes else moved)
    return found


def _find_target(commit: Commit, root: Path, other: str) -> Path:
    """Return what to read: the named path, that of the other side, the configuration, or everything."""
    here = root / commit.repository.here
    if commit.path:
        for path in (here / commit.path, root.joinpath(*PurePosixPath(commit.path).parts)):
            if path.exists():
                return path
        raise CommandError(f"No {commit.path} with tools in {commit.name}")
    if other and Path(other).exists():
        try:
            return root / Path(other).resolve().relative_to(commit.repository.root.resolve())
        except ValueError:
            text = f"{other} is not in the repository of {commit.name}"
            raise CommandError(text, "use REVISION:PATH") from None
    return here / FILE_NAME if (here / FILE_NAME).is_file() else here


def _name_place(source: Location, root: Path, name: str) -> Location:
    """Return a place in the extracted commit as `REVISION:path`."""
    if source.file is None or not Path(source.file).is_relative_to(root):
        return source
    return Location(f"{name}:{Path(source.file).relative_to(root).as_posix()}", source.line)
