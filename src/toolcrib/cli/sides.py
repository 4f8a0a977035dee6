"""The two sides of `toolcrib diff`: what a word of the command line means, and the tools that are there.

A side is what other commands take (a file, a folder, a module, an address), a lock file, `cmd:` and a command
to start, or a commit of the repository here, whose files are read and never run. Knows where tools come from;
refuses to know how they are compared.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from toolcrib.catalog.history import Repository
from toolcrib.catalog.lock import FILE_NAME as LOCK_NAME
from toolcrib.catalog.lock import Lock
from toolcrib.cli.frame import Failure
from toolcrib.cli.stock import Stock, gather
from toolcrib.cli.targets import is_address, load
from toolcrib.cli.terminal import Terminal
from toolcrib.config import FILE_NAME, LockConfig, load_config
from toolcrib.described import describe
from toolcrib.errors import ConfigurationError, DefinitionError
from toolcrib.finding import Finding, Source
from toolcrib.tool import Tool

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
        from toolcrib.sources.static import scan  # most commands import what they work on

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
    from toolcrib.sources.static import scan  # only commits need it here

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


def _rename(source: Source, root: Path, name: str) -> Source:
    if source.file is None or not Path(source.file).is_relative_to(root):
        return source
    return Source(f"{name}:{Path(source.file).relative_to(root).as_posix()}", source.line)
