"""Files and folders as resources: list the files of a folder, and read one of them, inside its root only.

    docs = Folder("docs")
    [file.path for file in docs.files()]     # ["guide/start.md", "index.md"]
    data, mime_type = docs.read("index.md")

A file is named by its path from the root, with `/` and without `.` and `..`. No link below the root is
followed: a rule about a path would not cover the other paths that lead to its file. The path is opened
component by component, so that a link that appears meanwhile is not followed either. Only regular files are
opened, because a FIFO would block and opening a device may have effects.

Limits: a hard link cannot be told from a file. Where the platform cannot open a file relative to a folder
(Windows), a folder that is replaced by a link while a file is opened is followed.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from toolcrib.errors import FileTooLargeError, FileUnavailableError, InvalidToolError

logger = logging.getLogger("toolcrib")

MAX_BYTES = 16 * 2**20
MAX_FILES = 10_000
MAX_DEPTH = 100
ENTRIES_PER_FILE = 10
"""A listing looks at up to this many entries for each of `MAX_FILES`: not every entry is a file."""
CHUNK = 2**20

CAN_OPEN_RELATIVE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
FILE_FLAGS = os.O_RDONLY
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
    FILE_FLAGS |= getattr(os, _flag, 0)
FOLDER_FLAGS = FILE_FLAGS | getattr(os, "O_DIRECTORY", 0)
FORBIDDEN = "\0\\:" if os.name == "nt" else "\0"

MIME_TYPES = {
    f".{suffix}": mime_type
    for mime_type, suffixes in {
        "application/gzip": "gz tgz",
        "application/json": "json",
        "application/jsonl": "jsonl ndjson",
        "application/sql": "sql",
        "application/toml": "toml",
        "application/x-ipynb+json": "ipynb",
        "application/xml": "xml",
        "application/yaml": "yaml yml",
        "application/zstd": "zst",
        "image/svg+xml": "svg",
        "image/webp": "webp",
        "text/csv": "csv",
        "text/javascript": "js jsx mjs",
        "text/markdown": "md markdown",
        "text/plain": "cfg conf go ini java kt lock log php rb rs swift txt",
        "text/typescript": "ts tsx",
        "text/x-python": "py",
        "text/x-rst": "rst",
        "text/x-shellscript": "sh",
    }.items()
    for suffix in suffixes.split()
}
"""Types that the standard library does not know, or that depend on the system."""
TEXT_NAMES = ("authors", "changelog", "dockerfile", "license", "makefile", "notice", "readme")


def mime_type_of(path: str | Path) -> str:
    """Return the media type for the name of a file; of a compressed file, that of the compression."""
    import mimetypes  # few servers have files

    name = os.path.basename(path).lower()
    suffix = PurePosixPath(name).suffix
    if name in TEXT_NAMES:
        return "text/plain"
    guessed, compression = mimetypes.guess_type(f"file{suffix}")
    return MIME_TYPES.get(suffix) or (not compression and guessed) or "application/octet-stream"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of a folder. `path` is relative to the root, `modified` is a POSIX timestamp."""

    path: str
    size: int
    mime_type: str
    modified: float


class FileReader:
    """One file, chosen by the author of a server; a link is followed."""

    def __init__(self, path: str | Path, max_bytes: int = MAX_BYTES) -> None:
        self.path = Path(path).absolute()
        self.max_bytes = max_bytes
        self.mime_type = mime_type_of(self.path)

    def read(self) -> tuple[bytes, str]:
        """Return content and media type. Raises FileUnavailableError."""
        try:
            folder, name = os.path.split(os.path.realpath(self.path, strict=True))
            descriptor = _open_file(folder, [name])
        except (OSError, ValueError):
            raise _not_found(self.path.name) from None
        return _read(descriptor, self.path.name, self.max_bytes), self.mime_type


class Folder:
    """The files of a folder and below. Names that begin with a dot are left out."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        if not self.path.is_dir():
            raise InvalidToolError(f"'{path}' is not a folder", hint="give the path of an existing folder")

    def read(self, relative: str) -> tuple[bytes, str]:
        """Return content and media type of a file. Raises FileUnavailableError."""
        parts = relative.split("/")
        try:
            descriptor = self._open(parts)
        except (OSError, ValueError):
            raise _not_found(relative) from None
        return _read(descriptor, relative, MAX_BYTES), mime_type_of(parts[-1])

    def files(self) -> Iterator[FileEntry]:
        """Yield files in the order of their paths, up to `MAX_FILES`. Links are left out."""
        count, budget = 0, MAX_FILES * ENTRIES_PER_FILE
        pending: list[FileEntry | list[str]] = [[]]
        while pending and count < MAX_FILES:
            item = pending.pop()
            if isinstance(item, FileEntry):
                count += 1
                yield item
            else:
                number, found = self._list(item, budget)
                budget -= number
                pending += reversed(found)
        if pending or not budget:
            logger.warning("Folder %s has too many files; the list ends after %d", self.path, count)

    def _list(self, parts: list[str], most: int) -> tuple[int, list[FileEntry | list[str]]]:
        """Return how many entries were looked at, and the folders and served files among them, in order."""
        try:
            folder = _open_folder(os.path.realpath(self.path, strict=True), parts)
            try:
                with os.scandir(folder) as scanned:
                    entries = list(islice(scanned, most))
                    described = [_describe(entry, [*parts, entry.name]) for entry in entries]
            finally:
                if isinstance(folder, int):
                    os.close(folder)
        except OSError:
            return 0, []  # removed, replaced by a link, or not readable
        return len(entries), sorted((item for item in described if item is not None), key=_path_of)

    def _open(self, parts: list[str]) -> int:
        """Open a file that is served, inside the root. Raises OSError or ValueError."""
        if not _is_visible(parts):
            raise FileNotFoundError
        root = os.path.realpath(self.path, strict=True)
        if os.path.realpath(os.path.join(root, *parts), strict=True) != os.path.join(root, *parts):
            raise FileNotFoundError
        return _open_file(root, parts)


def _is_visible(parts: list[str]) -> bool:
    """Return whether parts are a valid path that is not hidden."""
    return len(parts) <= MAX_DEPTH and all(map(_is_valid, parts))


def _is_valid(name: str) -> bool:
    is_utf8 = not any("\ud800" <= char <= "\udfff" for char in name)  # how Python shows other bytes
    return is_utf8 and name != "" and not name.startswith(".") and not set(FORBIDDEN) & set(name)


def _describe(entry: os.DirEntry[str], parts: list[str]) -> FileEntry | list[str] | None:
    """Return a file, the parts of a folder, or None for an entry that is neither or not served."""
    try:
        if entry.is_dir(follow_symlinks=False):
            return parts if _is_visible(parts) else None
        if not _is_visible(parts):
            return None
        facts = entry.stat(follow_symlinks=False)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return FileEntry("/".join(parts), facts.st_size, mime_type_of(parts[-1]), facts.st_mtime)


def _path_of(item: FileEntry | list[str]) -> str:
    """Return a path that sorts a folder to where its files belong."""
    return item.path if isinstance(item, FileEntry) else "/".join([*item, ""])


def _open_folder(root: str, parts: Sequence[str]) -> int | str:
    """Open a folder below the root without following links; return its path where that is not possible."""
    if not CAN_OPEN_RELATIVE:
        return os.path.join(root, *parts)
    folder = os.open(root, FOLDER_FLAGS)
    for name in parts:
        outer = folder
        try:
            folder = os.open(name, FOLDER_FLAGS, dir_fd=outer)
        finally:
            os.close(outer)
    return folder


def _open_file(root: str, parts: Sequence[str]) -> int:
    """Open a regular file below the root without following links."""
    folder = _open_folder(root, parts[:-1])
    if isinstance(folder, str):
        name, outer = os.path.join(folder, parts[-1]), None
    else:
        name, outer = parts[-1], folder
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=outer, follow_symlinks=False).st_mode):
            raise FileNotFoundError
        return os.open(name, FILE_FLAGS, dir_fd=outer)
    finally:
        if outer is not None:
            os.close(outer)


def _read(descriptor: int, name: str, max_bytes: int) -> bytes:
    """Read and close an open file; never more than one byte over the limit, however large it becomes."""
    data = bytearray()
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _not_found(name)
        while chunk := os.read(descriptor, min(CHUNK, max_bytes + 1 - len(data))):
            data += chunk
    except OSError:
        raise _not_found(name) from None
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        raise FileTooLargeError(f"File {name!r:.200} is larger than {max_bytes:,} bytes")
    return bytes(data)


def _not_found(name: str) -> FileUnavailableError:
    return FileUnavailableError(f"File {name!r:.200} not found")
