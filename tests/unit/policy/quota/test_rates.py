"""Rate limits are exact."""

from __future__ import annotations

import pytest

from tests.unit.policy.quota.machines import ANA, BEN, OTHER, count_admitted, enter, refused, tool
from toolcrib.context import Principal
from toolcrib.policy import Limit


async def test_as_many_as_the_rate_counts_come_at_once_and_then_one_each_step(make, clocks):
    quota = make(Limit(rate="60/min"))
    assert await count_admitted(quota, 100) == 60
    clocks.tick(0.999999999)
    assert await count_admitted(quota, 5) == 0
    clocks.tick(0.000000001)
    assert await count_admitted(quota, 5) == 1
    clocks.tick(30)
    assert await count_admitted(quota, 100) == 30


@pytest.mark.parametrize(("burst", "admitted"), [(1, 1), (5, 5), (90, 90)])
async def test_a_burst_of_its_own_is_let_in_first(make, clocks, burst, admitted):
    quota = make(Limit(rate="60/min", burst=burst))
    assert await count_admitted(quota, 100) == admitted
    clocks.tick(1)
    assert await count_admitted(quota, 100) == 1


async def test_time_that_passes_unused_is_saved_up_to_the_burst_only(make, clocks):
    quota = make(Limit(rate="60/min", burst=3))
    clocks.tick(86_400)
    assert await count_admitted(quota, 10) == 3
    clocks.tick(86_400)
    assert await count_admitted(quota, 10) == 3


async def test_a_step_that_is_no_whole_number_of_nanoseconds_does_not_drift(make, clocks):
    quota = make(Limit(rate="7/min", burst=1))
    admitted = 0
    for _ in range(600):  # ten minutes
        clocks.now_s = round(clocks.now_s + 1, 3)
        admitted += await count_admitted(quota, 1)
    # Asked at whole seconds, a step of 8.57 s is found over after 9; so 7 in 63 s.
    assert admitted == 67
    clocks.tick(60)
    clocks.now_s = 10_000.0
    assert await count_admitted(quota, 1) == 1
    error = await refused(quota)
    assert error.details["retryAfterS"] == 8.572
    clocks.now_s = 10_000 + 60 / 7 - 2e-9
    assert await count_admitted(quota, 1) == 0
    clocks.now_s = 10_000 + 60 / 7 + 2e-9
    assert await count_admitted(quota, 1) == 1


async def test_a_refused_call_costs_nothing(make, clocks):
    quota = make(Limit(rate="1/10s"))
    await enter(quota)
    for _ in range(50):
        await refused(quota)
    clocks.tick(10)
    await enter(quota)


async def test_the_refusal_says_when_to_try_again_and_then_it_works(make, clocks):
    quota = make(Limit(rate="20/min", burst=1, name="gently"))
    await enter(quota)
    clocks.tick(0.0004)
    error = await refused(quota)
    assert str(error) == "Too many calls of 'report': try again in 3 s."
    assert error.details == {"limit": "gently", "kind": "rate", "retryAfterS": 3.0}
    assert error.code == "throttled"
    clocks.tick(error.details["retryAfterS"])
    await enter(quota)


async def test_the_wait_is_rounded_up_to_a_millisecond(make, clocks):
    quota = make(Limit(rate="1/s"))
    await enter(quota)
    clocks.tick(0.7505)
    assert (await refused(quota)).details["retryAfterS"] == 0.25
    clocks.tick(0.249)
    assert (await refused(quota)).details["retryAfterS"] == 0.001


async def test_all_limits_admit_a_call_or_none_is_charged(make, clocks):
    quota = make(Limit(rate="1/s", name="short"), Limit(rate="3/min", per="all", name="long"))
    await enter(quota)
    for _ in range(5):
        assert (await refused(quota)).details["limit"] == "short"
    assert await count_admitted(quota, 5, BEN) == 1
    assert await count_admitted(quota, 5, Principal("key:eve")) == 1
    assert (await refused(quota, Principal("key:joe"))).details["limit"] == "long"
    clocks.tick(20)
    await enter(quota, Principal("key:joe"))  # the refusal before took nothing of his own count


async def test_of_several_refusals_the_longest_wait_is_told(make):
    quota = make(Limit(rate="1/s", name="short"), Limit(rate="1/min", name="long"))
    await enter(quota)
    error = await refused(quota)
    assert (error.details["limit"], error.details["retryAfterS"]) == ("long", 60.0)
    quota = make(Limit(rate="1/min", name="long"), Limit(rate="1/s", name="short"))
    await enter(quota, BEN)
    assert (await refused(quota, BEN)).details["limit"] == "long"


async def test_of_refusals_with_the_same_wait_the_first_is_told(make):
    quota = make(Limit(rate="1/s", name="first"), Limit(rate="1/s", per="all", name="second"))
    await enter(quota)
    assert (await refused(quota)).details["limit"] == "first"


async def test_a_rate_per_all_is_shared_by_everybody(make):
    quota = make(Limit(rate="3/h", per="all"))
    assert await count_admitted(quota, 2, ANA) == 2
    assert await count_admitted(quota, 9, BEN, OTHER) == 1


async def test_a_rate_per_principal_goes_by_the_name_whatever_the_token(make):
    quota = make(Limit(rate="3/h"))
    tokens = [
        Principal("oauth:ana", scopes=frozenset({f"s{n}"}), roles=frozenset({f"r{n}"}), binding=f"client {n}")
        for n in range(5)
    ]
    assert [await count_admitted(quota, 1, token) for token in tokens] == [1, 1, 1, 0, 0]
    assert await count_admitted(quota, 1, Principal("oauth:ben")) == 1


async def test_a_rate_per_tool_is_shared_by_its_versions_and_cases(make):
    quota = make(Limit(rate="3/h", per="tool"))
    tools = [tool("Echo"), tool("echo", version="2"), tool("ECHO", aliases=["say"]), tool("echo")]
    assert [await count_admitted(quota, 1, ANA, each) for each in tools] == [1, 1, 1, 0]
    assert await count_admitted(quota, 1, BEN, tools[0]) == 0
    assert await count_admitted(quota, 1, ANA, OTHER) == 1


async def test_a_rate_per_tag_counts_each_tag_and_all_must_admit(make):
    quota = make(Limit(rate="2/h", per="tag"))
    both, left, right = (
        tool("both", tags=["a", "b"]),
        tool("left", tags=["a"]),
        tool("right", tags=["b", "b"]),
    )
    assert await count_admitted(quota, 1, ANA, both) == 1
    assert await count_admitted(quota, 5, ANA, left) == 1
    assert await count_admitted(quota, 5, ANA, both) == 0
    assert await count_admitted(quota, 5, ANA, right) == 1


async def test_tools_without_a_tag_share_a_count_of_their_own(make):
    quota = make(Limit(rate="2/h", per="tag"))
    assert await count_admitted(quota, 1, ANA, tool("one")) == 1
    assert await count_admitted(quota, 5, ANA, tool("two")) == 1
    assert await count_admitted(quota, 5, ANA, tool("three", tags=["t"])) == 2


async def test_counts_can_be_kept_per_caller_and_tool(make):
    quota = make(Limit(rate="1/h", per="principal+tool"))
    pairs = [(who, what) for who in (ANA, BEN) for what in (OTHER, tool("x"))]
    assert [await count_admitted(quota, 3, *pair) for pair in pairs] == [1, 1, 1, 1]


async def test_names_that_contain_the_marks_of_keys_do_not_collide(make):
    quota = make(Limit(rate="1/h", per="principal+tag"))
    first = await count_admitted(quota, 1, Principal("a|tag=b"), tool("x", tags=["c"]))
    second = await count_admitted(quota, 1, Principal("a"), tool("y", tags=["b|tag=c"]))
    third = await count_admitted(quota, 1, Principal("a%7Ctag=b"), tool("z", tags=["c"]))
    assert (first, second, third) == (1, 1, 1)


async def test_two_limits_of_one_name_count_apart(make):
    quota = make(Limit(rate="2/h", name="n", tools=["report"]), Limit(rate="2/h", name="n", tools=["other"]))
    assert await count_admitted(quota, 5) == 2
    assert await count_admitted(quota, 5, ANA, OTHER) == 2


@pytest.mark.parametrize(("count", "step_s"), [(2, 30.0), (7, 8.572)])
async def test_a_clock_that_begins_anew_costs_one_burst_at_most(make, clocks, count, step_s):
    quota = make(Limit(rate=f"{count}/min"))
    assert await count_admitted(quota, 10) == count
    clocks.now_s = 5.0
    for _ in range(2):
        assert (await refused(quota)).details["retryAfterS"] == step_s
    clocks.tick(step_s)
    assert await count_admitted(quota, 10) == 1
    clocks.tick(60)
    assert await count_admitted(quota, 10) == count
