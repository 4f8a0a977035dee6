"""A process that is killed while it writes has lost nothing that it had acknowledged.

A child writes records and says over a pipe which of them are committed; it is killed at any moment, and the
log is opened again. 4 kills for each store every day, 100 with `TOOLCRIB_SOAK=1`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.records.audit_logs import make_writer, verify
from tests.support.system import fork_server
from toolcrib.policy.audit import open_log

pytestmark = pytest.mark.row("G1")

KILLS = 100 if os.environ.get("TOOLCRIB_SOAK") else 4
CHILD = """\
import asyncio, os, sys
from toolcrib.policy.audit import AuditLog
from toolcrib.policy import Audit

log = AuditLog(Audit(sys.argv[1], wait_s=30, sync=sys.argv[3] == "sync"), server="shop")

async def work(worker):
    number = 0
    while True:
        number += 1
        name = f"{sys.argv[2]}.{worker}.{number}"
        if await log.commit({"id": name, "filler": "x" * (number % 700)}):
            os.write(1, name.encode() + b"\\n")

async def main():
    await log.open()
    await asyncio.gather(*(work(worker) for worker in range(12)))

asyncio.run(main())
"""


def run_and_kill(path: Path, name: str, count: int, mode: str) -> set[str]:
    """What the child has acknowledged before it was killed, at some moment after the `count`-th."""
    with fork_server.launch("-c", CHILD, str(path), name, mode, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        said = b""
        while said.count(b"\n") < count:
            part = os.read(child.stdout.fileno(), 1 << 16)
            assert part, "the child has ended by itself"
            said += part
        child.kill()
        said += child.stdout.read()
        assert child.wait() == -signal.SIGKILL
    return {line.decode() for line in said.split(b"\n")[:-1]}


def test_g1_nothing_that_was_acknowledged_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    dice = random.Random(7)
    acknowledged: set[str] = set()
    for kill in range(KILLS):
        mode = "sync" if kill % 4 == 3 else "plain"
        acknowledged |= run_and_kill(path, str(kill), dice.randrange(1, 3000), mode)
        writer = make_writer(path)
        started = time.perf_counter()
        writer.open()
        assert time.perf_counter() - started < 1
        writer.release()
    kept = [record["id"] for record in open_log(path).records() if record["kind"] == "call"]
    assert acknowledged - set(kept) == set()
    assert len(kept) == len(set(kept))
    verdict = verify(path)
    assert verdict.problems == []
    assert verdict.is_sound
