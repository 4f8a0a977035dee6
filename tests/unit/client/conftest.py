"""Real servers, started on first use and stopped after the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.servers.sdk_servers import running_peers


@pytest.fixture(scope="session")
def address_of() -> Iterator[Callable[..., str]]:
    """`address_of("mcp")`: the URL of that server; `address_of("mcp", "sse")` for HTTP+SSE."""
    with running_peers() as find:
        yield find
