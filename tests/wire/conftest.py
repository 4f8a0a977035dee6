"""Servers for each HTTP stack and module, one on stdio, and clients of the handshake revisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.clients.legacy_client import Answer, Older
from tests.support.servers.feature_server import make_desk
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.stdio_program import Program
from tests.wire.site import make_server


@pytest.fixture(scope="module", params=HTTP_STACKS)
def site(request: Any) -> Iterator[Served]:
    """The server of these tests, on both HTTP stacks. It must log no errors, whatever it receives."""
    with serving(request.param, make_server()) as served:
        yield served
        assert not served.complaints


@pytest.fixture(scope="module")
def stdio() -> Iterator[Program]:
    """The same server as a process with an open 2025-11-25 session; modern messages are accepted too."""
    with Program("stdio") as program:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        opened = program.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert opened["result"]["protocolVersion"] == "2025-11-25"
        yield program
        assert "Traceback" not in program.errors


@pytest.fixture(scope="module", params=HTTP_STACKS)
def desk(request: Any) -> Iterator[Served]:
    """The server with every feature, on both HTTP stacks."""
    with serving(request.param, make_desk(dynamic=True)) as served:
        yield served
        assert not served.complaints


@pytest.fixture(autouse=True)
def hangs_up() -> Iterator[None]:
    yield
    Answer.leave_all()


@pytest.fixture
def connect(desk: Served) -> Iterator[Callable[..., Older]]:
    """Makes clients that have shaken hands; they leave at the end."""
    clients = []

    def make(version: str = "2025-11-25", **capabilities: Any) -> Older:
        client = Older(desk.port, version, **capabilities)
        client.initialize()
        clients.append(client)
        return client

    yield make
    Answer.leave_all()
    for client in clients:
        if client.session is not None:
            client.end()
