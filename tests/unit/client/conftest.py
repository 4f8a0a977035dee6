"""Real servers to talk to, started when first needed and ended with the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.sdk_servers import running_peers


@pytest.fixture(scope="session")
def address_of() -> Iterator[Callable[..., str]]:
    """`address_of("mcp")`: where that server listens; `address_of("mcp", "sse")` for the oldest HTTP."""
    with running_peers() as find:
        yield find
