"""Hot reload: the files that are watched, and the client on stdio that keeps its connection.

A worker finds out which files its tools come from; the supervisor, which imports none of them, polls their
states. With `--stdio` the supervisor keeps the pipe of the client. What the client has set up (the handshake,
log level, subscriptions, streams of changes) is repeated to a new worker. A request is answered by the worker
that it was sent to.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import toolcrib
from toolcrib.cli.catalog import find_lock
from toolcrib.cli.load import Loaded, read_configs
from toolcrib.cli.output import Terminal
from toolcrib.cli.serving import Summary
from toolcrib.cli.text import shorten_list
from toolcrib.errors import SourceError
from toolcrib.protocol.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    SUBSCRIPTION,
    Id,
    RPCError,
    error_reply,
)
from toolcrib.registry.folders import Folder
from toolcrib.registry.registry import is_known_finding
from toolcrib.sources import find_files
from toolcrib.sources.loading import find_source_folders, is_installed
from toolcrib.sources.targets import default_target, settings_files
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.cli.workers import Worker

POLL_S = 0.1
QUIET_S = 0.15
"""Files have to stay the same for this time before they are loaded."""
GRACE_S = 0.6
"""The same if a file is missing or empty: editors save like that."""
POLL_SHARE = 0.05
"""The part of the time that polling may take, however many files there are."""

Watched = tuple[str, str]
"""How a path is watched, and the path: a `file`, the Python files of a `folder`, the same of a whole `source`
tree, or every file that a `published` folder shows."""
States = Mapping[str, tuple[int, ...] | None]
_OWN = os.path.dirname(toolcrib.__file__) + os.sep
_LOST = "The server was restarted while this request was running: try again"
_REPEATED = ("initialize", "notifications/initialized", "logging/setLevel")

# --- files -------------------------------------------------------------------------------------------


def find_watched(
    targets: Sequence[str], lock: str | None = None, loaded: Loaded | None = None
) -> Iterator[Watched]:
    """Yield the files of the targets, their settings and their lock, the folders that modules were imported
    from, except installed ones, the folders that the server publishes, and files with problems."""
    configs = list(read_configs(targets))
    named = [target for target in targets if not target.endswith(".toml")]
    for config in configs:
        named += config.targets
    try:
        files = find_files(named or [default_target()])
    except SourceError:
        files = []
    for path in (*settings_files(targets), *files):
        yield ("source" if path.is_dir() else "file", str(path.absolute()))
    yield ("file", str(find_lock(targets, lock)[0].absolute()))
    for module in list(sys.modules.values()):
        file = str(getattr(module, "__dict__", {}).get("__file__"))
        if file.endswith(".py") and not file.startswith(_OWN) and not is_installed(file):
            yield ("folder", os.path.dirname(os.path.abspath(file)))
    if loaded is not None:
        folders = (getattr(tool, "folder", None) for tool in loaded.server.dispatcher.published())
        yield from {("published", str(folder.path)) for folder in folders if isinstance(folder, Folder)}
        yield from {("file", os.path.abspath(found.file)) for found in loaded.findings if found.file}


class WatchedFiles:
    """The states of files. New ones are watched from when they are added."""

    def __init__(self) -> None:
        self._watched: set[Watched] = set()
        self._states: dict[str, tuple[int, ...] | None] = {}

    def add(self, watched: Iterable[Watched]) -> None:
        new = set(watched) - self._watched
        self._watched |= new
        self._states = {**read_states(new), **self._states}

    async def wait_for_change(self) -> list[str]:
        """Return the files that have changed, once they are no longer being saved."""
        last, changed_at = self._states, 0.0
        while True:
            started = time.monotonic()
            now = read_states(self._watched)
            if now != last:
                last, changed_at = now, started
            paths = self._states.keys() | now.keys()
            changed = sorted(path for path in paths if now.get(path) != self._states.get(path))
            is_lost = any(not (state := now.get(path)) or not state[0] for path in changed)
            if changed and started - changed_at >= (GRACE_S if is_lost else QUIET_S):
                self._states = now
                return changed
            took_s = time.monotonic() - started
            await asyncio.sleep(max(POLL_S, took_s / POLL_SHARE))


def read_states(watched: Iterable[Watched]) -> dict[str, tuple[int, ...] | None]:
    """Return size, time and inode of each file; None for one that is missing."""
    found: dict[str, tuple[int, ...] | None] = {}
    for kind, path in watched:
        if kind == "file":
            found[path] = _state_of(path)
        elif kind == "published":
            files = Folder(path).files() if os.path.isdir(path) else ()
            found.update((f"{path}/{each.path}", (each.size, int(each.modified * 1e9))) for each in files)
        else:
            for each in find_source_folders(Path(path)) if kind == "source" else [Path(path)]:
                found.update((str(file), _state_of(str(file))) for file in each.glob("*.py"))
    return found


def _state_of(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def find_world_writable(files: Iterable[str]) -> Iterator[str]:
    """Yield the files that every user of this machine can change or replace."""
    for file in files if os.name == "posix" else ():
        try:
            mode, folder = os.stat(file).st_mode, os.stat(os.path.dirname(os.path.realpath(file))).st_mode
            if mode & stat.S_IWOTH or (folder & stat.S_IWOTH and not folder & stat.S_ISVTX):
                yield file
        except OSError:
            continue


# --- changes -----------------------------------------------------------------------------------------


def compare_loaded(new: Any, old: Any, terminal: Terminal) -> Sequence[str] | None:
    """Return the kinds of lists that differ after a change, or None if there are errors that are new. Print
    what is new."""
    before, after = Summary.decode(old["summary"]), Summary.decode(new["summary"])
    findings = [found for found in after.findings if not is_known_finding(found, before.findings)]
    for found in findings:
        if found.level in ("error", "warning"):
            terminal.finding(found)
    if any(found.level == "error" for found in findings):
        return None
    return [kind for kind in new["lists"] if new["lists"][kind] != old["lists"][kind]]


def print_reload(new: Any, old: Any, terminal: Terminal) -> None:
    """Print what is served after a change, and the names of what has changed."""
    lists = [(old["lists"][kind], new["lists"][kind]) for kind in new["lists"]]
    names = [name for was, is_ in lists for name in {**was, **is_} if was.get(name) != is_.get(name)]
    changed = f" (changed: {shorten_list(names)})" if names else ""
    terminal.message("note", f"reloaded {Summary.decode(new['summary']).counts}{changed}")


# --- the client on stdio -----------------------------------------------------------------------------


class Relay:
    """Passes the messages of one client to the process that serves now, and messages of all processes back.

    `end` stops all processes and waits for them.
    """

    def __init__(self, send: Callable[[bytes], None], end: Callable[[], Awaitable[None]]) -> None:
        self._send = send
        self._end = end
        self._backend: Worker | None = None
        self._backends: dict[int, Worker] = {}
        self._waiting: list[bytes] = []
        self._asked: dict[Id, Worker] = {}
        """The process that each request was sent to."""
        self._setup: dict[str, bytes] = {}
        self._subscribed: dict[str, bytes] = {}
        self._listening: dict[Id, bytes] = {}
        self._repeated: set[Id] = set()
        """Streams of changes that were acknowledged already."""

    # --- from the client ---

    def feed(self, line: bytes) -> None:
        backend: Worker | None = self._backend
        if backend is None:
            self._waiting.append(line)
            return
        message = _decode_message(line, codec.parse)
        method, id_, params = (message.get(key) for key in ("method", "id", "params"))
        params = params if isinstance(params, dict) else {}
        if method == "notifications/cancelled":
            id_ = params.get("requestId")
            if isinstance(id_, str | int):
                self._listening.pop(id_, None)
                backend = self._asked.pop(id_, backend)  # it may send no reply
        elif isinstance(id_, str | int) and isinstance(method, str):
            self._asked[id_] = backend
            self._note(method, id_, params, line)
        elif isinstance(id_, str) and method is None:  # the answer to a question
            number, _, own = id_.partition(":")
            if number.isdecimal() and int(number) in self._backends:
                backend, line = self._backends[int(number)], codec.encode({**message, "id": json.loads(own)})
        elif method in _REPEATED:
            self._setup[method] = line
        backend.send_message(line)
        self._end_if_unused(backend)

    def _note(self, method: str, id_: Id, params: dict[str, Any], line: bytes) -> None:
        """Keep a message that is repeated to a new process."""
        if method in _REPEATED:
            self._setup[method] = line
        elif method == "subscriptions/listen":
            self._listening[id_] = line
        elif method == "resources/subscribe":
            self._subscribed[str(params.get("uri"))] = line
        elif method == "resources/unsubscribe":
            self._subscribed.pop(str(params.get("uri")), None)

    def refuse(self, message: str) -> None:
        """Answer input that is not a message."""
        self._send(error_reply(None, RPCError(INVALID_REQUEST, message)).body or b"")

    async def drain(self, timeout_s: float) -> None:  # noqa: ARG002 - the processes have their own limit
        """Let running calls end, as the client sends nothing more."""
        await self._end()

    async def aclose(self) -> None:
        await self._end()

    # --- from the processes ---

    def receive(self, backend: Worker, line: bytes) -> None:
        message = _decode_message(line, json.loads)
        id_ = message.get("id")
        if "method" in message:
            if id_ is not None:  # a question
                line = codec.encode({**message, "id": f"{backend.number}:{json.dumps(id_)}"})
            elif message["method"] == "notifications/subscriptions/acknowledged":
                stream = message["params"]["_meta"][SUBSCRIPTION]
                if stream in self._repeated:
                    return
                self._repeated.add(stream)
        elif id_ is not None:
            if self._asked.get(id_) is not backend:
                return  # it was repeated, and answered before
            del self._asked[id_]
            self._listening.pop(id_, None)
            self._repeated.discard(id_)
        self._send(line)
        self._end_if_unused(backend)

    def switch(self, backend: Worker) -> None:
        """Use another process from now on, which knows nothing yet of this client."""
        old, self._backend = self._backend, backend
        self._backends[backend.number] = backend
        self._asked.update(dict.fromkeys(self._listening, backend))
        setup = [self._setup[method] for method in _REPEATED if method in self._setup]
        for line in (*setup, *self._subscribed.values(), *self._listening.values()):
            backend.send_message(line)
        waiting, self._waiting = self._waiting, []
        for line in waiting:
            self.feed(line)
        if old is not None:
            self._end_if_unused(old)

    def _end_if_unused(self, backend: Worker) -> None:
        if backend is not self._backend and backend not in self._asked.values():
            backend.close_stdin()

    def lose(self, backend: Worker) -> None:
        """Answer the requests of a process that has ended; streams of changes go on with the next one."""
        self._backends.pop(backend.number, None)
        if backend is self._backend:
            self._backend = None
        lost = [id_ for id_, asked in self._asked.items() if asked is backend and id_ not in self._listening]
        for id_ in lost:
            del self._asked[id_]
            self._send(error_reply(id_, RPCError(INTERNAL_ERROR, _LOST)).body or b"")


def _decode_message(line: bytes, parse: Callable[[bytes], Any]) -> dict[str, Any]:
    try:
        message = parse(line)
    except ValueError:
        return {}  # the process answers with the error
    return message if isinstance(message, dict) else {}
