"""`toolcrib serve`: serve tools to MCP clients, over HTTP or stdio."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from toolcrib.cli.load import read_configs
from toolcrib.cli.options import (
    Command,
    CommandError,
    exclusive,
    json_option,
    name_rule_option,
    targets_argument,
)
from toolcrib.cli.output import Terminal
from toolcrib.cli.serving import (
    ServeOptions,
    ServeProcess,
    Summary,
    print_problems,
    print_tools,
    print_warnings,
    use_json_messages,
    warn_unused_policy,
)
from toolcrib.cli.text import style
from toolcrib.config import MAX_WORKERS, Config, HTTPConfig, check_path, find_log_format
from toolcrib.errors import ConfigurationError
from toolcrib.http_client import is_loopback
from toolcrib.logs import LEVELS
from toolcrib.options import MAX_TIMEOUT_S
from toolcrib.registry.selection import LIST_NAMES
from toolcrib.sources.targets import settings_files
from toolcrib.transports.http.server import bind, describe_bind_error, url_of
from toolcrib.transports.serving import PATH, HTTPOptions

EXAMPLES = """
toolcrib serve                       the targets of toolcrib.toml, on HTTP
toolcrib serve tools.py more/        a file and a folder
toolcrib serve tools.py --reload     serve new code when files change
toolcrib serve tools.py --stdio      for a client that starts its servers
toolcrib serve --port 0 --json       any free port, printed as JSON
toolcrib serve tools.py --workers 4  several processes
toolcrib serve tools.py --locked     only tools pinned in toolcrib.lock
toolcrib serve server.py -- --db x   a server of mcp or fastmcp, as it is
toolcrib serve mcp-server-time       the same, by its installed command
"""
_HTTP_OPTIONS = ("host", "port", "path", "workers", "allow_host", "allow_origin", "insecure", "as_json")


def _parse_path(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    try:
        return None if value is None else check_path(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(cls=Command, examples=EXAMPLES)
@targets_argument
@click.option("--stdio", is_flag=True, help="Serve on stdin and stdout instead of HTTP.")
@click.option("--host", metavar="HOST", help="Address to bind.  [default: 127.0.0.1]")
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="PORT", help="Port, 0 for any free one.  [default: 8000]"
)
@click.option("--path", callback=_parse_path, metavar="PATH", help="Path of the endpoint.  [default: /mcp]")
@click.option("--workers", type=click.IntRange(1, MAX_WORKERS), metavar="N", help="Number of processes.")
@click.option(
    "--reload", is_flag=True, help="Start a new process when files of tools, skills or settings change."
)
@click.option("--allow-host", multiple=True, metavar="NAME", help="Host name to accept; repeatable.")
@click.option("--allow-origin", multiple=True, metavar="URL", help="Web origin to accept; repeatable.")
@click.option("--insecure", is_flag=True, help="Allow other machines to call without authentication.")
@click.option("--name", metavar="NAME", help="Name of the server.")
@click.option(
    "--search",
    type=click.Choice(("auto", "always", "never")),
    help="List two tools that search and call the others, instead of a long list.  [default: auto]",
)
@name_rule_option
@click.option("--strict", is_flag=True, help="Do not start if any tool has an error.")
@click.option("--locked", is_flag=True, help="Serve only what the lock file pins; see toolcrib lock.")
@click.option("--lock", metavar="FILE", help="Lock file, implies --locked.  [default: toolcrib.lock]")
@click.option(
    "--on-drift",
    type=click.Choice(["refuse", "quarantine"]),
    help="If a tool differs from the lock: do not start, or leave it out. Implies --locked.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, MAX_TIMEOUT_S, min_open=True),
    metavar="SECONDS",
    help="Time limit for tools without their own.",
)
@click.option("--log-level", type=click.Choice(LEVELS), help="Lowest level to log.  [default: warning]")
@click.option("--log-format", type=click.Choice(("text", "json")), help="Log format.  [default: text]")
@json_option
def serve(terminal: Terminal, **given: Any) -> int:
    """Serve tools to MCP clients.

    A tool or target with errors is reported and left out. Ctrl-C or SIGTERM waits up to 10 seconds for
    running calls; a second one stops at once.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml or an installed command. A program
    that starts a server of mcp or fastmcp is run, with the arguments after --, and the server that it starts
    is served.
    """
    options = ServeOptions(**given)
    formats = (find_log_format(file) for file in settings_files(options.targets))
    options = replace(options, log_format=options.log_format or next(filter(None, formats), None))
    if options.log_format == "json":
        use_json_messages(terminal)
    if not options.stdio:
        return serve_http(options, terminal)
    for name in _HTTP_OPTIONS:
        if getattr(options, name) not in (None, False, ()):
            raise exclusive(f"--{name.removeprefix('as_').replace('_', '-')}", "--stdio")
    if options.reload:
        from toolcrib.cli.workers import run_stdio  # delayed: most servers are one process

        return run_stdio(options, terminal)
    return ServeProcess(options, terminal).run_stdio()


# --- over HTTP ------------------------------------------------------------------------------------


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
            warn_public(summary, info, terminal)
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


# --- the start message -------------------------------------------------------------------------------


def _to_json(summary: Summary, info: ServerInfo) -> dict[str, Any]:
    """Return the start message; resources and prompts are under the names that their lists have in MCP."""
    listed: dict[str, list[str]] = {"tools": []}
    for label, name, _ in summary.listed:
        listed.setdefault(LIST_NAMES[label], []).append(name)
    return {
        "name": summary.name,
        "address": info.urls[0],
        "addresses": list(info.urls),
        "pid": os.getpid(),
        "workers": info.workers,
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
    _print_entries(summary, info, options, terminal)
    words = shlex.join(["toolcrib", "connect", "CLIENT", *options.targets.words])
    terminal.echo_err(f"`{words}` adds it to a client. Press Ctrl-C to stop the server.")
    if summary.findings or info.is_public:
        terminal.echo_err()


def _print_entries(summary: Summary, info: ServerInfo, options: ServeOptions, terminal: Terminal) -> None:
    """Print entries as most clients accept them: for this URL, and for a command that starts the server."""
    from toolcrib.cli.catalog import find_lock  # delayed: not needed for stdio
    from toolcrib.cli.connect import default_name, stdio_command
    from toolcrib.cli.connect.clients import DEFAULT_NAME

    name = DEFAULT_NAME
    with suppress(ConfigurationError):  # loading reports why a file cannot be read
        name = default_name(options.targets)

    def print_entry(entry: Mapping[str, Any]) -> None:
        terminal.echo_err(f"  {json.dumps({'mcpServers': {name: entry}}, ensure_ascii=False)}")

    terminal.echo_err("For clients that connect to a URL:")
    print_entry({"type": "http", "url": info.urls[0]})
    if summary.credential is not None:
        terminal.echo_err(f"  with the header Authorization: Bearer {summary.credential}")
    lock: list[str] = []
    if options.is_locked:
        file, settings = find_lock(options.targets, options.lock)
        on_drift = options.on_drift or settings.on_drift or "refuse"
        lock = ["--lock", os.path.abspath(file), "--on-drift", on_drift]
    with suppress(CommandError):  # loading reports a target that does not exist
        command = stdio_command(options.targets, options=lock)
        terminal.echo_err("For clients that start the server:")
        print_entry(command)


def warn_public(summary: Summary, info: ServerInfo, terminal: Terminal) -> None:
    """Warn users of a public address whose callers are not authenticated."""
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
