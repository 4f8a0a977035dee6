"""The plugin that runs the tests in several processes misses no failure, and no worker that dies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, **files: str) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.forked_workers"]
    command += ["-c", "/dev/null", "--workers", "2", str(folder)]
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # they take seconds to import
    return subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=False
    )


def test_every_test_runs_once_and_a_failure_is_shown(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        good="def test_a(): pass\ndef test_b(tmp_path): assert tmp_path.is_dir()\n",
        bad="def test_c():\n    print('printed')\n    assert [1] == [2]\n",
        skipped="import pytest\ndef test_d(): pytest.skip('no need')\n",
    )
    assert done.returncode == 1
    assert "assert [1] == [2]" in done.stdout
    assert "printed" in done.stdout
    assert "1 failed, 2 passed, 1 skipped" in done.stdout


def test_a_worker_that_dies_fails_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, deadly="import os\ndef test_e(): os._exit(0)\n", good="def test_a(): pass\n")
    assert done.returncode not in (0, 1)
    assert "test_deadly.py" in done.stdout + done.stderr
