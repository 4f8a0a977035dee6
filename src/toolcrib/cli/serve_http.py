"""`toolcrib serve` over HTTP: settings, sockets, one process or several, and the start message."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from toolcrib.cli.connect import default_name, stdio_command
from toolcrib.cli.connect.clients import DEFAULT_NAME, Entry
from toolcrib.cli.load import read_configs
from toolcrib.cli.options import CommandError
from toolcrib.cli.output import Terminal
from toolcrib.cli.serve import (
    ServeOptions,
    ServeProcess,
    Summary,
    print_problems,
    print_tools,
    print_warnings,
    warn_unused_policy,
)
from toolcrib.cli.text import style
from toolcrib.config import Config, HTTPConfig
from toolcrib.errors import ConfigurationError
from toolcrib.http_client import is_loopback
from toolcrib.registry.selection import LIST_NAMES
from toolcrib.transports.http.server import bind, describe_bind_error, url_of
from toolcrib.transports.serving import PATH, HTTPOptions


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server that accepts connections; `is_public` if other machines can reach it."""

    urls: Sequence[str]
    workers: int
    is_public: bool


def serve_http(options: ServeOptions, terminal: Terminal) -> int:
    """Serve over HTTP until a signal stops it."""
    configs = list(read_configs(options.targets))
    found: dict[str, Any] = {}  # the first file that has a setting wins
    for config in configs:
        found = {key: value for key, value in asdict(config.http).items() if value not in (None, ())} | found
    http = HTTPConfig(**found)
    workers = options.workers or http.workers or 1
    if workers > 1:
        _check_workers(workers, configs, terminal)
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
    info = ServerInfo(
        urls=list(dict.fromkeys(url_of(each, host, http_options.path) for each in http_options.sockets)),
        workers=workers,
        is_public=is_public(http_options.sockets),
    )

    def on_ready(summary: Summary) -> None:
        with suppress(BrokenPipeError):  # stderr is closed; clients are served all the same
            if not options.as_json:
                _print_start(summary, info, options, terminal)
            print_problems(summary, terminal)
            print_warnings(summary, terminal)
            print_limits(summary, info, terminal)
        with suppress(BrokenPipeError):
            if options.as_json:  # last: a program that reads it may go on
                terminal.json_line(json.dumps(_to_json(summary, info)))

    try:
        if workers > 1 or options.reload:
            from toolcrib.cli.workers import run_workers  # delayed: most servers are one process

            warn_unused_policy(options.targets, terminal)
            return run_workers(options, http_options, workers, terminal, on_ready)
        return ServeProcess(options, terminal).run_http(http_options, on_ready)
    finally:
        for each in http_options.sockets:
            each.close()


def _check_workers(workers: int, configs: Sequence[Config], terminal: Terminal) -> None:
    if sys.platform == "win32":
        raise CommandError("--workers is not supported on Windows", "use one process")
    for policy in [config.policy for config in configs if config.policy is not None]:
        if policy.auth is not None and policy.auth.requests is not None:
            text = f"each of {workers} workers counts requests: {workers} times as many are allowed"
            hint = "[[limits]] count the calls of all workers together"
            terminal.message("note", policy.error_at("auth.requests", text), hint)


def _find_command(options: ServeOptions) -> Entry | None:
    """Return how a client would start this server; None if a target does not exist."""
    lock: list[str] = []
    if options.is_locked:
        from toolcrib.cli.catalog import find_lock  # delayed: only needed with --locked

        file, settings = find_lock(options.targets, options.lock)
        on_drift = options.on_drift or settings.on_drift or "refuse"
        lock = ["--lock", os.path.abspath(file), "--on-drift", on_drift]
    try:
        return stdio_command(options.targets, options=lock)
    except CommandError:
        return None  # reported by loading


# --- the start message -------------------------------------------------------------------------------


def _to_json(summary: Summary, info: ServerInfo) -> dict[str, Any]:
    """Return the start message; resources and prompts are under the names that their lists have in MCP."""
    listed: dict[str, list[str]] = {}
    for label, name, _ in summary.features:
        listed.setdefault(LIST_NAMES[label], []).append(name)
    return {
        "name": summary.name,
        "address": info.urls[0],
        "addresses": list(info.urls),
        "pid": os.getpid(),
        "workers": info.workers,
        "tools": [name for name, _ in summary.tools],
        **listed,
        "findings": [finding.to_json() for finding in summary.findings],
    }


def _print_start(summary: Summary, info: ServerInfo, options: ServeOptions, terminal: Terminal) -> None:
    """Print the addresses of the server, its tools, and an entry for clients."""
    workers = f" with {info.workers} workers" if info.workers > 1 else ""
    if terminal.message_format is not None:
        terminal.message("note", f"{summary.headline}{workers} at {', '.join(info.urls)}")
        return
    terminal.echo_err(f"{summary.headline}{workers} at")
    for url in info.urls:
        terminal.echo_err(style(f"  {url}", bold=True))
    terminal.echo_err()
    print_tools(summary, terminal)
    name = DEFAULT_NAME
    with suppress(ConfigurationError):  # loading reports why a file cannot be read
        name = default_name(options.targets)
    terminal.echo_err("For clients that connect to a URL:")
    _print_entry(name, {"type": "http", "url": info.urls[0]}, terminal)
    if summary.credential is not None:
        terminal.echo_err(f"  with the header Authorization: Bearer {summary.credential}")
    if (command := _find_command(options)) is not None:
        terminal.echo_err("For clients that start the server:")
        _print_entry(name, command, terminal)
    words = shlex.join(["toolcrib", "connect", "CLIENT", *options.targets.words])
    terminal.echo_err(f"`{words}` adds it to a client. Press Ctrl-C to stop the server.")
    if summary.findings or info.is_public:
        terminal.echo_err()


def _print_entry(name: str, entry: Entry, terminal: Terminal) -> None:
    """Print an entry as most clients accept it."""
    terminal.echo_err(f"  {json.dumps({'mcpServers': {name: entry}}, ensure_ascii=False)}")


def print_limits(summary: Summary, info: ServerInfo, terminal: Terminal) -> None:
    """Print notes for users of several workers or of a public address."""
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
    except OSError as error:
        raise CommandError(*describe_bind_error(error, host, port, "--{} {}")) from None


def is_public(sockets: Sequence[socket.socket]) -> bool:
    """Return whether other machines can connect."""
    return any(not is_loopback(each.getsockname()[0]) for each in sockets)
