"""`toolcrib serve` over HTTP: settings, sockets, one process or several, and the word that it can be reached.

Knows what the command line and the files say of HTTP, and which wins; refuses to know how things are served.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from toolcrib.cli import connect, crew
from toolcrib.cli.demands import refuse_apart, warn_apart
from toolcrib.cli.door import address_of, is_public, open_door
from toolcrib.cli.frame import Failure
from toolcrib.cli.greeting import Place, greet, say_limits
from toolcrib.cli.offer import read_http, read_policies
from toolcrib.cli.serving import Wishes, run_http
from toolcrib.cli.sides import find_lock
from toolcrib.cli.summary import Summary, say_trouble, say_warnings
from toolcrib.cli.terminal import Terminal
from toolcrib.clients import DEFAULT_NAME, StdioServer
from toolcrib.errors import ConfigurationError
from toolcrib.wiring import PATH, HTTPOptions


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
