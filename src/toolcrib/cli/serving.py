"""One process that serves what the command line wished for, over HTTP or stdio, until it is told to end.

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

from toolcrib.cli.demands import refuse_apart
from toolcrib.cli.ending import run_until_told
from toolcrib.cli.journal import Journal
from toolcrib.cli.offer import Offer, load_again, load_offer
from toolcrib.cli.summary import Summary, headline, put, say_switch, say_tools, say_trouble, say_warnings
from toolcrib.cli.terminal import Terminal
from toolcrib.cli.words import count
from toolcrib.server import MCPServer
from toolcrib.storefront import Publish
from toolcrib.transports.stdio import Standard, serve_stdio
from toolcrib.wiring import HTTPOptions

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
    search: Publish | None = None
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
            from toolcrib.cli.held import hold  # delayed: only who serves what is locked needs it

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
        standard = Standard()
        os.dup2(terminal.out.fileno(), standard.output)  # the real one, which the terminal holds
        await serve_stdio(server.wiring.engine, standard)

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
    if offer.server.guard is not None:  # that of files was looked at before; this one may be of the code
        refuse_apart(offer.server.guard.policy, wishes.workers or 1)
    _leave_unsaid(offer)
    watch = None if offer.server.guard is None else offer.server.guard.watch
    if watch is not None and figures is not None:
        watch.share(Path(figures))
    chosen = replace(
        options, ready=lambda _: ready(summary), catches_signals=False, workers=wishes.workers or 1
    )
    try:
        return _run(offer, wishes, terminal, lambda server: server.wiring.serve_http(chosen))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        from toolcrib.cli.door import taken  # delayed: who serves on stdio needs no door

        # Another program began to listen while the tools were loaded.
        raise taken(options.host, options.sockets[0].getsockname()[1]) from None


def _leave_unsaid(offer: Offer) -> None:
    """What clients are shown is in the summary: the log needs not say it again."""
    if offer.server.dispatcher.storefront is not None:
        offer.server.dispatcher.storefront.leave_unsaid()


def _run(
    offer: Offer,
    wishes: Wishes,
    terminal: Terminal,
    serve: Callable[[MCPServer], Coroutine[Any, Any, None]],
) -> int:
    server = offer.server

    def say() -> None:
        running = server.wiring.engine.gate.running
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
    from toolcrib.reload import Reloader  # delayed: only who reloads needs it

    server, owners = offer.server, offer.server.dispatcher.owners

    async def see_to_applications() -> None:
        await asyncio.gather(owners.open_all(), server.dispatcher.renew())

    reloader = Reloader(
        lambda: load_again(wishes.targets, terminal, offer.held),
        server.registry,
        paths=offer.paths,
        findings=offer.findings,
        after_swap=see_to_applications,
    )
    async with reloader:
        await serve(server)
