"""Plays about what HTTP says beside the body: headers that must agree with it, sessions, methods, paths."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.clients.transcripts import META, MODERN, Play, Post
from tests.wire.golden.said import Line, ask, call

Headers = dict[str, str | None]
LIST = ask("tools/list")
ADD = call("add", {"a": 1})
EMPTY = {"Mcp-Session-Id": None, "MCP-Protocol-Version": None}

TYPES: list[tuple[str, Headers]] = [
    ("JSON in UTF-8", {"Content-Type": "application/json; charset=utf-8"}),
    ("JSON in UTF-16", {"Content-Type": "application/json; charset=utf-16"}),
    ("plain text", {"Content-Type": "text/plain"}),
    ("nearly JSON", {"Content-Type": "application/jsonx"}),
    ("no type", {"Content-Type": None}),
    ("only JSON accepted", {"Accept": "application/json"}),
    ("only events accepted", {"Accept": "text/event-stream"}),
    ("anything accepted", {"Accept": "*/*"}),
    ("nothing said of what is accepted", {"Accept": None}),
    ("a page accepted", {"Accept": "text/html"}),
    ("the page of a stranger", {"Origin": "https://evil.example"}),
    ("the page of a stranger who looks local", {"Origin": "http://localhost:1@evil.example"}),
    ("a local page", {"Origin": "http://localhost:5173"}),
    ("another host", {"Host": "evil.example"}),
    ("no host", {"Host": None}),
]

MODERN_HEADS: list[tuple[str, Line, Headers]] = [
    ("no version", ADD, {"MCP-Protocol-Version": None}),
    ("an older version", ADD, {"MCP-Protocol-Version": "2025-11-25"}),
    ("no known version", ADD, {"MCP-Protocol-Version": "2030-01-01"}),
    ("a version with blanks around it", ADD, {"MCP-Protocol-Version": f" {MODERN}\t"}),
    ("no method", ADD, {"Mcp-Method": None}),
    ("another method", ADD, {"Mcp-Method": "tools/list"}),
    ("a method in another case", ADD, {"Mcp-Method": "Tools/Call"}),
    ("no name", ADD, {"Mcp-Name": None}),
    ("another name", ADD, {"Mcp-Name": "echo"}),
    ("a name in base64", ADD, {"Mcp-Name": "=?base64?YWRk?="}),
    ("a name in bad base64", ADD, {"Mcp-Name": "=?base64?YWR?="}),
    ("a name in a marker of another case", ADD, {"Mcp-Name": "=?BASE64?YWRk?="}),
    ("a name where none is needed", LIST, {"Mcp-Name": "add"}),
    ("a session", ADD, {"Mcp-Session-Id": "nonsense"}),
    ("an event to come back to", ADD, {"Last-Event-ID": "1-1"}),
    ("a parameter missing", call("mirror", {"region": "eu"}), {}),
    ("a parameter", call("mirror", {"region": "eu"}), {"Mcp-Param-Region": "eu"}),
    ("a parameter that differs", call("mirror", {"region": "eu"}), {"Mcp-Param-Region": "us"}),
    ("a parameter in base64", call("mirror", {"region": "eu"}), {"Mcp-Param-Region": "=?base64?ZXU=?="}),
    ("a parameter without an argument", call("mirror", {}), {"Mcp-Param-Region": "eu"}),
    ("a parameter that is null", call("mirror", {"region": None}), {}),
    ("a whole number", call("mirror", {"count": 3}), {"Mcp-Param-Count": "3"}),
    ("a whole number spelt otherwise", call("mirror", {"count": 3}), {"Mcp-Param-Count": "03"}),
    ("a boolean", call("mirror", {"dry": True}), {"Mcp-Param-Dry": "true"}),
    ("a boolean spelt otherwise", call("mirror", {"dry": True}), {"Mcp-Param-Dry": "True"}),
    ("an unknown parameter", ADD, {"Mcp-Param-Other": "x"}),
]

LEGACY_HEADS: list[tuple[str, Line, Headers]] = [
    ("no session: a list", ask("ping"), EMPTY),
    ("no session: a call", ADD, EMPTY),
    ("no session: progress", call("steps", {"count": 1}, progressToken=1), EMPTY),
    ("no session: a question", call("careful", {}), EMPTY),
    ("no session: a level", ask("logging/setLevel", {"level": "error"}), EMPTY),
    ("an unknown session", ADD, {"Mcp-Session-Id": "nonsense"}),
    ("no version", ADD, {"MCP-Protocol-Version": None}),
    ("the oldest version", ADD, {"MCP-Protocol-Version": "2024-11-05"}),
    ("no known version", ADD, {"MCP-Protocol-Version": "2030-01-01"}),
    ("the newer era's version", ADD, {"MCP-Protocol-Version": MODERN}),
]

OTHERS: list[tuple[str, str, Headers]] = [
    ("GET", "/mcp", EMPTY),
    ("GET", "/mcp", {**EMPTY, "MCP-Protocol-Version": MODERN}),
    ("GET", "/mcp", {**EMPTY, "Mcp-Session-Id": "nonsense"}),
    ("GET", "/mcp", {**EMPTY, "Accept": "application/json"}),
    ("DELETE", "/mcp", EMPTY),
    ("DELETE", "/mcp", {**EMPTY, "MCP-Protocol-Version": MODERN}),
    ("PUT", "/mcp", EMPTY),
    ("OPTIONS", "/mcp", EMPTY),
    ("HEAD", "/mcp", EMPTY),
    ("GET", "/", EMPTY),
    ("POST", "/messages?session_id=nonsense", EMPTY),
    ("GET", "/messages", EMPTY),
    ("POST", "/sse", EMPTY),
]


def heads(version: str) -> Iterator[Play]:
    for name, headers in TYPES:
        yield Play(f"headers: {name}", [Post(ADD, headers)], over=["http"])
    for name, line, headers in MODERN_HEADS if version == MODERN else LEGACY_HEADS:
        yield Play(f"headers: {name}", [Post(line, headers)], over=["http"])
    if version == MODERN:
        yield from _envelopes()
    else:
        yield from _sessions(version)


def _envelopes() -> Iterator[Play]:
    """What the body says of itself."""
    whole = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
    for name, meta in (
        ("no capabilities", {f"{META}protocolVersion": MODERN}),
        ("no version", {f"{META}clientCapabilities": {}}),
        ("nothing", {}),
        ("a list of capabilities", {**whole, f"{META}clientCapabilities": []}),
        ("a number for a version", {**whole, f"{META}protocolVersion": 2026}),
        ("an older version", {**whole, f"{META}protocolVersion": "2025-11-25"}),
        ("a version of the future", {**whole, f"{META}protocolVersion": "2030-01-01"}),
        ("something unknown beside", {**whole, "example.com/x": [1]}),
        ("a client", {**whole, f"{META}clientInfo": {"name": "golden", "version": "1"}}),
    ):
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        message |= {"params": {"name": "add", "arguments": {"a": 1}, "_meta": meta}}
        version = meta.get(f"{META}protocolVersion", MODERN)
        headers: Headers = {"MCP-Protocol-Version": str(version)}
        yield Play(f"an envelope with {name}", [Post(message, headers)], over=["http"])


def _sessions(version: str) -> Iterator[Play]:
    end = Post(method="DELETE")
    yield Play("a session ends", [end, LIST, end], over=["http"])
    listen = Post(method="GET", headers={"Accept": "text/event-stream"})
    yield Play("a stream of its own, twice", [listen, listen], over=["http"])
    lost = Post(method="GET", headers={"Last-Event-ID": "9-9"})
    yield Play("coming back to nothing", [lost], over=["http"])
    news = call("steps", {"count": 2}, progressToken="t")
    back = Post(method="GET", headers={"Last-Event-ID": "1-1"})
    yield Play("coming back to a stream", [news, back], over=["http"])
    for method, path, headers in OTHERS:
        shown = ", ".join(f"{name} {value}" for name, value in headers.items() if value)
        play = Post(method=method, path=path, headers=headers)
        yield Play(f"{method} {path} {shown}".rstrip(), [play], over=["http"])
