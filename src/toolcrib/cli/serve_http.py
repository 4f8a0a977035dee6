"""`toolcrib serve` over HTTP: settings, sockets, one process or several, and the start message."""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import shlex
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from toolcrib.cli.connect.clients import DEFAULT_NAME, HttpServer, Server, StdioServer, snippet
from toolcrib.cli.connect.command import default_name, stdio_command
from toolcrib.cli.load import read_configs
from toolcrib.cli.options import CommandError
from toolcrib.cli.output import Terminal
from toolcrib.cli.serve import (
    ServeOptions,
    Summary,
    check_workers_policy,
    is_refused,
    load,
    print_problems,
    print_tools,
    print_warnings,
    run_server,
    skip_search_log,
)
from toolcrib.config import HTTPConfig
from toolcrib.errors import ConfigurationError
from toolcrib.http_client import is_loopback
from toolcrib.transports.http.server import bind
from toolcrib.transports.serving import PATH, HTTPOptions

_MAX_PORTS_TRIED = 20
_WILDCARDS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # nosec B104  # compared, not bound
_LISTENING = "0A"
_MAX_COMMAND = 80
_HAS_REUSEPORT = sys.platform == "linux"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server that accepts connections; `command` starts the same server on stdio."""

    urls: Sequence[str]
    pid: int
    workers: int
    entry_name: str
    targets: Sequence[str]
    command: StdioServer | None
    is_public: bool

    def to_json(self, summary: Summary) -> dict[str, Any]:
        return {
            "name": summary.name,
            "address": self.urls[0],
            "addresses": list(self.urls),
            "pid": self.pid,
            "workers": self.workers,
            "tools": [name for name, _ in summary.tools],
            "findings": [finding.to_json() for finding in summary.findings],
        }


def serve_http(options: ServeOptions, terminal: Terminal) -> int:
    """Serve over HTTP until a signal stops it."""
    http = _read_http_config(options.targets)
    workers = options.workers or http.workers or 1
    if workers > 1:
        _check_workers(workers, options, terminal)
    host = options.host or http.host or "127.0.0.1"
    port = next(port for port in (options.port, http.port, 8000) if port is not None)
    http_options = HTTPOptions(
        host=host,
        path=options.path or http.path or PATH,
        allowed_hosts=(*http.allowed_hosts, *options.allow_host),
        allowed_origins=(*http.allowed_origins, *options.allow_origin),
        insecure=options.insecure or bool(http.insecure),
        sockets=bind_sockets(host, port),
    )
    info = _describe(options, http_options, workers)

    def on_ready(summary: Summary) -> None:
        try:
            if not options.as_json:
                _print_start(summary, info, terminal)
            print_problems(summary, terminal)
            print_warnings(summary, terminal)
            print_limits(summary, info, terminal)
        except BrokenPipeError:
            pass  # nobody reads stderr; clients are served all the same
        try:
            if options.as_json:  # last: a program that reads it may go on
                terminal.json_line(json.dumps(info.to_json(summary)))
        except BrokenPipeError:
            pass

    try:
        if workers > 1:
            from toolcrib.cli.workers import run_workers  # delayed: most servers are one process

            return run_workers(options, http_options, workers, terminal, on_ready)
        return run_http(options, http_options, terminal, on_ready)
    finally:
        for each in http_options.sockets:
            each.close()


def _read_http_config(targets: Sequence[str]) -> HTTPConfig:
    """Return the [http] settings of all files; the first file that has a setting wins."""
    found: dict[str, Any] = {}
    for config in read_configs(targets):
        found = {key: value for key, value in asdict(config.http).items() if value not in (None, ())} | found
    return HTTPConfig(**found)


def _check_workers(workers: int, options: ServeOptions, terminal: Terminal) -> None:
    if options.reload:
        hint = "drop --workers" if options.workers else "add --workers 1"
        raise CommandError(f"--reload cannot be combined with {workers} workers", hint)
    if sys.platform == "win32":
        raise CommandError("--workers is not supported on Windows", "use one process")
    for policy in [config.policy for config in read_configs(options.targets) if config.policy is not None]:
        check_workers_policy(policy, workers)
        if policy.auth is not None and policy.auth.requests is not None:
            text = f"each of {workers} workers counts requests: {workers} times as many are allowed"
            hint = "[[limits]] with a store under [policy] count exactly"
            terminal.message("note", policy.error_at("auth.requests", text), hint)


def _describe(options: ServeOptions, http: HTTPOptions, workers: int) -> ServerInfo:
    urls = [url_of(each, http.host, http.path) for each in http.sockets]
    targets = [target for target in options.targets if _find_command([target]) is not None]
    try:
        name = default_name(targets)
    except ConfigurationError:
        name = DEFAULT_NAME  # loading reports why the file cannot be read
    command = _find_command(targets)
    if command is not None and options.is_locked:
        from toolcrib.cli.catalog import find_lock  # delayed: only needed with --locked

        file, settings = find_lock(options.targets, options.lock)
        on_drift = options.on_drift or settings.on_drift or "refuse"
        args = (*command.args, "--lock", os.path.abspath(file), "--on-drift", on_drift)
        command = replace(command, args=args)
    return ServerInfo(
        urls=list(dict.fromkeys(urls)),
        pid=os.getpid(),
        workers=workers,
        targets=targets,
        entry_name=name,
        command=command,
        is_public=is_public(http.sockets),
    )


def _find_command(targets: Sequence[str]) -> StdioServer | None:
    """Return how a client would start this server; None where a target does not exist."""
    try:
        return stdio_command(targets)
    except CommandError:
        return None  # reported by loading


def run_http(
    options: ServeOptions,
    http: HTTPOptions,
    terminal: Terminal,
    on_ready: Callable[[Summary], None],
    metrics_folder: str | None = None,
    **identity: Any,
) -> int:
    """Serve on bound sockets. `on_ready` is called when clients can connect; in `metrics_folder` several
    processes combine their metrics."""
    loaded, locked, summary = load(options, terminal, **identity)
    if is_refused(summary, options, terminal):
        return 1
    enforcer = loaded.server.enforcer
    if enforcer is not None:  # the policy of files was checked before, this may be one of the code
        check_workers_policy(enforcer.policy, options.workers or 1)
        if enforcer.telemetry is not None and metrics_folder is not None:
            enforcer.telemetry.share(Path(metrics_folder))
    skip_search_log(loaded)
    chosen = replace(
        http, ready=lambda _: on_ready(summary), catches_signals=False, workers=options.workers or 1
    )
    try:
        return run_server(
            loaded, locked, options, terminal, lambda server: server.transports.serve_http(chosen)
        )
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        # Another program took the port while the tools were loading.
        raise port_in_use(http.host, http.sockets[0].getsockname()[1]) from None


# --- the start message -------------------------------------------------------------------------------


def _print_start(summary: Summary, info: ServerInfo, terminal: Terminal) -> None:
    """Print where the server is, its tools, and what to paste into a client."""
    workers = f" with {info.workers} workers" if info.workers > 1 else ""
    if terminal.message_format is not None:
        terminal.message("note", f"{summary.headline}{workers} at {', '.join(info.urls)}")
        return
    terminal.echo_err(f"{summary.headline}{workers} at")
    for url in info.urls:
        terminal.echo_err(terminal.style_err(f"  {url}", bold=True))
    terminal.echo_err()
    print_tools(summary, terminal)
    terminal.echo_err("For clients that connect to a URL:")
    _print_entry(info.entry_name, HttpServer(info.urls[0]), terminal)
    if summary.credential is not None:
        terminal.echo_err(f"  with the header Authorization: Bearer {summary.credential}")
    if info.command is not None:
        terminal.echo_err("For clients that start the server:")
        _print_entry(info.entry_name, info.command, terminal)
    words = shlex.join(["toolcrib", "connect", "CLIENT", *info.targets])
    terminal.echo_err(f"`{words}` adds it to a client. Press Ctrl-C to stop the server.")
    if summary.findings or info.is_public:
        terminal.echo_err()


def _print_entry(name: str, server: Server, terminal: Terminal) -> None:
    terminal.echo_err(f"  {json.dumps(json.loads(snippet(name, server)), ensure_ascii=False)}")


def print_limits(summary: Summary, info: ServerInfo, terminal: Terminal) -> None:
    """Print what users of several workers or of a public address must know."""
    if info.workers > 1:
        text = "workers keep no sessions: tools cannot ask users of clients older than MCP 2026-07-28"
        terminal.message("note", text)
    if info.is_public and summary.credential is None:
        terminal.message(
            "warning",
            "other machines can reach this server and call its tools without authentication",
            "set keys or an authorization server under [auth]; add names of this machine with --allow-host",
        )


# --- sockets -----------------------------------------------------------------------------------------


def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Bind without listening. Raises CommandError with a hint."""
    try:
        return bind(host, port)
    except socket.gaierror:
        raise CommandError(f"Unknown host: {host}", "--host takes an address or a name of this machine")
    except OSError as error:
        match error.errno:
            case errno.EADDRINUSE:
                raise port_in_use(host, port)
            case errno.EACCES:
                hint = "use a port from 1024 up"
                raise CommandError(f"Permission denied: cannot bind port {port}", hint)
            case errno.EADDRNOTAVAIL:
                raise CommandError(f"Cannot bind {host}: not a local address", "use --host 127.0.0.1")
            case _:
                raise CommandError(f"Cannot bind {host} port {port}: {error.strerror}")


def port_in_use(host: str, port: int) -> CommandError:
    process = find_listener(port)
    return CommandError(
        f"Port {port} is in use{f' by {process}' if process else ''}",
        f"use --port {_find_free_port(host, port)}, or --port 0 for any free port",
    )


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
    opened: list[socket.socket] = []
    try:
        for each in sockets:
            other = socket.socket(each.family, each.type, each.proto)
            opened.append(other)
            for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
                other.setsockopt(socket.SOL_SOCKET, option, 1)
            if each.family == socket.AF_INET6:
                other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            other.bind(each.getsockname())
            other.setblocking(False)
    except OSError:
        for other in opened:
            other.close()
        raise
    return opened


def url_of(each: socket.socket, host: str, path: str) -> str:
    """Return the URL of a bound socket for use on this machine."""
    bound, port = each.getsockname()[:2]
    try:
        ipaddress.ip_address(host)
        shown = _WILDCARDS.get(bound, bound)
    except ValueError:
        shown = host or _WILDCARDS[bound]  # keep a host name
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}{path}"


def is_public(sockets: Sequence[socket.socket]) -> bool:
    """Return whether other machines can connect."""
    return any(not is_loopback(each.getsockname()[0]) for each in sockets)


def find_listener(port: int) -> str | None:
    """Return the process that listens on a port, where /proc tells: on Linux, for one's own processes."""
    inodes = set(_list_inodes(port))
    if not inodes:
        return None
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(link) in inodes for link in (folder / "fd").iterdir()):
                raw = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                command = raw.decode("utf-8", "replace").strip() or "unknown"
                shown = f"{command[:_MAX_COMMAND]}{'...' if len(command) > _MAX_COMMAND else ''}"
                return f"process {folder.name} ({shown})"
        except OSError:
            continue  # owned by another user, or ended
    return None


def _list_inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text("ascii").splitlines()[1:]
        except (OSError, UnicodeDecodeError):
            continue
        for fields in map(str.split, lines):
            if int(fields[1].rpartition(":")[2], 16) == port and fields[3] == _LISTENING:
                yield f"socket:[{fields[9]}]"


def _find_free_port(host: str, used: int) -> int:
    for port in range(used + 1, min(used + _MAX_PORTS_TRIED, 65536)):
        try:
            for each in bind(host, port):
                each.close()
        except OSError:
            continue
        return port
    return 0
