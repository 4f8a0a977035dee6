"""Routes of users beside MCP, on both HTTP stacks: what they get and return, and that they are guarded."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from starlette.responses import JSONResponse

from tests.support.http_servers import HTTP_STACKS, Served, serving
from tests.support.key_server import Ring, make_shop
from tests.support.raw_http_client import Response, request
from toolcrib import MCPServer
from toolcrib.errors import ConfigurationError
from toolcrib.transports.http.routes import HTTPRequest, HTTPResponse

ENDED = threading.Event()


def add_routes(server: MCPServer) -> MCPServer:
    @server.route("/orders/{id}/lines/{line}", methods=["GET", "PUT"])
    async def order(request: HTTPRequest) -> dict[str, Any]:
        return {
            "method": request.method,
            "params": request.path_params,
            "query": request.query_params,
            "agent": request.headers.get("user-agent"),
            "body": (await request.body()).decode(),
            "who": request.principal.name,
        }

    @server.route("/thread")
    def thread(request: HTTPRequest) -> str:
        return threading.current_thread().name

    @server.route("/nothing", methods=["post"])
    def nothing(request: HTTPRequest) -> None: ...

    @server.route("/bytes")
    def image(request: HTTPRequest) -> HTTPResponse:
        return HTTPResponse(b"\x89PNG", 201, {"X-Kind": "small"}, "image/png")

    @server.route("/starlette")
    async def starlette(request: HTTPRequest) -> JSONResponse:
        return JSONResponse({"ok": True}, 202, {"x-kind": "theirs"})

    @server.route("/broken")
    async def broken(request: HTTPRequest) -> str:
        raise ValueError("a secret")

    @server.route("/injected")
    async def injected(request: HTTPRequest) -> HTTPResponse:
        return HTTPResponse("", headers={"X-Kind": "a\r\nSet-Cookie: b"})

    @server.route("/forever")
    async def forever(request: HTTPRequest) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ENDED.set()

    return server


@pytest.fixture(scope="module", params=HTTP_STACKS)
def site(request: Any) -> Iterator[Served]:
    with serving(request.param, add_routes(MCPServer("site", timeout_s=5))) as served:
        yield served


def ask(site: Served, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Response:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return site.exchange(request(body, fields, method=method, path=path))


def test_a_route_gets_all_of_a_request(site: Served) -> None:
    answer = ask(site, "/orders/a%20b/lines/7?x=1&y=", "PUT", b"text", User_Agent="curl")
    assert answer.status == 200
    assert answer.json == {
        "method": "PUT",
        "params": {"id": "a b", "line": "7"},
        "query": {"x": "1", "y": ""},
        "agent": "curl",
        "body": "text",
        "who": "local",
    }


def test_results_of_every_kind_become_responses(site: Served) -> None:
    text = ask(site, "/thread")
    assert (text.status, text.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert text.body.decode() != threading.current_thread().name
    assert (ask(site, "/nothing", "POST").status, ask(site, "/nothing", "POST").body) == (204, b"")
    image = ask(site, "/bytes")
    assert (image.status, image.body, image.headers["content-type"]) == (201, b"\x89PNG", "image/png")
    assert image.headers["x-kind"] == "small"
    theirs = ask(site, "/starlette")
    assert (theirs.status, theirs.json, theirs.headers["x-kind"]) == (202, {"ok": True}, "theirs")


def test_a_failing_route_shows_nothing_of_its_error(site: Served) -> None:
    for path in ("/broken", "/injected"):
        answer = ask(site, path)
        assert (answer.status, "secret" in answer.body.decode()) == (500, False)
        assert "set-cookie" not in answer.headers
    assert any("Route /broken failed" in line for line in site.complaints)


def test_other_methods_and_paths_are_refused(site: Served) -> None:
    answer = ask(site, "/thread", "DELETE")
    assert (answer.status, answer.headers["allow"]) == (405, "GET")
    assert ask(site, "/orders/1/lines").status == 404
    assert ask(site, "/orders//lines/1").status == 404


def test_foreign_hosts_get_nothing(site: Served) -> None:
    assert site.exchange(request(b"", method="GET", path="/thread", host="evil.example")).status == 421


def test_a_route_ends_with_its_client(site: Served) -> None:
    ENDED.clear()
    with site.connect() as peer:
        peer.send(request(b"", method="GET", path="/forever"))
        peer.send(b"")
        # The function runs once the request was read.
        ask(site, "/thread")
    assert ENDED.wait(5)


@pytest.mark.parametrize("stack", HTTP_STACKS)
def test_a_server_with_keys_asks_for_one(stack: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    ring = Ring(tmp_path_factory.mktemp("keys"))
    ring.make("ana")
    with serving(stack, add_routes(make_shop(ring))) as site:
        assert ask(site, "/orders/1/lines/2").status == 401
        shown = ask(site, "/orders/1/lines/2", Authorization=f"Bearer {ring['ana']}")
        assert (shown.status, json.loads(shown.body)["who"]) == (200, "key:ana")


@pytest.mark.parametrize(
    ("path", "methods", "message"),
    [
        ("webhook", ["GET"], "must be a path"),
        ("/a b", ["GET"], "must be a path"),
        ("/{id}/{id}", ["GET"], "names a parameter twice"),
        ("/{1}", ["GET"], "without a valid name"),
        ("/ok", ["FETCH"], "unknown method 'FETCH'"),
        ("/health", ["GET"], "a page of the server itself"),
    ],
)
def test_a_route_that_cannot_work_is_refused(path: str, methods: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        MCPServer("x").route(path, methods=methods)(print)


def test_a_route_cannot_take_the_path_of_mcp() -> None:
    server = MCPServer("x")
    server.route("/mcp")(print)
    with pytest.raises(ConfigurationError, match="/mcp is the path of MCP"):
        server.asgi()


# --- routes that fail, block or are attacked -----------------------------------------------------------


def add_failures(server: MCPServer) -> threading.Event:
    """Add routes that fail in uncommon ways; those that block go on when the event is set."""
    go_on = threading.Event()

    @server.route("/exit")
    async def leave(request: HTTPRequest) -> None:
        sys.exit(3)

    @server.route("/exit-thread")
    def leave_thread(request: HTTPRequest) -> None:
        raise SystemExit(3)

    @server.route("/broken-thread")
    def break_thread(request: HTTPRequest) -> None:
        raise KeyError("on a thread")

    @server.route("/cancelled")
    async def cancel(request: HTTPRequest) -> None:
        raise asyncio.CancelledError

    @server.route("/status")
    async def status(request: HTTPRequest) -> HTTPResponse:
        return HTTPResponse(status_code="200")  # type: ignore[arg-type]

    @server.route("/media-type")
    async def media_type(request: HTTPRequest) -> HTTPResponse:
        return HTTPResponse("", media_type="text/plain\r\nSet-Cookie: a=b")

    @server.route("/starlette-header")
    async def starlette(request: HTTPRequest) -> JSONResponse:
        return JSONResponse({}, headers={"X-Kind": "a\r\nSet-Cookie: a=b"})

    @server.route("/block")
    def block(request: HTTPRequest) -> None:
        go_on.wait(30)

    return go_on


@pytest.fixture(scope="module", params=HTTP_STACKS)
def failing(request: Any) -> Iterator[Served]:
    server = add_routes(MCPServer("site", timeout_s=30))
    go_on = add_failures(server)
    with serving(request.param, server) as served:
        yield served
        go_on.set()


@pytest.mark.parametrize("path", ["/exit", "/exit-thread", "/cancelled", "/status"])
def test_a_route_that_exits_is_an_internal_error_and_the_server_goes_on(failing: Served, path: str) -> None:
    for _ in range(2):
        assert ask(failing, path).status == 500


def test_an_error_on_a_thread_is_logged_with_its_traceback(failing: Served) -> None:
    assert ask(failing, "/broken-thread").status == 500
    assert any("in break_thread" in line and "KeyError" in line for line in failing.complaints)


@pytest.mark.parametrize("path", ["/media-type", "/starlette-header"])
def test_a_line_break_in_a_header_is_refused(failing: Served, path: str) -> None:
    answer = ask(failing, path)
    assert (answer.status, "set-cookie" in answer.headers) == (500, False)


@pytest.mark.parametrize(
    "id_", ["..%2f..%2fetc", "..%252f..%252fetc", "a%2Fb", "..%5c..%5cetc", "..", "%2e%2e", ".", "a%00"]
)
def test_a_path_parameter_is_one_segment(failing: Served, id_: str) -> None:
    found = ask(failing, f"/orders/{id_}/lines/7")
    if found.status == 200:  # the handler gets what was sent, decoded once
        assert found.json["params"]["id"] == "..%2f..%2fetc"
    else:
        assert found.status in (400, 404)


def test_blocked_routes_do_not_stop_others(failing: Served) -> None:
    with ExitStack() as stack:
        for _ in range(40):
            peer = stack.enter_context(failing.connect())
            peer.send(request(b"", method="GET", path="/block"))
        assert ask(failing, "/thread").status == 200
