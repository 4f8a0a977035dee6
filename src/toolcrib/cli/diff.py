"""`toolcrib diff`: show the changes between two catalogs and how severe they are.

A side is a target, a lock file, `cmd:` with a command that starts a server, or a git commit, whose files are
read and never run. Names, descriptions and values are untrusted: they are escaped on a terminal, and stand in
code spans in Markdown.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

import click

from toolcrib.catalog.diff.compare import GRADES, Change, Comparison, compare
from toolcrib.catalog.git import Repository
from toolcrib.catalog.lock import Lock
from toolcrib.cli.catalog import ToolSet, ToolSource, find_lock
from toolcrib.cli.options import Command, CommandError, exclusive, json_option, static_option
from toolcrib.cli.output import Terminal, format_source
from toolcrib.cli.remote import RemoteOptions
from toolcrib.cli.text import Styled, count, join, one_line, style
from toolcrib.client.session import VERSIONS
from toolcrib.config import FILE_NAME
from toolcrib.errors import ConfigurationError, Finding, Location
from toolcrib.sources.described import describe
from toolcrib.sources.targets import is_address
from toolcrib.tool import Tool

EXAMPLES = """
toolcrib diff                          the lock file and the current tools
toolcrib diff tools.py                 the lock file and this file
toolcrib diff main tools.py            a commit and the current file
toolcrib diff HEAD~3..HEAD             two commits; read, not run
toolcrib diff v1.0:shop v2.0:shop      a folder in both
toolcrib diff old.lock http://127.0.0.1:8000/mcp
toolcrib diff 'cmd:python old.py' 'cmd:python new.py'
toolcrib diff main.. --markdown        for a pull request
"""
COMMAND = "cmd:"
COMMIT = "git:"
_COLOURS = {"suspicious": "magenta", "breaking": "red", "compatible": "green", "cosmetic": "cyan"}
_GRADE_WIDTH = max(map(len, GRADES))
_MAX_MARKDOWN_CHANGES = 300
_REVISION = re.compile(r"(?:HEAD|@|[0-9a-f]{7,40}|[\w./-]*[~^@{][\w~^@{}/.-]*)(?::.*)?")


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("sides", nargs=-1, metavar="[OLD] [NEW]")
@json_option
@click.option("--markdown", is_flag=True, help="Print Markdown for a review.")
@click.option(
    "--fail-on",
    type=click.Choice([*reversed(GRADES), "never"]),
    default="breaking",
    show_default=True,
    help="Lowest grade that makes the exit code 1.",
)
@click.option(
    "--lock", "lock_file", metavar="FILE", help="Lock file.  [default: from toolcrib.toml, or toolcrib.lock]"
)
@static_option
@click.option("--header", "headers", multiple=True, metavar="'K: V'", help="HTTP header to send.")
@click.option("--protocol", type=click.Choice(["auto", *VERSIONS]), help="MCP version to use.")
def diff(
    terminal: Terminal,
    sides: Sequence[str],
    as_json: bool,
    markdown: bool,
    fail_on: str,
    lock_file: str | None,
    static: bool,
    headers: Sequence[str],
    protocol: str | None,
) -> int:
    """Show the changes between two catalogs.

    OLD and NEW are each a target (a Python file, folder, module, toolcrib.toml or descriptor), a lock file,
    the URL of an MCP server, cmd: and a command that starts one, or a git commit: REVISION or REVISION:PATH.
    With one side, the lock file is OLD; a single commit is compared with the current tools. Without sides,
    the lock file is compared with the tools of toolcrib.toml.

    Changes are graded cosmetic, compatible, breaking or suspicious. Exit code 1: some changes are of the
    grade of --fail-on, or worse.
    """
    if as_json and markdown:
        raise exclusive("--json", "--markdown")
    if len(sides) > 2:
        raise CommandError(f"Expected at most two sides, got {len(sides)}", "use OLD NEW")
    if (headers or protocol) and not any(is_address(side) or side.startswith(COMMAND) for side in sides):
        raise CommandError("--header and --protocol require a running server", "give its URL")
    reader = _SideReader(terminal, static, RemoteOptions(None, headers, protocol))
    old, new = reader.read(list(sides), lock_file)
    for side in (old, new):
        for error in side.errors:
            terminal.finding(error)
        if side.errors:
            text = f"{count(len(side.errors), 'problem')} in {side.label}: invalid tools are not compared"
            terminal.message("warning", text)
    comparison = compare(old.tools, new.tools)
    if as_json:
        terminal.json(_to_json(comparison, old, new))
    elif markdown:
        terminal.echo(to_markdown(comparison, old.label, new.label))
    else:
        for line in format_changes(comparison, terminal.out_colour):
            terminal.echo(line)
    if fail_on == "never":
        return 0
    return 1 if new.errors or comparison.at_least(next(grade for grade in GRADES if grade == fail_on)) else 0


def _to_json(comparison: Comparison, old: ToolSet, new: ToolSet) -> dict[str, object]:
    return {
        "old": {"name": old.label, "tools": comparison.before},
        "new": {"name": new.label, "tools": comparison.after},
        "counts": comparison.counts,
        "worst": comparison.worst,
        "advice": comparison.advice,
        "changes": [change.to_json() for change in comparison.changes],
        "findings": [finding.to_json() for side in (old, new) for finding in side.findings],
    }


# --- output ----------------------------------------------------------------------------------------------


def format_changes(comparison: Comparison, colour: bool) -> Iterator[Styled]:
    """Yield every change as lines for a terminal, then a summary."""

    def styled(text: str, **how: Any) -> str:
        return style(text, **how) if colour else text

    indent = " " * (_GRADE_WIDTH + 6)
    for tool, group in groupby(comparison.changes, key=lambda change: change.tool):
        changes = list(group)
        place = format_source(changes[0].source)
        yield join(styled(one_line(tool), bold=True), f"  {place}" if place != "-" else "")
        for change in changes:
            grade = styled(change.grade.ljust(_GRADE_WIDTH), fg=_COLOURS[change.grade])
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
        return f"No changes: {count(comparison.after, 'tool')}."
    counts = ", ".join(f"{number} {grade}" for grade, number in comparison.counts.items() if number)
    tools = count(len(comparison.tools), "tool")
    advice = f"next version: {comparison.advice}"
    if comparison.counts["suspicious"]:
        advice = f"review the suspicious changes first; {advice}"
    return f"{tools} changed ({comparison.before} before, {comparison.after} after): {counts}; {advice}."


def to_markdown(comparison: Comparison, old: str, new: str) -> str:
    """Return the changes as a comment for a pull request."""
    lines = [f"### Tools: {code_span(old)} → {code_span(new)}", "", _summarize(comparison)]
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
class _SideReader:
    """Reads the tools of the sides of a diff."""

    terminal: Terminal
    static: bool
    remote: RemoteOptions

    def read(self, sides: list[str], lock_file: str | None) -> tuple[ToolSet, ToolSet]:
        if len(sides) == 1 and (ends := find_range(sides[0])) is not None:
            sides = list(ends)
        elif len(sides) == 1 and not is_lock(sides[0]) and find_commit(sides[0]) is not None:
            sides = [sides[0], ""]  # as with `git diff REVISION`
        if len(sides) == 2:
            if lock_file is not None:
                raise CommandError("--lock cannot be combined with OLD and NEW", "give it as OLD or NEW")
            return self._read_both(sides[0], sides[1])
        if sides and is_lock(sides[0]):
            return read_lock(Path(sides[0])), self._read_here()
        path, _ = find_lock([side for side in sides if side.endswith(".toml")], lock_file)
        if not sides:
            return read_lock(path), self._read_here()
        new = self._read_side(sides[0])  # a missing target is reported before a missing lock file
        return read_lock(path), new

    def _read_both(self, first: str, second: str) -> tuple[ToolSet, ToolSet]:
        """Read both sides; where one is a commit, which is never run, the other is not run either."""
        is_commit = any(
            side and not is_lock(side) and find_commit(side) is not None for side in (first, second)
        )
        reader = replace(self, static=True) if is_commit else self
        return (
            reader._read_side(first, second or None) if first else reader._read_here(),
            reader._read_side(second, first or None) if second else reader._read_here(),
        )

    def _read_side(self, text: str, other: str | None = None) -> ToolSet:
        """Read one side; a commit without a path uses the path of the other side."""
        if text.startswith(COMMAND):
            return self._collect((), text.removeprefix(COMMAND))
        if is_lock(text):
            return read_lock(Path(text))
        commit = find_commit(text)
        if commit is not None:
            return read_commit(commit, other)
        _check_unknown_commit(text)
        return self._collect((text,))

    def _read_here(self) -> ToolSet:
        """Read the tools of toolcrib.toml; without it, for a comparison with a commit, of the folder."""
        found = self._collect(())
        if found.is_sample:
            if not self.static:
                raise CommandError(f"No {FILE_NAME} in the current folder", "name the tools as NEW")
            found = self._collect((".",))
        found.label = "current tools"
        return found

    def _collect(self, targets: Sequence[str], command: str | None = None) -> ToolSet:
        is_remote = command is not None or any(is_address(target) for target in targets)
        remote = replace(self.remote, command=command) if is_remote else RemoteOptions()
        return ToolSource(targets, self.static, remote).collect(self.terminal, with_unlisted=True)


def is_lock(text: str) -> bool:
    path = Path(text)
    if not path.is_file():
        return text.endswith(".lock")
    if path.suffix == ".lock":
        return True
    with path.open("rb") as stream:
        head = stream.read(4096)
    return path.suffix == ".json" and b'"fingerprint"' in head and b'"format"' in head


def read_lock(path: Path) -> ToolSet:
    return ToolSet(Lock.load(path).tools, [], str(path))


# --- commits ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit and a path in it; an empty path means the tools configured there."""

    repository: Repository
    hash: str
    name: str
    path: str


def find_commit(text: str) -> Commit | None:
    """Return the commit that `HEAD~1` or `main:tools/` names, or None. An existing file takes precedence;
    `git:` in front forces a commit."""
    is_forced = text.startswith(COMMIT)
    text = text.removeprefix(COMMIT)
    if not is_forced and (Path(text).exists() or is_address(text) or text.startswith(COMMAND)):
        return None
    try:
        repository = Repository.around(Path.cwd())
    except ConfigurationError as error:
        if not is_forced:
            return None
        raise CommandError(error.message, error.hint) from None
    name, _, path = text.partition(":")
    found = repository.find_commit(name)
    if found is None:
        if is_forced:
            raise _unknown_commit(name)
        return None
    below = repository.here / path
    if path and (below.is_absolute() or os.path.normpath(below).startswith("..")):
        raise CommandError(f"{path} is not in the repository", "use REVISION:PATH")
    return Commit(repository, found, name, path)


def find_range(text: str) -> tuple[str, str] | None:
    """Return both ends of `OLD..NEW`; an omitted end is empty."""
    first, dots, second = text.partition("..")
    if not dots or Path(text).exists() or is_address(text) or first.endswith("/") or second.startswith("/"):
        return None
    if second.startswith("."):
        raise CommandError(f"{text} has three dots", "write OLD..NEW")
    ends = [end for end in (first, second) if end]
    return (first, second) if ends and all(find_commit(end) is not None for end in ends) else None


def _check_unknown_commit(text: str) -> None:
    """Raise an error about commits for a text that can only be one but is not."""
    if Path(text).exists() or _REVISION.fullmatch(text) is None:
        return
    name = text.partition(":")[0]
    try:
        Repository.around(Path.cwd())
    except ConfigurationError as error:
        raise CommandError(f"{name} looks like a commit, but {error.message}", error.hint) from None
    raise _unknown_commit(name)


def _unknown_commit(name: str) -> CommandError:
    return CommandError(f"Unknown commit: {name}", "`git log` lists them")


def read_commit(commit: Commit, other: str | None = None) -> ToolSet:
    """Read the tools in the files of a commit."""
    from toolcrib.sources.scan import scan  # delayed: only commits need it

    repository = commit.repository
    found = ToolSet(label=commit.name)
    with tempfile.TemporaryDirectory(prefix="toolcrib-") as folder:
        root = Path(folder).resolve()
        below = repository.here / commit.path if commit.path else repository.here
        repository.extract(commit.hash, root, below)
        target = _find_target(commit, root, other)
        if target is None:
            return found  # the file did not exist yet
        scanned = scan(str(target))
        for finding in scanned.findings:
            if finding.code != "no-tools":  # there may have been none at that commit
                found.findings.append(_move_finding(finding, root, commit.name))
        for tool in (*scanned.tools, *scanned.unlisted):
            file = Path(tool.source.file or root)
            # An import may have led to a file of the working tree, which is not part of the commit.
            if file.is_relative_to(root) or not file.resolve().is_relative_to(repository.root.resolve()):
                found.tools.append(_move_tool(tool, root, commit.name))
    return found


def _find_target(commit: Commit, root: Path, other: str | None) -> Path | None:
    """Return what to read: the named path, that of the other side, the configuration, or everything."""
    here = commit.repository.here
    if commit.path:
        paths = [root.joinpath(*(here / commit.path).parts)]
        paths.append(root.joinpath(*PurePosixPath(commit.path).parts))
        for path in paths:
            if path.exists():
                return path
        raise CommandError(f"No {commit.path} with tools in {commit.name}")
    place = root.joinpath(*here.parts)
    if other is not None and Path(other).exists() and not is_lock(other):
        try:
            path = root / Path(other).resolve().relative_to(commit.repository.root.resolve())
        except ValueError:
            text = f"{other} is not in the repository of {commit.name}"
            raise CommandError(text, "use REVISION:PATH") from None
        return path if path.exists() else None
    return place / FILE_NAME if (place / FILE_NAME).is_file() else place if place.exists() else None


def _move_tool(tool: Tool, root: Path, name: str) -> Tool:
    definition = tool.definition
    moved = describe(replace(definition, source=_move_source(definition.source, root, name)))
    return moved.with_options(scopes=tool.options.scopes) if tool.options.scopes else moved


def _move_finding(finding: Finding, root: Path, name: str) -> Finding:
    message = finding.message.replace(f"{root}/", "").replace(str(root), name)
    return replace(finding, message=message, file=_move_source(finding.where, root, name).file)


def _move_source(source: Location, root: Path, name: str) -> Location:
    """Return a place in the extracted commit as `REVISION:path`."""
    if source.file is None or not Path(source.file).is_relative_to(root):
        return source
    return Location(f"{name}:{Path(source.file).relative_to(root).as_posix()}", source.line)
