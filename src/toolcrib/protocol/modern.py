"""2026-07-28: every request carries its own envelope, and the server keeps nothing between requests.

The checks run in the order that the specification and its test suite agree on: envelope, headers, version,
method, mirrored parameters, parameters. Proxies may route or filter by header, so a header that is missing,
repeated or different from the body is refused.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.protocol.messages import (
    ACCEPTED,
    CAPABILITIES,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    VERSION,
    Id,
    Reply,
    RPCError,
)
from toolcrib.protocol.revisions import LEGACY, MODERN

if TYPE_CHECKING:
    from toolcrib.protocol.calls import Peer, PendingRequest
    from toolcrib.protocol.engine import Engine

REPEATED = b"\xff twice"
"""Stands for the value of a header that came more than once; no real header can have it."""

_LEGACY_NAMES = frozenset(name.encode() for name in LEGACY)
_NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}
_NUMBER = re.compile(r"-?[0-9]{1,400}((?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,9})?)")
_MARKER = "=?base64?"
_OPENING, _CLOSING = _MARKER.encode(), b"?="

HTTPHeaders = Mapping[bytes, bytes]


def is_marked(message: Any) -> bool:
    """Return whether a message names a protocol version in its own envelope."""
    params = message.get("params") if type(message) is dict else None
    meta = params.get("_meta") if type(params) is dict else None
    return type(meta) is dict and VERSION in meta


def is_modern_header(headers: HTTPHeaders | None) -> bool:
    """Return whether the version header names a revision that is not one of the older ones."""
    version = None if headers is None else headers.get(b"mcp-protocol-version")
    return version is not None and version.strip(b" \t") not in _LEGACY_NAMES


def receive(
    engine: Engine, peer: Peer, id_: Id | None, method: str, params: dict[str, Any]
) -> Reply | PendingRequest:
    """Check the envelope of one message and pass it to the handler of its method."""
    row = engine.modern_methods.get(method)
    if id_ is None:
        return row.handler(engine, peer, None, MODERN, params) if row and row.is_notification else ACCEPTED
    meta = params.get("_meta")
    if (
        type(meta) is not dict
        or type(meta.get(VERSION)) is not str
        or type(meta.get(CAPABILITIES)) is not dict
    ):
        raise _envelope_error(method, meta)
    version: str = meta[VERSION]
    if peer.headers is not None:
        check_headers(peer.headers, version, method, params)
    if version != MODERN.name:
        data = {"supported": [MODERN.name], "requested": version}
        raise RPCError(UNSUPPORTED_VERSION, f"Unsupported protocol version: {version[:40]}", data=data)
    if row is None or row.is_notification:
        raise method_not_found(method)
    return row.handler(engine, peer, id_, MODERN, params)


def method_not_found(method: str) -> RPCError:
    return RPCError(METHOD_NOT_FOUND, f"Method not found: {method[:80]}", status=404)


def _envelope_error(method: str, meta: Any) -> RPCError:
    if type(meta) is not dict or VERSION not in meta:
        if method == "initialize":
            return RPCError(
                HEADER_MISMATCH, "Header mismatch: initialize belongs to older revisions than the header's"
            )
        return RPCError(INVALID_PARAMS, f"Invalid params: _meta['{VERSION}'] is missing")
    if type(meta[VERSION]) is not str:
        return RPCError(INVALID_PARAMS, f"Invalid params: _meta['{VERSION}'] must be a string")
    return RPCError(INVALID_PARAMS, f"Invalid params: _meta['{CAPABILITIES}'] must be an object")


# --- headers that repeat the body --------------------------------------------------------------------


def check_headers(headers: HTTPHeaders, version: str, method: str, params: Mapping[str, Any]) -> None:
    """Raise RPCError unless the standard headers agree with the body."""
    if method == "tools/call" and headers.get(b"mcp-method") == b"tools/call":
        name = params.get("name")  # the common case
        if (
            type(name) is str
            and name.encode() == headers.get(b"mcp-name")
            and version.encode() == headers.get(b"mcp-protocol-version")
            and not name.startswith(_MARKER)
        ):
            return
    _compare(headers, b"mcp-protocol-version", "MCP-Protocol-Version", version, plain=True)
    _compare(headers, b"mcp-method", "Mcp-Method", method, plain=True)
    key = _NAMED_BY.get(method)
    if key is not None:
        name = params.get(key)
        if isinstance(name, str):
            _compare(headers, b"mcp-name", "Mcp-Name", name)
        elif name is not None and b"mcp-name" in headers:
            raise _mismatch("Mcp-Name", "differs from the body")


def check_parameters(headers: HTTPHeaders, mirrored: Mapping[tuple[str, ...], str], arguments: Any) -> None:
    """Raise RPCError unless each argument that the schema mirrors in a header is there, and the same."""
    for path, label in mirrored.items():
        value = arguments
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        raw = headers.get(b"mcp-param-" + label.lower().encode())
        shown = f"Mcp-Param-{label}"
        if value is None:
            if raw is not None:
                raise _mismatch(shown, "is there, but the argument it mirrors is not")
        elif raw is None:
            raise _mismatch(shown, "is missing")
        elif not _is_same(_decode(raw, shown), value):
            raise _mismatch(shown, "differs from the argument it mirrors")


def _compare(headers: HTTPHeaders, key: bytes, shown: str, expected: str, *, plain: bool = False) -> None:
    raw = headers.get(key)
    if raw == expected.encode() and not raw.startswith(_OPENING):
        return
    if raw is None:
        raise _mismatch(shown, "is missing")
    if raw == REPEATED:
        raise _mismatch(shown, "is there more than once")
    value = raw.strip(b" \t").decode("latin-1") if plain else _decode(raw, shown)
    if value != expected:
        raise _mismatch(shown, "differs from the body")


def _decode(raw: bytes, shown: str) -> str:
    """Return the text of a header; text that no header can hold comes as base64 between markers."""
    if raw == REPEATED:
        raise _mismatch(shown, "is there more than once")
    raw = raw.strip(b" \t")
    if not (
        raw.startswith(_OPENING) and raw.endswith(_CLOSING) and len(raw) >= len(_OPENING) + len(_CLOSING)
    ):
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise _mismatch(shown, "is not text") from None
    inner = raw[len(_OPENING) : -len(_CLOSING)]
    try:
        decoded = base64.b64decode(inner, validate=True)
        if base64.b64encode(decoded) != inner:
            raise ValueError
        return decoded.decode()
    except (binascii.Error, ValueError):
        raise _mismatch(shown, "is not valid base64 of UTF-8") from None


def _is_same(text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float):
        number = _NUMBER.fullmatch(text)  # Python reads more as a number than a proxy would
        return number is not None and (float(text) if number[1] else int(text)) == value
    return isinstance(value, str) and text == value


def _mismatch(shown: str, problem: str) -> RPCError:
    return RPCError(HEADER_MISMATCH, f"Header mismatch: {shown} {problem}")
