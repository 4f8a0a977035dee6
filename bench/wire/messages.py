"""The requests that are sent, as bytes, made before anything is measured.

Knows both eras: the envelope and the headers of 2026-07-28, the handshake and the session of 2025-11-25.
Numbers in them have a fixed width, so that all replies to one kind of request have the same length.
"""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

Era = Literal["2026-07-28", "2025-11-25"]
MODERN: Era = "2026-07-28"
LEGACY: Era = "2025-11-25"
ERAS = (MODERN, LEGACY)

FIRST_ID = 100_000
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}


READ, GET = "resource", "prompt"
"""What can be asked for besides a tool: a resource of the template `sums://{a}/{b}`, and the prompt `sum`."""


class Question(NamedTuple):
    """A call and what must come back: the same id, and this number (or its digits, from `echo`)."""

    id: int
    answer: int
    body: bytes
    method: str
    name: str


def question(era: Era, tool: str, number: int) -> Question:
    """The `number`-th call of `add` or `echo`, read of a resource, or get of a prompt."""
    a, b = 1_000_000 + number, 3_000_000 + number
    id_ = FIRST_ID + number
    if tool == READ:
        uri = f"sums://{a}/{b}"
        body = request(era, "resources/read", id_, {"uri": uri})
        return Question(id_, a + b, body, "resources/read", uri)
    if tool == GET:
        body = request(era, "prompts/get", id_, {"name": "sum", "arguments": {"a": str(a), "b": str(b)}})
        return Question(id_, a + b, body, "prompts/get", "sum")
    arguments = {"a": a, "b": b} if tool == "add" else {"text": str(a + b)}
    body = request(era, "tools/call", id_, {"name": tool, "arguments": arguments})
    return Question(id_, a + b, body, "tools/call", tool)


def request(era: Era, method: str, id_: int, parameters: dict[str, Any] | None = None) -> bytes:
    """One request as compact JSON; on 2026-07-28 with its envelope."""
    params = dict(parameters or {})
    if era == MODERN:
        params["_meta"] = ENVELOPE
    return encode({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})


def initialize(id_: int = 1) -> bytes:
    params = {
        "protocolVersion": LEGACY,
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    }
    return encode({"jsonrpc": "2.0", "id": id_, "method": "initialize", "params": params})


def initialized() -> bytes:
    return encode({"jsonrpc": "2.0", "method": "notifications/initialized"})


def post(
    port: int,
    body: bytes,
    era: Era,
    *,
    method: str,
    name: str | None = None,
    session: str | None = None,
    key: str | None = None,
) -> bytes:
    """An HTTP request with the headers that its era asks for; `initialize` goes without a version."""
    headers = {
        "Host": f"127.0.0.1:{port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "User-Agent": "bench",
    }
    if era == MODERN:
        headers |= {"MCP-Protocol-Version": era, "Mcp-Method": method}
        if name is not None:
            headers["Mcp-Name"] = name
    elif method != "initialize":
        headers["MCP-Protocol-Version"] = era
    if session is not None:
        headers["Mcp-Session-Id"] = session
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    headers["Content-Length"] = str(len(body))
    return _head("POST", headers) + body


def goodbye(port: int, session: str) -> bytes:
    """The end of a legacy session."""
    headers = {"Host": f"127.0.0.1:{port}", "MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": session}
    return _head("DELETE", headers)


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def _head(verb: str, headers: dict[str, str]) -> bytes:
    lines = [f"{verb} /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()
