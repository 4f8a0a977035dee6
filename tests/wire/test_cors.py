"""Web pages of other origins: browsers let the listed ones call a server and read what it answers, on both
HTTP stacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.browser import serving_page
from tests.support.clients.raw_http_client import Response, request
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.key_server import Ring, make_shop
from tests.wire.cases import ENVELOPE, MODERN, encode, message
from toolcrib.transports.http.request import MAX_BODY

PAGE = "https://app.example"
ASKED = "authorization,content-type,mcp-param-region,mcp-protocol-version,mcp-session-id,x-other"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": ASKED}


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Ring:
    ring = Ring(tmp_path_factory.mktemp("keys"))
    ring.make("ana")
    return ring


@pytest.fixture(scope="module", params=HTTP_STACKS)
def shop(request: Any, ring: Ring) -> Iterator[Served]:
    with serving(request.param, make_shop(ring), allowed_origins=[PAGE + "/"]) as served:
        yield served


def ask(served: Served, origin: str | None, method: str = "POST", **more: Any) -> Response:
    headers = {**({} if origin is None else {"Origin": origin}), **more.pop("headers", {})}
    return served.exchange(request(more.pop("body", b""), headers, method=method, **more))


def is_readable(response: Response, origin: str = PAGE) -> bool:
    """Return whether a browser lets a page read the response, and nobody else gets it from a cache."""
    exposed = response.headers.get("access-control-expose-headers", "").lower().split(", ")
    is_allowed = response.headers.get("access-control-allow-origin") in (origin, "*")
    return is_allowed and response.headers["vary"] == "Origin" and "mcp-session-id" in exposed


@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages"])
def test_a_preflight_of_a_listed_page_is_answered_without_credentials(shop: Served, path: str) -> None:
    with shop.connect() as peer:
        for _ in range(2):
            peer.send(request(b"", {"Origin": PAGE, **PREFLIGHT}, method="OPTIONS", path=path))
            answer = peer.read()
            assert (answer.status, answer.body, is_readable(answer)) == (200, b"", True)
            allowed = answer.headers["access-control-allow-headers"]
            assert allowed.split(", ") == ASKED.split(",")[:-1]
            assert answer.headers["access-control-allow-methods"] == "GET, POST, DELETE"


def test_a_listed_page_reads_every_answer(shop: Served, ring: Ring) -> None:
    key = {"Authorization": f"Bearer {ring['ana']}"}
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    opened = ask(shop, PAGE, body=encode(message("initialize", params)), headers=key)
    assert (opened.status, is_readable(opened), "mcp-session-id" in opened.headers) == (200, True, True)
    session = key | {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    ping = encode(message("ping"))
    wanted = {"name": "steps", "_meta": {"progressToken": 1}}
    stream = ask(shop, PAGE, body=encode(message("tools/call", wanted)), headers=session)
    assert stream.headers["content-type"] == "text/event-stream"
    assert is_readable(stream)
    for headers, more, status in (
        (session, {"body": ping}, 200),
        ({}, {"body": ping}, 401),
        (key | {"Mcp-Session-Id": "none"}, {"body": ping}, 404),
        (key, {"body": b"{"}, 400),
        (key, {"body": ping, "path": "/nothing"}, 404),
        (key, {"method": "PUT"}, 405),
        (key | {"Content-Type": "text/plain"}, {"body": ping}, 415),
        (key | {"Content-Length": str(MAX_BODY + 1)}, {}, 413),
        (session, {"method": "DELETE"}, 200),
        ({}, {"method": "GET", "path": "/health"}, 200),
    ):
        answer = ask(shop, PAGE, headers=headers, **more)
        assert (answer.status, is_readable(answer)) == (status, True)


def test_a_plain_answer_of_2026_07_28_and_its_stream_can_be_read(shop: Served, ring: Ring) -> None:
    modern = {"Authorization": f"Bearer {ring['ana']}", "MCP-Protocol-Version": MODERN}
    listed = encode(message("tools/list", {"_meta": ENVELOPE}))
    for _ in range(2):  # the second one has a head that is known
        assert is_readable(ask(shop, PAGE, body=listed, headers={**modern, "Mcp-Method": "tools/list"}))
    wanted = encode(message("subscriptions/listen", {"notifications": {}, "_meta": ENVELOPE}))
    with shop.connect() as peer:
        headers = {"Origin": PAGE, **modern, "Mcp-Method": "subscriptions/listen"}
        peer.send(request(wanted, headers))
        assert b"access-control-allow-origin: https://app.example\r\n" in peer._until(b"\r\n\r\n").lower()


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_all_pages_can_be_let_in_and_none_is_by_default(http_stack: str, ring: Ring) -> None:
    with serving(http_stack, make_shop(ring), allowed_origins=["*"]) as served:
        answer = ask(served, "https://any.example", "OPTIONS", headers=PREFLIGHT)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "*")
        assert is_readable(ask(served, "https://any.example"))
    with serving(http_stack, make_shop(ring)) as served:
        answer = ask(served, "http://localhost", "OPTIONS", headers=PREFLIGHT)
        assert answer.status == 401
        assert not [name for name in answer.headers if name == "vary" or name.startswith("access-")]


SCRIPT = """<!doctype html><body><script>
async function talk(url) {
  const headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"};
  const post = (body, more) => fetch(url, {
    method: "POST", headers: {...headers, ...more}, body: JSON.stringify({jsonrpc: "2.0", ...body})});
  const key = {"Authorization": "Bearer " + KEY};
  const info = {name: "page", version: "1"};
  const opening = {protocolVersion: "2025-11-25", capabilities: {}, clientInfo: info};
  const opened = await post({id: 0, method: "initialize", params: opening}, key);
  const session = opened.headers.get("Mcp-Session-Id");
  const more = {...key, "Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"};
  const call = {name: "steps", _meta: {progressToken: 1}};
  const called = await post({id: 1, method: "tools/call", params: call}, more);
  const refused = await post({id: 2, method: "ping"}, {});
  return {session, kind: called.headers.get("Content-Type"), text: await called.text(),
          status: refused.status, challenge: refused.headers.get("WWW-Authenticate")};
}
async function main() {
  const results = [];
  for (const url of URLS) results.push(await talk(url).catch(String));
  await fetch("/", {method: "POST", body: JSON.stringify({origin: location.origin, results})});
}
main();
if (location.hostname === "127.0.0.1")
  document.write(`<iframe src="http://localhost:${location.port}/"></iframe>`);
</script>"""


def test_in_a_browser_a_listed_page_calls_a_tool_and_another_page_cannot(ring: Ring, tmp_path: Path) -> None:
    with serving_page(SCRIPT) as page, ExitStack() as stack:
        listed, other = f"http://127.0.0.1:{page.port}", f"http://localhost:{page.port}"
        sites = [
            stack.enter_context(serving(http_stack, make_shop(ring), allowed_origins=[listed]))
            for http_stack in HTTP_STACKS
        ]
        urls = [f"http://127.0.0.1:{site.port}/mcp" for site in sites]
        page.html = SCRIPT.replace("URLS", json.dumps(urls)).replace("KEY", json.dumps(ring["ana"]))
        reports = page.show(tmp_path, count=2)
    found = {report["origin"]: report["results"] for report in reports}
    assert found[other] == ["TypeError: Failed to fetch"] * 2
    for result in found[listed]:
        assert (bool(result["session"]), result["kind"]) == (True, "text/event-stream")
        assert '"text":"key:ana"' in result["text"]
        assert (result["status"], result["challenge"].startswith("Bearer")) == (401, True)
