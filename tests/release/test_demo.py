"""The README's first command in a new checkout. A long test: `python dev.py release`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CPU_SECONDS = 20

pytestmark = pytest.mark.skipif("TOOLCRIB_SOAK" not in os.environ, reason="a long run: python dev.py release")


def test_the_demo_installs_and_serves_in_under_20_seconds_of_cpu_time(tmp_path: Path) -> None:
    for name in ("dev.py", "requirements/run.lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    before = os.times()
    done = subprocess.run(
        [sys.executable, "dev.py", "demo"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    after = os.times()
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n10 + 5 = 15\n") == 2, "called in process, and over HTTP"
    assert (
        after.children_user + after.children_system - before.children_user - before.children_system
        < CPU_SECONDS
    )
    launched = subprocess.run(
        [str(tmp_path / ".venv-run" / "bin" / "toolcrib"), "--version"], capture_output=True, text=True
    )
    assert launched.stdout.startswith("toolcrib ")
