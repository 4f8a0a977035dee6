"""`toolcrib serve`: serve tools to MCP clients, over HTTP or stdio."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from toolcrib.cli.options import Command, exclusive, json_option, targets_argument
from toolcrib.cli.output import Terminal
from toolcrib.cli.serving import ServeOptions, ServeProcess, use_json_messages
from toolcrib.config import MAX_WORKERS, check_path, find_log_format
from toolcrib.logs import LEVELS
from toolcrib.options import MAX_TIMEOUT_S
from toolcrib.sources.targets import settings_files

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
        from toolcrib.cli.serve_http import serve_http  # delayed: not needed for stdio

        return serve_http(options, terminal)
    for field in _HTTP_OPTIONS:
        if getattr(options, field) not in (None, False, ()):
            raise exclusive(f"--{field.removeprefix('as_').replace('_', '-')}", "--stdio")
    if options.reload:
        from toolcrib.cli.workers import run_stdio  # delayed: most servers are one process

        return run_stdio(options, terminal)
    return ServeProcess(options, terminal).run_stdio()
