"""The limits of a policy, applied to calls."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from toolcrib.component import Component
from toolcrib.config.settings import Policy
from toolcrib.context import Channel, Principal, Question, Reply
from toolcrib.errors import CannotAskError, ConfigurationError, ErrorCollector
from toolcrib.policy.quota.limits import CallLimits, CompiledLimit
from toolcrib.state.base import Counters, Lease

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
