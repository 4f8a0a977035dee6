"""`toolcrib serve --workers N`: the parent that holds the sockets, and what runs in each worker.

The parent loads no tool, so no tool can harm it. A worker reads what it is to do from its channel: the
wishes, the numbers of the sockets it has inherited, and the key that all workers seal with. Knows both ends
of that channel; how workers are kept is in `toolcrib.workers`.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from toolcrib.cli.door import open_again, share_door
from toolcrib.cli.ending import Ending, end_with
from toolcrib.cli.frame import explain
from toolcrib.cli.journal import speak_json
from toolcrib.cli.serving import Wishes, run_http
from toolcrib.cli.summary import Summary
from toolcrib.cli.terminal import Terminal, open_terminal
from toolcrib.wiring import HTTPOptions
from toolcrib.workers import DRAIN_S, Crew

_PROGRAM = "from toolcrib.cli.crew import work; work()"
_OPTIONS = ("host", "path", "allowed_hosts", "allowed_origins", "insecure")


# --- the parent --------------------------------------------------------------------------------------


def run(
    wishes: Wishes,
    options: HTTPOptions,
    workers: int,
    terminal: Terminal,
    ready: Callable[[Summary], None],
) -> int:
    """Have the sockets served by workers until told to end."""
    facts = {
        "wishes": asdict(replace(wishes, workers=workers)),
        "options": {key: getattr(options, key) for key in _OPTIONS},
        "key": secrets.token_hex(32),
        "debug": terminal.debug,
    }

    def order(is_first: bool, numbers: list[int]) -> bytes:
        return json.dumps({**facts, "is_first": is_first, "sockets": numbers}).encode()

    share_door(options.sockets)
    crew = Crew(
        [sys.executable, "-P", "-c", _PROGRAM],
        workers,
        order=order,
        sockets=lambda: open_again(options.sockets),
        say=lambda words: terminal.say("warning", words),
    )
    with _open_folder() as facts["figures"]:
        return asyncio.run(_supervise(crew, options, lambda report: ready(Summary.decode(report))))


@contextmanager
def _open_folder() -> Iterator[str | None]:
    """Where the workers put their figures together, until they end; None where there is no room for it."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="toolcrib-", ignore_cleanup_errors=True)
    except OSError:
        yield None
        return
    with folder as path:
        yield path


async def _supervise(crew: Crew, options: HTTPOptions, ready: Callable[[bytes], None]) -> int:
    loop = asyncio.get_running_loop()

    def end() -> None:
        for each in options.sockets:
            each.close()  # who comes now is refused, and does not wait for nobody
        crew.end()

    def told() -> None:
        loop.call_soon_threadsafe(end)

    with Ending(told, lambda: not crew.pids, DRAIN_S + 5, cut=crew.kill):
        return await crew.run(ready)


# --- a worker ----------------------------------------------------------------------------------------


def work() -> None:
    """The whole life of a worker. The number of its channel is its argument."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    with channel.makefile("rb") as lines:
        order = json.loads(lines.readline())
    end_with(channel.fileno())
    with open_terminal(debug=order["debug"]) as terminal:
        code = _work(order, channel, terminal)
    sys.exit(code)


def _work(order: dict[str, Any], channel: socket.socket, terminal: Terminal) -> int:
    for number in (channel.fileno(), *order["sockets"]):
        os.set_inheritable(number, False)  # not for the programs that tools start
    sockets = [socket.socket(fileno=number) for number in order["sockets"]]

    def ready(summary: Summary) -> None:
        channel.sendall(summary.encode() + b"\n")

    wishes = Wishes(**order["wishes"])
    if wishes.log_format == "json":
        speak_json(terminal, marks_process=True)
    try:
        return run_http(
            wishes,
            HTTPOptions(**order["options"], sockets=sockets),
            terminal,
            ready,
            order["figures"],
            key=bytes.fromhex(order["key"]),
            keeps_sessions=False,
        )
    except KeyboardInterrupt:
        return 1
    except Exception as error:
        return explain(error, terminal)
