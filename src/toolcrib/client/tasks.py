"""Tasks of 2026-07-28: tool calls that a server answers later (extension io.modelcontextprotocol/tasks).

The server decides which calls become tasks. A task is asked for with `tasks/get` until it ends, no more often
than the server wishes, and less often while nothing changes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from toolcrib.client.entries import read_result, text_of
from toolcrib.content import Result
from toolcrib.errors import (
    ClientError,
    InvalidResponseError,
    RemoteError,
    ResponseTimeoutError,
    TaskCancelledError,
    TransportError,
)

logger = logging.getLogger("toolcrib")

State = Literal["working", "input_required", "completed", "failed", "cancelled"]
SendRequest = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
AnswerAll = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]

EXTENSION = "io.modelcontextprotocol/tasks"
MAX_ANSWERS = 1000
"""How many questions one task may ask."""
_INVALID_PARAMS = -32602
_STATES = frozenset(get_args(State))
_ENDED = ("completed", "failed", "cancelled")
_DEFAULT_PAUSE_S, _SHORTEST_PAUSE_S, _LONGEST_PAUSE_MS = 1.0, 0.02, 60_000
_SLOWEST_PAUSE_S = 10.0  # if the server does not ask for a longer one
_MAX_FAILURES = 5  # in a row
_CANCEL_S = 2.0


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The status of a task. Times are in ISO 8601; `message` is for people."""

    state: State
    message: str | None = None
    created_at: str | None = None
    last_updated_at: str | None = None
    ttl_ms: int | None = None
    poll_interval_ms: int | None = None

    @property
    def has_ended(self) -> bool:
        return self.state in _ENDED


class TaskHandle:
    """A call that was started with `client.start`. `id` is None if the server answered it at once.

    Questions of the task are answered while `result` waits. Cancelling `result`, or its timeout, leaves the
    task running; `cancel` cancels it.
    """

    def __init__(self, task: Mapping[str, Any] | None, channel: TaskChannel) -> None:
        self.id: str | None = None
        self._channel = channel
        self._status = TaskStatus("completed")
        self._outcome: Result | ClientError | None = None
        self._answered: set[str] = set()
        self._changed_at = self._asked_at = time.monotonic()
        if task is not None:
            task_id = task.get("taskId")
            if not isinstance(task_id, str) or not task_id:
                raise InvalidResponseError(f"{channel.label} returned a task without taskId")
            self.id = task_id
            self._status = _read_status(task, channel.label)

    @classmethod
    def ended(cls, result: Result, channel: TaskChannel) -> TaskHandle:
        """Return the handle of a call that the server answered at once."""
        handle = cls(None, channel)
        handle._outcome = result
        return handle

    @classmethod
    def of_id(cls, task_id: str, channel: TaskChannel) -> TaskHandle:
        """Return the handle of a task that was started earlier."""
        handle = cls(None, channel)
        handle.id, handle._status = task_id, TaskStatus("working")
        handle._asked_at = 0.0
        return handle

    @property
    def is_done(self) -> bool:
        """Whether the end of the task is known."""
        return self._outcome is not None

    async def status(self) -> TaskStatus:
        """Ask the server how the task is doing. Raises ClientError."""
        if self._outcome is None:
            await self._refresh()
        return self._status

    async def result(self, *, timeout_s: float | None = None) -> Result:
        """Wait for the result. Raises RemoteError if the task failed, TaskCancelledError if it was cancelled,
        and other ClientErrors. `timeout_s` does not count the time that a person needs to answer."""
        try:
            async with asyncio.timeout(timeout_s) as limit:
                while self._outcome is None:
                    await asyncio.sleep(self._pause_s())
                    questions = await self._refresh_patiently()
                    if questions:
                        await self._answer(questions, limit)
        except TimeoutError:
            if not limit.expired():
                raise
            raise ResponseTimeoutError(
                f"{self._channel.label}: task {self.id} did not end within {timeout_s:.3g} s"
            ) from None
        if isinstance(self._outcome, Result):
            return self._outcome
        raise self._outcome

    async def cancel(self) -> None:
        """Ask the server to cancel the task. It may end in another way before that. Raises ClientError."""
        if self._outcome is None:
            await self._channel.request("tasks/cancel", {"taskId": self.id})

    async def cancel_quietly(self) -> None:
        """Cancel the task if the server can be reached, within two seconds."""
        try:
            async with asyncio.timeout(_CANCEL_S):
                await self.cancel()
        except (ClientError, TimeoutError) as error:
            logger.debug("%s: task %s was not cancelled: %s", self._channel.label, self.id, error)

    # --- asking ---

    def _pause_s(self) -> float:
        """Return how long to wait: as the server wishes, and longer while nothing changes."""
        wanted_ms = self._status.poll_interval_ms
        first_s = _DEFAULT_PAUSE_S if wanted_ms is None else min(wanted_ms, _LONGEST_PAUSE_MS) / 1000
        quiet_s = self._asked_at - self._changed_at
        pause_s = max(first_s, _SHORTEST_PAUSE_S, min(quiet_s / 10, _SLOWEST_PAUSE_S))
        return max(self._asked_at + pause_s - time.monotonic(), 0.0)

    async def _refresh_patiently(self) -> Mapping[str, Any]:
        """Refresh; a task outlives a connection that breaks, so try several times."""
        for failures in range(1, _MAX_FAILURES):
            try:
                return await self._refresh()
            except (TransportError, ResponseTimeoutError) as error:
                if not self._channel.may_retry(error):
                    raise
                logger.debug("%s: tasks/get failed: %s", self._channel.label, error)
                await asyncio.sleep(min(0.1 * 2**failures, _SLOWEST_PAUSE_S))
        return await self._refresh()

    async def _refresh(self) -> Mapping[str, Any]:
        """Get the task; keep its outcome if it has ended, else return its open questions."""
        try:
            task = await self._channel.request("tasks/get", {"taskId": self.id})
        except RemoteError as error:
            if error.rpc_code == _INVALID_PARAMS:
                self._outcome = error  # the server no longer knows the task
            raise
        finally:
            self._asked_at = time.monotonic()
        before, self._status = self._status, _read_status(task, self._channel.label)
        if before != self._status:
            self._changed_at = self._asked_at
        if self._status.has_ended:
            self._outcome = self._read_outcome(task)
        questions = task.get("inputRequests") if self._status.state == "input_required" else None
        if not isinstance(questions, Mapping):
            return {}
        return {key: item for key, item in questions.items() if key not in self._answered}

    def _read_outcome(self, task: Mapping[str, Any]) -> Result | ClientError:
        label = self._channel.label
        if self._status.state == "cancelled":
            return TaskCancelledError(self._status.message or f"{label}: the task was cancelled")
        if self._status.state == "failed":
            error = task.get("error")
            if not isinstance(error, Mapping) or type(error.get("code")) is not int:
                return InvalidResponseError(f"{label} sent a failed task without an error")
            message = text_of(error, "message") or "an error without a message"
            return RemoteError(message, rpc_code=error["code"], data=error.get("data"))
        result = task.get("result")
        if not isinstance(result, Mapping):
            return InvalidResponseError(f"{label} sent a completed task without a result")
        try:
            return read_result(result, label)
        except InvalidResponseError as failure:
            return failure

    async def _answer(self, questions: Mapping[str, Any], limit: asyncio.Timeout) -> None:
        """Answer with the timeout paused, since a person may be asked."""
        loop = asyncio.get_running_loop()
        due = limit.when()
        left_s = None if due is None else due - loop.time()
        limit.reschedule(None)
        answers = await self._channel.answer(questions)
        limit.reschedule(None if left_s is None else loop.time() + left_s)
        self._answered.update(answers)
        if len(self._answered) > MAX_ANSWERS:
            raise InvalidResponseError(f"{self._channel.label} asked more than {MAX_ANSWERS} questions")
        await self._channel.request("tasks/update", {"taskId": self.id, "inputResponses": answers})
        self._changed_at = time.monotonic()


@dataclass(frozen=True, slots=True)
class TaskChannel:
    """The parts of a client that a task uses."""

    label: str
    request: SendRequest
    answer: AnswerAll
    may_retry: Callable[[ClientError], bool]


def _read_status(task: Mapping[str, Any], label: str) -> TaskStatus:
    state = task.get("status")
    if not isinstance(state, str) or state not in _STATES:
        raise InvalidResponseError(f"{label} returned a task with the unknown status {state!r:.40}")
    return TaskStatus(
        cast("State", state),
        text_of(task, "statusMessage"),
        text_of(task, "createdAt"),
        text_of(task, "lastUpdatedAt"),
        _positive(task, "ttlMs"),
        _positive(task, "pollIntervalMs"),
    )


def _positive(item: Mapping[str, Any], key: str) -> int | None:
    value = item.get(key)
    return value if type(value) is int and value > 0 else None
