"""Add the tools of an `MCPServer` or a registry to a server of the official SDK.

Handles tools/list and tools/call there, starts and stops our server with theirs, and announces changed
tools.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.mcpserver import MCPServer as OfficialServer
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, SubscriptionBus, ToolsListChanged
from mcp.shared.exceptions import MCPError

from toolcrib.content import Result
from toolcrib.context import InputNeeded
from toolcrib.dispatch.dispatcher import Dispatcher
from toolcrib.errors import CannotAskError, ConfigurationError, ToolNotFoundError
from toolcrib.protocol.revisions import LEGACY, MODERN, NEWEST_LEGACY, Revision, is_wrapped
from toolcrib.registry.index import Snapshot
from toolcrib.registry.registry import Change, ToolRegistry
from toolcrib.transports.mcp_sdk.channel import SessionChannel

logger = logging.getLogger("toolcrib")

LIST_TTL_MS = 60_000
"""How long a client of 2026-07-28 may keep a list of tools that can change."""
SEALED_TTL_MS = 3_600_000

_Context = ServerRequestContext[Any, Any]


class _ToolServer(Protocol):
    """The part of `MCPServer` that an attachment uses."""

    @property
    def registry(self) -> ToolRegistry: ...

    @property
    def dispatcher(self) -> Dispatcher: ...

    @property
    def dynamic(self) -> bool: ...

    @property
    def _running(self) -> bool: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def call(self, name: str, arguments: Any, *, channel: Any) -> Result: ...


def attach(
    crib: _ToolServer | ToolRegistry,
    server: Server[Any] | OfficialServer[Any],
    *,
    bus: SubscriptionBus | None = None,
) -> Attachment:
    """Serve the tools of `crib` on a server of the official SDK.

    Tools that the server has already stay; where both have a name, toolcrib's is called. A server of ours is
    started and stopped with theirs. `bus` is what a server with a `subscriptions/listen` handler of its own
    publishes changes on; without one, such a handler is put there.
    """
    low: Any = server
    if isinstance(server, OfficialServer):
        low, bus = server._lowlevel_server, bus or server._subscriptions
    if not isinstance(low, Server):
        raise ConfigurationError(f"attach() takes a Server of mcp, got {type(server).__name__}", key="server")
    return Attachment(crib, low, bus)


class Attachment:
    """Our tools on their server."""

    def __init__(
        self, crib: _ToolServer | ToolRegistry, server: Server[Any], bus: SubscriptionBus | None
    ) -> None:
        self.server = server
        self._crib = crib if not isinstance(crib, ToolRegistry) else None
        self._registry = crib.registry if not isinstance(crib, ToolRegistry) else crib
        self._dispatcher = crib.dispatcher if not isinstance(crib, ToolRegistry) else Dispatcher(crib)
        self._lists: dict[str, tuple[Snapshot, list[dict[str, Any]]]] = {}
        self._theirs = {method: server.get_request_handler(method) for method in ("tools/list", "tools/call")}
        self._peers: dict[int, tuple[asyncio.AbstractEventLoop, Any]] = {}
        self._users = 0
        self._is_stopping_crib = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_telling = False
        self._bus = self._find_bus(bus)
        self._install()

    def initialization_options(self) -> InitializationOptions:
        """What a legacy client is told in the handshake: that the list of tools may change, where it may. For
        `server.run(read, write, attachment.initialization_options())`."""
        return self.server.create_initialization_options(NotificationOptions(tools_changed=self._can_change))

    def _install(self) -> None:
        server = self.server
        server.add_request_handler("tools/list", types.PaginatedRequestParams, self._list)
        server.add_request_handler("tools/call", types.CallToolRequestParams, self._call)
        self._find_schema, server.get_tool_input_schema = server.get_tool_input_schema, self._schema_of
        self._lifespan, server.lifespan = server.lifespan, self._live
        if not any(isinstance(item, RequestStateBoundary) for item in server.middleware):
            # The answers that a call was given come back through the client, which must not change them.
            security = RequestStateSecurity.ephemeral()
            server.middleware.append(RequestStateBoundary(security, default_audience=server.name))
        self._registry.subscribe(self._hear)

    def _find_bus(self, bus: SubscriptionBus | None) -> SubscriptionBus | None:
        if bus is not None or not self._can_change:
            return bus
        if self.server.get_request_handler("subscriptions/listen") is not None:
            logger.warning("clients of 2026-07-28 will not hear of changed tools: give attach() the bus")
            return None
        made = InMemorySubscriptionBus()
        params = types.SubscriptionsListenRequestParams
        self.server.add_request_handler("subscriptions/listen", params, ListenHandler(made))
        return made

    @property
    def _can_change(self) -> bool:
        return self._crib is None or self._crib.dynamic

    # --- living ---

    @asynccontextmanager
    async def _live(self, server: Server[Any]) -> AsyncIterator[Any]:
        """Their lifespan with ours around it. Several connections may be in it at once."""
        self._loop = asyncio.get_running_loop()
        if self._users == 0 and self._crib is not None and not self._crib._running:
            self._is_stopping_crib = True
            await self._crib.start()
        self._users += 1
        try:
            async with self._lifespan(server) as state:
                yield state
        finally:
            self._users -= 1
            if self._users == 0 and self._is_stopping_crib and self._crib is not None:
                self._is_stopping_crib = False
                await self._crib.stop()

    # --- answering ---

    async def _list(self, context: _Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        revision = _revision_of(context)
        self._remember(context)
        own = self._listed(revision) if params.cursor is None else []
        listed: dict[str, Any] = {}
        entry = self._theirs["tools/list"]
        if entry is not None:
            listed = _as_data(await entry.handler(context, params))
        elif params.cursor is not None:
            raise MCPError(types.INVALID_PARAMS, "Invalid cursor: list again from the start")
        taken = {tool.name for tool in self._registry}
        others = [tool for tool in listed.get("tools", ()) if tool["name"] not in taken]
        result = {**listed, "tools": [*own, *others]}
        if revision.modern:
            result["resultType"] = "complete"
            if "tools/list" not in self.server.cache_hints:
                result.setdefault("ttlMs", LIST_TTL_MS if self._can_change else SEALED_TTL_MS)
                result.setdefault("cacheScope", "private")  # their server may know who asks
        return result

    def _listed(self, revision: Revision) -> list[dict[str, Any]]:
        """Our definitions for one revision; made anew when the tools have changed."""
        snapshot = self._registry.snapshot
        kept = self._lists.get(revision.name)
        if kept is None or kept[0] is not snapshot:
            shaped = [revision.shape_tool(tool.definition) for tool in self._dispatcher.view()]
            kept = self._lists[revision.name] = (snapshot, shaped)
        return kept[1]

    async def _call(self, context: _Context, params: types.CallToolRequestParams) -> Any:
        revision = _revision_of(context)
        self._remember(context)
        entry = self._theirs["tools/call"]
        if entry is not None and params.name not in self._registry:
            return await entry.handler(context, params)
        channel = SessionChannel(context, revision, params.name)
        call = self._dispatcher.call if self._crib is None else self._crib.call
        try:
            result = await call(params.name, params.arguments, channel=channel)
        except ToolNotFoundError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        except InputNeeded as needed:
            return channel.to_questions(needed.questions)
        finally:
            await channel.finish()
        if channel.needed is not None:
            return channel.to_questions(channel.needed)
        if isinstance(result.error, CannotAskError) and revision.modern and result.error.details:
            code = types.MISSING_REQUIRED_CLIENT_CAPABILITY
            raise MCPError(code, str(result.error), result.error.details)
        return self._shape(params.name, result, revision)

    def _shape(self, name: str, result: Result, revision: Revision) -> dict[str, Any]:
        wire: dict[str, Any] = {"content": revision.shape_content(result.content), "isError": result.is_error}
        if result.is_structured and revision.structured_output:
            value = result.structured_content
            tool = self._registry.try_get(name)
            wraps = tool is not None and is_wrapped(tool.definition.output_schema)
            if not revision.modern and (wraps or not isinstance(value, dict)):
                value = {"result": value}
            wire["structuredContent"] = value
        if result.meta:
            wire["_meta"] = result.meta
        if revision.modern:
            wire["resultType"] = "complete"
        return wire

    def _schema_of(self, name: str) -> Mapping[str, Any] | None:
        """What the SDK checks `Mcp-Param-*` headers against."""
        tool = self._registry.try_get(name)
        if tool is not None:
            return tool.definition.input_schema
        return self._find_schema(name) if self._find_schema is not None else None

    # --- telling of changes ---

    def _remember(self, context: _Context) -> None:
        """A legacy connection that knows our tools will be told when they change."""
        connection = getattr(context.session, "_connection", None)
        if context.protocol_version not in LEGACY or connection is None or id(connection) in self._peers:
            return
        self._peers[id(connection)] = (asyncio.get_running_loop(), context.session)
        connection.exit_stack.callback(self._peers.pop, id(connection), None)

    def _hear(self, _: Change) -> None:
        """Handle a change of the registry, from any thread; simultaneous changes are announced once."""
        loop = self._loop
        if loop is None or self._is_telling:
            return
        self._is_telling = True
        try:
            loop.call_soon_threadsafe(lambda: loop.create_task(self._tell()))
        except RuntimeError:
            self._is_telling = False  # the loop has ended: nobody is connected

    async def _tell(self) -> None:
        self._is_telling = False
        here = asyncio.get_running_loop()
        for loop, session in list(self._peers.values()):
            if loop is here:
                try:
                    await session.send_tool_list_changed()
                except Exception as error:  # one peer that is gone must not keep it from the others
                    logger.debug("a client could not be told of changed tools: %s", type(error).__name__)
        if self._bus is not None:
            await self._bus.publish(ToolsListChanged())


def _revision_of(context: _Context) -> Revision:
    version = context.protocol_version
    return LEGACY.get(version, MODERN if version >= MODERN.name else NEWEST_LEGACY)


def _as_data(result: Any) -> dict[str, Any]:
    if isinstance(result, dict):
        return result
    dumped: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dumped
