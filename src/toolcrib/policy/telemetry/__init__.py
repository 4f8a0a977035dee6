"""Telemetry: Prometheus metrics and OpenTelemetry spans."""
