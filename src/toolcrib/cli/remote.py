"""Commands against a running MCP server, named by its URL or by the command that starts it.

The user who types a URL or a command is responsible for it: no address is blocked.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import click

from toolcrib import __version__
from toolcrib.cli.options import CommandError
from toolcrib.cli.output import Terminal
from toolcrib.cli.prompt import Prompter
from toolcrib.cli.text import suggest
from toolcrib.client import Client, RemoteTool, StdioTransport, Transport
from toolcrib.client.client import DEFAULT_TIMEOUT_S
from toolcrib.client.session import VERSIONS
from toolcrib.client.tools import read_tools
from toolcrib.content import Result
from toolcrib.definition import (
    MAX_DESCRIPTION_BYTES,
    MCP,
    ToolDefinition,
    check_input_schema,
    check_schema_text,
    check_text,
)
from toolcrib.dispatch.tool_search import CALL, SEARCH
from toolcrib.errors import ConfigurationError, DefinitionError, Finding, Location, ToolNotFoundError
from toolcrib.sources.targets import is_address
from toolcrib.tool import Tool
from toolcrib.validation import codec

T = TypeVar("T")
_SEARCH_TOOLS = re.compile(rf"(toolcrib_(?:\d+_)?)?({SEARCH}|{CALL})")
_SUSPICIOUS_ESCAPES = re.compile(rb"\\[ubfr]|\x7f")
"""Found in ASCII JSON where a text in it has a control character."""


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """The options of `remote_options`."""

    command: str | None = None
    headers: Sequence[str] = ()
    protocol: str | None = None

    def connect_to(self, targets: Sequence[str]) -> Remote | None:
        """Return the server that the command line names; None where the targets are local."""
        urls = [target for target in targets if is_address(target)]
        if self.command is not None:
            if targets:
                raise CommandError(f"--command cannot be combined with {targets[0]}")
            if self.headers:
                raise CommandError("--header requires a URL, not a command")
            return Remote(_split_command(self.command), {}, self.protocol or "auto")
        if not urls:
            for option, given in (("--header", self.headers), ("--protocol", self.protocol)):
                if given:
                    raise CommandError(f"{option} requires a running server", "give its URL, or --command")
            return None
        if len(targets) > 1:
            raise CommandError(f"{urls[0]} cannot be combined with other targets", "use one server at a time")
        return Remote(urls[0], _parse_headers(self.headers), self.protocol or "auto")


def remote_options(function: Callable[..., Any]) -> Any:
    """Add `--command`, `--header` and `--protocol`; pass them as `remote: RemoteOptions`."""

    @wraps(function)
    def call(
        *args: Any, command: str | None, headers: Sequence[str], protocol: str | None, **extra: Any
    ) -> Any:
        return function(*args, remote=RemoteOptions(command, headers, protocol), **extra)

    protocols = click.Choice(["auto", *VERSIONS])
    for option in (
        click.option("--protocol", type=protocols, help="MCP version to use with a running server."),
        click.option("--header", "headers", multiple=True, metavar="'K: V'", help="HTTP header to send."),
        click.option("--command", metavar="WORDS", help="Start a server with this command, without a shell."),
    ):
        call = option(call)
    return call


def _split_command(command: str) -> tuple[str, ...]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise CommandError(f"Cannot parse --command: {error}") from None
    if not words:
        raise CommandError("--command is empty", "give the command of a server: 'python server.py'")
    return tuple(words)


def _parse_headers(given: Sequence[str]) -> dict[str, str]:
    headers = {}
    for item in given:
        name, colon, value = item.partition(":")
        if not colon or not name.strip():
            raise CommandError("--header must be 'NAME: VALUE'", "e.g. --header 'Authorization: Bearer ...'")
        headers[name.strip()] = value.strip()
    return headers


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server, and findings about them."""

    server: str
    tools: list[RemoteTool]
    findings: list[Finding]


@dataclass(frozen=True, slots=True)
class Remote:
    """A running server, by URL or command, and how to reach it."""

    target: str | tuple[str, ...]
    headers: Mapping[str, str]
    protocol: str

    def list(self, terminal: Terminal) -> Listing:
        async def run(client: Client) -> Listing:
            tools = await client.list_tools()
            findings = [finding for tool in tools for finding in _check_tool(tool)]
            info = client.server_info
            name = " ".join(str(info[key]) for key in ("name", "version") if info.get(key)) or "the server"
            return Listing(f"{name}, MCP {client.protocol_version}", tools, findings)

        return self._run(run, terminal, DEFAULT_TIMEOUT_S)

    def find(self, name: str, terminal: Terminal) -> RemoteTool:
        return self._run(lambda client: _find_tool(client, name), terminal, DEFAULT_TIMEOUT_S)

    def call(
        self,
        name: str,
        make_arguments: Callable[[ToolDefinition], dict[str, Any]],
        timeout_s: float | None,
        terminal: Terminal,
    ) -> Result:
        """Call a tool; `make_arguments` gets its definition."""

        def show_progress(progress: float, total: float | None, message: str | None) -> None:
            if terminal.err.isatty():
                share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
                terminal.status(f"{share} {message}" if message else share)

        async def run(client: Client) -> Result:
            tool = await _find_tool(client, name)
            try:
                return await client.call(
                    name,
                    make_arguments(tool.definition),
                    timeout_s=timeout_s,
                    on_progress=show_progress,
                    on_log=terminal.message if terminal.debug else None,
                )
            except ToolNotFoundError as error:
                raise CommandError(str(error)) from None
            finally:
                terminal.status("")

        return self._run(run, terminal, timeout_s or DEFAULT_TIMEOUT_S)

    def _run(
        self, work: Callable[[Client], Coroutine[Any, Any, T]], terminal: Terminal, timeout_s: float
    ) -> T:
        results: list[T] = []  # not returned by the task: asyncio may write the result of a task to the log

        async def run() -> None:
            prompter = Prompter(terminal)

            async def ask(question: Any) -> Any:
                terminal.status("")
                return await prompter.ask(question)

            client = Client(
                self._transport(terminal),
                protocol=self.protocol,
                headers=self.headers,
                timeout_s=timeout_s,
                on_ask=ask,
                info={"name": "toolcrib", "version": __version__},
            )
            async with client:
                results.append(await work(client))

        try:
            asyncio.run(run())
        except ConfigurationError as error:
            raise CommandError(error.message, error.hint) from None
        return results[0]

    def _transport(self, terminal: Terminal) -> str | Transport:
        if isinstance(self.target, str):
            return self.target

        def print_stderr(text: str) -> None:
            for line in text.rstrip("\n").split("\n"):
                terminal.message("stderr", line)

        # The stderr of a server that fails is part of the error; otherwise only --debug shows it.
        return StdioTransport(self.target, on_stderr=print_stderr if terminal.debug else None)


async def _find_tool(client: Client, name: str) -> RemoteTool:
    tools = {tool.name: tool for tool in await client.list_tools()}
    found = tools.get(name) or await _find_unlisted(client, name, tools)
    if found is None:
        raise CommandError(f"Unknown tool: {name}", suggest(name, tools))
    return found


async def _find_unlisted(client: Client, name: str, listed: Iterable[str]) -> RemoteTool | None:
    """Look for a tool with the search tool that a toolcrib server lists in place of a long list."""
    search_tool = find_search_tool(listed)
    if search_tool is None:
        return None
    answer = (await client.call(search_tool, {"query": name, "limit": 1})).structured_content
    found = answer.get("tools") if isinstance(answer, dict) else None
    tools = read_tools(found, "the server", over_http=True) if isinstance(found, list) else ()
    return next((tool for tool in tools if tool.name == name), None)


def find_search_tool(names: Iterable[str]) -> str | None:
    """Return the name of the search tool, where a server lists search tools instead of its tools."""
    matches = [match for name in reversed(list(names)) if (match := _SEARCH_TOOLS.fullmatch(name))]
    found = {match[2]: match[0] for match in matches}
    return found.get(SEARCH) if CALL in found else None


# --- remote tools as local ones ----------------------------------------------------------------------


def remote_json(tool: RemoteTool) -> dict[str, Any]:
    """Return a tool as its server lists it, with its origin."""
    return {**tool.wire, "source": {"file": tool.definition.source.file, "line": None}}


@dataclass(frozen=True, slots=True, eq=False)
class _ToolView:
    """A remote tool with the attributes of `Tool` that selecting and printing need."""

    definition: ToolDefinition
    long_name: str | None = None
    is_async: bool = True

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def source(self) -> Location:
        return self.definition.source

    @property
    def options(self) -> SimpleNamespace:
        hints = self.definition.annotations
        return SimpleNamespace(
            run="at the server",
            group=None,
            aliases=(),
            tags=(),
            read_only=hints.get("readOnlyHint"),
            destructive=hints.get("destructiveHint"),
            idempotent=hints.get("idempotentHint"),
            open_world=hints.get("openWorldHint"),
        )


def as_tool(tool: RemoteTool) -> Tool:
    """Return a tool that can be selected and printed but not called."""
    return cast(Tool, _ToolView(tool.definition))


def _check_tool(tool: RemoteTool) -> Iterator[Finding]:
    """Report as warnings what toolcrib would reject in a tool of its own."""
    definition = tool.definition
    label = f"tool '{tool.name}'"
    checks: list[Callable[[], object]] = [lambda: MCP.check(tool.name)]
    if not _is_plain(tool):
        checks += [
            lambda: check_text(definition.description, f"The description of {label}", tool.name),
            lambda: check_text(definition.title or "", f"The title of {label}", tool.name),
            lambda: check_schema_text(definition.input_schema, f"The input schema of {label}", tool.name),
        ]
    checks.append(lambda: check_input_schema(definition.input_schema, tool.name))
    for check in checks:
        try:
            check()
        except DefinitionError as error:
            yield replace(error.finding, level="warning", tool=tool.name, file=definition.source.file)


def _is_plain(tool: RemoteTool) -> bool:
    """Return whether the texts need no closer check, as with most tools: a server may list 100,000."""
    text = codec.write(tool.wire)
    return len(text) < MAX_DESCRIPTION_BYTES and text.isascii() and not _SUSPICIOUS_ESCAPES.search(text)
