"""Serve toolcrib's tools, resources and prompts on a server of the official SDK: `attach(crib, server)`.

For users who have a `Server` of `mcp` 2.x with its own transports, authorization and resources. Calls go
through the protocol engine of toolcrib; notifications and questions go to the session of the SDK. This is
the only module that imports `mcp`.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol

try:
    import mcp as _mcp
except ModuleNotFoundError as error:
    if error.name != "mcp":
        raise
    raise ModuleNotFoundError(
        "toolcrib.transports.mcp_sdk needs the official SDK, which is not installed: pip install 'mcp>=2'",
        name="mcp",
    ) from None
if not hasattr(_mcp, "MCPError"):
    raise ImportError("toolcrib.transports.mcp_sdk needs mcp 2.0 or newer: pip install 'mcp>=2'", name="mcp")

import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.mcpserver import MCPServer as OfficialServer
from mcp.server.models import InitializationOptions
from mcp.server.request_state import authenticated_principal
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, SubscriptionBus, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from toolcrib.dispatch.features import FeatureDispatcher
from toolcrib.errors import ConfigurationError
from toolcrib.protocol import Engine, EngineSettings, Peer, Reply, completion, prompts, resources
from toolcrib.protocol.calls import call_tool
from toolcrib.protocol.lists import SHAPES
from toolcrib.protocol.messages import CAPABILITIES, LOG_LEVEL, SERVER_INFO, RPCError, error_reply
from toolcrib.protocol.revisions import LEGACY, MODERN, NEWEST_LEGACY, Revision
from toolcrib.protocol.sessions import Session
from toolcrib.registry.registry import Change, ToolRegistry
from toolcrib.tool import Tool
from toolcrib.validation import codec

__all__ = ["Attachment", "attach"]

logger = logging.getLogger("toolcrib")

_REQUESTS: Mapping[str, tuple[Any, Any]] = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult),
    "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResult),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult),
}
_LISTS: Mapping[str, str] = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""Methods that list resources and prompts, and the key of each in its result."""
_FEATURES: Mapping[str, tuple[Any, Any]] = {
    "resources/read": (types.ReadResourceRequestParams, resources.read),
    "prompts/get": (types.GetPromptRequestParams, prompts.get),
    "completion/complete": (types.CompleteRequestParams, completion.complete),
}
"""Methods that use them: the parameters in the SDK, and the method of toolcrib."""
_Context = ServerRequestContext[Any, Any]


class _ToolServer(Protocol):
    """The part of `MCPServer` that an attachment uses."""

    @property
    def registry(self) -> ToolRegistry: ...

    @property
    def transports(self) -> Any: ...

    @property
    def _running(self) -> bool: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def attach(
    crib: _ToolServer | ToolRegistry,
    server: Server[Any] | OfficialServer[Any],
    *,
    bus: SubscriptionBus | None = None,
) -> Attachment:
    """Serve the tools of `crib` on a server of the official SDK, with the resources and prompts it has now.

    Those that the server has already stay; where both have a name or a URI, toolcrib's is used. An
    `MCPServer` is started and stopped with the other server. `bus` is where a server with its own
    `subscriptions/listen` handler publishes changes; a server without such a handler gets one.
    """
    low: Any = server
    if isinstance(server, OfficialServer):
        low, bus = server._lowlevel_server, bus or server._subscriptions
    if not isinstance(low, Server):
        raise ConfigurationError(f"attach() takes a Server of mcp, got {type(server).__name__}", key="server")
    return Attachment(crib, low, bus)


class Attachment:
    """The tools of toolcrib on a server of the official SDK."""

    def __init__(
        self, crib: _ToolServer | ToolRegistry, server: Server[Any], bus: SubscriptionBus | None
    ) -> None:
        self.server = server
        self._crib: _ToolServer | None = None
        if isinstance(crib, ToolRegistry):
            settings = EngineSettings(server.name, server.version or "0", dynamic=True)
            self._registry, self._engine = crib, Engine(FeatureDispatcher(crib), settings)
        else:
            self._crib, self._registry = crib, crib.registry
            self._engine = crib.transports.engine
        self._is_dynamic = self._engine.settings.dynamic
        self._other_list = server.get_request_handler("tools/list")
        self._other_call = server.get_request_handler("tools/call")
        self._legacy_clients: dict[int, tuple[asyncio.AbstractEventLoop, Any]] = {}
        self._users = 0
        self._stops_crib = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_announcing = False
        self._bus = self._find_bus(bus)
        server.add_request_handler("tools/list", types.PaginatedRequestParams, self._list)
        server.add_request_handler("tools/call", types.CallToolRequestParams, self._call)
        self._other_schema, server.get_tool_input_schema = server.get_tool_input_schema, self._input_schema
        self._other_lifespan, server.lifespan = server.lifespan, self._run_lifespan
        self._registry.subscribe(self._changed)
        self._add_features()

    def _add_features(self) -> None:
        dispatcher = self._engine.dispatcher
        own = {"resources": len(dispatcher.resources) > 0, "prompts": len(dispatcher.prompts) > 0}
        for method, key in _LISTS.items():
            if own[method.partition("/")[0]]:
                listing = partial(self._list_features, method, key, self.server.get_request_handler(method))
                self.server.add_request_handler(method, types.PaginatedRequestParams, listing)
        for method, (params, run) in _FEATURES.items():
            if own.get(method.partition("/")[0], any(own.values())):
                using = partial(self._use_feature, run, self.server.get_request_handler(method))
                self.server.add_request_handler(method, params, using)

    def initialization_options(self) -> InitializationOptions:
        """Return options that tell legacy clients in the handshake whether the list of tools may change: for
        `server.run(read, write, attachment.initialization_options())`."""
        return self.server.create_initialization_options(NotificationOptions(tools_changed=self._is_dynamic))

    def _find_bus(self, bus: SubscriptionBus | None) -> SubscriptionBus | None:
        if bus is not None or not self._is_dynamic:
            return bus
        if self.server.get_request_handler("subscriptions/listen") is not None:
            logger.warning("clients of 2026-07-28 are not notified of changed tools: give attach() the bus")
            return None
        bus = InMemorySubscriptionBus()
        params = types.SubscriptionsListenRequestParams
        self.server.add_request_handler("subscriptions/listen", params, ListenHandler(bus))
        return bus

    @asynccontextmanager
    async def _run_lifespan(self, server: Server[Any]) -> AsyncIterator[Any]:
        """Run the lifespan of the server with ours around it. Several connections may be in it at once."""
        self._loop = asyncio.get_running_loop()
        if self._users == 0 and self._crib is not None and not self._crib._running:
            self._stops_crib = True
            await self._crib.start()
        self._users += 1
        try:
            async with self._other_lifespan(server) as state:
                yield state
        finally:
            self._users -= 1
            if self._users == 0 and self._stops_crib and self._crib is not None:
                self._stops_crib = False
                await self._crib.stop()

    # --- requests ---

    async def _list(self, context: _Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        self._remember(context)
        tools = self._engine.dispatcher.shown(Peer().principal)
        return await self._merge("tools/list", "tools", tools, self._other_list, context, params)

    async def _list_features(
        self, method: str, key: str, other: Any, context: _Context, params: types.PaginatedRequestParams
    ) -> dict[str, Any]:
        dispatcher = self._engine.dispatcher
        registry = dispatcher.prompts if key == "prompts" else dispatcher.resources
        entries = dispatcher.view(Peer().principal, registry)
        return await self._merge(method, key, entries, other, context, params)

    async def _merge(
        self,
        method: str,
        key: str,
        entries: Sequence[Tool],
        other: Any,
        context: _Context,
        params: types.PaginatedRequestParams,
    ) -> dict[str, Any]:
        """Return our entries of a list, and those of the other server under other names."""
        revision = _revision_of(context)
        own, result = list[Any](), dict[str, Any]()
        if params.cursor is None:
            own = [item for entry in entries if (item := SHAPES[key](entry, revision)) is not None]
        if other is not None:
            found = await other.handler(context, params)
            result = found if isinstance(found, dict) else _dump(found)
        elif params.cursor is not None:
            raise MCPError(types.INVALID_PARAMS, "Invalid cursor: list again from the start")
        name = {"resources": "uri", "resourceTemplates": "uriTemplate"}.get(key, "name")
        known = self._registry_of(key)
        others = [item for item in result.get(key, ()) if item[name] not in known]
        result = {**result, key: [*own, *others]}
        if revision.modern:
            result["resultType"] = "complete"
            if method not in self.server.cache_hints:
                result.setdefault("ttlMs", self._engine.ttl_ms)
                result.setdefault("cacheScope", "private")  # the other server may know who asks
        return result

    async def _call(self, context: _Context, params: types.CallToolRequestParams) -> Any:
        self._remember(context)
        if self._other_call is not None and params.name not in self._registry:
            return await self._other_call.handler(context, params)
        return await self._run(call_tool, context)

    async def _use_feature(self, run: Any, other: Any, context: _Context, params: Any) -> Any:
        if other is not None and not self._has_feature(getattr(params, "ref", params)):
            return await other.handler(context, params)
        return await self._run(run, context)

    def _has_feature(self, wanted: Any) -> bool:
        """Return whether a URI or the name of a prompt is ours."""
        dispatcher = self._engine.dispatcher
        uri = getattr(wanted, "uri", None)
        if uri is None:
            return wanted.name in dispatcher.prompts
        return uri in dispatcher.resources or dispatcher.find_resource(uri)[0] is not None

    def _registry_of(self, key: str) -> ToolRegistry:
        dispatcher = self._engine.dispatcher
        return {"tools": self._registry, "prompts": dispatcher.prompts}.get(key, dispatcher.resources)

    async def _run(self, method: Any, context: _Context) -> dict[str, Any]:
        """Return the result of a method of toolcrib for a request."""
        revision, peer = _revision_of(context), _SDKPeer(context)
        sent = {key: item for key, item in (context.params or {}).items() if item is not None}
        meta = {"progressToken": 0, CAPABILITIES: peer.capabilities, LOG_LEVEL: "debug"}  # the SDK decides
        if "fastmcp" in (asked := sent.get("_meta") or {}):  # which version of a tool
            meta["fastmcp"] = asked["fastmcp"]
        try:
            call = method(self._engine, peer, context.request_id or 0, revision, {**sent, "_meta": meta})
            reply = call if isinstance(call, Reply) else await call.run()
            await peer.flush()
        except RPCError as error:
            reply = error_reply(None, error)
        finally:
            peer.close()
        return _read_result(reply)

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema that the SDK checks `Mcp-Param-*` headers against."""
        tool = self._registry.try_get(name)
        if tool is not None:
            return tool.definition.input_schema
        return self._other_schema(name) if self._other_schema is not None else None

    # --- changes ---

    def _remember(self, context: _Context) -> None:
        """Notify this client of changes from now on, if it is a legacy one."""
        connection = getattr(context.session, "_connection", None)
        if context.protocol_version not in LEGACY or connection is None:
            return
        if id(connection) not in self._legacy_clients:
            self._legacy_clients[id(connection)] = (asyncio.get_running_loop(), context.session)
            connection.exit_stack.callback(self._legacy_clients.pop, id(connection), None)

    def _changed(self, _: Change) -> None:
        """Handle a change of the registry, from any thread; simultaneous changes are announced once."""
        loop = self._loop
        if loop is None or self._is_announcing:
            return
        self._is_announcing = True
        try:
            loop.call_soon_threadsafe(lambda: loop.create_task(self._announce()))
        except RuntimeError:
            self._is_announcing = False  # the loop has ended: nobody is connected

    async def _announce(self) -> None:
        self._is_announcing = False
        here = asyncio.get_running_loop()
        for loop, session in list(self._legacy_clients.values()):
            if loop is here:
                try:
                    await session.send_tool_list_changed()
                except Exception as error:  # one client that has gone must not keep it from the others
                    logger.debug("a client was not notified of changed tools: %s", type(error).__name__)
        if self._bus is not None:
            await self._bus.publish(ToolsListChanged())


class _SDKPeer(Peer):
    """The client of one call. Messages to it are sent in order, without keeping the tool waiting."""

    __slots__ = ("_context", "_sender", "_unsent", "capabilities")

    def __init__(self, context: _Context) -> None:
        session = Session()
        super().__init__(session=session)
        declared = context.session.client_capabilities
        self.capabilities: dict[str, Any] = {} if declared is None else _dump(declared)
        session.open(_revision_of(context), self.capabilities)
        session.level = "debug"
        self._context = context
        self._unsent: list[Callable[[], Awaitable[None]]] = []
        self._sender: asyncio.Task[None] | None = None

    @property
    def binding(self) -> str:
        return authenticated_principal(self._context) or super().binding

    def send(self, message: bytes) -> None:
        self._send_soon(lambda: self._forward(codec.decode(message)))

    def close_stream(self) -> None:
        if self._context.close_sse_stream is not None:
            self._send_soon(self._context.close_sse_stream)

    async def flush(self) -> None:
        if self._sender is not None:
            await self._sender

    def close(self) -> None:
        if self._sender is not None:
            self._sender.cancel()

    def _send_soon(self, work: Callable[[], Awaitable[None]]) -> None:
        self._unsent.append(work)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        while self._unsent:
            try:
                await self._unsent.pop(0)()
            except Exception as error:  # the client has gone, or takes no such message
                logger.debug("a message was not sent to its client: %s", type(error).__name__)

    async def _forward(self, message: dict[str, Any]) -> None:
        session, params = self._context.session, message["params"]
        if "id" in message:
            await self._ask(message["id"], message["method"], params)
        elif message["method"] == "notifications/progress":
            await session.report_progress(params["progress"], params.get("total"), params.get("message"))
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # log messages are deprecated in the protocol, but in use
                sending = session.send_log_message(  # type: ignore[deprecated,unused-ignore]
                    params["level"],
                    params["data"],
                    logger=params["logger"],
                    related_request_id=self._context.request_id,
                )
            await sending

    async def _ask(self, id_: str, method: str, params: dict[str, Any]) -> None:
        """Ask a legacy client a question, and give the answer to the call that waits for it."""
        request, result = _REQUESTS[method]
        answer: dict[str, Any] = {"id": id_}
        try:
            replied = await self._context.session.send_request(
                request.model_validate({"method": method, "params": params}),
                result,
                metadata=ServerMessageMetadata(related_request_id=self._context.request_id),
            )
            answer["result"] = _dump(replied)
        except MCPError as error:
            answer["error"] = {"message": error.message}
        except Exception as error:
            answer["error"] = {"message": type(error).__name__}
        if self.session is not None:
            self.session.receive_answer(answer)


def _revision_of(context: _Context) -> Revision:
    version = context.protocol_version
    return LEGACY.get(version, MODERN if version >= MODERN.name else NEWEST_LEGACY)


def _read_result(reply: Reply) -> dict[str, Any]:
    message = codec.decode(reply.body or b"{}")
    if "error" in message:
        error = message["error"]
        raise MCPError(error["code"], error["message"], error.get("data"))
    result: dict[str, Any] = message["result"]
    result.get("_meta", {}).pop(SERVER_INFO, None)  # the other server names itself
    return result


def _dump(model: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dumped
