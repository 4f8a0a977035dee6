"""A full disk is told at once, stalls nobody, leaves no half record, and is forgotten afterwards.

A real disk of 512 KiB where mounting one is allowed; elsewhere a limit on the size of files, and /dev/full.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.row("G3")

CHILD = """\
import asyncio, os, sys, time
from pathlib import Path
from toolcrib.policy.audit import AuditLog, open_log
from toolcrib.policy import Audit

path, how = Path(sys.argv[1]), sys.argv[2]
filler = path.parent / "filler"

def fill():
    if how == "limit":
        import resource
        limit = max(each.stat().st_size for each in path.parent.glob(path.name + "*")) + 3_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        return
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            pass

def free():
    if how == "limit":
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        filler.unlink()

async def main():
    log = AuditLog(Audit(path, wait_s=5), server="shop")
    await log.open()
    acknowledged, refused, slowest = [], [], 0.0
    async def call(number):
        nonlocal slowest
        started = time.perf_counter()
        is_kept = await log.commit({"id": f"c{number}", "filler": "x" * 300})
        slowest = max(slowest, time.perf_counter() - started)
        (acknowledged if is_kept else refused).append(f"c{number}")
        return is_kept
    number = 0
    for _ in range(20):
        number += 1
        assert await call(number), "there is room"
    fill()
    while not refused:
        number += 1
        await call(number)
    assert log.is_failing
    for _ in range(50):
        number += 1
        assert not await call(number), "there is none"
    assert slowest < 3, slowest
    kept = {record.get("id") for record in open_log(path).records()}
    assert set(acknowledged) <= kept
    free()
    while log.is_failing:
        await asyncio.sleep(0.01)
    number += 1
    assert await call(number), "there is room again"
    assert log.gaps == len(refused), (log.gaps, len(refused))
    await log.close()
    records = list(open_log(path).records())
    calls = [record["id"] for record in records if record["kind"] == "call"]
    assert sorted(calls) == sorted(acknowledged + refused), "late ones are there too, and none twice"
    assert sum(record["late"] for record in records if record["kind"] == "gap") == len(refused)
    verdict = open_log(path).verify()
    assert verdict.is_sound, verdict.problems
    print("well")

asyncio.run(main())
"""


def check(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "well\n", done.stderr
    assert done.stderr.count("cannot write records") == 1
    assert done.stderr.count("are written again") == 1


def test_g3_a_disk_that_is_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare to mount a small disk with")
    mount = f"mount -t tmpfs -o size=512k tmpfs {disk}"
    probe = subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("mounting a small disk is not allowed here")
    shell = ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh"]
    check([*shell, sys.executable, "-c", CHILD, str(disk / "audit.db"), "disk"])


def test_g3_a_file_that_may_not_grow(tmp_path: Path) -> None:
    check([sys.executable, "-c", CHILD, str(tmp_path / "audit.db"), "limit"])
