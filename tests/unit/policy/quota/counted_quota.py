"""Helpers of the quota tests: tools, principals, and a quota with the counters of one process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from tests.support.system.virtual_loop import Clocks
from toolcrib import Tool
from toolcrib.context import Principal
from toolcrib.errors import ThrottledError
from toolcrib.policy import Limit, Policy
from toolcrib.policy.quota import Quota, Slot
from toolcrib.state.base import Refused
from toolcrib.state.memory import MemoryCounters

ANA, BEN = Principal("key:ana"), Principal("key:ben")


def tool(name: str = "report", **options: Any) -> Tool:
    return Tool.from_function(lambda: name, name=name, description="Give it.", **options)


REPORT = tool()
OTHER = tool("other")


class CountedQuota:
    """A quota and its counters."""

    def __init__(self, *limits: Limit, clocks: Clocks | None = None) -> None:
        self.quota = Quota(Policy(limits=limits))
        clocks = clocks or Clocks()
        self.counters = MemoryCounters(now_ns=clocks.now_ns, wall=clocks.wall)

    def enter(self, who: Principal = ANA, what: Tool = REPORT, mark: str | None = None) -> Slot:
        """Admit a call. Raises ThrottledError."""
        limits = self.quota.find(who, what)
        assert limits is not None
        lease = self.counters.acquire(limits.counted, mark=mark)
        if isinstance(lease, Refused):
            raise limits.refuse(lease)
        return Slot(self.counters, lease)

    def refusal(self, who: Principal = ANA, what: Tool = REPORT) -> ThrottledError:
        """Return the error of a call that is not admitted."""
        try:
            self.enter(who, what)
        except ThrottledError as error:
            return error
        raise AssertionError("it was admitted")

    def count_admitted(self, attempts: int, who: Principal = ANA, what: Tool = REPORT) -> int:
        admitted = 0
        for _ in range(attempts):
            try:
                self.enter(who, what).leave(ran=True)
                admitted += 1
            except ThrottledError:
                pass
        return admitted

    def used(self, who: Principal = ANA, what: Tool = REPORT) -> list[int]:
        """Return how much of each limit is used."""
        limits = self.quota.find(who, what)
        assert limits is not None
        return list(asyncio.run(self.counters.usage(limits.counted)))


async def wait_until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.002)
