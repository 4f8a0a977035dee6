"""The figures of several processes that serve as one, so that it does not matter which of them is asked.

Each writes its own into a file of a folder that they share: once a second where they have changed, and
whenever it is asked itself, so that no sum is ever lower than one that was told before. Of a process that
has ended, what it counted stays; what it had under way does not. Knows files and processes; refuses to know
what the figures mean. Needs a POSIX system, as several workers do.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolcrib.policies.telemetry.figures import BUCKETS_S, Row, Sheet

logger = logging.getLogger("toolcrib")

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
