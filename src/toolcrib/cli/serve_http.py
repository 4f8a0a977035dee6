"""`toolcrib serve` over HTTP: settings, sockets, one process or several, and the word that it can be reached.

Knows what the command line and the files say of HTTP, and which wins; refuses to know how things are served.

What a server says when it can be reached: where, what, and what to paste into a client.

Knows words and the clients' entries; refuses to know tools and sockets.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolcrib.cli import connect as clients
from toolcrib.cli import workers as crew
from toolcrib.cli.connect import DEFAULT_NAME, HttpServer, Server, StdioServer
from toolcrib.cli.connect import command as connect
from toolcrib.cli.diff import find_lock
from toolcrib.cli.load import (
    Summary,
    headline,
    put,
    read_http,
    read_policies,
    say_tools,
    say_trouble,
    say_warnings,
)
from toolcrib.cli.options import Failure
from toolcrib.cli.output import Terminal
from toolcrib.cli.policy import refuse_apart, warn_apart
from toolcrib.cli.serve import Wishes, run_http
from toolcrib.cli.sockets import address_of, is_public, open_door
from toolcrib.errors import ConfigurationError
from toolcrib.transports.serving import PATH, HTTPOptions


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is: its addresses, its process, how many do its work, what to call it in a client."""

    addresses: Sequence[str]
    pid: int
    workers: int
    entry_name: str
    targets: Sequence[str]
    command: StdioServer | None
    is_public: bool

    def to_json(self, summary: Summary) -> dict[str, Any]:
        return {
            "name": summary.name,
            "address": self.addresses[0],
            "addresses": list(self.addresses),
            "pid": self.pid,
            "workers": self.workers,
            "tools": [name for name, _ in summary.tools],
            "findings": [finding.to_json() for finding in summary.findings],
        }


def say_limits(summary: Summary, place: Place, terminal: Terminal) -> None:
    """What does not go without saying."""
    if place.workers > 1:
        terminal.say(
            "note",
            "several workers keep no sessions: tools cannot ask clients older than 2026-07-28 anything",
        )
    if place.is_public and summary.shows is None:
        terminal.say(
            "warning",
            "other machines can reach this server, and nobody has to say who they are: "
            "whoever reaches it can call its tools",
            "name keys or an authorization server under [auth]; names that clients use for this machine are "
            "let in with --allow-host",
        )


def greet(summary: Summary, place: Place, terminal: Terminal) -> None:
    """Everything a person wants to know of a server that can be reached from now on."""
    workers = f" with {place.workers} workers" if place.workers > 1 else ""
    if terminal.spell is not None:  # nobody pastes anything from a log
        terminal.say("note", f"{headline(summary)}{workers} at {', '.join(place.addresses)}")
        return
    put(terminal, f"{headline(summary)}{workers} at")
    for address in place.addresses:
        put(terminal, f"  {address}", bold=True)
    put(terminal, "")
    say_tools(summary, terminal)
    put(terminal, "For a client that takes an address:")
    _put_entry(place.entry_name, HttpServer(place.addresses[0]), terminal)
    if summary.shows is not None:
        sent = "Authorization: Bearer KEY" if summary.shows == "a key" else "Authorization: Bearer TOKEN"
        put(terminal, f"  with {summary.shows} of the caller's own: the header {sent}")
    if place.command is not None:
        put(terminal, "For a client that starts its servers itself:")
        _put_entry(place.entry_name, place.command, terminal)
    words = " ".join(["toolcrib connect CLIENT", *(shlex.quote(target) for target in place.targets)])
    put(terminal, f"{words} writes it into the client's file. Ctrl-C ends the server.")
    if summary.findings or place.is_public:
        put(terminal, "")


def _put_entry(name: str, server: Server, terminal: Terminal) -> None:
    """On one line: it is to be pasted, and the tools above it are to be seen."""
    put(terminal, f"  {json.dumps(json.loads(clients.snippet(name, server)), ensure_ascii=False)}")


def listen(wishes: Wishes, terminal: Terminal) -> int:
    """Serve over HTTP until told to end."""
    http = read_http(wishes.targets)
    workers = wishes.workers or http.workers or 1
    _refuse_workers(workers, wishes, terminal)
    host = wishes.host or http.host or "127.0.0.1"
    port = next(port for port in (wishes.port, http.port, 8000) if port is not None)
    options = HTTPOptions(
        host=host,
        path=wishes.path or http.path or PATH,
        allowed_hosts=(*http.allowed_hosts, *wishes.allow_host),
        allowed_origins=(*http.allowed_origins, *wishes.allow_origin),
        insecure=wishes.insecure or bool(http.insecure),
        sockets=open_door(host, port),
    )
    place = _place(wishes, options, workers)

    def ready(summary: Summary) -> None:
        for speak in (_say, _tell):  # the data last: who reads it may go on
            try:
                speak(summary, place, wishes, terminal)
            except BrokenPipeError:
                pass  # nobody reads it; the clients are still to be served

    try:
        if workers > 1:
            return crew.run(wishes, options, workers, terminal, ready)
        return run_http(wishes, options, terminal, ready)
    finally:
        for each in options.sockets:
            each.close()


def _refuse_workers(workers: int, wishes: Wishes, terminal: Terminal) -> None:
    if workers == 1:
        return
    if wishes.reload:
        raise Failure(
            f"--reload works with one process, not with {workers} workers",
            "drop --workers" if wishes.workers else "add --workers 1",
        )
    if sys.platform == "win32":
        raise Failure("--workers needs a system whose processes can inherit sockets", "use one process")
    for policy in read_policies(wishes.targets):
        refuse_apart(policy, workers)
        warn_apart(policy, workers, terminal)


def _place(wishes: Wishes, options: HTTPOptions, workers: int) -> Place:
    addresses = [address_of(each, options.host, options.path) for each in options.sockets]
    targets = [target for target in wishes.targets if _find_command([target]) is not None]
    try:
        name = connect.default_name(targets)
    except ConfigurationError:
        name = DEFAULT_NAME  # why the file cannot be read is told with the rest
    return Place(
        addresses=list(dict.fromkeys(addresses)),
        pid=os.getpid(),
        workers=workers,
        targets=targets,
        entry_name=name,
        command=_hold(_find_command(targets), wishes),
        is_public=is_public(options.sockets),
    )


def _find_command(targets: Sequence[str]) -> StdioServer | None:
    """How a client would start this server itself; None where something of it is not there."""
    try:
        return connect.launch(targets)
    except Failure:
        return None  # which is told with the rest


def _hold(command: StdioServer | None, wishes: Wishes) -> StdioServer | None:
    """The same for a server that keeps to its lock: what a client starts keeps to it too."""
    if command is None or not wishes.is_locked:
        return command
    file, said = find_lock(wishes.targets, wishes.lock)
    words = ("--lock", os.path.abspath(file), "--on-drift", wishes.on_drift or said.on_drift or "refuse")
    return replace(command, args=(*command.args, *words))


def _say(summary: Summary, place: Place, wishes: Wishes, terminal: Terminal) -> None:
    if not wishes.as_json:
        greet(summary, place, terminal)
    say_trouble(summary, terminal)
    say_warnings(summary, terminal)
    say_limits(summary, place, terminal)


def _tell(summary: Summary, place: Place, wishes: Wishes, terminal: Terminal) -> None:
    if wishes.as_json:
        terminal.json_line(json.dumps(place.to_json(summary)))
