"""Toolboxes: the tools of an agent, from a server, a registry, functions, or a client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from toolcrib.client import Client
from toolcrib.content import Result
from toolcrib.context import LOCAL, Principal
from toolcrib.dispatch.dispatcher import Dispatcher
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
    if isinstance(tools, MCPServer):
        return _ServerBox(tools, principal)
    if isinstance(tools, ToolRegistry):
        return _RegistryBox(tools, principal)
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
    return _ServerBox(server, principal)


class _ServerBox:
    """A server in this process, with the tools that it shows its clients (tool search included).

    It is started if it is not running, and then stopped again.
    """

    def __init__(self, server: MCPServer, principal: Principal) -> None:
        self._server = server
        self._principal = principal
        self._was_started = False

    async def open(self) -> None:
        if not self._server._running:
            await self._server.start()
            self._was_started = True

    async def list(self) -> tuple[Tool, ...]:
        return self._server.dispatcher.shown(self._principal)

    async def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> Result:
        return await self._server.call(name, arguments, principal=self._principal, timeout_s=timeout_s)

    async def close(self) -> None:
        if self._was_started:
            self._was_started = False
            await self._server.stop()


class _RegistryBox:
    """A registry, with its own dispatcher while it is open."""

    def __init__(self, registry: ToolRegistry, principal: Principal) -> None:
        self._registry = registry
        self._principal = principal
        self._dispatcher: Dispatcher | None = None

    async def open(self) -> None:
        if self._dispatcher is None:
            self._dispatcher = Dispatcher(self._registry)

    async def list(self) -> tuple[Tool, ...]:
        return self._open_dispatcher().view(self._principal)

    async def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> Result:
        return await self._open_dispatcher().call(
            name, arguments, principal=self._principal, timeout_s=timeout_s
        )

    async def close(self) -> None:
        dispatcher, self._dispatcher = self._dispatcher, None
        if dispatcher is not None:
            try:
                await dispatcher.applications.close_all()
            finally:
                dispatcher.close()

    def _open_dispatcher(self) -> Dispatcher:
        if self._dispatcher is None:
            raise ConfigurationError("the tools are not open; start the runner first")
        return self._dispatcher


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
            self._tools = tuple(_describe_all([tool.definition for tool in found]))
        return self._tools

    async def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> Result:
        return await self._client.call(name, dict(arguments), timeout_s=timeout_s)

    async def close(self) -> None:
        if self._was_connected:
            self._was_connected = False
            await self._client.close()


def _describe_all(definitions: Iterable[Any]) -> Iterable[Tool]:
    for definition in definitions:
        tool = describe(definition)
        try:
            _ = tool.definition
        except DefinitionError:
            continue  # the model gets the others
        yield tool
