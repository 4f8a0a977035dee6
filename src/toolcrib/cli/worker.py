"""A worker process of `toolcrib serve`: its channel to the supervisor, and how it serves."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from toolcrib.cli.options import Targets, report_error
from toolcrib.cli.output import Terminal, open_terminal
from toolcrib.cli.reload import find_watched
from toolcrib.cli.serving import ServeOptions, ServeProcess, is_refused, use_json_messages
from toolcrib.processes import LineReader
from toolcrib.server import MCPServer
from toolcrib.transports.http.server import bind
from toolcrib.transports.pipe import Pipe
from toolcrib.transports.serving import HTTPOptions
from toolcrib.transports.stdio import DRAIN_S, StandardStreams
from toolcrib.validation import codec

MAX_LINE_BYTES = 256 * 1024 * 1024
MCP = b">"
"""The mark of a line that is a message of MCP."""
RETIRED_S = 3600.0
"""Time for the running calls of a worker that a reload has replaced."""
BIND_S = 10.0
"""Where sockets cannot be passed on: time for a worker to free the port for the next one."""


def work() -> None:
    """Run a worker, whose stdin and stdout are its channel."""
    channel = Channel(StandardStreams())  # what tools print goes to stderr
    config = channel.read_config()
    threading.Thread(target=channel.follow, daemon=True).start()
    with open_terminal(debug=config["debug"]) as terminal:
        try:
            code = _work(config, channel, terminal)
        except KeyboardInterrupt:
            code = 1
        except Exception as error:
            code = report_error(error, terminal)
    sys.exit(code)


class Channel:
    """The channel of this worker to its supervisor. `handlers` get the messages of each kind."""

    def __init__(self, standard: StandardStreams) -> None:
        self._input, self._output = standard.input, standard.output
        self._lines = LineReader(MAX_LINE_BYTES)
        self._early: list[bytes] = []
        self._lock = threading.Lock()
        self.feed: Callable[[bytes], None] = lambda _: None
        self.handlers: dict[str, Callable[[Any], object]] = {}

    def read_config(self) -> Any:
        while not self._early:
            data = os.read(self._input, 65_536)
            if not data:
                sys.exit(1)
            self._early += filter(None, self._lines.feed(data))
        return json.loads(self._early.pop(0))

    def send(self, **message: Any) -> None:
        self._write(json.dumps(message).encode())

    def send_message(self, line: bytes) -> None:
        """Send a message of MCP."""
        self._write(MCP + line)

    def _write(self, line: bytes) -> None:
        with self._lock:
            rest = memoryview(line + b"\n")
            while rest:
                rest = rest[os.write(self._output, rest) :]

    def follow(self) -> None:
        """Handle messages until the other end closes, as when its owner is killed; then stop this process."""
        for line in self._early:
            self._handle(line)
        with suppress(OSError):
            while data := os.read(self._input, 65_536):
                for line in filter(None, self._lines.feed(data)):
                    self._handle(line)
        os.kill(os.getpid(), signal.SIGTERM)

    def _handle(self, line: bytes) -> None:
        if line.startswith(MCP):
            self.feed(line[len(MCP) :])
            return
        for kind, value in json.loads(line).items():
            self.handlers[kind](value)


def _work(config: dict[str, Any], channel: Channel, terminal: Terminal) -> int:
    for descriptor in config["sockets"]:
        os.set_inheritable(descriptor, False)  # not for programs that tools start
    options = ServeOptions(**config["options"])
    options = replace(options, targets=Targets.of(options.targets, config["arguments"]))
    options = replace(options, workers=config["workers"])
    if options.log_format == "json":
        use_json_messages(terminal, show_process=options.workers != 1)
    if options.reload:  # the byte code of two versions that are saved within a second looks the same
        sys.dont_write_bytecode, os.environ["PYTHONDONTWRITEBYTECODE"] = True, "1"
    loaded = None
    try:
        is_single = config["workers"] == 1
        key = bytes.fromhex(config["key"])
        process = ServeProcess(options, terminal, key=key, keeps_sessions=is_single)
        loaded = process.loaded
    finally:
        if options.reload:
            channel.send(watch=list(find_watched(options.targets, options.lock, loaded)))
    if is_refused(process.summary, options, terminal):
        return 1
    process.share(config["shared_folder"])
    transports = process.loaded.server.transports
    transports.engine.sessions.were_lost = config["number"] > config["workers"]
    channel.handlers |= {
        "announce": transports.announce_lists,
        "retire": lambda kinds: transports.retire(kinds, RETIRED_S, lambda: channel.send(retired=True)),
    }
    sockets = [socket.socket(fileno=descriptor) for descriptor in config["sockets"]]

    async def wait_for_turn() -> list[socket.socket]:
        """Say that everything is open, and wait until the worker before this one accepts nothing more."""
        loop, may_serve = asyncio.get_running_loop(), asyncio.Event()
        channel.handlers["serve"] = lambda _: loop.call_soon_threadsafe(may_serve.set)
        channel.send(loaded={"summary": asdict(process.summary), "lists": digest_lists(process)})
        await may_serve.wait()
        return sockets or ([] if options.stdio else await _bind_soon(http.host, http.port))

    http = HTTPOptions(**config["http"], sockets=sockets, wait_for_turn=wait_for_turn)
    if options.stdio:
        return process.run(lambda server: _serve_channel(server, channel, wait_for_turn))
    return process.run_http(http, lambda _: channel.send(serves=True))


def digest_lists(process: ServeProcess) -> dict[str, dict[str, str]]:
    """Return a digest of each definition that clients see, by kind of list and name."""
    server = process.loaded.server
    lists = {
        "tools": server.dispatcher.shown(),
        "resources": server.resources.published(),
        "prompts": server.prompts.published(),
    }
    return {
        kind: {tool.name: hashlib.sha256(codec.encode(tool.to_wire())).hexdigest() for tool in tools}
        for kind, tools in lists.items()
    }


async def _bind_soon(host: str, port: int) -> list[socket.socket]:
    """Bind a port that the worker before this one is about to free."""
    deadline = time.monotonic() + BIND_S
    while True:
        try:
            return bind(host, port)
        except OSError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)


async def _serve_channel(
    server: MCPServer, channel: Channel, wait_for_turn: Callable[[], Awaitable[object]]
) -> None:
    """Serve one client whose messages come over the channel, until the channel closes."""
    loop = asyncio.get_running_loop()
    pipe = Pipe(server.transports.engine, channel.send_message)
    await wait_for_turn()

    def feed(line: bytes) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(pipe.feed, line)

    channel.feed = feed
    channel.send(serves=True)
    try:
        await asyncio.Event().wait()
    finally:
        await pipe.drain(DRAIN_S)
        await pipe.aclose()
