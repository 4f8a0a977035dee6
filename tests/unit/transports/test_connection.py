"""One connection: offers to switch protocols, bodies in chunks, deadlines, and admissions that take time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from tests.unit.transports.test_head_cache import BODY, Client, post, running
from toolcrib.transports.http.connection import MAX_CHUNKS, SMALL_CHUNK

HEAD = post().removesuffix(BODY)
CHUNKED = HEAD.replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked")
MOST_CHUNKS = MAX_CHUNKS * SMALL_CHUNK // (SMALL_CHUNK - 1)
"""Of one byte each; every sixteen of them allow one more."""


async def test_an_offer_to_switch_protocols_is_declined_and_the_request_served() -> None:
    async with running() as (_, server):
        client = Client(server)
        for _ in range(2):
            offer = post(b"Connection: Upgrade", b"Upgrade: h2c")
            assert await client.send(offer) == [b"200 OK"]


@pytest.mark.parametrize(
    ("count", "status"), [(MOST_CHUNKS, b"200 OK"), (MOST_CHUNKS + 1, b"400 Bad Request")]
)
async def test_a_body_may_come_in_so_many_small_chunks(count: int, status: bytes) -> None:
    body = BODY.ljust(count)
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    async with running() as (_, server):
        assert await Client(server).send(CHUNKED + chunks + b"0\r\n\r\n") == [status]


@pytest.mark.parametrize("head", [HEAD, CHUNKED], ids=["length", "chunked"])
async def test_a_body_has_to_come_in_time(head: bytes) -> None:
    async with running() as (_, server):
        client = Client(server)
        assert await client.send(head) == []
        server.now += server.timeouts.body_idle_s
        assert client.connection.read_by <= server.now
        client.connection.expire()
        assert client.socket.written[0].startswith(b"HTTP/1.1 408 ")


async def test_a_client_has_to_read_its_response_in_time() -> None:
    async with running() as (_, server):
        client = Client(server)
        client.connection.pause_writing()
        await client.send(post())
        assert client.connection.write_by == server.now + server.timeouts.write_s
        client.connection.resume_writing()
        assert client.connection.write_by > server.now + server.timeouts.write_s


async def test_a_client_that_is_left_has_to_read_the_rest_in_time() -> None:
    async with running() as (_, server):
        client = Client(server)
        assert await client.send(post(b"Connection: close")) == [b"200 OK"]
        assert client.socket.is_closed
        assert client.connection.write_by == server.now + server.timeouts.write_s


async def test_a_request_with_a_cached_head_waits_for_its_admission(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as (endpoint, server):
        client = Client(server)
        assert await client.send(post()) == [b"200 OK"]
        decided = asyncio.Event()

        async def admit_later(request: Any) -> None:
            await decided.wait()
            request.is_admitted = True

        monkeypatch.setattr(endpoint, "admit", admit_later)
        assert await client.send(post()) == []
        decided.set()
        assert await client.send(b"") == [b"200 OK"]


async def test_a_response_has_the_date_in_the_form_of_http() -> None:
    async with running() as (_, server):
        client = Client(server)
        await client.send(post())
        [date] = [line for line in client.responses[0].split(b"\r\n") if line.lower().startswith(b"date: ")]
        written = parsedate_to_datetime(date.decode().partition(": ")[2])
        assert date.endswith(b" GMT")
        assert abs(datetime.now(UTC) - written) < timedelta(minutes=1)
