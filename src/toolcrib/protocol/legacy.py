"""2024-11-05 to 2025-11-25: a handshake, then requests in what was agreed on.

A request over HTTP that has neither a session nor a handshake is served all the same, as far as it needs
neither. Knows these revisions; refuses to know the newer one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.protocol import messages
from toolcrib.protocol.call_log import record_list
from toolcrib.protocol.calls import Call, Exchange, Link, check_cursor, check_token, named_call, register
from toolcrib.protocol.messages import (
    ACCEPTED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Fault,
    Id,
    Reply,
)
from toolcrib.protocol.modern import cancel
from toolcrib.protocol.revisions import ASSUMED, LEGACY, NEWEST_LEGACY, Revision
from toolcrib.protocol.sessions import Session
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.engine import Engine

_METHODS = frozenset({"initialize", "ping", "tools/list", "tools/call", "logging/setLevel"})


def status_of(fault: Fault) -> int:
    """The HTTP status of an error: what was understood rides on 200."""
    return fault.status if fault.code in (PARSE_ERROR, INVALID_REQUEST) or fault.status >= 429 else 200


def serve(
    engine: Engine, link: Link, id_: Id | None, method: str, params: dict[str, Any]
) -> Reply | Exchange:
    if id_ is None:
        if method == "notifications/cancelled":
            cancel(link, params)
        return ACCEPTED
    if method not in _METHODS:
        raise Fault(METHOD_NOT_FOUND, f"Method not found: {method[:80]}")
    if "_meta" in params and type(params["_meta"]) is not dict:
        raise Fault(INVALID_PARAMS, "Invalid params: _meta must be an object")
    if method == "initialize":
        return _initialize(engine, link, id_, params)
    if method == "ping":
        return Reply(messages.result_bytes(id_, b"{}"))
    session = link.session
    if link.is_pipe and (session is None or not session.is_open):
        raise Fault(INVALID_PARAMS, "Not initialized yet: send initialize first, or a 2026-07-28 envelope")
    revision = _revision_of(link)
    if method == "tools/list":
        tools, cursor = engine.dispatcher.shown(link.principal), check_cursor(params)
        page = engine.listings.page(tools, revision, cursor)
        record_list(tools, cursor)
        return Reply(messages.result_bytes(id_, b"{" + page + b"}"))
    if method == "logging/setLevel":
        level = params.get("level")
        if level not in messages.LEVELS:
            raise Fault(INVALID_PARAMS, f"Invalid params: level must be one of {', '.join(messages.LEVELS)}")
        if session is not None:
            session.level = level
        return Reply(messages.result_bytes(id_, b"{}"))
    return _call(engine, link, id_, revision, params)


def _initialize(engine: Engine, link: Link, id_: Id, params: dict[str, Any]) -> Reply:
    asked, capabilities = params.get("protocolVersion"), params.get("capabilities", {})
    if type(asked) is not str:
        raise Fault(INVALID_PARAMS, "Invalid params: protocolVersion is required, and must be a string")
    if type(capabilities) is not dict:
        raise Fault(INVALID_PARAMS, "Invalid params: capabilities must be an object")
    revision = LEGACY.get(asked, NEWEST_LEGACY)
    session = link.session
    if session is None and engine.keeps_sessions and not link.is_pipe:
        session = engine.sessions.new(link.principal, link.address)
        engine.sessions.keep(session)
    if session is not None:
        if session.is_open:
            raise Fault(INVALID_REQUEST, "Invalid request: initialized already")
        session.open(revision, capabilities)
    facts: dict[str, Any] = {
        "protocolVersion": revision.name,
        "capabilities": engine.capabilities,
        "serverInfo": engine.info if revision.structures else _without_title(engine.info),
    }
    if engine.instructions:
        facts["instructions"] = engine.instructions
    id_of_session = None if session is None or link.is_pipe else session.id
    return Reply(messages.result_bytes(id_, codec.write(facts)), session=id_of_session)


def _without_title(info: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in info.items() if key != "title"}


def _revision_of(link: Link) -> Revision:
    if link.session is not None:
        return link.session.revision
    said = (link.headers or {}).get(b"mcp-protocol-version", b"")
    return LEGACY.get(said.strip(b" \t").decode("latin-1"), ASSUMED)


def _call(engine: Engine, link: Link, id_: Id, revision: Revision, params: dict[str, Any]) -> Exchange:
    name, arguments = named_call(params)
    if (search := engine.dispatcher.tool_search) is not None and name in search.call_tools:
        name, arguments = search.forward(name, arguments, link.principal) or (name, arguments)
    meta: dict[str, Any] = params.get("_meta", {})
    session: Session | None = link.session
    call = Call(
        engine,
        link,
        id_,
        revision,
        name,
        arguments,
        capabilities={} if session is None else session.capabilities,
        token=check_token(meta),
        trace=meta.get("traceparent"),
    )
    register(call)
    return call
