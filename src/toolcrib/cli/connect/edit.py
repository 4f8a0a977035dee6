"""Add, replace and remove a server in the configuration file of a client.

An existing file is backed up once before the first change, and replaced atomically with its mode, owner, byte
order mark and line ends; a link is followed to its file. A change by another program in between is detected.
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
from toolcrib.config.atomic_file import PRIVATE, create_file, replace_file
from toolcrib.errors import ConfigurationError

_BOM = b"\xef\xbb\xbf"
_OTHER_BOMS = (b"\xff\xfe", b"\xfe\xff")
# The keys that say how to reach a server; the others (timeouts, trust, switches) belong to the user.
_TRANSPORT = ("type", "command", "args", "env", "url", "httpUrl")

State = Literal[
    "connected", "replaced", "already-connected", "different", "removed", "not-connected", "foreign"
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an edit: the entry that existed before, and the backup if one was made now."""

    state: State
    existing: Any = None
    backup: Path | None = None


def connect(
    client: Client, file: Path, name: str, entry: Mapping[str, Any], *, mode: int | None = PRIVATE
) -> Outcome:
    """Add an entry; an existing one of this name is left alone. `mode` is for a new file."""
    with _errors(file, _paste_hint(client, name, entry)):
        content = read(file)
        servers = client.editor.servers(content.text)
        if name in servers:
            is_same = _is_same(servers[name], entry)
            return Outcome("already-connected" if is_same else "different", servers[name])
        text = client.editor.put(content.text, name, dict(entry))
        return Outcome("connected", backup=write(content, text, mode))


def replace(
    client: Client, file: Path, name: str, entry: Mapping[str, Any], *, mode: int | None = PRIVATE
) -> Outcome:
    """Add an entry, or replace the one of this name."""
    with _errors(file, _paste_hint(client, name, entry)):
        content = read(file)
        servers = client.editor.servers(content.text)
        existing = servers.get(name)
        if name in servers and _is_same(existing, entry):
            return Outcome("already-connected", existing)
        text = client.editor.put(content.text, name, _merge(existing, entry))
        state: State = "replaced" if name in servers else "connected"
        return Outcome(state, existing, write(content, text, mode))


def disconnect(client: Client, file: Path, name: str, is_ours: Callable[[Any], bool]) -> Outcome:
    """Remove an entry, if it is ours."""
    with _errors(file, "remove it by hand"):
        content = read(file)
        servers = client.editor.servers(content.text)
        if name not in servers:
            return Outcome("not-connected")
        existing = servers[name]
        if not is_ours(existing):
            return Outcome("foreign", existing)
        text = _restore(client, content, name, existing)
        if text is None:
            text = client.editor.drop(content.text, name)
        return Outcome("removed", existing, write(content, text, PRIVATE))


def list_servers(client: Client, file: Path) -> dict[str, Any]:
    """Return every entry of a file by its name. Raises ConfigurationError."""
    with _errors(file):
        return client.editor.servers(read(file).text)


def _restore(client: Client, content: Content, name: str, entry: Any) -> str | None:
    """Return the text of the backup, where adding the entry is the only change since."""
    try:
        before = content.backup.read_bytes().removeprefix(_BOM).decode()
        if name in client.editor.servers(before):
            return None
        return before if client.editor.put(before, name, entry) == content.text else None
    except (OSError, ValueError, TypeError, AttributeError):
        return None  # no backup, or one of another time


def _is_same(existing: Any, entry: Mapping[str, Any]) -> bool:
    """Return whether two entries reach the same server; an empty environment is none."""
    if not isinstance(existing, Mapping):
        return False
    known = {key: value for key, value in existing.items() if key in _TRANSPORT and (key != "env" or value)}
    return known == {key: value for key, value in entry.items() if key != "env" or value}


def _merge(existing: Any, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the new entry with the other keys of the old one, unless the transport changes: headers make no
    sense for a command, and Codex rejects a file that has both."""
    if not isinstance(existing, Mapping) or ("command" in existing) != ("command" in entry):
        return dict(entry)
    return {**entry, **{key: value for key, value in existing.items() if key not in _TRANSPORT}}


def _paste_hint(client: Client, name: str, entry: Mapping[str, Any]) -> str:
    return f"add this by hand:\n{client.editor.show(name, dict(entry))}".rstrip()


@contextmanager
def _errors(file: Path, by_hand: str = "") -> Iterator[None]:
    """Convert errors of the text to ConfigurationError; `by_hand` is the hint where it cannot be edited."""
    try:
        yield
    except MalformedError as error:
        hint = by_hand if isinstance(error, CannotEditError) else error.hint
        hint = hint or "fix the file, or use --print and paste the entry"
        raise ConfigurationError(error.message, file=str(file), line=error.line, hint=hint) from None


# --- the file ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file when it was read; `data` is None where there was none. `path` is not a link."""

    path: Path
    data: bytes | None
    text: str

    @property
    def backup(self) -> Path:
        return self.path.with_name(f"{self.path.name}.bak")


def read(path: Path) -> Content:
    """Read a file, which need not exist. Raises ConfigurationError."""
    real = Path(os.path.realpath(path))
    try:
        if not stat.S_ISREG(os.stat(real).st_mode):
            _fail(path, "is not a file", "name the configuration file of the client")
        data = real.read_bytes()
    except FileNotFoundError:
        return Content(real, None, "")
    except OSError as error:
        _fail(path, f"cannot be read: {error.strerror}")
    if data.startswith(_OTHER_BOMS):
        _fail(path, "is UTF-16, which the client cannot read", "save it as UTF-8")
    try:
        return Content(real, data, data.removeprefix(_BOM).decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigurationError("is not UTF-8", file=str(path), line=line, hint="save it as UTF-8") from None


def write(content: Content, text: str, mode: int | None) -> Path | None:
    """Replace a file; return the backup, where one was made now.

    `mode` is for a new file. Raises ConfigurationError; the file is then unchanged.
    """
    path = content.path
    try:
        bom = _BOM if (content.data or b"").startswith(_BOM) else b""
        data = bom + text.encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_unchanged(content)
        owner = None
        if content.data is not None:
            owner = os.stat(path)
            mode = stat.S_IMODE(owner.st_mode)
            if not os.access(path, os.W_OK):
                raise PermissionError(0, "it is read-only")
        with replace_file(path, mode, owner) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # may take long
            _check_unchanged(content)  # again, right before the file is replaced
            # Only the state before the first change is worth keeping.
            is_backed_up = content.data is not None and create_file(content.backup, content.data, mode, owner)
        return content.backup if is_backed_up else None
    except UnicodeEncodeError:
        _fail(path, "cannot contain a path or value that is not text", "rename what the entry names")
    except OSError as error:
        _fail(path, f"cannot be written: {error.strerror}", "use --print and paste the entry")


def _check_unchanged(content: Content) -> None:
    try:
        now = content.path.read_bytes()
    except FileNotFoundError:
        now = None
    if now != content.data:
        _fail(content.path, "was changed by another program just now", "run the command again")


def _fail(path: Path, problem: str, hint: str | None = None) -> NoReturn:
    raise ConfigurationError(problem, file=str(path), hint=hint) from None
