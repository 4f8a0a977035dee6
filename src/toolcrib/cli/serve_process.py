"""One process of `toolcrib serve`: load the tools, serve them, and stop in bounded time.

The first SIGTERM or SIGINT stops the server gracefully; after that the signals have their default effect. A
thread makes sure that the process exits even if a tool blocks it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from toolcrib.cli.load import TargetLoader, load_for_serving
from toolcrib.cli.options import CommandError
from toolcrib.cli.output import Terminal
from toolcrib.cli.serving import (
    LockedRegistry,
    ServeOptions,
    Summary,
    check_workers_policy,
    is_refused,
    lock_registry,
    print_problems,
    print_tools,
    print_warnings,
)
from toolcrib.cli.text import count
from toolcrib.errors import Finding
from toolcrib.logs import JSONFormatter, LineHandler, make_formatter
from toolcrib.server import MCPServer
from toolcrib.transports.serving import HTTPOptions
from toolcrib.transports.stdio import StandardStreams, serve_stdio

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LIMIT_S = 15.0
"""From the first signal: ten seconds for calls, the rest for applications to close."""
GRACE_S = 0.5
"""After the server has stopped, only abandoned threads of tools are left."""
_LEVEL_NUMBERS = {"error": logging.ERROR, "warning": logging.WARNING, "debug": logging.DEBUG}
Serve = Callable[[MCPServer], Coroutine[Any, Any, None]]
logger = logging.getLogger("toolcrib")


class ServeProcess:
    """The server of this process. `identity` are settings of the server that override those of files."""

    def __init__(self, options: ServeOptions, terminal: Terminal, **identity: Any) -> None:
        self.options = options
        self.terminal = terminal
        self.locked: LockedRegistry | None = None
        with terminal.log.muted():  # what is logged now is a finding too
            self.loaded = load_for_serving(
                options.targets,
                terminal,
                name=options.name,
                timeout_s=options.timeout_s,
                dynamic=options.reload,
                search=options.search,
                **identity,
            )
            if options.is_locked:
                self.locked = lock_registry(self.loaded, options)
            self.summary = Summary.of(self.loaded)

    def run_stdio(self) -> int:
        """Serve stdin and stdout until stdin is closed."""
        terminal, summary = self.terminal, self.summary
        if is_refused(summary, self.options, terminal):
            return 1
        is_verbose = self.options.verbose or terminal.err.isatty()
        if is_verbose:
            text = f"{summary.headline} on stdin and stdout, until stdin is closed"
            if terminal.message_format is not None:
                terminal.message("note", text)
            else:
                terminal.echo_err(f"{text}\n")
                print_tools(summary, terminal)
        print_problems(summary, terminal)
        if is_verbose:
            print_warnings(summary, terminal)
            self._skip_search_log()

        async def serve(server: MCPServer) -> None:
            standard = StandardStreams()
            os.dup2(terminal.out.fileno(), standard.output)  # the real stdout, which the terminal holds
            await serve_stdio(server.transports.engine, standard)

        return self._run(serve)

    def run_http(
        self, http: HTTPOptions, on_ready: Callable[[Summary], None], metrics_folder: str | None = None
    ) -> int:
        """Serve on bound sockets. `on_ready` is called when clients can connect; in `metrics_folder` several
        processes combine their metrics."""
        if is_refused(self.summary, self.options, self.terminal):
            return 1
        workers = self.options.workers or 1
        enforcer = self.loaded.server.enforcer
        if enforcer is not None:  # the policy of files was checked before, this may be one of the code
            check_workers_policy(enforcer.policy, workers)
            if enforcer.telemetry is not None and metrics_folder is not None:
                enforcer.telemetry.share(Path(metrics_folder))
        self._skip_search_log()
        http = replace(http, ready=lambda _: on_ready(self.summary), catches_signals=False, workers=workers)
        try:
            return self._run(lambda server: server.transports.serve_http(http))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            # Another program took the port while the tools were loading.
            raise port_in_use(http.sockets[0].getsockname()[1]) from None

    def _skip_search_log(self) -> None:
        """The summary says which tools are listed; the log need not repeat it."""
        if self.loaded.server.dispatcher.tool_search is not None:
            self.loaded.server.dispatcher.tool_search.skip_log()

    def _run(self, serve: Serve) -> int:
        terminal, options, server = self.terminal, self.options, self.loaded.server

        def print_running() -> None:
            running = server.transports.engine.call_limit.running
            if running and terminal.err.isatty():
                text = f"waiting for {count(running, 'running call')}; press Ctrl-C again to stop at once"
                terminal.message("note", text)

        async def run(server: MCPServer) -> None:
            work = self._serve_with_reload(serve) if options.reload else serve(server)
            await run_until_signal(work, print_running, lambda: not server._running)

        # With --reload, the author of the tools wants to see what happens.
        level = options.log_level or ("debug" if terminal.debug else "info" if options.reload else "warning")
        log_format = options.log_format or self.loaded.log_format or "text"
        with _logging(terminal, level, log_format, show_process=(options.workers or 1) > 1):
            server.run(run)
        return 0

    async def _serve_with_reload(self, serve: Serve) -> None:
        from toolcrib.sources.reload import Reloader  # delayed: only needed with --reload

        server = self.loaded.server

        def load_again() -> tuple[Sequence[Any], Sequence[Finding], Sequence[Path]]:
            lock_files = []
            if self.locked is not None:
                self.locked.reread()
                lock_files.append(self.locked.file)
            loader = TargetLoader(self.terminal)
            tools = loader.collect(self.options.targets)
            return tools, loader.findings, [*loader.find_paths(), *lock_files]

        async def open_applications() -> None:
            await asyncio.gather(server.dispatcher.applications.open_all(), server.dispatcher.renew())

        reloader = Reloader(
            load_again,
            server.registry,
            paths=self.loaded.paths,
            findings=self.loaded.findings,
            after_reload=open_applications,
        )
        async with reloader:
            await serve(server)


def port_in_use(port: int) -> CommandError:
    return CommandError(f"Port {port} is in use", "use another --port, or --port 0 for any free port")


# --- shutdown ----------------------------------------------------------------------------------------


async def run_until_signal(
    work: Coroutine[Any, Any, None], on_signal: Callable[[], None], is_stopped: Callable[[], bool]
) -> None:
    """Run something until it ends, or until a signal cancels it; `on_signal` is called in the loop then."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    stopping = threading.Event()

    def stop() -> None:
        task.cancel()
        on_signal()

    def handle(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # does not depend on the interpreter
        if stopping.is_set():
            signal.raise_signal(number)
        stopping.set()
        with suppress(RuntimeError):  # the loop may have ended
            loop.call_soon_threadsafe(stop)

    # Started now: a signal may arrive while the main thread is starting another thread.
    enforcing = threading.Thread(target=_enforce_limit, args=(stopping, is_stopped), daemon=True)
    enforcing.start()
    previous: dict[signal.Signals, Any] = {}
    with suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread, or not supported
        for number in SIGNALS:
            previous[number] = signal.getsignal(number)
            # The loop's handler only wakes the loop; Python's own runs even while the loop is blocked.
            loop.add_signal_handler(number, lambda: None)
            signal.signal(number, handle)
    try:
        await task
    except asyncio.CancelledError:
        if not stopping.is_set():
            raise
    finally:
        if not stopping.is_set():
            for number, handler in previous.items():
                signal.signal(number, handler)
    stopping.set()


def _enforce_limit(stopping: threading.Event, is_stopped: Callable[[], bool]) -> None:
    """End the process soon after the server has stopped, or when it does not stop in time."""
    stopping.wait()
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline and not is_stopped():
        time.sleep(0.02)
    time.sleep(GRACE_S)
    with suppress(OSError, ValueError):  # the reader of stderr may have gone
        sys.stderr.flush()
    os._exit(0 if is_stopped() else 1)


# --- log ---------------------------------------------------------------------------------------------


@contextmanager
def _logging(terminal: Terminal, level: str, log_format: str, *, show_process: bool) -> Iterator[None]:
    """Log to stderr in the format of servers while one runs."""
    formatter = make_formatter(log_format, show_process=show_process, show_traces=terminal.debug)
    handler = LineHandler(terminal.err, formatter, level)
    logger.removeHandler(terminal.log)
    logger.addHandler(handler)
    logger.setLevel(handler.level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.addHandler(terminal.log)
        logger.setLevel(terminal.log.level)


def use_json_messages(terminal: Terminal, *, show_process: bool = False) -> None:
    """Print messages as JSON log lines from now on, so that every line of stderr is one."""
    formatter = JSONFormatter(show_process=show_process)

    def format_message(level: str, text: str, hint: str | None) -> str:
        number = _LEVEL_NUMBERS.get(level, logging.INFO)
        fields: dict[str, Any] = {"name": "toolcrib", "levelno": number, "msg": text}
        fields["levelname"] = logging.getLevelName(number)
        return formatter.format(logging.makeLogRecord({**fields, "hint": hint} if hint else fields))

    terminal.message_format = format_message
