"""Whatever a tool raises or returns ends one call and nothing else."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import math
import os
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from toolcrib import MCPServer, ToolError

pytestmark = pytest.mark.row("E2", "E9", "E10")

RAISED = [
    SystemExit(3),
    KeyboardInterrupt(),
    MemoryError(),
    GeneratorExit(),
    RecursionError(),
    StopIteration(1),
    StopAsyncIteration(),
    BaseExceptionGroup("several", [SystemExit(1), ValueError("secret-in-group")]),
    asyncio.CancelledError("secret-in-cancel"),
    TimeoutError("secret-in-timeout"),
    ValueError("secret-in-value"),
]


def leave() -> None:
    os._exit(7)


def fault() -> None:
    ctypes.string_at(0)


def make() -> MCPServer:
    server = MCPServer()

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return server


async def assert_alive(server: MCPServer) -> None:
    assert (await server.call("add", {"a": 1, "b": 2})).structured_content == 3


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("way", ["async", "thread", "inline"])
async def test_e9_whatever_a_tool_raises_is_one_error_reply(error: BaseException, way: str) -> None:
    server = make()

    if way == "async":

        @server.tool
        async def boom() -> None:
            await asyncio.sleep(0)
            raise error
    else:

        @server.tool(run=way)
        def boom() -> None:
            raise error

    result = await server.call("boom")
    assert result.is_error
    assert "secret" not in result.text
    assert result.error is not None
    assert result.error.code == "crashed"
    await assert_alive(server)


@pytest.mark.parametrize("function", [leave, fault])
async def test_e9_a_process_that_dies_is_one_error_reply(function: Any) -> None:
    server = make()
    server.add(function, run="process")
    result = await server.call(function.__name__)
    assert result.is_error
    assert result.error is not None
    assert result.error.code == "crashed"
    await assert_alive(server)
    server.dispatcher.close()


async def test_e9_endless_recursion_ends_one_call() -> None:
    server = make()

    def deeper(level: int) -> int:
        return deeper(level + 1)

    server.add(lambda: deeper(0), name="dive", run="inline")
    server.add(lambda: deeper(0), name="dive_on_a_thread")
    assert (await server.call("dive")).is_error
    assert (await server.call("dive_on_a_thread")).is_error
    await assert_alive(server)


async def test_an_authors_words_are_shown_and_no_other() -> None:
    server = make()

    @server.tool
    async def refuse() -> None:
        try:
            raise ValueError("password=hunter2")
        except ValueError as error:
            raise ToolError("No such customer: try the number.") from error

    result = await server.call("refuse")
    assert result.text == "No such customer: try the number."


# --- E10 ---


class Loud:
    def __iter__(self) -> Iterator[int]:
        raise TypeError("secret-in-iter")

    def __repr__(self) -> str:
        raise ValueError("secret-in-repr")

    __str__ = __repr__


def circle() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def half_a_generator() -> Iterator[int]:
    yield 1
    raise ValueError("secret-in-generator")


UNSENDABLE: list[tuple[str, Any, str]] = [
    ("surrogate", lambda: "a\udcffb", "Unicode"),
    ("surrogate below", lambda: {"names": ["a\udcff"]}, "Unicode"),
    ("circle", circle, "refers to itself"),
    ("depth", lambda: deep(100_000), "nested too deeply"),
    ("not a number", lambda: {"a": [1.0, math.nan]}, "a[1]"),
    ("infinity", lambda: {"total": -math.inf}, "total"),
    ("alone", lambda: math.nan, "nan"),
    ("large text", lambda: "x" * 60_000_000, "larger than"),
    ("large data", lambda: ["x" * 1000] * 60_000, "larger than"),
    ("object", object, "no JSON form"),
    ("loud", Loud, ""),
    ("generator", half_a_generator, ""),
    ("odd key", lambda: {(1, 2): 3}, ""),
    ("function", lambda: len, "no JSON form"),
]


@pytest.mark.parametrize(("label", "value", "words"), UNSENDABLE, ids=[row[0] for row in UNSENDABLE])
@pytest.mark.parametrize("way", ["async", "thread"])
async def test_e10_what_cannot_be_sent_is_an_error_of_that_call(
    label: str, value: Any, words: str, way: str
) -> None:
    server = make()

    if way == "async":

        @server.tool
        async def give():
            return value()
    else:

        @server.tool
        def give():
            return value()

    result = await server.call("give")
    assert result.is_error
    assert "secret" not in result.text
    assert words in result.text
    await assert_alive(server)


async def test_e10_what_can_be_sent_is() -> None:
    server = make()

    @server.tool
    async def count(to: int) -> AsyncIterator[int]:
        for number in range(to):
            yield number

    @server.tool
    def count_on_a_thread(to: int) -> Iterator[int]:
        yield from range(to)

    server.add(lambda: b"\xff\x00", name="raw")
    server.add(lambda: {3, 1, 2}, name="several")
    server.add(lambda: 10**40, name="huge")
    server.add(lambda: {1: "one"}, name="numbered")
    assert (await server.call("count", {"to": 3})).structured_content == [0, 1, 2]
    assert (await server.call("count_on_a_thread", {"to": 3})).structured_content == [0, 1, 2]
    assert (await server.call("raw")).structured_content == "/wA="
    assert sorted((await server.call("several")).structured_content) == [1, 2, 3]
    assert (await server.call("huge")).text == str(10**40)
    assert (await server.call("numbered")).structured_content == {"1": "one"}


# --- E2 ---


class Counting(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.bytes += len(self.format(record))


async def test_e2_a_thousand_crashes_hold_nobody_up_and_fill_no_disk() -> None:
    server = make()

    def fall(level: int) -> int:
        if level == 0:
            raise ValueError("at the bottom")
        return fall(level - 1)

    @server.tool
    async def crash() -> int:
        await asyncio.sleep(0)
        return fall(200)

    log = Counting()
    logger = logging.getLogger("toolcrib")
    logger.addHandler(log)
    try:
        slowest = math.inf
        for _ in range(3):  # the machine may be busy with something else
            slowest = min(slowest, await _slowest_add_during(server, "crash", 1000))
            if slowest < 0.05:
                break
        server.dispatcher.crashes.flush(5)
    finally:
        logger.removeHandler(log)
    assert slowest < 0.05
    assert 0 < log.bytes <= 1_000_000


async def _slowest_add_during(server: MCPServer, name: str, count: int) -> float:
    async def hammer() -> None:
        for _ in range(count):
            assert (await server.call(name)).is_error

    work = asyncio.create_task(hammer())
    slowest = 0.0
    while not work.done():
        started = time.perf_counter()
        await server.call("add", {"a": 1, "b": 2})
        await asyncio.sleep(0)
        slowest = max(slowest, time.perf_counter() - started)
    await work
    return slowest
