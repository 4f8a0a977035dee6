"""How many calls run at once in one server, and how many may wait for their turn."""

from __future__ import annotations

import asyncio
from collections import deque

MAX_RUNNING = 1_000
MAX_WAITING = 1_000


class Gate:
    """The room for calls in one server. Calls that find none wait in line; when too many wait, the next is
    refused."""

    __slots__ = ("_queue", "max_running", "max_waiting", "running")

    def __init__(self, max_running: int = MAX_RUNNING, max_waiting: int = MAX_WAITING) -> None:
        self.max_running = max_running
        self.max_waiting = max_waiting
        self.running = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def is_full(self) -> bool:
        return self.running >= self.max_running or bool(self._queue)

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

    def _let_in(self) -> None:
        while self._queue and self.running < self.max_running:
            turn = self._queue.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)
