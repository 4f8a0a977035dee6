"""Many writers of one cache file, some of them killed; readers see the old or the new, never a mix.

The long run, 8 processes of 1,000 writes each, is made with `TOOLCRIB_SOAK=1`; the everyday one is small. A
full disk is a real one, of 32 KiB, where mounting one is allowed; a limit on the size of files is another.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolcrib.catalog.build import load, store
from toolcrib.config.atomic_file import STALE_S

pytestmark = pytest.mark.row("G5")

WRITER = """\
import sys
from pathlib import Path
from toolcrib.catalog.build import load, store

path, writer, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
for turn in range(count):
    name = f"writer_{writer}_{turn}"
    size = (writer * 7919 + turn * 104729) % 400
    tools = [{"name": f"{name}_{n}", "description": "x" * 50, "parameters": {}} for n in range(size)]
    digest = f"{writer:020d}{turn:020d}"
    catalog = {
        "version": digest[:12],
        "hash": digest,
        "count": size,
        "promptList": name,
        "functionSchema": tools,
    }
    store(path, catalog, {"writer": writer, "turn": turn})
    if not turn:
        print("begun", flush=True)
"""


def start(path: Path, writer: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(writer), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str]) -> int:
    process.kill()
    if process.stdout is not None:
        process.stdout.close()
    return process.wait()


def check_whole(path: Path) -> None:
    """What is there is one writer's one turn, whole."""
    record = load(path)
    assert record is not None, "once there is a file, there is always a whole one"
    catalog, facts = record
    name = f"writer_{facts['writer']}_{facts['turn']}"
    assert catalog["promptList"] == name
    assert catalog["hash"] == f"{facts['writer']:020d}{facts['turn']:020d}"
    assert {tool["name"] for tool in catalog["functionSchema"]} == {
        f"{name}_{number}" for number in range(catalog["count"])
    }


def contend(path: Path, writers: int, count: int, kills: int) -> int:
    """Let writers write until all have ended well, killing some on the way; returns how often was read."""
    dice = random.Random(5)
    processes = [start(path, number, count) for number in range(writers)]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()  # it has written once
        reads = 0
        while any(process.poll() is None for process in processes):
            for _ in range(20):
                check_whole(path)
                reads += 1
            if kills and dice.random() < 0.5:
                kills -= 1
                victim = dice.randrange(writers)
                end(processes[victim])
                processes[victim] = start(path, victim, count)
            check_whole(path)
        assert [process.returncode for process in processes] == [0] * writers
        return reads
    finally:
        for process in processes:
            end(process)


def check_swept(path: Path) -> None:
    """What the killed have left goes when it is ten minutes old."""
    long_ago = time.time() - STALE_S - 1
    for draft in path.parent.glob(".*.tmp"):
        os.utime(draft, (long_ago, long_ago))
    catalog = {"version": "0" * 12, "hash": "0" * 40, "count": 0, "promptList": "", "functionSchema": []}
    store(path, catalog, {"writer": 0, "turn": 0})
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_g5_readers_see_the_old_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "tool_catalog.json"
    assert contend(path, writers=3, count=25, kills=1) > 0
    check_swept(path)


@pytest.mark.skipif(not os.environ.get("TOOLCRIB_SOAK"), reason="minutes: set TOOLCRIB_SOAK=1")
def test_g5_soak_of_eight_thousand_writes(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "tool_catalog.json"
    assert contend(path, writers=8, count=1_000, kills=40) > 1_000
    check_swept(path)


# --- a full disk --------------------------------------------------------------------------------------

FULL = """\
import logging, os, sys
from pathlib import Path
from toolcrib import build_catalog, get_catalog_cached
from toolcrib.catalog.build import load, store

logging.basicConfig(format="%(message)s")
folder, adapter = Path(sys.argv[1]), sys.argv[2]
cache = folder / "tool_catalog.json"
small = {"version": "0" * 12, "hash": "0" * 40, "count": 0, "promptList": "", "functionSchema": []}
store(cache, small, {"builder": "an older one"})
before = cache.read_bytes()
if len(sys.argv) > 3:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
truth = build_catalog(adapter)
for _ in range(3):
    assert get_catalog_cached(adapter, cache) == truth
assert truth["count"] == 250, truth["count"]
assert cache.read_bytes() == before, "what was there is as it was"
assert os.listdir(folder) == [cache.name], os.listdir(folder)
print("well")
"""


def write_adapter(folder: Path) -> Path:
    """An adapter whose catalog needs more room than there is."""
    lines = ["from toolcrib import tool"]
    for number in range(250):
        lines += ["@tool", f"def tool_{number}(x: int) -> int:", f'    """Do number {number} of many."""']
    adapter = folder / "adapter.py"
    adapter.write_text("\n".join([*lines, ""]))
    return adapter


def test_g5_a_file_that_may_not_grow_is_not_a_problem(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    command = [sys.executable, "-c", FULL, str(tmp_path / "cache"), str(write_adapter(tmp_path)), "limit"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "well\n", done.stderr
    assert done.stderr.count("cannot write") == 1
    assert "File too large" in done.stderr


def test_g5_a_full_disk_is_not_a_problem(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare to mount a small disk with")
    mount = f"mount -t tmpfs -o size=32k tmpfs {disk}"
    probe = subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("mounting a small disk is not allowed here")
    adapter = write_adapter(tmp_path)
    command = ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh", sys.executable, "-c", FULL]
    done = subprocess.run([*command, str(disk), str(adapter)], capture_output=True, text=True, check=False)
    assert done.stdout == "well\n", done.stderr
    assert done.stderr.count("cannot write") == 1
    assert "No space left on device" in done.stderr
