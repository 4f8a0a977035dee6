"""`toolcrib lock` and `toolcrib diff`: pin definitions in a lock file, and show what changed and how much.

Both print one report about two catalogs. A side of `diff` is a target, a lock file, the URL of a server, or
a git commit, whose files are read and never run. Names, descriptions and values are untrusted: they are
escaped on a terminal, and in code spans in Markdown.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import wraps
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

import click

from toolcrib.catalog.catalog import Catalog, open_catalog
from toolcrib.catalog.compare import Comparison, compare
from toolcrib.catalog.compare_schemas import GRADES
from toolcrib.catalog.lock import Lock
from toolcrib.cli.catalog import (
    ToolSource,
    find_lock,
    open_local,
    source_options,
    static_option,
)
from toolcrib.cli.git import Commit
from toolcrib.cli.options import Command, CommandError, exclusive, json_option
from toolcrib.cli.output import Progress, Terminal, format_source
from toolcrib.cli.text import NAME_STYLE, Styled, count, join, one_line, style, suggest
from toolcrib.client.session import VERSIONS
from toolcrib.config import FILE_NAME
from toolcrib.errors import Location
from toolcrib.registry.selection import KINDS, count_kinds, label_of, name_kinds
from toolcrib.sources.described import describe, describe_entry
from toolcrib.sources.targets import is_address

LOCK = """
toolcrib lock tools.py                       write toolcrib.lock
toolcrib lock tools.py --check               in a pipeline: is it current?
toolcrib lock . --check --base origin/main   what a branch changes
toolcrib lock tools.py --update find_orders  accept the changes of one tool
toolcrib lock shop.py --update 'prompt:*'    accept all prompts
toolcrib lock shop/ --static                 without importing it
toolcrib lock http://127.0.0.1:8000/mcp      the tools of a running server
toolcrib lock                                the targets of toolcrib.toml
"""
DIFF = """
toolcrib diff old.py new.py
toolcrib diff main tools.py            a commit and the current file
toolcrib diff v1.0:shop v2.0:shop      a folder in two commits, not run
toolcrib diff old.lock http://127.0.0.1:8000/mcp
toolcrib diff main . --markdown        for a pull request
"""
_COLOURS = {"suspicious": "magenta", "breaking": "red", "compatible": "green", "cosmetic": "cyan"}
_GRADE_WIDTH = max(map(len, GRADES))
_MAX_MARKDOWN_CHANGES = 300


@dataclass(frozen=True, slots=True)
class Report:
    """How the changes between two catalogs are printed, and from which grade on they fail."""

    as_json: bool
    markdown: bool
    fail_on: str | None

    @property
    def is_plain(self) -> bool:
        return not self.as_json and not self.markdown

    def compare(self, old: Catalog, new: Catalog, terminal: Terminal) -> int:
        """Compare two catalogs and print the changes; return the exit code."""
        with Progress(terminal, "comparing tools") as progress:
            comparison = compare(old.everything, new.everything, progress)
        self.show(comparison, old, new, terminal)
        return 1 if new.errors and self.fail_on != "never" else self.exit_code(comparison)

    def exit_code(self, comparison: Comparison) -> int:
        grade = next((grade for grade in GRADES if grade == (self.fail_on or "breaking")), None)
        return 1 if grade is not None and comparison.at_least(grade) else 0

    def show(
        self, comparison: Comparison, old: Catalog, new: Catalog, terminal: Terminal, **facts: Any
    ) -> None:
        """Print the changes between two catalogs; `facts` are added to the JSON."""
        for side in (old, new):
            for error in side.errors:
                terminal.finding(error)
            if side.errors:
                text = f"{count(len(side.errors), 'problem')} in {side.label}: invalid tools are not compared"
                terminal.message("warning", text)
        if self.as_json:
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
        elif self.markdown:
            terminal.echo(to_markdown(comparison, old.label, new.label))
        else:
            for line in format_changes(comparison):
                terminal.echo(line)


def report_options(function: Any) -> Any:
    """Add the options of a report about changes; pass them as `report: Report`."""

    @wraps(function)
    def call(*args: Any, as_json: bool, markdown: bool, fail_on: str | None, **given: Any) -> Any:
        if as_json and markdown:
            raise exclusive("--json", "--markdown")
        return function(*args, report=Report(as_json, markdown, fail_on), **given)

    choices = click.Choice([*reversed(GRADES), "never"])
    text = "Lowest grade that makes the exit code 1.  [default: breaking]"
    call = click.option("--fail-on", type=choices, help=text)(call)
    call = click.option("--markdown", is_flag=True, help="Print Markdown for a review.")(call)
    return json_option(call)


# --- diff ------------------------------------------------------------------------------------------------


@click.command(cls=Command, examples=DIFF)
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
    report: Report,
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
    return report.compare(before, after, terminal)


# --- lock ------------------------------------------------------------------------------------------------


@click.command(cls=Command, examples=LOCK)
@source_options()
@report_options
@click.option("--output", metavar="FILE", help="Lock file.  [default: from toolcrib.toml, or toolcrib.lock]")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if the lock file is out of date.")
@click.option("--base", metavar="REV|FILE", help="With --check: compare with a commit or another lock file.")
@click.option("--update", multiple=True, metavar="NAME", help="Only this one (name or glob); repeatable.")
@click.option("--partial", is_flag=True, help="Lock the valid tools although others have errors.")
def lock(
    terminal: Terminal,
    source: ToolSource,
    report: Report,
    output: str | None,
    check: bool,
    base: str | None,
    update: Sequence[str],
    partial: bool,
) -> int:
    """Pin the definitions of tools, resources and prompts in a lock file.

    Commit the file with your code. `toolcrib serve --locked` serves only what it pins, `--check` shows what
    changed since, or since the commit or file of --base. It covers names, descriptions, schemas, hints and
    scopes, and the files of skills, but not code and not the content of other resources. A NAME is a tool,
    prompt:NAME or resource:URI. Exit code 1: not written, out of date, or with --fail-on, changes of
    this grade or worse.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml or the URL of an MCP server.
    """
    if check and update:
        raise exclusive("--check", "--update")
    for option, given in (("--base", base), ("--fail-on", report.fail_on), ("--markdown", report.markdown)):
        if given and not check:
            raise CommandError(f"{option} requires --check")
    file, _ = find_lock(source.targets, output)
    if base is not None:
        return _compare_with(base, source, report, terminal)
    old = Lock.load(file) if file.exists() else None
    if old is None and update:
        raise CommandError(f"Cannot update {file}: no such file", "write it first, without --update")
    found = source.open(terminal)
    found.drop_duplicates()
    if found.errors and not (partial and found.everything):
        for error in found.errors:
            terminal.finding(error)
        hint = "fix them, or lock the others with --partial" if found.everything else None
        terminal.message("error", f"Not locked: {count(len(found.errors), 'problem')}", hint)
        return 1
    with Progress(terminal, "locking tools") as progress:
        new = Lock.of(progress.track(found.everything), file)
    if old is not None and check and source.remote is not None:
        new = _without_unknown(new, old)
    elif old is not None and update:
        new = _update(old, new, update)
    with Progress(terminal, "comparing tools") as progress:
        comparison = compare(old.tools if old is not None else (), new.tools, progress)
    is_changed = old is None or _pins_json(old) != _pins_json(new)
    if is_changed and not check:
        new.save(file)
    before = Catalog(label=str(file))
    facts = {
        "file": str(file),
        "written": is_changed and not check,
        "up_to_date": not is_changed or not check,
    }
    if report.is_plain:
        _print(comparison, old, new, terminal, check=check, is_changed=is_changed)
    else:
        facts |= {f"{kind}s": [pin.kind for pin in new.pins.values()].count(kind) for kind in KINDS}
        report.show(comparison, before, found, terminal, **facts)
    return (report.exit_code(comparison) if report.fail_on else int(is_changed)) if check else 0


def _print(
    comparison: Comparison, old: Lock | None, new: Lock, terminal: Terminal, *, check: bool, is_changed: bool
) -> None:
    pins = count_kinds(map(label_of, new.tools))
    if not is_changed:
        terminal.message("note", f"{new.file} is up to date: {pins}")
        return
    suspicious = comparison.at_least("suspicious")
    if old is not None or suspicious:
        shown = comparison if old is not None else replace(comparison, changes=suspicious)
        for line in format_changes(shown):
            (terminal.echo if check else terminal.echo_err)(line)
    if not check:
        terminal.message("note", f"{new.file} written: {pins}")
    elif old is None:
        terminal.message("error", f"No such file: {new.file}", "write it: run this without --check")
    else:
        hint = "review the changes, then accept them: run this without --check, or with --update NAME"
        terminal.message("error", f"{new.file} is out of date", hint)


def _compare_with(base: str, source: ToolSource, report: Report, terminal: Terminal) -> int:
    """Compare the targets with a commit or a lock file."""
    side = parse_side(base)
    if isinstance(side, str):
        raise CommandError(f"{base} is not a lock file or a commit", "compare targets with toolcrib diff")
    if not isinstance(side, Path) and source.remote is None:
        source = replace(source, static=True)  # a commit is never run, so that the other side is not either
    new = source.open(terminal)
    new.label = new.label or "current tools"
    target = source.targets[0] if len(source.targets) == 1 else ""
    return report.compare(read_side(side, target, source, terminal), new, terminal)


def _pins_json(lock: Lock) -> dict[object, object]:
    return {key: pin.to_json() for key, pin in lock.pins.items()}


def _without_unknown(new: Lock, old: Lock) -> Lock:
    """Return a lock with the files and scopes of the old one: a running server does not tell them."""
    pins = dict(new.pins)
    for key in pins.keys() & old.pins.keys():
        pins[key] = replace(pins[key], source=old.pins[key].source, scopes=old.pins[key].scopes)
    return replace(new, pins=pins)


def _update(old: Lock, new: Lock, names: Sequence[str]) -> Lock:
    """Return the old lock with the current definitions of some tools, removed ones included."""
    known = dict.fromkeys(key[0] for key in (*old.pins, *new.pins))
    tools = [*old.tools, *new.tools]
    for name in names:
        if not any(fnmatchcase(other, name) for other in known):
            raise CommandError(f"Unknown {name_kinds(name, tools)}: {name}", suggest(name, known))

    def is_named(key: tuple[str, str | None]) -> bool:
        return any(fnmatchcase(key[0], name) for name in names)

    kept = {key: pin for key, pin in old.pins.items() if not is_named(key)}
    return replace(old, pins=kept | {key: pin for key, pin in new.pins.items() if is_named(key)})


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
            lines.append(f"- **{change.grade}**: {change.template.format(*map(code_span, change.names))}")
            values = (("was", change.old), ("is", change.new))
            lines += [f"  - {label} {code_span(value)}" for label, value in values if value]
    if len(comparison.changes) > len(shown):
        lines += ["", f"And {len(comparison.changes) - len(shown)} more."]
    return "\n".join(lines) + "\n"


def code_span(text: str) -> str:
    """Return untrusted text as a Markdown code span that it cannot break out of."""
    plain = one_line(text) or " "
    longest = max((len(run) for run in re.findall(r"`+", plain)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest or plain.startswith(" ") else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


# --- sides -----------------------------------------------------------------------------------------------


Side = Commit | Path | str
"""A commit, a lock file, or a target."""


def parse_side(text: str) -> Side:
    """Return the kind of a side. An existing file takes precedence over a commit."""
    path = Path(text)
    if text.endswith(".lock"):
        return path
    if path.exists() or is_address(text):
        return text
    commit = Commit.find(text, Path.cwd())
    if commit is None:
        return text
    below = commit.here / commit.path
    if commit.path and (below.is_absolute() or os.path.normpath(below).startswith("..")):
        raise CommandError(f"{commit.path} is not in the repository", "use REVISION:PATH")
    return commit


def read_side(side: Side, other: Side, source: ToolSource, terminal: Terminal) -> Catalog:
    """Return the catalog of a side. A commit without a path is read at the path of the other side."""
    if isinstance(side, Commit):
        return read_commit(side, other if isinstance(other, str) else "", terminal)
    if isinstance(side, Path):
        return open_catalog([str(side)], "lock")
    if not is_address(side):
        source = replace(source, headers=(), protocol=None)
    return replace(source, targets=(side,)).open(terminal)


def read_commit(commit: Commit, other: str, terminal: Terminal) -> Catalog:
    """Read the tools in the files of a commit. Without a path, the path of the other side is read."""
    found = Catalog(label=commit.name)
    with tempfile.TemporaryDirectory(prefix="toolcrib-") as folder:
        root = Path(folder).resolve()
        commit.extract(root)
        target = _find_target(commit, root, other)
        if not target.exists():
            return found  # it did not exist yet
        scanned = open_local([str(target)], terminal, "static")
        for finding in scanned.findings:
            if finding.code != "no-tools":  # there may have been none at that commit
                message = finding.message.replace(f"{root}/", "").replace(str(root), commit.name)
                file = _name_place(finding.where, root, commit.name).file
                found.findings.append(replace(finding, message=message, file=file))
        for tool in scanned.everything:
            path = Path(tool.source.file or root)
            # An import may have led to a file of the working tree, which is not part of the commit.
            if path.is_relative_to(root) or not path.resolve().is_relative_to(commit.root.resolve()):
                place = _name_place(tool.source, root, commit.name)
                moved = describe_entry(tool.to_wire(), place, tool.version)
                if tool.kind == "tool":
                    moved = describe(replace(tool.definition, source=place))
                scopes = tool.options.scopes
                found.components.append(moved.with_options(scopes=scopes) if scopes else moved)
    return found


def _find_target(commit: Commit, root: Path, other: str) -> Path:
    """Return the path to read: the named one, the other side's, the configuration, or everything."""
    here = root / commit.here
    if commit.path:
        for path in (here / commit.path, root.joinpath(*PurePosixPath(commit.path).parts)):
            if path.exists():
                return path
        raise CommandError(f"No {commit.path} with tools in {commit.name}")
    if other and Path(other).exists():
        try:
            return root / Path(other).resolve().relative_to(commit.root.resolve())
        except ValueError:
            text = f"{other} is not in the repository of {commit.name}"
            raise CommandError(text, "use REVISION:PATH") from None
    return here / FILE_NAME if (here / FILE_NAME).is_file() else here


def _name_place(source: Location, root: Path, name: str) -> Location:
    """Return a place in the extracted commit as `REVISION:path`."""
    if source.file is None or not Path(source.file).is_relative_to(root):
        return source
    return Location(f"{name}:{Path(source.file).relative_to(root).as_posix()}", source.line)
