"""What HTTP headers say again of a 2026-07-28 body, compared with it.

Whoever routes or filters by header must be able to rely on it, so a header that is missing, double or
different is refused. Knows header values as bytes; refuses to know how they were read.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from toolcrib.protocol.messages import HEADER_MISMATCH, Fault

TWICE = b"\xff twice"
"""Stands for the value of a header that came more than once; no header can have it."""

Headers = Mapping[bytes, bytes]
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_NUMBER = re.compile(r"-?[0-9]{1,400}((?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,9})?)")
_MARKER = "=?base64?"
_OPENING, _CLOSING = _MARKER.encode(), b"?="


def check_headers(headers: Headers, version: str, method: str, params: Mapping[str, Any]) -> None:
    """Raise Fault unless the standard headers say what the body says."""
    if method == "tools/call" and headers.get(b"mcp-method") == b"tools/call":
        name = params.get("name")  # as most requests are
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


def check_parameters(headers: Headers, mirrored: Mapping[tuple[str, ...], str], arguments: Any) -> None:
    """Raise Fault unless each argument that its schema mirrors in a header is there, and the same."""
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
        elif not _same(_decode(raw, shown), value):
            raise _mismatch(shown, "differs from the argument it mirrors")


def _compare(headers: Headers, key: bytes, shown: str, expected: str, *, plain: bool = False) -> None:
    raw = headers.get(key)
    if raw == expected.encode() and not raw.startswith(_OPENING):
        return
    if raw is None:
        raise _mismatch(shown, "is missing")
    if raw == TWICE:
        raise _mismatch(shown, "is there more than once")
    value = raw.strip(b" \t").decode("latin-1") if plain else _decode(raw, shown)
    if value != expected:
        raise _mismatch(shown, "differs from the body")


def _decode(raw: bytes, shown: str) -> str:
    """A header's value; one that no header could hold comes in base64 between markers."""
    if raw == TWICE:
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


def _same(text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float):
        number = _NUMBER.fullmatch(text)  # Python reads more as a number than anybody between would
        return number is not None and (float(text) if number[1] else int(text)) == value
    return isinstance(value, str) and text == value


def _mismatch(shown: str, problem: str) -> Fault:
    return Fault(HEADER_MISMATCH, f"Header mismatch: {shown} {problem}")
