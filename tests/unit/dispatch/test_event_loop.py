"""The event loop of a server: unhandled errors are logged redacted, and how it ends."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator

import pytest

from toolcrib.dispatch.event_loop import make_loop, run_loop


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[asyncio.AbstractEventLoop]:
    if request.param == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = make_loop()
    assert type(loop).__module__.startswith(request.param)
    yield loop
    loop.close()


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


def test_a_main_task_that_is_cancelled_from_inside_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        for task in asyncio.all_tasks():
            task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(SystemExit, match="1"):
        run_loop(main())
    assert caplog.messages[0].startswith("the server ended because its main task was cancelled from inside")
