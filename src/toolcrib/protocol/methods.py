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
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from toolcrib.context import Principal
from toolcrib.options import APPS
from toolcrib.protocol import completion, components, messages
from toolcrib.protocol.calls import (
    AwaitedResult,
    Peer,
    PendingRequest,
    call_tool,
    encode_mapping,
    read_options,
)
from toolcrib.protocol.legacy import initialize, ping, set_level
from toolcrib.protocol.lists import list_reply, log_list, read_cursor
from toolcrib.protocol.messages import ACCEPTED, Id, Reply, RPCError
from toolcrib.protocol.revisions import LEGACY, MODERN, Revision
from toolcrib.protocol.subscriptions import listen
from toolcrib.protocol.tasks import cancel_task, get_task, tasks_capability, update_task
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.engine import Engine

logger = logging.getLogger("toolcrib")

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
    is_notification: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_notification", self.name.startswith("notifications/"))


# --- both eras ---------------------------------------------------------------------------------------


def list_tools(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> Reply:
    if revision.modern:
        read_options(params)
    tools, cursor = engine.dispatcher.shown(peer.principal), read_cursor(params)
    page = engine.lists.page("tools", tools, revision, cursor)
    log_list(tools, cursor)
    return list_reply(engine, id_, revision, page)


def cancel(engine: Engine, peer: Peer, id_: None, revision: Revision, params: Params) -> Reply:  # noqa: ARG001
    """Cancel the request of this id, if it still runs, perhaps in another process."""
    target = params.get("requestId")
    if peer.inflight is not None and type(target) in (int, str):
        request = peer.inflight.get(target)  # type: ignore[arg-type]
        if request is not None:
            request.cancel()
        elif (shared := engine.sessions.shared) is not None and peer.session is not None:
            shared.cancel(peer.session, target)  # type: ignore[arg-type]
    return ACCEPTED


# --- 2026-07-28 --------------------------------------------------------------------------------------


def discover(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> Reply:  # noqa: ARG001
    read_options(params)
    result: dict[str, Any] = {
        "resultType": "complete",
        "supportedVersions": [MODERN.name],
        "capabilities": engine.capabilities(revision),
    }
    if engine.settings.instructions:
        result["instructions"] = engine.settings.instructions
    meta = {messages.SERVER_INFO: engine.server_info}
    result |= {"ttlMs": engine.ttl_ms, "cacheScope": "public", "_meta": meta}
    return Reply(messages.encode_result(id_, codec.write(result)))


# --- methods with a simple handler ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MethodRequest:
    """The request that a simple handler gets beside its parameters."""

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

        try:
            outcome = handler(params, MethodRequest(name, revision.name, peer.principal, send))
        except RPCError:
            raise
        except Exception:  # as for a handler that is awaited: the reply must have the id of its request
            logger.exception("the method %s failed", name)
            raise RPCError(messages.INTERNAL_ERROR, "Internal error", status=500) from None
        if not inspect.isawaitable(outcome):
            return encode_mapping(engine, id_, revision, outcome)
        return AwaitedResult(engine, peer, id_, revision, outcome)

    return Method(name, handle, chosen, capability)


# --- the table ---------------------------------------------------------------------------------------


def _listed(kind: str) -> Capability:
    return lambda engine: {kind: {"listChanged": True} if engine.settings.dynamic else {}}


def _apps_capability(engine: Engine) -> Mapping[str, Any]:
    has_apps = APPS in engine.dispatcher.resources.snapshot.extensions
    return {"extensions": {APPS: {}}} if has_apps else {}


def _subscribe_capability(engine: Engine) -> Mapping[str, Any]:
    return {"resources": {"subscribe": True}} if components.is_served(engine) else {}


def _legacy_subscribe_capability(engine: Engine) -> Mapping[str, Any]:
    """Legacy subscriptions are part of a session."""
    return _subscribe_capability(engine) if engine.settings.keeps_sessions else {}


def _completions_capability(engine: Engine) -> Mapping[str, Any]:
    return {"completions": {}} if completion.is_served(engine) else {}


def _entries(key: str) -> Handler:
    return partial(components.list_entries, key=key)


METHODS: tuple[Method, ...] = (
    Method("tools/call", call_tool, capability={"logging": {}}),
    Method("tools/list", list_tools, capability=_listed("tools")),
    Method("notifications/cancelled", cancel),
    Method("server/discover", discover, MODERN_ONLY),
    Method("subscriptions/listen", listen, MODERN_ONLY, _subscribe_capability),
    Method("tasks/get", get_task, MODERN_ONLY, tasks_capability),
    Method("tasks/update", update_task, MODERN_ONLY),
    Method("tasks/cancel", cancel_task, MODERN_ONLY),
    Method("initialize", initialize, LEGACY_ONLY, before_initialize=True),
    Method("ping", ping, LEGACY_ONLY, before_initialize=True),
    Method("logging/setLevel", set_level, LEGACY_ONLY),
    Method("resources/list", _entries("resources"), capability=_listed("resources")),
    Method("resources/templates/list", _entries("resourceTemplates"), capability=_apps_capability),
    Method("resources/read", components.read_resource),
    Method("resources/subscribe", components.subscribe, LEGACY_ONLY, _legacy_subscribe_capability),
    Method("resources/unsubscribe", components.unsubscribe, LEGACY_ONLY),
    Method("skills/list", components.list_skills, capability=components.skills_capability),
    Method("skills/get", components.get_skill),
    Method("resources/directory/read", components.read_directory),
    Method("prompts/list", _entries("prompts"), capability=_listed("prompts")),
    Method("prompts/get", components.get_prompt),
    Method("completion/complete", completion.complete, capability=_completions_capability),
)


def methods_of(rows: Iterable[Method], revision: Revision) -> dict[str, Method]:
    """Return the methods of one revision by name; a later row replaces an earlier one of the same name."""
    return {row.name: row for row in rows if revision.name in row.revisions}
