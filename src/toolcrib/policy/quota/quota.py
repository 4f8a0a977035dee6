"""The limits of a policy, applied to calls."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from toolcrib.component import Component
from toolcrib.config.settings import Policy
from toolcrib.content import Result, text_block
from toolcrib.context import Channel, InputNeeded, Principal, Question, Reply
from toolcrib.dispatch.calls import Call, exceeds_size
from toolcrib.dispatch.middleware import Next
from toolcrib.errors import CannotAskError, ConfigurationError, ErrorCollector, InvalidResultError
from toolcrib.policy.quota.limits import CallLimits, CompiledLimit
from toolcrib.state import StateHandle
from toolcrib.state.base import Counters, Lease, Refused, Soon

MAX_CACHED = 10_000
"""The number of pairs of principal and tool whose limits are remembered."""


class Quota:
    """The limits of a policy. Raises ConfigurationError for invalid ones; given `problems`, they are
    collected there instead and left out."""

    def __init__(self, policy: Policy, problems: ErrorCollector | None = None) -> None:
        found = ErrorCollector() if problems is None else problems
        self._limits: list[CompiledLimit] = []
        for number, limit in enumerate(policy.limits, start=1):
            with found.collecting():
                self._limits.append(CompiledLimit(policy, number, limit))
        if problems is None:
            found.raise_errors()
        self._cache: dict[tuple[Principal, Component], CallLimits | None] = {}

    def check(self, tools: Sequence[Component]) -> list[ConfigurationError]:
        """Return errors for limits that match none of these tools, and clear the cache."""
        self._cache = {}
        return [error for limit in self._limits for error in limit.tools.check(tools)]

    def limits_tool(self, tool: Component) -> bool:
        """Whether any limit is about this tool, for any principal."""
        return any(limit.tools.matches(tool) for limit in self._limits)

    def find(self, principal: Principal, tool: Component) -> CallLimits | None:
        """Return the limits on calls of a tool by a principal, None if there are none."""
        pair = (principal, tool)
        try:
            return self._cache[pair]
        except KeyError:
            pass
        matching = [limit for limit in self._limits if limit.matches(principal, tool)]
        limits = CallLimits(matching, principal, tool) if matching else None
        if len(self._cache) >= MAX_CACHED:
            self._cache = {}
        self._cache[pair] = limits
        return limits


class QuotaMiddleware:
    """Middleware that counts calls and refuses those that exceed a limit. A budget is given back if the tool
    never ran."""

    def __init__(self, quota: Quota, storage: StateHandle) -> None:
        self._quota = quota
        self._storage = storage

    def __call__(self, call: Call, next: Next) -> Awaitable[Result]:
        assert call.tool is not None  # calls of unknown tools do not get here  # noqa: S101
        limits = self._quota.find(call.principal, call.tool)
        if limits is None:
            return next(call)
        most = limits.max_arguments_bytes
        if most is not None and (size := call.measure_arguments()) > most:
            raise limits.refuse_size(size)
        if limits.timeout_s is not None:
            call.shorten(limits.timeout_s)
        admitted: Soon[Lease | Refused] | None = None
        if limits.counted.each:
            mark = call.channel.resumes if call.channel.is_prompted else None
            admitted = self._storage.counters.acquire(limits.counted, mark=mark)
            if isinstance(admitted, Refused):
                raise limits.refuse(admitted)
            if not limits.is_held and isinstance(admitted, Lease):
                admitted = None
        if admitted is None and limits.max_result_bytes is None:
            return next(call)
        return self._run(call, next, limits, admitted)

    async def _run(
        self, call: Call, next: Next, limits: CallLimits, admitted: Soon[Lease | Refused] | None
    ) -> Result:
        slot = None
        if admitted is not None:
            lease = await admitted if inspect.isawaitable(admitted) else admitted
            if isinstance(lease, Refused):
                raise limits.refuse(lease)
            if limits.is_held:
                slot = Slot(self._storage.counters, lease)
                call.channel = cast(Channel, PausingChannel(call.channel, slot))
                call.outlive = slot.outlive
        has_run = False
        try:
            result = await next(call)
            most = limits.max_result_bytes
            if most is not None and result.error is None and exceeds_size(result, most):
                name = call.name if call.tool is None else call.tool.name
                error = InvalidResultError(f"The result of tool '{name}' exceeds the limit of {most} bytes.")
                result = Result([text_block(str(error))], is_error=True, error=error)
            return result
        except InputNeeded:
            has_run = True  # made again with the answer, the call is not counted again
            raise
        finally:
            if slot is not None:
                slot.leave(ran=has_run or call.has_run)


class Slot:
    """What an admitted call holds: until it is answered and none of its code runs, and not while the user is
    asked."""

    __slots__ = ("_counters", "_lease", "_lock", "_questions", "_ran", "_users")

    def __init__(self, counters: Counters, lease: Lease) -> None:
        self._counters = counters
        self._lease = lease
        self._lock = threading.Lock()
        self._users = 1  # the call itself, and code that outlives it
        self._questions = 0
        self._ran = False

    def leave(self, *, ran: bool) -> None:
        """Note that the call is answered. If the tool never ran, its share of budgets is given back."""
        with self._lock:
            self._ran = ran
        self._end()

    def outlive(self) -> Callable[[], None]:
        """Keep the slot after `leave`, because code of the call still runs. Call the returned function
        when it has ended, from any thread."""
        with self._lock:
            if not self._users:
                return lambda: None
            self._users += 1
        ends = iter([self._end])
        return lambda: next(ends, lambda: None)()

    def _end(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._counters.release(self._lease, ran=self._ran)

    def pause(self) -> None:
        """Free the slot until `resume`, while the user is asked. Pauses may be nested."""
        with self._lock:
            self._questions += 1
            self._counters.release(self._lease, ran=True)

    async def resume(self) -> None:
        """Take a slot again, even above the maximum."""
        with self._lock:
            self._questions -= 1
            if self._questions or not self._users:
                return
        resumed = self._counters.acquire(self._lease.limits, resumed=True)
        lease = await resumed if inspect.isawaitable(resumed) else resumed
        assert isinstance(lease, Lease)  # never refused  # noqa: S101
        with self._lock:
            if self._users and not self._questions:
                self._lease = lease._replace(day=self._lease.day)
                return
        self._counters.release(lease, ran=True)  # it was left, or asks again, meanwhile


class PausingChannel:
    """A channel that frees the slot of the call while the user is asked."""

    __slots__ = ("_channel", "_slot")

    def __init__(self, channel: Channel, slot: Slot) -> None:
        self._channel = channel
        self._slot = slot

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)  # everything but `ask`

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:
        self._slot.pause()
        try:
            replies = await self._channel.ask(questions)
        except CannotAskError:
            await self._slot.resume()  # after this error, the tool continues without an answer
            raise
        await self._slot.resume()
        return replies
