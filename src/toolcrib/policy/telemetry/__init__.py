"""Telemetry: Prometheus metrics and OpenTelemetry spans."""

from toolcrib.policy.telemetry.telemetry import Watch

__all__ = ["Watch"]
