"""What both eras ask of a request's parameters.

Knows shapes; refuses to know what comes of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.protocol.exchange import Exchange
from toolcrib.protocol.messages import INVALID_PARAMS, INVALID_REQUEST, Fault, Id


def named_call(params: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """The tool and the arguments of a tools/call."""
    name = params.get("name")
    if type(name) is not str:
        raise Fault(INVALID_PARAMS, "Invalid params: name is required, and must be a string", status=200)
    arguments = params.get("arguments")
    if type(arguments) is not dict and "arguments" in params:
        raise Fault(INVALID_PARAMS, "Invalid params: arguments must be an object", status=200)
    return name, arguments


def check_cursor(params: Mapping[str, Any]) -> str | None:
    cursor = params.get("cursor")
    if type(cursor) is not str and "cursor" in params:
        raise Fault(INVALID_PARAMS, "Invalid params: cursor must be a string", status=200)
    return cursor


def check_token(meta: Mapping[str, Any]) -> Id | None:
    token = meta.get("progressToken")
    if token is None and "progressToken" not in meta:
        return None
    if type(token) is not str and type(token) is not int:
        raise Fault(
            INVALID_PARAMS, "Invalid params: progressToken must be a string or an integer", status=200
        )
    return token


def register(exchange: Exchange) -> None:
    """Note a call among those that its peer has under way. Raises Fault where the id is there already."""
    inflight = exchange.link.inflight
    if inflight is None:
        return
    if exchange.id in inflight:
        raise Fault(INVALID_REQUEST, "Invalid request: a request of this id is under way")
    inflight[exchange.id] = exchange
