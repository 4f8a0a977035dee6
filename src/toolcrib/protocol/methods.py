"""The table of MCP methods, of both eras.

A method is a handler plus a row in `METHODS`; other packages add theirs with `MCPServer.add_method`:

    async def count(params, request):
        return {"count": len(params["items"])}

    server.add_method("example/count", count, capability={"experimental": {"example": {}}})

A handler in the table takes the engine, the peer, the id of the request (None for a notification), the
revision and the parameters. It returns a `Reply`, or a `PendingRequest` that the transport runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.context import RESERVED, Principal
from toolcrib.protocol import messages, questions
from toolcrib.protocol.calls import Peer, PendingRequest, ToolCall, read_call, read_cursor, read_token
from toolcrib.protocol.legacy import initialize, ping, set_level
from toolcrib.protocol.lists import log_list
from toolcrib.protocol.messages import ACCEPTED, CAPABILITIES, INVALID_PARAMS, Id, Reply, RPCError
from toolcrib.protocol.modern import check_parameters, discover, listen, read_options
from toolcrib.protocol.revisions import LEGACY, MODERN, Revision
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.engine import Engine

Params = dict[str, Any]
Capability = Mapping[str, Any] | Callable[["Engine"], Mapping[str, Any]]
Handler = Callable[["Engine", Peer, Any, Revision, Params], Reply | PendingRequest]

LEGACY_ONLY = frozenset(LEGACY)
MODERN_ONLY = frozenset({MODERN.name})
EVERY_REVISION = LEGACY_ONLY | MODERN_ONLY


@dataclass(frozen=True, slots=True)
class Method:
    """One method: its name, its handler, the revisions that have it, and the capability that announces it.

    `before_initialize` allows it on a legacy connection that has not been initialized.
    """

    name: str
    handler: Handler
    revisions: frozenset[str] = EVERY_REVISION
    capability: Capability | None = None
    before_initialize: bool = False

    @property
    def is_notification(self) -> bool:
        return self.name.startswith("notifications/")


# --- both eras ---------------------------------------------------------------------------------------


def list_tools(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> Reply:
    if revision.modern:
        read_options(params)
    tools, cursor = engine.dispatcher.shown(peer.principal), read_cursor(params)
    page = engine.tool_lists.page(tools, revision, cursor)
    log_list(tools, cursor)
    if not revision.modern:
        return Reply(messages.encode_result(id_, b"{" + page + b"}"))
    return Reply(
        b'{"jsonrpc":"2.0","id":%b,"result":{"resultType":"complete","ttlMs":%d,"cacheScope":"%b","_meta":%b,%b}}'
        % (messages.encode_id(id_), engine.ttl_ms, engine.cache_scope.encode(), engine.encoded_meta, page)
    )


def call_tool(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> ToolCall:
    dispatcher = engine.dispatcher
    if revision.modern and peer.headers is not None:
        mirrored = dispatcher.mirrored(params.get("name"), peer.principal)
        if mirrored:
            check_parameters(peer.headers, mirrored, params.get("arguments"))
    name, arguments = read_call(params)
    if (search := dispatcher.tool_search) is not None and name in search.call_tools:
        name, arguments = search.forward(name, arguments, peer.principal) or (name, arguments)
    if revision.modern:
        meta = params["_meta"]
        level, token = read_options(params)
        capabilities = meta[CAPABILITIES]
    else:
        meta = params.get("_meta", {})
        level, token = None, read_token(meta)
        capabilities = {} if peer.session is None else peer.session.capabilities
    call = ToolCall(
        engine, peer, id_, revision, name, arguments, capabilities, token, level, meta.get("traceparent")
    )
    if revision.modern and ("requestState" in params or "inputResponses" in params):
        _read_answers(engine, call, params)
    if peer.inflight is not None:
        call.register()
    return call


def _read_answers(engine: Engine, call: ToolCall, params: Params) -> None:
    """Give a call the answers so far: those in the state, and those that came with it."""
    given = params.get("inputResponses", {})
    if type(given) is not dict:
        raise RPCError(INVALID_PARAMS, "Invalid params: inputResponses must be an object", status=200)
    # Answers without a state were given before they were asked for: they prove nothing about confirmations.
    kept: dict[str, Any] = {}
    if "requestState" in params:
        call.state = engine.sealer.open(params["requestState"], call.binding)
        kept = call.state.answers
    else:
        given = {key: answer for key, answer in given.items() if not key.startswith(RESERVED)}
    call.answers = kept | given
    if len(codec.write(call.answers)) > questions.MAX_ANSWERS_BYTES:
        raise RPCError(INVALID_PARAMS, "Invalid params: the answers are too long", status=200)


def cancel(engine: Engine, peer: Peer, id_: None, revision: Revision, params: Params) -> Reply:  # noqa: ARG001
    """Cancel the request of this id, if it still runs."""
    target = params.get("requestId")
    if peer.inflight is not None and type(target) in (int, str):
        request = peer.inflight.get(target)  # type: ignore[arg-type]
        if request is not None:
            request.cancel()
    return ACCEPTED


# --- the table ---------------------------------------------------------------------------------------


def _tools_capability(engine: Engine) -> Mapping[str, Any]:
    return {"tools": {"listChanged": True} if engine.settings.dynamic else {}}


METHODS: tuple[Method, ...] = (
    Method("tools/call", call_tool, capability={"logging": {}}),
    Method("tools/list", list_tools, capability=_tools_capability),
    Method("notifications/cancelled", cancel),
    Method("server/discover", discover, MODERN_ONLY),
    Method("subscriptions/listen", listen, MODERN_ONLY),
    Method("initialize", initialize, LEGACY_ONLY, before_initialize=True),
    Method("ping", ping, LEGACY_ONLY, before_initialize=True),
    Method("logging/setLevel", set_level, LEGACY_ONLY),
)


def methods_of(rows: Iterable[Method], revision: Revision) -> dict[str, Method]:
    """Return the methods of one revision by name; a later row replaces an earlier one of the same name."""
    return {row.name: row for row in rows if revision.name in row.revisions}


# --- methods of other packages -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MethodRequest:
    """The request that a handler of another package gets beside its parameters."""

    method: str
    revision: str
    principal: Principal
    send: Callable[[str, Mapping[str, Any]], None]
    """Send a notification to the client: `request.send("notifications/x", {...})`."""


SimpleHandler = Callable[[Params, MethodRequest], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]


def simple_method(
    name: str,
    handler: SimpleHandler,
    *,
    revisions: Iterable[str] | None = None,
    capability: Capability | None = None,
) -> Method:
    """Return a row for a handler that takes `(params, request)` and returns the result, or awaits it.

    Raise ValueError for a name that is not a method's, or a revision that does not exist.
    """
    chosen = EVERY_REVISION if revisions is None else frozenset(revisions)
    if not name or name.startswith("notifications/"):
        raise ValueError(f"not a method name: {name!r}")
    if unknown := chosen - EVERY_REVISION:
        raise ValueError(f"unknown revision: {', '.join(sorted(unknown))}")

    def handle(
        engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params
    ) -> Reply | PendingRequest:
        def send(method: str, content: Mapping[str, Any]) -> None:
            peer.send(messages.encode_notification(method, content))

        outcome = handler(params, MethodRequest(name, revision.name, peer.principal, send))
        if not inspect.isawaitable(outcome):
            return _encode(engine, id_, revision, outcome)
        pending = _PendingResult(engine, peer, id_, revision, outcome)
        pending.register()
        return pending

    return Method(name, handle, chosen, capability)


class _PendingResult(PendingRequest):
    """A result that is awaited."""

    __slots__ = ("_engine", "_outcome", "_revision")

    def __init__(
        self, engine: Engine, peer: Peer, id_: Id, revision: Revision, outcome: Awaitable[Mapping[str, Any]]
    ) -> None:
        super().__init__(peer, id_)
        self._engine = engine
        self._revision = revision
        self._outcome = outcome

    async def run(self) -> Reply:
        try:
            return _encode(self._engine, self.id, self._revision, await self._outcome)
        except RPCError as error:
            return messages.error_reply(self.id, error)
        finally:
            self.close()

    def close(self) -> None:
        super().close()
        if inspect.iscoroutine(self._outcome):
            self._outcome.close()  # no effect on one that has ended


def _encode(engine: Engine, id_: Id, revision: Revision, result: Mapping[str, Any]) -> Reply:
    content = dict(result)
    if revision.modern:
        content.setdefault("resultType", "complete")
        content["_meta"] = {**content.get("_meta", {}), **engine.server_meta}
    return Reply(messages.encode_result(id_, codec.encode(content)))
