"""Streams that break and are taken up again; the oldest HTTP with its one stream for everything."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcrib.client.http import _LONGEST_PAUSE_S, _SHORTEST_PAUSE_S, _Position
from toolcrib.errors import InvalidResponseError, ResponseTimeoutError, TransportError

from .scripted_http import Answer, ScriptedHTTP, legacy, modern
from .scripted_server import INITIALIZED, text


def hang_up(answer: Answer) -> None:
    answer.is_over = True


def cut(answer: Answer) -> None:
    answer.start_events()
    answer.event(number="e1", retry=1)


async def hang(answer: Answer) -> None:
    await answer.gone()


# --- taking up a stream again ---


async def test_a_connection_that_breaks_while_a_stream_is_taken_up_is_tried_again() -> None:
    def rest(answer: Answer) -> None:
        if len(scripted.named("GET")) < 4:
            hang_up(answer)
        else:
            answer.start_events()
            answer.event_result(text("well"), scripted.named("tools/call")[0])

    async with legacy(tools_call=cut, GET=rest) as scripted, scripted.client() as client:
        assert (await client.call("t")).text == "well"
    assert [request.headers["last-event-id"] for request in scripted.named("GET")] == ["e1"] * 4


async def test_a_stream_that_has_nothing_new_for_long_is_given_up() -> None:
    async with legacy(tools_call=cut, GET=lambda answer: answer.start_events()) as scripted:
        client = scripted.client()
        await client.connect()
        with pytest.raises(TransportError, match="closed the stream before the response was complete"):
            await client.call("t")
        await client.close()
    assert len(scripted.named("GET")) == 5


async def test_a_stream_that_always_has_something_new_is_followed_until_the_time_is_up() -> None:
    def never(answer: Answer) -> None:
        answer.start_events()
        answer.event(number=f"g{len(scripted.named('GET'))}", retry=1)

    async with legacy(tools_call=cut, GET=never) as scripted, scripted.client() as client:
        with pytest.raises(ResponseTimeoutError):
            await client.call("t", timeout_s=0.3)
        assert len(scripted.named("GET")) > 5


async def test_a_lot_behind_an_answer_is_not_read() -> None:
    async def chatter(answer: Answer) -> None:
        answer.start_events()
        answer.event_result(text("well"))
        for _ in range(10_000):
            answer.writer.write(b": chatter\n" * 100)
            await answer.writer.drain()

    async with modern(tools_call=chatter) as scripted, scripted.client() as client:
        for _ in range(3):
            assert (await client.call("t")).text == "well"


# --- the standing stream ---


async def test_a_standing_stream_survives_refusals_and_broken_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolcrib.client.http._FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr("toolcrib.client.http._LONGEST_PAUSE_S", 0.02)

    async def moody(answer: Answer) -> None:
        number = len(scripted.named("GET"))
        if number == 2:
            hang_up(answer)
        elif number == 3:
            answer.send(500)
        else:
            answer.start_events()
            answer.event(number=f"n{number}")
            if number == 4:
                answer.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
                await answer.writer.drain()
                await answer.gone()

    rung = asyncio.Event()
    async with legacy(GET=moody) as scripted, scripted.client() as client:
        assert await client.on_tools_changed(rung.set)
        await asyncio.wait_for(rung.wait(), 5)
    assert [request.headers.get("last-event-id") for request in scripted.named("GET")] == [
        None,
        "n1",
        "n1",
        None,
    ]


async def test_a_standing_stream_that_does_not_open_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolcrib.client.http._SHORT_S", 0.05)
    async with legacy(GET=hang) as scripted, scripted.client(roots=[]) as client:
        assert (await client.call("t")).text == "well"
    assert len(scripted.named("GET")) == 1


async def test_a_server_that_does_not_take_the_handshakes_last_word_is_an_error_in_time() -> None:
    async with legacy() as scripted:
        scripted.acts["notifications/initialized"] = hang
        with pytest.raises(ResponseTimeoutError, match="does not accept messages"):
            await scripted.client(timeout_s=0.3).connect()


@pytest.mark.parametrize("retry_ms", [None, 0, 999_999_999, 10**4000, -5])
def test_the_pause_before_a_stream_is_resumed_has_bounds(retry_ms: int | None) -> None:
    """Also when the server was away for days, or wants to be asked all the time."""
    for failures in (0, 5, 5000):
        position = _Position("e1", retry_ms, failures)
        assert _SHORTEST_PAUSE_S <= position.pause_s <= _LONGEST_PAUSE_S


async def test_a_redirect_to_no_address_does_not_end_the_standing_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolcrib.client.http._FIRST_PAUSE_S", 0.01)

    async def move(answer: Answer) -> None:
        if len(scripted.named("GET")) == 2:
            answer.send(307, Location="http://[")
        else:
            answer.start_events()
            answer.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    heard: asyncio.Queue[None] = asyncio.Queue()
    async with legacy(GET=move) as scripted, scripted.client() as client:
        assert await client.on_tools_changed(lambda: heard.put_nowait(None))
        async with asyncio.timeout(5):
            await heard.get()
            await heard.get()


# --- the pair of 2024-11-05 ---


class Pair(ScriptedHTTP):
    """A server of 2024-11-05 whose calls are answered on its one stream by `reply`."""

    def __init__(self, reply: Any) -> None:
        self.queue: asyncio.Queue[Any] = asyncio.Queue()
        self.reply = reply
        posts = dict.fromkeys(
            ("server/discover", "initialize", "tools/call", "notifications/initialized"), self.post
        )
        super().__init__({**posts, "GET": self.stream})

    async def stream(self, answer: Answer) -> None:
        answer.start_events()
        answer.writer.write(b"event: endpoint\ndata: messages\n\n")
        while (item := await self.queue.get()) is not None:
            answer.writer.write(item) if isinstance(item, bytes) else answer.event(item)
            await answer.writer.drain()

    def post(self, answer: Answer) -> None:
        message = answer.request.message
        if answer.request.path != "/messages":
            answer.send(404)
        elif message["method"] == "tools/call":
            self.reply(self, answer)
        else:
            answer.send(202)
            if message["method"] == "initialize":
                self.queue.put_nowait({"jsonrpc": "2.0", "id": message["id"], "result": INITIALIZED})


def refuse(scripted: Pair, answer: Answer) -> None:
    answer.send(500, b"oh no")


def forget(scripted: Pair, answer: Answer) -> None:
    answer.send(404, b"who are you")


def move(scripted: Pair, answer: Answer) -> None:
    answer.send(307, Location="/nowhere")


def end(scripted: Pair, answer: Answer) -> None:
    answer.send(202)
    scripted.queue.put_nowait(None)


def pour(scripted: Pair, answer: Answer) -> None:
    answer.send(202)
    scripted.queue.put_nowait(b"data: ")
    for _ in range(40):
        scripted.queue.put_nowait(b"x" * (1 << 20))


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (refuse, TransportError, "answered 500 Internal Server Error: oh no"),
        (forget, TransportError, "answered 404 Not Found: who are you"),
        (move, TransportError, "answered 404"),
        (end, TransportError, "closed the connection"),
        (pour, InvalidResponseError, "exceeded the 33554432 byte limit"),
        (lambda scripted, answer: hang_up(answer), TransportError, "closed the connection"),
    ],
)
async def test_trouble_with_the_oldest_kind_is_said_in_words(reply: Any, kind: Any, words: str) -> None:
    async with Pair(reply) as scripted, scripted.client(timeout_s=30) as client:
        assert client.protocol_version == "2025-11-25"
        async with asyncio.timeout(20):
            with pytest.raises(kind, match=words):
                await client.call("t")


async def test_a_call_of_the_oldest_kind_is_cancelled_by_a_message() -> None:
    async with Pair(lambda scripted, answer: answer.send(202)) as scripted, scripted.client() as client:
        scripted.acts["notifications/cancelled"] = lambda answer: answer.send(202)
        with pytest.raises(ResponseTimeoutError):
            await client.call("t", timeout_s=0.1)
        assert (await scripted.wait_for("notifications/cancelled")).path == "/messages"


async def test_no_message_goes_to_another_server_that_an_endpoint_names() -> None:
    def lure(answer: Answer) -> None:
        answer.start_events()
        answer.writer.write(f"event: endpoint\ndata: {elsewhere.url}\n\n".encode())

    posts = dict.fromkeys(("server/discover", "initialize"), lambda answer: answer.send(405))
    async with ScriptedHTTP({}) as elsewhere, ScriptedHTTP({**posts, "GET": lure}) as scripted:
        with pytest.raises(TransportError, match="No MCP server"):
            await scripted.client().connect()
        assert elsewhere.requests == []
