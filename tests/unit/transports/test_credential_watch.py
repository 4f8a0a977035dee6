"""Streams are ended when their credentials are no longer valid."""

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


async def test_only_streams_with_invalid_credentials_are_ended() -> None:
    valid = {"ana", "ben"}
    watch = CredentialWatch(valid.__contains__, every_s=0.005)
    streams = {name: Stream() for name in valid}
    for name, stream in streams.items():
        watch.add(stream, name)
    valid.remove("ana")
    async with asyncio.timeout(10):
        await streams["ana"].ended.wait()
    assert not streams["ben"].ended.is_set()
    assert len(watch) == 1
    valid.clear()
    async with asyncio.timeout(10):
        await streams["ben"].ended.wait()
    watch.close()


async def test_nothing_is_checked_once_all_streams_are_gone() -> None:
    checked: list[Any] = []
    watch = CredentialWatch(lambda shown: not checked.append(shown), every_s=60)
    watch.add(Stream(), "ana")
    assert watch._timer is not None
    gc.collect()
    assert len(watch) == 0
    watch._timer.cancel()
    watch._tick()
    assert (checked, watch._timer) == ([], None)


async def test_nothing_is_checked_after_close() -> None:
    watch = CredentialWatch(lambda _: False, every_s=60)
    stream = Stream()
    watch.add(stream, "ana")
    watch.close()
    watch.check()
    assert not stream.ended.is_set()
    assert watch._timer is None


async def test_checking_goes_on_after_a_check_that_failed() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    tries: list[str] = []

    def is_valid(shown: str) -> bool:
        tries.append(shown)
        if len(tries) == 1:
            raise OSError("not now")
        return False

    watch = CredentialWatch(is_valid, every_s=0.005)
    stream = Stream()
    watch.add(stream, "ana")
    async with asyncio.timeout(10):
        await stream.ended.wait()
    watch.close()
