"""OpenTelemetry: a span and a duration for each call.

Names and attributes follow the semantic conventions for MCP, with a few of our own below `toolcrib.`. Only
the API is used: the process decides where spans and metrics go. A span holds no argument, no result, no
error message and no principal; the id of the call leads to the audit record.
"""

from __future__ import annotations

import logging
import types
from collections.abc import Awaitable, Generator
from typing import Any, TypeVar

from opentelemetry import metrics, trace
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from toolcrib.dispatch.calls import Call

logger = logging.getLogger("toolcrib")

T = TypeVar("T")

METHOD = "tools/call"
BUCKETS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""The buckets that the conventions recommend."""
MAX_TRACE_CHARS = 128
MAX_REQUEST_CHARS = 256
TOOL_ERROR = "tool_error"
"""The `error.type` of the conventions for an error result without a code."""
_NOT_ERRORS = frozenset({"ok", "input_required", "cancelled", "disconnected"})


class CallSpan:
    """The span of a running call, and the context in which its tool runs."""

    __slots__ = ("context", "span")

    def __init__(self, span: trace.Span, context: Context) -> None:
        self.span = span
        self.context = context

    @types.coroutine
    def run(self, work: Awaitable[T]) -> Generator[Any, Any, T]:
        """Await `work` with the span as the current one.

        A call may begin outside of a task and continue in another one. OpenTelemetry requires that a context
        is detached where it was attached, so it is attached and detached around every step. A span that the
        tool has made current is restored at its next step.
        """
        steps = work.__await__()
        resume: Any = steps.send
        sent: Any = None
        context = self.context
        while True:
            token = attach(context)
            try:
                yielded = resume(sent)
            except StopIteration as stop:
                result: T = stop.value
                return result
            finally:
                context = get_current()
                detach(token)
                sent = None  # an exception kept here would keep its frames, this one among them
            try:
                sent = yield yielded
                resume = steps.send
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                resume, sent = steps.throw, error


class Tracing:
    """Begins and ends spans. An OpenTelemetry SDK that fails does not make calls fail."""

    def __init__(self, version: str) -> None:
        self._tracer = trace.get_tracer("toolcrib", version)
        self._propagator = TraceContextTextMapPropagator()
        self._durations = metrics.get_meter("toolcrib", version).create_histogram(
            "mcp.server.operation.duration",
            unit="s",
            description="Duration of calls from their arrival.",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        )
        self._has_warned = False

    def begin(self, tool: str | None, call: Call) -> CallSpan | None:
        try:
            return self._begin(tool, call)
        except Exception as error:
            self._warn(error)
            return None

    def end(self, running: CallSpan | None, tool: str | None, call: Call) -> None:
        error_type = None if call.record.outcome in _NOT_ERRORS else call.record.code or TOOL_ERROR
        try:
            if running is not None:
                _end_span(running.span, call, error_type)
            attributes = _attributes(tool)
            if error_type is not None:
                attributes["error.type"] = error_type
            context = None if running is None else running.context
            self._durations.record(call.record.duration_s, attributes, context)
        except Exception as error:
            self._warn(error)

    def _begin(self, tool: str | None, call: Call) -> CallSpan:
        current = get_current()
        parent, links = self._find_parent(call.channel.trace, current)
        attributes = _attributes(tool)
        attributes["toolcrib.call_id"] = call.id
        if call.channel.request is not None:
            attributes["jsonrpc.request.id"] = str(call.channel.request)[:MAX_REQUEST_CHARS]
        name = METHOD if tool is None else f"{METHOD} {tool}"
        span = self._tracer.start_span(
            name, parent, kind=trace.SpanKind.SERVER, attributes=attributes, links=links
        )
        return CallSpan(span, trace.set_span_in_context(span, current))

    def _find_parent(self, traceparent: str | None, current: Context) -> tuple[Context, list[trace.Link]]:
        """Return the caller's span where it names a valid one; the span that was current is then a link."""
        if not isinstance(traceparent, str) or len(traceparent) > MAX_TRACE_CHARS:
            return current, []
        found = self._propagator.extract({"traceparent": traceparent}, current)
        if found is current:
            return current, []  # malformed
        surrounding = trace.get_current_span(current).get_span_context()
        return found, [trace.Link(surrounding)] if surrounding.is_valid else []

    def _warn(self, error: Exception) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning("OpenTelemetry failed, calls continue without it: %s", type(error).__name__)


def _attributes(tool: str | None) -> dict[str, Any]:
    attributes: dict[str, Any] = {"mcp.method.name": METHOD, "gen_ai.operation.name": "execute_tool"}
    if tool is not None:
        attributes["gen_ai.tool.name"] = tool
    return attributes


def _end_span(span: trace.Span, call: Call, error_type: str | None) -> None:
    try:
        if span.is_recording():
            span.set_attribute("toolcrib.outcome", call.record.outcome)
            if call.record.arguments_bytes is not None:
                span.set_attribute("toolcrib.arguments_bytes", call.record.arguments_bytes)
            if call.record.result_bytes is not None:
                span.set_attribute("toolcrib.result_bytes", call.record.result_bytes)
            if error_type is not None:
                span.set_attribute("error.type", error_type)
                span.set_status(trace.Status(trace.StatusCode.ERROR))
    finally:
        span.end()
