"""Figures in the text format that Prometheus and everything that imitates it reads (version 0.0.4).

Knows the format and what our figures mean; refuses to know where they are from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from toolcrib.policies.telemetry.figures import BUCKETS_S, Row, Sheet

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
PREFIX = "toolcrib_"
NAME = re.compile(r"[a-z][a-z0-9_]*")
_MEANINGS = {
    "audit_gaps_total": "Calls that were answered without being on the record.",
    "audit_queue": "Records that wait to be written.",
    "calls_queued": "Calls that wait for a place to run.",
    "calls_running": "Calls under way, those that wait included.",
    "sessions": "Sessions of clients that are open.",
    "threads_abandoned": "Threads that still run a tool whose caller has been answered.",
}
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_BOUNDS = (*(f"{bound:g}" for bound in BUCKETS_S), "+Inf")


def write(sheet: Sheet, info: Mapping[str, str]) -> bytes:
    """The whole page. `info` are facts about the server, as labels of a figure that is always 1."""
    lines: list[str] = [*_head("info", "gauge", "What serves here.")]
    lines.append(f"{PREFIX}info{_labels(info)} 1")
    lines += _head("calls_total", "counter", "Calls that have ended, by tool, outcome and code of the error.")
    for tool, row in sheet.rows.items():
        for (outcome, code), count in row.endings.items():
            labels = _labels({"tool": tool, "outcome": outcome, "code": code})
            lines.append(f"{PREFIX}calls_total{labels} {count}")
    lines += _head("call_duration_seconds", "histogram", "How long calls took, from their arrival on.")
    for tool, row in sheet.rows.items():
        lines += _write_durations(tool, row)
    lines += _head("refusals_total", "counter", "Requests that were turned away before they were calls.")
    lines += [
        f"{PREFIX}refusals_total{_labels({'kind': kind})} {count}" for kind, count in sheet.refusals.items()
    ]
    for name, value in sorted(sheet.gauges.items()):
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += _head(name, kind, _MEANINGS.get(name, "Of this server."))
        lines.append(f"{PREFIX}{name} {_number(value)}")
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _head(name: str, kind: str, meaning: str) -> tuple[str, str]:
    return f"# HELP {PREFIX}{name} {meaning}", f"# TYPE {PREFIX}{name} {kind}"


def _write_durations(tool: str, row: Row) -> Iterator[str]:
    name, label = f"{PREFIX}call_duration_seconds", f'tool="{tool.translate(_ESCAPES)}"'
    so_far = 0
    for bound, count in zip(_BOUNDS, row.buckets, strict=True):
        so_far += count
        yield f'{name}_bucket{{{label},le="{bound}"}} {so_far}'
    yield f"{name}_sum{{{label}}} {_number(row.total_s)}"
    yield f"{name}_count{{{label}}} {so_far}"


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}"


def _number(value: float) -> str:
    """As short as it can be said without loss. What is not finite has names that Prometheus reads."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
