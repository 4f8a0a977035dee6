"""Tools for commands: imported, read from source, or listed by a running MCP server.

A running server is named by its URL or by the command that starts it. The user who types a URL or a command
is responsible for it: no address is blocked.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

import click

from toolcrib import __version__
from toolcrib.catalog.catalog import Catalog, open_catalog
from toolcrib.cli.load import make_loader, parse_reference, read_configs
from toolcrib.cli.options import CommandError, parse_headers, target_option, targets_argument
from toolcrib.cli.output import Progress, Terminal
from toolcrib.cli.questions import Prompter
from toolcrib.cli.text import suggest
from toolcrib.client import Client, StdioTransport, Transport
from toolcrib.client.client import DEFAULT_TIMEOUT_S
from toolcrib.client.session import VERSIONS
from toolcrib.component import Component
from toolcrib.config import LockConfig
from toolcrib.dispatch.tool_search import CALL, SEARCH
from toolcrib.errors import Location, SourceError
from toolcrib.registry.selection import name_kinds
from toolcrib.sources.described import ListedTool, describe, describe_entry
from toolcrib.sources.targets import LOCK_NAME, is_address

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_SEARCH_TOOLS = re.compile(rf"(toolcrib_(?:\d+_)?)?({SEARCH}|{CALL})")


@dataclass(frozen=True, slots=True)
class ToolSource:
    """Where a command gets its tools: the targets, imported or read, or a running server."""

    targets: Sequence[str] = ()
    static: bool = False
    command: str | None = None
    headers: Sequence[str] = ()
    protocol: str | None = None

    @property
    def remote(self) -> Remote | None:
        """The running server that the command line names; None if the targets are local."""
        protocol = self.protocol or "auto"
        urls = [target for target in self.targets if is_address(target)]
        if self.command is not None:
            if self.targets:
                raise CommandError(f"--command cannot be combined with {self.targets[0]}")
            if self.headers:
                raise CommandError("--header requires a URL, not a command")
            return Remote(tuple(split_command(self.command, "--command")), {}, protocol)
        if urls:
            if len(self.targets) > 1:
                hint = "use one server at a time"
                raise CommandError(f"{urls[0]} cannot be combined with other targets", hint)
            return Remote(urls[0], parse_headers(self.headers), protocol)
        for option, given in (("--header", self.headers), ("--protocol", self.protocol)):
            if given:
                raise CommandError(f"{option} requires a running server", "give its URL, or --command")
        return None

    def open(self, terminal: Terminal, *, as_listed: bool = False) -> Catalog:
        """Return the catalog of the targets. Raise CommandError for one that does not exist.

        With `as_listed`, definitions of a running server that toolcrib would refuse are kept, with warnings.
        """
        if (remote := self.remote) is not None:
            label = ", ".join(self.targets) or " ".join(remote.target)
            listed, about = remote.run(partial(_list_remote, as_listed=as_listed), terminal)
            names = [match[2] for item in listed if (match := _SEARCH_TOOLS.fullmatch(item.name))]
            if {SEARCH, CALL} <= {*names}:
                text = f"{label} lists search tools instead of its tools; the others are not included"
                terminal.message("warning", text, "serve it with --search never, or call the search tools")
            found = open_catalog([label], "remote", listed=listed)
            found.server = about
            return found
        return open_local(self.targets, terminal, "static" if self.static else "import")


def open_local(targets: Sequence[str], terminal: Terminal, how: Literal["import", "static"]) -> Catalog:
    """Return the catalog of targets on this machine. Raise CommandError for one that does not exist."""
    if how == "static" and (address := next(filter(is_address, targets), None)):
        raise CommandError(f"Cannot scan {address}: it is a running server", "use toolcrib list")
    try:
        with terminal.log.muted():
            loader = make_loader(targets, terminal)
            return open_catalog(targets, how, watch=partial(Progress, terminal), loader=loader)
    except SourceError as error:
        if error.source.file is None:
            raise CommandError(error.message, error.hint) from None
        raise


def source_options(*, target: bool = False, static: bool = True) -> Callable[[F], F]:
    """Add targets, `--static` and the options of running servers; pass them as `source: ToolSource`.

    The targets are arguments, or options (`-t`) with `target`.
    """
    options = [
        click.option("--command", metavar="WORDS", help="Start a server with this command, without a shell."),
        click.option("--header", "headers", multiple=True, metavar="'K: V'", help="HTTP header to send."),
        click.option("--protocol", type=click.Choice(["auto", *VERSIONS]), help="MCP version to use."),
    ]
    if static:
        options.insert(0, static_option)
    options.insert(0, partial(target_option, urls=True) if target else targets_argument)

    def decorate(function: Any) -> Any:
        @wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            names = ("targets", "static", "command", "headers", "protocol")
            source = ToolSource(**{name: given.pop(name) for name in names if name in given})
            return function(*args, source=source, **given)

        for option in reversed(options):
            call = option(call)
        return call

    return decorate


# --- reading source ------------------------------------------------------------------------------------


def static_option(function: F) -> F:
    text = "Read the source of the targets without importing or running it."
    return click.option("--static", is_flag=True, help=text)(function)


def split_command(command: str, option: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise CommandError(f"Cannot parse {option}: {error}") from None
    if not words:
        raise CommandError(f"{option} is empty", "give a program and its arguments")
    return words


def find_lock(targets: Sequence[str], given: str | None = None) -> tuple[Path, LockConfig]:
    """Return the lock file and its settings: the file given, else the one of the first configuration file,
    else `toolcrib.lock` beside that file or in the current folder."""
    for config in read_configs(targets):
        beside = (config.file or Path()).parent / LOCK_NAME
        return Path(given) if given is not None else config.lock.file or beside, config.lock
    return Path(given if given is not None else LOCK_NAME), LockConfig()


# --- running servers ---------------------------------------------------------------------------------


class RequestOptions(TypedDict):
    """Options of a request to a server."""

    timeout_s: float | None
    on_progress: Callable[[float, float | None, str | None], None]
    on_log: Callable[[str, Any], None] | None


Work: TypeAlias = Callable[[Client, RequestOptions], Coroutine[Any, Any, T]]


def run_client(
    connect: Callable[..., AbstractAsyncContextManager[Client]],
    work: Work[T],
    terminal: Terminal,
    timeout_s: float | None = None,
) -> T:
    """Connect, and return what `work` does with the client and the options of a request, which show its
    progress and with --debug its log. Questions of the server are asked at the terminal."""
    results: list[T] = []  # not returned by the task: asyncio may write the result of a task to the log
    options: RequestOptions = {
        "timeout_s": timeout_s,
        "on_progress": Progress(terminal).show,
        "on_log": terminal.message if terminal.debug else None,
    }
    info = {"name": "toolcrib", "version": __version__}

    async def run() -> None:
        limit_s = timeout_s or DEFAULT_TIMEOUT_S
        async with connect(timeout_s=limit_s, on_ask=Prompter(terminal).ask, info=info) as client:
            results.append(await work(client, options))

    try:
        asyncio.run(run())
    finally:
        terminal.status("")
    return results[0]


@dataclass(frozen=True, slots=True)
class Remote:
    """A running server, by URL or command, and how to reach it."""

    target: str | tuple[str, ...]
    headers: Mapping[str, str]
    protocol: str

    def run(self, work: Work[T], terminal: Terminal, timeout_s: float | None = None) -> T:
        """Connect, and return what `work` does with the client."""
        connect = partial(Client, self._transport(terminal), protocol=self.protocol, headers=self.headers)
        return run_client(connect, work, terminal, timeout_s)

    def _transport(self, terminal: Terminal) -> str | Transport:
        if isinstance(self.target, str):
            return self.target

        def print_stderr(text: str) -> None:
            for line in text.rstrip("\n").split("\n"):
                terminal.message("stderr", line)

        # The stderr of a server that fails is part of the error; otherwise only --debug shows it.
        return StdioTransport(self.target, on_stderr=print_stderr if terminal.debug else None)


async def list_remote_features(
    client: Client, *capabilities: Literal["resources", "prompts"]
) -> list[Component]:
    """Return the resources, templates and prompts of a server, by default all that it has. They cannot be
    run."""
    wanted = set(capabilities or ("resources", "prompts")) & client.capabilities.keys()
    entries: list[Mapping[str, Any]] = []
    if "resources" in wanted:
        entries += [item.wire for item in await client.list_resources()]
        entries += [item.wire for item in await client.list_resource_templates()]
    if "prompts" in wanted:
        entries += [item.wire for item in await client.list_prompts()]
    return [describe_entry(wire, Location(client.label)) for wire in entries]


def matches_template(tool: Component, uri: str) -> bool:
    """Return whether a template of another server matches a URI; one that cannot be parsed matches none."""
    template = getattr(tool, "template", None)
    return template is not None and template.match(uri) is not None


async def _list_remote(client: Client, _: RequestOptions, *, as_listed: bool) -> tuple[list[Component], str]:
    """Return the tools, resources and prompts of a server, and its name and protocol."""
    info = client.server_info
    name = " ".join(str(info[key]) for key in ("name", "version") if info.get(key)) or "the server"
    make = ListedTool if as_listed else describe
    tools = [make(tool.definition) for tool in await client.list_tools()]
    listed = [*tools, *await list_remote_features(client)]
    return listed, f"{name}, MCP {client.protocol_version}"


def find_component(found: Catalog, name: str) -> Component:
    """Return a tool, resource, template or prompt by its name or URI. Raises CommandError."""
    kind, plain = parse_reference(name)
    members = [item for item in found.components if item.kind in ((kind,) if kind else ("tool", "prompt"))]
    chosen = [item for item in members if item.name == plain]
    chosen = chosen or [item for item in members if matches_template(item, plain)]
    if not chosen:
        noun = kind or name_kinds("", members)
        raise CommandError(f"Unknown {noun}: {plain}", suggest(plain, [item.name for item in members]))
    if kind is None and len({item.kind for item in chosen}) > 1:
        raise CommandError(f"'{plain}' is a tool and a prompt", f"write tool:{plain} or prompt:{plain}")
    return chosen[0]
