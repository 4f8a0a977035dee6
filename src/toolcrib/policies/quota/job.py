"""Something that a store's thread does for a call, and the way its answer comes back to the call's loop.

Knows loops, futures and one answer; refuses to know what is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from toolcrib.execution.mailbox import Mailbox, mailbox_of, ring
from toolcrib.policies.quota.slot import Slot


class Job:
    """Something for the thread to do. `slot` is the one that has, or wants, a place by it; `enters` says that
    it is a new one."""

    __slots__ = ("_future", "_loop", "_mailbox", "act", "answer", "enters", "is_told", "slot")

    def __init__(self, act: Callable[[], Any], slot: Slot | None = None, *, enters: bool = False) -> None:
        self.act = act
        self.slot = slot
        self.enters = enters
        self.answer: Any = None
        self.is_told = False
        self._mailbox: Mailbox | None = None

    def attach(self) -> None:
        """Have this loop told of the answer."""
        self._loop = asyncio.get_running_loop()
        self._mailbox = mailbox_of(self._loop)
        self._future: asyncio.Future[None] = self._loop.create_future()

    def tell(self, answer: Any) -> None:
        self.answer, self.is_told = answer, True
        if self._mailbox is not None:
            self._mailbox.put(self._future)

    async def wait(self, wait_s: float) -> bool:
        """Whether there is an answer in time."""
        self._renew()
        if not self.is_told:
            await self._hear(wait_s)
        return self.is_told

    async def wait_on(self, wait_s: float | None) -> Any:
        """The answer after the one that it is in line, or that one again."""
        self._renew()
        if type(self.answer) is float:
            await self._hear(wait_s)
        return self.answer

    def _renew(self) -> None:
        # Before the answer is looked at: the thread answers first, and looks for the future then.
        if self._future.done():
            self._future = self._loop.create_future()

    async def _hear(self, wait_s: float | None) -> None:
        timer = None if wait_s is None else self._loop.call_later(wait_s, partial(ring, self._future))
        try:
            await self._future
        finally:
            if timer is not None:
                timer.cancel()
