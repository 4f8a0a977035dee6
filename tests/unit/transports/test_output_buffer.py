"""Unread output: in memory, first in, first out, bounded for each client and for all of them."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.transports.http import response as http_response
from toolcrib.transports.http.response import MAX_UNREAD, OutputBuffer, OutputStore

SMALL, LARGE = b"abc", bytes(range(256)) * 8192
NOISE = memoryview(random.Random(1).randbytes(2 * 1024 * 1024))


class Client:
    def __init__(self, store: OutputStore) -> None:
        self.is_cut = False
        self.unread = OutputBuffer(store, self.cut)

    def cut(self) -> None:
        self.is_cut = True


@pytest.mark.parametrize("seed", range(20))
def test_anything_that_is_put_in_comes_out_in_order_whatever_the_pieces(seed: int) -> None:
    chance = random.Random(seed)
    store = OutputStore()
    unread = Client(store).unread
    put, taken = bytearray(), bytearray()
    for _ in range(60):
        if chance.random() < 0.5:
            begin = chance.randrange(1000)
            data = NOISE[begin : begin + chance.choice([1, 500, 70_000, 1024 * 1024])]
            unread.append(data if chance.random() < 0.5 else bytes(data))
            put += data
        else:
            taken += unread.take(chance.choice([1, 1000, 64 * 1024, 2 * 1024 * 1024]))
        assert unread.size == store.size == len(put) - len(taken)
    while unread.size:
        taken += unread.take(64 * 1024)
    assert taken == put
    assert (store.size, unread.take(10)) == (0, b"")


def test_above_the_limit_the_client_that_read_nothing_for_longest_is_cut_off() -> None:
    store = OutputStore(limit=3 * len(LARGE))
    clients = [Client(store) for _ in range(4)]
    for client in clients[:3]:
        client.unread.append(LARGE)
    clients[0].unread.take(1)
    clients[3].unread.append(LARGE)
    assert [client.is_cut for client in clients] == [False, True, False, False]
    assert store.size == 3 * len(LARGE) - 1
    for client in clients:
        client.unread.close()
    assert store.size == 0


def test_one_answer_larger_than_the_limit_is_kept_all_the_same() -> None:
    client = Client(OutputStore(limit=len(LARGE) - 1))
    client.unread.append(LARGE)
    assert not client.is_cut
    assert client.unread.take(len(LARGE)) == LARGE


def test_a_client_that_has_too_much_to_read_gets_no_more() -> None:
    store = OutputStore()
    client = Client(store)
    client.unread.append(bytes(MAX_UNREAD))
    client.unread.append(SMALL)
    assert not client.is_cut
    client.unread.append(SMALL)
    assert client.is_cut
    assert (client.unread.size, store.size) == (0, 0)


async def test_streams_get_their_comments_each_at_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_response, "ALIVE_S", 0.1)
    store, times = OutputStore(), dict[int, list[float]]()
    loop = asyncio.get_running_loop()

    class Stream:
        def write(self, data: bytes) -> None:
            assert data == b": alive\n\n"
            times.setdefault(id(self), []).append(loop.time())

    first, second, ended = Stream(), Stream(), Stream()
    began = loop.time()
    store.add_stream(first)  # type: ignore[arg-type]
    store.add_stream(ended)  # type: ignore[arg-type]
    await asyncio.sleep(0.05)
    store.add_stream(second)  # type: ignore[arg-type]
    store.remove_stream(ended)  # type: ignore[arg-type]
    async with asyncio.timeout(5):
        while len(times.get(id(second), ())) < 2:
            await asyncio.sleep(0.01)
    assert id(ended) not in times
    assert times[id(first)][0] - began >= 0.09
    assert times[id(second)][0] - began >= 0.14
    store.remove_stream(first)  # type: ignore[arg-type]
    store.remove_stream(second)  # type: ignore[arg-type]
    await asyncio.sleep(0.11)
    assert store._timer is None


def test_after_it_is_closed_nobody_is_told() -> None:
    client = Client(OutputStore())
    client.unread.close()
    client.unread.cut()
    assert not client.is_cut


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_streams_that_cannot_be_written_to_take_no_comment_from_the_others(is_gone: list[bool]) -> None:
    async def run() -> None:
        store, written = OutputStore(), set[int]()

        class Stream:
            def __init__(self, number: int) -> None:
                self.number = number

            def write(self, data: bytes) -> None:
                if is_gone[self.number]:
                    raise RuntimeError("the handler is closed")
                written.add(self.number)

        for number in range(len(is_gone)):
            store.add_stream(Stream(number))  # type: ignore[arg-type]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(http_response, "ALIVE_S", 1e-9)
            store._keep_alive()
        assert written == {number for number, gone in enumerate(is_gone) if not gone}
        store._timer.cancel()  # type: ignore[union-attr]

    asyncio.run(run())
