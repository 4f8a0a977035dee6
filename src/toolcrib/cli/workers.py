"""`toolcrib serve --workers` and `--reload`: the supervisor, which holds the sockets and starts workers.

The supervisor imports no tool, so no tool can harm it. Each worker is a fresh interpreter; its stdin and
stdout are a channel, one message per line. Over the channel it gets its configuration (so that it is not
visible in the process list), says what it has loaded, and serves when it is told to. With `--stdio`, the
messages of MCP go both ways, after a mark. When the channel closes, the other side has ended. What workers
share is in the state of the server.

To reload, the supervisor starts new workers, and retires the old ones once the new ones serve.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from types import FrameType
from typing import Any

from toolcrib.cli.options import Targets, report_error
from toolcrib.cli.output import Terminal, open_terminal
from toolcrib.cli.reload import (
    Relay,
    WatchedFiles,
    compare_loaded,
    find_watched,
    find_world_writable,
    print_reload,
)
from toolcrib.cli.serving import (
    SIGNALS,
    ServeOptions,
    ServeProcess,
    Summary,
    is_refused,
    print_stdio_start,
    use_json_messages,
)
from toolcrib.processes import ChildProcess, LineReader, StartError
from toolcrib.server import MCPServer
from toolcrib.transports.http.server import bind
from toolcrib.transports.pipe import Pipe
from toolcrib.transports.serving import HTTPOptions
from toolcrib.transports.stdio import DRAIN_S, StandardStreams, StdioConnection
from toolcrib.validation import codec

MAX_LINE_BYTES = 256 * 1024 * 1024
MCP = b">"
"""The mark of a line that is a message of MCP."""
RETIRED_S = 3600.0
"""Time for the running calls of a worker that a reload has replaced."""
BIND_S = 10.0
"""Where sockets cannot be passed on: time for a worker to free the port for the next one."""
STABLE_S = 10.0
"""A worker that ran this long is replaced at once, others after a growing delay."""
FIRST_DELAY_S = 0.5
MAX_DELAY_S = 30.0
STOP_S = 12.0
"""Time for a worker to stop: ten seconds for its calls, and a margin."""
RETIRE_S = 1.0
"""Time for a worker to stop accepting connections; a tool may block its event loop."""
_PROGRAM = "from toolcrib.cli.workers import work; work()"
_HTTP_FIELDS = ("host", "path", "allowed_hosts", "allowed_origins", "insecure")
_HAS_REUSEPORT = sys.platform == "linux"
PASSES_SOCKETS = sys.platform != "win32"


class Worker(ChildProcess):
    """One worker process. `loaded` is what it says about its tools; None if it has ended before."""

    def __init__(self, number: int, receive: Callable[[Worker, bytes], None]) -> None:
        super().__init__(f"worker {number}")
        self.number = number
        self.loaded: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self.serves: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.retired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines = LineReader(MAX_LINE_BYTES)
        self._receive = receive

    def stdout_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if line:
                self._receive(self, line)

    def finished(self) -> None:
        if not self.loaded.done():
            self.loaded.set_result(None)
        if not self.serves.done():
            self.serves.set_result(False)
        if not self.retired.done():
            self.retired.set_result(None)

    def send(self, **message: Any) -> None:
        if self.stdin is not None:
            self.stdin.write(json.dumps(message).encode() + b"\n")

    def send_message(self, line: bytes) -> None:
        """Send a message of MCP."""
        if self.stdin is not None:
            self.stdin.write(MCP + line + b"\n")


class NotStartedError(Exception):
    """A set of workers cannot serve. `code` is the exit code of the first."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code if code > 0 else 1


@dataclass(eq=False, slots=True)
class Supervisor:
    """Keeps `count` workers running, and replaces them when files change, if `files` are given.

    `open_sockets` makes the sockets of a new worker, which are closed here once it has them. `make_config`
    makes its configuration, from its number and the descriptors of its sockets. `check` gets what a worker
    has loaded after a change, and what the workers before it had; it returns the kinds of lists that differ,
    or None if the tools must not be served. `on_reload` gets the same when they are served. `warn` gets
    messages for people. `relay` has the client of a server on stdio.
    """

    command: Sequence[str]
    count: int
    make_config: Callable[[int, list[int]], Mapping[str, Any]]
    warn: Callable[[str], None]
    open_sockets: Callable[[], list[socket.socket]] = list
    drain_s: float = STOP_S
    files: WatchedFiles | None = None
    check: Callable[[Any, Any], Sequence[str] | None] = lambda new, old: ()  # noqa: ARG005
    on_reload: Callable[[Any, Any], None] = lambda new, old: None  # noqa: ARG005
    relay: Relay | None = None
    _workers: set[Worker] = field(default_factory=set, init=False)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _started: int = field(default=0, init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._workers]

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def stop(self) -> None:
        """Ask all workers to stop; `run` returns when they have."""
        self._stopping.set()
        for worker in self._workers:
            if worker.serves.done():
                worker.close_stdin()
            else:
                worker.kill()  # it has no calls yet

    def kill(self) -> None:
        for worker in self._workers:
            worker.kill()

    async def run(self, on_ready: Callable[[Any], None]) -> int:
        """Keep the workers running until `stop`, and return an exit code.

        `on_ready` gets what the first worker has loaded when all are ready. If the first cannot serve, the
        others are not started.
        """
        try:
            try:
                workers = await self._start_all(None)
            except NotStartedError as error:
                return 0 if self.is_stopping else error.code
            loaded = workers[0].loaded.result()
            if not self.is_stopping:
                on_ready(loaded)
            async with asyncio.TaskGroup() as group:
                reloading = group.create_task(self._reload_on_changes(loaded, group))
                self._tasks = {group.create_task(self._keep(worker)) for worker in workers}
                await self._stopping.wait()
                reloading.cancel()
                _, late = await asyncio.wait(self._tasks, timeout=self.drain_s)
                if late:
                    self.warn(
                        f"killing {len(late)} of {len(self._workers)} workers, which did not stop in time"
                    )
                    self.kill()
            return 0
        finally:
            self._stopping.set()
            self.kill()
            await asyncio.gather(*(worker.wait_exit() for worker in self._workers))

    async def _start_all(self, before: Any) -> list[Worker]:
        """Start workers that serve. Raise NotStartedError if the first cannot, or StartError."""
        first = await self._start()
        loaded = await first.loaded
        changed = None if loaded is None else () if before is None else self.check(loaded, before)
        if changed is None:
            first.close_stdin()
            code = await first.wait_exit()
            self._workers.discard(first)
            raise NotStartedError(code)
        old = self._workers - {first}
        workers = [first]
        while len(workers) < self.count and not self.is_stopping:  # the sockets may be closed then
            workers.append(await self._start())
        await asyncio.gather(*(worker.loaded for worker in workers))
        await self._retire(old, changed)  # meanwhile, connections wait at the socket
        await asyncio.gather(*map(self._let_serve, workers))
        if not first.serves.result():
            raise NotStartedError(await first.wait_exit())
        if self.relay is not None and changed:
            first.send(announce=list(changed))
        return workers

    async def _start(self) -> Worker:
        sockets = self.open_sockets()
        self._started += 1
        worker = Worker(self._started, self._receive)
        try:
            descriptors = [each.fileno() for each in sockets]
            await worker.start(self.command, keeps_stderr=False, pass_fds=descriptors)
        finally:
            for each in sockets:
                each.close()
        self._workers.add(worker)
        worker.send(**self.make_config(worker.number, descriptors))
        if self.is_stopping:
            worker.kill()
        return worker

    async def _let_serve(self, worker: Worker) -> None:
        worker.send(serve=True)
        if await worker.serves and self.relay is not None:
            self.relay.switch(worker)

    async def _retire(self, workers: set[Worker], changed: Sequence[str]) -> None:
        """Let workers accept nothing new, and end after their running calls. The relay ends one that serves a
        client over stdio."""
        for worker in workers:
            if not worker.serves.done():
                worker.close_stdin()
                worker.retired.set_result(None)
            elif self.relay is None and not worker.retired.done():
                worker.send(retire=list(changed))
        if self.relay is None and workers:
            await asyncio.wait([worker.retired for worker in workers], timeout=RETIRE_S)

    async def _reap(self, worker: Worker) -> None:
        await worker.wait_exit()
        self._workers.discard(worker)
        if self.relay is not None:
            self.relay.lose(worker)

    async def _keep(self, worker: Worker | None) -> None:
        """Replace a worker whenever it ends."""
        delay_s = 0.0
        while not self.is_stopping:
            started = time.monotonic()
            try:
                if worker is None:
                    worker = await self._start()
                    await worker.loaded
                    await self._let_serve(worker)
                await self._reap(worker)
                text = f"worker {worker.pid} {_describe_exit(await worker.wait_exit())}"
            except StartError as error:
                text = f"cannot start a worker: {error}"
            if self.is_stopping:
                return
            worker = None
            is_stable = time.monotonic() - started >= STABLE_S
            delay_s = 0.0 if is_stable else min(max(2 * delay_s, FIRST_DELAY_S), MAX_DELAY_S)
            self.warn(f"{text}; starting another one {f'in {delay_s:g} s' if delay_s else 'now'}")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay_s)

    async def _reload_on_changes(self, loaded: Any, group: asyncio.TaskGroup) -> None:
        """Start new workers whenever files change. If they cannot serve, the old ones go on."""
        while self.files is not None:
            changed = await self.files.wait_for_change()
            refused = next(find_world_writable(changed), None)
            if refused is not None:
                self.warn(f"not reloaded: every user of this machine can change {refused}")
                continue
            try:
                workers = await self._start_all(loaded)
            except (NotStartedError, StartError):
                self.warn("not reloaded, the previous tools stay active")
                continue
            loaded, before = workers[0].loaded.result(), loaded
            self.on_reload(loaded, before)
            for task in self._tasks:
                task.cancel()  # else retired workers would be replaced
            others = [self._reap(worker) for worker in self._workers if worker not in workers]
            self._tasks = {group.create_task(work) for work in (*map(self._keep, workers), *others)}

    # --- messages ---

    def _receive(self, worker: Worker, line: bytes) -> None:
        if line.startswith(MCP):
            if self.relay is not None:
                self.relay.receive(worker, line[len(MCP) :])
            return
        match json.loads(line):
            case {"watch": watched} if self.files is not None:
                self.files.add((kind, path) for kind, path in watched)
            case {"loaded": loaded}:
                worker.loaded.set_result(loaded)
            case {"serves": True}:
                worker.serves.set_result(True)
            case {"retired": True} if not worker.retired.done():
                worker.retired.set_result(None)


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


# --- the supervisor process --------------------------------------------------------------------------


def run_workers(
    options: ServeOptions,
    http: HTTPOptions,
    workers: int,
    terminal: Terminal,
    on_ready: Callable[[Summary], None],
) -> int:
    """Serve the sockets with worker processes until a signal stops them."""
    shown = {key: getattr(http, key) for key in _HTTP_FIELDS}
    # Connections wait at a socket that is kept. Several processes get one each, which spreads the load.
    spreads = not options.reload

    def open_sockets() -> list[socket.socket]:
        return open_worker_sockets(http.sockets, spreads=spreads) if PASSES_SOCKETS else []

    async def serve(supervisor: Supervisor) -> int:
        supervisor.open_sockets = open_sockets
        return await supervisor.run(lambda loaded: on_ready(Summary.decode(loaded["summary"])))

    if PASSES_SOCKETS:
        share_address(http.sockets)
    else:
        shown["port"] = http.sockets[0].getsockname()[1]
        for each in http.sockets:
            each.close()
    return _run(options, terminal, workers, shown, http.sockets, serve)


def run_stdio(options: ServeOptions, terminal: Terminal) -> int:
    """Serve one client on stdin and stdout with a process that is replaced when files change."""

    async def serve(supervisor: Supervisor) -> int:
        standard = StandardStreams()
        os.dup2(terminal.out.fileno(), standard.output)  # the real stdout, which the terminal holds
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def end() -> None:
            supervisor.stop()
            await asyncio.wait([ended])

        def make_relay(send: Callable[[bytes], None]) -> Relay:
            supervisor.relay = Relay(send, end)
            return supervisor.relay

        connection = StdioConnection(standard, make_relay)
        serving: list[asyncio.Task[None]] = []

        def start(loaded: Any) -> None:
            print_stdio_start(Summary.decode(loaded["summary"]), terminal)
            serving.append(asyncio.ensure_future(connection.run()))

        code = await supervisor.run(start)
        ended.set_result(None)
        for task in serving:
            task.cancel()
            await asyncio.wait([task])
        return code

    return _run(options, terminal, 1, {}, (), serve)


def _run(
    options: ServeOptions,
    terminal: Terminal,
    count: int,
    http: Mapping[str, Any],
    sockets: Sequence[socket.socket],
    serve: Callable[[Supervisor], Coroutine[Any, Any, int]],
) -> int:
    """Run a supervisor of so many workers. `http` are options of the workers that serve over HTTP."""
    config = {
        "options": {**asdict(options), "targets": list(options.targets)},
        "arguments": list(options.targets.arguments),
        "key": secrets.token_hex(32),  # all workers seal with the same key
        "debug": terminal.debug,
        "workers": count,
        "http": http,
    }

    async def supervise() -> int:
        supervisor = Supervisor(
            [sys.executable, "-P", "-c", _PROGRAM],
            count,
            lambda number, descriptors: {**config, "number": number, "sockets": descriptors},
            partial(terminal.message, "warning"),
            files=WatchedFiles() if options.reload else None,
            check=partial(compare_loaded, terminal=terminal),
            on_reload=partial(print_reload, terminal=terminal),
        )
        with _stopped_by_signals(supervisor, sockets):
            return await serve(supervisor)

    with _open_shared_folder() as config["shared_folder"]:
        return asyncio.run(supervise())


@contextmanager
def _stopped_by_signals(supervisor: Supervisor, sockets: Sequence[socket.socket]) -> Iterator[None]:
    """Let the first signal stop the workers, and the next one kill them."""

    def stop(number: int) -> None:
        if supervisor.is_stopping:
            supervisor.kill()  # a tool may keep a worker from handling signals
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        for each in sockets:
            each.close()  # new connections are refused instead of left waiting
        supervisor.stop()

    def stop_soon(number: int, _: FrameType | None) -> None:
        loop.call_soon_threadsafe(stop, number)

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        try:
            loop.add_signal_handler(number, stop, number)
        except NotImplementedError:  # Windows
            signal.signal(number, stop_soon)
    yield


def _open_shared_folder() -> AbstractContextManager[str | None]:
    """Return a folder where the workers combine their metrics and keep shared state; None if none can be
    created."""
    try:
        return tempfile.TemporaryDirectory(prefix="toolcrib-", ignore_cleanup_errors=True)
    except OSError:
        return nullcontext()


def share_address(sockets: Sequence[socket.socket]) -> None:
    """Allow our worker processes to bind the same addresses."""
    if _HAS_REUSEPORT:
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def open_worker_sockets(sockets: Sequence[socket.socket], *, spreads: bool = True) -> list[socket.socket]:
    """Return sockets of the same addresses for one more process.

    Where the kernel spreads connections over sockets, each process gets its own: processes that wait on one
    socket are woken in order, so the first would do all the work.
    """
    if not _HAS_REUSEPORT or not spreads:
        return [each.dup() for each in sockets]
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.socket(each.family, each.type)) for each in sockets]
        for each, other in zip(sockets, opened, strict=True):
            for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
                other.setsockopt(socket.SOL_SOCKET, option, 1)
            if each.family == socket.AF_INET6:
                other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            other.bind(each.getsockname())
            other.setblocking(False)
        stack.pop_all()  # they stay open, as none has failed
    return opened


# --- the worker process ------------------------------------------------------------------------------


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
        process = ServeProcess(options, terminal, key=bytes.fromhex(config["key"]))
        loaded = process.loaded
    finally:
        if options.reload:
            channel.send(watch=list(find_watched(options.targets, options.lock, loaded)))
    if is_refused(process.summary, options, terminal):
        return 1
    process.share(config["shared_folder"])
    transports = process.loaded.server.transports
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
