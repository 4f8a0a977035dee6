"""How many calls run at once, how many may wait, and how much of their output may be unread.

A call that finds no room waits its turn; when too many wait, it is refused. Output that slow clients do not
read counts too: new calls wait until it has gone. Knows numbers; refuses to know calls.
"""

from __future__ import annotations

import asyncio
from collections import deque

MAX_RUNNING = 1_000
MAX_WAITING = 1_000
MAX_UNREAD = 32 * 1024 * 1024
STEP = 4
"""Calls that are let in together after output was in the way: each may bring as much again."""


class Gate:
    """The room for calls in one server."""

    __slots__ = (
        "_base",
        "_is_wary",
        "_queue",
        "max_running",
        "max_unread",
        "max_waiting",
        "running",
        "unread",
    )

    def __init__(
        self, max_running: int = MAX_RUNNING, max_waiting: int = MAX_WAITING, max_unread: int = MAX_UNREAD
    ) -> None:
        self.max_running = max_running
        self.max_waiting = max_waiting
        self.max_unread = max_unread
        self.running = 0
        self.unread = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._is_wary = False
        self._base = 0  # the calls that ran before output got in the way

    @property
    def is_full(self) -> bool:
        return self.running >= self.max_running or self.unread > self.max_unread or bool(self._queue)

    @property
    def is_choked(self) -> bool:
        """Whether calls wait for output to be read."""
        return self.unread > self.max_unread

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def is_overrun(self) -> bool:
        """Whether not even waiting is possible."""
        return len(self._queue) >= self.max_waiting

    async def wait(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.running -= 1  # the place was given to us already
            elif turn in self._queue:  # or else it was passed over, when somebody left in the same moment
                self._queue.remove(turn)
            self._let_in()
            raise
        self.running -= 1  # the caller takes it itself

    def leave(self) -> None:
        self.running -= 1
        if self._queue:
            self._let_in()

    def hold(self, size: int) -> None:
        """Output of this size is not read yet."""
        self.unread += size

    def release(self, size: int) -> None:
        self.unread -= size
        if self._queue:
            self._let_in()

    def _let_in(self) -> None:
        if self.unread > self.max_unread:
            if not self._is_wary:
                self._is_wary, self._base = True, self.running
            return
        self._base = min(self._base, self.running)
        most = min(self.max_running, self._base + STEP) if self._is_wary else self.max_running
        while self._queue and self.running < most:
            turn = self._queue.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)
        if not self._queue:
            self._is_wary = False
