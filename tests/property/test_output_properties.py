"""Replies that are written together: connections that were closed take nothing from the others."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvloop
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.transports.http.response import MAX_BATCH, OutputStore


class _Closing(asyncio.Protocol):
    def __init__(self) -> None:
        self.is_lost = asyncio.Event()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost.set()


def _read(reader: socket.socket) -> bytes | None:
    """Return what has come: nothing from a closed connection, None where a reply is missing."""
    reader.setblocking(False)
    try:
        return reader.recv(16)
    except BlockingIOError:
        return None


async def _write_to(is_closed: list[bool]) -> None:
    loop, store = asyncio.get_running_loop(), OutputStore()
    transports: list[Any] = []
    readers: list[socket.socket] = []
    for each in is_closed:
        ours, theirs = socket.socketpair()
        transport, protocol = await loop.create_unix_connection(_Closing, sock=ours)
        if each:
            transport.abort()
            await protocol.is_lost.wait()
        transports.append(transport)
        readers.append(theirs)
    await asyncio.sleep(0)  # uvloop closes a handle after it has told the protocol
    for number, transport in enumerate(transports):
        store.write_soon(transport, b"%d" % number)
    await asyncio.sleep(0)
    received = [_read(reader) for reader in readers]
    for transport, reader in zip(transports, readers, strict=True):
        transport.abort()
        reader.close()
    assert received == [b"" if each else b"%d" % number for number, each in enumerate(is_closed)]


@given(st.lists(st.booleans(), min_size=1, max_size=2 * MAX_BATCH + 2))
def test_every_open_connection_gets_its_reply_whichever_others_are_closed(is_closed: list[bool]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(_write_to(is_closed), 10))
