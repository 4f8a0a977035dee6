"""Telemetry of a server from end to end, and its options."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace

from tests.support.records.otel_recorder import Traces
from toolcrib import MCPServer, ToolNotFoundError
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Audit, Limit, Policy, Rule, Telemetry
from toolcrib.policy.telemetry import TelemetryMiddleware

from .conftest import figure


def make_server(**demands: object) -> tuple[MCPServer, TelemetryMiddleware]:
    policy = Policy(telemetry=Telemetry(prometheus=True, opentelemetry=True), **demands)  # type: ignore[arg-type]
    server = MCPServer("shop", version="1.4", policy=policy)

    @server.tool
    async def fetch(seconds: float = 0.0) -> str:
        """Fetch."""
        with trace.get_tracer("test").start_as_current_span("query"):
            await asyncio.sleep(seconds)
        return "fetched"

    @server.tool
    def work() -> str:
        """Work on a thread."""
        trace.get_tracer("test").start_span("on a thread").end()
        return "worked"

    @server.tool(run="inline")
    def glance() -> str:
        """Work at once."""
        trace.get_tracer("test").start_span("at once").end()
        return "seen"

    @server.tool
    async def hidden() -> str:
        """Not for anybody."""
        return "hidden"

    assert server.enforcer is not None
    assert server.enforcer.telemetry is not None
    return server, server.enforcer.telemetry


async def test_spans_of_tools_are_below_their_calls_in_every_mode(traces: Traces) -> None:
    server, _ = make_server()
    async with server.connect() as client:
        for name in ("fetch", "work", "glance"):
            await client.call(name)
    found = {span.name: span for span in traces.spans}
    for name, inner in (("fetch", "query"), ("work", "on a thread"), ("glance", "at once")):
        parent = found[inner].parent
        assert parent is not None
        assert parent.span_id == found[f"tools/call {name}"].context.span_id
        assert found[f"tools/call {name}"].parent is None
        assert (found[f"tools/call {name}"].attributes or {})["jsonrpc.request.id"]


async def test_every_end_of_a_call_is_counted_once_under_its_name(tmp_path: Path, traces: Traces) -> None:
    server, telemetry = make_server(
        rules=[Rule(deny=["hidden"])], limits=[Limit(tools=["work"], daily=1)], audit=Audit(tmp_path / "a.db")
    )
    await server.start()
    try:
        call = server.dispatcher.call
        await call("fetch")
        await call("fetch", {"seconds": "soon"})
        await call("work")
        await call("work")
        await call("fetch", {"seconds": 60.0}, timeout_s=0.01)
        for name in ("hidden", "nowhere"):
            with pytest.raises(ToolNotFoundError):
                await call(name)
        task = asyncio.create_task(call("fetch", {"seconds": 60.0}))
        while figure(telemetry, "toolcrib_calls_running") != 1:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    finally:
        await server.stop()
    name = "toolcrib_calls_total"
    assert figure(telemetry, name, tool="fetch", outcome="ok", code="") == 1
    assert figure(telemetry, name, tool="fetch", outcome="error", code="invalid-arguments") == 1
    assert figure(telemetry, name, tool="fetch", outcome="timeout", code="timeout") == 1
    assert figure(telemetry, name, tool="fetch", outcome="cancelled", code="") == 1
    assert figure(telemetry, name, tool="work", outcome="ok", code="") == 1
    assert figure(telemetry, name, tool="work", outcome="throttled", code="throttled") == 1
    assert figure(telemetry, name, tool="hidden", outcome="denied", code="unknown-tool") == 1
    assert figure(telemetry, name, tool="", outcome="denied", code="unknown-tool") == 1
    assert figure(telemetry, "toolcrib_calls_running") == 0
    assert figure(telemetry, "toolcrib_audit_gaps_total") == 0
    assert len([span for span in traces.spans if span.name.startswith("tools/call")]) == 8


def test_nothing_is_watched_unless_it_is_asked_for() -> None:
    options = Telemetry()
    assert (options.prometheus, options.opentelemetry, options.metrics_open) == (False, False, False)
    assert (options.metrics_path, options.metrics_scope) == ("/metrics", "metrics:read")


@pytest.mark.parametrize("path", ["/", "/metrics", "/a/b-c_d.e~1"])
def test_the_metrics_path_can_be_set(path: str) -> None:
    assert Telemetry(prometheus=True, metrics_path=path).metrics_path == path


@pytest.mark.parametrize(
    ("options", "key", "words"),
    [
        ({"prometheus": "yes"}, "prometheus", "must be true or false, got 'yes'"),
        ({"opentelemetry": 1}, "opentelemetry", "must be true or false, got 1"),
        ({"metrics_open": None}, "metrics_open", "must be true or false, got None"),
        ({"metrics_path": "metrics"}, "metrics_path", "must be a path such as '/metrics', got 'metrics'"),
        ({"metrics_path": "/a?b"}, "metrics_path", "must be a path such as '/metrics', got '/a?b'"),
        ({"metrics_path": "/a\n"}, "metrics_path", "must be a path such as '/metrics', got '/a\\n'"),
        ({"metrics_path": 7}, "metrics_path", "must be a path such as '/metrics', got 7"),
        ({"metrics_open": True}, "metrics_open", "has no effect: prometheus is off"),
        ({"metrics_scope": ""}, "metrics_scope", "must be one scope such as 'metrics:read', got ''"),
        ({"metrics_scope": None}, "metrics_scope", "must be one scope such as 'metrics:read', got None"),
        ({"metrics_scope": 5}, "metrics_scope", "must be one scope such as 'metrics:read', got 5"),
        ({"metrics_scope": "a b"}, "metrics_scope", "must be one scope such as 'metrics:read', got 'a b'"),
        ({"metrics_scope": "figures"}, "metrics_scope", "has no effect: prometheus is off"),
        (
            {"prometheus": True, "metrics_open": True, "metrics_scope": "figures"},
            "metrics_scope",
            "has no effect: metrics_open lets everybody read",
        ),
    ],
)
def test_anything_that_makes_no_sense_is_refused_by_its_key(
    options: dict[str, Any], key: str, words: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Telemetry(**options)
    assert (caught.value.key, caught.value.message) == (key, words)
