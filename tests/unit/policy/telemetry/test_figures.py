"""What is counted, and how Prometheus reads it."""

from __future__ import annotations

import sys
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from toolcrib import __version__
from toolcrib.errors import ConfigurationError
from toolcrib.policy.telemetry import metrics as exposition
from toolcrib.policy.telemetry import metrics as figures
from toolcrib.policy.telemetry.metrics import Figures, Row, Sheet

from .conftest import Wire, begin, call, figure, make_watch, read_figures


def test_calls_are_counted_by_tool_outcome_and_code() -> None:
    watch = make_watch(prometheus=True)
    call(watch)
    call(watch)
    call(watch, "error", "invalid-arguments")
    call(watch, "denied", "denied", tool="pay")
    labels = {"tool": "refund", "outcome": "ok", "code": ""}
    assert figure(watch, "toolcrib_calls_total", **labels) == 2
    labels = {"tool": "refund", "outcome": "error", "code": "invalid-arguments"}
    assert figure(watch, "toolcrib_calls_total", **labels) == 1
    assert figure(watch, "toolcrib_calls_total", tool="pay", outcome="denied", code="denied") == 1


def test_calls_of_tools_that_do_not_exist_are_counted_together() -> None:
    watch = make_watch(prometheus=True)
    for _ in range(3):
        watch.end(None, tool=None, outcome="denied", code="unknown-tool", duration_s=0.001)
    assert figure(watch, "toolcrib_calls_total", tool="", outcome="denied", code="unknown-tool") == 3
    assert figure(watch, "toolcrib_calls_running") == 0


def test_durations_are_a_histogram_from_a_millisecond_to_a_minute() -> None:
    watch = make_watch(prometheus=True)
    for duration_s in (0.0005, 0.001, 0.0011, 30.0, 61.0):
        call(watch, duration_s=duration_s)
    name = "toolcrib_call_duration_seconds"
    assert figure(watch, f"{name}_bucket", tool="refund", le="0.001") == 2
    assert figure(watch, f"{name}_bucket", tool="refund", le="0.0025") == 3
    assert figure(watch, f"{name}_bucket", tool="refund", le="10") == 3
    assert figure(watch, f"{name}_bucket", tool="refund", le="30") == 4
    assert figure(watch, f"{name}_bucket", tool="refund", le="60") == 4
    assert figure(watch, f"{name}_bucket", tool="refund", le="+Inf") == 5
    assert figure(watch, f"{name}_count", tool="refund") == 5
    assert figure(watch, f"{name}_sum", tool="refund") == pytest.approx(91.0026)


def test_calls_under_way_are_shown_while_they_are() -> None:
    watch = make_watch(prometheus=True)
    first, second = begin(watch), watch.begin(None, Wire())
    assert figure(watch, "toolcrib_calls_running") == 2
    watch.end(first, tool="refund", outcome="ok", code=None, duration_s=0.1)
    assert figure(watch, "toolcrib_calls_running") == 1
    watch.end(second, tool=None, outcome="denied", code="unknown-tool", duration_s=0.1)
    assert figure(watch, "toolcrib_calls_running") == 0


def test_requests_turned_away_at_the_door_are_counted_by_kind() -> None:
    watch = make_watch(prometheus=True)
    for kind in ("401", "401", "429"):
        watch.count_refusal(kind)
    assert figure(watch, "toolcrib_refusals_total", kind="401") == 2
    assert figure(watch, "toolcrib_refusals_total", kind="429") == 1


def test_the_page_says_what_serves_and_in_which_format_it_is() -> None:
    kind, body = make_watch(prometheus=True).exposition()
    assert kind == b"text/plain; version=0.0.4; charset=utf-8"
    info = f'toolcrib_info{{server="shop",version="1.4",toolcrib="{__version__}"}} 1\n'
    assert info in body.decode()
    assert body.endswith(b"\n")


def test_every_figure_has_its_type_and_its_meaning() -> None:
    watch = make_watch(prometheus=True)
    call(watch)
    watch.count_refusal("401")
    watch.gauge("audit_gaps_total", lambda: 2)
    watch.gauge("odd", lambda: 1)
    families = {each.name: each for each in text_string_to_metric_families(watch.exposition()[1].decode())}
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
    watch = make_watch(prometheus=True)
    values = [3.0, 4.5]
    watch.gauge("audit_queue", lambda: 99)
    watch.gauge("toolcrib_audit_queue", lambda: values.pop(0))
    assert figure(watch, "toolcrib_audit_queue") == 3
    assert figure(watch, "toolcrib_audit_queue") == 4.5


def test_a_gauge_that_fails_is_left_out_and_the_others_are_shown() -> None:
    watch = make_watch(prometheus=True)
    watch.gauge("broken", lambda: 1 / 0)
    watch.gauge("sessions", lambda: 7)
    assert figure(watch, "toolcrib_broken") is None
    assert figure(watch, "toolcrib_sessions") == 7


@pytest.mark.parametrize("name", ["", "9lives", "two words", 'a{b="c"}', "Loud", "a\nb"])
def test_a_gauge_must_have_a_name_that_prometheus_reads(name: str) -> None:
    with pytest.raises(ValueError, match="lower-case letters, digits and underscores"):
        make_watch(prometheus=True).gauge(name, lambda: 0)


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
    watch = make_watch(prometheus=True)
    watch.gauge("sessions", lambda: value)
    assert f"\ntoolcrib_sessions {shown}\n" in watch.exposition()[1].decode()


def test_no_label_can_break_out_of_its_quotes() -> None:
    odd = 'a"} 1\ntoolcrib_forged{x="\\'
    watch = make_watch(prometheus=True)
    call(watch, "error", odd, tool=odd)
    watch.count_refusal(odd)
    found = read_figures(watch)
    assert found[("toolcrib_calls_total", (("code", odd), ("outcome", "error"), ("tool", odd)))] == 1
    assert found[("toolcrib_refusals_total", (("kind", odd),))] == 1
    assert not any(name == "toolcrib_forged" for name, _ in found)


def test_a_lone_surrogate_in_a_name_does_not_break_the_page() -> None:
    watch = make_watch(prometheus=True)
    call(watch, tool="a\ud800b")
    assert b'tool="a?b"' in watch.exposition()[1]


def test_no_caller_can_make_figures_without_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(figures, "MAX_TOOLS", 2)
    monkeypatch.setattr(figures, "MAX_ENDINGS", 2)
    monkeypatch.setattr(figures, "MAX_REFUSALS", 2)
    watch = make_watch(prometheus=True)
    for tool in ("a", "b", "c", "d", "a"):
        call(watch, tool=tool)
    for code in ("one", "two", "three", "one"):
        call(watch, "error", code, tool="a")
    for kind in ("1", "2", "3", "4", "1"):
        watch.count_refusal(kind)
    assert figure(watch, "toolcrib_calls_total", tool="a", outcome="ok", code="") == 2
    assert figure(watch, "toolcrib_calls_total", tool="", outcome="ok", code="") == 2
    assert figure(watch, "toolcrib_calls_total", tool="a", outcome="error", code="one") == 2
    assert figure(watch, "toolcrib_calls_total", tool="a", outcome="error", code="other") == 2
    assert figure(watch, "toolcrib_refusals_total", kind="1") == 2
    assert figure(watch, "toolcrib_refusals_total", kind="other") == 2
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == ["figures tell 2 tools apart; calls of further ones have no name"]


def test_the_nameless_tool_has_room_where_there_is_none_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "MAX_TOOLS", 1)
    watch = make_watch(prometheus=True)
    call(watch, tool="a")
    watch.end(None, tool=None, outcome="denied", code="unknown-tool", duration_s=0.1)
    assert figure(watch, "toolcrib_calls_total", tool="", outcome="denied", code="unknown-tool") == 1


def test_counts_are_exact_from_many_threads() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    counted = Figures()

    def work() -> None:
        for _ in range(2000):
            counted.begin()
            counted.end("a", "ok", None, 0.002, was_begun=True)
            counted.refuse("401")

    threads = [threading.Thread(target=work) for _ in range(4)]
    try:
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(before)
    sheet = counted.take()
    assert sheet.rows["a"].endings == {("ok", ""): 8000}
    assert sum(sheet.rows["a"].buckets) == 8000
    assert sheet.refusals == {"401": 8000}
    assert counted.running == 0


def test_a_sheet_stays_as_it_was_taken() -> None:
    counted = Figures()
    counted.end("a", "ok", None, 0.002, was_begun=False)
    counted.refuse("401")
    sheet = counted.take()
    counted.end("a", "ok", None, 0.002, was_begun=False)
    counted.refuse("401")
    assert sheet.rows["a"].endings == {("ok", ""): 1}
    assert (sum(sheet.rows["a"].buckets), sheet.rows["a"].total_s) == (1, 0.002)
    assert sheet.refusals == {"401": 1}
    assert counted.running == 0


def test_sheets_add_up() -> None:
    one = Sheet({"a": Row({("ok", ""): 1}, [1] + [0] * 15, 0.5)}, {"401": 1}, {"sessions": 2.0})
    two = Sheet(
        {"a": Row({("ok", ""): 2, ("error", "x"): 1}, [0] * 15 + [3], 1.0), "b": Row()},
        {"401": 1, "429": 1},
        {"sessions": 3.0},
    )
    whole = Sheet.sum_of([one, two])
    assert whole.rows["a"] == Row({("ok", ""): 3, ("error", "x"): 1}, [1] + [0] * 14 + [3], 1.5)
    assert whole.rows["b"] == Row()
    assert (whole.refusals, whole.gauges) == ({"401": 2, "429": 1}, {"sessions": 5.0})
    assert one.rows["a"].endings == {("ok", ""): 1}


def test_without_prometheus_nothing_is_counted_and_there_is_no_page() -> None:
    watch = make_watch()
    call(watch)
    watch.count_refusal("401")
    with pytest.raises(ConfigurationError, match=r"telemetry\.prometheus: no figures are kept") as caught:
        watch.exposition()
    assert caught.value.hint == "set prometheus = true"


def test_a_large_page_is_written_in_a_moment() -> None:
    watch = make_watch(prometheus=True)
    for number in range(1000):
        call(watch, tool=f"tool_{number}")
    assert len(watch.exposition()[1].splitlines()) > 18_000


def test_the_bounds_of_everything_are_known() -> None:
    milliseconds = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000)
    assert tuple(bound * 1000 for bound in figures.BUCKETS_S) == pytest.approx(milliseconds)
    assert (figures.MAX_TOOLS, figures.MAX_ENDINGS, figures.MAX_REFUSALS) == (10_000, 100, 32)


def test_the_bounds_of_the_histogram_are_told_as_numbers() -> None:
    assert [float(bound) for bound in exposition._BOUNDS] == [*figures.BUCKETS_S, float("inf")]
