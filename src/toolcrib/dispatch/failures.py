"""Failed calls: what their callers learn, and what the log does.

Formatting a deep traceback takes longer than a hundred calls, so the caller only queues the exception; a
daemon thread formats and logs it. A tool that raises all the time gets a few full reports, then single
lines, and the next line says how many were left out.
"""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.content import Result, text_block
from toolcrib.context import InputNeeded, find_misuse
from toolcrib.dispatch.middleware import refusal_result
from toolcrib.errors import (
    CallError,
    ContextError,
    DefinitionError,
    InvalidResultError,
    PolicyError,
    ToolCrashedError,
)
from toolcrib.logs import describe_error, escape, format_trace, package_filter
from toolcrib.state.base import StateUnavailable
from toolcrib.state.rate_limit import LogLimiter

if TYPE_CHECKING:
    from toolcrib.dispatch.plans import Plan

logger = logging.getLogger("toolcrib")

FULL_REPORTS, FULL_PERIOD_S = 5, 10.0
SHORT_LINES, SHORT_PERIOD_S = 50, 1.0
MAX_QUEUE = 1000
MAX_BYTES = 8 * 1024
IDLE_S = 10.0
MIN_VALUE_CHARS = 6
"""Shorter values are likely to be common words, and removing those would only puzzle the reader."""
MAX_VALUES = 500
MAX_DEPTH = 8
HIDDEN = "[value]"


class Raised(Exception):  # noqa: N818 - wraps the error of a tool
    """Wraps `error`, which the tool raised: anything, also `SystemExit` and `KeyboardInterrupt`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


@dataclass(slots=True, eq=False)
class _Report:
    tool_name: str
    error: BaseException
    call_id: str
    is_full: bool
    arguments: Any
    left_out: str

    def clean(self, text: str) -> str:
        return package_filter.redact(hide_values(text, self.arguments))


class CrashReporter:
    """Takes exceptions from any thread, and never raises."""

    def __init__(self) -> None:
        self.shows_values = False
        """Whether values of arguments may appear in the log where an exception repeats them."""
        self.hides_adopted = False
        """Whether callers see no message of an exception in a tool of another library's server."""
        self._changed = threading.Condition()
        self._queue: deque[_Report] = deque()
        self._limits: dict[str, tuple[LogLimiter, LogLimiter]] = {}
        self._is_running = False
        self._is_busy = False

    def report(self, tool_name: str, error: BaseException, call_id: str, arguments: Any = None) -> None:
        """Queue an exception that a tool raised when called with these arguments. Takes microseconds."""
        try:
            if logger.isEnabledFor(logging.ERROR):
                self._enqueue(tool_name, error, call_id, None if self.shows_values else arguments)
        except Exception:  # out of memory or stack: the call goes on without its report  # noqa: S110
            pass

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything queued so far is logged. False: it took too long."""
        with self._changed:
            self._ensure_thread()
            return self._changed.wait_for(lambda: not (self._queue or self._is_busy), timeout_s)

    def _enqueue(self, tool_name: str, error: BaseException, call_id: str, arguments: Any) -> None:
        now = time.monotonic()
        with self._changed:
            limits = self._limits.get(tool_name)
            if limits is None:
                limits = LogLimiter(FULL_REPORTS, FULL_PERIOD_S), LogLimiter(SHORT_LINES, SHORT_PERIOD_S)
                self._limits[tool_name] = limits
            full, short = limits
            is_full = full.take(now)
            if len(self._queue) >= MAX_QUEUE:
                short.missed += 1
            elif is_full or short.take(now):
                report = _Report(tool_name, error, call_id, is_full, arguments, short.take_missed())
                self._queue.append(report)
                self._ensure_thread()
                self._changed.notify_all()

    def _ensure_thread(self) -> None:
        if self._is_running or not self._queue:
            return
        self._is_running = True
        try:
            threading.Thread(target=self._run, name="toolcrib-crash-reporter", daemon=True).start()
        except RuntimeError:
            self._is_running = False  # no thread available: the next report tries again

    def _run(self) -> None:
        while (report := self._next()) is not None:
            try:
                _log_report(report)
            except BaseException:  # noqa: S110
                pass  # a log handler, or the exception's own code, fails: go on with the next
            del report  # and with it the frames and their locals

    def _next(self) -> _Report | None:
        """Return what to log next; None ends the thread, because nothing came for a while."""
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._queue, IDLE_S):
                self._is_running = False
                # What was left out is still to be mentioned, with the next exception of that tool.
                self._limits = {name: limits for name, limits in self._limits.items() if limits[1].missed}
                return None
            self._is_busy = True
            return self._queue.popleft()


def _log_report(report: _Report) -> None:
    error = describe_error(report.error)
    line = (
        f"tool '{escape(report.tool_name)}' raised {error} (call {escape(report.call_id)}){report.left_out}"
    )
    if report.is_full:
        try:
            trace = format_trace(report.error, MAX_BYTES - len(line.encode()) - 1, report.clean)
        except Exception:
            trace = "  (the traceback cannot be shown)"
        line = f"{line}\n{trace}"
    logger.error(
        "%s",
        hide_values(line, report.arguments),
        extra={
            "tool_name": report.tool_name,
            "call_id": report.call_id,
            "error_type": type(report.error).__name__,
        },
    )


def hide_values(text: str, arguments: Any) -> str:
    """Return a text without the values of arguments: exceptions often repeat them, and they may be secret."""
    found = {form for value in _values(arguments) for form in (value, repr(value)[1:-1]) if form in text}
    if not found:
        return text
    longest_first = sorted(found, key=len, reverse=True)
    return re.sub("|".join(rf"(?<!\w){re.escape(form)}(?!\w)" for form in longest_first), HIDDEN, text)


def _values(arguments: Any) -> Iterator[str]:
    left = [(arguments, 0)]
    seen = 0
    while left and seen < MAX_VALUES:
        value, depth = left.pop()
        seen += 1
        if isinstance(value, str):
            if len(value) >= MIN_VALUE_CHARS:
                yield value
        elif depth < MAX_DEPTH and isinstance(value, Mapping):
            left += ((item, depth + 1) for item in value.values())
        elif depth < MAX_DEPTH and isinstance(value, Sequence) and not isinstance(value, bytes):
            left += ((item, depth + 1) for item in value[:MAX_VALUES])
        elif isinstance(value, int | float) and len(str(value)) >= MIN_VALUE_CHARS:
            yield str(value)


# --- what callers learn ---


def failed(
    plan: Plan,
    error: CallError | DefinitionError | Raised,
    crashes: CrashReporter,
    given: Any = None,
    call_id: str | None = None,
) -> Result:
    """Return the result of a call that failed. Raise InputNeeded for one that asks.

    An unexpected exception is logged under a reference, which the caller gets: the id of the call if it has
    one. The values that the tool was `given` are kept out of the log.
    """
    if isinstance(error, Raised):
        raise_questions(error.error)
    plan.stats.errors += 1
    if isinstance(error, PolicyError):
        return refusal_result(error)
    reported = _explain(plan, error.error if isinstance(error, Raised) else error, crashes, given, call_id)
    text = _message_of(reported)
    if text is None or len(text) > plan.results.max_bytes:
        reported = InvalidResultError(f"{plan.tool.label} failed, and its error message cannot be sent.")
        text = str(reported)
    return Result([text_block(text)], is_error=True, error=reported)


def _explain(
    plan: Plan, error: BaseException, crashes: CrashReporter, given: Any, call_id: str | None
) -> CallError:
    """Return what the caller learns of an exception: the author's message, or a reference and nothing
    else."""
    cause = error
    while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:
        cause = cause.exceptions[0]  # a task group wraps even a single error
    if isinstance(cause, CallError) and not (crashes.hides_adopted and getattr(cause, "is_crash", False)):
        return cause
    foreign = _explain_adopted(plan, cause)
    if foreign is not None and not isinstance(foreign, ToolCrashedError):
        return foreign  # its author meant it to be read
    reference = call_id or secrets.token_hex(4)
    crashes.report(plan.tool.name, error, reference, given)
    if foreign is not None and not crashes.hides_adopted:
        return foreign
    misuse = find_misuse(cause)
    if misuse is not None:
        return ContextError(f"{plan.tool.label} has an error: {misuse} (reference {reference}).")
    if isinstance(cause, StateUnavailable):
        text = f"{plan.tool.label} failed: its state is not available now, try again later"
        return ToolCrashedError(f"{text} (reference {reference}).")
    if isinstance(error, DefinitionError):
        hint = (error.hint if error.tool == plan.tool.name else None) or "see the log of the server"
        text = f"{plan.tool.label} cannot run as it is defined: {hint} (reference {reference})."
        return ToolCrashedError(text)
    return ToolCrashedError(f"{plan.tool.label} failed unexpectedly (reference {reference}).")


def _explain_adopted(plan: Plan, error: BaseException) -> CallError | None:
    """Return what another library would tell the caller of an exception of its function, or None."""
    adoption = plan.tool.adoption
    if adoption is None or not isinstance(error, Exception):
        return None
    try:
        return adoption.explain(error)
    except Exception:
        return None  # an error class whose __str__ fails


def hide_crash(plan: Plan, result: Result, crashes: CrashReporter, call_id: str | None) -> Result:
    """Return an error result. Those of other libraries' servers lose their text if that is hidden and a crash
    may be behind it: both libraries put the same words before the message of an exception."""
    is_hidden = crashes.hides_adopted and plan.tool.adoption is not None
    if not is_hidden or not result.text.startswith(("Error calling tool ", "Error executing tool ")):
        return result
    reference = call_id or secrets.token_hex(4)
    crashes.report(plan.tool.name, ToolCrashedError(result.text), reference)
    hidden = ToolCrashedError(f"{plan.tool.label} failed unexpectedly (reference {reference}).")
    return Result([text_block(str(hidden))], is_error=True, error=hidden)


def may_repeat(plan: Plan, error: Raised | ToolCrashedError) -> bool:
    """Return whether a tool may be run again: its process was lost, or it raised an exception that it did not
    mean for its caller."""
    if isinstance(error, ToolCrashedError):
        return True
    return all(
        isinstance(part, Exception)
        and not isinstance(part, CallError | DefinitionError)
        and isinstance(_explain_adopted(plan, part), ToolCrashedError | None)
        for part in _leaves(error.error)
    )


def raise_questions(error: BaseException) -> None:
    """Raise InputNeeded if the tool asks questions, possibly from several tasks of its own at the same
    time."""
    questions: dict[str, Any] = {}
    for part in _leaves(error):
        if not isinstance(part, InputNeeded):
            return
        questions |= part.questions
    raise InputNeeded(questions)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in a group, or the exception itself."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error


def _message_of(error: CallError) -> str | None:
    """Return the text of an error as it can be sent, or None if it has none."""
    try:
        text = str(error) or type(error).__name__
    except Exception:
        return None  # an error class whose __str__ fails
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
