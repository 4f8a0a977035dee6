"""`toolcrib serve`: the main job. Reads what is wished for, and has it served.

Knows the words of the command, and what goes together with what; refuses to know how things are served.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from toolcrib.cli.demands import warn_unread
from toolcrib.cli.frame import Command, Failure, takes_json, takes_targets
from toolcrib.cli.journal import LEVELS, speak_json
from toolcrib.cli.offer import read_log_format
from toolcrib.cli.serving import Wishes, run_stdio
from toolcrib.cli.terminal import Terminal
from toolcrib.config import MAX_WORKERS, check_path
from toolcrib.definition import MAX_TIMEOUT_S

EXAMPLES = """
toolcrib serve                       toolcrib.toml, or the samples, on HTTP
toolcrib serve tools.py more/        a file and a folder
toolcrib serve tools.py --reload     load what changes while it serves
toolcrib serve tools.py --stdio      for a client that starts its servers
toolcrib serve --port 0 --json       any free port; tells it as JSON
toolcrib serve tools.py --workers 4  several processes
toolcrib serve tools.py --locked     nothing that is not in toolcrib.lock
"""
_HTTP_ONLY = (
    "--host",
    "--port",
    "--path",
    "--workers",
    "--allow-host",
    "--allow-origin",
    "--insecure",
    "--json",
)


def _read_path(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    try:
        return None if value is None else check_path(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(cls=Command, examples=EXAMPLES)
@takes_targets
@click.option("--stdio", is_flag=True, help="Speak on stdin and stdout instead of HTTP.")
@click.option("--host", metavar="HOST", help="Where to listen; 127.0.0.1 unless told otherwise.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="PORT", help="8000; 0 takes any that is free.")
@click.option("--path", callback=_read_path, metavar="PATH", help="The endpoint; /mcp unless told otherwise.")
@click.option("--workers", type=click.IntRange(1, MAX_WORKERS), metavar="N", help="Serve with N processes.")
@click.option("--reload", is_flag=True, help="Exchange the tools when their files change.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="A name this server goes by; any number.")
@click.option("--allow-origin", multiple=True, metavar="URL", help="A page that may call it; any number.")
@click.option("--insecure", is_flag=True, help="Listen beyond this machine though everybody may call.")
@click.option("--name", metavar="NAME", help="What the server calls itself.")
@click.option(
    "--search",
    type=click.Choice(("auto", "always", "never")),
    help="Show two tools that find and call the others instead of a long list; auto unless told otherwise.",
)
@click.option("--strict", is_flag=True, help="Do not start where anything was refused.")
@click.option("--locked", is_flag=True, help="Serve only what is as the lock file says; see toolcrib lock.")
@click.option("--lock", metavar="FILE", help="That file; toolcrib.lock unless told. Means --locked.")
@click.option(
    "--on-drift",
    type=click.Choice(["refuse", "quarantine"]),
    help="Do not start where a tool is not as locked (as usual), or serve without it. Means --locked.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, MAX_TIMEOUT_S, min_open=True),
    metavar="SECONDS",
    help="For tools that set none.",
)
@click.option("--log-level", type=click.Choice(LEVELS), help="What to log; warning unless told otherwise.")
@click.option("--log-format", type=click.Choice(("text", "json")), help="How to log; text unless told.")
@click.option("--verbose", is_flag=True, help="With --stdio, say what is served though nobody looks.")
@takes_json
def serve(terminal: Terminal, **given: Any) -> int:
    """Serve tools to MCP clients.

    One tool or target that is wrong keeps nobody from serving the others; it is said what was refused. Ctrl-C
    or SIGTERM lets calls under way end for up to 10 seconds, the second one ends at once.

    A TARGET is a Python file, a folder, a module, module:object or a toolcrib.toml.
    """
    wishes = Wishes(**given)
    wishes = replace(wishes, log_format=wishes.log_format or read_log_format(wishes.targets))
    if wishes.log_format == "json":
        speak_json(terminal)
    warn_unread(wishes.targets, terminal)
    if wishes.stdio:
        _refuse_http(wishes)
        return run_stdio(wishes, terminal)
    from toolcrib.cli.listening import listen  # delayed: who serves on stdio needs nothing of it

    return listen(wishes, terminal)


def _refuse_http(wishes: Wishes) -> None:
    for option in _HTTP_ONLY:
        key = {"--json": "as_json"}.get(option, option.strip("-").replace("-", "_"))
        if getattr(wishes, key) not in (None, False, ()):
            raise Failure(
                f"{option} and --stdio do not go together", f"{option} is for HTTP: drop one of them"
            )
