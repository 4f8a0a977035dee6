"""`toolcrib serve --workers N`: a supervisor process that holds the sockets, and its worker processes.

The supervisor imports no tool, so no tool can harm it. Each worker is a fresh interpreter that inherits its
sockets and one end of a channel. Over the channel it gets its configuration (so that it is not visible in the
process list), and reports when it is ready; when the channel closes, the other side has ended. What workers
share is in the state of the server. Needs a system where processes inherit file descriptors.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from toolcrib.cli.options import Targets, report_error
from toolcrib.cli.output import Terminal, open_terminal
from toolcrib.cli.serving import SIGNALS, ServeOptions, ServeProcess, Summary, use_json_messages
from toolcrib.transports.serving import HTTPOptions

STABLE_S = 10.0
"""A worker that ran this long is replaced at once, others after a growing delay."""
FIRST_DELAY_S = 0.5
MAX_DELAY_S = 30.0
DRAIN_S = 12.0
"""Time for a worker to stop: ten seconds for its calls, and a margin."""
MAX_REPORT_BYTES = 256 * 1024 * 1024
_PROGRAM = "from toolcrib.cli.workers import work; work()"
_HTTP_FIELDS = ("host", "path", "allowed_hosts", "allowed_origins", "insecure")
_HAS_REUSEPORT = sys.platform == "linux"


@dataclass(eq=False, slots=True)
class Worker:
    """One worker process. `report` is what it sent when it was ready; empty if it ended before."""

    process: Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    report: bytes = b""

    @classmethod
    async def start(cls, command: Sequence[str], config: bytes, sockets: Sequence[socket.socket]) -> Worker:
        """Start a process; its last argument is the descriptor of its channel."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    str(theirs.fileno()),
                    stdin=DEVNULL,
                    pass_fds=(theirs.fileno(), *(each.fileno() for each in sockets)),
                    process_group=0,  # Ctrl-C goes to the supervisor, which stops the workers
                )
            except BaseException:
                ours.close()
                raise
        worker = cls(process, *await asyncio.open_connection(sock=ours, limit=MAX_REPORT_BYTES))
        worker.writer.write(config + b"\n")
        return worker

    async def wait_ready(self) -> bool:
        with suppress(OSError, ValueError):
            line = await self.reader.readline()
            self.report = line if line.endswith(b"\n") else b""
        return bool(self.report)

    async def wait(self) -> int:
        """Return the exit code, or the negative number of the signal that killed it."""
        code = await self.process.wait()
        self.writer.close()
        return code

    def terminate(self) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and its children."""
        if self.process.returncode is None:
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)


@dataclass(eq=False, slots=True)
class Supervisor:
    """Keeps `count` workers running.

    `open_sockets` makes the sockets of a new worker, which are closed here once it has them. `make_config`
    makes its configuration, from the descriptors of its sockets. `warn` gets messages for people.
    """

    command: Sequence[str]
    count: int
    make_config: Callable[[list[int]], bytes]
    warn: Callable[[str], None]
    open_sockets: Callable[[], list[socket.socket]] = list
    drain_s: float = DRAIN_S
    _workers: set[Worker] = field(default_factory=set, init=False)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    @property
    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def stop(self) -> None:
        """Ask all workers to stop; `run` returns when they have."""
        self._stopping.set()
        for worker in self._workers:
            worker.terminate()

    def kill(self) -> None:
        for worker in self._workers:
            worker.kill()

    async def run(self, on_ready: Callable[[bytes], None]) -> int:
        """Keep the workers running until `stop`, and return an exit code.

        `on_ready` gets the report of the first worker when all are ready. Where the first cannot serve, the
        others are not started.
        """
        try:
            first = await self._start()
            if not await first.wait_ready():
                code = await first.wait()
                return 0 if self.is_stopping else code if code > 0 else 1
            workers = [first]
            while len(workers) < self.count and not self.is_stopping:  # the sockets may be closed then
                workers.append(await self._start())
            await asyncio.gather(*(worker.wait_ready() for worker in workers[1:]))
            if not self.is_stopping:
                on_ready(first.report)
            async with asyncio.TaskGroup() as group:
                keepers = [group.create_task(self._keep(worker)) for worker in workers]
                await self._stopping.wait()
                _, late = await asyncio.wait(keepers, timeout=self.drain_s)
                if late:
                    self.warn(f"killing {len(late)} of {self.count} workers, which did not stop in time")
                    self.kill()
            return 0
        finally:
            self._stopping.set()
            self.kill()
            await asyncio.gather(*(worker.wait() for worker in self._workers), return_exceptions=True)

    async def _start(self) -> Worker:
        sockets = self.open_sockets()
        try:
            config = self.make_config([each.fileno() for each in sockets])
            worker = await Worker.start(self.command, config, sockets)
        finally:
            for each in sockets:
                each.close()
        self._workers.add(worker)
        if self.is_stopping:
            worker.kill()
        return worker

    async def _keep(self, worker: Worker | None) -> None:
        """Replace a worker whenever it ends."""
        delay_s = 0.0
        while not self.is_stopping:
            started = time.monotonic()
            try:
                worker = worker or await self._start()
                text = f"worker {worker.process.pid} {_describe_exit(await self._wait_for(worker))}"
            except OSError as error:
                text = f"cannot start a worker: {error.strerror}"
            if self.is_stopping:
                return
            worker = None
            is_stable = time.monotonic() - started >= STABLE_S
            delay_s = 0.0 if is_stable else min(max(2 * delay_s, FIRST_DELAY_S), MAX_DELAY_S)
            self.warn(f"{text}; starting another one {f'in {delay_s:g} s' if delay_s else 'now'}")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay_s)

    async def _wait_for(self, worker: Worker) -> int:
        if not worker.report:
            await worker.wait_ready()
        code = await worker.wait()
        self._workers.discard(worker)
        return code


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
    config: dict[str, Any] = {
        "options": {**asdict(replace(options, workers=workers)), "targets": list(options.targets)},
        "arguments": list(options.targets.arguments),
        "http": {key: getattr(http, key) for key in _HTTP_FIELDS},
        "key": secrets.token_hex(32),  # all workers seal with the same key
        "debug": terminal.debug,
    }

    async def supervise() -> int:
        supervisor = Supervisor(
            [sys.executable, "-P", "-c", _PROGRAM],
            workers,
            make_config=lambda descriptors: json.dumps({**config, "sockets": descriptors}).encode(),
            open_sockets=lambda: open_worker_sockets(http.sockets),
            warn=lambda text: terminal.message("warning", text),
        )

        def stop(number: int) -> None:
            if supervisor.is_stopping:  # the second signal
                supervisor.kill()  # a tool may keep a worker from handling signals
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            for each in http.sockets:
                each.close()  # new connections are refused instead of left waiting
            supervisor.stop()

        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
        return await supervisor.run(lambda report: on_ready(Summary.decode(report)))

    share_address(http.sockets)
    with _open_shared_folder() as config["shared_folder"]:
        return asyncio.run(supervise())


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


def open_worker_sockets(sockets: Sequence[socket.socket]) -> list[socket.socket]:
    """Return sockets of the same addresses for one more process.

    Where the kernel spreads connections over sockets, each process gets its own: processes that wait on one
    socket are woken in order, so the first would do all the work.
    """
    if not _HAS_REUSEPORT:
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
    """Run a worker; its argument is the descriptor of its channel."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    with channel.makefile("rb") as lines:
        config = json.loads(lines.readline())
    threading.Thread(target=_stop_with_parent, args=(channel,), daemon=True).start()
    with open_terminal(debug=config["debug"]) as terminal:
        try:
            code = _work(config, channel, terminal)
        except KeyboardInterrupt:
            code = 1
        except Exception as error:
            code = report_error(error, terminal)
    channel.detach()  # open until the process ends: else the parent would close its end early
    sys.exit(code)


def _stop_with_parent(channel: socket.socket) -> None:
    """Stop this process when the other end of the channel closes, as when its owner is killed."""
    with suppress(OSError):
        while channel.recv(65_536):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


def _work(config: dict[str, Any], channel: socket.socket, terminal: Terminal) -> int:
    for descriptor in (channel.fileno(), *config["sockets"]):
        os.set_inheritable(descriptor, False)  # not for programs that tools start
    sockets = [socket.socket(fileno=descriptor) for descriptor in config["sockets"]]
    options = ServeOptions(**config["options"])
    options = replace(options, targets=Targets.of(options.targets, config["arguments"]))
    if options.log_format == "json":
        use_json_messages(terminal, show_process=True)
    process = ServeProcess(options, terminal, key=bytes.fromhex(config["key"]), keeps_sessions=False)

    def report(summary: Summary) -> None:
        channel.sendall(summary.encode() + b"\n")

    http = HTTPOptions(**config["http"], sockets=sockets)
    return process.run_http(http, report, config["shared_folder"])
