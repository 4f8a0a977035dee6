"""One process of `toolcrib serve` over HTTP: its sockets and its run."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolcrib.cli.options import CommandError
from toolcrib.cli.output import Terminal
from toolcrib.cli.serving import (
    ServeOptions,
    Summary,
    check_workers_policy,
    is_refused,
    load,
    run_server,
    skip_search_log,
)
from toolcrib.http_client import is_loopback
from toolcrib.transports.http.server import bind
from toolcrib.transports.serving import HTTPOptions

_MAX_PORTS_TRIED = 20
_WILDCARDS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # nosec B104  # compared, not bound
_LISTENING = "0A"
_MAX_COMMAND = 80
_HAS_REUSEPORT = sys.platform == "linux"


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
