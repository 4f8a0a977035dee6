"""Streams that last: looked at while there are some, ended when they may not go on."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from toolcrib.transports.http.auth import CredentialWatch


class Stream:
    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def begin(self, writer: Any) -> None: ...

    def lost(self) -> None: ...

    def end(self) -> None:
        self.ended.set()


async def test_only_those_that_are_not_good_any_more_are_ended() -> None:
    good = {"ana", "ben"}
    attendance = CredentialWatch(good.__contains__, every_s=0.005)
    streams = {name: Stream() for name in good}
    for name, stream in streams.items():
        attendance.add(stream, name)
    good.remove("ana")
    async with asyncio.timeout(10):
        await streams["ana"].ended.wait()
    assert not streams["ben"].ended.is_set()
    assert len(attendance) == 1
    good.clear()
    async with asyncio.timeout(10):
        await streams["ben"].ended.wait()
    attendance.close()


async def test_a_stream_that_is_gone_is_forgotten_and_nobody_is_looked_at_then() -> None:
    looked: list[Any] = []
    attendance = CredentialWatch(lambda shown: not looked.append(shown), every_s=60)
    attendance.add(Stream(), "ana")
    assert attendance._timer is not None
    gc.collect()
    assert len(attendance) == 0
    attendance._timer.cancel()
    attendance._tick()
    assert (looked, attendance._timer) == ([], None)


async def test_when_the_server_ends_nobody_is_looked_at() -> None:
    attendance = CredentialWatch(lambda _: False, every_s=60)
    stream = Stream()
    attendance.add(stream, "ana")
    attendance.close()
    attendance.check()
    assert not stream.ended.is_set()
    assert attendance._timer is None


async def test_a_look_that_fails_is_not_the_last_one() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    tries: list[str] = []

    def is_good(shown: str) -> bool:
        tries.append(shown)
        if len(tries) == 1:
            raise OSError("not now")
        return False

    attendance = CredentialWatch(is_good, every_s=0.005)
    stream = Stream()
    attendance.add(stream, "ana")
    async with asyncio.timeout(10):
        await stream.ended.wait()
    attendance.close()
