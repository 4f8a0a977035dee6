"""Telemetry around calls: metrics for Prometheus and spans for OpenTelemetry.

Tool names, outcomes, durations and sizes are reported; arguments, results and principals are not. A backend
that is not configured is not loaded. Telemetry never makes a call fail.

Metrics are in the text format of Prometheus (0.0.4), summed over worker processes. Their labels come from the
registry and from error codes, and their number is limited, so that no caller can fill the memory. Each worker
process writes its metrics to a file in a shared folder: once a second if they have changed, and before it
answers a scrape, so that a counter never decreases. The counters of a process that has ended are kept; its
gauges are not.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib import __version__
from toolcrib.config.settings import Telemetry
from toolcrib.content import Result
from toolcrib.dispatch.calls import Call
from toolcrib.dispatch.middleware import Next
from toolcrib.errors import ConfigurationError

if TYPE_CHECKING:
    from toolcrib.policy.tracing import Tracing

logger = logging.getLogger("toolcrib")

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
MAX_TOOLS = 10_000
MAX_OUTCOMES = 100
MAX_REFUSALS = 32
OTHER = "other"
INTERVAL_S = 1.0
SUFFIX = ".metrics"

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
PREFIX = "toolcrib_"
METRIC_NAME = re.compile(r"[a-z][a-z0-9_]*")
_HELP = {
    "audit_gaps_total": "Calls that were answered without an audit record.",
    "audit_queue": "Audit records that wait to be written.",
    "calls_running": "Calls that run or wait.",
    "sessions": "Open client sessions.",
    "threads_abandoned": "Threads that still run a tool whose caller has been answered.",
}
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_BOUNDS = (*(f"{bound:g}" for bound in BUCKETS_S), "+Inf")


@dataclass(slots=True)
class ToolMetrics:
    """Counts of one tool: calls by outcome and error code ("denied policy.denied"), and durations. The last
    bucket has no upper bound."""

    outcomes: Counter[str] = field(default_factory=Counter)
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0

    def add(self, other: ToolMetrics) -> None:
        self.outcomes.update(other.outcomes)
        self.buckets = [mine + theirs for mine, theirs in zip(self.buckets, other.buckets, strict=True)]
        self.total_s += other.total_s


@dataclass(slots=True)
class MetricsSnapshot:
    """Metrics at one moment. Calls of unknown tools are counted under the name ""."""

    tools: dict[str, ToolMetrics] = field(default_factory=dict)
    refusals: Counter[str] = field(default_factory=Counter)
    gauges: dict[str, float] = field(default_factory=dict)

    @classmethod
    def sum_of(cls, snapshots: Sequence[MetricsSnapshot]) -> MetricsSnapshot:
        whole = cls()
        for snapshot in snapshots:
            for tool, counts in snapshot.tools.items():
                whole.tools.setdefault(tool, ToolMetrics()).add(counts)
            whole.refusals.update(snapshot.refusals)
            for name, value in snapshot.gauges.items():
                whole.gauges[name] = whole.gauges.get(name, 0.0) + value
        return whole

    def encode(self) -> bytes:
        tools = {
            tool: {"outcomes": counts.outcomes, "buckets": counts.buckets, "total_s": counts.total_s}
            for tool, counts in self.tools.items()
        }
        return json.dumps({"tools": tools, "refusals": self.refusals, "gauges": self.gauges}).encode()

    @classmethod
    def decode(cls, data: bytes) -> MetricsSnapshot:
        """Decode metrics. Raises ValueError, TypeError or KeyError for data of another version."""
        facts: dict[str, Any] = json.loads(data)
        tools = {
            tool: ToolMetrics(Counter(counts["outcomes"]), counts["buckets"], counts["total_s"])
            for tool, counts in facts["tools"].items()
        }
        if any(len(counts.buckets) != len(_BOUNDS) for counts in tools.values()):
            raise ValueError("other bucket boundaries")
        return cls(tools, Counter(facts["refusals"]), facts["gauges"])


class CallMetrics:
    """Counts calls from any thread."""

    __slots__ = ("_is_full", "_lock", "_refusals", "_tools", "running")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tools: dict[str, ToolMetrics] = {}
        self._refusals: Counter[str] = Counter()
        self._is_full = False
        self.running = 0

    def begin(self) -> None:
        with self._lock:
            self.running += 1

    def end(self, tool: str | None, outcome: str, code: str | None, duration_s: float) -> None:
        name, key = tool or "", f"{outcome} {code or ''}"
        with self._lock:
            self.running -= 1
            counts = self._tools.get(name)
            if counts is None:
                counts = self._add_tool(name)
            if key not in counts.outcomes and len(counts.outcomes) >= MAX_OUTCOMES:
                key = f"{outcome} {OTHER}"
            counts.outcomes[key] += 1
            counts.buckets[bisect_left(BUCKETS_S, duration_s)] += 1
            counts.total_s += duration_s

    def count_refusal(self, kind: str) -> None:
        with self._lock:
            if kind not in self._refusals and len(self._refusals) >= MAX_REFUSALS:
                kind = OTHER
            self._refusals[kind] += 1

    def snapshot(self) -> MetricsSnapshot:
        """Return a copy of the metrics as they are now."""
        with self._lock:
            tools = {
                tool: ToolMetrics(counts.outcomes.copy(), counts.buckets.copy(), counts.total_s)
                for tool, counts in self._tools.items()
            }
            return MetricsSnapshot(tools, self._refusals.copy())

    def _add_tool(self, tool: str) -> ToolMetrics:
        if tool and len(self._tools) >= MAX_TOOLS:
            if not self._is_full:
                self._is_full = True
                logger.warning(
                    "metrics are limited to %d tools; others are counted without a name", MAX_TOOLS
                )
            tool = ""
        return self._tools.setdefault(tool, ToolMetrics())


def render(snapshot: MetricsSnapshot, info: Mapping[str, str]) -> bytes:
    """Return the page for Prometheus. `info` describes the server, as labels of a metric that is always 1."""
    lines: list[str] = [*_head("info", "gauge", "The server."), f"{PREFIX}info{_labels(info)} 1"]
    lines += _head("calls_total", "counter", "Calls that have ended, by tool, outcome and error code.")
    for tool, counts in snapshot.tools.items():
        for key, count in counts.outcomes.items():
            outcome, _, code = key.partition(" ")
            labels = _labels({"tool": tool, "outcome": outcome, "code": code})
            lines.append(f"{PREFIX}calls_total{labels} {count}")
    lines += _head("call_duration_seconds", "histogram", "Duration of calls from their arrival.")
    for tool, counts in snapshot.tools.items():
        lines += _render_durations(tool, counts)
    lines += _head("refusals_total", "counter", "Requests that were refused before they were calls.")
    for kind, count in snapshot.refusals.items():
        lines.append(f"{PREFIX}refusals_total{_labels({'kind': kind})} {count}")
    for name, value in sorted(snapshot.gauges.items()):
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += _head(name, kind, _HELP.get(name, "A metric of this server."))
        lines.append(f"{PREFIX}{name} {_number(value)}")
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {PREFIX}{name} {text}", f"# TYPE {PREFIX}{name} {kind}"


def _render_durations(tool: str, counts: ToolMetrics) -> Iterator[str]:
    name, label = f"{PREFIX}call_duration_seconds", f'tool="{tool.translate(_ESCAPES)}"'
    cumulative = 0
    for bound, count in zip(_BOUNDS, counts.buckets, strict=True):
        cumulative += count
        yield f'{name}_bucket{{{label},le="{bound}"}} {cumulative}'
    yield f"{name}_sum{{{label}}} {_number(counts.total_s)}"
    yield f"{name}_count{{{label}}} {cumulative}"


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}"


def _number(value: float) -> str:
    """Return a number as short as possible without loss, or the name that Prometheus has for it."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


class SharedMetrics:
    """The metrics of all processes that share a folder. `take` returns those of this process."""

    def __init__(
        self, folder: Path, take: Callable[[], MetricsSnapshot], *, interval_s: float = INTERVAL_S
    ) -> None:
        self._folder = folder
        self._take = take
        self._interval_s = interval_s
        self._path = folder / f"{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"  # process ids are reused
        self._lock = threading.Lock()
        self._written = b""
        self._has_warned = False
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="toolcrib-metrics", daemon=True)
        self._thread.start()

    def sum(self) -> MetricsSnapshot:
        """Return the sum of the metrics of all processes."""
        own = self._take()
        self._write(own)
        return MetricsSnapshot.sum_of([own, *self._read_others()])

    def close(self) -> None:
        """Write the final metrics."""
        self._is_closed.set()
        self._thread.join()
        self._write(self._take())

    def _run(self) -> None:
        while not self._is_closed.wait(self._interval_s):
            self._write(self._take())

    def _write(self, snapshot: MetricsSnapshot) -> None:
        data = snapshot.encode()
        with self._lock:
            if data == self._written:
                return
            try:
                draft = self._path.with_suffix(".new")
                draft.write_bytes(data)
                draft.replace(self._path)  # atomic for readers
                self._written = data
            except OSError as error:
                if not self._has_warned:
                    self._has_warned = True
                    logger.warning("metrics cannot be shared with the other workers: %s", error.strerror)

    def _read_others(self) -> list[MetricsSnapshot]:
        snapshots = []
        for path in self._folder.glob(f"*{SUFFIX}"):
            if path == self._path:
                continue
            try:
                snapshot = MetricsSnapshot.decode(path.read_bytes())
            except (OSError, ValueError, TypeError, KeyError) as error:
                logger.debug("%s cannot be read: %s", path, type(error).__name__)
                continue
            if not _is_alive(int(path.name.partition("-")[0])):
                kept = {name: value for name, value in snapshot.gauges.items() if name.endswith("_total")}
                snapshot.gauges = kept
            snapshots.append(snapshot)
        return snapshots


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # of another user
    return True


# --- around calls ---


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
        from toolcrib.policy.tracing import Tracing  # delayed: loads OpenTelemetry
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise ConfigurationError(
            "opentelemetry-api is not installed",
            key="telemetry.opentelemetry",
            hint="pip install 'toolcrib[otel]'",
        ) from None
    return Tracing(__version__)
