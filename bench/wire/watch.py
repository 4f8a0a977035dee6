"""Watching another process from outside: its CPU time, its memory, its children. Linux only.

The CPU time of a process includes all its threads, also those that have ended.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path

SUPPORTED = sys.platform == "linux"
_SCHEDULED = 2  # of the three clocks that the kernel keeps of a process: the exact one


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for member in found:  # grows while it is read
        for listing in Path(f"/proc/{member}/task").glob("*/children"):
            found += [int(child) for child in listing.read_text().split()]
    return found


def cpu_s(pids: Iterable[int]) -> float:
    """CPU seconds that these processes have used so far, in nanoseconds' resolution."""
    return sum(time.clock_gettime((~pid << 3) | _SCHEDULED) for pid in pids)


def rss_bytes(pids: Iterable[int]) -> int:
    """Memory that these processes hold at this moment."""
    return sum(_status(pid, "VmRSS") for pid in pids) * 1024


def _status(pid: int, key: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == key:
            return int(value.split()[0])
    raise LookupError(f"/proc/{pid}/status has no {key}")
