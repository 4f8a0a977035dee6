"""2024-11-05 to 2025-11-25: a handshake, then requests in the revision that was agreed on.

A request over HTTP without a session or a handshake is served all the same, as far as it needs neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.protocol.messages import (
    ACCEPTED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LEVELS,
    Id,
    Reply,
    RPCError,
    encode_result,
)
from toolcrib.protocol.modern import method_not_found
from toolcrib.protocol.revisions import ASSUMED, LEGACY, NEWEST_LEGACY, Revision
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.calls import Peer, PendingRequest
    from toolcrib.protocol.engine import Engine


def receive(
    engine: Engine, peer: Peer, id_: Id | None, method: str, params: dict[str, Any]
) -> Reply | PendingRequest:
    """Check one message and pass it to the handler of its method."""
    session = peer.session
    if session is not None:
        revision = session.revision
    else:
        version = (peer.headers or {}).get(b"mcp-protocol-version", b"")
        revision = LEGACY.get(version.strip(b" \t").decode("latin-1"), ASSUMED)
    row = engine.legacy_methods[revision.name].get(method)
    if id_ is None:
        return row.handler(engine, peer, None, revision, params) if row and row.is_notification else ACCEPTED
    if row is None or row.is_notification:
        raise method_not_found(method)
    if "_meta" in params and type(params["_meta"]) is not dict:
        raise RPCError(INVALID_PARAMS, "Invalid params: _meta must be an object")
    if peer.is_pipe and not row.before_initialize and (session is None or not session.is_open):
        raise RPCError(INVALID_PARAMS, "Not initialized yet: send initialize first, or a 2026-07-28 envelope")
    return row.handler(engine, peer, id_, revision, params)


# --- methods ----------------------------------------------------------------------------------------


def initialize(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: dict[str, Any]) -> Reply:
    asked, capabilities = params.get("protocolVersion"), params.get("capabilities", {})
    if type(asked) is not str:
        raise RPCError(INVALID_PARAMS, "Invalid params: protocolVersion is required, and must be a string")
    if type(capabilities) is not dict:
        raise RPCError(INVALID_PARAMS, "Invalid params: capabilities must be an object")
    revision = LEGACY.get(asked, NEWEST_LEGACY)
    session = peer.session
    if session is not None:
        if session.is_open:
            raise RPCError(INVALID_REQUEST, "Invalid request: initialized already")
        session.open(revision, capabilities)
    elif engine.settings.keeps_sessions and not peer.is_pipe:
        session = engine.sessions.open(peer.principal, peer.address, revision, capabilities)
    newer: tuple[str, ...] = () if revision.structured_output else ("title",)
    newer += () if revision.icons else ("description", "websiteUrl", "icons")
    info = {key: value for key, value in engine.server_info.items() if key not in newer}
    result: dict[str, Any] = {
        "protocolVersion": revision.name,
        "capabilities": engine.capabilities(revision),
        "serverInfo": info,
    }
    if engine.settings.instructions:
        result["instructions"] = engine.settings.instructions
    body = encode_result(id_, codec.write(result))
    if session is None or session.id is None or peer.is_pipe:
        return Reply(body)
    return Reply(body, headers=((b"mcp-session-id", session.id.encode()),))


def ping(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: dict[str, Any]) -> Reply:  # noqa: ARG001
    return Reply(encode_result(id_, b"{}"))


def set_level(
    engine: Engine,
    peer: Peer,
    id_: Id,
    revision: Revision,  # noqa: ARG001
    params: dict[str, Any],
) -> Reply | PendingRequest:
    level = params.get("level")
    if level not in LEVELS:
        raise RPCError(INVALID_PARAMS, f"Invalid params: level must be one of {', '.join(LEVELS)}")
    if peer.session is not None:
        peer.session.level = level
    return save_setting(engine, peer, id_, level=level)


def save_setting(engine: Engine, peer: Peer, id_: Id, **change: str) -> Reply | PendingRequest:
    """Answer a request that has changed a setting of its session, which other processes need, too."""
    session, shared = peer.session, engine.sessions.shared
    if shared is None or session is None or session.id is None:
        return Reply(encode_result(id_, b"{}"))
    return shared.save(peer, id_, session, change)
