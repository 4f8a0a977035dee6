"""Puts a server into a client's file, takes it out, and says whether it is there.

Knows what counts as the same entry and what of an old one stays. How a format is edited and how a file is
written it leaves to the editor and the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from toolcrib.clients import store
from toolcrib.clients.client import Client
from toolcrib.clients.malformed import CannotEditError, MalformedError
from toolcrib.errors import ConfigurationError

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
        content = store.read(file)
        servers = client.editor.servers(content.text)
        if name in servers:
            same = _is_same(servers[name], entry)
            return Outcome("already-connected" if same else "different", servers[name])
        text = client.editor.put(content.text, name, dict(entry))
        return Outcome("connected", backup=store.write(content, text, mode))


def replace(
    client: Client, file: Path, name: str, entry: Mapping[str, Any], *, mode: int = PRIVATE
) -> Outcome:
    """Add an entry, or change the one of this name into it."""
    with _placed(file, _paste(client, name, entry)):
        content = store.read(file)
        servers = client.editor.servers(content.text)
        existing = servers.get(name)
        if name in servers and _is_same(existing, entry):
            return Outcome("already-connected", existing)
        text = client.editor.put(content.text, name, _merge(existing, entry))
        state: State = "replaced" if name in servers else "connected"
        return Outcome(state, existing, store.write(content, text, mode))


def disconnect(client: Client, file: Path, name: str, is_ours: Callable[[Any], bool]) -> Outcome:
    """Take an entry out. One that is not ours stays."""
    with _placed(file, "take it out by hand"):
        content = store.read(file)
        servers = client.editor.servers(content.text)
        if name not in servers:
            return Outcome("not-connected")
        existing = servers[name]
        if not is_ours(existing):
            return Outcome("foreign", existing)
        text = _undo(client, content, name, existing)
        if text is None:
            text = client.editor.drop(content.text, name)
        return Outcome("removed", existing, store.write(content, text, PRIVATE))


def list_servers(client: Client, file: Path) -> dict[str, Any]:
    """Every entry in a file by its name. Raises ConfigurationError."""
    with _placed(file):
        return client.editor.servers(store.read(file).text)


def _undo(client: Client, content: store.Content, name: str, entry: Any) -> str | None:
    """The text before the entry, letter by letter, where nothing but the entry was changed since."""
    before = store.read_backup(content)
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
