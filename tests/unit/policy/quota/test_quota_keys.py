"""Calls that share a count, and the texts of refusals."""

from __future__ import annotations

import pytest

from tests.support.system.virtual_loop import Clocks
from tests.unit.policy.quota.counted_quota import ANA, BEN, OTHER, CountedQuota, tool
from toolcrib.context import Principal
from toolcrib.policy import Limit


def test_a_rate_per_all_is_shared_by_everybody() -> None:
    quota = CountedQuota(Limit(rate="3/h", per="all"))
    assert quota.count_admitted(2, ANA) == 2
    assert quota.count_admitted(9, BEN, OTHER) == 1


def test_a_rate_per_principal_goes_by_the_name_whatever_the_token() -> None:
    quota = CountedQuota(Limit(rate="3/h"))
    tokens = [
        Principal("oauth:ana", scopes=frozenset({f"s{n}"}), roles=frozenset({f"r{n}"}), binding=f"client {n}")
        for n in range(5)
    ]
    assert [quota.count_admitted(1, token) for token in tokens] == [1, 1, 1, 0, 0]
    assert quota.count_admitted(1, Principal("oauth:ben")) == 1


def test_a_rate_per_tool_is_shared_by_its_versions_and_cases() -> None:
    quota = CountedQuota(Limit(rate="3/h", per="tool"))
    tools = [tool("Echo"), tool("echo", version="2"), tool("ECHO", aliases=["say"]), tool("echo")]
    assert [quota.count_admitted(1, ANA, each) for each in tools] == [1, 1, 1, 0]
    assert quota.count_admitted(1, BEN, tools[0]) == 0
    assert quota.count_admitted(1, ANA, OTHER) == 1


def test_a_rate_per_tag_counts_each_tag_and_all_must_admit() -> None:
    quota = CountedQuota(Limit(rate="2/h", per="tag"))
    both, left, right = tool(tags=["a", "b"]), tool("left", tags=["a"]), tool("right", tags=["b", "b"])
    assert quota.count_admitted(1, ANA, both) == 1
    assert quota.count_admitted(5, ANA, left) == 1
    assert quota.count_admitted(5, ANA, both) == 0
    assert quota.count_admitted(5, ANA, right) == 1


def test_slots_are_counted_per_tag_too() -> None:
    quota = CountedQuota(Limit(concurrency=1, per="tag"))
    quota.enter(ANA, tool("x", tags=["a", "b"]))
    assert quota.refusal(ANA, tool("y", tags=["b"])).details["kind"] == "concurrency"
    quota.enter(ANA, tool("z", tags=["c"]))


def test_tools_without_a_tag_share_a_count() -> None:
    quota = CountedQuota(Limit(rate="2/h", per="tag"))
    assert quota.count_admitted(1, ANA, tool("one")) == 1
    assert quota.count_admitted(5, ANA, tool("two")) == 1
    assert quota.count_admitted(5, ANA, tool("three", tags=["t"])) == 2


def test_counts_can_be_kept_per_principal_and_tool() -> None:
    quota = CountedQuota(Limit(rate="1/h", per="principal+tool"))
    pairs = [(who, what) for who in (ANA, BEN) for what in (OTHER, tool("x"))]
    assert [quota.count_admitted(3, *pair) for pair in pairs] == [1, 1, 1, 1]


def test_names_that_contain_the_separators_of_keys_do_not_collide() -> None:
    quota = CountedQuota(Limit(rate="1/h", per="principal+tag"))
    first = quota.count_admitted(1, Principal("a|tag=b"), tool("x", tags=["c"]))
    second = quota.count_admitted(1, Principal("a"), tool("y", tags=["b|tag=c"]))
    third = quota.count_admitted(1, Principal("a%7Ctag=b"), tool("z", tags=["c"]))
    assert (first, second, third) == (1, 1, 1)


def test_two_limits_of_one_name_count_separately() -> None:
    quota = CountedQuota(
        Limit(rate="2/h", name="n", tools=["report"]), Limit(rate="2/h", name="n", tools=["other"])
    )
    assert quota.count_admitted(5) == 2
    assert quota.count_admitted(5, ANA, OTHER) == 2


@pytest.mark.parametrize(
    ("limit", "text", "kind", "retry_s"),
    [
        (Limit(rate="20/min", burst=1), "Too many calls of 'report': try again in 3 s.", "rate", 3.0),
        (
            Limit(daily=1),
            "The daily budget for calls of 'report' is used up: try again in 12 h.",
            "budget",
            43_200.0,
        ),
        (
            Limit(concurrency=1),
            "Too many calls of 'report' at once: try again in 1 s.",
            "concurrency",
            1.0,
        ),
    ],
)
def test_a_refusal_says_why_and_when_to_try_again(limit: Limit, text: str, kind: str, retry_s: float) -> None:
    quota = CountedQuota(Limit(timeout_s=5), limit)
    quota.enter()
    error = quota.refusal()
    assert str(error) == text
    assert error.details == {"limit": "limits[2]", "kind": kind, "retryAfterS": retry_s}
    assert error.code == "throttled"


def test_the_wait_is_rounded_up_to_a_millisecond() -> None:
    clocks = Clocks()
    quota = CountedQuota(Limit(rate="1/s", name="slow"), clocks=clocks)
    quota.enter()
    clocks.tick(0.7505)
    assert quota.refusal().details == {"limit": "slow", "kind": "rate", "retryAfterS": 0.25}
    clocks.tick(0.249)
    assert quota.refusal().details["retryAfterS"] == 0.001
