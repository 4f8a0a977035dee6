"""Whatever happens to the wall clock, rates do not notice and a budget is
given once a day; a jump of the clock that nobody sets refills, and does no more.
"""

from __future__ import annotations

import random

import pytest

from tests.state.conftest import (
    Machine,
    admit,
    budget_of,
    count_admitted,
    limits_of,
    rate_of,
    refuse,
    slots_of,
)
from toolcrib.state.base import Counters
from toolcrib.state.rate_limit import DAY_S

pytestmark = [pytest.mark.row("G6"), pytest.mark.usefixtures("noon")]

YEAR_S = 365 * DAY_S
WALL_JUMPS_S = [YEAR_S, -YEAR_S, -1, -60, -3600, 3600, DAY_S, -DAY_S]


@pytest.mark.parametrize("jump_s", WALL_JUMPS_S)
async def test_g6_rates_and_waits_do_not_notice_the_wall(
    engine: Machine, counters: Counters, jump_s: float
) -> None:
    limits = limits_of(rate_of(60, 60, burst=5))
    assert await count_admitted(counters, limits, 9) == 5
    engine.wall.at_s += jump_s
    assert await count_admitted(counters, limits, 9) == 0
    assert (await refuse(counters, limits)).retry_ms == 1000 * 1.0
    engine.pass_s(2)
    engine.wall.at_s -= jump_s
    assert await count_admitted(counters, limits, 9) == 2


async def test_g6_a_jump_of_27_hours_refills_and_no_more(engine: Machine, counters: Counters) -> None:
    limits = limits_of(rate_of(60, 60, burst=5), slots_of(2), budget_of(11))
    running = await admit(counters, limits)
    assert await count_admitted(counters, limits, 9) == 4
    engine.uptime.at_s += 27 * 3600  # and the wall stands still
    assert await count_admitted(counters, limits, 9) == 5
    assert await count_admitted(counters, limits, 9) == 0
    await_one = await count_admitted(counters, limits, 1)
    assert await_one == 0
    engine.uptime.at_s += 1
    assert await count_admitted(counters, limits, 9) == 1  # the eleventh of this day, which has not ended
    engine.uptime.at_s += 60
    assert (await refuse(counters, limits)).limit == budget_of(11)
    counters.release(running, ran=True)


@pytest.mark.parametrize("back_s", [1, 59, 60, 600, 3599, 3600])
async def test_g6_a_wall_that_is_set_back_after_midnight_gives_no_second_budget(
    engine: Machine, counters: Counters, back_s: int
) -> None:
    limits = limits_of(budget_of(3))
    assert await count_admitted(counters, limits, 9) == 3
    engine.pass_s(DAY_S / 2)  # midnight
    assert await count_admitted(counters, limits, 9) == 3
    engine.wall.at_s -= back_s
    assert await count_admitted(counters, limits, 9) == 0
    assert (await refuse(counters, limits)).retry_ms == 1000 * float(DAY_S + back_s)
    engine.pass_s(back_s)  # midnight again
    assert await count_admitted(counters, limits, 9) == 0
    engine.pass_s(DAY_S)
    assert await count_admitted(counters, limits, 9) == 3


async def test_g6_a_wall_a_year_ahead_for_a_while_gives_one_budget_more_and_freezes_none(
    engine: Machine, counters: Counters
) -> None:
    limits = limits_of(budget_of(3))
    assert await count_admitted(counters, limits, 9) == 3
    engine.wall.at_s += YEAR_S
    assert await count_admitted(counters, limits, 9) == 3
    for _ in range(50):  # to and fro
        engine.wall.at_s -= YEAR_S
        assert await count_admitted(counters, limits, 2) == 0
        engine.wall.at_s += YEAR_S
        assert await count_admitted(counters, limits, 2) == 0
    engine.wall.at_s -= YEAR_S
    assert (await refuse(counters, limits)).retry_ms == 1000 * float(DAY_S)
    engine.pass_s(DAY_S)
    assert await count_admitted(counters, limits, 9) == 3
    engine.pass_s(DAY_S / 2)  # midnight, as before
    assert await count_admitted(counters, limits, 9) == 3


async def test_g6_a_wall_a_year_behind_does_not_begin_a_day_before_its_time(
    engine: Machine, counters: Counters
) -> None:
    limits = limits_of(budget_of(3))
    assert await count_admitted(counters, limits, 9) == 3
    engine.wall.at_s -= YEAR_S
    engine.pass_s(DAY_S - 1)
    assert await count_admitted(counters, limits, 9) == 0
    engine.pass_s(1)
    assert await count_admitted(counters, limits, 9) == 3


async def test_g6_neither_summer_time_nor_a_leap_second_is_a_day(
    engine: Machine, counters: Counters, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = limits_of(budget_of(1))
    monkeypatch.setenv("TZ", "Europe/Berlin")
    begun = 0
    for hour in range(24 * 4):  # four days in local time that has 23 hours in one of them
        begun += await count_admitted(counters, limits, 2)
        engine.pass_s(3600)
        if hour == 40:
            engine.wall.at_s -= 1  # the leap second, as most systems count it: the same second twice
    assert begun == 5  # noon to noon four times: five days by their dates
    assert engine.wall.at_s % DAY_S == DAY_S / 2 - 1


async def test_g6_random_jumps_never_give_more_than_the_clock_that_nobody_sets_allows(
    engine: Machine, counters: Counters
) -> None:
    """Small jumps, as clocks are set: at most one budget for each date and one for the first."""
    seeded = random.Random(20_261_116)
    limits = limits_of(budget_of(2), rate_of(10, 60, burst=3))
    admitted = jumped_s = passed_s = 0.0
    for _ in range(150):
        admitted += await count_admitted(counters, limits, 4)
        step_s, jump_s = seeded.uniform(0, 7200), seeded.choice([0, 0, -1, 1, -3600, 3600])
        engine.pass_s(step_s)
        engine.wall.at_s += jump_s
        passed_s += step_s
        jumped_s = max(jumped_s, abs(jump_s) + jumped_s * (jump_s != 0))
    days = (passed_s + jumped_s) / DAY_S + 2
    assert 2 * (passed_s // DAY_S - 1) <= admitted <= 2 * days
