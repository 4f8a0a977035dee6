"""`toolcrib serve` over HTTP: settings, one process or several, and the start message."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from toolcrib.cli.connect.clients import DEFAULT_NAME, HttpServer, Server, StdioServer, snippet
from toolcrib.cli.connect.command import default_name, stdio_command
from toolcrib.cli.http_process import bind_sockets, is_public, run_http, url_of
from toolcrib.cli.load import read_configs
from toolcrib.cli.options import CommandError
from toolcrib.cli.output import Terminal
from toolcrib.cli.serving import (
    ServeOptions,
    Summary,
    check_workers_policy,
    print_problems,
    print_tools,
    print_warnings,
)
from toolcrib.cli.text import style
from toolcrib.config import HTTPConfig
from toolcrib.errors import ConfigurationError
from toolcrib.transports.serving import PATH, HTTPOptions


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


# --- the start message -------------------------------------------------------------------------------


def _print_start(summary: Summary, info: ServerInfo, terminal: Terminal) -> None:
    """Print where the server is, its tools, and what to paste into a client."""
    workers = f" with {info.workers} workers" if info.workers > 1 else ""
    if terminal.message_format is not None:
        terminal.message("note", f"{summary.headline}{workers} at {', '.join(info.urls)}")
        return
    terminal.echo_err(f"{summary.headline}{workers} at")
    for url in info.urls:
        terminal.echo_err(style(f"  {url}", bold=True))
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
