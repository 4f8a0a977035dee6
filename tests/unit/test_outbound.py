"""The outbound client against a real server on the loopback."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from toolcrib.errors import APIError, ConfigurationError
from toolcrib.outbound import Outbound, Response

SECRET = "s3cret-v4lue"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: World

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.server.requests.append(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = getattr(self, "answer_" + url.path.strip("/").split("/")[0], None)
        if answer is not None:
            answer(dict(parse_qsl(url.query)))
            return
        told = {
            "method": self.command,
            "target": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": body.decode("latin-1"),
        }
        self.send(200, json.dumps(told).encode(), {"Content-Type": "application/json"})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_slow(self, query: dict[str, str]) -> None:
        self.server.released.wait(5)
        self.close_connection = True

    def answer_drip(self, query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        try:
            while not self.server.released.wait(0.02):
                self.wfile.write(b".")
        except OSError:
            pass
        self.close_connection = True

    def answer_endless(self, query: dict[str, str]) -> None:
        self.close_connection = True
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"x" * 65536)
                self.server.sent_bytes += 65536
        except OSError:
            pass

    def answer_bomb(self, query: dict[str, str]) -> None:
        self.send(200, gzip.compress(bytes(20_000_000)), {"Content-Encoding": "gzip"})

    def answer_zipped(self, query: dict[str, str]) -> None:
        self.send(200, gzip.compress(b"unfolded"), {"Content-Encoding": "gzip"})

    def answer_garbled(self, query: dict[str, str]) -> None:
        self.send(200, b"this is not gzip", {"Content-Encoding": "gzip"})

    def answer_cut(self, query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"only this")
        self.close_connection = True

    def answer_moved(self, query: dict[str, str]) -> None:
        self.send(302, b"elsewhere", {"Location": query["to"]})

    def answer_circle(self, query: dict[str, str]) -> None:
        self.send(307, b"", {"Location": "/circle"})

    def answer_cookie(self, query: dict[str, str]) -> None:
        self.send(200, b"", {"Set-Cookie": "who=first-caller; Path=/"})

    def log_message(self, *args: Any) -> None:
        pass


class World(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.connections = 0
        self.requests: list[str] = []
        self.sent_bytes = 0
        self.released = threading.Event()
        self.origin = f"http://127.0.0.1:{self.server_port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)


@pytest.fixture
def world() -> Iterator[World]:
    with World() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


def told(response: Response) -> Any:
    assert response.status_code == 200
    return json.loads(response.content)


@pytest.mark.parametrize(
    ("base", "path", "target"),
    [
        ("", "/weather", "/weather"),
        ("", "weather", "/weather"),
        ("/", "/weather", "/weather"),
        ("/", "weather", "/weather"),
        ("/api/v3", "/repos/a/b", "/api/v3/repos/a/b"),
        ("/api/v3/", "repos", "/api/v3/repos"),
        ("/api/v3", "", "/api/v3"),
        ("/api/v3/", "", "/api/v3/"),
        ("/api/v3", "?page=2", "/api/v3?page=2"),
        ("", "", "/"),
        ("", "/weather?q=London&units=metric", "/weather?q=London&units=metric"),
        ("", "/weather?q=New York", "/weather?q=New%20York"),
        ("", "/weather?q=São Paulo", "/weather?q=S%C3%A3o%20Paulo"),
        ("", "/search?q=C# jobs&page=2", "/search?q=C%23%20jobs&page=2"),
        ("", "/projects/group%2Fname", "/projects/group%2Fname"),
        ("", "/files/a..b/.hidden/...", "/files/a..b/.hidden/..."),
        ("", "/at/@user:8080/x", "/at/@user:8080/x"),
        ("", "/search?next=../../etc", "/search?next=../../etc"),
    ],
)
def test_a_path_is_joined_to_the_base_address(world: World, base: str, path: str, target: str) -> None:
    assert told(Outbound(world.origin + base).request("GET", path))["target"] == target


@pytest.mark.parametrize("base", ["", "/", "/api/v3"])
def test_a_full_address_below_the_base_is_as_good_as_a_path(world: World, base: str) -> None:
    outbound = Outbound(world.origin + base)
    full = f"{world.origin}{base.rstrip('/')}/repos?page=1"
    assert told(outbound.request("GET", full))["target"] == f"{base.rstrip('/')}/repos?page=1"


def test_params_join_the_query_that_is_in_the_path(world: World) -> None:
    outbound = Outbound(world.origin)
    params = {"units": "metric", "page": 2, "tag": ["a", "b&c"], "deep": True, "left_out": None}
    target = told(outbound.request("GET", "/weather?q=New York&page=1", params=params))["target"]
    assert parse_qsl(urlsplit(target).query) == [
        ("q", "New York"),
        ("page", "2"),
        ("units", "metric"),
        ("tag", "a"),
        ("tag", "b&c"),
        ("deep", "true"),
    ]


LEAVING = {
    "another host": "https://evil.example/steal",
    "another host without scheme": "//evil.example/steal",
    "another scheme": "https://{place}/api/x",
    "another port": "http://127.0.0.1:1/api/x",
    "a longer host": "http://{place}.evil.example/api/x",
    "the base as a user name": "http://{place}@evil.example/api/x",
    "a user name": "http://user:pw@{place}/api/x",
    "a fragment before the host": "http://evil.example#@{place}/api/x",
    "a host ended by a backslash": "http://evil.example\\@{place}/api/x",
    "a file": "file:///etc/passwd",
    "a scheme with one slash": "http:/evil.example",
    "a path beside the base": "http://{place}/admin",
    "a path with the base as a prefix": "http://{place}/apiary",
    "an encoded base path": "http://{place}/%61pi/x",
    "no path": "http://{place}",
    "dots": "/../admin",
    "dots without a slash": "../admin",
    "dots that stay below": "/x/../y",
    "dots at the end": "/x/..",
    "a single dot": "/./x",
    "encoded dots": "/%2e%2e/admin",
    "half encoded dots": "/.%2E/admin",
    "twice encoded dots": "/%252e%252e/admin",
    "dots and an encoded slash": "/..%2fadmin",
    "dots and an encoded backslash": "/..%5cadmin",
    "dots with parameters": "/..;x=1/admin",
    "dots and a space": "/..%20/admin",
    "endless encoding": "/%2525252525252e/admin",
    "dots in a full address": "http://{place}/api/../admin",
    "a backslash": "/\\evil.example",
    "two backslashes": "\\\\evil.example\\x",
    "a line break": "/x\r\nHost: evil.example",
    "a lone line feed": "/x\ny",
    "a line break in the query": "/x?a=1\r\nX: y",
    "a tab": "/x\ty",
    "a null": "/x\0",
    "an encoded line break": "/x%0d%0aHost: evil.example",
    "an encoded null": "/x%00",
    "a lone surrogate": "/\ud800",
    "an address without end": "/" + "x" * 70_000,
}


@pytest.mark.parametrize("path", LEAVING.values(), ids=LEAVING)
async def test_a_request_that_would_leave_the_base_is_never_sent(world: World, path: str) -> None:
    outbound = Outbound(f"{world.origin}/api")
    path = path.replace("{place}", f"127.0.0.1:{world.server_port}")
    with pytest.raises(APIError, match="GET refused: ") as sync_error:
        outbound.request("GET", path)
    with pytest.raises(APIError, match="GET refused: ") as async_error:
        await outbound.arequest("GET", path)
    assert world.requests == []
    assert world.connections == 0
    for error in (sync_error, async_error):
        assert not any(word in str(error.value) for word in ("evil", "passwd", "admin", "pw"))
        assert error.value.__cause__ is None


@pytest.mark.parametrize(
    "path", ["ftp://host/x", "file:///etc/passwd", "gopher://host", "/relative", "//host/x", ""]
)
def test_without_a_base_only_full_http_addresses_are_asked(path: str) -> None:
    with pytest.raises(APIError, match="GET refused"):
        Outbound().request("GET", path)


def test_without_a_base_any_http_address_may_be_asked(world: World) -> None:
    response = Outbound().request("GET", f"{world.origin}/openapi.json?x=1")
    assert told(response)["target"] == "/openapi.json?x=1"
    assert response.label == "GET /openapi.json"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host",
        "host/path",
        "http://",
        "http://a b/",
        "http://h/../x",
        "http://h/x?y=1",
        "http://h:99999",
        "http://h\n",
    ],
)
def test_a_base_address_that_cannot_work_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url"):
        Outbound(url)


def test_name_and_password_of_the_base_become_basic_authentication(world: World) -> None:
    base = world.origin.replace("http://", "http://ann:p%40ss@")
    outbound = Outbound(base)
    sent = told(outbound.request("GET", "/x"))
    assert sent["headers"]["authorization"] == "Basic YW5uOnBAc3M="
    assert sent["headers"]["host"] == f"127.0.0.1:{world.server_port}"
    assert told(outbound.request("GET", f"{base}/x"))["target"] == "/x"
    assert (
        told(outbound.request("GET", "/x", headers={"Authorization": "Bearer t"}))["headers"]["authorization"]
        == "Bearer t"
    )
    explicit = Outbound(base, auth=("bob", "pw"))
    assert told(explicit.request("GET", "/x"))["headers"]["authorization"] == "Basic Ym9iOnB3"


def test_headers_may_be_a_function_that_is_asked_each_time(world: World) -> None:
    tokens = iter(["one", "two"])
    outbound = Outbound(
        world.origin, headers=lambda: {"Authorization": f"Bearer {next(tokens)}", "X-None": None}
    )
    assert told(outbound.request("GET", "/x"))["headers"]["authorization"] == "Bearer one"
    sent = told(outbound.request("GET", "/x", headers={"X-Own": "1"}))["headers"]
    assert (sent["authorization"], sent["x-own"], "x-none" in sent) == ("Bearer two", "1", False)


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Token": f"{SECRET}\r\nX-Admin: 1"},
        {"X-Token": f"{SECRET}\n"},
        {"X-Token": f"{SECRET}\0"},
        {f"X: {SECRET}\r\nX-Admin": "1"},
        {"X Token": SECRET},
        {"Host": "evil.example"},
        {"Content-Length": "0"},
        {"transfer-encoding": "chunked"},
        {"X-Token": "\ud800"},
    ],
)
@pytest.mark.parametrize("standing", [True, False])
def test_a_header_that_would_change_the_request_is_refused(
    world: World, headers: dict[str, str], standing: bool
) -> None:
    outbound = Outbound(world.origin, headers=headers if standing else None)
    with pytest.raises(APIError, match="GET refused") as error:
        outbound.request("GET", "/x", headers=None if standing else headers)
    assert SECRET not in str(error.value)
    assert world.connections == 0


def test_each_kind_of_body_brings_its_content_type(world: World) -> None:
    outbound = Outbound(world.origin, headers={"Content-Type": "application/json"})
    as_json = told(outbound.request("POST", "/x", json={"a": [1, None]}))
    assert (as_json["body"], as_json["headers"]["content-type"]) == ('{"a":[1,null]}', "application/json")
    assert told(outbound.request("POST", "/x", json=None))["body"] == "null"
    patched = told(
        outbound.request("PATCH", "/x", json={}, headers={"content-type": "application/merge-patch+json"})
    )
    assert patched["headers"]["content-type"] == "application/merge-patch+json"
    form = told(outbound.request("PUT", "/x", data={"a": "1 2", "b": ["x", "y"]}))
    assert (form["body"], form["headers"]["content-type"]) == (
        "a=1+2&b=x&b=y",
        "application/x-www-form-urlencoded",
    )
    files = told(
        outbound.request("POST", "/x", data={"a": "1"}, files={"f": ("n.txt", b"inside", "text/plain")})
    )
    assert files["headers"]["content-type"].startswith("multipart/form-data; boundary=")
    assert 'filename="n.txt"' in files["body"]
    assert "inside" in files["body"]
    raw = told(
        outbound.request("POST", "/x", content=b"\x01raw", headers={"Content-Type": "application/x-own"})
    )
    assert (raw["body"], raw["headers"]["content-type"]) == ("\x01raw", "application/x-own")
    empty = told(outbound.request("POST", "/x"))
    assert (empty["body"], empty["headers"]["content-length"]) == ("", "0")


def test_two_bodies_and_unknown_options_are_mistakes_of_the_author(world: World) -> None:
    outbound = Outbound(world.origin)
    with pytest.raises(TypeError, match="one body"):
        outbound.request("POST", "/x", json={}, content=b"")
    with pytest.raises(TypeError, match="unknown option: timeout"):
        outbound.request("GET", "/x", timeout=3)  # type: ignore[call-arg]


def test_a_number_that_json_cannot_express_is_named(world: World) -> None:
    with pytest.raises(APIError, match=r"POST refused: a\.b is nan"):
        Outbound(world.origin).request("POST", "/x", json={"a": {"b": float("nan")}})


async def test_an_answer_that_does_not_come_is_an_error_in_time(world: World) -> None:
    outbound = Outbound(world.origin, timeout_s=5)
    started = time.monotonic()
    with pytest.raises(APIError, match=r"^GET /slow: no answer within 0\.1 s$"):
        outbound.request("GET", f"/slow?key={SECRET}", timeout_s=0.1)
    with pytest.raises(APIError, match=r"^GET /slow: no answer within 0\.1 s$"):
        await outbound.arequest("GET", f"/slow?key={SECRET}", timeout_s=0.1)
    assert time.monotonic() - started < 1
    await outbound.aclose()


async def test_an_answer_that_drips_is_over_when_the_time_is(world: World) -> None:
    outbound = Outbound(world.origin, timeout_s=0.15)
    with pytest.raises(APIError, match=r"GET /drip: no answer within 0\.15 s"):
        outbound.request("GET", "/drip")
    with pytest.raises(APIError, match=r"GET /drip: no answer within 0\.15 s"):
        await outbound.arequest("GET", "/drip")
    await outbound.aclose()


async def test_a_host_that_does_not_listen_is_named_without_credentials() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, never listening: a connection is refused
        port = taken.getsockname()[1]
        outbound = Outbound(f"http://ann:{SECRET}@127.0.0.1:{port}/bot-{SECRET}", headers={"X-Key": SECRET})
        expected = f"^GET /weather: cannot connect to 127.0.0.1:{port}$"
        with pytest.raises(APIError, match=expected) as error:
            outbound.request("GET", f"/weather?key={SECRET}")
        with pytest.raises(APIError, match=expected):
            await outbound.arequest("GET", "/weather", params={"key": SECRET})
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


async def test_a_connection_that_breaks_is_an_error_in_words(world: World) -> None:
    outbound = Outbound(world.origin)
    with pytest.raises(APIError, match=r"GET /cut: .* broke off before the answer was complete"):
        outbound.request("GET", "/cut")
    with pytest.raises(APIError, match=r"GET /cut: .* broke off before the answer was complete"):
        await outbound.arequest("GET", "/cut")
    with pytest.raises(APIError, match="GET /garbled: the answer is compressed"):
        outbound.request("GET", "/garbled")


async def test_an_answer_without_end_is_cut_off_while_it_streams(world: World) -> None:
    outbound = Outbound(world.origin, max_bytes=1 << 20)
    with pytest.raises(APIError, match="GET /endless answered with more than 1 MiB") as error:
        outbound.request("GET", "/endless")
    assert error.value.status == 200
    with pytest.raises(APIError, match="more than 1 MiB"):
        await outbound.arequest("GET", "/endless")
    await outbound.aclose()
    assert world.sent_bytes < 64 << 20  # what sockets buffer, not what the server would have sent


def test_the_size_is_counted_after_decompression(world: World) -> None:
    outbound = Outbound(world.origin, max_bytes=100_000)
    with pytest.raises(APIError, match="more than 100000 bytes"):
        outbound.request("GET", "/bomb")
    assert outbound.request("GET", "/zipped").content == b"unfolded"


def test_redirects_are_not_followed_unless_asked(world: World) -> None:
    response = Outbound(world.origin).request("GET", "/moved?to=/weather")
    assert (response.status_code, response.headers["LOCATION"]) == (302, "/weather")
    assert len(world.requests) == 1


async def test_redirects_stay_on_the_same_origin(world: World) -> None:
    outbound = Outbound(world.origin, headers={"X-Key": SECRET}, follow_redirects=True)
    followed = outbound.request("GET", "/moved", params={"to": "/weather?x=1"})
    assert told(followed)["target"] == "/weather?x=1"
    assert told(followed)["headers"]["x-key"] == SECRET
    assert told(await outbound.arequest("GET", "/moved", params={"to": "x"}))["target"] == "/x"
    assert outbound.request("POST", "/moved", params={"to": "/x"}, json={}).status_code == 302
    with World() as elsewhere:  # nobody serves it: a connection would be visible as one waiting
        for target in (
            elsewhere.origin,
            elsewhere.origin.replace("http:", ""),
            "http://a:b@{place}/",
            "https:/x",
            "http://[",
        ):
            params = {"to": target.replace("{place}", f"127.0.0.1:{world.server_port}")}
            with pytest.raises(APIError, match="GET /moved: redirected to another address, which is refused"):
                outbound.request("GET", "/moved", params=params)
        elsewhere.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            elsewhere.socket.accept()
    await outbound.aclose()


def test_redirects_in_a_circle_end(world: World) -> None:
    outbound = Outbound(world.origin, follow_redirects=True)
    with pytest.raises(APIError, match="redirected too often"):
        outbound.request("GET", "/circle")
    assert len(world.requests) == 6


def test_one_connection_serves_many_requests(world: World) -> None:
    outbound = Outbound(world.origin)
    for number in range(10):
        told(outbound.request("GET", f"/x/{number}"))
    assert world.connections == 1
    outbound.close()
    told(outbound.request("GET", "/again"))
    assert world.connections == 2


def test_twenty_threads_share_one_pool(world: World) -> None:
    outbound = Outbound(world.origin)
    together = threading.Barrier(20)

    def ask(number: int) -> list[str]:
        together.wait(5)
        return [told(outbound.request("GET", f"/{number}/{turn}"))["target"] for turn in range(5)]

    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(ask, range(20)))
    assert answers == [[f"/{number}/{turn}" for turn in range(5)] for number in range(20)]
    assert world.connections <= 20
    assert len(outbound._pools) == 1
    outbound.close()


def test_no_more_connections_are_open_than_allowed(world: World) -> None:
    outbound = Outbound(world.origin, max_connections=2)
    with ThreadPoolExecutor(20) as threads:
        list(threads.map(lambda number: told(outbound.request("GET", f"/{number}")), range(40)))
    assert world.connections == 2
    with ThreadPoolExecutor(3) as threads:
        waiting = [threads.submit(outbound.request, "GET", "/slow", timeout_s=0.2) for _ in range(2)]
        while world.requests.count("/slow") < 2:
            time.sleep(0.001)
        with pytest.raises(
            APIError, match=r"GET /x: all connections are in use and none became free within 0\.05 s"
        ):
            outbound.request("GET", "/x", timeout_s=0.05)
        assert all(isinstance(future.exception(), APIError) for future in waiting)
    outbound.close()


async def test_tasks_of_one_loop_share_a_pool(world: World) -> None:
    outbound = Outbound(world.origin)
    answers = await asyncio.gather(*(outbound.arequest("GET", f"/{number}") for number in range(20)))
    assert [told(answer)["target"] for answer in answers] == [f"/{number}" for number in range(20)]
    first = world.connections
    for _ in range(5):
        await outbound.arequest("GET", "/x")
    assert world.connections == first
    assert len(outbound._loop_pools) == 1
    await outbound.aclose()
    assert not outbound._loop_pools


def test_each_loop_has_its_own_pool_which_ends_with_it(world: World) -> None:
    async def ask(outbound: Outbound) -> None:
        told(await outbound.arequest("GET", "/x"))
        told(await outbound.arequest("GET", "/x"))

    outbound = Outbound(world.origin)
    for turn in range(1, 4):
        asyncio.run(ask(outbound))
        assert world.connections == turn
    assert len(outbound._loop_pools) == 1  # the pools of loops that ended are forgotten
    del outbound
    gc.collect()  # an open socket would be a ResourceWarning here


def test_two_loops_at_once_do_not_disturb_each_other(world: World) -> None:
    outbound = Outbound(world.origin)
    together = threading.Barrier(2)

    async def ask() -> int:
        together.wait(5)
        answers = [await outbound.arequest("GET", f"/{turn}") for turn in range(20)]
        together.wait(5)
        return len([told(answer) for answer in answers])

    with ThreadPoolExecutor(2) as threads:
        assert [future.result() for future in [threads.submit(asyncio.run, ask()) for _ in range(2)]] == [
            20,
            20,
        ]
    assert world.connections == 2


def test_closing_reaches_the_pool_of_a_loop_in_another_thread(world: World) -> None:
    outbound = Outbound(world.origin)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(outbound.arequest("GET", "/x"), loop).result(5)
    asyncio.run(outbound.aclose())
    assert not outbound._loop_pools
    asyncio.run_coroutine_threadsafe(outbound.arequest("GET", "/x"), loop).result(5)
    assert world.connections == 2
    asyncio.run_coroutine_threadsafe(outbound.aclose(), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


async def test_a_cancelled_request_leaves_the_pool_usable(world: World) -> None:
    outbound = Outbound(world.origin, max_connections=1)
    task = asyncio.create_task(outbound.arequest("GET", "/slow"))
    while not world.requests:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    told(await outbound.arequest("GET", "/x", timeout_s=2))
    await outbound.aclose()


def test_a_client_that_is_forgotten_closes_its_connections(world: World) -> None:
    outbound = Outbound(world.origin)
    told(outbound.request("GET", "/x"))
    del outbound
    gc.collect()  # an open socket would be a ResourceWarning here


def test_cookies_of_one_caller_do_not_reach_the_next(world: World) -> None:
    outbound = Outbound(world.origin)
    outbound.request("GET", "/cookie")
    assert "cookie" not in told(outbound.request("GET", "/x"))["headers"]


def test_nothing_of_a_request_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    Outbound(world.origin, headers={"X-Key": SECRET}).request("GET", f"/x?key={SECRET}")
    assert SECRET not in caplog.text


def test_a_response_shows_neither_body_nor_query(world: World) -> None:
    response = Outbound(world.origin).request("GET", f"/x?key={SECRET}")
    assert "GET /x" in repr(response)
    assert SECRET not in repr(response)


def test_loopback_never_goes_through_a_proxy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    assert told(Outbound(world.origin).request("GET", "/x"))["target"] == "/x"


def test_other_hosts_go_through_the_proxy_of_the_environment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", world.origin)
    monkeypatch.setenv("no_proxy", "")
    assert told(Outbound("http://api.example").request("GET", "/x"))["target"] == "http://api.example/x"


def test_importing_the_module_does_not_load_the_engine() -> None:
    code = "import sys, toolcrib.outbound; sys.exit('httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
