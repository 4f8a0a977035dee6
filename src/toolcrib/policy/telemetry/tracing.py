"""Calls as OpenTelemetry sees them: a span for each, and how long it took.

Names and attributes are those of the semantic conventions for MCP, with a few of our own below `toolcrib.`.
Only the API is used: where spans and figures go is for the process to set up. A span holds no argument, no
result, no words of an error and no name of a caller; the id of the call leads to the record that may.
Knows OpenTelemetry; refuses to know how calls run.
"""

from __future__ import annotations

import logging
import types
from collections.abc import Awaitable, Generator
from typing import Any, TypeVar

from opentelemetry import metrics, trace
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from toolcrib.context import Channel

logger = logging.getLogger("toolcrib")

T = TypeVar("T")

METHOD = "tools/call"
BUCKETS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Those that the conventions ask for."""
MAX_TRACE = 128
MAX_REQUEST = 256
UNTOLD = "tool_error"
"""The conventions' word for a result that is an error and has no code."""
_NO_FAULT = frozenset({"ok", "input_required", "cancelled", "disconnected"})
"""Nothing has failed: the caller is asked for more, or wants no answer any more."""


class Running:
    """A call under way: its span, and the context in which its tool runs."""

    __slots__ = ("context", "span")

    def __init__(self, span: trace.Span, context: Context) -> None:
        self.span = span
        self.context = context


class Tracing:
    """Begins and ends spans. Whatever OpenTelemetry is set up with may fail; calls do not fail with it."""

    def __init__(self, version: str) -> None:
        self._tracer = trace.get_tracer("toolcrib", version)
        self._format = TraceContextTextMapPropagator()
        self._durations = metrics.get_meter("toolcrib", version).create_histogram(
            "mcp.server.operation.duration",
            unit="s",
            description="How long calls took, from their arrival on.",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        )
        self._has_complained = False

    def begin(self, tool: str | None, channel: Channel, call_id: str | None) -> Running | None:
        try:
            return self._begin(tool, channel, call_id)
        except Exception as error:
            self._complain(error)
            return None

    def end(
        self,
        running: Running | None,
        *,
        tool: str | None,
        outcome: str,
        code: str | None,
        duration_s: float,
        arguments_bytes: int | None,
        result_bytes: int | None,
    ) -> None:
        fault = None if outcome in _NO_FAULT else code or UNTOLD
        try:
            if running is not None:
                _close(running.span, outcome, fault, arguments_bytes, result_bytes)
            facts = _name(tool)
            if fault is not None:
                facts["error.type"] = fault
            self._durations.record(duration_s, facts, None if running is None else running.context)
        except Exception as error:
            self._complain(error)

    def _begin(self, tool: str | None, channel: Channel, call_id: str | None) -> Running:
        ambient = get_current()
        parent, links = self._find_parent(channel.trace, ambient)
        facts = _name(tool)
        if call_id is not None:
            facts["toolcrib.call_id"] = call_id
        if channel.request is not None:
            facts["jsonrpc.request.id"] = str(channel.request)[:MAX_REQUEST]
        name = METHOD if tool is None else f"{METHOD} {tool}"
        span = self._tracer.start_span(
            name, parent, kind=trace.SpanKind.SERVER, attributes=facts, links=links
        )
        return Running(span, trace.set_span_in_context(span, ambient))

    def _find_parent(self, said: str | None, ambient: Context) -> tuple[Context, list[trace.Link]]:
        """The caller's span where it names one that can be; what goes on around the call is then a link."""
        if not isinstance(said, str) or len(said) > MAX_TRACE:
            return ambient, []
        found = self._format.extract({"traceparent": said}, ambient)
        if found is ambient:
            return ambient, []  # not in the format, so nobody's
        around = trace.get_current_span(ambient).get_span_context()
        return found, [trace.Link(around)] if around.is_valid else []

    def _complain(self, error: Exception) -> None:
        if not self._has_complained:
            self._has_complained = True
            logger.warning("OpenTelemetry fails, and calls go on without it: %s", type(error).__name__)


def _name(tool: str | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"mcp.method.name": METHOD, "gen_ai.operation.name": "execute_tool"}
    if tool is not None:
        facts["gen_ai.tool.name"] = tool
    return facts


def _close(
    span: trace.Span, outcome: str, fault: str | None, arguments_bytes: int | None, result_bytes: int | None
) -> None:
    try:
        if span.is_recording():
            span.set_attribute("toolcrib.outcome", outcome)
            if arguments_bytes is not None:
                span.set_attribute("toolcrib.arguments_bytes", arguments_bytes)
            if result_bytes is not None:
                span.set_attribute("toolcrib.result_bytes", result_bytes)
            if fault is not None:
                span.set_attribute("error.type", fault)
                span.set_status(trace.Status(trace.StatusCode.ERROR))
    finally:
        span.end()


@types.coroutine
def run_within(running: Running, work: Awaitable[T]) -> Generator[Any, Any, T]:
    """Do the work step by step, with its span as the current one in each step and in none between.

    A call may begin outside of any task and go on in one, or be moved to another: a context that is left
    elsewhere than it was entered would stay entered. So it is entered and left around every step; a span
    that the tool has made the current one meanwhile is so again when the tool goes on.
    """
    steps = work.__await__()
    resume: Any = steps.send
    sent: Any = None
    context = running.context
    while True:
        token = attach(context)
        try:
            waits_for = resume(sent)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            context = get_current()
            detach(token)
            sent = None  # an exception kept here would keep its frames, this one among them
        try:
            sent = yield waits_for
            resume = steps.send
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as error:
            resume, sent = steps.throw, error
