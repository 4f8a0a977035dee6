"""Files of a commit, put into a folder to be read: what git has, and nothing of the working tree.

Contents come straight from git's objects, so that no filter, hook or attribute of a repository has a say, and
only files that tools can be read from are taken. Links, submodules and names that lead out of the folder are
left out. Knows git's command; refuses to know tools.
"""

from __future__ import annotations

import os
import subprocess  # nosec B404: git, with arguments that are ours
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from toolcrib.errors import ConfigurationError

SUFFIXES = (".py", ".toml", ".json", ".yaml", ".yml", ".lock")
MAX_FILES = 20_000
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_BYTES = 512 * 1024 * 1024
_PATIENCE_S = 120.0
_REGULAR = (b"100644", b"100755")


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository. `here` is where its user stands, seen from its root."""

    root: Path
    here: PurePosixPath

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """The repository that a folder is in. Raises ConfigurationError."""
        found = _git(folder, "rev-parse", "--show-toplevel", "--show-prefix")
        lines = found.decode("utf-8", "surrogateescape").split("\n")
        if found.startswith(b"\n") or len(lines) < 2:
            raise ConfigurationError(
                f"{folder} is in a repository without files", hint="use one that has some"
            )
        return cls(Path(lines[0]), PurePosixPath(lines[1]))

    def find_commit(self, name: str) -> str | None:
        """The commit that a name means; None where it means none."""
        if not name or name.startswith("-") or "\0" in name or "\n" in name:
            return None
        try:
            words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
            return _git(self.root, *words).decode().strip() or None
        except ConfigurationError:
            return None

    def extract(self, commit: str, into: Path, below: PurePosixPath) -> int:
        """Write the files of a commit into a folder, as they were; returns how many. Where there are too
        many, only those `below` a path of it. Raises ConfigurationError."""
        entries = list(self._list(commit, ()))
        if len(entries) > MAX_FILES:
            entries = list(self._list(commit, (str(below),)))
        if len(entries) > MAX_FILES:
            words = f"there are more than {MAX_FILES} files in {commit[:12]} that tools could be in"
            raise ConfigurationError(words, hint="name a folder or a file of it: REVISION:PATH")
        total = 0
        for path, data in self._read([name for _, name in entries], [path for path, _ in entries]):
            total += len(data)
            if total > MAX_BYTES:
                words = f"the files in {commit[:12]} are larger than {MAX_BYTES // 1024 // 1024} MiB"
                raise ConfigurationError(words, hint="name a folder or a file of it: REVISION:PATH")
            target = into.joinpath(*path.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        return len(entries)

    def _list(self, commit: str, paths: Sequence[str]) -> Iterator[tuple[PurePosixPath, str]]:
        """The files worth reading, each with the name of its content."""
        listed = _git(self.root, "ls-tree", "-r", "-z", "-l", "--full-tree", commit, "--", *paths)
        for line in listed.split(b"\0"):
            facts, _, name = line.partition(b"\t")
            fields = facts.split()
            if len(fields) != 4 or fields[0] not in _REGULAR or not fields[3].isdigit():
                continue
            path = PurePosixPath(name.decode("utf-8", "surrogateescape"))
            if path.suffix in SUFFIXES and int(fields[3]) <= MAX_FILE_BYTES and _is_inside(path):
                yield path, fields[2].decode()

    def _read(
        self, names: Sequence[str], paths: Sequence[PurePosixPath]
    ) -> Iterator[tuple[PurePosixPath, bytes]]:
        asked = "".join(f"{name}\n" for name in names).encode()
        given = memoryview(_git(self.root, "cat-file", "--batch", data=asked)) if names else memoryview(b"")
        start = 0
        for path in paths:
            end = start + 200
            head = bytes(given[start:end]).partition(b"\n")[0]
            size = int(head.split()[2])
            start += len(head) + 1
            yield path, bytes(given[start : start + size])
            start += size + 1


def _is_inside(path: PurePosixPath) -> bool:
    """Whether a name of a tree stays within the folder that it is written to."""
    return not path.is_absolute() and all(
        part not in ("", ".", "..") and part.casefold() != ".git" and not set(part) & set('\\:*?"<>|')
        for part in path.parts
    )


def _git(folder: Path, *words: str, data: bytes | None = None) -> bytes:
    """What git says. Raises ConfigurationError, in git's words, where it fails."""
    # Nothing is fetched, paged or asked for, and no other repository is meant than that of the folder.
    ignored = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_EXTERNAL_DIFF")
    environ = {key: value for key, value in os.environ.items() if key not in ignored}
    environ |= {
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    command = ["git", "--no-pager", "--no-replace-objects", "--literal-pathspecs", *words]
    try:
        done = subprocess.run(  # nosec B603: no shell, and every argument is ours or checked
            command, cwd=folder, env=environ, input=data or b"", capture_output=True, timeout=_PATIENCE_S
        )
    except FileNotFoundError:
        raise ConfigurationError("git is not installed here", hint="commits are read with it") from None
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"git did not answer within {_PATIENCE_S:g} seconds") from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ").splitlines()
        if said and "not a git repository" in said[0]:
            raise ConfigurationError(
                f"{folder} is not in a git repository", hint="commits can only be named there"
            )
        raise ConfigurationError(f"git {words[0]} failed: {said[0] if said else 'it does not say why'}")
    return done.stdout
