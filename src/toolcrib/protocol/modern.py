"""2026-07-28: every request carries its own envelope, and nothing is remembered between requests.

The checks run in the order that the specification and its suite agree on: envelope, headers, version,
method, mirrored parameters, parameters. Knows this revision; refuses to know the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.context import RESERVED
from toolcrib.protocol import messages
from toolcrib.protocol import questions as asking
from toolcrib.protocol.call_log import record_list
from toolcrib.protocol.calls import Call, Exchange, Link, check_cursor, check_token, named_call, register
from toolcrib.protocol.headers import check_headers, check_parameters
from toolcrib.protocol.messages import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    VERSION,
    Fault,
    Id,
    Reply,
)
from toolcrib.protocol.revisions import LEGACY, MODERN
from toolcrib.protocol.subscriptions import Listen
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.engine import Engine

_LEGACY_NAMES = frozenset(name.encode() for name in LEGACY)


def is_marked(message: Any) -> bool:
    """Whether a message says itself that it is of this era."""
    params = message.get("params") if type(message) is dict else None
    meta = params.get("_meta") if type(params) is dict else None
    return type(meta) is dict and VERSION in meta


def is_modern(params: Mapping[str, Any], link: Link) -> bool:
    """Whether a message is of this era: by its own mark, or by a header that names no older revision."""
    meta = params.get("_meta")
    if type(meta) is dict and VERSION in meta:
        return True
    if link.headers is None:
        return False
    said = link.headers.get(b"mcp-protocol-version")
    return said is not None and said.strip(b" \t") not in _LEGACY_NAMES


def serve(
    engine: Engine, link: Link, id_: Id | None, method: str, params: dict[str, Any]
) -> Reply | Exchange:
    if id_ is None:
        if method == "notifications/cancelled":
            cancel(link, params)
        return messages.ACCEPTED
    meta = _check_envelope(method, params)
    version: str = meta[VERSION]
    if link.headers is not None:
        check_headers(link.headers, version, method, params)
    if version != MODERN.name:
        data = {"supported": [MODERN.name], "requested": version}
        raise Fault(UNSUPPORTED_VERSION, f"Unsupported protocol version: {version[:40]}", data=data)
    if method == "tools/call":
        return _call(engine, link, id_, params, meta)
    if method == "tools/list":
        _wishes(meta)
        return _list(engine, link, id_, params)
    if method == "server/discover":
        _wishes(meta)
        return Reply(messages.result_bytes(id_, codec.write(_describe(engine))))
    if method == "subscriptions/listen" and engine.dynamic:
        _wishes(meta)
        return _listen(engine, link, id_, params)
    raise Fault(METHOD_NOT_FOUND, f"Method not found: {method[:80]}", status=404)


def cancel(link: Link, params: Mapping[str, Any]) -> None:
    """End the call of this id, if it still runs."""
    number = params.get("requestId")
    if link.inflight is not None and type(number) in (int, str):
        exchange = link.inflight.get(number)  # type: ignore[arg-type]
        if exchange is not None:
            exchange.cancel()


def _check_envelope(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    meta = params.get("_meta")
    if type(meta) is not dict or VERSION not in meta:
        if method == "initialize":
            raise Fault(
                HEADER_MISMATCH, "Header mismatch: initialize belongs to older revisions than the header's"
            )
        raise Fault(INVALID_PARAMS, f"Invalid params: _meta['{VERSION}'] is missing")
    if type(meta[VERSION]) is not str:
        raise Fault(INVALID_PARAMS, f"Invalid params: _meta['{VERSION}'] must be a string")
    if type(meta.get(messages.CAPABILITIES)) is not dict:
        raise Fault(INVALID_PARAMS, f"Invalid params: _meta['{messages.CAPABILITIES}'] must be an object")
    return meta


def _wishes(meta: Mapping[str, Any]) -> tuple[str | None, Id | None]:
    """From which level on a client wants to hear log lines, and its token for progress. Only calls have a use
    for them, but they must be right in every request."""
    level: str | None = meta.get(messages.LOG_LEVEL)
    if level not in messages.LEVELS and messages.LOG_LEVEL in meta:
        raise Fault(INVALID_PARAMS, f"Invalid params: _meta['{messages.LOG_LEVEL}'] is no level", status=200)
    return level, check_token(meta)


def _describe(engine: Engine) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "resultType": "complete",
        "supportedVersions": [MODERN.name],
        "capabilities": engine.capabilities,
    }
    if engine.instructions:
        facts["instructions"] = engine.instructions
    return {**facts, "ttlMs": engine.ttl_ms, "cacheScope": "public", "_meta": engine.server_meta}


def _list(engine: Engine, link: Link, id_: Id, params: Mapping[str, Any]) -> Reply:
    tools, cursor = engine.dispatcher.shown(link.principal), check_cursor(params)
    page = engine.listings.page(tools, MODERN, cursor)
    record_list(tools, cursor)
    return Reply(
        b'{"jsonrpc":"2.0","id":%b,"result":{"resultType":"complete","ttlMs":%d,"cacheScope":"%b","_meta":%b,%b}}'
        % (messages.encode_id(id_), engine.ttl_ms, engine.cache_scope.encode(), engine.meta, page)
    )


def _call(engine: Engine, link: Link, id_: Id, params: dict[str, Any], meta: dict[str, Any]) -> Exchange:
    if link.headers is not None:
        mirrored = engine.dispatcher.mirrored(params.get("name"), link.principal)
        if mirrored:
            check_parameters(link.headers, mirrored, params.get("arguments"))
    name, arguments = named_call(params)
    if (search := engine.dispatcher.tool_search) is not None and name in search.call_tools:
        name, arguments = search.forward(name, arguments, link.principal) or (name, arguments)
    level, token = _wishes(meta)
    call = Call(
        engine,
        link,
        id_,
        MODERN,
        name,
        arguments,
        capabilities=meta[messages.CAPABILITIES],
        token=token,
        level=level,
        trace=meta.get("traceparent"),
    )
    if "requestState" in params or "inputResponses" in params:
        _take_answers(engine, call, params)
    register(call)
    return call


def _take_answers(engine: Engine, call: Call, params: Mapping[str, Any]) -> None:
    """Give a call what the client has answered so far: what the state holds, and what came with it."""
    given = params.get("inputResponses", {})
    if type(given) is not dict:
        raise Fault(INVALID_PARAMS, "Invalid params: inputResponses must be an object", status=200)
    # Answers without a state were given before they were asked for: no more than the client could say anyway.
    kept: dict[str, Any] = {}
    if "requestState" in params:
        sealed = engine.sealer.open(params["requestState"], call.binding)
        kept, call.resumes, call.seen, call.is_prompted = (
            sealed.answers,
            sealed.mark,
            sealed.seen,
            sealed.is_fresh,
        )
    else:
        given = {key: answer for key, answer in given.items() if not key.startswith(RESERVED)}
    call.answers = kept | given
    if len(codec.write(call.answers)) > asking.MAX_ANSWERS_BYTES:
        raise Fault(INVALID_PARAMS, "Invalid params: the answers are too long", status=200)


def _listen(engine: Engine, link: Link, id_: Id, params: Mapping[str, Any]) -> Exchange:
    wanted = params.get("notifications")
    if type(wanted) is not dict:
        raise Fault(INVALID_PARAMS, "Invalid params: notifications must be an object", status=200)
    if engine.subscriptions.is_full_for(link):
        raise Fault(messages.INTERNAL_ERROR, "Too many subscriptions: end one first", status=429)
    listen = Listen(engine, link, id_, wanted)
    register(listen)
    engine.subscriptions.add(listen)  # from now on, so that those who come at once are counted
    return listen
