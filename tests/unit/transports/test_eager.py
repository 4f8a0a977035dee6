"""Requests that start without a task: what they see of tasks and contexts, and when they get a task."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from toolcrib.dispatch.runners import Runner, ToolSlots
from toolcrib.protocol import Peer, PendingRequest, Reply
from toolcrib.transports.eager import EagerStarter, follow, pending_requests

NAME = contextvars.ContextVar("NAME", default="nobody")


class Request(PendingRequest):
    """A request that runs one function."""

    def __init__(self, work: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(Peer(), 1)
        self._work = work
        self.seen: asyncio.Task[Any] | None = None

    async def run(self) -> Reply:
        self.seen = asyncio.current_task()
        return Reply(str(await self._work()).encode())


async def finish(starter: EagerStarter, work: Callable[[], Awaitable[Any]]) -> tuple[Request, bytes | None]:
    """Start a request; return it with the body of its reply."""
    request = Request(work)
    outcome = starter.start(request)
    reply = outcome if isinstance(outcome, Reply) else await outcome
    return request, reply.body


async def one() -> int:
    return 1


async def test_requests_that_do_not_wait_share_one_task_and_leave_the_current_one_alone() -> None:
    starter, own = EagerStarter(), asyncio.current_task()
    first, second = Request(one), Request(one)
    for request in (first, second):
        outcome = starter.start(request)
        assert isinstance(outcome, Reply)
        assert asyncio.current_task() is own
        await asyncio.sleep(0)
    assert first.seen is second.seen is not own
    assert first.task is None
    starter.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert first.seen is not None
    assert first.seen.done()


async def test_a_request_that_waits_goes_on_in_the_task_that_it_saw() -> None:
    starter = EagerStarter()

    async def wait() -> bool:
        before = asyncio.current_task()
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
        return before is asyncio.current_task()

    for _ in range(2):  # in a new task, and in one that has waited for work
        await finish(starter, one)
        await asyncio.sleep(0)
        request, body = await finish(starter, wait)
        assert body == b"True"
        assert request.task is request.seen
    starter.close()


async def test_requests_that_wait_at_the_same_time_have_tasks_of_their_own() -> None:
    starter, release = EagerStarter(), asyncio.Event()

    async def wait() -> None:
        await release.wait()

    requests = [Request(wait) for _ in range(3)]
    tasks = [starter.start(request) for request in requests]
    assert len({request.seen for request in requests}) == 3
    release.set()
    for task in tasks:
        assert isinstance(task, asyncio.Task)
        assert (await task).body == b"None"
    starter.close()


async def test_context_variables_of_one_request_are_not_seen_by_another() -> None:
    starter = EagerStarter()

    async def read() -> str:
        return NAME.get()

    async def write() -> str:
        NAME.set("ada")
        return NAME.get()

    async def write_and_wait() -> str:
        NAME.set("eve")
        await asyncio.sleep(0)
        return NAME.get()

    assert (await finish(starter, write))[1] == b"ada"
    assert (await finish(starter, read))[1] == b"nobody"
    assert (await finish(starter, write_and_wait))[1] == b"eve"
    assert (await finish(starter, read))[1] == b"nobody"
    NAME.set("me")  # as a web framework does with each of its requests
    assert (await finish(starter, read))[1] == b"me"
    NAME.set("you")
    assert (await finish(starter, read))[1] == b"you"
    starter.close()


async def test_a_request_that_cancels_its_task_does_not_cancel_the_next() -> None:
    starter = EagerStarter()

    async def cancel_self() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "cancelled"

    assert (await finish(starter, cancel_self))[1] == b"cancelled"
    assert (await finish(starter, one))[1] == b"1"
    await asyncio.sleep(0)
    assert (await finish(starter, one))[1] == b"1"

    async def cancel_and_wait() -> str:
        await cancel_self()
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return "stopped"
        return "slept"

    assert (await finish(starter, cancel_and_wait))[1] == b"stopped"
    starter.close()


async def test_a_request_that_fails_inside_toolcrib_gets_an_error() -> None:
    async def fail() -> None:
        raise KeyError("ours")

    starter = EagerStarter()
    outcome = starter.start(Request(fail))
    assert isinstance(outcome, Reply)
    assert outcome.status == 500
    starter.close()


async def run_on_thread(runner: Runner, work: Callable[[], Any], *, needs_no_task: bool) -> Any:
    return await runner.run_thread(ToolSlots("tool"), work, 5.0, needs_no_task=needs_no_task)


async def replies_of(starter: EagerStarter, request: Request) -> asyncio.Future[Reply | None]:
    """Start a request, and return the future of what its transport is given."""
    replied: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
    follow(request, starter.start(request), replied.set_result)
    return replied


async def test_a_request_that_only_waits_for_a_thread_has_no_task_and_can_be_cancelled() -> None:
    starter, runner, release = EagerStarter(), Runner(), threading.Event()
    quick = Request(lambda: run_on_thread(runner, lambda: 7, needs_no_task=True))
    slow = Request(lambda: run_on_thread(runner, release.wait, needs_no_task=True))
    replied, cancelled = await replies_of(starter, quick), await replies_of(starter, slow)
    assert not isinstance(quick.task, asyncio.Task)
    reply = await replied
    assert reply is not None
    assert reply.body == b"7"
    assert slow in pending_requests()
    slow.cancel()
    assert await cancelled is None
    assert slow not in pending_requests()
    assert runner.abandoned == 1
    release.set()
    runner.close()
    starter.close()


async def test_a_request_whose_code_may_have_seen_its_task_keeps_it_while_a_thread_works() -> None:
    starter, runner = EagerStarter(), Runner()
    request = Request(lambda: run_on_thread(runner, lambda: 7, needs_no_task=False))
    replied = await replies_of(starter, request)
    assert request.task is request.seen
    reply = await replied
    assert reply is not None
    assert reply.body == b"7"
    runner.close()
    starter.close()
