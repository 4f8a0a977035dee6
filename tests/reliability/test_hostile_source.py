"""Hostile source files are read, never run: no trace, no import, no file written, soon over.

500 files with `TOOLCRIB_SOAK=1`, a sample of them every day. What the process does is watched from outside
where strace is there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.support.hostile.sources import write_hostile, write_special
from tests.support.scanning import scan_timing as scanning
from tests.support.system.machine_speed import slowdown
from tests.support.system.requires import lack

pytestmark = pytest.mark.row("C4")

IS_LONG = bool(os.environ.get("TOOLCRIB_SOAK"))
NUMBERS = range(500) if IS_LONG else range(0, 500, 13)
LIMIT_S = 2.0
_MAKES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|^\S+\s+(?:mkdir|rename|unlink|link|symlink|truncate)")
_STARTS = re.compile(r"^\S+\s+(?:execve|fork|vfork|clone3?)\(")
_SPEAKS = re.compile(r"^\S+\s+(?:socket|connect|bind|sendto)\(")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder of hostile files, and the folder where they would leave traces."""
    root = tmp_path_factory.mktemp("c4")
    files, traces = root / "files", root / "traces"
    files.mkdir()
    traces.mkdir()
    for number in NUMBERS:
        write_hostile(files, traces, number)
    write_special(files)
    return files, traces


def run_scan(folder: Path, before: Sequence[str] = ()) -> dict[str, Any]:
    done = subprocess.run(
        [*before, sys.executable, "-B", scanning.__file__, str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        # Without a HOME, Python asks the system for one, which is a socket.
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": str(Path(toolcrib.__file__).parents[1]),
        },
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.fixture(scope="module")
def report(hostile: tuple[Path, Path]) -> dict[str, Any]:
    return run_scan(hostile[0])


def test_c4_nothing_runs(hostile: tuple[Path, Path], report: dict[str, Any]) -> None:
    files, traces = hostile
    assert report["files"]
    assert list(traces.iterdir()) == []
    assert not (files / "traced").exists()
    names = {Path(name).stem for name in report["files"]} | {"antigravity", "ctypes", "socket", "subprocess"}
    assert not names & {module.rpartition(".")[2] for module in report["modules"]}


def test_c4_each_file_is_done_in_time(report: dict[str, Any]) -> None:
    limit = LIMIT_S * slowdown()
    slow = {name: facts["cpu_s"] for name, facts in report["files"].items() if facts["cpu_s"] > limit}
    assert not slow


def test_c4_an_honest_tool_at_the_end_of_a_hostile_file_is_found(
    hostile: tuple[Path, Path], report: dict[str, Any]
) -> None:
    honest = {
        name: re.findall(rb"def (honest_\d+)", (hostile[0] / name).read_bytes())
        for name in report["files"]
        if (hostile[0] / name).is_file() and (hostile[0] / name).stat().st_size < 1_000_000
    }
    wanted = {name: found[0].decode() for name, found in honest.items() if found}
    assert len(wanted) > 10
    for name, tool in wanted.items():
        assert tool in report["files"][name]["tools"], name
        assert tool in report["whole"], name


def test_c4_what_cannot_be_read_is_a_finding(hostile: tuple[Path, Path], report: dict[str, Any]) -> None:
    unreadable = {Path(file).name for file in report["unreadable"]}
    assert {"fifo_tool.py", "loop_a.py", "loop_b.py", "nowhere.py"} <= unreadable
    for name, facts in report["files"].items():
        assert facts["tools"] or facts["codes"] or not (hostile[0] / name).exists(), name


def test_c4_the_process_starts_writes_and_sends_nothing(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        lack("strace is not installed: what the scan does is not watched from outside")
    files, traces = tmp_path / "files", tmp_path / "traces"
    files.mkdir()
    traces.mkdir()
    for number in NUMBERS if IS_LONG else range(0, 500, 40):
        write_hostile(files, traces, number)
    write_special(files)
    log = tmp_path / "strace.log"
    run_scan(files, [strace, "-f", "-e", "trace=file,process,network", "-o", str(log)])
    lines = log.read_text(errors="replace").splitlines()
    calls = [line for line in lines if "ENOENT" not in line]
    assert [line for line in calls if str(files) in line], "nothing was watched"
    began = [line for line in calls if _STARTS.search(line) and "CLONE_THREAD" not in line]
    assert len(began) == 1, began[:5]  # the interpreter itself
    assert not [line for line in calls if _MAKES.search(line) and "/dev/null" not in line][:5]
    assert not [line for line in calls if _SPEAKS.search(line)][:5]
    assert list(traces.iterdir()) == []
