"""Daily budgets, which begin at midnight UTC and never twice."""

from __future__ import annotations

import pytest

from tests.unit.policy.quota.machines import ANA, BEN, NOON_S, count_admitted, enter, refused
from toolcrib.config.settings import DAY_S
from toolcrib.policy import Limit
from toolcrib.policy.quota.limits import DAY_NS, BudgetDay

HOUR_S = 3600


async def test_a_budget_is_spent_and_begins_anew_at_midnight(make, clocks):
    quota = make(Limit(daily=3, name="day"))
    assert await count_admitted(quota, 10) == 3
    assert await count_admitted(quota, 10, BEN) == 3
    error = await refused(quota)
    assert str(error) == "The daily budget for calls of 'report' is used up: try again in 12 h."
    assert error.details == {"limit": "day", "kind": "budget", "retryAfterS": 43_200.0}
    clocks.tick(12 * HOUR_S - 0.5)
    assert (await refused(quota)).details["retryAfterS"] == 0.5
    clocks.tick(0.5)
    assert await count_admitted(quota, 10) == 3


async def test_a_budget_is_given_back_where_the_tool_never_ran(make):
    quota = make(Limit(daily=2))
    for _ in range(5):
        (await enter(quota)).leave(ran=False)
    kept = await enter(quota)
    kept.leave(ran=True)
    kept.leave(ran=False)  # it was left already
    other = await enter(quota)
    other.leave(ran=False)
    assert await count_admitted(quota, 5) == 1


async def test_a_budget_is_given_back_where_a_call_came_again_and_the_tool_never_ran(make, clocks):
    quota = make(Limit(daily=2))
    for number in range(5):
        (await enter(quota)).leave(ran=True)  # it ended with a question,
        (await enter(quota, resumes=f"m{number}")).leave(ran=False)  # and the answer was no
    (await enter(quota)).leave(ran=True)
    (await enter(quota, resumes="yes")).leave(ran=True)
    assert await count_admitted(quota, 5) == 1
    (await enter(quota, resumes="of yesterday")).leave(ran=True)
    clocks.tick(13 * HOUR_S)
    assert await count_admitted(quota, 5) == 2
    (await enter(quota, resumes="of yesterday, too")).leave(ran=False)
    assert await count_admitted(quota, 5) == 0
    clocks.tick(899.999)
    (await enter(quota, resumes="perhaps of yesterday")).leave(ran=False)
    assert await count_admitted(quota, 5) == 0
    clocks.tick(0.001)  # nobody can have been asked before midnight
    (await enter(quota, resumes="of today")).leave(ran=False)
    assert await count_admitted(quota, 5) == 1


async def test_what_was_taken_yesterday_is_not_given_back_today(make, clocks):
    quota = make(Limit(daily=2))
    slot = await enter(quota)
    clocks.tick(13 * HOUR_S)
    assert await count_admitted(quota, 5) == 2
    slot.leave(ran=False)
    assert await count_admitted(quota, 5) == 0


async def test_a_rate_is_not_given_back(make):
    quota = make(Limit(rate="1/h", daily=5))
    (await enter(quota)).leave(ran=False)
    assert (await refused(quota)).details["kind"] == "rate"


async def test_a_spent_budget_takes_nothing_of_the_rate(make, clocks):
    quota = make(Limit(rate="2/min", per="all"), Limit(daily=1))
    await enter(quota, ANA)
    error = await refused(quota, ANA)
    assert error.details["kind"] == "budget"
    await enter(quota, BEN)
    assert (await refused(quota, BEN)).details["kind"] == "budget"  # as that takes longer


async def test_a_rate_that_takes_longer_than_the_night_is_told_instead(make, clocks):
    quota = make(Limit(rate="1/24h"), Limit(daily=1))
    await enter(quota)
    error = await refused(quota)
    assert (error.details["kind"], error.details["retryAfterS"]) == ("rate", 86_400.0)


# --- the day itself ---


def turned(day: BudgetDay, now_s: float, wall_s: float) -> bool:
    return day.turn(round(now_s * 1e9), wall_s)


def test_the_first_look_begins_a_day():
    day = BudgetDay()
    assert turned(day, 5, NOON_S)
    assert (day.number, day.began_ns, day.serial) == (20_000, 5_000_000_000, 1)
    assert not turned(day, 6, NOON_S + 1)
    assert (day.number, day.began_ns, day.serial) == (20_000, 5_000_000_000, 1)


def test_midnight_begins_a_day_exactly():
    day = BudgetDay(20_000, 0, 1)
    assert not turned(day, 1, 20_001 * DAY_S - 0.001)
    assert turned(day, 2, 20_001 * DAY_S)
    assert (day.number, day.began_ns, day.serial) == (20_001, 2_000_000_000, 2)


@pytest.mark.parametrize("back_s", [1, 60, HOUR_S, 23 * HOUR_S])
def test_a_wall_that_is_set_back_over_midnight_begins_no_day_twice(back_s):
    day = BudgetDay(20_000, 0, 1)
    wall_s = 20_001 * DAY_S + 1.0
    assert turned(day, 0, wall_s)
    for now_s in range(0, DAY_S + back_s - 1, 600):
        assert not turned(day, now_s, wall_s - back_s + now_s)
    assert turned(day, DAY_S + back_s, wall_s + DAY_S)
    assert day.serial == 3


def test_a_wall_that_was_a_year_ahead_freezes_the_budget_for_a_day_at_most():
    day = BudgetDay(20_000, 0, 1)
    assert turned(day, 100, (20_000 + 365) * DAY_S)
    assert not turned(day, 200, NOON_S)
    assert day.left_ns(200 * 10**9, NOON_S) == DAY_NS - 100 * 10**9
    assert not turned(day, 100 + DAY_S - 1, NOON_S + DAY_S)
    assert turned(day, 100 + DAY_S, NOON_S + DAY_S)
    assert (day.number, day.serial) == (20_001, 3)
    assert turned(day, 100 + DAY_S + DAY_S / 2, 20_002 * DAY_S)  # midnight counts again


def test_a_wall_that_is_two_days_back_waits_for_the_other_clock_and_one_day_back_does_not():
    day = BudgetDay(20_000, 0, 1)
    assert not turned(day, 2 * DAY_S, 19_999 * DAY_S)
    assert turned(day, 2 * DAY_S, 19_999 * DAY_S - 1)


@pytest.mark.parametrize(
    ("wall_s", "left_s"),
    [(NOON_S, DAY_S / 2), (20_000 * DAY_S - 10.0, DAY_S + 10), (19_999 * DAY_S - 1.0, DAY_S - 7)],
)
def test_how_long_it_is_until_the_next_day(wall_s, left_s):
    assert BudgetDay(20_000, 0, 1).left_ns(7 * 10**9, wall_s) == left_s * 10**9


async def test_each_of_several_budgets_counts(make):
    quota = make(Limit(daily=5, name="large"), Limit(daily=2, name="small"))
    assert await count_admitted(quota, 10) == 2
    assert (await refused(quota)).details["limit"] == "small"


async def test_of_budgets_with_the_same_wait_the_first_is_told(make):
    quota = make(Limit(daily=1, name="first"), Limit(daily=1, per="all", name="second"))
    await enter(quota)
    assert (await refused(quota)).details["limit"] == "first"
