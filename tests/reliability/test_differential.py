"""The same requests to toolcrib, to the official SDKs in Python and TypeScript, and to fastmcp.

Wherever they differ, the difference is in a reviewed list, with its reason; a new kind of difference fails. A
sample every day, 50,000 in a soak.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.clients.raw_http_client import JSON_HEADERS, ClosedError, Peer, Response
from tests.support.clients.reviewed_differences import REVIEWED, find_reviewed
from tests.support.hostile.odd_requests import LEGACY, Draft, draw
from tests.support.servers.server_processes import serving
from tests.support.system.node import CONFORMANCE, Node, node

pytestmark = pytest.mark.row("I4")

pytest.importorskip("mcp", reason="the official SDK is not installed")
pytest.importorskip("fastmcp", reason="fastmcp is not installed")

__all__ = ["node"]

IS_LONG = bool(os.environ.get("TOOLCRIB_SOAK"))
COUNT = 50_000 if IS_LONG else 300
SEED = 20260728
NAMES = ("toolcrib", "mcp", "fastmcp")
TYPESCRIPT = "typescript"


class Server:
    """One of the three, and a session with it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._peer = Peer(port)
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "d", "version": "1"}}
        opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        answer = self._send("POST", json.dumps(opening).encode(), JSON_HEADERS)
        # the TypeScript handler keeps no sessions
        known = answer.headers.get("mcp-session-id")
        self._session = {} if known is None else {"Mcp-Session-Id": known}
        begun = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
        self._send("POST", begun, {**JSON_HEADERS, **self._session})

    def answer(self, draft: Draft) -> str:
        """What becomes of a request: a status, and a word for what is in the answer."""
        headers = {**self._session, **draft.headers} if draft.session else draft.headers
        return outcome(self._send(draft.verb, draft.body, headers))

    def _send(self, verb: str, body: bytes, headers: dict[str, str]) -> Response:
        fields = {"Host": f"127.0.0.1:{self._port}", "Content-Length": str(len(body)), **headers}
        lines = [f"{verb} /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        whole = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
        for _ in range(2):
            try:
                self._peer.send(whole)
                return self._peer.read()
            except ClosedError:
                self._peer.socket.close()
                self._peer = Peer(self._port)
        raise AssertionError(f"no answer to {whole[:300]!r}")

    def close(self) -> None:
        self._peer.socket.close()


def outcome(response: Response) -> str:
    try:
        messages = response.messages
    except ValueError:
        return f"{response.status} text"
    if not messages:
        return f"{response.status} nothing"
    last = messages[-1]
    if isinstance(last, list):
        return f"{response.status} batch"
    if "error" in last:
        return f"{response.status} {last['error']['code']}"
    result = last.get("result", {})
    if result.get("isError"):
        return f"{response.status} failed"
    texts = [block.get("text") for block in result.get("content", ())]
    return f"{response.status} result {value(texts[0])}" if len(texts) == 1 else f"{response.status} result"


def value(text: Any) -> Any:
    """A text as data, so that blanks in it make no difference."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


@pytest.fixture(scope="module")
def servers(node: Node) -> Iterator[dict[str, Server]]:
    script = str(CONFORMANCE / "rival.mjs")
    with ExitStack() as stack:
        started = {
            name: stack.enter_context(serving("-m", "tests.support.servers.peer_servers", name, "{port}"))
            for name in NAMES
        }
        started[TYPESCRIPT] = stack.enter_context(serving(script, "{port}", program=str(node.program)))
        found = {name: Server(process.port) for name, process in started.items()}
        yield found
        for server in found.values():
            server.close()


def ask_all(server: Server) -> list[str]:
    return [server.answer(draft) for draft in draw(SEED, COUNT)]


def test_every_difference_to_the_others_is_known_and_has_a_reason(servers: dict[str, Server]) -> None:
    with ThreadPoolExecutor(len(servers)) as pool:
        found = dict(zip(servers, pool.map(ask_all, servers.values()), strict=True))
    unknown: dict[str, list[str]] = defaultdict(list)
    met = set()
    for number, draft in enumerate(draw(SEED, COUNT)):
        ours = found["toolcrib"][number]
        for name in (*NAMES[1:], TYPESCRIPT):
            theirs = found[name][number]
            reviewed = find_reviewed(draft, name, ours, theirs) if ours != theirs else None
            met.add(reviewed)
            if ours != theirs and reviewed is None:
                kind = f"{name} {draft.era}: {ours} | {theirs}"
                unknown[kind].append(" + ".join(draft.names))
    shown = [f"{kind} ({len(names)}): {'; '.join(names[:6])}" for kind, names in sorted(unknown.items())]
    assert not shown, "\n".join(shown)
    stale = [item for item in REVIEWED if item not in met] if IS_LONG else []
    assert not stale, "nothing differs so any more"


def test_ours_is_never_at_a_loss(servers: dict[str, Server]) -> None:
    """No request makes the server fail, and every answer is JSON or nothing."""
    outcomes = {servers["toolcrib"].answer(draft) for draft in draw(SEED + 1, 200)}
    assert not [item for item in outcomes if item.startswith("5") or item.endswith("text")]
