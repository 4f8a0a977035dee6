"""Streams of the HTTP client, from a real server."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.support.servers.scripted_http_server import SECRET, World
from toolcrib.errors import APIError
from toolcrib.http_client import HTTPClient


async def test_an_answer_is_read_while_it_comes(world: World) -> None:
    outbound = HTTPClient(world.origin, timeout_s=5)
    async with outbound.stream("GET", "/drip") as answer:
        assert (answer.status_code, answer.headers["content-length"]) == (200, "1000")
        read = b""
        async for chunk in answer.chunks():
            read += chunk
            if len(read) >= 3:
                break
    assert read.startswith(b"...")
    await outbound.aclose()


async def test_how_long_an_answer_takes_is_the_readers_to_say(world: World) -> None:
    outbound = HTTPClient(world.origin)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3), outbound.stream("GET", "/slow", timeout_s=0.05):
            pass
    with pytest.raises(TimeoutError, match="mine"):
        async with outbound.stream("GET", "/x"):
            raise TimeoutError("mine")  # the body's own errors stay its own
    await outbound.aclose()


async def test_a_stream_that_breaks_is_an_error_in_words(world: World) -> None:
    outbound = HTTPClient(world.origin)
    async with outbound.stream("GET", f"/cut?key={SECRET}") as answer:
        with pytest.raises(
            APIError, match=r"^GET /cut: .* closed the connection before the response was complete$"
        ) as error:
            async for _ in answer.chunks():
                pass
    assert error.value.reached
    await outbound.aclose()


async def test_a_server_that_was_never_reached_is_told_apart() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        outbound = HTTPClient(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(APIError, match="cannot connect") as error:
            async with outbound.stream("GET", "/x"):
                pass
        assert not error.value.reached
        with pytest.raises(APIError) as error:
            outbound.request("GET", "/x")
        assert not error.value.reached


async def test_the_guard_stands_before_streams_too(world: World) -> None:
    outbound = HTTPClient(f"{world.origin}/api")
    for path in ("http://elsewhere.example/x", "/../x", "//elsewhere.example"):
        with pytest.raises(APIError, match=r"^GET refused: "):
            async with outbound.stream("GET", path):
                pass
    with pytest.raises(APIError, match="line break"):
        async with outbound.stream("GET", "/x", headers={"X-A": "a\r\nb"}):
            pass
    assert world.requests == []


async def test_a_redirect_is_handed_out_and_not_followed(world: World) -> None:
    outbound = HTTPClient(world.origin)
    async with outbound.stream("GET", "/moved?to=/weather") as answer:
        assert (answer.status_code, answer.headers["location"]) == (302, "/weather")
    assert len(world.requests) == 1
    await outbound.aclose()


async def test_a_stream_read_to_its_end_leaves_its_connection_for_the_next(world: World) -> None:
    outbound = HTTPClient(world.origin)
    for _ in range(3):
        async with outbound.stream("POST", "/x", content=b"hello") as answer:
            assert b"hello" in b"".join([chunk async for chunk in answer.chunks()])
    assert world.connections == 1
    async with outbound.stream("GET", "/zipped") as answer:
        assert b"".join([chunk async for chunk in answer.chunks()]) == b"unfolded"
    await outbound.aclose()
