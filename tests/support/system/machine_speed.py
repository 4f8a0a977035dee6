"""The speed of this machine at this moment, for limits on CPU time that are written for an ordinary one."""

from __future__ import annotations

import json
import time

COUNT = 300_000
DOCUMENT = json.dumps({f"a{number}b": number for number in range(30_000)})
ORDINARY_S = 0.025
"""CPU seconds for counting to `COUNT` and reading and writing `DOCUMENT`: an estimate, not a measurement."""
MAX_SLOWDOWN = 3.0


def slowdown() -> float:
    """Return how many times slower than ordinary this machine is now, from 1 to `MAX_SLOWDOWN`."""
    return min(MAX_SLOWDOWN, max(1.0, min(_work() for _ in range(5)) / ORDINARY_S))


def _work() -> float:
    started, total = time.process_time(), 0
    for number in range(COUNT):
        total += number
    json.dumps(json.loads(DOCUMENT))
    return time.process_time() - started
