"""Tools for commands: imported, read from source, or listed by a running MCP server.

A running server is named by its URL or by the command that starts it. The user who types a URL or a command
is responsible for it: no address is blocked.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from toolcrib import __version__
from toolcrib.cli.load import build_tools, load, read_configs
from toolcrib.cli.options import CommandError, Targets, parse_headers, target_option, targets_argument
from toolcrib.cli.output import Progress, Terminal, open_terminal
from toolcrib.cli.prompt import Prompter
from toolcrib.cli.text import suggest
from toolcrib.client import Client, RemoteTool, StdioTransport, Transport
from toolcrib.client.client import DEFAULT_TIMEOUT_S
from toolcrib.client.session import VERSIONS
from toolcrib.client.tools import read_tools
from toolcrib.config import FILE_NAME, LockConfig
from toolcrib.content import Result
from toolcrib.definition import MCP, ToolDefinition
from toolcrib.dispatch.tool_search import CALL, MAX_FOUND, SEARCH
from toolcrib.errors import DefinitionError, Finding, SourceError, ToolNotFoundError
from toolcrib.sources.described import describe
from toolcrib.sources.targets import is_address
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.sources.scan import Scan
    from toolcrib.sources.skills import Skill

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_SCAN_STEPS = {"files": "reading files", "modules": "analysing modules", "tools": "building tools"}
_SEARCH_TOOLS = re.compile(rf"(toolcrib_(?:\d+_)?)?({SEARCH}|{CALL})")


@dataclass(slots=True)
class ToolSet:
    """Tools whose definitions are built, and findings about them and the rest."""

    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    label: str = ""
    is_sample: bool = False
    resources: list[Tool] | None = None
    """The resources of the server, among them skills; None where they are not known."""

    @property
    def skills(self) -> list[Skill] | None:
        """The skills of the server; None where they are not known."""
        if not self.resources:
            return None if self.resources is None else []
        from toolcrib.sources.skills import skills_of  # delayed: few servers have skills

        return skills_of(self.resources)

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    def drop_duplicates(self) -> None:
        """Keep the first tool of each name and version, and report the others as errors. A scan finds several
        where they are on different servers."""
        first: dict[tuple[str, str | None], Tool] = {}
        for tool in self.tools:
            other = first.setdefault((tool.name, tool.version), tool)
            if other is not tool:
                text = f"Tool '{tool.name}' is defined twice: at {other.source} and at {tool.source}"
                hint = "take one server at a time: name its file, or FILE:SERVER"
                place = tool.source
                self.findings.append(
                    Finding("duplicate-name", "error", text, tool.name, None, place.file, place.line, hint)
                )
        self.tools = list(first.values())


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
        """The running server that the command line names; None where the targets are local."""
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

    def collect(self, terminal: Terminal, *, with_unlisted: bool = False) -> ToolSet:
        """Return the tools; `with_unlisted` adds disabled tools and older versions."""
        remote = self.remote
        label = ", ".join(self.targets)
        if remote is not None:
            return _collect_remote(remote, self.command or label, terminal)
        if self.static:
            found = scan_targets(self.targets, terminal)
            tools = [*found.tools, *(found.unlisted if with_unlisted else ())]
            is_sample = not self.targets and not Path(FILE_NAME).is_file()
            return ToolSet(tools, list(found.findings), label, is_sample)
        loaded = load(self.targets, terminal)
        tools = loaded.build_tools(
            terminal, [entry.tool for entry in loaded.entries] if with_unlisted else None
        )
        resources = list(loaded.server.resources)
        return ToolSet(tools, loaded.findings, label, loaded.is_sample, resources)


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


def complete_tools(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a tool. The targets are read, not run: the user has only pressed a key."""
    targets = Targets.of(ctx.params.get("targets") or (), ())
    try:
        with (
            open(os.devnull, "w") as nowhere,
            redirect_stderr(nowhere),
            open_terminal(debug=False) as terminal,
        ):
            found = ToolSource(targets, static=True).collect(terminal)
    except Exception:
        return []  # there is no way to report it here
    return [tool.name for tool in found.tools if tool.name.startswith(incomplete)]


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


def scan_targets(targets: Sequence[str], terminal: Terminal) -> Scan:
    """Read targets without importing them. Raises CommandError for one that does not exist."""
    for target in targets:
        if is_address(target):
            raise CommandError(f"Cannot scan {target}: it is a running server", "use toolcrib list")
    from toolcrib.sources.scan import scan  # delayed: most commands import their targets

    steps: dict[str, Progress] = {}

    def show_progress(step: str, done: int, total: int) -> None:
        if step not in steps:
            steps[step] = Progress(terminal, _SCAN_STEPS[step])
        steps[step](done, total)

    try:
        with terminal.log.muted():
            return scan(*targets, progress=show_progress)
    except SourceError as error:
        if error.source.file is None:
            raise CommandError(error.message, error.hint) from None
        raise
    finally:
        terminal.status("")


def find_lock(targets: Sequence[str], given: str | None = None) -> tuple[Path, LockConfig]:
    """Return the lock file and its settings: the file given, else the one of the first configuration file,
    else `toolcrib.lock` beside that file or in the current folder."""
    from toolcrib.catalog.lock import FILE_NAME as LOCK_NAME  # delayed: most commands use no lock

    for config in read_configs(targets):
        beside = (config.file or Path()).parent / LOCK_NAME
        return Path(given) if given is not None else config.lock.file or beside, config.lock
    return Path(given if given is not None else LOCK_NAME), LockConfig()


# --- running servers ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Remote:
    """A running server, by URL or command, and how to reach it."""

    target: str | tuple[str, ...]
    headers: Mapping[str, str]
    protocol: str

    def call(
        self,
        name: str,
        make_arguments: Callable[[ToolDefinition], dict[str, Any]],
        timeout_s: float | None,
        terminal: Terminal,
    ) -> Result:
        """Call a tool; `make_arguments` gets its definition. The server is asked for a tool that it does not
        list too: it may know it, and records the call if a policy hides it."""

        progress = Progress(terminal)

        async def run(client: Client) -> Result:
            unlisted: CommandError | None = None
            definition = ToolDefinition(name)
            try:
                definition = (await find_remote_tool(client, name)).definition
            except CommandError as error:
                unlisted = error
            try:
                result = await client.call(
                    name,
                    make_arguments(definition),
                    timeout_s=timeout_s,
                    on_progress=progress.show,
                    on_log=terminal.message if terminal.debug else None,
                )
            except ToolNotFoundError as error:
                raise unlisted or CommandError(str(error)) from None
            finally:
                terminal.status("")
            if unlisted is not None and result.is_error and result.text.startswith("Unknown tool"):
                raise unlisted
            return result

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
    """Return what a server calls itself, and its tools."""
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


async def search_remotely(client: Client, query: str, limit: int) -> list[RemoteTool] | None:
    """Return what a server finds that lists search tools instead of its tools; None for other servers."""
    search_tool = find_search_tool(tool.name for tool in await client.list_tools())
    if search_tool is None:
        return None
    result = await client.call(search_tool, {"query": query, "limit": min(limit, MAX_FOUND)})
    answer = result.structured_content
    found = answer.get("tools") if isinstance(answer, dict) else None
    return list(read_tools(found, "the server", over_http=True)) if isinstance(found, list) else []


def find_search_tool(names: Iterable[str]) -> str | None:
    """Return the name of the search tool, where a server lists search tools instead of its tools."""
    matches = [match for name in reversed(list(names)) if (match := _SEARCH_TOOLS.fullmatch(name))]
    found = {match[2]: match[0] for match in matches}
    return found.get(SEARCH) if CALL in found else None


def _collect_remote(remote: Remote, label: str, terminal: Terminal) -> ToolSet:
    _, tools = remote.run(list_remote_tools, terminal)
    if find_search_tool(tool.name for tool in tools) is not None:
        terminal.message(
            "warning",
            f"{label} lists search tools instead of its tools; the tools behind them are not included",
            "serve it with --search never, or use its source",
        )
    findings: list[Finding] = []
    return ToolSet(build_tools([describe(tool.definition) for tool in tools], findings), findings, label)


def check_remote_tools(tools: Iterable[RemoteTool]) -> Iterator[Finding]:
    """Report as warnings what toolcrib would reject in a tool of its own."""
    for tool in tools:
        try:
            MCP.check(tool.name)
            _ = describe(tool.definition).definition
        except DefinitionError as error:
            file = tool.definition.source.file
            yield replace(error.finding, level="warning", tool=tool.name, file=file, line=None)
