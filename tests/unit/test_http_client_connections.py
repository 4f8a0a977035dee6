"""Time limits, sizes, redirects, pools and secrets of the HTTP client, against a real server."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.support.servers.scripted_http_server import SECRET, World, told
from tests.support.system.certificates import make_certificate
from toolcrib.errors import APIError
from toolcrib.http_client import HTTPClient


async def test_an_answer_that_does_not_come_is_an_error_in_time(world: World) -> None:
    outbound = HTTPClient(world.origin, timeout_s=5)
    told(outbound.request("GET", "/x"))
    told(await outbound.arequest("GET", "/x"))
    started = time.monotonic()
    with pytest.raises(APIError, match=r"^GET /slow: no response within 0\.1 s$"):
        outbound.request("GET", f"/slow?key={SECRET}", timeout_s=0.1)
    with pytest.raises(APIError, match=r"^GET /slow: no response within 0\.1 s$"):
        await outbound.arequest("GET", f"/slow?key={SECRET}", timeout_s=0.1)
    assert time.monotonic() - started < 2
    await outbound.aclose()


async def test_an_answer_that_drips_is_over_when_the_time_is(world: World) -> None:
    outbound = HTTPClient(world.origin, timeout_s=0.15)
    with pytest.raises(APIError, match=r"GET /drip: no response within 0\.15 s"):
        outbound.request("GET", "/drip")
    with pytest.raises(APIError, match=r"GET /drip: no response within 0\.15 s"):
        await outbound.arequest("GET", "/drip")
    await outbound.aclose()


async def test_a_host_that_does_not_listen_is_named_without_credentials() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, never listening: a connection is refused
        port = taken.getsockname()[1]
        outbound = HTTPClient(f"http://ann:{SECRET}@127.0.0.1:{port}/bot-{SECRET}", headers={"X-Key": SECRET})
        expected = f"^GET /weather: cannot connect to 127.0.0.1:{port}$"
        with pytest.raises(APIError, match=expected) as error:
            outbound.request("GET", f"/weather?key={SECRET}")
        with pytest.raises(APIError, match=expected):
            await outbound.arequest("GET", "/weather", params={"key": SECRET})
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


async def test_a_connection_that_fails_for_another_reason_than_a_missing_server_names_the_reason(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    secure = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    secure.load_cert_chain(*make_certificate(tmp_path, "tools.example.com"))
    async with await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=secure) as listening:
        authority = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        with pytest.raises(APIError) as untrusted:
            await HTTPClient(f"https://{authority}").arequest("GET", "/x")
    text = f"GET /x: cannot connect to {authority}: the certificate is not trusted (self-signed certificate)"
    assert str(untrusted.value) == text

    with pytest.raises(APIError, match=r"^GET /x: cannot connect to .*: the TLS handshake failed$"):
        await HTTPClient(world.origin.replace("http:", "https:")).arequest("GET", "/x")

    def find_nothing(*args: Any, **options: Any) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", find_nothing)
    with pytest.raises(APIError, match=r"^GET /x: cannot connect to tools\.example\.com:80: unknown host$"):
        await HTTPClient("http://tools.example.com").arequest("GET", "/x")


async def test_a_connection_that_breaks_is_an_error_in_words(world: World) -> None:
    outbound = HTTPClient(world.origin)
    with pytest.raises(
        APIError, match=r"GET /cut: .* closed the connection before the response was complete"
    ):
        outbound.request("GET", "/cut")
    with pytest.raises(
        APIError, match=r"GET /cut: .* closed the connection before the response was complete"
    ):
        await outbound.arequest("GET", "/cut")
    with pytest.raises(APIError, match="GET /garbled: the response has an invalid"):
        outbound.request("GET", "/garbled")


async def test_an_answer_without_end_is_cut_off_while_it_streams(world: World) -> None:
    outbound = HTTPClient(world.origin, max_bytes=1 << 20)
    with pytest.raises(APIError, match="GET /endless: the response is larger than 1 MiB") as error:
        outbound.request("GET", "/endless")
    assert error.value.status == 200
    with pytest.raises(APIError, match="larger than 1 MiB"):
        await outbound.arequest("GET", "/endless")
    await outbound.aclose()
    assert world.sent_bytes < 64 << 20  # what sockets buffer, not what the server would have sent


def test_the_size_is_counted_after_decompression(world: World) -> None:
    outbound = HTTPClient(world.origin, max_bytes=100_000)
    with pytest.raises(APIError, match="larger than 100000 bytes"):
        outbound.request("GET", "/bomb")
    assert outbound.request("GET", "/zipped").content == b"unfolded"


def test_redirects_are_not_followed(world: World) -> None:
    outbound = HTTPClient(world.origin)
    response = outbound.request("GET", "/moved?to=/weather")
    assert (response.status_code, response.headers["LOCATION"]) == (302, "/weather")
    assert len(world.requests) == 1
    with pytest.raises(APIError, match="GET /moved: redirect to an invalid address"):
        outbound.request("GET", "/moved", params={"to": "http://1.2.3.400/"})


def test_one_connection_serves_many_requests(world: World) -> None:
    outbound = HTTPClient(world.origin)
    for number in range(10):
        told(outbound.request("GET", f"/x/{number}"))
    assert world.connections == 1
    outbound.close()
    told(outbound.request("GET", "/again"))
    assert world.connections == 2


def test_twenty_threads_share_one_pool(world: World) -> None:
    outbound = HTTPClient(world.origin)
    together = threading.Barrier(20)

    def ask(number: int) -> list[str]:
        together.wait(5)
        return [told(outbound.request("GET", f"/{number}/{turn}"))["target"] for turn in range(5)]

    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(ask, range(20)))
    assert answers == [[f"/{number}/{turn}" for turn in range(5)] for number in range(20)]
    assert world.connections <= 20
    outbound.close()


def test_no_more_connections_are_open_than_allowed(world: World) -> None:
    outbound = HTTPClient(world.origin, max_connections=2)
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


def test_each_loop_has_its_own_pool_which_ends_with_it(world: World) -> None:
    async def ask(outbound: HTTPClient) -> None:
        told(await outbound.arequest("GET", "/x"))
        told(await outbound.arequest("GET", "/x"))

    outbound = HTTPClient(world.origin)
    for turn in range(1, 4):
        asyncio.run(ask(outbound))
        assert world.connections == turn
    assert len(outbound._loop_clients) == 1  # the pools of loops that ended are forgotten
    del outbound
    gc.collect()  # an open socket would be a ResourceWarning here


def test_closing_reaches_the_pool_of_a_loop_in_another_thread(world: World) -> None:
    outbound = HTTPClient(world.origin)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(outbound.arequest("GET", "/x"), loop).result(5)
    asyncio.run(outbound.aclose())
    assert not outbound._loop_clients
    asyncio.run_coroutine_threadsafe(outbound.arequest("GET", "/x"), loop).result(5)
    assert world.connections == 2
    asyncio.run_coroutine_threadsafe(outbound.aclose(), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


async def test_a_cancelled_request_leaves_the_pool_usable(world: World) -> None:
    outbound = HTTPClient(world.origin, max_connections=1)
    task = asyncio.create_task(outbound.arequest("GET", "/slow"))
    while not world.requests:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    told(await outbound.arequest("GET", "/x", timeout_s=2))
    await outbound.aclose()


def test_a_client_that_is_forgotten_closes_its_connections(world: World) -> None:
    outbound = HTTPClient(world.origin)
    told(outbound.request("GET", "/x"))
    del outbound
    gc.collect()  # an open socket would be a ResourceWarning here


def test_cookies_of_one_caller_do_not_reach_the_next(world: World) -> None:
    outbound = HTTPClient(world.origin)
    outbound.request("GET", "/cookie")
    assert "cookie" not in told(outbound.request("GET", "/x"))["headers"]


def test_nothing_of_a_request_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    HTTPClient(world.origin, headers={"X-Key": SECRET}).request("GET", f"/x?key={SECRET}")
    assert SECRET not in caplog.text


def test_a_response_shows_neither_body_nor_query(world: World) -> None:
    response = HTTPClient(world.origin).request("GET", f"/x?key={SECRET}")
    assert "GET /x" in repr(response)
    assert SECRET not in repr(response)


def test_loopback_never_goes_through_a_proxy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    assert told(HTTPClient(world.origin).request("GET", "/x"))["target"] == "/x"


def test_other_hosts_go_through_the_proxy_of_the_environment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", world.origin)
    monkeypatch.setenv("no_proxy", "")
    assert told(HTTPClient("http://api.example").request("GET", "/x"))["target"] == "http://api.example/x"


def test_importing_the_module_does_not_load_the_engine() -> None:
    code = "import sys, toolcrib.http_client; sys.exit('httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
