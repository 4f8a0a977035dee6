"""Says no: in words that a model can act on, and in figures for machines.

Knows the tool's own name and how long to wait; refuses to name anything else that somebody counts.

Limits as they are counted: what one call needs to be let in.

A `Term` is one limit, ready to be asked whom it is about. A `Demand` is all that the limits say about one
caller and one tool: keys of counts with their numbers, all of them whole, so that nothing drifts. Knows
limits and names; refuses to know counts and clocks.

When a daily budget begins anew: at midnight UTC, and never twice, whatever is done to the wall clock.

- The wall says a later day than the last one: a new day. A clock that runs ahead gives one budget too many,
  once; a machine that slept through midnight looks the same, and must have its new day.
- The wall says the day before (set back by a second or an hour around midnight, a leap second): the day that
  has begun goes on until the wall is past it.
- The wall says a day before that: somebody was wrong by more than a day, perhaps by a year. The day that has
  begun ends when 24 hours have run on the clock that nobody sets; then the wall is believed again.

Knows two clocks; refuses to know what is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from toolcrib.config.settings import DAY_S, Limit, Policy, Rate
from toolcrib.context import Principal
from toolcrib.dispatch.rate_limit import NS, Pace
from toolcrib.errors import ErrorCollector, ThrottledError
from toolcrib.policy.selectors import PrincipalSelector, ToolSelector
from toolcrib.registry.selection import tags_of
from toolcrib.tool import Tool

SHARE = 10
"""Where the common store is out, each process counts for itself, up to one in so many."""

_Number = TypeVar("_Number", int, float)


class RateNeed(NamedTuple):
    key: str
    pace: Pace
    term: Term


class BudgetNeed(NamedTuple):
    key: str
    most: int
    term: Term


class PlaceNeed(NamedTuple):
    key: str
    most: int
    queue: int
    queue_s: float
    term: Term


class Term:
    """One limit of a policy. `number` is its place there, beginning with 1."""

    __slots__ = ("_who", "label", "limit", "number", "tools")

    def __init__(self, policy: Policy, number: int, limit: Limit) -> None:
        self.limit = limit
        self.number = number
        self.label = limit.name or f"limits[{number}]"
        problems = ErrorCollector()
        with problems.collecting():
            self.tools = ToolSelector(policy, f"limits[{number}].tools", limit.tools)
        with problems.collecting():
            self._who = PrincipalSelector(policy, f"limits[{number}].who", limit.who)
        problems.raise_errors()

    def matches(self, principal: Principal, tool: Tool) -> bool:
        return self.tools.matches(tool) and self._who.matches(principal)

    def unmatched(self, tools: Iterable[Tool]) -> list[str]:
        """Its selectors that mean none of the tools."""
        return self.tools.unmatched(list(tools))

    def rate_needs(self, keys: list[str], share: int) -> Iterator[RateNeed]:
        rate = self.limit.rate
        if not isinstance(rate, Rate):
            return
        pace = Pace.of(rate.count, rate.period_s, self.limit.burst, share)
        for key in keys:
            # With the rate, as a file outlives a change of it: the same figures would mean another time.
            yield RateNeed(f"rate {rate}|{key}", pace, self)

    def budget_needs(self, keys: list[str], share: int) -> Iterator[BudgetNeed]:
        if self.limit.daily is not None:
            most = max(1, self.limit.daily // share)
            yield from (BudgetNeed(f"daily|{key}", most, self) for key in keys)

    def place_needs(self, keys: list[str], share: int) -> Iterator[PlaceNeed]:
        limit = self.limit
        if limit.concurrency is not None:
            most = max(1, limit.concurrency // share)
            yield from (PlaceNeed(f"place|{key}", most, limit.queue, limit.queue_s, self) for key in keys)

    def keys(self, principal: Principal, tool: Tool) -> list[str]:
        """What the calls of this caller and this tool are counted under: several, where it counts per tag."""
        parts = set(self.limit.per.split("+"))
        start = [f"{self.number}:{self.limit.name or ''}"]
        if "principal" in parts:
            start.append(f"principal={principal.name}")
        if "tool" in parts:
            start.append(f"tool={tool.name.casefold()}")  # as the registry folds it: versions and cases share
        # Tools without a tag share one count: nobody who limits every tag means to let these through.
        tags = dict.fromkeys(tags_of(tool)) or [""]
        ends = [[f"tag={tag}"] for tag in tags] if "tag" in parts else [[]]
        return ["|".join(_escaped(part) for part in (*start, *end)) for end in ends]


class Demand:
    """All that the limits say about calls of one tool by one caller. `timeout_s` and `max_result_bytes` are
    the shortest and smallest of them; `is_counted` says that a call has a place among so many at once."""

    __slots__ = (
        "_facts",
        "_local",
        "budgets",
        "is_counted",
        "is_stateful",
        "max_arguments_bytes",
        "max_result_bytes",
        "places",
        "rates",
        "size_term",
        "timeout_s",
        "tool_name",
    )

    def __init__(self, terms: list[Term], principal: Principal, tool: Tool, share: int = 1) -> None:
        self._facts = (terms, principal, tool)
        self._local: Demand | None = None
        self.tool_name = tool.name
        keyed = [(term, term.keys(principal, tool)) for term in terms]
        self.rates = tuple(need for term, keys in keyed for need in term.rate_needs(keys, share))
        self.budgets = tuple(need for term, keys in keyed for need in term.budget_needs(keys, share))
        self.places = tuple(need for term, keys in keyed for need in term.place_needs(keys, share))
        self.is_counted = bool(self.places)
        self.is_stateful = bool(self.rates or self.budgets or self.places)
        limits = [term.limit for term in terms]
        self.timeout_s = _least(limit.timeout_s for limit in limits)
        self.max_result_bytes = _least(limit.max_result_bytes for limit in limits)
        self.max_arguments_bytes = _least(limit.max_arguments_bytes for limit in limits)
        self.size_term = next(
            (
                term
                for term in terms
                if self.max_arguments_bytes is not None
                and term.limit.max_arguments_bytes == self.max_arguments_bytes
            ),
            None,
        )

    @property
    def local(self) -> Demand:
        """The same with this process's share of every count."""
        if self._local is None:
            self._local = Demand(*self._facts, share=SHARE)
        return self._local


def _least(values: Iterable[_Number | None]) -> _Number | None:
    return min((value for value in values if value is not None), default=None)


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace("|", "%7C")


DAY_NS = DAY_S * NS


class Day:
    """The day that counts. `serial` goes up by one with each; `began_ns` is on the clock that nobody sets."""

    __slots__ = ("began_ns", "number", "serial")

    def __init__(self, number: int | None = None, began_ns: int = 0, serial: int = 0) -> None:
        self.number = number
        self.began_ns = began_ns
        self.serial = serial

    def turn(self, now_ns: int, wall_s: float) -> bool:
        """Whether a new day has begun."""
        number = int(wall_s // DAY_S)
        if self.number is not None and not self._is_over(number, now_ns):
            return False
        self.number = number
        self.began_ns = now_ns
        self.serial += 1
        return True

    def left_ns(self, now_ns: int, wall_s: float) -> int:
        """How long it will be until the next one, if no clock is set meanwhile."""
        assert self.number is not None  # nosec B101  # asked after `turn`
        if int(wall_s // DAY_S) < self.number - 1:
            return self.began_ns + DAY_NS - now_ns
        return (self.number + 1) * DAY_NS - int(wall_s * NS)

    def _is_over(self, number: int, now_ns: int) -> bool:
        assert self.number is not None  # nosec B101  # as above
        if number >= self.number - 1:
            return number > self.number
        return now_ns - self.began_ns >= DAY_NS


BUSY_NS = NS
"""When to try again where a place must become free: nobody knows, and a second costs little."""


def refuse(
    tool: str, term: Term, kind: str, wait_ns: int, *, within_s: float | None = None
) -> ThrottledError:
    """A call that came too often ("rate"), beside too many others ("concurrency"), or too late in a day
    whose "budget" is spent. `within_s` is how long it has waited for a place."""
    retry_s = -(-wait_ns // 1_000_000) / 1000  # up, so that whoever obeys is let in
    if kind == "budget":
        problem = f"The daily budget for calls of '{tool}' is used up"
    elif kind == "rate":
        problem = f"Too many calls of '{tool}'"
    elif within_s is None:
        problem = f"Too many calls of '{tool}' at once"
    else:
        problem = f"No place for a call of '{tool}' became free within {within_s:g} s"
    details = {"limit": term.label, "kind": kind, "retryAfterS": retry_s}
    return ThrottledError(f"{problem}: try again in {say_wait(retry_s)}.", details=details)


def refuse_late(demand: Demand, waited_s: float) -> ThrottledError:
    """A call that has waited in line for as long as one of its limits lets it."""
    need = min(demand.places, key=lambda need: abs(need.queue_s - waited_s))
    return refuse(demand.tool_name, need.term, "concurrency", BUSY_NS, within_s=waited_s)


def refuse_size(tool: str, term: Term, size: int, most: int) -> ThrottledError:
    """Arguments that are too large, for which no waiting helps."""
    words = f"The arguments of '{tool}' are too large: {size} bytes, and at most {most} are allowed."
    return ThrottledError(words, details={"limit": term.label, "kind": "size", "maxBytes": most})


def say_wait(wait_s: float) -> str:
    """`0.25 s`, `3 s`, `12 min`, `5 h 13 min`: never less than it is."""
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
