"""The loop that serves goes on whoever stops it."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator

import pytest

from toolcrib.execution import loop as module
from toolcrib.execution.loop import make_loop
from toolcrib.execution.ration import Ration


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[asyncio.AbstractEventLoop]:
    if request.param == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    monkeypatch.setattr(module, "_STOPS", Ration(1, 0.0))
    loop = make_loop()
    assert request.param in ("asyncio", type(loop).__mro__[2].__module__)
    yield loop
    loop.close()


async def stop_and_go_on() -> str:
    loop = asyncio.get_running_loop()
    loop.stop()
    loop.call_soon(loop.stop)
    await asyncio.sleep(0.01)
    return "done"


def test_stopping_is_ignored_and_told(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    assert loop.run_until_complete(stop_and_go_on()) == "done"
    assert caplog.messages == ["something called stop() on the event loop of the server: ignored"] * 2


def test_what_is_not_told_is_counted(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ration = Ration(1, 60.0)
    monkeypatch.setattr(module, "_STOPS", ration)
    loop.run_until_complete(stop_and_go_on())
    assert len(caplog.messages) == 1
    ration._window_end = 0.0
    loop.run_until_complete(stop_and_go_on())
    assert caplog.messages[1].endswith("ignored (1 more times since this was last said)")


def test_a_loop_that_waits_for_nothing_can_be_stopped(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert not caplog.messages


def test_running_it_twice_at_once_is_still_an_error(loop: asyncio.AbstractEventLoop) -> None:
    async def nest() -> None:
        inner = asyncio.sleep(0)
        try:
            with pytest.raises(RuntimeError, match="running"):
                loop.run_until_complete(inner)
        finally:
            inner.close()
        loop.stop()
        await asyncio.sleep(0)

    loop.run_until_complete(nest())
