"""Servers behind an address that misbehave: calls end in words and in time, and the client stays usable."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

import pytest

from toolcrib.client import Client
from toolcrib.errors import ClientError, InvalidResponseError, ResponseTimeoutError, TransportError

from .scripted_http import Act, Answer, ScriptedHTTP, legacy, modern
from .scripted_server import INITIALIZED, text


def sends(status: int, body: bytes, kind: str = "application/json") -> Act:
    return lambda answer: answer.send(status, body, Content_Type=kind)


def says(raw: bytes) -> Act:
    """Writes raw bytes instead of an answer, and hangs up."""

    def act(answer: Answer) -> None:
        answer.is_over = True
        answer.writer.write(raw)

    return act


def streams(*events: Any) -> Act:
    def act(answer: Answer) -> None:
        answer.start_events()
        for event in events:
            answer.event(event)

    return act


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

TROUBLE: dict[str, tuple[Act, type[ClientError], str]] = {
    "no JSON": (sends(200, b"<html>"), InvalidResponseError, "sent invalid JSON: '<html>'"),
    "nothing": (sends(200, b""), InvalidResponseError, "sent invalid JSON"),
    "a number": (sends(200, b"17"), InvalidResponseError, "sent a message that is not JSON-RPC"),
    "another id": (sends(200, b'{"id": 99, "result": {}}'), TransportError, "closed the stream before"),
    "a page": (
        sends(200, b"<html>", "text/html"),
        InvalidResponseError,
        "sent text/html, expected JSON",
    ),
    "no kind": (sends(200, b"", ""), InvalidResponseError, "sent no content type, expected JSON"),
    "taken only": (
        lambda answer: answer.send(202),
        InvalidResponseError,
        "accepted the request but sent no response",
    ),
    "no events": (streams(), TransportError, "closed the stream before the response was complete"),
    "other events": (
        streams({"id": 99, "result": {}}, None, {"jsonrpc": "2.0", "method": "notifications/x"}),
        TransportError,
        "closed the stream before the response was complete",
    ),
    "garbage event": (
        says(EVENTS + b"data: {oh\n\n"),
        InvalidResponseError,
        "sent invalid JSON",
    ),
    "half an event": (
        says(EVENTS + b'data: {"id"'),
        TransportError,
        "closed the stream before the response was complete",
    ),
    "half a body": (
        says(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"),
        TransportError,
        "closed the connection before the response was complete",
    ),
    "no HTTP": (
        says(b"220 mail.example ESMTP\r\n"),
        TransportError,
        "closed the connection before the response was complete",
    ),
    "hanging up": (says(b""), TransportError, "closed the connection before the response was complete"),
    "no gzip": (
        says(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
            b"Content-Length: 3\r\n\r\nabc"
        ),
        TransportError,
        "the response has an invalid compression",
    ),
    "error page": (
        sends(502, b"<html>\r\n<h1>No server</h1>\r\n<hr>nginx\r\n", "text/html"),
        TransportError,
        "answered 502 Bad Gateway: No server nginx",
    ),
}


@pytest.mark.parametrize("era", [modern, legacy])
@pytest.mark.parametrize("trouble", TROUBLE)
async def test_a_bad_answer_ends_one_call_in_words_and_no_other(
    era: Callable[..., ScriptedHTTP], trouble: str
) -> None:
    act, kind, words = TROUBLE[trouble]
    async with era(tools_call=act) as scripted, scripted.client() as client:
        started = time.monotonic()
        with pytest.raises(kind) as caught:
            await client.call("t")
        assert time.monotonic() - started < 2
        assert words in str(caught.value)
        assert scripted.url in str(caught.value)
        scripted.acts["tools/call"] = text("well")
        assert (await client.call("t")).text == "well"


async def test_an_answer_before_the_connection_breaks_counts() -> None:
    def cut(answer: Answer) -> None:
        answer.writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n"
        )
        answer.is_over = True
        answer.event_result(text("well"))

    async with modern(tools_call=cut) as scripted, scripted.client() as client:
        assert (await client.call("t")).text == "well"


async def hang(answer: Answer) -> None:
    await answer.gone()


async def drip(answer: Answer) -> None:
    answer.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n")
    await _drip(answer, b" ")


async def drip_comments(answer: Answer) -> None:
    answer.start_events()
    await _drip(answer, b": still here\n\n")


async def drip_notes(answer: Answer) -> None:
    answer.start_events()
    await _drip(answer, b'data: {"jsonrpc": "2.0", "method": "notifications/message"}\n\n')


async def _drip(answer: Answer, drop: bytes) -> None:
    while not answer.reader.at_eof() and not answer.writer.is_closing():
        answer.writer.write(drop)
        await answer.writer.drain()
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("act", [hang, drip, drip_comments, drip_notes])
async def test_an_answer_that_never_ends_is_over_when_the_time_is(act: Act) -> None:
    async with modern(tools_call=act) as scripted, scripted.client() as client:
        started = time.monotonic()
        with pytest.raises(ResponseTimeoutError, match=r"no response to tools/call within 0\.2 s"):
            await client.call("t", timeout_s=0.2)
        assert time.monotonic() - started < 2
        scripted.acts["tools/call"] = text("well")
        assert (await client.call("t")).text == "well"


async def _pour(answer: Answer, head: bytes) -> None:
    """Sixty MiB that are one message."""
    answer.is_over = True
    answer.writer.write(head)
    for _ in range(960):
        answer.writer.write(b"x" * 65536)
        await answer.writer.drain()


@pytest.mark.parametrize(
    "head",
    [
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"x": "',
        b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {"x": "',
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: ",
    ],
)
async def test_an_answer_of_sixty_mebibytes_is_cut_off(head: bytes) -> None:
    act = modern(tools_call=lambda answer: _pour(answer, head))
    async with act as scripted, scripted.client(timeout_s=30) as client:
        with pytest.raises(
            InvalidResponseError, match=r"larger than 32 MiB|exceeded the 33554432 byte limit"
        ):
            await client.call("t")
        scripted.acts["tools/call"] = text("well")
        assert (await client.call("t")).text == "well"


async def test_an_error_page_without_end_is_cut_off() -> None:
    async def refuse(answer: Answer) -> None:
        await _pour(answer, b"HTTP/1.1 500 Oh\r\nContent-Type: text/html\r\n\r\n")

    async with modern(tools_call=refuse) as scripted, scripted.client() as client:
        with pytest.raises(InvalidResponseError, match="sent a response larger than 1 MiB"):
            await client.call("t")


async def test_a_server_that_goes_away_ends_what_waits_at_once() -> None:
    async def hold(answer: Answer) -> None:
        answer.start_events()
        await answer.writer.drain()
        await answer.gone()

    async with modern(tools_call=hold) as scripted, scripted.client() as client:
        calls = [asyncio.create_task(client.call("t")) for _ in range(5)]
        await scripted.wait_for("tools/call", 5)
        await scripted.__aexit__()
        async with asyncio.timeout(2):
            results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, TransportError) for result in results)
        with pytest.raises(TransportError, match="Cannot connect to"):
            await client.call("t")


@pytest.mark.parametrize("era", [modern, legacy])
async def test_closing_takes_no_longer_for_a_server_that_hangs(era: Callable[..., ScriptedHTTP]) -> None:
    async with era(tools_call=hang, DELETE=hang) as scripted:
        client = scripted.client()
        await client.connect()
        task = asyncio.create_task(client.call("t"))
        await scripted.wait_for("tools/call")
        started = time.monotonic()
        await client.close()
        assert time.monotonic() - started < 4
        with pytest.raises(TransportError, match="connection closed"):
            await task


async def test_a_hundred_and_fifty_calls_at_once_all_come_back() -> None:
    async def slow(answer: Answer) -> None:
        await asyncio.sleep(0.01)
        answer.result(text(answer.request.message["params"]["name"]))

    async with modern(tools_call=slow) as scripted, scripted.client() as client:
        results = await asyncio.gather(*(client.call(f"t{number}") for number in range(150)))
    assert [result.text for result in results] == [f"t{number}" for number in range(150)]


async def test_nothing_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    """An unhandled exception of a task would be logged by asyncio once the task is collected."""
    caplog.set_level("ERROR", "asyncio")
    for act, *_ in TROUBLE.values():
        async with modern(tools_call=act) as scripted, scripted.client() as client:
            with pytest.raises(ClientError):
                await client.call("t")
    gc.collect()
    await asyncio.sleep(0)
    assert not caplog.records
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


# --- the pair of 2024-11-05 ---


async def test_a_server_of_the_oldest_kind_is_found_out() -> None:
    queue: asyncio.Queue[Any] = asyncio.Queue()

    async def stream(answer: Answer) -> None:
        answer.start_events()
        answer.writer.write(b"event: endpoint\r\ndata: /messages?session=1\r\n\r\n")
        while True:
            answer.event(await queue.get())
            await answer.writer.drain()

    def post(answer: Answer) -> None:
        message = answer.request.message
        if answer.request.path != "/messages?session=1":
            answer.send(405)
            return
        answer.send(202)
        results: dict[str, Any] = {"initialize": INITIALIZED, "tools/call": text("well")}
        if "id" in message:
            queue.put_nowait({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]})

    acts: dict[str, Any] = dict.fromkeys(("server/discover", "initialize", "tools/call"), post)
    acts |= {"notifications/initialized": post, "GET": stream}
    async with ScriptedHTTP(acts) as scripted, scripted.client() as client:
        assert (await client.call("t")).text == "well"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (EVENTS + b"event: endpoint\ndata: http://elsewhere.example/x\n\n", "No MCP server"),
        (EVENTS + b"data: {}\n\n", "No MCP server"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n",
            "No MCP server",
        ),
        (b"", "No MCP server"),
    ],
)
async def test_anything_that_only_looks_like_the_oldest_kind_keeps_its_first_error(
    raw: bytes, words: str
) -> None:
    async with ScriptedHTTP(
        {"GET": says(raw), **dict.fromkeys(("server/discover", "initialize"), sends(405, b""))}
    ) as scripted:
        with pytest.raises(TransportError, match=words) as caught:
            await Client(scripted.url, timeout_s=5).connect()
        assert caught.value.status == 405
