"""One process of `toolcrib serve`: its options, its tools, its messages, how it runs and stops.

The first SIGTERM or SIGINT stops the server gracefully; after that the signals have their default effect. A
thread makes sure that the process exits even if a tool blocks it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from types import FrameType
from typing import TYPE_CHECKING, Any

from toolcrib.cli.load import (
    Loaded,
    enable_hint,
    is_policy_of,
    load_for_serving,
    registries_of,
)
from toolcrib.cli.options import (
    NO_TARGETS,
    CommandError,
    Targets,
)
from toolcrib.cli.output import Terminal
from toolcrib.cli.text import NAME_STYLE, count, first_line, shorten_list, style
from toolcrib.config import FILE_NAME, load_config
from toolcrib.dispatch.tool_search import SearchMode
from toolcrib.errors import ConfigurationError, DriftError, Finding
from toolcrib.logs import JSONFormatter, LineHandler, make_formatter
from toolcrib.registry.selection import count_kinds, label_of, sort_kinds
from toolcrib.server import MCPServer
from toolcrib.sources.foreign.program import running_programs, stop_programs
from toolcrib.transports.serving import HTTPOptions
from toolcrib.transports.stdio import StandardStreams, serve_stdio

if TYPE_CHECKING:
    from toolcrib.catalog.lock import OnDrift

MAX_SHOWN = 40
_MAX_DESCRIPTION = 100
_DRIFT_CODES = (DriftError.code, "locked-but-missing")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
LIMIT_S = 15.0
"""From the first signal: ten seconds for calls, the rest for applications to close."""
GRACE_S = 0.5
"""After the server has stopped, only abandoned threads of tools are left."""
_LEVEL_NUMBERS = {"error": logging.ERROR, "warning": logging.WARNING, "debug": logging.DEBUG}
Serve = Callable[[MCPServer], Coroutine[Any, Any, None]]
logger = logging.getLogger("toolcrib")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The command line of `serve`."""

    targets: Targets = NO_TARGETS
    stdio: bool = False
    host: str | None = None
    port: int | None = None
    path: str | None = None
    workers: int | None = None
    reload: bool = False
    allow_host: Sequence[str] = ()
    allow_origin: Sequence[str] = ()
    insecure: bool = False
    name: str | None = None
    search: SearchMode | None = None
    name_rule: str | None = None
    as_json: bool = False
    strict: bool = False
    log_level: str | None = None
    log_format: str | None = None
    timeout_s: float | None = None
    locked: bool = False
    lock: str | None = None
    on_drift: OnDrift | None = None

    @property
    def is_locked(self) -> bool:
        return self.locked or self.lock is not None or self.on_drift is not None


class ServeProcess:
    """The server of this process. `identity` are settings of the server that override files."""

    def __init__(self, options: ServeOptions, terminal: Terminal, **identity: Any) -> None:
        self.options = options
        self.terminal = terminal
        with terminal.log.muted():  # messages of loading are findings too
            self.loaded = load_for_serving(
                options.targets,
                terminal,
                name=options.name,
                timeout_s=options.timeout_s,
                dynamic=options.reload,
                search=options.search,
                name_rule=options.name_rule,
                **identity,
            )
            if options.is_locked:
                lock_registry(self.loaded, options)
            self.summary = Summary.of(self.loaded)
        if not identity:  # else one of several workers
            warn_unused_policy(options.targets, terminal, self.loaded.server)

    def run_stdio(self) -> int:
        """Serve stdin and stdout until stdin is closed."""
        terminal = self.terminal
        if is_refused(self.summary, self.options, terminal):
            return 1
        if print_stdio_start(self.summary, terminal):
            self._skip_search_log()

        async def serve(server: MCPServer) -> None:
            standard = StandardStreams()
            os.dup2(terminal.out.fileno(), standard.output)  # the real stdout, which the terminal holds
            await serve_stdio(server.transports.engine, standard)

        return self.run(serve)

    def share(self, folder: str | None) -> None:
        """Use a folder for combined metrics, and for state that would be in memory otherwise."""
        server = self.loaded.server
        has_others = (self.options.workers or 1) > 1
        server.storage.share(folder, is_concurrent=has_others)
        server.dispatcher.keeps_results = True  # any worker finds them
        telemetry = None if server.enforcer is None else server.enforcer.telemetry
        if telemetry is not None and folder is not None and has_others:
            telemetry.share(Path(folder))

    def run_http(self, http: HTTPOptions, on_ready: Callable[[Summary], None]) -> int:
        """Serve on bound sockets. `on_ready` is called when clients can connect."""
        if is_refused(self.summary, self.options, self.terminal):
            return 1
        workers = self.options.workers or 1
        self._skip_search_log()
        http = replace(http, ready=lambda _: on_ready(self.summary), catches_signals=False, workers=workers)
        try:
            return self.run(lambda server: server.transports.serve_http(http))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not http.sockets:
                raise
            # Another program took the port while the tools were loading.
            from toolcrib.transports.http.server import describe_bind_error  # delayed: not needed for stdio

            port = http.sockets[0].getsockname()[1]
            raise CommandError(*describe_bind_error(error, http.host, port, "--{} {}")) from None

    def _skip_search_log(self) -> None:
        """The summary says which tools are listed; the log need not repeat it."""
        if self.loaded.server.dispatcher.tool_search is not None:
            self.loaded.server.dispatcher.tool_search.skip_log()

    def run(self, serve: Serve) -> int:
        """Serve until a signal, or until `serve` returns."""
        terminal, options, server = self.terminal, self.options, self.loaded.server

        def print_running() -> None:
            running = server.transports.engine.running
            if running and terminal.err.isatty():
                text = f"waiting for {count(running, 'running call')}; press Ctrl-C again to stop at once"
                terminal.message("note", text)

        def is_stopped() -> bool:
            return not server._running and not running_programs()

        async def run(server: MCPServer) -> None:
            await run_until_signal(serve(server), print_running, is_stopped)

        # With --reload, the author of the tools wants to see what happens.
        level = options.log_level or ("debug" if terminal.debug else "info" if options.reload else "warning")
        log_format = options.log_format or self.loaded.log_format or "text"
        with _logging(terminal, level, log_format, show_process=(options.workers or 1) > 1):
            server.run(run)
            stop_programs()
        return 0


def warn_unused_policy(targets: Sequence[str], terminal: Terminal, server: MCPServer | None = None) -> None:
    """Warn that the policy of the current folder is not used, because other targets are named."""
    file = Path(FILE_NAME)
    if not targets or any(target.endswith(".toml") for target in targets) or not file.is_file():
        return
    try:
        is_unused = load_config(file).policy is not None and not (server and is_policy_of(server, file))
    except ConfigurationError:
        return  # the file is not used
    if is_unused:
        text = f"the policy of {FILE_NAME} is not used, because other targets are named"
        terminal.message("warning", text, f"to use it, name the file too: toolcrib serve {FILE_NAME}")


# --- the lock file ----------------------------------------------------------------------------------


def lock_registry(loaded: Loaded, options: ServeOptions) -> None:
    """Hold the registries to the lock file, and add what differs to the findings: as errors where the server
    must not start. Raises ConfigurationError."""
    from toolcrib.catalog.lock import Lock  # delayed: only needed with --locked
    from toolcrib.cli.catalog import find_lock

    registries = registries_of(loaded.server)
    file, settings = find_lock(options.targets, options.lock)
    on_drift = options.on_drift or settings.on_drift or "refuse"
    lock = replace(Lock.load(file), targets=tuple(options.targets))
    drift = lock.check(entry.tool for entry in loaded.everything)
    is_accepted = drift.ok or on_drift == "quarantine"
    for kind, registry in registries.items() if is_accepted else ():
        lock.guard(registry, on_drift, kind=kind)
    loaded.findings += drift.findings("warning" if is_accepted else "error")


# --- the summary ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Summary:
    """What is served, as plain data that a worker can send to its parent.

    `listed` has kind, name and first line of each tool, resource, template and prompt, `disabled` names and
    groups, `search` the arguments of a message where search tools are listed instead. `credential` is what
    HTTP callers must present, if anything.
    """

    name: str
    listed: list[tuple[str, str, str]]
    disabled: list[tuple[str, str]]
    findings: list[Finding]
    search: list[str] | None = None
    credential: str | None = None

    @classmethod
    def of(cls, loaded: Loaded) -> Summary:
        server = loaded.server
        entries = [entry for entry in loaded.everything if not entry.enabled]
        search = server.dispatcher.tool_search
        listing = None if search is None else search.listing()
        notice = None
        if search is not None and listing is not None and listing.is_reduced:
            notice = ["warning" if search.mode == "auto" else "note", listing.explanation, listing.hint]
        auth = None if server.enforcer is None else server.enforcer.policy.auth
        return cls(
            server.name,
            [
                (label_of(item), item.name, first_line(item.definition))
                for registry in registries_of(server).values()
                for item in sort_kinds(registry.published())
            ],
            [(entry.tool.name, entry.tool.options.group or "") for entry in entries],
            loaded.findings,
            notice,
            None if auth is None else "KEY" if auth.keys is not None else "TOKEN",
        )

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def drifted(self) -> list[Finding]:
        """Tools that differ from the lock: errors prevent the start, others are in quarantine."""
        return [finding for finding in self.findings if finding.code == DriftError.code]

    @property
    def headline(self) -> str:
        problems = [count(len(self.errors), "problem")] if self.errors else []
        problems += [f"{len(self.drifted)} in quarantine"] if self.drifted else []
        suffix = f" ({', '.join(problems)}, see below)" if problems else ""
        return f"{self.name}: serving {self.counts}{suffix}"

    @property
    def counts(self) -> str:
        """How much is served of each kind."""
        return count_kinds(label for label, _, _ in self.listed)

    @classmethod
    def decode(cls, data: Mapping[str, Any]) -> Summary:
        """Return a summary from its fields, as `asdict` makes them."""
        return cls(**{**data, "findings": [Finding(**finding) for finding in data["findings"]]})


def print_stdio_start(summary: Summary, terminal: Terminal) -> bool:
    """Print problems, and on a terminal the tools. Return whether the tools were printed."""
    has_reader = terminal.err.isatty()
    if has_reader:
        text = f"{summary.headline} on stdin and stdout, until stdin is closed"
        if terminal.message_format is not None:
            terminal.message("note", text)
        else:
            terminal.echo_err(f"{text}\n")
            print_tools(summary, terminal)
    print_problems(summary, terminal)
    if has_reader:
        print_warnings(summary, terminal)
    return has_reader


def print_problems(summary: Summary, terminal: Terminal) -> None:
    """Print errors, and differences from the lock."""
    problems = [item for item in summary.findings if item.level == "error" or item.code in _DRIFT_CODES]
    for finding in problems[:MAX_SHOWN]:
        terminal.finding(finding)
    if len(problems) > MAX_SHOWN:
        terminal.message("error", f"{len(problems) - MAX_SHOWN} more: see `toolcrib check`")


def print_warnings(summary: Summary, terminal: Terminal) -> None:
    """Print a single warning, or the number of warnings, and whether search tools are listed."""
    warnings = [
        item for item in summary.findings if item.level == "warning" and item.code not in _DRIFT_CODES
    ]
    if len(warnings) == 1:
        terminal.finding(warnings[0])
    elif warnings:
        terminal.message("note", f"{count(len(warnings), 'warning')}: see `toolcrib check`")
    if summary.search is not None:
        terminal.message(*summary.search)


def print_tools(summary: Summary, terminal: Terminal) -> None:
    """Print the tools, resources and prompts that are served, and those that are disabled."""
    for label, name, text in summary.listed[:MAX_SHOWN]:
        kind = "" if label == "tool" else f"{label} "
        short = shorten(text, _MAX_DESCRIPTION, placeholder="...") if terminal.err.isatty() else text
        terminal.echo_err(f"  {kind}", style(name, **NAME_STYLE), f": {short}" if text else "")
    if rest := summary.listed[MAX_SHOWN:]:
        terminal.echo_err(f"  and {count_kinds(label for label, _, _ in rest)} more")
    groups: dict[str, list[str]] = {}
    for name, group in summary.disabled:
        groups.setdefault(group, []).append(name)
    for group, names in groups.items():
        terminal.echo_err(f"  disabled: {shorten_list(names)} ({enable_hint(group)})")
    terminal.echo_err()


def is_refused(summary: Summary, options: ServeOptions, terminal: Terminal) -> bool:
    """Return whether this must not be served, after printing why."""
    drifted = [finding for finding in summary.drifted if finding.level == "error"]
    if summary.listed and not drifted and not (summary.errors and options.strict):
        return False
    print_problems(summary, terminal)
    text, hint = "Nothing to serve", None
    if drifted:
        file = () if options.lock is None else ("--output", options.lock)
        lock = shlex.join(("toolcrib", "lock", *file, *options.targets.words))
        noun = "definition" if any(":" in (finding.tool or "") for finding in drifted) else "tool"
        text = f"Not started: {count(len(drifted), noun)} different from the lock file"
        hint = f"`{lock}` accepts all changes; --on-drift quarantine leaves the {noun}s out"
    elif summary.listed:
        text = f"Not started: {count(len(summary.errors), 'problem')}, and --strict is given"
    elif summary.disabled:
        text, hint = f"{text}: everything is disabled", enable_hint(summary.disabled[0][1])
    terminal.message("error", text, hint)
    return True


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
