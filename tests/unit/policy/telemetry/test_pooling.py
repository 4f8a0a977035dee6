"""Several processes, one page of figures."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolcrib.policy.telemetry.metrics import MetricsSnapshot, SharedMetrics, ToolMetrics, _is_alive
from toolcrib.policy.telemetry.telemetry import TelemetryMiddleware

from .conftest import call, figure, make_telemetry

SHEET = MetricsSnapshot(
    {"a": ToolMetrics({("error", "x"): 2}, [2] + [0] * 15, 0.5)},
    {"401": 3},
    {"sessions": 4.0, "gaps_total": 1.0},
)


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[list[TelemetryMiddleware]]:
    watches = [make_telemetry(prometheus=True) for _ in range(3)]
    for telemetry in watches:
        telemetry.share(tmp_path)
    yield watches
    for telemetry in watches:
        telemetry.close()


def leave(folder: Path, pid: int, snapshot: MetricsSnapshot = SHEET) -> Path:
    path = folder / f"{pid}-00.figures"
    path.write_bytes(snapshot.encode())
    return path


def dead_pid() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_whoever_is_asked_tells_what_all_have_counted(crew: list[TelemetryMiddleware]) -> None:
    for number, telemetry in enumerate(crew, start=1):
        for _ in range(number):
            call(telemetry)
        telemetry.count_refusal("401")
        telemetry.exposition()  # who is asked also writes down what it has
    for telemetry in crew:
        assert figure(telemetry, "toolcrib_calls_total", tool="refund", outcome="ok", code="") == 6
        assert figure(telemetry, "toolcrib_refusals_total", kind="401") == 3
        assert figure(telemetry, "toolcrib_call_duration_seconds_count", tool="refund") == 6


def test_no_sum_is_lower_than_one_that_was_told_before(crew: list[TelemetryMiddleware]) -> None:
    told = 0.0
    for number in range(30):
        call(crew[number % 3])
        now = figure(crew[number % 2], "toolcrib_calls_total", tool="refund", outcome="ok", code="") or 0.0
        assert now >= told
        told = now


def test_figures_are_written_down_without_being_asked_for(tmp_path: Path) -> None:
    taken = threading.Semaphore(0)

    def take() -> MetricsSnapshot:
        taken.release()
        return SHEET

    pool = SharedMetrics(tmp_path, take, interval_s=0.001)
    try:
        for _ in range(3):
            assert taken.acquire(timeout=10)
        [path] = tmp_path.iterdir()
        assert MetricsSnapshot.decode(path.read_bytes()) == SHEET
        assert path.name.startswith(f"{os.getpid()}-")
    finally:
        pool.close()


def test_figures_that_have_not_changed_are_not_written_again(tmp_path: Path) -> None:
    pool = SharedMetrics(tmp_path, lambda: SHEET, interval_s=60)
    try:
        pool.sum()
        [path] = tmp_path.iterdir()
        path.unlink()
        pool.sum()
        assert list(tmp_path.iterdir()) == []
    finally:
        pool.close()


def test_what_a_worker_counted_stays_when_it_ends(tmp_path: Path) -> None:
    ended, left = make_telemetry(prometheus=True), make_telemetry(prometheus=True)
    ended.share(tmp_path)
    left.share(tmp_path)
    call(ended)
    ended.close()
    assert figure(left, "toolcrib_calls_total", tool="refund", outcome="ok", code="") == 1
    left.close()


def test_what_a_worker_had_under_way_ends_with_it(tmp_path: Path) -> None:
    leave(tmp_path, dead_pid())
    leave(tmp_path, os.getppid())
    pool = SharedMetrics(tmp_path, lambda: SHEET, interval_s=60)
    try:
        assert pool.sum().gauges == {"sessions": 8.0, "gaps_total": 3.0}
        assert pool.sum().tools["a"].outcomes == {("error", "x"): 6}
        assert pool.sum().refusals == {"401": 9}
    finally:
        pool.close()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"rows": {"a": {"endings": [], "buckets": [1], "total_s": 0}}, "refusals": {}, "gauges": {}}',
    ],
)
def test_a_file_that_cannot_be_read_is_passed_over(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "1-00.figures").write_bytes(data)
    (tmp_path / "README").write_bytes(b"of somebody else")
    leave(tmp_path, os.getppid())
    pool = SharedMetrics(tmp_path, lambda: SHEET, interval_s=60)
    try:
        assert pool.sum().refusals == {"401": 6}
    finally:
        pool.close()


def test_where_nothing_can_be_written_it_is_said_once_and_the_own_figures_are_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    telemetry = make_telemetry(prometheus=True)
    telemetry.share(tmp_path / "gone")
    for _ in range(3):
        call(telemetry)
        assert figure(telemetry, "toolcrib_calls_running") == 0
    telemetry.close()
    assert figure(telemetry, "toolcrib_calls_total", tool="refund", outcome="ok", code="") == 3
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == ["metrics cannot be shared with the other workers: No such file or directory"]


def test_a_process_of_somebody_else_lives_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    assert _is_alive(os.getpid())
    assert not _is_alive(dead_pid())
    monkeypatch.setattr(os, "kill", refuse)
    assert _is_alive(1)


def test_who_keeps_no_figures_shares_none(tmp_path: Path) -> None:
    telemetry = make_telemetry()
    telemetry.share(tmp_path)
    telemetry.close()
    assert list(tmp_path.iterdir()) == []


def test_sharing_twice_is_sharing_once(tmp_path: Path) -> None:
    telemetry = make_telemetry(prometheus=True)
    telemetry.share(tmp_path)
    telemetry.share(tmp_path)
    call(telemetry)
    assert figure(telemetry, "toolcrib_calls_total", tool="refund", outcome="ok", code="") == 1
    assert len(list(tmp_path.iterdir())) == 1
    telemetry.close()
