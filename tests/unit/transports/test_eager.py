"""Requests that start without a task: what they see of tasks and contexts, and when they get a task."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

from toolcrib.protocol import Peer, PendingRequest, Reply
from toolcrib.transports.eager import EagerStarter

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
