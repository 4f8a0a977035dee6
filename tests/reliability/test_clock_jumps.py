"""Whatever happens to the wall clock, rates do not notice and a budget is
given once a day; a jump of the clock that nobody sets refills, and does no more.
"""

from __future__ import annotations

import random

import pytest

from tests.unit.policy.quota.conftest import *  # noqa: F403 - the stores and their fixtures
from tests.unit.policy.quota.machines import Clocks, count_admitted, enter, refused
from toolcrib.config.settings import DAY_S
from toolcrib.policy import Limit

pytestmark = pytest.mark.row("G6")

YEAR_S = 365 * DAY_S
WALL_JUMPS_S = [YEAR_S, -YEAR_S, -1, -60, -3600, 3600, DAY_S, -DAY_S]


@pytest.mark.parametrize("jump_s", WALL_JUMPS_S)
async def test_g6_rates_and_waits_do_not_notice_the_wall(make, clocks: Clocks, jump_s: float) -> None:
    quota = make(Limit(rate="60/min", burst=5))
    assert await count_admitted(quota, 9) == 5
    clocks.wall_s += jump_s
    assert await count_admitted(quota, 9) == 0
    assert (await refused(quota)).details["retryAfterS"] == 1.0
    clocks.tick(2)
    clocks.wall_s -= jump_s
    assert await count_admitted(quota, 9) == 2


async def test_g6_a_jump_of_27_hours_refills_and_no_more(make, clocks: Clocks) -> None:
    quota = make(Limit(rate="60/min", burst=5, concurrency=2), Limit(daily=11))
    running = await enter(quota)
    assert await count_admitted(quota, 9) == 4
    clocks.now_s += 27 * 3600  # and the wall stands still
    assert await count_admitted(quota, 9) == 5
    assert await count_admitted(quota, 9) == 0
    await_one = await count_admitted(quota, 1)
    assert await_one == 0
    clocks.now_s += 1
    assert await count_admitted(quota, 9) == 1  # the eleventh of this day, which has not ended
    clocks.now_s += 60
    assert (await refused(quota)).details["kind"] == "budget"
    running.leave(ran=True)


@pytest.mark.parametrize("back_s", [1, 59, 60, 600, 3599, 3600])
async def test_g6_a_wall_that_is_set_back_after_midnight_gives_no_second_budget(
    make, clocks: Clocks, back_s: int
) -> None:
    quota = make(Limit(daily=3))
    assert await count_admitted(quota, 9) == 3
    clocks.tick(DAY_S / 2)  # midnight
    assert await count_admitted(quota, 9) == 3
    clocks.wall_s -= back_s
    assert await count_admitted(quota, 9) == 0
    assert (await refused(quota)).details["retryAfterS"] == float(DAY_S + back_s)
    clocks.tick(back_s)  # midnight again
    assert await count_admitted(quota, 9) == 0
    clocks.tick(DAY_S)
    assert await count_admitted(quota, 9) == 3


async def test_g6_a_wall_a_year_ahead_for_a_while_gives_one_budget_more_and_freezes_none(
    make, clocks: Clocks
) -> None:
    quota = make(Limit(daily=3))
    assert await count_admitted(quota, 9) == 3
    clocks.wall_s += YEAR_S
    assert await count_admitted(quota, 9) == 3
    for _ in range(50):  # to and fro
        clocks.wall_s -= YEAR_S
        assert await count_admitted(quota, 2) == 0
        clocks.wall_s += YEAR_S
        assert await count_admitted(quota, 2) == 0
    clocks.wall_s -= YEAR_S
    assert (await refused(quota)).details["retryAfterS"] == float(DAY_S)
    clocks.tick(DAY_S)
    assert await count_admitted(quota, 9) == 3
    clocks.tick(DAY_S / 2)  # midnight, as before
    assert await count_admitted(quota, 9) == 3


async def test_g6_a_wall_a_year_behind_does_not_begin_a_day_before_its_time(make, clocks: Clocks) -> None:
    quota = make(Limit(daily=3))
    assert await count_admitted(quota, 9) == 3
    clocks.wall_s -= YEAR_S
    clocks.tick(DAY_S - 1)
    assert await count_admitted(quota, 9) == 0
    clocks.tick(1)
    assert await count_admitted(quota, 9) == 3


async def test_g6_neither_summer_time_nor_a_leap_second_is_a_day(
    make, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota = make(Limit(daily=1))
    monkeypatch.setenv("TZ", "Europe/Berlin")
    begun = 0
    for hour in range(24 * 4):  # four days in local time that has 23 hours in one of them
        begun += await count_admitted(quota, 2)
        clocks.tick(3600)
        if hour == 40:
            clocks.wall_s -= 1  # the leap second, as most systems count it: the same second twice
    assert begun == 5  # noon to noon four times: five days by their dates
    assert clocks.wall_s % DAY_S == DAY_S / 2 - 1


async def test_g6_random_jumps_never_give_more_than_the_clock_that_nobody_sets_allows(
    make, clocks: Clocks
) -> None:
    """Small jumps, as clocks are set: at most one budget for each date and one for the first."""
    seeded = random.Random(20_261_116)
    quota = make(Limit(daily=2), Limit(rate="10/min", burst=3))
    admitted = jumped_s = passed_s = 0.0
    for _ in range(150):
        admitted += await count_admitted(quota, 4)
        step_s, jump_s = seeded.uniform(0, 7200), seeded.choice([0, 0, -1, 1, -3600, 3600])
        clocks.tick(step_s)
        clocks.wall_s += jump_s
        passed_s += step_s
        jumped_s = max(jumped_s, abs(jump_s) + jumped_s * (jump_s != 0))
    days = (passed_s + jumped_s) / DAY_S + 2
    assert 2 * (passed_s // DAY_S - 1) <= admitted <= 2 * days
