"""Close the sockets that tests leave open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.clients.abusive_clients import Socket
from tests.support.servers.token_issuer import key_server

__all__ = ["key_server"]


@pytest.fixture
async def hangs_up() -> AsyncIterator[None]:
    """Close every socket at the end of the test."""
    yield
    Socket.abort_all()
    await asyncio.sleep(0)
