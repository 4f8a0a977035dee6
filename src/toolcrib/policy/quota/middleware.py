"""Quotas around a call: rate, concurrency, daily budget, sizes and time."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from toolcrib.content import Result, text_block
from toolcrib.context import Channel, InputNeeded, Question, Reply
from toolcrib.dispatch.middleware import Call, Next
from toolcrib.errors import CannotAskError, InvalidResultError
from toolcrib.policy.outcome import exceeds_size
from toolcrib.policy.quota.quota import Quota
from toolcrib.policy.quota.store import Slot
from toolcrib.tool import Tool


class QuotaMiddleware:
    """Admits calls as the limits of a policy say. A budget is given back where the tool never ran."""

    def __init__(self, quota: Quota) -> None:
        self._quota = quota

    async def open(self) -> None:
        await self._quota.open()

    async def close(self) -> None:
        await self._quota.close()

    def applies_to(self, tool: Tool) -> bool:
        return self._quota.limits_tool(tool)

    def __call__(self, call: Call, next: Next) -> Awaitable[Result]:
        channel = call.channel
        resumes = channel.resumes if channel.is_prompted else None
        assert call.tool is not None  # nosec B101  # unknown tools do not get here
        entered = self._quota.enter(call.principal, call.tool, call.measure_arguments, resumes=resumes)
        return next(call) if entered is None else self._run(call, next, call.tool.name, entered)

    async def _run(self, call: Call, next: Next, tool: str, entered: Slot | Awaitable[Slot]) -> Result:
        slot = entered if isinstance(entered, Slot) else await entered
        has_run = False
        try:
            demand = slot.demand
            if demand.timeout_s is not None:
                call.shorten(demand.timeout_s)
            if demand.is_counted:
                call.channel, call.outlive = PausingChannel(call.channel, slot), slot.outlive
            result = await next(call)
            most = demand.max_result_bytes
            if most is not None and result.error is None and exceeds_size(result, most):
                result = _too_long(tool, most)
            return result
        except InputNeeded:
            has_run = True  # made again with the answer, the call is not counted again
            raise
        finally:
            slot.leave(ran=has_run or call.has_run)


class PausingChannel:
    """A channel that frees the call's slot while a person is asked, and takes one again afterwards."""

    __slots__ = ("_channel", "_slot")

    def __init__(self, channel: Channel, slot: Slot) -> None:
        self._channel = channel
        self._slot = slot

    @property
    def resumes(self) -> str | None:
        return self._channel.resumes

    @property
    def is_prompted(self) -> bool:
        return self._channel.is_prompted

    @property
    def is_gone(self) -> bool:
        return self._channel.is_gone

    @property
    def request(self) -> str | int | None:
        return self._channel.request

    @property
    def trace(self) -> str | None:
        return self._channel.trace

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._channel.progress(progress, total, message)

    def log(self, level: str, data: Any) -> None:
        self._channel.log(level, data)

    def close_stream(self) -> None:
        self._channel.close_stream()

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:
        self._slot.pause()
        try:
            replies = await self._channel.ask(questions)
        except CannotAskError:
            await self._slot.resume()  # only this error lets the tool go on without an answer
            raise
        await self._slot.resume()
        return replies


def _too_long(tool: str, most: int) -> Result:
    error = InvalidResultError(
        f"The result of tool '{tool}' is longer than the {most} bytes that are allowed."
    )
    return Result([text_block(str(error))], is_error=True, error=error)
