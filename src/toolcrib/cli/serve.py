"""`toolcrib serve`: the main job. Reads what is wished for, opens the door, and has it served.

Knows the words of the command, and what goes together with what; refuses to know how things are served.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from toolcrib.cli import connect, crew, greeting
from toolcrib.cli.door import address_of, is_public, open_door
from toolcrib.cli.frame import Command, Failure, takes_json, takes_targets
from toolcrib.cli.greeting import Place, Summary
from toolcrib.cli.journal import LEVELS
from toolcrib.cli.offer import read_http
from toolcrib.cli.serving import Wishes, run_http, run_stdio
from toolcrib.cli.terminal import Terminal
from toolcrib.clients import StdioServer
from toolcrib.config import MAX_WORKERS, check_path
from toolcrib.definition import MAX_TIMEOUT_S
from toolcrib.wiring import PATH, HTTPOptions

EXAMPLES = """
toolcrib serve                       the toolcrib.toml here, or the samples, over HTTP
toolcrib serve tools.py more/        a file and a folder
toolcrib serve tools.py --reload     load what changes while it serves
toolcrib serve tools.py --stdio      for a client that starts its servers
toolcrib serve --port 0 --json       any free port; tells it as JSON
toolcrib serve tools.py --workers 4  several processes
"""
_HTTP_ONLY = ("--host", "--port", "--path", "--workers", "--allow-host", "--allow-origin", "--json")


def _read_path(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    try:
        return None if value is None else check_path(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(cls=Command, examples=EXAMPLES)
@takes_targets
@click.option("--stdio", is_flag=True, help="Speak on stdin and stdout instead of HTTP.")
@click.option("--host", metavar="HOST", help="Where to listen; 127.0.0.1 unless told otherwise.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="PORT", help="8000; 0 takes any that is free.")
@click.option("--path", callback=_read_path, metavar="PATH", help="The endpoint; /mcp unless told otherwise.")
@click.option("--workers", type=click.IntRange(1, MAX_WORKERS), metavar="N", help="Serve with N processes.")
@click.option("--reload", is_flag=True, help="Exchange the tools when their files change.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="A name this server goes by; any number.")
@click.option("--allow-origin", multiple=True, metavar="URL", help="A page that may call it; any number.")
@click.option("--name", metavar="NAME", help="What the server calls itself.")
@click.option("--strict", is_flag=True, help="Do not start where anything was refused.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, MAX_TIMEOUT_S, min_open=True),
    metavar="SECONDS",
    help="For tools that set none.",
)
@click.option("--log-level", type=click.Choice(LEVELS), help="What to log; warning unless told otherwise.")
@click.option("--verbose", is_flag=True, help="With --stdio, say what is served though nobody looks.")
@takes_json
def serve(terminal: Terminal, **given: Any) -> int:
    """Serve tools to MCP clients.

    One tool or target that is wrong keeps nobody from serving the others; it is said what was refused. Ctrl-C
    or SIGTERM lets calls under way end for up to 10 seconds, the second one ends at once.

    A TARGET is a Python file, a folder, a module, module:object or a toolcrib.toml.
    """
    wishes = Wishes(**given)
    if wishes.stdio:
        _refuse_http(wishes)
        return run_stdio(wishes, terminal)
    http = read_http(wishes.targets)
    workers = wishes.workers or http.workers or 1
    _refuse_workers(workers, wishes)
    host = wishes.host or http.host or "127.0.0.1"
    port = next(port for port in (wishes.port, http.port, 8000) if port is not None)
    options = HTTPOptions(
        host=host,
        path=wishes.path or http.path or PATH,
        allowed_hosts=(*http.allowed_hosts, *wishes.allow_host),
        allowed_origins=(*http.allowed_origins, *wishes.allow_origin),
        sockets=open_door(host, port),
    )
    place = _place(wishes, options, workers)

    def ready(summary: Summary) -> None:
        _announce(summary, place, wishes, terminal)

    if workers > 1:
        return crew.run(wishes, options, workers, terminal, ready)
    return run_http(wishes, options, terminal, ready)


def _refuse_http(wishes: Wishes) -> None:
    for option in _HTTP_ONLY:
        key = {"--json": "as_json"}.get(option, option.strip("-").replace("-", "_"))
        if getattr(wishes, key) not in (None, False, ()):
            raise Failure(
                f"{option} and --stdio do not go together", f"{option} is for HTTP: drop one of them"
            )


def _refuse_workers(workers: int, wishes: Wishes) -> None:
    if workers == 1:
        return
    if wishes.reload:
        raise Failure(
            f"--reload works with one process, not with {workers} workers",
            "drop --workers" if wishes.workers else "add --workers 1",
        )
    if sys.platform == "win32":
        raise Failure("--workers needs a system whose processes can inherit sockets", "use one process")


def _place(wishes: Wishes, options: HTTPOptions, workers: int) -> Place:
    addresses = [address_of(each, options.host, options.path) for each in options.sockets]
    return Place(
        addresses=list(dict.fromkeys(addresses)),
        pid=os.getpid(),
        workers=workers,
        targets=wishes.targets,
        entry_name=connect.default_name(wishes.targets),
        command=_find_command(wishes.targets),
        is_public=is_public(options.sockets),
    )


def _find_command(targets: Sequence[str]) -> StdioServer | None:
    """How a client would start this server itself; None where it could not be started from elsewhere."""
    try:
        return connect.launch(targets)
    except Failure:
        return None  # one of them is not there, which is told in its place


def _announce(summary: Summary, place: Place, wishes: Wishes, terminal: Terminal) -> None:
    if wishes.as_json:
        terminal.data(json.dumps(place.to_json(summary)))
    else:
        greeting.greet(summary, place, terminal)
    greeting.say_trouble(summary, terminal)
    greeting.say_warnings(summary, terminal)
    greeting.say_limits(place, terminal)
