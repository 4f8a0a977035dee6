"""Cases of the corpus, and the messages in them.

A case is bytes and a verdict. Its `era` says whose bytes they are: those of "modern" cases carry an envelope,
those of "legacy" cases do not, and "any" is for what is wrong before an era can be told.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
MODERN = "2026-07-28"
NEWEST_LEGACY = "2025-11-25"
ENVELOPE: dict[str, Any] = {VERSION: MODERN, CAPABILITIES: {}}

PARSE, REQUEST, METHOD, PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
HEADER, CAPABILITY, UNSUPPORTED = -32020, -32021, -32022
RESULT, TOOL_ERROR, SILENCE = "result", "isError", "silence"
Verdict = int | str

NO_ID = object()
"""The reply has no id: none could be read."""
ID = 7
OMIT = object()
"""Leaves a key out where a table has a value for it."""
PLACES = ("modern", "sessionless", "session", "stdio-modern", "stdio-legacy")
"""Where cases are played: HTTP in three ways, and standard streams in two."""


@dataclass(frozen=True)
class Case:
    """`places` are verdicts that differ from `verdict` in one of the PLACES; None: it is not played there."""

    name: str
    body: bytes
    verdict: Verdict
    era: str = "any"
    id: Any = NO_ID
    status: int | None = None
    headers: Mapping[str, str] | None = None
    places: Mapping[str, Verdict | None] = field(default_factory=dict)

    def verdict_at(self, place: str) -> Verdict | None:
        if self.era != "any" and (self.era == "modern") != place.endswith("modern"):
            return None
        if place in self.places:
            return self.places[place]
        if place.startswith("stdio") and b"\n" in self.body:
            return None  # it would be several lines
        if place.startswith("stdio") and not self.body.strip():
            return SILENCE  # an empty line is no message
        return self.verdict

    def status_at(self, place: str) -> int:
        verdict = self.verdict_at(place)
        if place == "modern" and self.status is not None and isinstance(verdict, int):
            return self.status
        return _status(verdict, modern=place == "modern")

    def headers_at(self, place: str, session: str) -> dict[str, str]:
        if place == "sessionless":
            return {"MCP-Protocol-Version": NEWEST_LEGACY}
        if place == "session":
            return {"MCP-Protocol-Version": NEWEST_LEGACY, "Mcp-Session-Id": session}
        return dict(self.headers) if self.headers is not None else headers_for(self.body)


def _status(verdict: Verdict | None, *, modern: bool) -> int:
    if verdict == SILENCE:
        return 202
    if verdict in (PARSE, REQUEST):
        return 400
    if modern and verdict == METHOD:
        return 404
    return 400 if modern and verdict in (HEADER, CAPABILITY, UNSUPPORTED) else 200


# --- messages ----------------------------------------------------------------------------------------------


def encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def message(
    method: Any = "tools/list", params: Any = OMIT, *, id_: Any = ID, **others: Any
) -> dict[str, Any]:
    """A request; what is OMIT is left out."""
    parts = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params} | others
    return {key: value for key, value in parts.items() if value is not OMIT}


def modern(method: Any = "tools/list", *, id_: Any = ID, meta: Mapping[str, Any] = {}, **params: Any) -> Any:
    """A request with its envelope; `meta` is put into it, and takes out of it what is OMIT."""
    whole = {key: value for key, value in (ENVELOPE | dict(meta)).items() if value is not OMIT}
    return message(method, {**params, "_meta": whole}, id_=id_)


def legacy(method: Any = "tools/list", *, id_: Any = ID, **params: Any) -> Any:
    return message(method, params or OMIT, id_=id_)


def call(era: str, name: Any, arguments: Any = OMIT, **others: Any) -> Any:
    """A tools/call of one era."""
    given = {"name": name, "arguments": arguments} | others
    build = modern if era == "modern" else legacy
    return build("tools/call", **{key: value for key, value in given.items() if value is not OMIT})


def both(
    name: str, method: str, verdict: Verdict, params: Mapping[str, Any] = {}, **options: Any
) -> Iterable[Case]:
    """The same request in both eras, with the same verdict."""
    yield Case(f"{name}, modern", encode(modern(method, **params)), verdict, "modern", ID, **options)
    yield Case(f"{name}, legacy", encode(legacy(method, **params)), verdict, "legacy", ID, **options)


def header_value(text: str) -> str:
    """A text as a header can carry it."""
    plain = text.isascii() and text.isprintable() and text == text.strip()
    if plain and text and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def headers_for(body: bytes) -> dict[str, str]:
    """The headers of a good 2026-07-28 client that sends this body; for nonsense, those of tools/list."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}
    try:
        sent = json.loads(body)
        params = sent.get("params", {})
    except (ValueError, AttributeError, RecursionError):
        return headers
    if isinstance(sent.get("method"), str) and _fits_header(sent["method"]):
        headers["Mcp-Method"] = sent["method"]
    if isinstance(params, dict):
        meta = params.get("_meta")
        version = meta.get(VERSION) if isinstance(meta, dict) else None
        if isinstance(version, str) and _fits_header(version):
            headers["MCP-Protocol-Version"] = version
        if isinstance(params.get("name"), str):
            headers["Mcp-Name"] = header_value(params["name"])
    return headers


def _fits_header(text: str) -> bool:
    return text.isascii() and text.isprintable()
