"""Read the files of a git commit.

Contents come from git's objects, so that no filter, hook or attribute of the repository is applied, and only
files that tools can be read from are written. Links, submodules and names that lead out of the folder are
left out.
"""

from __future__ import annotations

import os
import subprocess  # git, with arguments that are ours
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from toolcrib.errors import ConfigurationError

SUFFIXES = (".py", ".toml", ".json", ".yaml", ".yml", ".lock")
MAX_FILES = 20_000
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_BYTES = 512 * 1024 * 1024
_GIT_TIMEOUT_S = 120.0
_REGULAR_FILES = (b"100644", b"100755")
_PATH_HINT = "name a folder or a file of it: REVISION:PATH"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the repository at `root`, and a path in it. `here` is the folder that the path is relative
    to; an empty path means the tools configured there."""

    root: Path
    here: PurePosixPath
    hash: str
    name: str
    path: str = ""

    @classmethod
    def find(cls, text: str, folder: Path) -> Commit | None:
        """Return the commit of REVISION or REVISION:PATH in the repository that a folder is in, or None."""
        name, _, path = text.partition(":")
        if not name or name.startswith("-") or "\0" in name or "\n" in name:
            return None
        try:
            found = _git(folder, "rev-parse", "--show-toplevel", "--show-prefix")
            root, here, *_ = found.decode("utf-8", "surrogateescape").split("\n")
            arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
            commit = _git(Path(root), *arguments).decode().strip()
        except (ConfigurationError, ValueError):  # no git, no repository, no working tree or no such commit
            return None
        return cls(Path(root), PurePosixPath(here), commit, name, path)

    def extract(self, into: Path) -> int:
        """Write the files of the commit into a folder, and return their number.

        If there are too many, write only those below the path. Raise ConfigurationError if that fails.
        """
        entries = list(self._list(()))
        if len(entries) > MAX_FILES:
            entries = list(self._list((str(self.here / self.path),)))
        if len(entries) > MAX_FILES:
            message = f"{self.hash[:12]} has more than {MAX_FILES} files that could contain tools"
            raise ConfigurationError(message, hint=_PATH_HINT)
        total = 0
        for path, data in self._read(entries):
            total += len(data)
            if total > MAX_BYTES:
                message = f"the files in {self.hash[:12]} are larger than {MAX_BYTES // 1024 // 1024} MiB"
                raise ConfigurationError(message, hint=_PATH_HINT)
            target = into.joinpath(*path.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        return len(entries)

    def _list(self, paths: Sequence[str]) -> Iterator[tuple[PurePosixPath, str]]:
        """Yield the files that could contain tools, each with the name of its object."""
        listed = _git(self.root, "ls-tree", "-r", "-z", "-l", "--full-tree", self.hash, "--", *paths)
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
    """Run git and return its output. Raise ConfigurationError with git's message if it fails."""
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
        raise ConfigurationError(f"git {arguments[0]} failed: {lines[0] if lines else 'no error message'}")
    return done.stdout
