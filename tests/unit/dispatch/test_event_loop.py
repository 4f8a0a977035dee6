"""The event loop of a server keeps running when tools try to stop it."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from toolcrib.dispatch import event_loop as module
from toolcrib.dispatch.event_loop import make_loop, run_loop
from toolcrib.dispatch.rate_limit import LogLimiter


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[asyncio.AbstractEventLoop]:
    if request.param == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    monkeypatch.setattr(module, "_STOPS", LogLimiter(1, 0.0))
    monkeypatch.setattr(module, "_EXITS", LogLimiter(1, 60.0))
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
    limiter = LogLimiter(1, 60.0)
    monkeypatch.setattr(module, "_STOPS", limiter)
    loop.run_until_complete(stop_and_go_on())
    assert len(caplog.messages) == 1
    limiter.reset()
    loop.run_until_complete(stop_and_go_on())
    assert caplog.messages[1].endswith("ignored (1 more times since the last message)")


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


def test_an_error_that_nobody_awaits_is_logged_redacted(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("password=hunter2")

    async def main() -> None:
        asyncio.get_running_loop().call_soon(fail)
        await asyncio.sleep(0.01)
        loop.call_exception_handler({"message": "", "task": "token=hunter2"})

    loop.run_until_complete(main())
    first, second = caplog.records
    assert {record.name for record in caplog.records} == {"toolcrib"}
    assert first.getMessage().startswith("Exception in callback")
    assert "ValueError: password=[redacted]" in caplog.text
    assert second.getMessage() == "Unhandled exception in event loop\ntask: 'token=[redacted]'"


async def fail_in_threads(*errors: BaseException | None) -> None:
    for error in errors:
        kind = type(error) if error is not None else SystemExit
        for thread in (threading.Thread(name="worker"), None):
            threading.excepthook(threading.ExceptHookArgs((kind, error, None, thread)))


def test_errors_of_threads_are_logged_redacted_while_a_server_runs(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    run_loop(fail_in_threads(ValueError("password=hunter2"), SystemExit(3), None))
    assert caplog.messages == ["Exception in thread worker", "Exception in thread (unknown)"]
    assert "hunter2" not in caplog.text
    assert threading.excepthook is threading.__excepthook__


@pytest.mark.parametrize("is_set_before", [True, False])
def test_a_hook_of_the_program_for_errors_of_threads_stays(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, is_set_before: bool
) -> None:
    heard: list[object] = []
    monkeypatch.setattr(threading, "excepthook", heard.append if is_set_before else threading.__excepthook__)

    async def main() -> None:
        threading.excepthook = heard.append
        await fail_in_threads(ValueError("x"))

    run_loop(main())
    assert len(heard) == 2
    assert threading.excepthook == heard.append
    assert not caplog.messages


EXITS = "a task or callback on the event loop of the server raised SystemExit(3): ignored"


async def exit_twice_and_go_on() -> str:
    for _ in range(2):
        asyncio.get_running_loop().call_soon(sys.exit, 3)
        await asyncio.sleep(0.01)
    return "done"


def test_an_exit_of_a_callback_is_ignored_and_told(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    assert loop.run_until_complete(exit_twice_and_go_on()) == "done"
    assert caplog.messages == [EXITS]
    module._EXITS.reset()
    loop.run_until_complete(exit_twice_and_go_on())
    assert caplog.messages == [EXITS, f"{EXITS} (1 more times since the last message)"]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_exit_of_what_is_awaited_ends_it(
    loop: asyncio.AbstractEventLoop, kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async def leave() -> None:
        raise kind(3)

    task = loop.create_task(leave())
    with pytest.raises(kind):
        loop.run_until_complete(task)
    assert isinstance(task.exception(), kind)  # seen, so that nobody is told of it later
    assert not caplog.messages


def end(number: int, frame: object) -> None:
    raise SystemExit(7)


class Handler:
    def leave(self, number: int, frame: object) -> None:
        end(number, frame)


@pytest.mark.parametrize(
    ("number", "handler", "kind"),
    [
        (signal.SIGTERM, end, SystemExit),
        (signal.SIGTERM, Handler().leave, SystemExit),
        (signal.SIGINT, signal.default_int_handler, KeyboardInterrupt),
    ],
)
def test_a_signal_ends_it(
    loop: asyncio.AbstractEventLoop, number: signal.Signals, handler: Any, kind: type[BaseException]
) -> None:
    async def wait() -> None:
        loop.call_soon(signal.raise_signal, number)
        await asyncio.Event().wait()

    before = signal.signal(number, handler)
    work = loop.create_task(wait())
    try:
        with pytest.raises(kind):
            loop.run_until_complete(work)
    finally:
        signal.signal(number, before)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(work)


def test_a_main_task_that_is_cancelled_from_inside_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        for task in asyncio.all_tasks():
            task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(SystemExit, match="1"):
        run_loop(main())
    assert caplog.messages[0].startswith("the server ended because its main task was cancelled from inside")
