"""Records OpenTelemetry spans and metrics of this process in memory. Set up once and shared by all tests."""

from __future__ import annotations

import functools
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Traces:
    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._figures = InMemoryMetricReader()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._spans))
        trace.set_tracer_provider(provider)
        metrics.set_meter_provider(MeterProvider([self._figures]))

    def clear(self) -> None:
        self._spans.clear()

    @property
    def spans(self) -> list[ReadableSpan]:
        """Return the ended spans in order."""
        return list(self._spans.get_finished_spans())

    def points(self, name: str) -> list[Any]:
        """Return the data points of one metric, one for each set of attributes."""
        data: Any = self._figures.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def everything(self) -> str:
        """Return everything as text, to check that something does not occur."""
        data = self._figures.get_metrics_data()
        return "\n".join([*(span.to_json() for span in self.spans), "" if data is None else data.to_json()])


@functools.cache
def open_traces() -> Traces:
    return Traces()
