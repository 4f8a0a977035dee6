"""`/health` and `/ready`: open to every probe, on both HTTP stacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients.raw_http_client import request as to_bytes
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.key_server import Ring, make_shop
from tests.wire.site import make_server
from toolcrib.transports.http.endpoint import Endpoint
from toolcrib.transports.http.hosts import HostCheck
from toolcrib.transports.http.request import Head, Request
from toolcrib.transports.http.response import Response


@pytest.fixture(scope="module", params=HTTP_STACKS)
def shop(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that every caller needs a key for."""
    ring = Ring(tmp_path_factory.mktemp("keys"))
    ring.make("ana")
    with serving(request.param, make_shop(ring)) as served:
        yield served
        assert not served.complaints


@pytest.mark.parametrize("host", ["localhost", "10.1.2.3:8000"])
@pytest.mark.parametrize(("path", "status"), [("/health", "ok"), ("/ready", "ready")])
def test_a_probe_needs_no_key_and_no_host_name(shop: Served, path: str, status: str, host: str) -> None:
    answer = shop.exchange(to_bytes(b"", method="GET", path=path, host=host))
    assert (answer.status, answer.json) == (200, {"status": status})
    assert answer.headers["cache-control"] == "no-store"


def test_probes_only_read(shop: Served) -> None:
    assert shop.exchange(to_bytes(b"{}", path="/health")).status == 405
    assert shop.exchange(to_bytes(b"", method="GET", path="/healthy")).status == 401


async def test_a_server_that_stops_is_alive_but_not_ready() -> None:
    async with make_server() as server:
        endpoint = Endpoint(server.transports.engine, HostCheck("127.0.0.1"))
        assert ask(endpoint, "/ready").status == 200
        endpoint.is_draining = True
        assert ask(endpoint, "/ready").status == 503
        assert ask(endpoint, "/health").status == 200


async def test_a_server_at_the_path_itself_gets_its_messages() -> None:
    async with make_server() as server:
        endpoint = Endpoint(server.transports.engine, HostCheck("127.0.0.1"), path="/health")
        request = Request(Head("POST", "/health", {b"host": b"127.0.0.1"}, ""), b"")
        assert endpoint.admit(request) is None


def ask(endpoint: Endpoint, path: str) -> Response:
    response = endpoint.admit(Request(Head("GET", path, {b"host": b"elsewhere"}, ""), b""))
    assert isinstance(response, Response)
    return response
