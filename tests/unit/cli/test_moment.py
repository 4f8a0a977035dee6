"""Times as people write and read them."""

from __future__ import annotations

import pytest

from toolcrib.cli.audit import read_ahead, read_back, show_day, show_moment, show_span
from toolcrib.cli.options import Failure

NOW_S = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5),
        ("5m", 300),
        ("5min", 300),
        ("5h", 18_000),
        ("5 d", 432_000),
        ("1W", 604_800),
        (" 1y ", 31_536_000),
    ],
)
def test_a_span_counts_from_now_in_either_direction(text: str, seconds: float) -> None:
    assert read_ahead("--expires", text, NOW_S) == NOW_S + seconds
    assert read_back("--since", text, NOW_S) == NOW_S - seconds


@pytest.mark.parametrize(
    ("text", "moment_s"),
    [
        ("2027-01-15", NOW_S - 8 * 3600),
        ("2027-01-15T08:00", NOW_S),
        ("2027-01-15 08:00:00.5", NOW_S + 0.5),
        ("2027-01-15T10:00:00+02:00", NOW_S),
        ("2027-01-15T08:00:00Z", NOW_S),
    ],
)
def test_a_date_is_the_same_in_either_direction(text: str, moment_s: float) -> None:
    assert read_ahead("--expires", text, NOW_S) == read_back("--since", text, NOW_S) == moment_s


@pytest.mark.parametrize("text", ["", "soon", "5", "5x", "-5d", "2027-13-01", "1234567890d", "5d5h"])
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(Failure) as caught:
        read_back("--since", text, NOW_S)
    assert caught.value.message == f"--since {text!r} is no time"
    assert caught.value.hint == "write a time such as 30d, 12h, 2027-01-01 or 2027-01-01T12:00 (UTC)"


def test_times_that_nothing_can_hold_are_refused() -> None:
    for read, text in ((read_ahead, "9000y"), (read_back, "60y"), (read_back, "1969-12-31")):
        with pytest.raises(Failure, match="is out of reach"):
            read("--since", text, NOW_S)


def test_a_day_is_enough_unless_it_is_near() -> None:
    assert show_day(NOW_S) == "2027-01-15"
    assert show_moment(NOW_S + 172_800, NOW_S) == "2027-01-17"
    assert show_moment(NOW_S + 172_799, NOW_S) == "2027-01-17 07:59"
    assert show_moment(NOW_S - 172_799, NOW_S) == "2027-01-13 08:00"
    assert show_moment(NOW_S - 172_800, NOW_S) == "2027-01-13"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "1 second"),
        (119, "119 seconds"),
        (120, "2 minutes"),
        (7199, "120 minutes"),
        (7200, "2 hours"),
        (172_799, "48 hours"),
        (172_800, "2 days"),
        (90 * 86_400 - 0.4, "90 days"),
    ],
)
def test_a_length_of_time_is_told_in_its_largest_unit(seconds: float, words: str) -> None:
    assert show_span(seconds) == words
