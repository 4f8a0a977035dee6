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
from toolcrib.cli.connect.formats import CannotEditError
from toolcrib.config.atomic_file import PRIVATE, create_file, replace_file
from toolcrib.errors import ConfigurationError

_BOM = b"\xef\xbb\xbf"
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
    client: Client,
    file: Path,
    name: str,
    entry: Mapping[str, Any],
    *,
    force: bool = False,
    mode: int | None = PRIVATE,
) -> Outcome:
    """Add an entry; one of the same name is replaced only with `force`. `mode` is for a new file."""
    with _errors(file, f"add this by hand:\n{client.editor.show(name, entry)}".rstrip()):
        content = read(file)
        servers = client.editor.servers(content.text)
        existing = servers.get(name)
        if name in servers and _is_same(existing, entry):
            return Outcome("already-connected", existing)
        if name in servers and not force:
            return Outcome("different", existing)
        text = client.editor.put(content.text, name, _merge(existing, entry))
        return Outcome("replaced" if name in servers else "connected", existing, write(content, text, mode))


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
        text = client.editor.drop(content.text, name)
        return Outcome("removed", existing, write(content, text, PRIVATE))


def list_servers(client: Client, file: Path) -> dict[str, Any]:
    """Return every entry of a file by its name. Raises ConfigurationError."""
    with _errors(file):
        return client.editor.servers(read(file).text)


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


@contextmanager
def _errors(file: Path, by_hand: str | None = None) -> Iterator[None]:
    """Add the file to errors of its text; `by_hand` is the hint where it cannot be edited."""
    try:
        yield
    except ConfigurationError as error:
        if error.file is not None:
            raise
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
    facts: os.stat_result | None = None

    @property
    def backup(self) -> Path:
        return self.path.with_name(f"{self.path.name}.bak")


def read(path: Path) -> Content:
    """Read a file, which need not exist. Raises ConfigurationError."""
    real = Path(os.path.realpath(path))
    try:
        facts = os.stat(real)
        if not stat.S_ISREG(facts.st_mode):
            _fail(path, "is not a file", "name the configuration file of the client")
        data = real.read_bytes()
        return Content(real, data, data.removeprefix(_BOM).decode(), facts)
    except FileNotFoundError:
        return Content(real, None, "")
    except OSError as error:
        _fail(path, f"cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        _fail(path, "is not UTF-8", "save it as UTF-8")


def write(content: Content, text: str, mode: int | None) -> Path | None:
    """Replace a file; return the backup, where one was made now.

    `mode` is for a new file. Raises ConfigurationError; the file is then unchanged.
    """
    path, facts, old = content.path, content.facts, content.data
    try:
        data = (_BOM if old is not None and old.startswith(_BOM) else b"") + text.encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        if facts is not None:
            mode = stat.S_IMODE(facts.st_mode)
        with replace_file(path, mode, facts) as file:
            file.write(data)
            file.flush()
            os.fsync(
                file.fileno()
            )  # may take long, so that the checks come right before the file is replaced
            if (path.read_bytes() if path.exists() else None) != old:
                _fail(path, "was changed by another program just now", "run the command again")
            if old is not None and not os.access(path, os.W_OK):
                _fail(path, "cannot be written: it is read-only", "use --print and paste the entry")
            # Only the state before the first change is worth keeping.
            is_backed_up = old is not None and create_file(content.backup, old, mode, facts)
        return content.backup if is_backed_up else None
    except UnicodeEncodeError:
        _fail(path, "cannot contain a path or value that is not text", "rename what the entry names")
    except OSError as error:
        _fail(path, f"cannot be written: {error.strerror}", "use --print and paste the entry")


def _fail(path: Path, problem: str, hint: str | None = None) -> NoReturn:
    raise ConfigurationError(problem, file=str(path), hint=hint) from None
