"""Reads and writes one configuration file so that nothing is ever half done.

A file that is there is backed up once, written beside itself and moved into place, with its mode, owner, byte
order mark and line ends; a link is followed to the file it means. A change by somebody else since it was read
is found and left alone. Knows bytes and files; refuses to know what is in them.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from toolcrib.errors import ConfigurationError
from toolcrib.vault import open_new, sync_folder

_BOM = b"\xef\xbb\xbf"
_OTHER_BOMS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Content:
    """What a file held when it was read. `data` is None where there was no file; `path` follows links."""

    path: Path
    data: bytes | None
    text: str

    @property
    def backup(self) -> Path:
        return self.path.with_name(f"{self.path.name}.bak")


def read(path: Path) -> Content:
    """Raises ConfigurationError for what cannot be read as text; no file at all is no error."""
    real = Path(os.path.realpath(path))
    try:
        if not stat.S_ISREG(os.stat(real).st_mode):
            _refuse(path, "is not a file", "name the client's configuration file")
        data = real.read_bytes()
    except FileNotFoundError:
        return Content(real, None, "")
    except OSError as error:
        _refuse(path, f"cannot be read: {error.strerror}")
    if data.startswith(_OTHER_BOMS):
        _refuse(path, "is UTF-16, which the client cannot read", "save it as UTF-8")
    try:
        return Content(real, data, data.removeprefix(_BOM).decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(
            "is not UTF-8 text", file=str(path), line=line, hint="save it as UTF-8"
        ) from None


def read_backup(content: Content) -> str | None:
    """The text the file had before toolcrib changed it first, if that is still known."""
    try:
        return content.backup.read_bytes().removeprefix(_BOM).decode()
    except (OSError, UnicodeDecodeError):
        return None


def write(content: Content, text: str, mode: int) -> Path | None:
    """Put `text` in the place of `content`; returns the backup, where one was made now.

    `mode` is for a file that was not there. Raises ConfigurationError, and the file is then as it was.
    """
    try:
        return _write(content, text, mode)
    except UnicodeEncodeError:
        _refuse(content.path, "cannot hold a path or value that is not text", "rename what the entry names")
    except OSError as error:
        _refuse(
            content.path, f"cannot be written: {error.strerror}", "use --print and paste the entry yourself"
        )


def _write(content: Content, text: str, mode: int) -> Path | None:
    path, before = content.path, content.data
    data = (_BOM if before is not None and before.startswith(_BOM) else b"") + text.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    _compare(content)
    there = os.stat(path) if before is not None else None
    if there is not None:
        mode = stat.S_IMODE(there.st_mode)
        if not os.access(path, os.W_OK):
            raise PermissionError(0, "it is read-only")
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        _create(draft, data, mode, there)
        _compare(content)  # once more: writing takes longer than looking
        backup = _back_up(content, mode, there)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)
    return backup


def _create(path: Path, data: bytes, mode: int, like: os.stat_result | None) -> None:
    """A new file that is safely on the disk when this returns."""
    # Until it has its group, it is for its owner only: another group than the one meant could read it.
    with open(open_new(path, mode if like is None else mode & 0o700), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if like is None:
        return
    if hasattr(os, "chown") and (like.st_uid, like.st_gid) != (os.stat(path).st_uid, os.stat(path).st_gid):
        try:
            os.chown(path, like.st_uid, like.st_gid)
        except OSError:
            pass  # only an administrator can give a file away
    os.chmod(path, mode)


def _back_up(content: Content, mode: int, like: os.stat_result | None) -> Path | None:
    """Once: what was there before the first change is what somebody will want back."""
    if content.data is None:
        return None
    try:
        _create(content.backup, content.data, mode, like)
    except FileExistsError:
        return None
    return content.backup


def _compare(content: Content) -> None:
    try:
        now = content.path.read_bytes()
    except FileNotFoundError:
        now = None
    if now != content.data:
        _refuse(content.path, "was changed by somebody else just now", "run it again")


def _refuse(path: Path, problem: str, hint: str | None = None) -> NoReturn:
    raise ConfigurationError(problem, file=str(path), hint=hint) from None
