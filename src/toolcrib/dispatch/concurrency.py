"""Calls of one tool that run at once: counts them, bounds those on threads, and queues the rest."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum

from toolcrib.dispatch.rate_limit import LogLimiter
from toolcrib.errors import ToolBusyError

logger = logging.getLogger("toolcrib")

NOTICE_EVERY_S = 60.0

Outlive = Callable[[], Callable[[], None]]
"""Called when a call is abandoned whose code may still run. Returns a function that is called, perhaps on
another thread, when that code has ended. So quotas go on counting the call."""


class Raised(Exception):  # noqa: N818 - wraps the error of a tool
    """Wraps `error`, which the tool raised: anything, also `SystemExit` and `KeyboardInterrupt`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class Stage(Enum):
    """The state of a call that needs a thread."""

    WAITING = "waiting"
    RUNNING = "running"
    ABANDONED = "abandoned"
    ENDED = "ended"


class Ticket:
    """One call that needs a thread. Only `ToolSlots` changes `stage`, under its lock."""

    __slots__ = ("__weakref__", "stage")

    def __init__(self) -> None:
        self.stage = Stage.WAITING


class AbandonedCount:
    """Number of abandoned calls that still run, over all tools of a runner."""

    __slots__ = ("_lock", "count")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def add(self, number: int) -> None:
        with self._lock:
            self.count += number


class ToolSlots:
    """The slots of one tool.

    `running` counts the calls whose code runs now; `abandoned` counts those among them whose caller has left.
    An abandoned call keeps its slot until its code really ends: otherwise a tool that hangs would
    take up threads without bound.
    """

    def __init__(self, name: str, max_threads: int = 32, max_queue: int = 1000) -> None:
        self.name = name
        self.max_threads = max_threads
        self.max_queue = max_queue
        self.on_loop: list[None] = []
        self.abandoned = 0
        # Calls on threads; only these are bounded.
        self._threads = 0
        self._threads_lost = 0
        self.lock = threading.Lock()
        self.blocked = LogLimiter(1, NOTICE_EVERY_S)
        self.stuck = LogLimiter(1, NOTICE_EVERY_S)
        # Ordered, so that a call can leave the middle of a long queue without a search.
        self._queue: OrderedDict[Ticket, None] = OrderedDict()

    def __repr__(self) -> str:
        counts = f"{self.running} running, {self.waiting} waiting, {self.abandoned} abandoned"
        return f"<ToolSlots {self.name!r}: {counts}>"

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def running(self) -> int:
        return self._threads + len(self.on_loop)

    def enter(self) -> None:
        """Count a call that runs on the event loop."""
        self.on_loop.append(None)  # atomic, unlike `+= 1`, so it needs no lock

    def leave(self) -> None:
        self.on_loop.pop()

    def admit(self, ticket: Ticket) -> bool:
        """Return True to run the call now; False if it waits until `finish` of another call returns it."""
        with self.lock:
            if self._threads < self.max_threads:
                self._threads += 1
                ticket.stage = Stage.RUNNING
                return True
            is_stuck = self._threads_lost >= self.max_threads
            if not is_stuck and len(self._queue) < self.max_queue:
                self._queue[ticket] = None
                return False
            tell = is_stuck and self.stuck.take(time.monotonic())
        if not is_stuck:
            raise ToolBusyError(
                f"Tool '{self.name}' is busy: {self.max_queue} calls are waiting already. Try again later."
            )
        if tell:
            logger.warning(
                "tool '%s' is stuck: all %d calls it may run at once were given up and have not ended; "
                "new calls are refused until one ends",
                self.name,
                self.max_threads,
                extra={"tool_name": self.name, "abandoned": self.abandoned},
            )
        raise ToolBusyError(
            f"Tool '{self.name}' is busy: {self.max_threads} earlier calls ran out of time and still "
            "hold its threads. Try again later."
        )

    def abandon(self, ticket: Ticket) -> Stage:
        """Note that the caller has left. Return the stage before."""
        with self.lock:
            stage = ticket.stage
            if stage is Stage.WAITING:
                del self._queue[ticket]
                ticket.stage = Stage.ENDED
            elif stage is Stage.RUNNING:
                ticket.stage = Stage.ABANDONED
                self._threads_lost += 1
                self.abandoned += 1
            return stage

    def finish(self, ticket: Ticket) -> tuple[bool, Ticket | None]:
        """Note that the code has ended. Return whether somebody still waits for it, and the call that gets
        its slot."""
        with self.lock:
            is_awaited = ticket.stage is Stage.RUNNING
            if ticket.stage is Stage.ABANDONED:
                self._threads_lost -= 1
                self.abandoned -= 1
            ticket.stage = Stage.ENDED
            if self._queue:
                successor, _ = self._queue.popitem(last=False)
                successor.stage = Stage.RUNNING
                return is_awaited, successor
            self._threads -= 1
            return is_awaited, None
