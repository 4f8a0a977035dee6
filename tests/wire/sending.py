"""Short ways to say things to a server: a call, a session, what a tool has been up to."""

from __future__ import annotations

from typing import Any

from tests.support.clients.raw_http_client import Peer, Response
from tests.wire.cases import NEWEST_LEGACY, call, encode, headers_for, legacy


def post_modern(peer: Peer, message: Any, **headers: str) -> Response:
    """A request as a good 2026-07-28 client sends it; `headers` are put over its own."""
    body = encode(message)
    return peer.post(
        body, headers_for(body) | {key.replace("_", "-"): value for key, value in headers.items()}
    )


def open_session(peer: Peer, version: str = NEWEST_LEGACY, **capabilities: Any) -> str:
    """The id of a new session."""
    body = encode(legacy("initialize", protocolVersion=version, capabilities=capabilities))
    response = peer.post(body)
    assert response.result["protocolVersion"] == version
    return response.headers["mcp-session-id"]


def count_runs(peer: Peer, tool: str = "touch") -> int:
    """How often a tool of the site has run."""
    found: int = post_modern(peer, call("modern", "tally", {"name": tool})).result["structuredContent"]
    return found
