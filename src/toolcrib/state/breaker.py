"""A circuit breaker: an engine that fails is left alone, and tried again once a second.

While it is closed, a request asks `is_open` and reports its end. While it is open, no request waits for the
engine; one of them starts a probe in the background when `is_probe_due`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from toolcrib.state.rate_limit import LogLimiter

logger = logging.getLogger("toolcrib")

MAX_FAILURES = 3
RETRY_S = 1.0


class Breaker:
    """Opens after three failures in a row, or one request that hung. Used from any thread: each attribute is
    set at once, and a failure that is counted twice only opens it sooner."""

    def __init__(self, name: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.is_open = False
        self.on_change: list[Callable[[Breaker], None]] = []
        self.opened_s = 0.0
        """The time of the last change."""
        self._now = now
        self._failures = 0
        self._retry_at = 0.0
        self._log = LogLimiter(6, 60)

    def is_probe_due(self) -> bool:
        """Whether to try the engine: true once a second."""
        if self._now() < self._retry_at:
            return False
        self._retry_at = self._now() + RETRY_S
        return True

    def succeed(self) -> None:
        self._failures = 0
        if self.is_open:
            self._change(False, "%s is available again%s")

    def fail(self, error: BaseException, *, hung: bool = False) -> None:
        self._failures = MAX_FAILURES if hung else self._failures + 1
        self._retry_at = self._now() + RETRY_S
        if self._failures >= MAX_FAILURES and not self.is_open:
            reason = str(error) or type(error).__name__
            self._change(True, f"%s is not available%s: {reason}".replace("%s: ", "%s: ", 1))

    def _change(self, is_open: bool, message: str) -> None:
        self.is_open, self.opened_s = is_open, self._now()
        if self._log.take(self._now()):
            logger.warning(message, self.name, self._log.take_missed())
        for changed in self.on_change:
            changed(self)
