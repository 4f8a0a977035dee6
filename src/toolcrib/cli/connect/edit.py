"""Puts a server into a client's file, takes it out, and says whether it is there.

Knows what counts as the same entry and what of an old one stays. How a format is edited and how a file is
written it leaves to the editor and the store.

Reads and writes one configuration file so that nothing is ever half done.

A file that is there is backed up once, written beside itself and moved into place, with its mode, owner, byte
order mark and line ends; a link is followed to the file it means. A change by somebody else since it was read
is found and left alone. Knows bytes and files; refuses to know what is in them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from toolcrib.cli.connect.clients import Client
from toolcrib.cli.connect.json_file import CannotEditError, MalformedError
from toolcrib.config.atomic_file import open_new, sync_folder
from toolcrib.errors import ConfigurationError

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


State = Literal[
    "connected", "replaced", "already-connected", "different", "removed", "not-connected", "foreign"
]
# What says how to reach a server; the rest of an entry (timeouts, trust, switches) is the user's.
_TRANSPORT = ("type", "command", "args", "env", "url", "httpUrl")
PRIVATE = 0o600
SHARED = 0o666  # less what the user's mask takes away


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of it. `existing` is the entry that was there before; `backup` the copy made now."""

    state: State
    existing: Any = None
    backup: Path | None = None


def connect(
    client: Client, file: Path, name: str, entry: Mapping[str, Any], *, mode: int = PRIVATE
) -> Outcome:
    """Add an entry. One that is there already is left alone, whatever it says."""
    with _placed(file, _paste(client, name, entry)):
        content = read(file)
        servers = client.editor.servers(content.text)
        if name in servers:
            same = _is_same(servers[name], entry)
            return Outcome("already-connected" if same else "different", servers[name])
        text = client.editor.put(content.text, name, dict(entry))
        return Outcome("connected", backup=write(content, text, mode))


def replace(
    client: Client, file: Path, name: str, entry: Mapping[str, Any], *, mode: int = PRIVATE
) -> Outcome:
    """Add an entry, or change the one of this name into it."""
    with _placed(file, _paste(client, name, entry)):
        content = read(file)
        servers = client.editor.servers(content.text)
        existing = servers.get(name)
        if name in servers and _is_same(existing, entry):
            return Outcome("already-connected", existing)
        text = client.editor.put(content.text, name, _merge(existing, entry))
        state: State = "replaced" if name in servers else "connected"
        return Outcome(state, existing, write(content, text, mode))


def disconnect(client: Client, file: Path, name: str, is_ours: Callable[[Any], bool]) -> Outcome:
    """Take an entry out. One that is not ours stays."""
    with _placed(file, "take it out by hand"):
        content = read(file)
        servers = client.editor.servers(content.text)
        if name not in servers:
            return Outcome("not-connected")
        existing = servers[name]
        if not is_ours(existing):
            return Outcome("foreign", existing)
        text = _undo(client, content, name, existing)
        if text is None:
            text = client.editor.drop(content.text, name)
        return Outcome("removed", existing, write(content, text, PRIVATE))


def list_servers(client: Client, file: Path) -> dict[str, Any]:
    """Every entry in a file by its name. Raises ConfigurationError."""
    with _placed(file):
        return client.editor.servers(read(file).text)


def _undo(client: Client, content: Content, name: str, entry: Any) -> str | None:
    """The text before the entry, letter by letter, where nothing but the entry was changed since."""
    before = read_backup(content)
    try:
        if before is None or client.editor.put(before, name, entry) != content.text:
            return None
        return None if name in client.editor.servers(before) else before
    except (MalformedError, TypeError, AttributeError):
        return None  # the backup is of some other time


def _is_same(existing: Any, entry: Mapping[str, Any]) -> bool:
    if not isinstance(existing, Mapping):
        return False
    told = {key: value for key, value in existing.items() if key in _TRANSPORT}
    return _without_empty(told) == _without_empty(entry)


def _without_empty(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An empty environment is none."""
    return {key: value for key, value in entry.items() if key != "env" or value}


def _merge(existing: Any, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The new entry with what else the old one said; not where the way to reach the server is another.

    Headers of an address make no sense for a command, and Codex refuses a file that has both.
    """
    if not isinstance(existing, Mapping) or ("command" in existing) != ("command" in entry):
        return dict(entry)
    return {**entry, **{key: value for key, value in existing.items() if key not in _TRANSPORT}}


def _paste(client: Client, name: str, entry: Mapping[str, Any]) -> str:
    return f"put this there by hand:\n{client.editor.show(name, dict(entry))}".rstrip()


@contextmanager
def _placed(file: Path, by_hand: str = "") -> Iterator[None]:
    """What is wrong with a text, said with the file it stands in. `by_hand`: what to do where nothing is."""
    try:
        yield
    except MalformedError as error:
        hint = by_hand if isinstance(error, CannotEditError) else error.hint
        raise ConfigurationError(
            error.message,
            file=str(file),
            line=error.line,
            hint=hint or "mend it there, or use --print and paste the entry yourself",
        ) from None
