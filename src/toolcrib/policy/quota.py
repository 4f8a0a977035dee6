"""Limits on rate, concurrency, calls per day, time and size.

A `CompiledLimit` is one limit of a policy. A `CallLimits` has all limits on calls of one tool by one
principal, with the counts that `Counters` of `toolcrib.state` keep for them. A `Slot` is what an admitted
call holds.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from toolcrib.component import Component
from toolcrib.config.settings import Limit, Policy, Rate
from toolcrib.content import Result, text_block
from toolcrib.context import Channel, Principal, Question, Reply
from toolcrib.dispatch.calls import exceeds_size
from toolcrib.errors import (
    CannotAskError,
    ConfigurationError,
    ErrorCollector,
    InvalidResultError,
    ThrottledError,
)
from toolcrib.policy.selectors import PrincipalSelector, ToolSelector
from toolcrib.registry.selection import tags_of
from toolcrib.state import base
from toolcrib.state.base import Counters, Lease, Limits, Refused

_Number = TypeVar("_Number", int, float)


class CompiledLimit:
    """One limit of a policy. `number` is its position there, from 1."""

    __slots__ = ("_principals", "label", "limit", "number", "tools")

    def __init__(self, policy: Policy, number: int, limit: Limit) -> None:
        self.limit = limit
        self.number = number
        self.label = limit.name or f"limits[{number}]"
        problems = ErrorCollector()
        with problems.collecting():
            self.tools = ToolSelector(policy, f"limits[{number}].tools", limit.tools)
        with problems.collecting():
            self._principals = PrincipalSelector(policy, f"limits[{number}].who", limit.who)
        problems.raise_errors()

    def matches(self, principal: Principal, tool: Component) -> bool:
        return self.tools.matches(tool) and self._principals.matches(principal)

    def counts(self, principal: Principal, tool: Component) -> Iterator[base.Limit]:
        """Yield what calls of this principal and tool are counted as: several of a kind, if counted per
        tag."""
        limit = self.limit
        for key in self._keys(principal, tool):
            if isinstance(limit.rate, Rate):
                count, period_ms, burst = limit.rate.count, round(limit.rate.period_s * 1000), limit.burst
                # The rate is part of the key: a file may hold counts of an earlier one, in another unit.
                yield base.Limit("rate", f"{limit.rate}|{key}", count, period_ms, burst or count)
            if limit.daily is not None:
                yield base.Limit("budget", key, limit.daily, 0, 0)
            if limit.concurrency is not None:
                yield base.Limit("concurrency", key, limit.concurrency, 0, 0)

    def _keys(self, principal: Principal, tool: Component) -> list[str]:
        """Return the keys that calls of this principal and tool are counted under."""
        parts = set(self.limit.per.split("+"))
        start = [f"{self.number}:{self.limit.name or ''}"]
        if "principal" in parts:
            start.append(f"principal={principal.name}")
        if "tool" in parts:
            start.append(f"tool={tool.reference.casefold()}")  # as in the registry: versions and cases share
        # Tools without a tag share one count: a limit per tag is not meant to leave them unlimited.
        tags = dict.fromkeys(tags_of(tool)) or [""]
        ends = [[f"tag={tag}"] for tag in tags] if "tag" in parts else [[]]
        return ["|".join(_escape(part) for part in (*start, *end)) for end in ends]


class CallLimits:
    """All limits on calls of one tool by one principal.

    `counted` is for `Counters`; `is_held`: what a call takes has to be released. `timeout_s`,
    `max_arguments_bytes` and `max_result_bytes` are the smallest of each.
    """

    __slots__ = (
        "_size_limit",
        "_sources",
        "_tool",
        "counted",
        "is_held",
        "max_arguments_bytes",
        "max_result_bytes",
        "timeout_s",
    )

    def __init__(self, limits: list[CompiledLimit], principal: Principal, tool: Component) -> None:
        self._tool = tool
        self._sources = {each: limit for limit in limits for each in limit.counts(principal, tool)}
        self.counted = Limits(tuple(self._sources), f"{principal.name} {tool.reference}", "local")
        self.is_held = any(each.kind != "rate" for each in self.counted.each)
        self.timeout_s = _least(each.limit.timeout_s for each in limits)
        self.max_result_bytes = _least(each.limit.max_result_bytes for each in limits)
        self.max_arguments_bytes = most = _least(each.limit.max_arguments_bytes for each in limits)
        sized = (each.label for each in limits if most is not None and each.limit.max_arguments_bytes == most)
        self._size_limit = next(sized, "")

    async def admit(self, answer: Refused | Awaitable[Lease | Refused]) -> Lease:
        """Wait for the answer of counters, and raise ThrottledError if it is a refusal."""
        admitted = answer if isinstance(answer, Refused) else await answer
        if isinstance(admitted, Refused):
            raise self.refuse(admitted)
        return admitted

    def refuse(self, refused: Refused) -> ThrottledError:
        """Return the error of a call that exceeds a rate, its daily budget, or its concurrency."""
        tool, limit, retry_s = self._tool.reference, refused.limit, refused.retry_ms / 1000
        if limit is None:
            problem, details = f"Calls of '{tool}' cannot be counted now", dict[str, Any]()
        else:
            problem = _PROBLEMS[limit.kind].format(tool)
            details = {"limit": self._sources[limit].label, "kind": limit.kind}
        details["retryAfterS"] = retry_s
        return ThrottledError(f"{problem}: try again in {format_wait(retry_s)}.", details=details)

    def check_result(self, result: Result) -> Result:
        """Return the result, or an error if it is too large."""
        most = self.max_result_bytes
        if most is None or result.error is not None or not exceeds_size(result, most):
            return result
        problem = f"The result of tool '{self._tool.name}' exceeds the limit of {most} bytes."
        error = InvalidResultError(problem)
        return Result([text_block(problem)], is_error=True, error=error)

    def check_arguments(self, size: int) -> None:
        """Raise ThrottledError for arguments that are too large; waiting does not help."""
        most = self.max_arguments_bytes
        if most is None or size <= most:
            return
        problem = f"The arguments of '{self._tool.name}' are too large: {size} bytes"
        details = {"limit": self._size_limit, "kind": "size", "maxBytes": most}
        raise ThrottledError(f"{problem}, and at most {most} are allowed.", details=details)


_PROBLEMS = {
    "rate": "Too many calls of '{}'",
    "budget": "The daily budget for calls of '{}' is used up",
    "concurrency": "Too many calls of '{}' at once",
}


def _least(values: Iterable[_Number | None]) -> _Number | None:
    return min((value for value in values if value is not None), default=None)


def _escape(part: str) -> str:
    return part.replace("%", "%25").replace("|", "%7C")


def format_wait(wait_s: float) -> str:
    """Return `0.25 s`, `3 s`, `12 min` or `5 h 13 min`, rounded up."""
    if wait_s < 10:
        return f"{wait_s:g} s"
    whole_s = -int(-wait_s // 1)
    if whole_s < 120:
        return f"{whole_s} s"
    minutes = -(-whole_s // 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


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

    def check(self, tools: Sequence[Component]) -> list[ConfigurationError]:
        """Return errors for limits that match none of these tools."""
        return [error for limit in self._limits for error in limit.tools.check(tools)]

    def find(self, principal: Principal, tool: Component) -> CallLimits | None:
        """Return the limits on calls of a tool by a principal, None if there are none."""
        matching = [limit for limit in self._limits if limit.matches(principal, tool)]
        return CallLimits(matching, principal, tool) if matching else None


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

    def wrap_channel(self, channel: Channel) -> Channel:
        """Return a channel that frees the slot while the user is asked."""
        return cast(Channel, PausingChannel(channel, self))

    def leave(self, *, ran: bool) -> None:
        """Note that the call is answered. If the tool never ran, its share of budgets is given back."""
        with self._lock:
            self._ran = ran
            self._users -= 1
            if not self._users:
                self._counters.release(self._lease, ran=ran)

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
