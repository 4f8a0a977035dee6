"""Writes down that a tool raised, without the tool's trouble becoming everybody's.

Formatting a deep traceback takes longer than a hundred calls do, so the caller only hands the error over; a
daemon thread formats and logs it. A tool that raises all the time gets a few full reports, then single lines,
then a count. Knows errors and the log; refuses to know calls and results.

Takes the values that a tool was given out of what is said about its failure.

An error often repeats what it was about, and that may be somebody's secret. Knows texts; refuses to know
which of them matter.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.dispatch.rate_limit import LogLimiter
from toolcrib.logs import describe_error, escape, format_trace

SHORTEST = 6
"""Anything shorter is likely to be a word like others, and its absence would only puzzle."""
MAX_VALUES = 500
MAX_DEPTH = 8
HIDDEN = "[value]"


def blank(text: str, given: Any) -> str:
    """The text, without the values in it."""
    found = {form for value in _texts_in(given) for form in (value, repr(value)[1:-1]) if form in text}
    if not found:
        return text
    longest_first = sorted(found, key=len, reverse=True)
    return re.sub("|".join(rf"(?<!\w){re.escape(form)}(?!\w)" for form in longest_first), HIDDEN, text)


def _texts_in(given: Any) -> Iterator[str]:
    left = [(given, 0)]
    seen = 0
    while left and seen < MAX_VALUES:
        value, depth = left.pop()
        seen += 1
        if isinstance(value, str):
            if len(value) >= SHORTEST:
                yield value
        elif depth < MAX_DEPTH and isinstance(value, Mapping):
            left += ((item, depth + 1) for item in value.values())
        elif depth < MAX_DEPTH and isinstance(value, Sequence) and not isinstance(value, bytes):
            left += ((item, depth + 1) for item in value[:MAX_VALUES])
        elif isinstance(value, int | float) and len(str(value)) >= SHORTEST:
            yield str(value)


logger = logging.getLogger("toolcrib")

FULL_REPORTS, FULL_WINDOW_S = 5, 10.0
SHORT_LINES, SHORT_WINDOW_S = 50, 1.0
MAX_QUEUE = 1000
MAX_BYTES = 8 * 1024
IDLE_S = 10.0


@dataclass(slots=True, eq=False)
class _Report:
    tool_name: str
    error: BaseException
    call_id: str
    is_full: bool
    given: Any


class _Rations:
    """What one tool may still say, and how often it was not heard."""

    __slots__ = ("full", "missed", "missed_until", "short")

    def __init__(self) -> None:
        self.missed = 0
        self.missed_until = 0.0
        self.full = LogLimiter(FULL_REPORTS, FULL_WINDOW_S)
        self.short = LogLimiter(SHORT_LINES, SHORT_WINDOW_S)


class CrashReporter:
    """Takes errors from any thread. Nothing it is given makes it raise."""

    def __init__(self) -> None:
        self.shows_values = False
        """Whether values that a tool was given may stand in the log where its error repeats them."""
        self._changed = threading.Condition()
        self._queue: deque[_Report] = deque()
        self._rations: dict[str, _Rations] = {}
        self._overdue: set[str] = set()
        self._is_running = False
        self._is_busy = False
        self._is_flushing = False

    def report(self, tool_name: str, error: BaseException, call_id: str, given: Any = None) -> None:
        """Hand over an error that a tool raised over what it was `given`. Returns in microseconds."""
        try:
            if logger.isEnabledFor(logging.ERROR):
                self._hand_over(tool_name, error, call_id, None if self.shows_values else given)
        except Exception:  # nosec B110  # out of memory or stack: the call goes on, its report does not
            pass

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything handed over so far is in the log. False: time ran out."""
        with self._changed:
            self._is_flushing = True
            try:
                self._ensure_thread()
                self._changed.notify_all()
                return self._changed.wait_for(self._is_done, timeout_s)
            finally:
                self._is_flushing = False

    def _is_done(self) -> bool:
        return not (self._queue or self._overdue or self._is_busy)

    def _hand_over(self, tool_name: str, error: BaseException, call_id: str, given: Any) -> None:
        now = time.monotonic()
        with self._changed:
            rations = self._rations.get(tool_name)
            if rations is None:
                rations = self._rations[tool_name] = _Rations()
            is_full = rations.full.take(now)
            if (is_full or rations.short.take(now)) and len(self._queue) < MAX_QUEUE:
                self._queue.append(_Report(tool_name, error, call_id, is_full, given))
            else:
                rations.missed += 1
                if tool_name in self._overdue:
                    return  # the thread knows; waking it a thousand times would cost what it shall save
                self._overdue.add(tool_name)
                rations.missed_until = now + SHORT_WINDOW_S
            self._ensure_thread()
            self._changed.notify_all()

    def _ensure_thread(self) -> None:
        if self._is_running or self._is_done():
            return
        self._is_running = True
        try:
            threading.Thread(target=self._live, name="toolcrib-crash-reporter", daemon=True).start()
        except RuntimeError:
            self._is_running = False  # the next report tries again

    def _live(self) -> None:
        while (work := self._next()) is not None:
            report, counts = work
            del work
            try:
                for tool_name, missed in counts:
                    _log_count(tool_name, missed)
                if report is not None:
                    _log_report(report)
            except BaseException:
                pass  # a handler or the error's own code misbehaves: on with the next
            del report  # and with it the frames and their locals

    def _next(self) -> tuple[_Report | None, list[tuple[str, int]]] | None:
        """What is to be written next. None: nothing came for a while, the thread may end."""
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            idle_until = time.monotonic() + IDLE_S
            while True:
                now = time.monotonic()
                counts = self._collect_counts(now)
                if self._queue or counts:
                    self._is_busy = True
                    return (self._queue.popleft() if self._queue else None), counts
                if now >= idle_until and not self._overdue:
                    self._is_running = False
                    self._forget(now)
                    return None
                self._changed.wait(SHORT_WINDOW_S if self._overdue else idle_until - now)

    def _collect_counts(self, now: float) -> list[tuple[str, int]]:
        """The tools that have been silent about errors for a second, and about how many."""
        if not self._overdue:
            return []
        may_say = self._is_flushing and not self._queue
        due = [name for name in self._overdue if may_say or now >= self._rations[name].missed_until]
        self._overdue.difference_update(due)
        counts = [(name, self._rations[name].missed) for name in due]
        for name in due:
            self._rations[name].missed = 0
        return counts

    def _forget(self, now: float) -> None:
        """Tools come and go; what nobody has spoken of for a while needs no memory."""
        for name in [name for name, rations in self._rations.items() if rations.full.is_idle(now)]:
            del self._rations[name]


def _log_report(report: _Report) -> None:
    what = describe_error(report.error)
    line = f"tool '{escape(report.tool_name)}' raised {what} (call {escape(report.call_id)})"
    if report.is_full:
        line = f"{line}\n{_show_trace(report.error, MAX_BYTES - len(line.encode()) - 1)}"
    logger.error(
        "%s",
        blank(line, report.given),
        extra={
            "tool_name": report.tool_name,
            "call_id": report.call_id,
            "error_type": type(report.error).__name__,
        },
    )


def _show_trace(error: BaseException, max_bytes: int) -> str:
    try:
        return format_trace(error, max_bytes)
    except Exception:
        return "  (the traceback cannot be shown)"


def _log_count(tool_name: str, missed: int) -> None:
    logger.error(
        "tool '%s' raised again, %d more times, not shown",
        escape(tool_name),
        missed,
        extra={"tool_name": tool_name, "missed": missed},
    )
