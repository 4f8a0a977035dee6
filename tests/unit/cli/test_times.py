"""Times as options take them, and as they are printed."""

from __future__ import annotations

import click
import pytest

from toolcrib.cli.options import Time
from toolcrib.cli.text import format_time

NOW_S = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.cli.options.time.time", lambda: NOW_S)


def parse(text: str, sign: int) -> float:
    return Time(sign).convert(text, None, None)


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
def test_a_duration_counts_from_now_in_either_direction(text: str, seconds: float) -> None:
    assert parse(text, 1) == NOW_S + seconds
    assert parse(text, -1) == NOW_S - seconds


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
    assert parse(text, 1) == parse(text, -1) == moment_s


@pytest.mark.parametrize("text", ["", "soon", "5", "5x", "-5d", "2027-13-01", "1234567890d", "5d5h"])
def test_an_invalid_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(click.BadParameter, match="use a time such as 30d, 12h, 2027-01-01"):
        parse(text, -1)


def test_times_out_of_range_are_refused() -> None:
    for sign, text in ((1, "9000y"), (-1, "60y"), (-1, "1969-12-31")):
        with pytest.raises(click.BadParameter, match="between 1970 and 9999"):
            parse(text, sign)


def test_the_time_of_day_is_shown_for_near_times_only() -> None:
    assert format_time(NOW_S) == "2027-01-15"
    assert format_time(NOW_S + 172_800, NOW_S) == "2027-01-17"
    assert format_time(NOW_S + 172_799, NOW_S) == "2027-01-17 07:59"
    assert format_time(NOW_S - 172_799, NOW_S) == "2027-01-13 08:00"
    assert format_time(NOW_S - 172_800, NOW_S) == "2027-01-13"
