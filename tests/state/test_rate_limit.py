"""Rate limits: an even pace after a burst, in bounded memory."""

from __future__ import annotations

import pytest

from tests.support.system.manual_clock import Clock
from toolcrib.config.settings import Rate
from toolcrib.state.rate_limit import MAX_KEYS, LogLimiter, RateLimiter


@pytest.fixture
def now() -> Clock:
    return Clock(1_000_000.0)


def test_as_many_as_the_rate_counts_come_at_once_and_then_one_at_a_time(now: Clock) -> None:
    limiter = RateLimiter(3, 60.0, now=now)
    assert [limiter.take("a") for _ in range(5)] == [None, None, None, 20.0, 20.0]
    now.pass_s(19.5)
    assert limiter.take("a") == 0.5
    now.pass_s(0.5)
    assert [limiter.take("a"), limiter.take("a")] == [None, 20.0]
    now.pass_s(40)
    assert [limiter.take("a"), limiter.take("a"), limiter.take("a")] == [None, None, 20.0]


def test_anyone_who_stays_away_long_saves_up_no_more_than_one_burst(now: Clock) -> None:
    limiter = RateLimiter(2, 10.0, now=now)
    limiter.take("a")
    now.pass_s(1_000)
    assert [limiter.take("a") for _ in range(3)] == [None, None, 5.0]


def test_each_key_has_its_own_count(now: Clock) -> None:
    limiter = RateLimiter(1, 10.0, now=now)
    assert [limiter.take("a"), limiter.take("b"), limiter.take("a")] == [None, None, 10.0]


@pytest.mark.parametrize("count", [1, 3, 7, 11, 97, 999])
def test_nothing_is_lost_to_rounding(now: Clock, count: int) -> None:
    limiter = RateLimiter(count, 60.0, now=now)
    assert [limiter.take("a") for _ in range(count)] == [None] * count
    assert limiter.take("a") == pytest.approx(60 / count, abs=1e-6)


def test_a_clock_that_goes_back_lets_nobody_in_early_and_breaks_nothing(now: Clock) -> None:
    limiter = RateLimiter(1, 10.0, now=now)
    limiter.take("a")
    now.pass_s(-5)
    assert limiter.take("a") == 15.0


def test_those_whose_time_is_over_are_forgotten_first(now: Clock) -> None:
    limiter = RateLimiter(1, 10.0, now=now, max_keys=10)
    for number in range(5):
        limiter.take(f"old{number}")
    now.pass_s(10)
    for number in range(5):
        limiter.take(f"new{number}")
    assert limiter.take("more") is None
    assert [limiter.take(f"new{number}") for number in range(5)] == [10.0] * 5


def test_beyond_the_limit_a_tenth_of_those_who_came_first_is_forgotten(now: Clock) -> None:
    limiter = RateLimiter(1, 10.0, now=now, max_keys=20)
    for number in range(20):
        assert limiter.take(f"k{number}") is None
    assert limiter.take("k0") == 10.0  # nobody is forgotten before there is need
    assert limiter.take("more") is None
    assert [limiter.take(f"k{number}") for number in range(2, 20)] == [10.0] * 18
    assert limiter.take("more") == 10.0
    assert limiter.take("k1") is None


def test_memory_is_bounded_however_many_callers_there_are(now: Clock) -> None:
    limiter = RateLimiter(1, 10.0, now=now)
    for number in range(MAX_KEYS * 2):
        limiter.take(str(number))
    assert MAX_KEYS * 0.9 <= len(limiter) <= MAX_KEYS == 10_000


@pytest.mark.parametrize(("count", "workers", "each"), [(30, 1, 30), (30, 4, 8), (3, 4, 1), (12, 4, 3)])
def test_anything_that_several_count_apart_is_shared_out_and_nobody_is_left_with_nothing(
    count: int, workers: int, each: int
) -> None:
    assert Rate(count, 60.0).share(workers) == Rate(each, 60.0)


def test_log_lines_beyond_the_rate_are_counted() -> None:
    limiter = LogLimiter(2, 10.0)
    assert [limiter.take(now) for now in (100.0, 101.0, 102.0, 104.9)] == [True, True, False, False]
    assert limiter.take(105.0)
    assert limiter.missed == 2
    assert limiter.take_missed() == " (2 more times since the last message)"
    assert limiter.take_missed() == ""
