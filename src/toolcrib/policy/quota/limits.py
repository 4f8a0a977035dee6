"""Compiled limits, and the errors of calls that exceed them.

A `CompiledLimit` is one limit of a policy. A `CallLimits` has all limits on calls of one tool by one
principal: keys of counts and their maximum, in whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from toolcrib.component import Component
from toolcrib.config.settings import DAY_S, Limit, Policy, Rate
from toolcrib.context import Principal
from toolcrib.dispatch.rate_limit import NS, Pace
from toolcrib.errors import ErrorCollector, ThrottledError
from toolcrib.policy.selectors import PrincipalSelector, ToolSelector
from toolcrib.registry.selection import tags_of

SHARE = 10
"""While the shared store is unavailable, each process counts for itself, up to one tenth of each limit."""
DAY_NS = DAY_S * NS
RETRY_NS = NS
"""The retry time that is suggested where a slot must become free, which cannot be predicted."""

_Number = TypeVar("_Number", int, float)


class RateLimit(NamedTuple):
    key: str
    pace: Pace
    source: CompiledLimit


class BudgetLimit(NamedTuple):
    key: str
    maximum: int
    source: CompiledLimit


class ConcurrencyLimit(NamedTuple):
    key: str
    maximum: int
    queue: int
    queue_s: float
    source: CompiledLimit


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

    def keys(self, principal: Principal, tool: Component) -> list[str]:
        """Return the keys that calls of this principal and tool are counted under: several, if counted
        per tag."""
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

    def rates(self, keys: Sequence[str], share: int) -> Iterator[RateLimit]:
        rate = self.limit.rate
        if isinstance(rate, Rate):
            pace = Pace.of(rate.count, rate.period_s, self.limit.burst, share)
            # The rate is part of the key: a file may hold counts of an earlier rate, in another unit.
            yield from (RateLimit(f"rate {rate}|{key}", pace, self) for key in keys)

    def budgets(self, keys: Sequence[str], share: int) -> Iterator[BudgetLimit]:
        if self.limit.daily is not None:
            maximum = max(1, self.limit.daily // share)
            yield from (BudgetLimit(f"daily|{key}", maximum, self) for key in keys)

    def concurrency(self, keys: Sequence[str], share: int) -> Iterator[ConcurrencyLimit]:
        limit = self.limit
        if limit.concurrency is not None:
            maximum = max(1, limit.concurrency // share)
            yield from (
                ConcurrencyLimit(f"slot|{key}", maximum, limit.queue, limit.queue_s, self) for key in keys
            )


class CallLimits:
    """All limits on calls of one tool by one principal.

    `timeout_s`, `max_arguments_bytes` and `max_result_bytes` are the smallest of each; `is_counted`: a limit
    on concurrency applies; `is_stateful`: a store has to be asked.
    """

    __slots__ = (
        "_local",
        "_made_of",
        "budgets",
        "concurrency",
        "is_counted",
        "is_stateful",
        "max_arguments_bytes",
        "max_result_bytes",
        "rates",
        "size_limit",
        "timeout_s",
        "tool_name",
    )

    def __init__(
        self, limits: list[CompiledLimit], principal: Principal, tool: Component, share: int = 1
    ) -> None:
        self._made_of = (limits, principal, tool)
        self._local: CallLimits | None = None
        self.tool_name = tool.reference
        keyed = [(limit, limit.keys(principal, tool)) for limit in limits]
        self.rates = tuple(each for limit, keys in keyed for each in limit.rates(keys, share))
        self.budgets = tuple(each for limit, keys in keyed for each in limit.budgets(keys, share))
        self.concurrency = tuple(each for limit, keys in keyed for each in limit.concurrency(keys, share))
        self.is_counted = bool(self.concurrency)
        self.is_stateful = bool(self.rates or self.budgets or self.concurrency)
        self.timeout_s = _least(each.limit.timeout_s for each in limits)
        self.max_result_bytes = _least(each.limit.max_result_bytes for each in limits)
        self.max_arguments_bytes = most = _least(each.limit.max_arguments_bytes for each in limits)
        sized = (each for each in limits if most is not None and each.limit.max_arguments_bytes == most)
        self.size_limit = next(sized, None)

    @property
    def local(self) -> CallLimits:
        """The same limits with the share of one process."""
        if self._local is None:
            self._local = CallLimits(*self._made_of, share=SHARE)
        return self._local


def _least(values: Iterable[_Number | None]) -> _Number | None:
    return min((value for value in values if value is not None), default=None)


def _escape(part: str) -> str:
    return part.replace("%", "%25").replace("|", "%7C")


class BudgetDay:
    """The day that budgets are counted for. It begins at midnight UTC, and never twice, even if the wall
    clock is set.

    - A later date on the wall clock is a new day. A clock that runs ahead gives one extra budget, once; it
      looks the same as a machine that slept through midnight.
    - With the date before (the clock was set back around midnight, or a leap second), the current day
      continues until the wall clock has passed it.
    - With an earlier date, the clock was wrong by more than a day. The current day ends when 24 hours have
      passed on the monotonic clock; then the wall clock is used again.

    `serial` increases by one with each day; `began_ns` is monotonic time.
    """

    __slots__ = ("began_ns", "number", "serial")

    def __init__(self, number: int | None = None, began_ns: int = 0, serial: int = 0) -> None:
        self.number = number
        self.began_ns = began_ns
        self.serial = serial

    def turn(self, now_ns: int, wall_s: float) -> bool:
        """Return whether a new day has begun."""
        number = int(wall_s // DAY_S)
        if self.number is not None:
            is_believed = number >= self.number - 1
            if not (number > self.number if is_believed else now_ns - self.began_ns >= DAY_NS):
                return False
        self.number = number
        self.began_ns = now_ns
        self.serial += 1
        return True

    def left_ns(self, now_ns: int, wall_s: float) -> int:
        """Return the time until the next day, if no clock is set in between. Call `turn` first."""
        number = self.number or 0
        if int(wall_s // DAY_S) < number - 1:
            return self.began_ns + DAY_NS - now_ns
        return (number + 1) * DAY_NS - int(wall_s * NS)


def refuse(
    tool: str, limit: CompiledLimit, kind: str, wait_ns: int, *, within_s: float | None = None
) -> ThrottledError:
    """Return the error of a call over its "rate", its daily "budget" or its "concurrency". `within_s` is
    the time that it has waited in the queue."""
    retry_s = -(-wait_ns // 1_000_000) / 1000  # rounded up, so that a call at that time is admitted
    if kind == "budget":
        problem = f"The daily budget for calls of '{tool}' is used up"
    elif kind == "rate":
        problem = f"Too many calls of '{tool}'"
    elif within_s is None:
        problem = f"Too many calls of '{tool}' at once"
    else:
        problem = f"No slot for a call of '{tool}' became free within {within_s:g} s"
    details = {"limit": limit.label, "kind": kind, "retryAfterS": retry_s}
    return ThrottledError(f"{problem}: try again in {format_wait(retry_s)}.", details=details)


def refuse_late(limits: CallLimits, waited_s: float) -> ThrottledError:
    """Return the error of a call that has waited in the queue as long as one of its limits allows."""
    limit = min(limits.concurrency, key=lambda each: abs(each.queue_s - waited_s))
    return refuse(limits.tool_name, limit.source, "concurrency", RETRY_NS, within_s=waited_s)


def refuse_size(tool: str, limit: CompiledLimit, size: int, maximum: int) -> ThrottledError:
    """Return the error of a call whose arguments are too large; waiting does not help."""
    problem = f"The arguments of '{tool}' are too large: {size} bytes, and at most {maximum} are allowed."
    return ThrottledError(problem, details={"limit": limit.label, "kind": "size", "maxBytes": maximum})


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
