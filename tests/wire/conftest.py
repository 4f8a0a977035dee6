"""One server for each HTTP stack and module, and one on stdio."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

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
