"""Toolboxes: the tools of an agent, from a server, a registry, functions, or a client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from toolcrib.client import Client, RemoteTool
from toolcrib.content import Result
from toolcrib.context import LOCAL, Principal
from toolcrib.dispatch.features import FeatureDispatcher
from toolcrib.errors import ClientError, ConfigurationError, DefinitionError
from toolcrib.registry.registry import ToolRegistry
from toolcrib.server import MCPServer
from toolcrib.sources.described import describe
from toolcrib.tool import Tool


@runtime_checkable
class Toolbox(Protocol):
    """The tools of a runner. Write your own where none of the built-in ones fits."""

    async def open(self) -> None: ...

    async def list(self) -> tuple[Tool, ...]:
        """Return the current tools, all of which can be built."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> Result:
        """Call a tool. Raise ToolNotFoundError; most failures are in the Result."""
        ...

    async def close(self) -> None: ...


def make_toolbox(tools: Any, principal: Principal = LOCAL) -> Toolbox:
    """Make a toolbox from a server, a registry, a client, or one or many tools and functions."""
    if isinstance(tools, MCPServer | ToolRegistry):
        return _LocalBox(tools, principal)
    if isinstance(tools, Client):
        return _ClientBox(tools)
    if isinstance(tools, Toolbox):
        return tools
    server = MCPServer("agent")
    is_many = isinstance(tools, Iterable) and not isinstance(tools, str | bytes | Mapping)
    try:
        for thing in tools if is_many else [tools]:
            server.add(thing)
    except DefinitionError as error:
        hint = error.hint or "give a server, a registry, a client, or functions and tools"
        raise ConfigurationError(error.message, key="tools", hint=hint) from None
    return _LocalBox(server, principal)


class _LocalBox:
    """A server, with the tools that it shows its clients, or a registry.

    A server that is not running is started, and stopped again. A registry has a dispatcher while it is open.
    """

    _dispatcher: FeatureDispatcher

    def __init__(self, source: MCPServer | ToolRegistry, principal: Principal) -> None:
        self._source = source
        self._principal = principal
        self._is_ours = False

    async def open(self) -> None:
        source = self._source
        if isinstance(source, ToolRegistry):
            self._dispatcher, self._is_ours = FeatureDispatcher(source), True
            return
        self._dispatcher = source.dispatcher
        if not source._running:
            await source.start()
            self._is_ours = True

    async def list(self) -> tuple[Tool, ...]:
        return self._dispatcher.shown(self._principal)

    async def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> Result:
        return await self._dispatcher.call(name, arguments, principal=self._principal, timeout_s=timeout_s)

    async def close(self) -> None:
        is_ours, self._is_ours = self._is_ours, False
        if not is_ours:
            return
        if isinstance(self._source, MCPServer):
            await self._source.stop()
            return
        try:
            await self._dispatcher.applications.close_all()
        finally:
            self._dispatcher.close()


class _ClientBox:
    """Tools of another server. A client that is not connected is connected here, and closed again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._wire: list[Any] | None = None
        self._tools: tuple[Tool, ...] = ()
        self._was_connected = False

    async def open(self) -> None:
        try:
            _ = self._client.protocol_version
        except ClientError:
            await self._client.connect()
            self._was_connected = True

    async def list(self) -> tuple[Tool, ...]:
        found = await self._client.list_tools()
        if self._wire is None or [tool.wire for tool in found] != self._wire:
            self._wire = [tool.wire for tool in found]
            self._tools = tuple(tool for tool in map(_describe, found) if tool is not None)
        return self._tools

    async def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> Result:
        return await self._client.call(name, dict(arguments), timeout_s=timeout_s)

    async def close(self) -> None:
        if self._was_connected:
            self._was_connected = False
            await self._client.close()


def _describe(remote: RemoteTool) -> Tool | None:
    """Return a tool of another server, None for one that cannot be built: the model gets the others."""
    tool = describe(remote.definition)
    try:
        _ = tool.definition
    except DefinitionError:
        return None
    return tool
