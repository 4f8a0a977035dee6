"""`toolcrib serve --workers N`: the parent that holds the sockets, and what runs in each worker.

The parent loads no tool, so no tool can harm it. A worker reads what it is to do from its channel: the
wishes, the numbers of the sockets it has inherited, and the key that all workers seal with. Knows both ends
of that channel; how workers are kept is in `toolcrib.cli.workers`.

Several processes that serve as one: started, watched, started again, ended together.

Each is a fresh interpreter that inherits the sockets it is given and one end of a channel. By that it is
told what to do, which therefore stands in no list of processes, and tells when it is ready; when the channel
closes, the other side has ended, however it did. Knows processes and signals; refuses to know what they
serve. Needs a system with file descriptors to inherit.
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
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from toolcrib.cli.load import Summary
from toolcrib.cli.options import explain
from toolcrib.cli.output import Terminal, open_terminal
from toolcrib.cli.serve import Wishes, run_http
from toolcrib.cli.server_log import speak_json
from toolcrib.cli.shutdown import Ending, end_with
from toolcrib.cli.sockets import open_again, share_door
from toolcrib.transports.serving import HTTPOptions

STEADY_S = 10.0
"""Who lived that long is replaced at once; who did not, after a pause that grows."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
DRAIN_S = 12.0
"""How long a worker may take to end once it was told: its own ten seconds, and a little for the rest."""
MAX_REPORT = 256 * 1024 * 1024


class Worker:
    """One process. `report` is what it said when it was ready, None if it ended before."""

    def __init__(self, process: Process, channel: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.process = process
        self.report: bytes | None = None
        self._reader, self._writer = channel

    @classmethod
    async def start(cls, command: Sequence[str], order: bytes, sockets: Sequence[socket.socket]) -> Worker:
        """The number of its channel is the last word of its command."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    str(theirs.fileno()),
                    stdin=DEVNULL,
                    pass_fds=(theirs.fileno(), *(each.fileno() for each in sockets)),
                    process_group=0,  # Ctrl-C is for the parent, which passes it on
                )
            except BaseException:
                ours.close()
                raise
        channel = await asyncio.open_connection(sock=ours, limit=MAX_REPORT)
        worker = cls(process, channel)
        worker._writer.write(order + b"\n")
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
        """Its exit code, or minus the signal that ended it."""
        code = await self.process.wait()
        self._writer.close()
        return code

    def end(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End it and what it has started."""
        if self.process.returncode is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except OSError:
                self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        try:
            self.process.send_signal(number)
        except ProcessLookupError:
            pass  # it has ended


class Crew:
    """`count` workers. `sockets` makes those that a new one inherits; they are closed here once it has them,
    so that they end with it. `order` makes the line that tells it what to do, from whether it is the first
    and the numbers of its sockets. `say` gets what a person should know."""

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        *,
        order: Callable[[bool, list[int]], bytes],
        sockets: Callable[[], list[socket.socket]] = list,
        say: Callable[[str], None],
        drain_s: float = DRAIN_S,
    ) -> None:
        self._command = command
        self._count = count
        self._order = order
        self._sockets = sockets
        self._say = say
        self._drain_s = drain_s
        self._workers: set[Worker] = set()
        self._ending = asyncio.Event()

    @property
    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]

    def end(self) -> None:
        """Tell everybody to end. `run` returns when they have."""
        if self._ending.is_set():
            return
        self._ending.set()
        for worker in self._workers:
            worker.end()

    def kill(self) -> None:
        """End everybody at once."""
        for worker in self._workers:
            worker.kill()

    async def run(self, ready: Callable[[bytes], None]) -> int:
        """Keep them running until `end`. `ready` gets the first one's report, when all are ready; where the
        first cannot serve, the others are not tried. Returns an exit code."""
        keepers: list[asyncio.Task[None]] = []
        try:
            first = await self._start(is_first=True)
            if not await first.wait_ready():
                code = await first.wait()
                return 0 if self._ending.is_set() else code if code > 0 else 1
            others = [await self._start() for _ in range(self._count - 1)]
            await asyncio.gather(*(other.wait_ready() for other in others))
            if not self._ending.is_set():
                ready(first.report or b"")
            keepers += [asyncio.create_task(self._keep(worker)) for worker in (first, *others)]
            keepers.append(asyncio.create_task(self._wait_for_end()))
            await asyncio.wait(keepers, return_when=asyncio.FIRST_COMPLETED)
            self.end()
            await self._wait_for(keepers)
            for keeper in keepers:
                keeper.result()  # raises what is a flaw of ours
            return 0
        finally:
            self._ending.set()
            self.kill()
            await asyncio.gather(*(worker.wait() for worker in self._workers), return_exceptions=True)
            await asyncio.gather(*keepers, return_exceptions=True)

    async def _wait_for_end(self) -> None:
        await self._ending.wait()

    async def _start(self, *, is_first: bool = False) -> Worker:
        sockets = self._sockets()
        try:
            order = self._order(is_first, [each.fileno() for each in sockets])
            worker = await Worker.start(self._command, order, sockets)
        finally:
            for each in sockets:
                each.close()
        self._workers.add(worker)
        if self._ending.is_set():
            worker.kill()
        return worker

    async def _keep(self, worker: Worker | None) -> None:
        """Replace a worker whenever it ends."""
        pause_s = 0.0
        while True:
            began = time.monotonic()
            try:
                worker = worker or await self._start()
                words = f"worker {worker.process.pid} {_explain(await self._outlive(worker))}"
            except OSError as error:
                words = f"a worker cannot be started ({error.strerror})"
            if self._ending.is_set():
                return
            worker = None
            is_steady = time.monotonic() - began >= STEADY_S
            pause_s = 0.0 if is_steady else min(max(2 * pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            when = f"in {pause_s:g} s" if pause_s else "now"
            self._say(f"{words}; another one is started {when}")
            if await self._is_ending_within(pause_s):
                return

    async def _outlive(self, worker: Worker) -> int:
        if worker.report is None:
            await worker.wait_ready()
        code = await worker.wait()
        self._workers.discard(worker)
        return code

    async def _is_ending_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._ending.wait()
        except TimeoutError:
            pass
        return self._ending.is_set()

    async def _wait_for(self, keepers: Sequence[asyncio.Task[None]]) -> None:
        _, late = await asyncio.wait(keepers, timeout=self._drain_s)
        if late:
            self._say(f"{len(late)} of {self._count} workers did not end in time and are killed")
            self.kill()
            await asyncio.wait(late)


def _explain(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


_PROGRAM = "from toolcrib.cli.workers import work; work()"
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
