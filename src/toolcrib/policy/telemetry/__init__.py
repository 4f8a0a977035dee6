"""Telemetry: Prometheus metrics and OpenTelemetry spans."""

from toolcrib.policy.telemetry.telemetry import TelemetryMiddleware

__all__ = ["TelemetryMiddleware"]
