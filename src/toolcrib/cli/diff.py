"""`toolcrib diff`: what changed between two catalogs, and whether anybody has to follow.

Changes of a catalog in words: for people at a terminal, and as Markdown for a review.

Names, descriptions and values are another's text. At a terminal nothing in them can steer it; in Markdown
they stand in code spans, where nothing is a link, a mention or markup. Knows words; compares nothing.

The two sides of `toolcrib diff`: what a word of the command line means, and the tools that are there.

A side is what other commands take (a file, a folder, a module, an address), a lock file, `cmd:` and a command
to start, or a commit of the repository here, whose files are read and never run. Knows where tools come from;
refuses to know how they are compared.
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
from toolcrib.catalog.lock import FILE_NAME as LOCK_NAME
from toolcrib.catalog.lock import Lock
from toolcrib.cli.catalog import Stock, gather
from toolcrib.cli.load import is_address, load
from toolcrib.cli.options import Command, Failure, takes_json
from toolcrib.cli.output import Terminal, show_place
from toolcrib.cli.text import Styled, count, join, one_line, style
from toolcrib.client.session import VERSIONS
from toolcrib.config import FILE_NAME, LockConfig, load_config
from toolcrib.errors import ConfigurationError, DefinitionError, Finding, Location
from toolcrib.sources.described import describe
from toolcrib.tool import Tool

_COLOURS = {"suspicious": "magenta", "breaking": "red", "compatible": "green", "cosmetic": "cyan"}
_WIDTH = max(map(len, GRADES))
_MOST_IN_REVIEW = 300


def say_changes(comparison: Comparison, terminal: Terminal) -> None:
    """Every change on stderr, and the sum."""
    for line in _lines(comparison, terminal.err_colour):
        terminal.put(line)


def print_changes(comparison: Comparison, terminal: Terminal) -> None:
    """Every change on stdout, and the sum."""
    for line in _lines(comparison, terminal.out_colour):
        terminal.data(line)


def _lines(comparison: Comparison, colour: bool) -> Iterator[Styled]:
    for tool, changes in groupby(comparison.changes, key=lambda change: change.tool):
        several = list(changes)
        place = show_place(several[0].source)
        yield join(_style(one_line(tool), colour, bold=True), f"  {place}" if place != "-" else "")
        for change in several:
            grade = _style(change.grade.ljust(_WIDTH), colour, fg=_COLOURS[change.grade])
            yield join("  ", grade, "  ", one_line(change.message))
            yield from (join(f"  {' ' * _WIDTH}    {text}") for text in _details(change))
        yield join()
    yield join(sum_up(comparison))


def _details(change: Change) -> Iterator[str]:
    if change.pointer and (change.old is not None or change.new is not None):
        yield f"at {one_line(change.pointer)}"
    if change.old is not None:
        yield f"- {one_line(change.old)}"
    if change.new is not None:
        yield f"+ {one_line(change.new)}"


def _style(text: str, colour: bool, **how: Any) -> str:
    return style(text, **how) if colour else text


def sum_up(comparison: Comparison) -> str:
    """How much of what, and what it means for a version."""
    if not comparison.changes:
        return f"No changes: {count(comparison.after, 'tool')}."
    counts = ", ".join(f"{number} {grade}" for grade, number in comparison.counts.items() if number)
    tools = count(len(comparison.tools), "tool")
    advice = f"the next version is a {comparison.advice} one"
    if comparison.counts["suspicious"]:
        advice = f"look at what is suspicious first; then {advice}"
    return f"{tools} changed ({comparison.before} before, {comparison.after} after): {counts}; {advice}."


# --- Markdown --------------------------------------------------------------------------------------------


def to_markdown(comparison: Comparison, old: str, new: str) -> str:
    """The changes as a comment on a pull request."""
    lines = [f"### Tools: {code(old)} → {code(new)}", "", sum_up(comparison)]
    shown = comparison.changes[:_MOST_IN_REVIEW]
    for tool, changes in groupby(shown, key=lambda change: change.tool):
        several = list(changes)
        place = show_place(several[0].source)
        lines += ["", f"**{code(tool)}**{f' ({code(place)})' if place != '-' else ''}", ""]
        for change in several:
            message = change.template.format(*(code(name) for name in change.names))
            lines.append(f"- **{change.grade}**: {message}")
            lines += [
                f"  - {sign} {code(text)}" for sign, text in (("was", change.old), ("is", change.new)) if text
            ]
    if len(comparison.changes) > len(shown):
        lines += ["", f"And {len(comparison.changes) - len(shown)} more."]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    """Another's text as a code span that it cannot get out of."""
    plain = one_line(text) or " "
    longest = max((len(run) for run in re.findall(r"`+", plain)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest or plain.startswith(" ") else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


COMMAND = "cmd:"
COMMIT = "git:"
_REVISION = re.compile(r"(?:HEAD|@|[0-9a-f]{7,40}|[\w./-]*[~^@{][\w~^@{}/.-]*)(?::.*)?")


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit, and the path in it that is meant; none means what is configured there."""

    repository: Repository
    hash: str
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Manner:
    """How the command line wants things to be read."""

    static: bool = False
    headers: Sequence[str] = ()
    protocol: str | None = None


# --- what a word means -----------------------------------------------------------------------------------


def find_commit(text: str) -> Commit | None:
    """The commit that a word names, `HEAD~1` or `main:tools/`; None where it names something else. What is
    there as a file is a file; `git:` before it says that it is not."""
    is_told = text.startswith(COMMIT)
    text = text.removeprefix(COMMIT)
    if not is_told and (Path(text).exists() or is_address(text) or text.startswith(COMMAND)):
        return None
    try:
        repository = Repository.around(Path.cwd())
    except ConfigurationError as error:
        if not is_told:
            return None
        raise Failure(error.message, error.hint) from None
    name, _, path = text.partition(":")
    found = repository.find_commit(name)
    if found is not None and path and not _stays_inside(repository.here / path):
        raise Failure(f"{path} is not in the repository", "name what to read of it: REVISION:PATH")
    if found is None and is_told:
        raise Failure(f"There is no commit {name} here", "`git log` lists them")
    return None if found is None else Commit(repository, found, name, path)


def _stays_inside(path: PurePosixPath) -> bool:
    return not path.is_absolute() and not os.path.normpath(path).startswith("..")


def find_range(text: str) -> tuple[str, str] | None:
    """The two ends of `OLD..NEW`; an end that is left out is empty."""
    first, dots, second = text.partition("..")
    if not dots or Path(text).exists() or is_address(text) or first.endswith("/") or second.startswith("/"):
        return None
    if second.startswith("."):
        raise Failure(f"{text} has three dots", "write OLD..NEW")
    ends = [end for end in (first, second) if end]
    return (first, second) if ends and all(find_commit(end) is not None for end in ends) else None


def is_lock(text: str) -> bool:
    path = Path(text)
    if not path.is_file():
        return text.endswith(".lock")
    if path.suffix == ".lock":
        return True
    with path.open("rb") as stream:
        head = stream.read(4096)
    return path.suffix == ".json" and b'"fingerprint"' in head and b'"format"' in head


def find_lock(targets: Sequence[str], given: str | None = None) -> tuple[Path, LockConfig]:
    """Where the lock is, and what the files say of it: what is given, else what the first file of settings
    says, else the usual name beside it, or here."""
    if not targets and Path(FILE_NAME).is_file():
        targets = [FILE_NAME]
    said = LockConfig()
    place = Path(LOCK_NAME)
    for target in reversed(targets):
        if not target.endswith(".toml"):
            continue
        try:
            config = load_config(Path(target)).lock
        except ConfigurationError:
            continue  # why it cannot be read is told when everything is loaded
        said = config
        place = config.file or Path(target).parent / LOCK_NAME
    return (Path(given) if given is not None else place), said


# --- what is there ---------------------------------------------------------------------------------------


def take_stock(
    terminal: Terminal, targets: Sequence[str], manner: Manner, command: str | None = None
) -> Stock:
    """Every tool of the targets, those that are off and older versions included."""
    is_remote = command is not None or any(is_address(target) for target in targets)
    if is_remote:
        return gather(terminal, targets, command=command, headers=manner.headers, protocol=manner.protocol)
    label = ", ".join(targets)
    if manner.static:
        from toolcrib.sources.scan import scan  # most commands import what they work on

        found = scan(*targets)
        is_sample = not targets and not Path(FILE_NAME).is_file()
        return Stock([*found.tools, *found.unlisted], list(found.findings), label, is_sample)
    loaded = load(targets, terminal)
    stock = Stock([], loaded.findings, label, loaded.is_sample)
    for entry in loaded.entries:
        try:
            stock.findings.extend(entry.tool.findings)
            stock.tools.append(entry.tool)
        except DefinitionError as error:
            stock.findings.append(error.finding)
    return stock


def load_side(text: str, terminal: Terminal, manner: Manner, beside: str | None = None) -> Stock:
    """The tools of one side; `beside` is the other one, whose path a commit without one takes."""
    if text.startswith(COMMAND):
        return take_stock(terminal, (), manner, text.removeprefix(COMMAND))
    if is_lock(text):
        return load_lock(Path(text))
    commit = find_commit(text)
    if commit is None:
        _refuse_lost_commit(text)
        return take_stock(terminal, (text,), manner)
    return read_commit(commit, beside)


def _refuse_lost_commit(text: str) -> None:
    """What can only be a commit, and is none, is said to be one."""
    if Path(text).exists() or _REVISION.fullmatch(text) is None:
        return
    name = text.partition(":")[0]
    try:
        Repository.around(Path.cwd())
    except ConfigurationError as error:
        raise Failure(f"{name} could be a commit, but {error.message}", error.hint) from None
    raise Failure(f"There is no commit {name} here", "`git log` lists them")


def load_lock(path: Path) -> Stock:
    return Stock(Lock.load(path).tools, [], str(path))


def read_commit(commit: Commit, beside: str | None = None) -> Stock:
    """The tools in the files of a commit, read from their source."""
    from toolcrib.sources.scan import scan  # only commits need it here

    repository = commit.repository
    with tempfile.TemporaryDirectory(prefix="toolcrib-") as folder:
        root = Path(folder).resolve()
        below = repository.here / commit.path if commit.path else repository.here
        repository.extract(commit.hash, root, below)
        target = _find_target(commit, root, beside)
        if target is None:
            return Stock(label=commit.name)  # it had no such file yet
        found = scan(str(target))
        stock = Stock(label=commit.name)
        stock.findings = [
            _place_finding(finding, root, commit.name)
            for finding in found.findings
            if finding.code != "no-tools"  # there was a time before the first
        ]
        for tool in (*found.tools, *found.unlisted):
            if not _is_of_today(tool, repository.root, root):
                stock.tools.append(_place_tool(tool, root, commit.name))
    return stock


def _find_target(commit: Commit, root: Path, beside: str | None) -> Path | None:
    """What to read of a commit: the path that was named, that of the other side, its settings, or all."""
    here = commit.repository.here
    if commit.path:
        found = root.joinpath(*(here / commit.path).parts)
        if not found.exists() and not root.joinpath(*PurePosixPath(commit.path).parts).exists():
            raise Failure(f"There is no {commit.path} in {commit.name} that tools could be in")
        return found if found.exists() else root.joinpath(*PurePosixPath(commit.path).parts)
    place = root.joinpath(*here.parts)
    if beside is not None and Path(beside).exists() and not is_lock(beside):
        try:
            path = Path(beside).resolve().relative_to(commit.repository.root.resolve())
        except ValueError:
            raise Failure(
                f"{beside} is not in the repository of {commit.name}",
                "name what to read of it: REVISION:PATH",
            ) from None
        return root / path if (root / path).exists() else None
    return place / FILE_NAME if (place / FILE_NAME).is_file() else place if place.exists() else None


def _is_of_today(tool: Tool, repository: Path, root: Path) -> bool:
    """Whether a name in a commit led to a file of the working tree: the commit has no such file."""
    file = tool.source.file
    if file is None or Path(file).is_relative_to(root):
        return False
    return Path(file).resolve().is_relative_to(repository.resolve())


def _place_tool(tool: Tool, root: Path, name: str) -> Tool:
    definition = tool.definition
    described = describe(replace(definition, source=_rename(definition.source, root, name)))
    return described.with_options(scopes=tool.options.scopes) if tool.options.scopes else described


def _place_finding(finding: Finding, root: Path, name: str) -> Finding:
    message = finding.message.replace(f"{root}/", "").replace(str(root), name)
    return replace(finding, message=message, file=_rename(finding.where, root, name).file)


def _rename(source: Location, root: Path, name: str) -> Location:
    if source.file is None or not Path(source.file).is_relative_to(root):
        return source
    return Location(f"{name}:{Path(source.file).relative_to(root).as_posix()}", source.line)


EXAMPLES = """
toolcrib diff                          the lock against the tools here
toolcrib diff tools.py                 the lock against this file
toolcrib diff main tools.py            a commit against the file as it is
toolcrib diff HEAD~3..HEAD             two commits; read, not run
toolcrib diff v1.0:shop v2.0:shop      a folder in both
toolcrib diff old.lock http://127.0.0.1:8000/mcp
toolcrib diff 'cmd:python old.py' 'cmd:python new.py'
toolcrib diff main.. --markdown        for a comment on a pull request
"""
HERE = "the tools here"


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("sides", nargs=-1, metavar="[OLD] [NEW]")
@takes_json
@click.option("--markdown", is_flag=True, help="Print Markdown for a review.")
@click.option(
    "--fail-on",
    type=click.Choice([*reversed(GRADES), "never"]),
    default="breaking",
    show_default=True,
    help="Exit code 1 for changes of this grade, or worse.",
)
@click.option(
    "--lock", "lock_file", metavar="FILE", help="The lock; toolcrib.lock, or what toolcrib.toml says."
)
@click.option("--static", is_flag=True, help="Read the source of targets; import and run nothing.")
@click.option("--header", "headers", multiple=True, metavar="'K: V'", help="Send this header to an address.")
@click.option("--protocol", type=click.Choice(["auto", *VERSIONS]), help="The version of MCP to speak.")
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
    """Show what changed between two catalogs.

    OLD and NEW are each a target (a Python file, a folder, a module, a toolcrib.toml, a file that describes
    tools), a lock file, the address of a running MCP server, cmd: and a command that starts one, or a git
    commit, REVISION or REVISION:PATH. With one, the lock is OLD; a commit alone is compared with the tools
    here. With none, the lock is compared with the tools of toolcrib.toml.

    Changes are cosmetic, compatible, breaking or suspicious, in this order. Exit code 1: there are some of
    the grade of --fail-on, or worse.
    """
    if as_json and markdown:
        raise Failure("--json and --markdown do not go together", "drop one of them")
    if len(sides) > 2:
        raise Failure(f"There are {len(sides)} sides", "give two at most: OLD NEW")
    words = list(sides)
    if (headers or protocol) and not any(is_address(w) or w.startswith(COMMAND) for w in words):
        raise Failure("--header and --protocol are for a running server", "name its address")
    manner = Manner(static, headers, protocol)
    old, new = _load(words, lock_file, manner, terminal)
    _say_trouble((old, new), terminal)
    comparison = compare(old.tools, new.tools)
    if as_json:
        terminal.json(_to_json(comparison, old, new))
    elif markdown:
        terminal.data(to_markdown(comparison, old.label, new.label))
    else:
        print_changes(comparison, terminal)
    if fail_on == "never":
        return 0
    return 1 if new.errors or comparison.at_least(next(grade for grade in GRADES if grade == fail_on)) else 0


def _load(words: list[str], lock_file: str | None, manner: Manner, terminal: Terminal) -> tuple[Stock, Stock]:
    if len(words) == 1 and (ends := find_range(words[0])) is not None:
        words = [end or "" for end in ends]
    elif len(words) == 1 and not is_lock(words[0]) and find_commit(words[0]) is not None:
        words = [words[0], ""]  # as `git diff REVISION` means what is here, too
    if len(words) == 2:
        if lock_file is not None:
            raise Failure("--lock has no place beside two sides", "name it as one of them")
        return _load_both(words[0], words[1], manner, terminal)
    targets = words if words and not is_lock(words[0]) else ()
    if words and not targets:
        path = Path(words[0])  # the one word is a lock: the tools here against it
    else:
        path, _ = find_lock([t for t in targets if t.endswith(".toml")], lock_file)
    if not targets:
        return load_lock(path), _load_here(manner, terminal)
    new = load_side(targets[0], terminal, manner)  # what is not there is said before that there is no lock
    return load_lock(path), new


def _load_both(first: str, second: str, manner: Manner, terminal: Terminal) -> tuple[Stock, Stock]:
    """Where one side is a commit, which can only be read, the other is read and not run, too."""
    if any(word and not is_lock(word) and find_commit(word) is not None for word in (first, second)):
        manner = Manner(True, manner.headers, manner.protocol)
    loaded = [
        load_side(word, terminal, manner, beside) if word else _load_here(manner, terminal)
        for word, beside in ((first, second or None), (second, first or None))
    ]
    return loaded[0], loaded[1]


def _load_here(manner: Manner, terminal: Terminal) -> Stock:
    """The tools of the toolcrib.toml here; where there is only a commit to compare with, of the folder."""
    stock = take_stock(terminal, (), manner)
    if stock.is_sample:
        if not manner.static:
            raise Failure("There is no toolcrib.toml here that says where the tools are", "name them as NEW")
        stock = take_stock(terminal, (".",), manner)
    stock.label = HERE
    return stock


def _say_trouble(stocks: tuple[Stock, Stock], terminal: Terminal) -> None:
    for stock in stocks:
        for error in stock.errors:
            terminal.tell(error)
        if stock.errors:
            words = f"{count(len(stock.errors), 'problem')} in {stock.label}: what is wrong is not compared"
            terminal.say("warning", words)


def _to_json(comparison: Comparison, old: Stock, new: Stock) -> dict[str, object]:
    findings = [finding for stock in (old, new) for finding in stock.findings]
    return {
        "old": {"name": old.label, "tools": comparison.before},
        "new": {"name": new.label, "tools": comparison.after},
        "counts": comparison.counts,
        "worst": comparison.worst,
        "advice": comparison.advice,
        "changes": [change.to_json() for change in comparison.changes],
        "findings": [finding.to_json() for finding in findings],
    }
