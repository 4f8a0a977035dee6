"""Tools for commands: imported, read from source, or listed by a running MCP server.

A running server is named by its URL or by the command that starts it. The user who types a URL or a command
is responsible for it: no address is blocked.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shlex
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar

import click

from toolcrib import __version__
from toolcrib.catalog.catalog import Catalog, open_catalog
from toolcrib.cli.load import make_loader, parse_reference, read_configs
from toolcrib.cli.options import CommandError, Targets, parse_headers, target_option, targets_argument
from toolcrib.cli.output import Progress, Terminal, open_terminal
from toolcrib.cli.questions import Prompter
from toolcrib.cli.text import suggest
from toolcrib.client import Client, RemoteTool, StdioTransport, Transport
from toolcrib.client import entries as clients
from toolcrib.client.client import DEFAULT_TIMEOUT_S
from toolcrib.client.entries import parse_tool, read_items
from toolcrib.client.session import VERSIONS
from toolcrib.component import Component
from toolcrib.config import LockConfig
from toolcrib.content import Block
from toolcrib.dispatch.tool_search import CALL, MAX_FOUND, SEARCH
from toolcrib.errors import DefinitionError, Finding, Location, SourceError
from toolcrib.names import MCP
from toolcrib.registry.selection import KINDS
from toolcrib.sources.described import describe, describe_entry
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

    def open(self, terminal: Terminal) -> Catalog:
        """Return the catalog of the targets. Raise CommandError for one that does not exist."""
        if self.remote is not None:
            label = ", ".join(self.targets) or " ".join(self.remote.target)
            return open_catalog([label], "remote", listed=_list_remote(self.remote, label, terminal))
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


# --- completion for the shell --------------------------------------------------------------------------


def complete_kind(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a function that completes the name of a tool or prompt, or the URI of a resource."""
    return lambda ctx, _, incomplete: [
        name for each, name in _scan_names(ctx) if each == kind and name.startswith(incomplete)
    ]


def complete_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of anything, and the names of one kind after `tool:`, `resource:` or `prompt:`."""
    found = list(_scan_names(ctx))
    names = [*(name for _, name in found), *(f"{kind}:{name}" for kind, name in found)]
    begun = incomplete.partition(":")[0] in KINDS and ":" in incomplete
    shown = names if begun else names[: len(found)]
    return list(dict.fromkeys(name for name in shown if name.startswith(incomplete)))


def _scan_names(ctx: click.Context) -> Iterator[tuple[str, str]]:
    """Yield kind and name of everything in the targets. They are read, not run: the user has only pressed a
    key."""
    targets = Targets.of(ctx.params.get("targets") or (), ())
    try:
        with (
            open(os.devnull, "w") as nowhere,
            redirect_stderr(nowhere),
            open_terminal(debug=False) as terminal,
        ):
            found = open_local(targets, terminal, "static")
    except Exception:
        return  # there is no way to report it here
    yield from ((tool.kind, tool.name) for tool in found.components)


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


@dataclass(frozen=True, slots=True)
class Remote:
    """A running server, by URL or command, and how to reach it."""

    target: str | tuple[str, ...]
    headers: Mapping[str, str]
    protocol: str

    def request(
        self,
        work: Callable[[Client, RequestOptions], Coroutine[Any, Any, T]],
        terminal: Terminal,
        timeout_s: float | None,
    ) -> T:
        """Connect, and return what `work` does with the client and the options of a request, which show its
        progress and with --debug its log."""
        options: RequestOptions = {
            "timeout_s": timeout_s,
            "on_progress": Progress(terminal).show,
            "on_log": terminal.message if terminal.debug else None,
        }

        async def run(client: Client) -> T:
            try:
                return await work(client, options)
            finally:
                terminal.status("")

        return self.run(run, terminal, timeout_s)

    def run(
        self,
        work: Callable[[Client], Coroutine[Any, Any, T]],
        terminal: Terminal,
        timeout_s: float | None = None,
    ) -> T:
        """Connect, and return what `work` does with the client."""
        results: list[T] = []  # not returned by the task: asyncio may write the result of a task to the log

        async def run() -> None:
            client = Client(
                self._transport(terminal),
                protocol=self.protocol,
                headers=self.headers,
                timeout_s=timeout_s or DEFAULT_TIMEOUT_S,
                on_ask=Prompter(terminal).ask,
                info={"name": "toolcrib", "version": __version__},
            )
            async with client:
                results.append(await work(client))

        asyncio.run(run())
        return results[0]

    def _transport(self, terminal: Terminal) -> str | Transport:
        if isinstance(self.target, str):
            return self.target

        def print_stderr(text: str) -> None:
            for line in text.rstrip("\n").split("\n"):
                terminal.message("stderr", line)

        # The stderr of a server that fails is part of the error; otherwise only --debug shows it.
        return StdioTransport(self.target, on_stderr=print_stderr if terminal.debug else None)


async def list_remote_tools(client: Client) -> tuple[str, list[RemoteTool]]:
    """Return the name of a server, and its tools."""
    info = client.server_info
    tools = await client.list_tools()
    name = " ".join(str(info[key]) for key in ("name", "version") if info.get(key)) or "the server"
    return f"{name}, MCP {client.protocol_version}", tools


async def find_remote_tool(client: Client, name: str) -> RemoteTool:
    """Return a tool by its name, even if it is behind search tools. Raises CommandError."""
    tools = await client.list_tools()
    found = next((tool for tool in tools if tool.name == name), None)
    if found is None:
        hits = await search_remotely(client, name, 1) or ()
        found = next((tool for tool in hits if tool.name == name), None)
    if found is None:
        raise CommandError(f"Unknown tool: {name}", suggest(name, [tool.name for tool in tools]))
    return found


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


async def find_remote(client: Client, name: str) -> RemoteTool | Component:
    """Return a tool, resource, template or prompt by its name or URI. Raises CommandError."""
    kind, plain = parse_reference(name)
    if kind == "tool":
        return await find_remote_tool(client, plain)
    if kind is not None:
        features = [tool for tool in await list_remote_features(client) if tool.kind == kind]
        exact = [tool for tool in features if tool.name == plain]
        for tool in (*exact, *(tool for tool in features if matches_template(tool, plain))):
            return tool
        raise CommandError(f"Unknown {kind}: {plain}", suggest(plain, [tool.name for tool in features]))
    prompts = {tool.name: tool for tool in await list_remote_features(client, "prompts")}
    try:
        found = await find_remote_tool(client, plain)
    except CommandError:
        if plain in prompts:
            return prompts[plain]
        if not prompts:
            raise
        names = [*(tool.name for tool in await client.list_tools()), *prompts]
        raise CommandError(f"Unknown tool or prompt: {plain}", suggest(plain, names)) from None
    if plain in prompts:
        raise CommandError(f"'{plain}' is a tool and a prompt", f"write tool:{plain} or prompt:{plain}")
    return found


def matches_template(tool: Component, uri: str) -> bool:
    """Return whether a template of another server matches a URI; one that cannot be parsed matches none."""
    template = getattr(tool, "template", None)
    return template is not None and template.match(uri) is not None


def contents_block(item: clients.ResourceContents) -> Block:
    content = {"blob": base64.b64encode(item.data).decode()} if item.data is not None else {"text": item.text}
    kind = {} if item.mime_type is None else {"mimeType": item.mime_type}
    return {"uri": item.uri, **kind, **content}


async def search_remotely(client: Client, query: str, limit: int) -> list[RemoteTool] | None:
    """Return the hits of a server that lists search tools instead of its tools; None for other servers."""
    search_tool = find_search_tool(tool.name for tool in await client.list_tools())
    if search_tool is None:
        return None
    result = await client.call(search_tool, {"query": query, "limit": min(limit, MAX_FOUND)})
    answer = result.structured_content
    found = answer.get("tools") if isinstance(answer, dict) else None
    parse = partial(parse_tool, label="the server", over_http=True)
    return list(read_items(found, "the server", "tool", parse)) if isinstance(found, list) else []


def find_search_tool(names: Iterable[str]) -> str | None:
    """Return the name of the search tool, if a server lists search tools instead of its tools."""
    matches = [match for name in reversed(list(names)) if (match := _SEARCH_TOOLS.fullmatch(name))]
    found = {match[2]: match[0] for match in matches}
    return found.get(SEARCH) if CALL in found else None


def _list_remote(remote: Remote, label: str, terminal: Terminal) -> list[Component]:
    async def list_all(client: Client) -> tuple[list[RemoteTool], list[Component]]:
        return (await list_remote_tools(client))[1], await list_remote_features(client)

    tools, features = remote.run(list_all, terminal)
    if find_search_tool(tool.name for tool in tools) is not None:
        terminal.message(
            "warning",
            f"{label} lists search tools instead of its tools; the tools behind them are not included",
            "serve it with --search never, or use its source",
        )
    return [*(describe(tool.definition) for tool in tools), *features]


def check_remote_tools(tools: Iterable[RemoteTool]) -> Iterator[Finding]:
    """Report as warnings what toolcrib would reject in a tool of its own."""
    for tool in tools:
        try:
            MCP.check(tool.name)
            _ = describe(tool.definition).definition
        except DefinitionError as error:
            file = tool.definition.source.file
            yield replace(error.finding, level="warning", tool=tool.name, file=file, line=None)
