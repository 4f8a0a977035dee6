"""Scans of thousands of files: memory is bounded by what can hold tools, work by the number of files."""

from __future__ import annotations

import cProfile
import json
import pstats
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scanning import source_corpus
from toolcrib.sources.scan import scan

MAX_MB = 300


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak memory is read from /proc")
def test_a_scan_of_2400_files_keeps_only_the_trees_that_can_hold_tools(tmp_path: Path) -> None:
    source_corpus.write(tmp_path, 2_400)
    command = [sys.executable, source_corpus.__file__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["tools"], report["findings"]) == (2_400, 0)
    assert report["peak_mb"] < MAX_MB


def test_four_times_the_files_take_about_four_times_the_calls(tmp_path: Path) -> None:
    calls = []
    for count in (360, 1_440):
        folder = tmp_path / str(count)
        source_corpus.write(folder, count)
        profile = cProfile.Profile()
        profile.runcall(scan, folder)
        calls.append(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]
    assert calls[1] < 4.4 * calls[0]
