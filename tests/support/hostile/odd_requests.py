"""Random requests: valid, or invalid in one or two ways. The same seed gives the same requests.

A request starts as a valid one of an era; each trait changes it in one way. It has no expected answer.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

MODERN, LEGACY = "2026-07-28", "2025-11-25"
META = "io.modelcontextprotocol/"


@dataclass
class Draft:
    """A request under construction. `session` says whether the (legacy) client has a session."""

    era: str
    message: dict[str, Any]
    headers: dict[str, str]
    session: bool = False
    verb: str = "POST"
    raw: bytes | None = None
    names: list[str] = field(default_factory=list)

    @property
    def meta(self) -> dict[str, Any]:
        params = self.message.get("params")
        found = params.get("_meta") if isinstance(params, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def params(self) -> dict[str, Any]:
        found = self.message.get("params")
        return found if isinstance(found, dict) else {}

    @property
    def body(self) -> bytes:
        if self.raw is not None:
            return self.raw
        return json.dumps(self.message, separators=(",", ":")).encode()


Change = Callable[[Draft], None]


def put(key: str, value: Any) -> Change:
    return lambda draft: draft.message.__setitem__(key, value)


def drop(key: str) -> Change:
    return lambda draft: draft.message.pop(key, None) and None


def param(key: str, value: Any) -> Change:
    return lambda draft: draft.params.__setitem__(key, value)


def without(key: str) -> Change:
    return lambda draft: draft.params.pop(key, None) and None


def envelope(key: str, value: Any) -> Change:
    return lambda draft: draft.meta.__setitem__(META + key, value)


def unenveloped(key: str) -> Change:
    return lambda draft: draft.meta.pop(META + key, None) and None


def header(name: str, value: str) -> Change:
    return lambda draft: draft.headers.__setitem__(name, value)


def no_header(name: str) -> Change:
    return lambda draft: draft.headers.pop(name, None) and None


def raw(make: Callable[[bytes], bytes]) -> Change:
    return lambda draft: setattr(draft, "raw", make(draft.body))


CALLS: dict[str, tuple[str, Any]] = {
    "add": ("add", {"a": 2, "b": 3}),
    "add with a default": ("add", {"a": 2}),
    "echo": ("echo", {"text": "hello"}),
    "echo of many scripts": ("echo", {"text": "Grüße, 世界 💡"}),
    "an empty echo": ("echo", {"text": ""}),
    "total": ("total", {"values": [1, 2.5]}),
    "an empty total": ("total", {"values": []}),
    "move": ("move", {"point": {"x": 1}}),
    "switch": ("switch", {"on": True, "note": None}),
    "refuse": ("refuse", {}),
    "argument missing": ("add", {}),
    "argument of another kind": ("add", {"a": "many"}),
    "number in a text": ("add", {"a": "5"}),
    "fraction for a whole number": ("add", {"a": 1.5}),
    "whole fraction": ("add", {"a": 2.0}),
    "boolean for a number": ("add", {"a": True}),
    "number for a boolean": ("switch", {"on": 1}),
    "text for a boolean": ("switch", {"on": "yes"}),
    "null for a number": ("add", {"a": None}),
    "unknown argument": ("add", {"a": 1, "c": 2}),
    "number for a text": ("echo", {"text": 5}),
    "text for a list": ("total", {"values": "1,2"}),
    "wrong item": ("total", {"values": [1, "x"]}),
    "wrong record": ("move", {"point": {"y": 1}}),
    "text for a record": ("move", {"point": '{"x": 1}'}),
    "unknown tool": ("missing", {}),
    "unknown tool by case": ("ADD", {"a": 1}),
    "empty tool": ("", {}),
}

METHODS = (
    *("server/discover", "tools/list", "ping", "initialize", "logging/setLevel", "nonsense", "tools/LIST"),
    *("resources/subscribe", "completion/complete", "subscriptions/listen", "tasks/get"),
)

SHAPES: dict[str, Change] = {
    "id text": put("id", "abc"),
    "id zero": put("id", 0),
    "id null": put("id", None),
    "id fraction": put("id", 1.5),
    "id boolean": put("id", True),
    "id list": put("id", []),
    "id missing": drop("id"),
    "jsonrpc missing": drop("jsonrpc"),
    "jsonrpc old": put("jsonrpc", "1.0"),
    "method missing": drop("method"),
    "method number": put("method", 5),
    "params list": put("params", [1]),
    "params null": put("params", None),
    "params text": put("params", "x"),
    "arguments list": param("arguments", [1]),
    "arguments null": param("arguments", None),
    "arguments missing": without("arguments"),
    "name missing": without("name"),
    "name number": param("name", 5),
    "cursor empty": param("cursor", ""),
    "cursor unknown": param("cursor", "zzz"),
    "cursor number": param("cursor", 5),
    "unknown param": param("extra", 1),
    "body cut": raw(lambda body: body[:-1]),
    "body empty": raw(lambda _: b""),
    "body no JSON": raw(lambda _: b"hello"),
    "body number": raw(lambda _: b"5"),
    "body in a list": raw(lambda body: b"[" + body + b"]"),
    "body twice in a list": raw(lambda body: b"[" + body + b"," + body + b"]"),
    "body empty list": raw(lambda _: b"[]"),
    "body with a BOM": raw(lambda body: b"\xef\xbb\xbf" + body),
    "body with a key twice": raw(lambda body: body[:-1] + b',"jsonrpc":"2.0"}'),
    "body with NaN": raw(lambda body: body[:-1] + b',"x":NaN}'),
    "body with a large number": raw(lambda body: body[:-1] + b',"x":1e999}'),
    "body bad UTF-8": raw(lambda body: body[:-1] + b',"x":"\xff"}'),
    "body 100 deep": raw(lambda body: body[:-1] + b',"x":' + b"[" * 100 + b"]" * 100 + b"}"),
    "body with blanks": raw(lambda body: b" \n" + body + b"\n"),
    "body a response": raw(lambda _: b'{"jsonrpc":"2.0","id":"q","result":{}}'),
}

HEADS: dict[str, Change] = {
    "type with charset": header("Content-Type", "application/json; charset=utf-8"),
    "type text": header("Content-Type", "text/plain"),
    "type near miss": header("Content-Type", "application/jsonx"),
    "type missing": no_header("Content-Type"),
    "accept JSON": header("Accept", "application/json"),
    "accept events": header("Accept", "text/event-stream"),
    "accept anything": header("Accept", "*/*"),
    "accept missing": no_header("Accept"),
    "accept a page": header("Accept", "text/html"),
    "origin evil": header("Origin", "https://evil.example"),
    "host evil": header("Host", "evil.example"),
    "session unknown": header("Mcp-Session-Id", "nonsense"),
    "verb PUT": lambda draft: setattr(draft, "verb", "PUT"),
}

MODERN_ONLY: dict[str, Change] = {
    "envelope without version": unenveloped("protocolVersion"),
    "envelope without capabilities": unenveloped("clientCapabilities"),
    "envelope missing": without("_meta"),
    "envelope version number": envelope("protocolVersion", 5),
    "envelope version future": envelope("protocolVersion", "2030-01-01"),
    "envelope version old": envelope("protocolVersion", LEGACY),
    "envelope capabilities list": envelope("clientCapabilities", []),
    "envelope with a client": envelope("clientInfo", {"name": "c", "version": "1"}),
    "envelope log level": envelope("logLevel", "info"),
    "envelope log level unknown": envelope("logLevel", "loud"),
    "header version missing": no_header("MCP-Protocol-Version"),
    "header version old": header("MCP-Protocol-Version", LEGACY),
    "header version future": header("MCP-Protocol-Version", "2030-01-01"),
    "header method missing": no_header("Mcp-Method"),
    "header method other": header("Mcp-Method", "nonsense"),
    "header name missing": no_header("Mcp-Name"),
    "header name other": header("Mcp-Name", "nonsense"),
    "header name base64": header("Mcp-Name", "=?base64?YWRk?="),
    "header name bad base64": header("Mcp-Name", "=?base64?YWR?="),
}

LEGACY_ONLY: dict[str, Change] = {
    "header version missing": no_header("MCP-Protocol-Version"),
    "header version 2025-03-26": header("MCP-Protocol-Version", "2025-03-26"),
    "header version future": header("MCP-Protocol-Version", "2030-01-01"),
    "header version modern": header("MCP-Protocol-Version", MODERN),
    "without a session": lambda draft: setattr(draft, "session", False),
}


def draw(seed: int, count: int) -> Iterator[Draft]:
    """Return requests; the first ones have every trait once, so that a few are enough to cover all."""
    dice = random.Random(seed)
    for era in ("modern", "legacy"):
        for name in _traits(era):
            yield _make(era, "add", [name])
        for kind in (*CALLS, *METHODS):
            yield _make(era, kind, [])
    for _ in range(count):
        era = dice.choice(("modern", "legacy"))
        kind = dice.choice((*CALLS, *METHODS))
        traits = dice.sample(sorted(_traits(era)), dice.choice((0, 1, 1, 1, 2)))
        yield _make(era, kind, traits)


def _traits(era: str) -> dict[str, Change]:
    return {**SHAPES, **HEADS, **(MODERN_ONLY if era == "modern" else LEGACY_ONLY)}


def _make(era: str, kind: str, traits: list[str]) -> Draft:
    params: dict[str, Any] = {}
    method = kind
    if kind in CALLS:
        method, (name, arguments) = "tools/call", CALLS[kind]
        params = {"name": name, "arguments": dict(arguments)}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if era == "modern":
        params["_meta"] = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
        headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if kind in CALLS:
            headers["Mcp-Name"] = params["name"]
    else:
        headers["MCP-Protocol-Version"] = LEGACY
    draft = Draft(era, message, headers, session=era == "legacy", names=[kind, *traits])
    for name in sorted(traits, key=lambda name: name.startswith("body")):  # the body is changed last
        _traits(era)[name](draft)
    return draft
