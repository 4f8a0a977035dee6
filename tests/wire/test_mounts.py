"""ASGI applications and routes beside MCP, on both HTTP stacks: what they get and send, and that they are
guarded and end alone."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from tests.support.clients import raw_http_client
from tests.support.clients.raw_http_client import ClosedError, Peer, request
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.key_server import Ring, make_shop
from toolcrib import MCPServer
from toolcrib.errors import ConfigurationError

LARGE = 8 * 1024 * 1024


class Signals:
    """What applications report to the tests."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.was_in_background = threading.Event()
        self.go_on = threading.Event()
        self.sent = 0


async def show(request: Request) -> JSONResponse:
    return JSONResponse(
        {
            "method": request.method,
            "params": request.path_params,
            "query": dict(request.query_params),
            "agent": request.headers.get("user-agent"),
            "body": (await request.body()).decode(),
            "who": request.state.principal.name,
            "root": request.scope["root_path"],
            "path": request.url.path,
        }
    )


def make_console(signals: Signals) -> Starlette:
    async def events() -> AsyncIterator[str]:
        for number in (1, 2):
            yield f"data: {number}\n\n"
        while not signals.go_on.is_set():  # the client has read the first ones while this one was open
            await asyncio.sleep(0.005)
        yield "data: 3\n\n"

    class Endless:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            try:
                while True:
                    await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
                    signals.sent += 65_536
            finally:
                signals.ended.set()

    async def forever(request: Request) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            signals.ended.set()

    async def exiting() -> AsyncIterator[str]:
        yield "half"
        sys.exit(3)

    def later() -> None:
        signals.was_in_background.set()

    return Starlette(
        routes=[
            Route("/show/{id}", show, methods=["GET", "PUT"]),
            Route("/events", lambda _: StreamingResponse(events(), media_type="text/event-stream")),
            Route("/endless", Endless()),
            Route("/exiting", lambda _: StreamingResponse(exiting())),
            Route("/large", lambda _: Response(b"y" * LARGE)),
            Route("/forever", forever),
            Route("/later", lambda _: PlainTextResponse("ok", background=BackgroundTask(later))),
            Route("/empty", lambda _: Response(status_code=204)),
            Route("/same", lambda _: Response(status_code=304, headers={"etag": '"1"'})),
        ]
    )


async def broken(scope: Any, receive: Any, send: Any) -> None:  # noqa: C901
    """An application that fails in the way that its path says."""
    start = {"type": "http.response.start", "status": 200, "headers": []}
    match scope["path"].rpartition("/")[2]:
        case "error":
            raise ValueError("a secret")
        case "exit":
            sys.exit(3)
        case "group":
            raise BaseExceptionGroup("several", [SystemExit(3)])
        case "cancelled":
            raise asyncio.CancelledError
        case "silent":
            return
        case "status":
            await send({**start, "status": "200"})
        case "injected":
            await send({**start, "headers": [(b"x-kind", b"a\r\nset-cookie: a=b")]})
        case "name":
            await send({**start, "headers": [(b"x kind", b"a")]})
        case "order":
            await send({"type": "http.response.body", "body": b""})
        case "slow":
            await asyncio.Event().wait()
        case "partial":
            await send(start)
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
            raise ValueError("in the middle")
        case "short":
            await send({**start, "headers": [(b"content-length", b"9")]})
            await send({"type": "http.response.body", "body": b"half"})
        case "short-stream":
            await send({**start, "headers": [(b"content-length", b"9")]})
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
            await send({"type": "http.response.body"})
        case "twice":
            await send(start)
            await send({"type": "http.response.body", "body": b"one"})
            await send({"type": "http.response.body", "body": b"two"})


SIGNALS = Signals()


@pytest.fixture(scope="module", params=HTTP_STACKS)
def site(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("static")
    (folder / "page.html").write_text("<p>hello</p>")
    server = MCPServer("site", timeout_s=0.5)
    server.mount("/console", make_console(SIGNALS))
    server.mount("/console/files/", StaticFiles(directory=folder))
    server.mount("/broken", broken)

    @server.route("/orders/{id}/lines/{line}", methods=["GET", "PUT"])
    async def order(request: Request) -> Response:
        return await show(request)

    @server.route("/thread")
    def thread(request: Request) -> Response:
        return PlainTextResponse(threading.current_thread().name, headers={"X-Kind": "small"})

    @server.route("/teapot")
    async def teapot(request: Request) -> Response:
        raise HTTPException(418, "short and stout")

    @server.route("/failing")
    def failing(request: Request) -> Response:
        raise SystemExit("a secret")

    with serving(request.param, server) as served:
        yield served
        SIGNALS.go_on.set()


@pytest.fixture(autouse=True)
def fresh_signals() -> None:
    SIGNALS.__init__()  # type: ignore[misc]


def ask(
    site: Served, path: str, method: str = "GET", body: bytes = b"", **headers: str
) -> raw_http_client.Response:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return site.exchange(request(body, fields, method=method, path=path))


# --- requests and responses --------------------------------------------------------------------------


def test_an_application_gets_all_of_a_request_and_its_prefix(site: Served) -> None:
    answer = ask(site, "/console/show/a%20b?x=1&y=", "PUT", b"text", User_Agent="curl")
    assert answer.status == 200
    assert answer.json == {
        "method": "PUT",
        "params": {"id": "a b"},
        "query": {"x": "1", "y": ""},
        "agent": "curl",
        "body": "text",
        "who": "local",
        "root": "/console",
        "path": "/console/show/a b",
    }


def test_a_route_is_one_of_starlette(site: Served) -> None:
    answer = ask(site, "/orders/7/lines/8?x=1", "PUT", b"text")
    assert (answer.json["params"], answer.json["body"]) == ({"id": "7", "line": "8"}, "text")
    thread = ask(site, "/thread")
    assert (thread.status, thread.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert thread.headers["x-kind"] == "small"
    assert thread.body.decode() != threading.current_thread().name
    assert (ask(site, "/teapot").status, ask(site, "/teapot").body) == (418, b"short and stout")
    assert ask(site, "/thread", "DELETE").status == 405
    assert "GET" in ask(site, "/thread", "DELETE").headers["allow"]
    assert ask(site, "/orders/1/lines").status == 404


def test_files_are_served_and_nothing_above_their_folder(site: Served) -> None:
    page = ask(site, "/console/files/page.html")
    assert (page.status, page.body) == (200, b"<p>hello</p>")
    assert page.headers["content-type"].startswith("text/html")
    assert ask(site, "/console/files/page.html", If_None_Match=page.headers["etag"]).status == 304
    for path in ("../page.html", "..%2f..%2fetc/passwd", "%2e%2e/%2e%2e/etc/passwd", "gone"):
        assert ask(site, f"/console/files/{path}").status == 404


def test_a_head_request_has_no_body_and_the_connection_goes_on(site: Served) -> None:
    with site.connect() as peer:
        for method, path in (("HEAD", "/thread"), ("GET", "/console/empty"), ("GET", "/console/same")):
            peer.send(request(b"", method=method, path=path))
            head = peer.socket.recv(65_536).decode()
            assert head.endswith("\r\n\r\n"), head
            assert "transfer-encoding" not in head
        peer.send(request(b"", method="GET", path="/console/later"))
        assert peer.read().body == b"ok"
    assert SIGNALS.was_in_background.wait(5)


# --- streams -----------------------------------------------------------------------------------------


def test_events_arrive_while_the_stream_is_open(site: Served) -> None:
    with site.connect() as peer:
        peer.send(request(b"", method="GET", path="/console/events"))
        assert peer.read_head() == 200
        assert [peer.read_event(), peer.read_event()] == [1, 2]
        SIGNALS.go_on.set()
        assert peer.read_event() == 3


def test_a_large_body_arrives_whole(site: Served) -> None:
    answer = ask(site, "/console/large")
    assert (answer.headers["content-length"], len(answer.body)) == (str(LARGE), LARGE)


def read_some(peer: Peer) -> None:
    assert peer.socket.recv(1024)


def test_an_application_waits_for_a_client_that_does_not_read_and_ends_with_it(site: Served) -> None:
    with site.connect() as peer:
        peer.send(request(b"", method="GET", path="/console/endless"))
        read_some(peer)
        before = -1
        while before != SIGNALS.sent:  # until nothing more is sent
            before = SIGNALS.sent
            ask(site, "/thread")
        assert SIGNALS.sent < 64 * 1024 * 1024
    assert SIGNALS.ended.wait(5)


# --- guards ------------------------------------------------------------------------------------------


def test_foreign_hosts_and_origins_get_nothing(site: Served) -> None:
    for path in ("/thread", "/console/show/1"):
        assert site.exchange(request(b"", method="GET", path=path, host="evil.example")).status == 421
        assert ask(site, path, Origin="https://evil.example").status == 403


def test_a_body_has_the_limit_of_mcp(site: Served) -> None:
    head = request(b"", {"Content-Length": "5000000"}, method="PUT", path="/console/show/1")
    assert site.exchange(head).status == 413


@pytest.mark.parametrize("stack", HTTP_STACKS)
def test_a_server_with_keys_asks_for_one(stack: str, tmp_path: Path) -> None:
    ring = Ring(tmp_path)
    ring.make("ana")
    server = make_shop(ring)
    server.mount("/console", make_console(SIGNALS))
    server.route("/show/{id}")(show)
    with serving(stack, server) as site:
        for path in ("/console/show/1", "/show/1"):
            assert ask(site, path).status == 401
            shown = ask(site, path, Authorization=f"Bearer {ring['ana']}")
            assert (shown.status, json.loads(shown.body)["who"]) == (200, "key:ana")


# --- failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "way", ["error", "exit", "group", "cancelled", "silent", "status", "injected", "name", "order", "short"]
)
def test_an_application_that_fails_is_an_internal_error_and_the_server_goes_on(
    site: Served, way: str
) -> None:
    for _ in range(2):
        answer = ask(site, f"/broken/{way}")
        assert (answer.status, "secret" in answer.body.decode()) == (500, False)
        assert "set-cookie" not in answer.headers
    assert ask(site, "/thread").status == 200
    if way == "error":
        assert any("application at /broken failed" in line and "a secret" in line for line in site.complaints)


def test_an_application_that_takes_too_long_is_a_time_out(site: Served) -> None:
    assert ask(site, "/broken/slow").status == 504


@pytest.mark.parametrize("path", ["/broken/partial", "/broken/short-stream", "/console/exiting"])
def test_a_part_of_a_response_is_not_taken_for_the_whole(site: Served, path: str) -> None:
    with pytest.raises(ClosedError):
        ask(site, path)
    assert ask(site, "/thread").status == 200


def test_nothing_is_sent_after_the_end_of_a_response(site: Served) -> None:
    with site.connect() as peer:
        peer.send(request(b"", method="GET", path="/broken/twice"))
        assert peer.read().body == b"one"
        peer.send(request(b"", method="GET", path="/thread"))
        assert peer.read().status == 200


def test_a_stream_does_not_hold_up_the_end_of_the_server() -> None:
    server = MCPServer("site")
    server.mount("/console", make_console(SIGNALS))
    with serving("own", server) as site:
        peer = site.connect()
        peer.send(request(b"", method="GET", path="/console/events"))
        assert peer.read_head() == 200
    assert not any("cut off" in line for line in site.complaints)
    with peer:
        assert [peer.read_event(), peer.read_event()] == [1, 2]
        with pytest.raises((ClosedError, OSError)):
            peer.read_event()


# --- registration ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("webhook", "must be a path"),
        ("/a b", "must be a path"),
        ("/{id}/{id}", "Duplicated param name"),
        ("/health", "a page of the server itself"),
    ],
)
def test_a_route_that_cannot_work_is_refused(path: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        MCPServer("x").route(path)(show)


def test_the_path_of_mcp_is_not_taken() -> None:
    server = MCPServer("x")
    server.mount("/mcp", broken)
    with pytest.raises(ConfigurationError, match="/mcp is the path of MCP"):
        server.asgi()


def test_a_server_is_added_and_not_mounted() -> None:
    other: Any = MCPServer("other")
    for arguments in ((other,), ("/other", other)):
        with pytest.raises(ConfigurationError) as caught:
            MCPServer("x").mount(*arguments)
        assert "server.add(other, namespace=...)" in (caught.value.hint or "")
    with pytest.raises(ConfigurationError, match="must be an ASGI application"):
        MCPServer("x").mount("/x", None)


def test_a_route_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "starlette.routing", None)
    with pytest.raises(ConfigurationError) as caught:
        MCPServer("x").route("/x")(show)
    assert "pip install 'toolcrib[routes]'" in (caught.value.hint or "")


def test_an_application_at_the_root_gets_what_no_route_has() -> None:
    server = MCPServer("x")
    server.mount("/", Starlette(routes=[Route("/page", show), Route("/thread", show)]))
    server.route("/thread")(lambda _: PlainTextResponse("route"))
    with serving("own", server) as site:
        assert ask(site, "/page").json["root"] == ""
        assert ask(site, "/thread").body == b"route"
        assert ask(site, "/gone").status == 404
        assert site.post(b"{}").status == 400
