"""`python -m bench.wire.recording FOLDER SECONDS`: records committed per second.

Many callers, each of whom waits for its record before it makes the next, as calls do.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import time
from pathlib import Path

from toolcrib.policy import Audit
from toolcrib.policy.audit import AuditLog

CALLERS = 256


async def measure(file: Path, seconds: float) -> dict[str, float]:
    log = AuditLog(Audit(file), server="bench")
    await log.open()
    arguments = {"a": 1, "b": 2}
    counted = 0
    begin = time.perf_counter()
    until = begin + seconds

    async def call(number: int) -> None:
        nonlocal counted
        while time.perf_counter() < until:
            digest, size = log.digest(arguments)
            entry = {
                "id": f"{number:x}",
                "request": number,
                "principal": "key:bench",
                "tool": "add",
                "version": None,
                "definition": digest,
                "arguments_bytes": size,
                "arguments_digest": digest,
                "rule": "default",
                "decision": "allowed",
                "outcome": "ok",
                "code": None,
                "duration_ms": 0.123,
                "result_bytes": 1,
            }
            if not await log.commit(entry):
                raise SystemExit("a record was not committed in time")
            counted += 1

    await asyncio.gather(*(call(number) for number in range(CALLERS)))
    wall_s = time.perf_counter() - begin
    await log.close()
    return {"records_per_s": counted / wall_s}


def main() -> None:
    folder, seconds = sys.argv[1:]
    file = Path(folder) / f"recording-{secrets.token_hex(4)}.db"
    print(json.dumps(asyncio.run(measure(file, float(seconds)))))


if __name__ == "__main__":
    main()
