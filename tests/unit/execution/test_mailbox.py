"""Waking an event loop from another thread."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref

import pytest

from toolcrib.dispatch import threads as mailbox
from toolcrib.dispatch.threads import mailbox_of

BOTH = pytest.mark.parametrize("kind", [mailbox._Counter, mailbox._Calls])


@BOTH
async def test_a_future_is_woken_from_another_thread(kind: type) -> None:
    box = kind(asyncio.get_running_loop())
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    threading.Thread(target=box.put, args=(future,)).start()
    await asyncio.wait_for(future, 5)


@BOTH
async def test_a_thousand_messages_from_ten_threads_all_arrive(kind: type) -> None:
    loop = asyncio.get_running_loop()
    box = kind(loop)
    futures: list[asyncio.Future[None]] = [loop.create_future() for _ in range(1000)]

    def put(part: list[asyncio.Future[None]]) -> None:
        for future in part:
            assert box.put(future)

    for start in range(10):
        threading.Thread(target=put, args=(futures[start::10],)).start()
    await asyncio.wait_for(asyncio.gather(*futures), 10)


@BOTH
async def test_a_future_that_nobody_waits_for_any_more_is_left_alone(kind: type) -> None:
    loop = asyncio.get_running_loop()
    box = kind(loop)
    gone: asyncio.Future[None] = loop.create_future()
    gone.cancel()
    awaited: asyncio.Future[None] = loop.create_future()
    box.put(gone)
    box.put(awaited)
    await asyncio.wait_for(awaited, 5)
    assert gone.cancelled()


@BOTH
def test_a_closed_loop_takes_no_mail(kind: type) -> None:
    loop = asyncio.new_event_loop()
    box = kind(loop)
    future: asyncio.Future[None] = loop.create_future()
    loop.close()
    assert box.put(future) is False


async def test_a_loop_keeps_its_mailbox() -> None:
    loop = asyncio.get_running_loop()
    assert mailbox_of(loop) is mailbox_of(loop)


def test_two_loops_on_one_thread_have_two_mailboxes() -> None:
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:
        assert mailbox_of(first) is not mailbox_of(second)
        assert mailbox_of(first) is mailbox_of(first)
    finally:
        first.close()
        second.close()


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="this system has no event counters")
def test_the_descriptor_ends_with_its_loop() -> None:
    loop = asyncio.new_event_loop()
    box = mailbox._Counter(loop)
    counter, gone = box._counter, weakref.ref(loop)
    loop.close()
    del loop, box
    gc.collect()
    assert gone() is None
    with pytest.raises(OSError):
        os.eventfd_read(counter)


class NoReaders(asyncio.SelectorEventLoop):
    def add_reader(self, *_: object) -> None:
        raise NotImplementedError


def test_a_loop_that_watches_no_descriptors_is_told_in_the_common_way() -> None:
    async def wake() -> None:
        loop = asyncio.get_running_loop()
        box = mailbox_of(loop)
        assert isinstance(box, mailbox._Calls)
        future: asyncio.Future[None] = loop.create_future()
        threading.Thread(target=box.put, args=(future,)).start()
        await asyncio.wait_for(future, 5)

    # The loop makes a reader of its own before it can be told that there are none.
    loop = asyncio.SelectorEventLoop()
    loop.__class__ = NoReaders
    try:
        loop.run_until_complete(wake())
    finally:
        loop.__class__ = asyncio.SelectorEventLoop
        loop.close()


def test_a_loop_that_has_ended_is_not_kept_by_its_mailbox():
    async def use() -> weakref.ref[asyncio.AbstractEventLoop]:
        loop = asyncio.get_running_loop()
        mailbox_of(loop)
        return weakref.ref(loop)

    ended = [asyncio.run(use()) for _ in range(5)]
    gc.collect()
    assert [ref() for ref in ended] == [None] * 5
