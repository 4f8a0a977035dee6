"""The limits of a policy, applied to calls: `Quota` by itself, `QuotaMiddleware` around calls."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from toolcrib.component import Component
from toolcrib.config.settings import Policy
from toolcrib.content import Result, text_block
from toolcrib.context import Channel, InputNeeded, Principal, Question, Reply
from toolcrib.dispatch.calls import Call, exceeds_size
from toolcrib.dispatch.middleware import Next
from toolcrib.dispatch.rate_limit import NS
from toolcrib.errors import CannotAskError, ConfigurationError, ErrorCollector, InvalidResultError
from toolcrib.policy.quota.ledger import Slot, Store
from toolcrib.policy.quota.limits import CallLimits, CompiledLimit, refuse_size
from toolcrib.policy.quota.memory_store import MemoryStore

MAX_CACHED = 10_000
"""The number of pairs of principal and tool whose limits are remembered."""


class Quota:
    """The limits of a policy and the store that counts. Raises ConfigurationError for invalid limits; given
    `problems`, they are collected there instead and left out.

    The clocks can be replaced in tests: `now` is monotonic, `wall` may be set.
    """

    def __init__(
        self,
        policy: Policy,
        problems: ErrorCollector | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        found = ErrorCollector() if problems is None else problems
        self._limits: list[CompiledLimit] = []
        for number, limit in enumerate(policy.limits, start=1):
            with found.collecting():
                self._limits.append(CompiledLimit(policy, number, limit))
        if problems is None:
            found.raise_errors()
        self._cache: dict[tuple[Principal, Component], CallLimits | None] = {}
        now_ns = time.monotonic_ns if now is time.monotonic else lambda: round(now() * NS)
        self._memory = MemoryStore(now_ns, wall)
        self._store: Store = self._memory
        if policy.store is not None:
            from toolcrib.policy.quota.sqlite_store import SqliteStore  # delayed: loads SQLite

            self._store = SqliteStore(policy, now_ns, wall, self._memory)

    async def open(self) -> None:
        """Raise ConfigurationError where the store of the policy is a file that cannot be used."""
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    def describe_store(self) -> dict[str, Any]:
        """Return the kind of the store, its state, and the numbers of calls."""
        return self._store.describe()

    def check(self, tools: Sequence[Component]) -> list[ConfigurationError]:
        """Return errors for limits that match none of these tools, and clear the cache."""
        self._cache = {}
        return [error for limit in self._limits for error in limit.tools.check(tools)]

    def limits_tool(self, tool: Component) -> bool:
        """Whether any limit is about this tool, for any principal."""
        return any(limit.tools.matches(tool) for limit in self._limits)

    def enter(
        self, principal: Principal, tool: Component, size: Callable[[], int], *, resumes: str | None = None
    ) -> Slot | Awaitable[Slot] | None:
        """Admit a call: at once where there is nothing to wait for, else when awaited. None: no limit
        applies.

        `size` returns the size of the arguments. `resumes` identifies the state of a call that is repeated
        with an answer: the first time, it does not count again against rates and budgets. Raises
        ThrottledError, here or when awaited; a refused call is not counted.
        """
        limits = self._find(principal, tool) if self._limits else None
        if limits is None:
            return None
        if limits.max_arguments_bytes is not None and limits.size_limit is not None:
            measured = size()
            if measured > limits.max_arguments_bytes:
                raise refuse_size(tool.name, limits.size_limit, measured, limits.max_arguments_bytes)
        if not limits.is_stateful:
            return Slot(limits, None)
        mark = None if resumes is None else f"again {resumes}"
        return self._store.enter(Slot(limits, self._store, mark))

    async def use_once(self, mark: str, ttl_s: float) -> bool:
        """Return True the first time a mark is used, in all processes that share the store.

        A store that is not available returns False, so that nothing is allowed twice.
        """
        is_first = self._store.use_once(f"once {mark}", ttl_s)
        return await is_first if inspect.isawaitable(is_first) else is_first

    def _find(self, principal: Principal, tool: Component) -> CallLimits | None:
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
    """Middleware that admits calls by a quota. The budget is given back where the tool never ran."""

    def __init__(self, quota: Quota) -> None:
        self._quota = quota

    def __call__(self, call: Call, next: Next) -> Awaitable[Result]:
        channel = call.channel
        resumes = channel.resumes if channel.is_prompted else None
        assert call.tool is not None  # calls of unknown tools do not get here  # noqa: S101
        entered = self._quota.enter(call.principal, call.tool, call.measure_arguments, resumes=resumes)
        return next(call) if entered is None else self._run(call, next, call.tool.name, entered)

    async def _run(self, call: Call, next: Next, tool: str, entered: Slot | Awaitable[Slot]) -> Result:
        slot = entered if isinstance(entered, Slot) else await entered
        has_run = False
        try:
            limits = slot.limits
            if limits.timeout_s is not None:
                call.shorten(limits.timeout_s)
            if limits.is_counted:
                call.channel = cast(Channel, PausingChannel(call.channel, slot))
                call.outlive = slot.outlive
            result = await next(call)
            most = limits.max_result_bytes
            if most is not None and result.error is None and exceeds_size(result, most):
                error = InvalidResultError(f"The result of tool '{tool}' exceeds the limit of {most} bytes.")
                result = Result([text_block(str(error))], is_error=True, error=error)
            return result
        except InputNeeded:
            has_run = True  # made again with the answer, the call is not counted again
            raise
        finally:
            slot.leave(ran=has_run or call.has_run)


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
