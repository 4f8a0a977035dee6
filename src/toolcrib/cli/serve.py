"""`toolcrib serve`: the main job. Reads what is wished for, and has it served.

Knows the words of the command, and what goes together with what; refuses to know how things are served.

One process that serves what the command line wished for, over HTTP or stdio, until it is told to end.

Knows the order of the steps: load, refuse or go on, serve, say so. Refuses to know the words of the command.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.load import (
    Offer,
    Summary,
    headline,
    load_again,
    load_offer,
    put,
    read_log_format,
    say_switch,
    say_tools,
    say_trouble,
    say_warnings,
)
from toolcrib.cli.options import Command, Failure, takes_json, takes_targets
from toolcrib.cli.output import Terminal
from toolcrib.cli.policy import refuse_apart, warn_unread
from toolcrib.cli.server_log import Journal, speak_json
from toolcrib.cli.shutdown import run_until_told
from toolcrib.cli.text import count
from toolcrib.config import MAX_WORKERS, check_path
from toolcrib.definition import MAX_TIMEOUT_S
from toolcrib.dispatch.tool_search import SearchMode
from toolcrib.logs import LEVELS
from toolcrib.server import MCPServer
from toolcrib.transports.serving import HTTPOptions
from toolcrib.transports.stdio import StandardStreams, serve_stdio

if TYPE_CHECKING:
    from toolcrib.catalog.lock import OnDrift


@dataclass(frozen=True, slots=True)
class Wishes:
    """The command line as it was given."""

    targets: Sequence[str] = ()
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
    as_json: bool = False
    strict: bool = False
    log_level: str | None = None
    log_format: str | None = None
    timeout_s: float | None = None
    verbose: bool = False
    locked: bool = False
    lock: str | None = None
    on_drift: OnDrift | None = None

    @property
    def is_locked(self) -> bool:
        return self.locked or self.lock is not None or self.on_drift is not None

    def level(self, terminal: Terminal) -> str:
        """Who reloads is at work on the tools, and wants to see what happens."""
        return self.log_level or ("debug" if terminal.debug else "info" if self.reload else "warning")


def load(wishes: Wishes, terminal: Terminal, **identity: Any) -> tuple[Offer, Summary]:
    with terminal.log.muted():  # what is logged now is in the findings too
        offer = load_offer(
            wishes.targets,
            terminal,
            name=wishes.name,
            timeout_s=wishes.timeout_s,
            is_dynamic=wishes.reload,
            search=wishes.search,
            **identity,
        )
        if wishes.is_locked:
            from toolcrib.cli.serve_locked import hold  # delayed: only who serves what is locked needs it

            offer.take_hold(hold(offer.server.registry, wishes.targets, wishes.lock, wishes.on_drift))
        return offer, Summary.of(offer)


def is_refused(summary: Summary, wishes: Wishes, terminal: Terminal) -> bool:
    """Whether this cannot be served. If so, it was said why."""
    errors = summary.errors
    if summary.drifted:
        say_trouble(summary, terminal)
        file = () if wishes.lock is None else ("--output", wishes.lock)
        accepting = shlex.join(("toolcrib", "lock", *file, *wishes.targets))
        terminal.say(
            "error",
            f"Not started: {count(len(summary.drifted), 'tool')} not as locked",
            f"`{accepting}` accepts all of it; --on-drift quarantine serves the rest",
        )
        return True
    if summary.tools and not (errors and wishes.strict):
        return False
    say_trouble(summary, terminal)
    if summary.tools:
        terminal.say("error", f"Not started: {count(len(errors), 'problem')}, and --strict allows none")
    elif summary.off:
        terminal.say("error", "There is nothing to serve: every tool is off", say_switch(summary.off[0][1]))
    else:
        terminal.say("error", "There is nothing to serve")
    return True


def run_stdio(wishes: Wishes, terminal: Terminal) -> int:
    """Serve the client at the other end of stdin and stdout."""
    offer, summary = load(wishes, terminal)
    if is_refused(summary, wishes, terminal):
        return 1
    is_seen = wishes.verbose or terminal.err.isatty()
    if is_seen:
        begins = f"{headline(summary)} on stdin and stdout, until its stdin ends"
        if terminal.spell is not None:
            terminal.say("note", begins)
        else:
            put(terminal, f"{begins}\n")
            say_tools(summary, terminal)
    say_trouble(summary, terminal)
    if is_seen:
        say_warnings(summary, terminal)
        _leave_unsaid(offer)

    async def speak(server: MCPServer) -> None:
        standard = StandardStreams()
        os.dup2(terminal.out.fileno(), standard.output)  # the real one, which the terminal holds
        await serve_stdio(server.transports.engine, standard)

    return _run(offer, wishes, terminal, speak)


def run_http(
    wishes: Wishes,
    options: HTTPOptions,
    terminal: Terminal,
    ready: Callable[[Summary], None],
    figures: str | None = None,
    **identity: Any,
) -> int:
    """Serve on sockets that are bound already. `ready` is called when clients can connect; `figures` is where
    several processes that serve as one put theirs together."""
    offer, summary = load(wishes, terminal, **identity)
    if is_refused(summary, wishes, terminal):
        return 1
    if offer.server.enforcer is not None:  # that of files was looked at before; this one may be of the code
        refuse_apart(offer.server.enforcer.policy, wishes.workers or 1)
    _leave_unsaid(offer)
    watch = None if offer.server.enforcer is None else offer.server.enforcer.telemetry
    if watch is not None and figures is not None:
        watch.share(Path(figures))
    chosen = replace(
        options, ready=lambda _: ready(summary), catches_signals=False, workers=wishes.workers or 1
    )
    try:
        return _run(offer, wishes, terminal, lambda server: server.transports.serve_http(chosen))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        from toolcrib.cli.sockets import taken  # delayed: who serves on stdio needs no door

        # Another program began to listen while the tools were loaded.
        raise taken(options.host, options.sockets[0].getsockname()[1]) from None


def _leave_unsaid(offer: Offer) -> None:
    """What clients are shown is in the summary: the log needs not say it again."""
    if offer.server.dispatcher.tool_search is not None:
        offer.server.dispatcher.tool_search.skip_log()


def _run(
    offer: Offer,
    wishes: Wishes,
    terminal: Terminal,
    serve: Callable[[MCPServer], Coroutine[Any, Any, None]],
) -> int:
    server = offer.server

    def say() -> None:
        running = server.transports.engine.call_limit.running
        if running and terminal.err.isatty():
            terminal.say("note", f"{count(running, 'call')} under way may end; Ctrl-C again ends at once")

    async def live(server: MCPServer) -> None:
        work = _reload(offer, wishes, terminal, serve) if wishes.reload else serve(server)
        await run_until_told(work, say, lambda: not server._running)

    is_one_of_many = (wishes.workers or 1) > 1
    style = wishes.log_format or offer.log_format
    with Journal(terminal, wishes.level(terminal), style=style, marks_process=is_one_of_many):
        server.run(live)
    return 0


async def _reload(
    offer: Offer,
    wishes: Wishes,
    terminal: Terminal,
    serve: Callable[[MCPServer], Coroutine[Any, Any, None]],
) -> None:
    """Serve, and exchange the tools when their files change."""
    from toolcrib.sources.reload import Reloader  # delayed: only who reloads needs it

    server, owners = offer.server, offer.server.dispatcher.applications

    async def see_to_applications() -> None:
        await asyncio.gather(owners.open_all(), server.dispatcher.renew())

    reloader = Reloader(
        lambda: load_again(wishes.targets, terminal, offer.held),
        server.registry,
        paths=offer.paths,
        findings=offer.findings,
        after_reload=see_to_applications,
    )
    async with reloader:
        await serve(server)


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
    from toolcrib.cli.serve_http import listen  # delayed: who serves on stdio needs nothing of it

    return listen(wishes, terminal)


def _refuse_http(wishes: Wishes) -> None:
    for option in _HTTP_ONLY:
        key = {"--json": "as_json"}.get(option, option.strip("-").replace("-", "_"))
        if getattr(wishes, key) not in (None, False, ()):
            raise Failure(
                f"{option} and --stdio do not go together", f"{option} is for HTTP: drop one of them"
            )
