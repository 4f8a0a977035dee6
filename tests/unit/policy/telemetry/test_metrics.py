"""Metrics: what is counted, how Prometheus reads it, and sums over processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from toolcrib import __version__
from toolcrib.errors import ConfigurationError
from toolcrib.policy import telemetry as figures
from toolcrib.policy.telemetry import (
    CallMetrics,
    MetricsSnapshot,
    SharedMetrics,
    TelemetryMiddleware,
    ToolMetrics,
    _is_alive,
)

from .conftest import Running, begin, call, figure, make_telemetry, read_metrics


def test_calls_are_counted_by_tool_outcome_and_code() -> None:
    telemetry = make_telemetry(prometheus=True)
    call(telemetry)
    call(telemetry)
    call(telemetry, "error", "invalid-arguments")
    call(telemetry, "denied", "denied", tool="pay")
    labels = {"tool": "refund", "outcome": "ok", "code": ""}
    assert figure(telemetry, "toolcrib_calls_total", **labels) == 2
    labels = {"tool": "refund", "outcome": "error", "code": "invalid-arguments"}
    assert figure(telemetry, "toolcrib_calls_total", **labels) == 1
    assert figure(telemetry, "toolcrib_calls_total", tool="pay", outcome="denied", code="denied") == 1


def test_calls_of_tools_that_do_not_exist_are_counted_together() -> None:
    telemetry = make_telemetry(prometheus=True)
    for _ in range(3):
        call(telemetry, "denied", "unknown-tool", tool=None)
    assert figure(telemetry, "toolcrib_calls_total", tool="", outcome="denied", code="unknown-tool") == 3
    assert figure(telemetry, "toolcrib_calls_running") == 0


def test_durations_are_a_histogram_from_a_millisecond_to_a_minute() -> None:
    telemetry = make_telemetry(prometheus=True)
    for duration_s in (0.0005, 0.001, 0.0011, 30.0, 61.0):
        call(telemetry, duration_s=duration_s)
    name = "toolcrib_call_duration_seconds"
    assert figure(telemetry, f"{name}_bucket", tool="refund", le="0.001") == 2
    assert figure(telemetry, f"{name}_bucket", tool="refund", le="0.0025") == 3
    assert figure(telemetry, f"{name}_bucket", tool="refund", le="10") == 3
    assert figure(telemetry, f"{name}_bucket", tool="refund", le="30") == 4
    assert figure(telemetry, f"{name}_bucket", tool="refund", le="60") == 4
    assert figure(telemetry, f"{name}_bucket", tool="refund", le="+Inf") == 5
    assert figure(telemetry, f"{name}_count", tool="refund") == 5
    assert figure(telemetry, f"{name}_sum", tool="refund") == pytest.approx(91.0026)


def test_calls_under_way_are_shown_while_they_are() -> None:
    telemetry = make_telemetry(prometheus=True)
    first, second = begin(telemetry), Running(telemetry, None)
    assert figure(telemetry, "toolcrib_calls_running") == 2
    first.end()
    assert figure(telemetry, "toolcrib_calls_running") == 1
    second.end("denied", "unknown-tool")
    assert figure(telemetry, "toolcrib_calls_running") == 0


def test_requests_turned_away_at_the_door_are_counted_by_kind() -> None:
    telemetry = make_telemetry(prometheus=True)
    for kind in ("401", "401", "429"):
        telemetry.count_refusal(kind)
    assert figure(telemetry, "toolcrib_refusals_total", kind="401") == 2
    assert figure(telemetry, "toolcrib_refusals_total", kind="429") == 1


def test_the_page_says_what_serves_and_in_which_format_it_is() -> None:
    kind, body = make_telemetry(prometheus=True).exposition()
    assert kind == b"text/plain; version=0.0.4; charset=utf-8"
    info = f'toolcrib_info{{server="shop",version="1.4",toolcrib="{__version__}"}} 1\n'
    assert info in body.decode()
    assert body.endswith(b"\n")


def test_every_figure_has_its_type_and_its_meaning() -> None:
    telemetry = make_telemetry(prometheus=True)
    call(telemetry)
    telemetry.count_refusal("401")
    telemetry.gauge("audit_gaps_total", lambda: 2)
    telemetry.gauge("odd", lambda: 1)
    families = {
        each.name: each for each in text_string_to_metric_families(telemetry.exposition()[1].decode())
    }
    assert {name: each.type for name, each in families.items()} == {
        "toolcrib_info": "gauge",
        "toolcrib_calls": "counter",
        "toolcrib_call_duration_seconds": "histogram",
        "toolcrib_refusals": "counter",
        "toolcrib_calls_running": "gauge",
        "toolcrib_audit_gaps": "counter",
        "toolcrib_odd": "gauge",
    }
    assert all(each.documentation.endswith(".") for each in families.values())
    assert families["toolcrib_audit_gaps"].documentation.startswith("Calls that were answered")


def test_a_gauge_is_read_when_somebody_looks_and_the_last_one_of_a_name_counts() -> None:
    telemetry = make_telemetry(prometheus=True)
    values = [3.0, 4.5]
    telemetry.gauge("audit_queue", lambda: 99)
    telemetry.gauge("toolcrib_audit_queue", lambda: values.pop(0))
    assert figure(telemetry, "toolcrib_audit_queue") == 3
    assert figure(telemetry, "toolcrib_audit_queue") == 4.5


def test_a_gauge_that_fails_is_left_out_and_the_others_are_shown() -> None:
    telemetry = make_telemetry(prometheus=True)
    telemetry.gauge("broken", lambda: 1 / 0)
    telemetry.gauge("sessions", lambda: 7)
    assert figure(telemetry, "toolcrib_broken") is None
    assert figure(telemetry, "toolcrib_sessions") == 7


@pytest.mark.parametrize("name", ["", "9lives", "two words", 'a{b="c"}', "Loud", "a\nb"])
def test_a_gauge_must_have_a_name_that_prometheus_reads(name: str) -> None:
    with pytest.raises(ValueError, match="lower-case letters, digits and underscores"):
        make_telemetry(prometheus=True).gauge(name, lambda: 0)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3.0, "3"),
        (0.25, "0.25"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (float("nan"), "NaN"),
        (1e22, "10000000000000000000000"),
    ],
)
def test_a_number_is_written_as_prometheus_reads_it(value: float, shown: str) -> None:
    telemetry = make_telemetry(prometheus=True)
    telemetry.gauge("sessions", lambda: value)
    assert f"\ntoolcrib_sessions {shown}\n" in telemetry.exposition()[1].decode()


def test_no_label_can_break_out_of_its_quotes() -> None:
    odd = 'a"} 1\ntoolcrib_forged{x="\\'
    telemetry = make_telemetry(prometheus=True)
    call(telemetry, "error", odd, tool=odd)
    telemetry.count_refusal(odd)
    found = read_metrics(telemetry)
    assert found[("toolcrib_calls_total", (("code", odd), ("outcome", "error"), ("tool", odd)))] == 1
    assert found[("toolcrib_refusals_total", (("kind", odd),))] == 1
    assert not any(name == "toolcrib_forged" for name, _ in found)


def test_a_lone_surrogate_in_a_name_does_not_break_the_page() -> None:
    telemetry = make_telemetry(prometheus=True)
    call(telemetry, tool="a\ud800b")
    assert b'tool="a?b"' in telemetry.exposition()[1]


def test_the_number_of_labels_is_limited(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(figures, "MAX_TOOLS", 2)
    monkeypatch.setattr(figures, "MAX_OUTCOMES", 2)
    monkeypatch.setattr(figures, "MAX_REFUSALS", 2)
    telemetry = make_telemetry(prometheus=True)
    for tool in ("a", "b", "c", "d", "a"):
        call(telemetry, tool=tool)
    for code in ("one", "two", "three", "one"):
        call(telemetry, "error", code, tool="a")
    for kind in ("1", "2", "3", "4", "1"):
        telemetry.count_refusal(kind)
    assert figure(telemetry, "toolcrib_calls_total", tool="a", outcome="ok", code="") == 2
    assert figure(telemetry, "toolcrib_calls_total", tool="", outcome="ok", code="") == 2
    assert figure(telemetry, "toolcrib_calls_total", tool="a", outcome="error", code="one") == 2
    assert figure(telemetry, "toolcrib_calls_total", tool="a", outcome="error", code="other") == 2
    assert figure(telemetry, "toolcrib_refusals_total", kind="1") == 2
    assert figure(telemetry, "toolcrib_refusals_total", kind="other") == 2
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == ["metrics are limited to 2 tools; others are counted without a name"]


def test_the_nameless_tool_has_room_where_there_is_none_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "MAX_TOOLS", 1)
    telemetry = make_telemetry(prometheus=True)
    call(telemetry, tool="a")
    call(telemetry, "denied", "unknown-tool", tool=None)
    assert figure(telemetry, "toolcrib_calls_total", tool="", outcome="denied", code="unknown-tool") == 1


def test_counts_are_exact_from_many_threads() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    counted = CallMetrics()

    def work() -> None:
        for _ in range(2000):
            counted.begin()
            counted.end("a", "ok", None, 0.002)
            counted.count_refusal("401")

    threads = [threading.Thread(target=work) for _ in range(4)]
    try:
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(before)
    snapshot = counted.snapshot()
    assert snapshot.tools["a"].outcomes == {"ok ": 8000}
    assert sum(snapshot.tools["a"].buckets) == 8000
    assert snapshot.refusals == {"401": 8000}
    assert counted.running == 0


def test_a_sheet_stays_as_it_was_taken() -> None:
    counted = CallMetrics()
    counted.begin()
    counted.end("a", "ok", None, 0.002)
    counted.count_refusal("401")
    snapshot = counted.snapshot()
    counted.begin()
    counted.end("a", "ok", None, 0.002)
    counted.count_refusal("401")
    assert snapshot.tools["a"].outcomes == {"ok ": 1}
    assert (sum(snapshot.tools["a"].buckets), snapshot.tools["a"].total_s) == (1, 0.002)
    assert snapshot.refusals == {"401": 1}
    assert counted.running == 0


def test_sheets_add_up() -> None:
    one = MetricsSnapshot(
        {"a": ToolMetrics(Counter({"ok ": 1}), [1] + [0] * 15, 0.5)}, Counter({"401": 1}), {"sessions": 2.0}
    )
    two = MetricsSnapshot(
        {"a": ToolMetrics(Counter({"ok ": 2, "error x": 1}), [0] * 15 + [3], 1.0), "b": ToolMetrics()},
        Counter({"401": 1, "429": 1}),
        {"sessions": 3.0},
    )
    whole = MetricsSnapshot.sum_of([one, two])
    assert whole.tools["a"] == ToolMetrics(Counter({"ok ": 3, "error x": 1}), [1] + [0] * 14 + [3], 1.5)
    assert whole.tools["b"] == ToolMetrics()
    assert (whole.refusals, whole.gauges) == ({"401": 2, "429": 1}, {"sessions": 5.0})
    assert one.tools["a"].outcomes == {"ok ": 1}


def test_metrics_in_another_format_are_refused() -> None:
    counts = {"outcomes": [["ok", "", 1]], "buckets": [0] * 16, "total_s": 1.5}
    data = json.dumps({"tools": {"a": counts}, "refusals": {}, "gauges": {}}).encode()
    with pytest.raises(TypeError):
        MetricsSnapshot.decode(data)


def test_without_prometheus_nothing_is_counted_and_there_is_no_page() -> None:
    telemetry = make_telemetry()
    call(telemetry)
    telemetry.count_refusal("401")
    with pytest.raises(ConfigurationError, match=r"telemetry\.prometheus: metrics are off") as caught:
        telemetry.exposition()
    assert caught.value.hint == "set prometheus=True"


def test_the_bounds_of_everything_are_known() -> None:
    milliseconds = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000)
    assert tuple(bound * 1000 for bound in figures.BUCKETS_S) == pytest.approx(milliseconds)
    assert (figures.MAX_TOOLS, figures.MAX_OUTCOMES, figures.MAX_REFUSALS) == (10_000, 100, 32)


def test_the_bounds_of_the_histogram_are_told_as_numbers() -> None:
    assert [float(bound) for bound in figures._BOUNDS] == [*figures.BUCKETS_S, float("inf")]


SHEET = MetricsSnapshot(
    {"a": ToolMetrics(Counter({"error x": 2}), [2] + [0] * 15, 0.5)},
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
    path = folder / f"{pid}-00.metrics"
    path.write_bytes(snapshot.encode())
    return path


def dead_pid() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_anyone_who_is_asked_tells_what_all_have_counted(crew: list[TelemetryMiddleware]) -> None:
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


def test_metrics_are_written_without_a_scrape(tmp_path: Path) -> None:
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


def test_unchanged_metrics_are_not_written_again(tmp_path: Path) -> None:
    pool = SharedMetrics(tmp_path, lambda: SHEET, interval_s=60)
    try:
        pool.sum()
        [path] = tmp_path.iterdir()
        path.unlink()
        pool.sum()
        assert list(tmp_path.iterdir()) == []
    finally:
        pool.close()


def test_anything_that_a_worker_counted_stays_when_it_ends(tmp_path: Path) -> None:
    ended, left = make_telemetry(prometheus=True), make_telemetry(prometheus=True)
    ended.share(tmp_path)
    left.share(tmp_path)
    call(ended)
    ended.close()
    assert figure(left, "toolcrib_calls_total", tool="refund", outcome="ok", code="") == 1
    left.close()


def test_anything_that_a_worker_had_under_way_ends_with_it(tmp_path: Path) -> None:
    leave(tmp_path, dead_pid())
    leave(tmp_path, os.getppid())
    pool = SharedMetrics(tmp_path, lambda: SHEET, interval_s=60)
    try:
        assert pool.sum().gauges == {"sessions": 8.0, "gaps_total": 3.0}
        assert pool.sum().tools["a"].outcomes == {"error x": 6}
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
    (tmp_path / "1-00.metrics").write_bytes(data)
    (tmp_path / "README").write_bytes(b"of somebody else")
    leave(tmp_path, os.getppid())
    pool = SharedMetrics(tmp_path, lambda: SHEET, interval_s=60)
    try:
        assert pool.sum().refusals == {"401": 6}
    finally:
        pool.close()


def test_a_folder_that_is_not_writable_is_logged_once_and_own_metrics_are_shown(
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


def test_a_server_without_metrics_shares_none(tmp_path: Path) -> None:
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
