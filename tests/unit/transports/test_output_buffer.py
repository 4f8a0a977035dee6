"""Unread output: in memory up to a limit, in a file beyond, first in, first out, bounded for all clients."""

from __future__ import annotations

import asyncio
import io
import logging
import random
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.transports.http import response as http_response
from toolcrib.transports.http.response import MAX_MEMORY, MEMORY_WEIGHT, OutputBuffer, OutputStore

SMALL, LARGE = b"abc", bytes(range(256)) * (MAX_MEMORY // 128)
NOISE = memoryview(random.Random(1).randbytes(2 * MAX_MEMORY))


class Client:
    def __init__(self, store: OutputStore) -> None:
        self.is_cut = False
        self.unread = OutputBuffer(store, self.cut)

    def cut(self) -> None:
        self.is_cut = True


class NoFiles(OutputStore):
    """A machine without room for temporary files."""

    def open_file(self) -> IO[bytes]:
        raise OSError(28, "No space left on device")


class FullAfterFirst(OutputStore):
    """A disk with room for one write."""

    def open_file(self) -> IO[bytes]:
        return _Full()


class _Full(io.BytesIO):
    def write(self, data: object) -> int:
        if self.getbuffer().nbytes:
            raise OSError(28, "No space left on device")
        return super().write(data)  # type: ignore[arg-type]


class FullFromTheStart(OutputStore):
    """A disk on which files can be created, but not written."""

    def open_file(self) -> IO[bytes]:
        return _Full(b"x")


@pytest.mark.parametrize("store_type", [OutputStore, NoFiles, FullFromTheStart])
@pytest.mark.parametrize("seed", range(20))
def test_what_is_put_in_comes_out_in_order_whatever_the_pieces(
    store_type: type[OutputStore], seed: int
) -> None:
    chance = random.Random(seed)
    store = store_type()
    unread = Client(store).unread
    put, taken = bytearray(), bytearray()
    for _ in range(60):
        if chance.random() < 0.5:
            begin = chance.randrange(1000)
            data = NOISE[begin : begin + chance.choice([1, 500, 70_000, MAX_MEMORY // 2, MAX_MEMORY + 1])]
            unread.append(data if chance.random() < 0.5 else bytes(data))
            put += data
        else:
            taken += unread.take(chance.choice([1, 1000, 64 * 1024, 2 * MAX_MEMORY]))
        assert unread.size == len(put) - len(taken)
    while unread.size:
        taken += unread.take(64 * 1024)
    assert taken == put
    assert (store.size, unread.take(10)) == (0, b"")


def test_a_little_stays_in_memory_and_much_goes_to_a_file() -> None:
    store = OutputStore()
    unread = Client(store).unread
    unread.append(SMALL)
    assert store.size == 0
    unread.append(LARGE)
    assert store.size == len(SMALL + LARGE)
    unread.clear()
    assert (unread.size, store.size) == (0, 0)


def test_above_the_limit_the_client_that_read_nothing_for_longest_is_cut_off() -> None:
    store = OutputStore(limit=3 * len(LARGE))
    clients = [Client(store) for _ in range(3)]
    for client in clients:
        client.unread.append(LARGE)
    clients[0].unread.take(1)
    newest = Client(store)
    newest.unread.append(LARGE)
    assert [client.is_cut for client in (*clients, newest)] == [False, True, False, False]
    assert clients[1].unread.size == 0
    for client in (*clients, newest):
        client.unread.close()
    assert store.size == 0


def test_one_answer_larger_than_the_limit_is_kept_all_the_same() -> None:
    client = Client(OutputStore(limit=10))
    client.unread.append(LARGE)
    assert not client.is_cut
    client.unread.close()


def test_where_no_file_can_be_made_memory_serves_up_to_a_limit(caplog: pytest.LogCaptureFixture) -> None:
    store = NoFiles(limit=2 * len(LARGE) * MEMORY_WEIGHT)
    clients = [Client(store) for _ in range(3)]
    with caplog.at_level(logging.WARNING, "toolcrib"):
        for client in clients:
            client.unread.append(LARGE)
    assert [client.is_cut for client in clients] == [True, False, False]
    assert store.size == 2 * len(LARGE) * MEMORY_WEIGHT
    assert caplog.text.count("No space left on device") == 1
    assert clients[1].unread.take(2 * len(LARGE)) == LARGE


def test_a_client_whose_file_takes_no_more_is_cut_off() -> None:
    store = FullAfterFirst()
    client = Client(store)
    client.unread.append(LARGE)
    client.unread.append(SMALL)
    assert client.is_cut
    assert (client.unread.size, store.size) == (0, 0)


def test_on_a_full_disk_memory_serves() -> None:
    client = Client(FullFromTheStart())
    client.unread.append(LARGE)
    assert not client.is_cut
    assert client.unread.take(2 * len(LARGE)) == LARGE


@pytest.mark.parametrize("first", [SMALL, LARGE])
def test_what_a_slow_client_has_taken_is_not_kept(first: bytes) -> None:
    """A client that always leaves a little unread must not collect all that it ever got."""
    store = OutputStore()
    unread = Client(store).unread
    unread.append(first)
    piece = b"x" * (MAX_MEMORY // 4)
    for _ in range(100):
        unread.append(piece)
        unread.take(unread.size - 1)
    assert unread._file is not None
    assert len(unread._file.seek(0) or unread._file.read()) <= 3 * MAX_MEMORY  # type: ignore[arg-type]
    assert store.size == 0


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
