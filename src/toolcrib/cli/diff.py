"""`toolcrib diff`: show the changes between two catalogs and how severe they are.

A side is a target, a lock file, `cmd:` with a command that starts a server, or a git commit, whose files are
read and never run. Names, descriptions and values are untrusted: they are escaped on a terminal, and stand in
code spans in Markdown.
"""

from __future__ import annotations

import os
import re
import subprocess  # git, with arguments that are ours
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path, PurePosixPath

import click

from toolcrib.catalog.diff import GRADES, Change
from toolcrib.catalog.diff.compare import Comparison, compare
from toolcrib.catalog.features import describe_feature
from toolcrib.catalog.lock import Lock
from toolcrib.cli.catalog import ToolSet, ToolSource, find_lock, scan_targets, static_option
from toolcrib.cli.options import Command, CommandError, exclusive, json_option
from toolcrib.cli.output import Progress, Terminal, format_source
from toolcrib.cli.text import NAME_STYLE, Styled, count, join, one_line, style
from toolcrib.client.session import VERSIONS
from toolcrib.config import FILE_NAME
from toolcrib.errors import ConfigurationError, Location
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
    """Show the changes of tools, resources and prompts between two catalogs.

    OLD and NEW are each a target (a Python file, folder, module, toolcrib.toml or descriptor), a lock file,
    the URL of an MCP server, cmd: and a command that starts one, or a git commit: REVISION or REVISION:PATH.
    A single argument is NEW, and the lock file is OLD; a single commit is compared with the current tools.
    Without arguments, the lock file is compared with the tools of toolcrib.toml.

    Changes are graded cosmetic, compatible, breaking or suspicious. Exit code 1: some changes are of the
    grade of --fail-on, or worse.
    """
    if as_json and markdown:
        raise exclusive("--json", "--markdown")
    if len(sides) > 2:
        raise CommandError(f"Expected at most two sides, got {len(sides)}", "use OLD NEW")
    if (headers or protocol) and not any(is_address(side) or side.startswith(COMMAND) for side in sides):
        raise CommandError("--header and --protocol require a running server", "give its URL")
    old, new = read_sides(sides, lock_file, ToolSource((), static, None, headers, protocol), terminal)
    for side in (old, new):
        for error in side.errors:
            terminal.finding(error)
        if side.errors:
            text = f"{count(len(side.errors), 'problem')} in {side.label}: invalid tools are not compared"
            terminal.message("warning", text)
    before = [tool for tool in old.everything if tool.kind in new.kinds]
    after = [tool for tool in new.everything if tool.kind in old.kinds]
    with Progress(terminal, "comparing tools") as progress:
        comparison = compare(before, after, progress)
    if as_json:
        terminal.json(_to_json(comparison, old, new))
    elif markdown:
        terminal.echo(to_markdown(comparison, old.label, new.label))
    else:
        for line in format_changes(comparison):
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
"""A commit, a lock file, or a target; the empty string is the current tools."""


def read_sides(
    given: Sequence[str], lock_file: str | None, source: ToolSource, terminal: Terminal
) -> tuple[ToolSet, ToolSet]:
    """Return the tools of both sides; `source` has the options for targets and running servers."""
    texts = (find_range(given[0]) or given) if len(given) == 1 else given
    sides: list[Side] = [parse_side(text) for text in texts]
    if len(sides) == 1 and not isinstance(sides[0], str):
        sides.append("")  # as with `git diff REVISION`
    if len(sides) == 2:
        if lock_file is not None:
            raise CommandError("--lock cannot be combined with OLD and NEW", "give it as OLD or NEW")
    else:
        path, _ = find_lock([text for text in given if text.endswith(".toml")], lock_file)
        sides = [path, *(sides or [""])]
    if any(isinstance(side, Commit) for side in sides):
        source = replace(source, static=True)  # a commit is never run, so that the other side is not either
    old, new = sides
    after = _read_side(new, old, source, terminal)  # a missing target is reported before a missing lock file
    return _read_side(old, new, source, terminal), after


def parse_side(text: str) -> Side:
    """Return what a side is. An existing file takes precedence over a commit; `git:` forces a commit."""
    path = Path(text)
    if text.endswith(".lock") or (path.suffix == ".json" and path.is_file() and _is_lock(path)):
        return path
    is_forced = text.startswith(COMMIT)
    if not is_forced and (not text or path.exists() or is_address(text) or text.startswith(COMMAND)):
        return text
    name, _, inside = text.removeprefix(COMMIT).partition(":")
    try:
        repository = Repository.around(Path.cwd())
    except ConfigurationError:
        if is_forced:
            raise
        return text
    found = repository.find_commit(name)
    if found is None:
        if is_forced:
            raise _unknown_commit(name)
        return text
    below = repository.here / inside
    if inside and (below.is_absolute() or os.path.normpath(below).startswith("..")):
        raise CommandError(f"{inside} is not in the repository", "use REVISION:PATH")
    return Commit(repository, found, name, inside)


def _is_lock(path: Path) -> bool:
    with path.open("rb") as stream:
        head = stream.read(4096)
    return b'"fingerprint"' in head and b'"format"' in head


def find_range(text: str) -> list[str] | None:
    """Return both ends of `OLD..NEW`; an omitted end is empty."""
    first, dots, second = text.partition("..")
    ends = [end for end in (first, second) if end] if dots and not Path(text).exists() else []
    unknown = [end for end in ends if not isinstance(parse_side(end), Commit)]
    if len(unknown) == len(ends):
        if dots and first and not first.endswith("/"):
            Repository.around(Path.cwd())  # raises outside of a repository
        return None
    if unknown:
        raise _unknown_commit(unknown[0])
    return [first, second]


def _unknown_commit(name: str) -> CommandError:
    return CommandError(f"Unknown commit: {name}", "`git log` lists them")


def _read_side(side: Side, other: Side, source: ToolSource, terminal: Terminal) -> ToolSet:
    if isinstance(side, Commit):
        return _read_commit(side, other if isinstance(other, str) else "", terminal)
    if isinstance(side, Path):
        lock = Lock.load(side)
        return replace(ToolSet.of(lock.tools, [], str(side)), kinds=lock.kinds)
    if not is_address(side) and not side.startswith(COMMAND):
        source = replace(source, headers=(), protocol=None)
    if side.startswith(COMMAND):
        source = replace(source, command=side.removeprefix(COMMAND), headers=())
    elif side:
        source = replace(source, targets=(side,))
    elif not source.targets and source.command is None and not Path(FILE_NAME).is_file():
        if not source.static:
            raise CommandError(f"No {FILE_NAME} in the current folder", "name the tools as NEW")
        source = replace(source, targets=(".",))
    found = source.collect(terminal, with_unlisted=True)
    found.label = found.label if side else "current tools"
    return found


def _read_commit(commit: Commit, other: str, terminal: Terminal) -> ToolSet:
    """Read the tools in the files of a commit. Without a path, the path of the other side is read."""
    repository = commit.repository
    found, every = ToolSet(label=commit.name), list[Tool]()
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
                moved = describe_feature(tool.to_wire(), place, tool.version)
                if tool.kind == "tool":
                    moved = describe(replace(tool.definition, source=place))
                scopes = tool.options.scopes
                every.append(moved.with_options(scopes=scopes) if scopes else moved)
    return ToolSet.of(every, found.findings, found.label)


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


# --- git -------------------------------------------------------------------------------------------------
#
# Contents come from git's objects, so that no filter, hook or attribute of the repository is applied, and
# only files that tools can be read from are written. Links, submodules and names that lead out of the folder
# are left out.

SUFFIXES = (".py", ".toml", ".json", ".yaml", ".yml", ".lock")
MAX_FILES = 20_000
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_BYTES = 512 * 1024 * 1024
_GIT_TIMEOUT_S = 120.0
_REGULAR_FILES = (b"100644", b"100755")
_PATH_HINT = "name a folder or a file of it: REVISION:PATH"


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository. `here` is the folder it was found from, relative to its root."""

    root: Path
    here: PurePosixPath

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """Return the repository that a folder is in. Raise ConfigurationError where there is none."""
        found = _git(folder, "rev-parse", "--show-toplevel", "--show-prefix")
        lines = found.decode("utf-8", "surrogateescape").split("\n")
        if found.startswith(b"\n") or len(lines) < 2:
            message = f"{folder} is in a repository without a working tree"
            raise ConfigurationError(message, hint="use a clone that has one")
        return cls(Path(lines[0]), PurePosixPath(lines[1]))

    def find_commit(self, name: str) -> str | None:
        """Return the commit that a name stands for, or None."""
        if not name or name.startswith("-") or "\0" in name or "\n" in name:
            return None
        try:
            arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
            return _git(self.root, *arguments).decode().strip() or None
        except ConfigurationError:
            return None

    def extract(self, commit: str, into: Path, below: PurePosixPath) -> int:
        """Write the files of a commit into a folder, and return their number.

        Where there are too many, write only those `below` a path. Raise ConfigurationError where that fails.
        """
        entries = list(self._list(commit, ()))
        if len(entries) > MAX_FILES:
            entries = list(self._list(commit, (str(below),)))
        if len(entries) > MAX_FILES:
            message = f"{commit[:12]} has more than {MAX_FILES} files that could contain tools"
            raise ConfigurationError(message, hint=_PATH_HINT)
        total = 0
        for path, data in self._read(entries):
            total += len(data)
            if total > MAX_BYTES:
                message = f"the files in {commit[:12]} are larger than {MAX_BYTES // 1024 // 1024} MiB"
                raise ConfigurationError(message, hint=_PATH_HINT)
            target = into.joinpath(*path.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        return len(entries)

    def _list(self, commit: str, paths: Sequence[str]) -> Iterator[tuple[PurePosixPath, str]]:
        """Yield the files that could contain tools, each with the name of its object."""
        listed = _git(self.root, "ls-tree", "-r", "-z", "-l", "--full-tree", commit, "--", *paths)
        for line in listed.split(b"\0"):
            facts, _, name = line.partition(b"\t")
            fields = facts.split()
            if len(fields) != 4 or fields[0] not in _REGULAR_FILES or not fields[3].isdigit():
                continue
            path = PurePosixPath(name.decode("utf-8", "surrogateescape"))
            if path.suffix in SUFFIXES and int(fields[3]) <= MAX_FILE_BYTES and _is_inside(path):
                yield path, fields[2].decode()

    def _read(self, entries: Sequence[tuple[PurePosixPath, str]]) -> Iterator[tuple[PurePosixPath, bytes]]:
        request = "".join(f"{name}\n" for _, name in entries).encode()
        output = memoryview(_git(self.root, "cat-file", "--batch", data=request) if entries else b"")
        start = 0
        for path, _ in entries:
            head = bytes(output[start : start + 200]).partition(b"\n")[0]  # object, type, size
            size = int(head.split()[2])
            start += len(head) + 1
            yield path, bytes(output[start : start + size])
            start += size + 1


def _is_inside(path: PurePosixPath) -> bool:
    """Return whether a name in a tree stays within the folder that it is written to."""
    return not path.is_absolute() and all(
        part not in ("", ".", "..") and part.casefold() != ".git" and not set(part) & set('\\:*?"<>|')
        for part in path.parts
    )


def _git(folder: Path, *arguments: str, data: bytes = b"") -> bytes:
    """Run git and return its output. Raise ConfigurationError with git's message where it fails."""
    # Nothing is fetched, paged or asked for, and only the repository of the folder is used.
    ignored = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_EXTERNAL_DIFF")
    environ = {key: value for key, value in os.environ.items() if key not in ignored}
    environ |= {
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    command = ["git", "--no-pager", "--no-replace-objects", "--literal-pathspecs", *arguments]
    try:
        done = subprocess.run(  # noqa: S603
            command, cwd=folder, env=environ, input=data, capture_output=True, timeout=_GIT_TIMEOUT_S
        )
    except FileNotFoundError:
        raise ConfigurationError("git is not installed", hint="it is needed to read commits") from None
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"git did not answer within {_GIT_TIMEOUT_S:g} seconds") from None
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ").splitlines()
        if lines and "not a git repository" in lines[0]:
            message = f"{folder} is not in a git repository"
            raise ConfigurationError(message, hint="revisions can only be named inside one")
        raise ConfigurationError(f"git {arguments[0]} failed: {lines[0] if lines else 'no error message'}")
    return done.stdout
