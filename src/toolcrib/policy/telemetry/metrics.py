"""The figures of several processes that serve as one, so that it does not matter which of them is asked.

Each writes its own into a file of a folder that they share: once a second where they have changed, and
whenever it is asked itself, so that no sum is ever lower than one that was told before. Of a process that
has ended, what it counted stays; what it had under way does not. Knows files and processes; refuses to know
what the figures mean. Needs a POSIX system, as several workers do.

How many calls ended in which way, and how long they took: numbers in memory, kept by every call.

A call pays for one lock and a few additions. Names of tools come from the registry, codes and kinds from
classes; all the same there is an end to how many of each are told apart, so that no caller can fill memory.
Knows how to count; refuses to know who reads it, callers and arguments.

Figures in the text format that Prometheus and everything that imitates it reads (version 0.0.4).

Knows the format and what our figures mean; refuses to know where they are from.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

logger = logging.getLogger("toolcrib")

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
MAX_TOOLS = 10_000
MAX_ENDINGS = 100
MAX_REFUSALS = 32
OTHER = "other"

Ending = tuple[str, str]
"""An outcome, and the code of the error behind it or nothing."""


@dataclass(slots=True)
class Row:
    """What became of the calls of one tool. The last of `buckets` has no upper bound."""

    endings: dict[Ending, int] = field(default_factory=dict)
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0

    def add(self, other: Row) -> None:
        for ending, count in other.endings.items():
            self.endings[ending] = self.endings.get(ending, 0) + count
        self.buckets = [mine + theirs for mine, theirs in zip(self.buckets, other.buckets, strict=True)]
        self.total_s += other.total_s


@dataclass(slots=True)
class Sheet:
    """Figures at one moment. The tool without a name stands for all that do not exist."""

    rows: dict[str, Row] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)

    @classmethod
    def sum_of(cls, sheets: Sequence[Sheet]) -> Sheet:
        whole = cls()
        for sheet in sheets:
            for tool, row in sheet.rows.items():
                whole.rows.setdefault(tool, Row()).add(row)
            for kind, count in sheet.refusals.items():
                whole.refusals[kind] = whole.refusals.get(kind, 0) + count
            for name, value in sheet.gauges.items():
                whole.gauges[name] = whole.gauges.get(name, 0.0) + value
        return whole


class Figures:
    """Counts from any thread."""

    __slots__ = ("_is_crowded", "_lock", "_refusals", "_rows", "running")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, Row] = {}
        self._refusals: dict[str, int] = {}
        self._is_crowded = False
        self.running = 0

    def begin(self) -> None:
        with self._lock:
            self.running += 1

    def end(
        self, tool: str | None, outcome: str, code: str | None, duration_s: float, *, was_begun: bool
    ) -> None:
        name, ending = tool or "", (outcome, code or "")
        with self._lock:
            if was_begun:
                self.running -= 1
            row = self._rows.get(name)
            if row is None:
                row = self._make_row(name)
            endings = row.endings
            count = endings.get(ending)
            if count is None and len(endings) >= MAX_ENDINGS:
                ending = (outcome, OTHER)
                count = endings.get(ending)
            endings[ending] = (count or 0) + 1
            row.buckets[bisect_left(BUCKETS_S, duration_s)] += 1
            row.total_s += duration_s

    def refuse(self, kind: str) -> None:
        with self._lock:
            if kind not in self._refusals and len(self._refusals) >= MAX_REFUSALS:
                kind = OTHER
            self._refusals[kind] = self._refusals.get(kind, 0) + 1

    def take(self) -> Sheet:
        """All figures as they are now; what is counted from here on does not change them."""
        with self._lock:
            rows = {
                tool: Row(dict(row.endings), list(row.buckets), row.total_s)
                for tool, row in self._rows.items()
            }
            return Sheet(rows, dict(self._refusals))

    def _make_row(self, tool: str) -> Row:
        if tool and len(self._rows) >= MAX_TOOLS:
            if not self._is_crowded:
                self._is_crowded = True
                logger.warning("figures tell %d tools apart; calls of further ones have no name", MAX_TOOLS)
            return self._rows.setdefault("", Row())
        return self._rows.setdefault(tool, Row())


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


EVERY_S = 1.0
SUFFIX = ".figures"


class Pool:
    """This process among those that share a folder. `take` gives its own figures."""

    def __init__(self, folder: Path, take: Callable[[], Sheet], *, every_s: float = EVERY_S) -> None:
        self._folder = folder
        self._take = take
        self._every_s = every_s
        # A random part: the numbers of processes come again.
        self._path = folder / f"{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        self._lock = threading.Lock()
        self._written = b""
        self._has_complained = False
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._live, name="toolcrib-figures", daemon=True)
        self._thread.start()

    def sum(self) -> Sheet:
        """The figures of all, this one's as they are now."""
        own = self._take()
        self._write(own)
        return Sheet.sum_of([own, *self._read_others()])

    def close(self) -> None:
        """Leave the last figures behind."""
        self._is_over.set()
        self._thread.join()
        self._write(self._take())

    def _live(self) -> None:
        while not self._is_over.wait(self._every_s):
            self._write(self._take())

    def _write(self, sheet: Sheet) -> None:
        data = encode(sheet)
        with self._lock:
            if data == self._written:
                return
            try:
                fresh = self._path.with_suffix(".new")
                fresh.write_bytes(data)
                fresh.replace(self._path)  # nobody ever reads half of it
                self._written = data
            except OSError as error:
                if not self._has_complained:
                    self._has_complained = True
                    logger.warning("figures cannot be shared with the other workers: %s", error.strerror)

    def _read_others(self) -> list[Sheet]:
        sheets = []
        for path in self._folder.glob(f"*{SUFFIX}"):
            if path == self._path:
                continue
            try:
                sheet = decode(path.read_bytes())
            except (OSError, ValueError, TypeError, KeyError) as error:
                logger.debug("%s cannot be read: %s", path, type(error).__name__)
                continue
            if not _is_alive(int(path.name.partition("-")[0])):
                kept = {name: value for name, value in sheet.gauges.items() if name.endswith("_total")}
                sheet.gauges = kept
            sheets.append(sheet)
        return sheets


def encode(sheet: Sheet) -> bytes:
    rows = {
        tool: {
            "endings": [[*ending, count] for ending, count in row.endings.items()],
            "buckets": row.buckets,
            "total_s": row.total_s,
        }
        for tool, row in sheet.rows.items()
    }
    return json.dumps({"rows": rows, "refusals": sheet.refusals, "gauges": sheet.gauges}).encode()


def decode(data: bytes) -> Sheet:
    """Raises ValueError, TypeError or KeyError for what no worker of this version has written."""
    facts: dict[str, Any] = json.loads(data)
    rows = {}
    for tool, fact in facts["rows"].items():
        endings = {(outcome, code): int(count) for outcome, code, count in fact["endings"]}
        buckets = [int(count) for count in fact["buckets"]]
        if len(buckets) != len(BUCKETS_S) + 1:
            raise ValueError("other buckets than ours")
        rows[tool] = Row(endings, buckets, float(fact["total_s"]))
    refusals = {kind: int(count) for kind, count in facts["refusals"].items()}
    return Sheet(rows, refusals, {name: float(value) for name, value in facts["gauges"].items()})


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
