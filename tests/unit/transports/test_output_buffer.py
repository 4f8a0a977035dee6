"""Unread output: in memory up to a limit, in a file beyond, first in, first out, bounded for all clients."""

from __future__ import annotations

import io
import logging
import random
from typing import IO

import pytest

from toolcrib.transports.http.response import MAX_MEMORY, MEMORY_WEIGHT, OutputBuffer, OutputStore

SMALL, LARGE = b"abc", bytes(range(256)) * (MAX_MEMORY // 128)


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


@pytest.mark.parametrize("store_type", [OutputStore, NoFiles])
@pytest.mark.parametrize("seed", range(20))
def test_what_is_put_in_comes_out_in_order_whatever_the_pieces(
    store_type: type[OutputStore], seed: int
) -> None:
    chance = random.Random(seed)
    store = store_type()
    unread = Client(store).unread
    put = taken = b""
    for _ in range(60):
        if chance.random() < 0.5:
            data = chance.randbytes(chance.choice([1, 500, 70_000, MAX_MEMORY // 2, MAX_MEMORY + 1]))
            unread.append(memoryview(data) if chance.random() < 0.5 else data)
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


def test_after_it_is_closed_nobody_is_told() -> None:
    client = Client(OutputStore())
    client.unread.close()
    client.unread.cut()
    assert not client.is_cut
