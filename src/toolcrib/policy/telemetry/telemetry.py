"""Telemetry around calls: metrics for Prometheus and spans for OpenTelemetry.

Tool names, outcomes, durations and sizes are reported; arguments, results and principals are not. A backend
that is not configured is not loaded. Telemetry never makes a call fail.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib import __version__
from toolcrib.config.settings import Telemetry
from toolcrib.content import Result
from toolcrib.dispatch.calls import Call
from toolcrib.dispatch.middleware import Next
from toolcrib.errors import ConfigurationError
from toolcrib.policy.telemetry.metrics import (
    CONTENT_TYPE,
    METRIC_NAME,
    PREFIX,
    CallMetrics,
    MetricsSnapshot,
    SharedMetrics,
    render,
)

if TYPE_CHECKING:
    from toolcrib.policy.telemetry.tracing import Tracing

logger = logging.getLogger("toolcrib")


class TelemetryMiddleware:
    """Reports the calls of one server. May be used from any thread."""

    def __init__(self, options: Telemetry, *, server: str, version: str) -> None:
        self._info = {"server": server, "version": version, "toolcrib": __version__}
        self._metrics = CallMetrics() if options.prometheus else None
        self._gauges: dict[str, Callable[[], float]] = {}
        self._tracing: Tracing | None = _load_tracing() if options.opentelemetry else None
        self._shared: SharedMetrics | None = None
        if (metrics := self._metrics) is not None:
            self._gauges["calls_running"] = lambda: metrics.running

    async def __call__(self, call: Call, next: Next) -> Result:
        # The name of an unknown tool is the caller's text, and is not reported.
        tool = None if call.tool is None else call.tool.reference
        metrics, tracing = self._metrics, self._tracing
        if metrics is not None:
            metrics.begin()
        span = None if tracing is None else tracing.begin(tool, call)
        try:
            return await (next(call) if span is None else span.run(next(call)))
        finally:
            if metrics is not None:
                metrics.end(tool, call.record.outcome, call.record.code, call.record.duration_s)
            if tracing is not None:
                tracing.end(span, tool, call)

    def close(self) -> None:
        """Write the final metrics for the other processes that share them."""
        if self._shared is not None:
            self._shared.close()

    def count_refusal(self, kind: str) -> None:
        """Count a request that was refused before it was a call: "401", "403", "429"."""
        if self._metrics is not None:
            self._metrics.count_refusal(kind)

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Add a gauge, or a counter if its name ends in `_total`. Every scrape calls `read` on its thread; if
        that fails, the metric is left out."""
        name = name.removeprefix(PREFIX)
        if not METRIC_NAME.fullmatch(name):
            raise ValueError(f"must be lower-case letters, digits and underscores, got {name!r}")
        self._gauges[name] = read

    def exposition(self) -> tuple[bytes, bytes]:
        """Return content type and body for Prometheus. Raises ConfigurationError if metrics are off."""
        snapshot = self._snapshot() if self._shared is None else self._shared.sum()
        return CONTENT_TYPE, render(snapshot, self._info)

    def share(self, folder: Path) -> None:
        """Report the metrics of all processes that share this folder."""
        if self._metrics is not None and self._shared is None:
            self._shared = SharedMetrics(folder, self._snapshot)

    def _snapshot(self) -> MetricsSnapshot:
        if self._metrics is None:
            raise ConfigurationError(
                "metrics are off", key="telemetry.prometheus", hint="set prometheus=True"
            )
        snapshot = self._metrics.snapshot()
        for name, read in self._gauges.items():
            try:
                snapshot.gauges[name] = float(read())
            except Exception as error:
                logger.debug("the metric '%s' cannot be read: %s", name, type(error).__name__)
        return snapshot


def _load_tracing() -> Tracing:
    try:
        from toolcrib.policy.telemetry.tracing import Tracing  # delayed: loads OpenTelemetry
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise ConfigurationError(
            "opentelemetry-api is not installed",
            key="telemetry.opentelemetry",
            hint="pip install 'toolcrib[otel]'",
        ) from None
    return Tracing(__version__)
