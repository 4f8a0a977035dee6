"""Notices between processes."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.state.conftest import NOTHING, Machine

SERVERS = ("redis",)


def listen(process: Any, topic: str) -> asyncio.Queue[bytes | None]:
    loop, heard = asyncio.get_running_loop(), asyncio.Queue[bytes | None]()
    process.bus.subscribe(topic, lambda data: loop.call_soon_threadsafe(heard.put_nowait, data))
    return heard


async def hear(heard: asyncio.Queue[bytes | None]) -> bytes | None:
    async with asyncio.timeout(5):
        return await heard.get()


async def test_all_processes_hear_a_notice_once_and_in_order(shared: Machine) -> None:
    processes = [shared.start(is_shared=True) for _ in range(3)]
    heard = [listen(process, "lists") for process in processes]
    for process in processes:
        await shared.settle(process)
    for number in range(3):
        processes[0].bus.publish("lists", b"%d" % number)
    processes[1].bus.publish("other", b"x")
    for each in heard:
        assert [await hear(each) for _ in range(3)] == [b"0", b"1", b"2"]
    processes[2].bus.publish("lists", b"last")
    for each in heard:
        assert await hear(each) == b"last"


async def test_a_subscription_that_has_ended_hears_nothing(engine: Machine) -> None:
    process = engine.start()
    heard: list[bytes | None] = []
    end = process.bus.subscribe("a", heard.append)
    process.bus.publish("a", b"1")
    end()
    end()
    process.bus.publish("a", b"2")
    assert heard == [b"1"]


async def test_a_failing_subscriber_does_not_affect_others(engine: Machine) -> None:
    bus, heard = engine.start().bus, list[bytes | None]()

    def fail(_: bytes | None) -> None:
        raise ValueError("mine")

    bus.subscribe("a", fail)
    bus.subscribe("a", heard.append)
    bus.publish("a", b"1")
    assert heard == [b"1"]


async def test_a_process_acknowledges_what_is_sent_to_it(shared: Machine) -> None:
    one, two = shared.start(is_shared=True), shared.start(is_shared=True)
    heard = listen(two, two.process)
    await shared.settle(two)
    assert await one.bus.send(two.process, b"hello", 5)
    assert await hear(heard) == b"hello"
    assert not await one.bus.send("nobody", b"hello", 0.1)
    assert not await two.bus.send(one.process, b"hello", 0.1)  # nothing listens there


async def test_a_process_that_missed_notices_is_told_to_read_everything(machine: Machine) -> None:
    one, two = machine.start(is_shared=True), machine.start(is_shared=True)
    heard = listen(two, "lists")
    await two.values.scan(NOTHING)
    two.file.poll, poll = None, two.file.poll
    one.bus.publish("lists", b"missed")
    await one.values.scan(NOTHING)
    machine.pass_s(11)
    await one.tasks.renew()
    one.bus.publish("lists", b"seen")
    await one.values.scan(NOTHING)
    two.file.poll = poll
    await two.values.scan(NOTHING)
    assert [await hear(heard) for _ in range(2)] == [None, b"seen"]
