"""Commands against a running MCP server: named by its address, or by the command that starts it.

Lists, shows and calls there what the same commands list, show and call here. Knows the command line and the
client; refuses to know the protocol. Who types an address or a command answers for it: nothing is blocked.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import click

from toolcrib import __version__
from toolcrib.cli.ask import Interview, ProgressLine
from toolcrib.cli.load import is_address
from toolcrib.cli.options import F, Failure
from toolcrib.cli.output import Terminal
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
from toolcrib.tool import Tool
from toolcrib.validation import codec

T = TypeVar("T")


def takes_server_options(function: F) -> F:
    """What only a running server needs."""
    options = (
        click.option(
            "--command", metavar="WORDS", help="Start this command and speak to it; no shell is used."
        ),
        click.option(
            "--header", "headers", multiple=True, metavar="'K: V'", help="Send this header to an address."
        ),
        click.option(
            "--protocol",
            type=click.Choice(["auto", *VERSIONS]),
            help="The version of MCP to speak with a running server.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@dataclass(frozen=True, slots=True)
class Remote:
    """A server somewhere, and how to speak to it."""

    target: str | tuple[str, ...]
    headers: Mapping[str, str]
    protocol: str

    @classmethod
    def read(
        cls, targets: Sequence[str], command: str | None, headers: Sequence[str], protocol: str | None
    ) -> Remote | None:
        """The server that the command line names; None where it names what can be loaded here."""
        addresses = [target for target in targets if is_address(target)]
        if command is not None:
            if targets:
                raise Failure("--command says where the tools are", f"drop {targets[0]}, or --command")
            if headers:
                raise Failure("--header is for an address, not for a command")
            return cls(_split(command), {}, protocol or "auto")
        if not addresses:
            for option, given in (("--header", headers), ("--protocol", protocol)):
                if given:
                    raise Failure(f"{option} is for a running server", "name its address, or give --command")
            return None
        if len(targets) > 1:
            raise Failure(f"{addresses[0]} cannot be mixed with other targets", "ask one server at a time")
        return cls(addresses[0], _read_headers(headers), protocol or "auto")

    # --- what the commands do ---

    def list(self, terminal: Terminal) -> Listing:
        """All its tools, and what is remarkable about them."""

        async def run(client: Client) -> Listing:
            tools = await client.list_tools()
            findings = [finding for tool in tools for finding in _look_at(tool)]
            return Listing(_introduce(client), tools, findings)

        return self._run(run, terminal, DEFAULT_TIMEOUT_S)

    def find(self, name: str, terminal: Terminal) -> RemoteTool:
        return self._run(lambda client: _find(client, name), terminal, DEFAULT_TIMEOUT_S)

    def call(
        self,
        name: str,
        fit: Callable[[ToolDefinition], dict[str, Any]],
        timeout_s: float | None,
        terminal: Terminal,
    ) -> Result:
        """Call a tool; `fit` makes the arguments, once it is known what the tool takes."""
        progress = ProgressLine(terminal)

        async def run(client: Client) -> Result:
            tool = await _find(client, name)
            on_log = (lambda level, data: terminal.say(level, data)) if terminal.debug else None
            try:
                return await client.call(
                    name,
                    fit(tool.definition),
                    timeout_s=timeout_s,
                    on_progress=progress.show,
                    on_log=on_log,
                )
            except ToolNotFoundError as error:
                raise Failure(str(error)) from None
            finally:
                progress.clear()

        return self._run(run, terminal, timeout_s or DEFAULT_TIMEOUT_S, progress)

    def _run(
        self,
        work: Callable[[Client], Coroutine[Any, Any, T]],
        terminal: Terminal,
        timeout_s: float,
        progress: ProgressLine | None = None,
    ) -> T:
        results: list[T] = []  # not the task's own: at its end asyncio may write its result out, in full

        async def run() -> None:
            interview = Interview(terminal)

            async def ask(question: Any) -> Any:
                if progress is not None:
                    progress.clear()
                return await interview.ask(question)

            client = Client(
                self._link(terminal),
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
            raise Failure(error.message, error.hint) from None
        return results[0]

    def _link(self, terminal: Terminal) -> str | Transport:
        if isinstance(self.target, str):
            return self.target

        def pass_on(text: str) -> None:
            for line in text.rstrip("\n").split("\n"):
                terminal.say("stderr", line)

        # What a server says on stderr is in the error if it fails; else only --debug is interested.
        return StdioTransport(self.target, on_stderr=pass_on if terminal.debug else None)


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server offers."""

    introduction: str
    tools: list[RemoteTool]
    findings: list[Finding]


async def _find(client: Client, name: str) -> RemoteTool:
    tools = {tool.name: tool for tool in await client.list_tools()}
    if name not in tools:
        hidden = await _look_behind(client, name, tools)
        if hidden is not None:
            return hidden
        raise Failure(f"Unknown tool: {name}", suggest(name, tools))
    return tools[name]


_ODD = re.compile(rb"\\[ubfr]|\x7f")
"""What stands in ASCII JSON where a text in it has a control character."""
_PAIR = re.compile(rf"(toolcrib_(?:\d+_)?)?({SEARCH}|{CALL})")


def find_finder(names: Iterable[str]) -> str | None:
    """The tool to search with, where a server shows ours in place of its list."""
    found = {match[2]: match[0] for name in reversed(list(names)) if (match := _PAIR.fullmatch(name))}
    return found.get(SEARCH) if CALL in found else None


async def _look_behind(client: Client, name: str, tools: Mapping[str, RemoteTool]) -> RemoteTool | None:
    """A tool that is not listed because tools to search with are, as a long list of ours has it."""
    finder = find_finder(tools)
    if finder is None:
        return None
    answer = (await client.call(finder, {"query": name, "limit": 1})).structured_content
    found = answer.get("tools") if isinstance(answer, dict) else None
    tools_there = read_tools(found, "the server", over_http=True) if isinstance(found, list) else ()
    return next((tool for tool in tools_there if tool.name == name), None)


def _introduce(client: Client) -> str:
    info = client.server_info
    name = " ".join(str(info[key]) for key in ("name", "version") if info.get(key)) or "the server"
    return f"{name} speaks MCP {client.protocol_version}"


def _split(command: str) -> tuple[str, ...]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Failure(f"--command cannot be read: {error}") from None
    if not words:
        raise Failure("--command is empty", "give the words that start the server: 'python server.py'")
    return tuple(words)


def _read_headers(given: Sequence[str]) -> dict[str, str]:
    headers = {}
    for item in given:
        name, colon, value = item.partition(":")
        if not colon or not name.strip():
            raise Failure("--header is not 'NAME: VALUE'", "like --header 'Authorization: Bearer ...'")
        headers[name.strip()] = value.strip()
    return headers


# --- tools from elsewhere, as the commands look at tools ------------------------------------------------


def remote_json(tool: RemoteTool) -> dict[str, Any]:
    """A tool as its server lists it, and where that is."""
    return {**tool.wire, "source": {"file": tool.definition.source.file, "line": None}}


@dataclass(frozen=True, slots=True, eq=False)
class _Shown:
    """A remote tool with everything that `select` and the renderer ask of a tool here."""

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


def as_shown(tool: RemoteTool) -> Tool:
    """The tool for readers of definitions. It cannot be called."""
    return cast(Tool, _Shown(tool.definition))


def _look_at(tool: RemoteTool) -> Iterator[Finding]:
    """What toolcrib would refuse at home: the server is another's, so it is only said."""
    definition = tool.definition
    about = f"tool '{tool.name}'"
    checks: list[Callable[[], object]] = [lambda: MCP.check(tool.name)]
    if not _has_plain_words(tool):
        checks += [
            lambda: check_text(definition.description, f"The description of {about}", tool.name),
            lambda: check_text(definition.title or "", f"The title of {about}", tool.name),
            lambda: check_schema_text(definition.input_schema, f"The input schema of {about}", tool.name),
        ]
    checks.append(lambda: check_input_schema(definition.input_schema, tool.name))
    for check in checks:
        try:
            check()
        except DefinitionError as error:
            found = error.finding
            yield Finding(
                found.code, "warning", found.message, tool.name, file=definition.source.file, hint=found.hint
            )


def _has_plain_words(tool: RemoteTool) -> bool:
    """Whether its words need no closer look, as those of most tools: a server may list 100,000."""
    text = codec.write(tool.wire)
    return len(text) < MAX_DESCRIPTION_BYTES and text.isascii() and not _ODD.search(text)
