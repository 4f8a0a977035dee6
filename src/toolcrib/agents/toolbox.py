"""The tools of an agent: of a server in this process, or of another one through a client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from toolcrib.client import Client, RemoteTool
from toolcrib.component import Component
from toolcrib.content import Result
from toolcrib.context import LOCAL, Principal
from toolcrib.errors import ClientError, ConfigurationError, DefinitionError
from toolcrib.server import MCPServer
from toolcrib.sources.described import describe


def make_toolbox(tools: Any, principal: Principal = LOCAL) -> Toolbox:
    """Return the tools of a server, a client, a registry, or one or many tools and functions."""
    if isinstance(tools, MCPServer):
        return LocalTools(tools, principal)
    if isinstance(tools, Client):
        return RemoteTools(tools)
    server = MCPServer("agent")
    is_many = isinstance(tools, list | tuple | set | frozenset)
    try:
        for thing in tools if is_many else [tools]:
            server.add(thing)
    except DefinitionError as error:
        hint = error.hint or "give a server, a registry, a client, or functions and tools"
        raise ConfigurationError(error.message, key="tools", hint=hint) from None
    return LocalTools(server, principal)


class LocalTools:
    """The tools that a server shows a caller. A server that is not running is started, and stopped again."""

    def __init__(self, server: MCPServer, principal: Principal) -> None:
        self._server = server
        self._principal = principal
        self._was_started = False

    async def open(self) -> None:
        if not self._server._running:
            await self._server.start()
            self._was_started = True

    async def list(self) -> tuple[Component, ...]:
        return self._server.dispatcher.shown(self._principal)

    async def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> Result:
        """Call a tool. Raise ToolNotFoundError; most failures are in the Result."""
        dispatcher = self._server.dispatcher
        return await dispatcher.call(name, arguments, principal=self._principal, timeout_s=timeout_s)

    async def close(self) -> None:
        if self._was_started:
            self._was_started = False
            await self._server.stop()


class RemoteTools:
    """Tools of another server. A client that is not connected is connected here, and closed again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._wire: list[Any] | None = None
        self._tools: tuple[Component, ...] = ()
        self._was_connected = False

    async def open(self) -> None:
        try:
            _ = self._client.protocol_version
        except ClientError:
            await self._client.connect()
            self._was_connected = True

    async def list(self) -> tuple[Component, ...]:
        found = await self._client.list_tools()
        if self._wire is None or [tool.wire for tool in found] != self._wire:
            self._wire = [tool.wire for tool in found]
            self._tools = tuple(_describe(found))
        return self._tools

    async def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> Result:
        return await self._client.call(name, dict(arguments), timeout_s=timeout_s)

    async def close(self) -> None:
        if self._was_connected:
            self._was_connected = False
            await self._client.close()


Toolbox: TypeAlias = LocalTools | RemoteTools


def _describe(tools: Iterable[RemoteTool]) -> Iterable[Component]:
    """Yield the tools of another server that can be built: the model gets these."""
    for remote in tools:
        tool = describe(remote.definition)
        try:
            _ = tool.definition
        except DefinitionError:
            continue
        yield tool
