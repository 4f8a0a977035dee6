"""`toolcrib serve --workers N`: a supervisor process that holds the sockets, and its worker processes.

The supervisor imports no tool, so no tool can harm it. Each worker is a fresh interpreter that inherits its
sockets and one end of a channel. Over the channel it gets its configuration (so that it is not visible in the
process list) and reports when it is ready; when the channel closes, the other side has ended. Needs a system
where processes inherit file descriptors.
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
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from typing import Any

from toolcrib.cli.http_process import open_worker_sockets, run_http, share_address
from toolcrib.cli.options import report_error
from toolcrib.cli.output import Terminal, open_terminal
from toolcrib.cli.serving import ServeOptions, Summary, use_json_messages
from toolcrib.cli.shutdown import ShutdownHandler, terminate_when_closed
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


class Worker:
    """One worker process. `report` is what it sent when it was ready; None if it ended before."""

    def __init__(self, process: Process, channel: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.process = process
        self.report: bytes | None = None
        self._reader, self._writer = channel

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
        channel = await asyncio.open_connection(sock=ours, limit=MAX_REPORT_BYTES)
        worker = cls(process, channel)
        worker._writer.write(config + b"\n")
        return worker

    async def wait_ready(self) -> bool:
        try:
            line = await self._reader.readline()
        except (OSError, ValueError):
            line = b""
        if line.endswith(b"\n"):
            self.report = line
        return self.report is not None

    async def wait(self) -> int:
        """Return the exit code, or the negative number of the signal that killed it."""
        code = await self.process.wait()
        self._writer.close()
        return code

    def terminate(self) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and its children."""
        if self.process.returncode is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except OSError:
                with suppress(ProcessLookupError):
                    self.process.send_signal(signal.SIGKILL)


class Supervisor:
    """Keeps `count` workers running.

    `open_sockets` makes the sockets of a new worker, which are closed here once it has them. `make_config`
    makes its configuration, from whether it is the first and the descriptors of its sockets. `warn` gets
    messages for people.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        *,
        make_config: Callable[[bool, list[int]], bytes],
        open_sockets: Callable[[], list[socket.socket]] = list,
        warn: Callable[[str], None],
        drain_s: float = DRAIN_S,
    ) -> None:
        self._command = command
        self._count = count
        self._make_config = make_config
        self._open_sockets = open_sockets
        self._warn = warn
        self._drain_s = drain_s
        self._workers: set[Worker] = set()
        self._stopping = asyncio.Event()

    @property
    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]

    def stop(self) -> None:
        """Ask all workers to stop; `run` returns when they have."""
        if not self._stopping.is_set():
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
        keepers: list[asyncio.Task[Any]] = []
        try:
            first = await self._start(is_first=True)
            if not await first.wait_ready():
                code = await first.wait()
                return 0 if self._stopping.is_set() else code if code > 0 else 1
            others = [await self._start() for _ in range(self._count - 1)]
            await asyncio.gather(*(other.wait_ready() for other in others))
            if not self._stopping.is_set():
                on_ready(first.report or b"")
            keepers += [asyncio.create_task(self._keep(worker)) for worker in (first, *others)]
            keepers.append(asyncio.create_task(self._stopping.wait()))
            await asyncio.wait(keepers, return_when=asyncio.FIRST_COMPLETED)
            self.stop()
            await self._drain(keepers)
            for keeper in keepers:
                keeper.result()  # raises errors of this module
            return 0
        finally:
            self._stopping.set()
            self.kill()
            await asyncio.gather(*(worker.wait() for worker in self._workers), return_exceptions=True)
            await asyncio.gather(*keepers, return_exceptions=True)

    async def _start(self, *, is_first: bool = False) -> Worker:
        sockets = self._open_sockets()
        try:
            config = self._make_config(is_first, [each.fileno() for each in sockets])
            worker = await Worker.start(self._command, config, sockets)
        finally:
            for each in sockets:
                each.close()
        self._workers.add(worker)
        if self._stopping.is_set():
            worker.kill()
        return worker

    async def _keep(self, worker: Worker | None) -> None:
        """Replace a worker whenever it ends."""
        delay_s = 0.0
        while True:
            started = time.monotonic()
            try:
                worker = worker or await self._start()
                text = f"worker {worker.process.pid} {_describe_exit(await self._wait_for(worker))}"
            except OSError as error:
                text = f"cannot start a worker: {error.strerror}"
            if self._stopping.is_set():
                return
            worker = None
            is_stable = time.monotonic() - started >= STABLE_S
            delay_s = 0.0 if is_stable else min(max(2 * delay_s, FIRST_DELAY_S), MAX_DELAY_S)
            when = f"in {delay_s:g} s" if delay_s else "now"
            self._warn(f"{text}; starting another one {when}")
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._stopping.wait()
            if self._stopping.is_set():
                return

    async def _wait_for(self, worker: Worker) -> int:
        if worker.report is None:
            await worker.wait_ready()
        code = await worker.wait()
        self._workers.discard(worker)
        return code

    async def _drain(self, keepers: Sequence[asyncio.Task[Any]]) -> None:
        _, late = await asyncio.wait(keepers, timeout=self._drain_s)
        if late:
            self._warn(f"killing {len(late)} of {self._count} workers, which did not stop in time")
            self.kill()
            await asyncio.wait(late)


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
        "options": asdict(replace(options, workers=workers)),
        "http": {key: getattr(http, key) for key in _HTTP_FIELDS},
        "key": secrets.token_hex(32),  # all workers seal with the same key
        "debug": terminal.debug,
    }

    def make_config(is_first: bool, descriptors: list[int]) -> bytes:
        return json.dumps({**config, "is_first": is_first, "sockets": descriptors}).encode()

    share_address(http.sockets)
    supervisor = Supervisor(
        [sys.executable, "-P", "-c", _PROGRAM],
        workers,
        make_config=make_config,
        open_sockets=lambda: open_worker_sockets(http.sockets),
        warn=lambda text: terminal.message("warning", text),
    )
    with _metrics_folder() as config["metrics_folder"]:
        return asyncio.run(_supervise(supervisor, http, lambda report: on_ready(Summary.decode(report))))


@contextmanager
def _metrics_folder() -> Iterator[str | None]:
    """Yield a folder where the workers combine their metrics; None where none can be created."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="toolcrib-", ignore_cleanup_errors=True)
    except OSError:
        yield None
        return
    with folder as path:
        yield path


async def _supervise(supervisor: Supervisor, http: HTTPOptions, on_ready: Callable[[bytes], None]) -> int:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for each in http.sockets:
            each.close()  # new connections are refused instead of left waiting
        supervisor.stop()

    def on_signal() -> None:
        loop.call_soon_threadsafe(stop)

    with ShutdownHandler(on_signal, lambda: not supervisor.pids, DRAIN_S + 5, supervisor.kill):
        return await supervisor.run(on_ready)


# --- the worker process ------------------------------------------------------------------------------


def work() -> None:
    """Run a worker; its argument is the descriptor of its channel."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    with channel.makefile("rb") as lines:
        config = json.loads(lines.readline())
    terminate_when_closed(channel.fileno())
    with open_terminal(debug=config["debug"]) as terminal:
        code = _work(config, channel, terminal)
    channel.detach()  # open until the process ends: closing it early would make the parent close its end
    sys.exit(code)


def _work(config: dict[str, Any], channel: socket.socket, terminal: Terminal) -> int:
    for descriptor in (channel.fileno(), *config["sockets"]):
        os.set_inheritable(descriptor, False)  # not for programs that tools start
    sockets = [socket.socket(fileno=descriptor) for descriptor in config["sockets"]]
    options = ServeOptions(**config["options"])
    if options.log_format == "json":
        use_json_messages(terminal, show_process=True)
    try:
        return run_http(
            options,
            HTTPOptions(**config["http"], sockets=sockets),
            terminal,
            lambda summary: channel.sendall(summary.encode() + b"\n"),
            config["metrics_folder"],
            key=bytes.fromhex(config["key"]),
            keeps_sessions=False,
        )
    except KeyboardInterrupt:
        return 1
    except Exception as error:
        return report_error(error, terminal)
