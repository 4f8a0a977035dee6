"""Calls to watch, and eyes to watch with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from prometheus_client.parser import text_string_to_metric_families

from tests.support.otel_recorder import Traces, open_traces
from toolcrib.context import Nobody
from toolcrib.policy import Telemetry
from toolcrib.policy.telemetry.telemetry import TelemetryMiddleware


@dataclass
class Wire(Nobody):
    """A client's end, with what a message says of itself."""

    request: Any = None
    trace: Any = None


def begin(
    watch: TelemetryMiddleware, call_id: str | None = None, *, request: Any = None, trace: Any = None
) -> Any:
    """A call that begins."""
    return watch.begin("refund", Wire(request, trace), call_id)


def make_watch(**options: Any) -> TelemetryMiddleware:
    return TelemetryMiddleware(Telemetry(**options), server="shop", version="1.4")


def call(watch: TelemetryMiddleware, outcome: str = "ok", code: str | None = None, **facts: Any) -> None:
    """A call that begins and ends."""
    running = begin(watch)
    given = {"tool": "refund", "duration_s": 0.02, **facts}
    watch.end(running, outcome=outcome, code=code, **given)


def read_figures(watch: TelemetryMiddleware) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample by its name and labels, as Prometheus' own reader understands the page."""
    families = text_string_to_metric_families(watch.exposition()[1].decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def figure(watch: TelemetryMiddleware, name: str, **labels: str) -> float | None:
    return read_figures(watch).get((name, tuple(sorted(labels.items()))))


def end(
    watch: TelemetryMiddleware, running: Any, outcome: str = "ok", code: str | None = None, **facts: Any
) -> None:
    given = {"tool": "refund", "duration_s": 0.02, **facts}
    watch.end(running, outcome=outcome, code=code, **given)


def one(traces: Traces) -> ReadableSpan:
    [span] = traces.spans
    return span


def current() -> int:
    return trace.get_current_span().get_span_context().span_id


async def conduct(watch: TelemetryMiddleware, work: Callable[[], Awaitable[Any]]) -> Any:
    running = begin(watch)
    try:
        return await watch.within(running, work())
    finally:
        end(watch, running)


@pytest.fixture
def traces() -> Traces:
    found = open_traces()
    found.clear()
    return found
