"""Which limit applies to whom, errors in limits, and the texts of refusals."""

from __future__ import annotations

import pytest

from tests.unit.policy.quota.machines import (
    ANA,
    BEN,
    OTHER,
    REPORT,
    Clocks,
    enter,
    quota_of,
    refused,
    tool,
    unasked,
)
from toolcrib.component import Tool
from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Limit, Policy
from toolcrib.policy.quota import Quota, quota
from toolcrib.policy.quota.limits import CallLimits, CompiledLimit, format_wait


def is_limited(quota: Quota, who: Principal, what: Tool = REPORT) -> bool:
    return quota.enter(who, what, unasked) is not None


def test_a_limit_concerns_its_tools_and_its_callers():
    made = quota_of(
        Clocks(),
        Limit(tools=["rep*"], who=["role:staff", "key:b*"], timeout_s=1),
        roles={"staff": ["key:ana"]},
    )
    assert is_limited(made, ANA)
    assert is_limited(made, BEN)
    assert is_limited(made, BEN)
    assert not is_limited(made, ANA, OTHER)
    assert not is_limited(made, Principal("key:eve"))
    assert is_limited(made, Principal("key:eve", roles=frozenset({"staff"})))


async def test_without_limits_nobody_is_concerned():
    made = quota_of(Clocks())
    assert not is_limited(made, ANA)
    await made.open()
    await made.close()


def test_what_is_known_of_pairs_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(quota, "MAX_CACHED", 3)
    made = quota_of(Clocks(), Limit(who=["key:1*"], timeout_s=1))
    assert [is_limited(made, Principal(f"key:{n}")) for n in range(20)].count(True) == 11
    assert len(made._cache) <= 3


def test_limits_whose_selectors_mean_no_tool_are_told():
    lines = {"limits[2]": 14}
    policy = Policy(
        limits=[
            Limit(timeout_s=1),
            Limit(tools=["report", "rapport", "tag:none"], timeout_s=1),
            Limit(tools=["other"], timeout_s=1),
        ],
        file="toolcrib.toml",
        lines=lines,
    )
    made = Quota(policy)
    assert is_limited(made, ANA)
    errors = made.check([REPORT])
    assert [str(error) for error in errors] == [
        "toolcrib.toml:14: limits[2].tools: 'rapport' matches no tool",
        "toolcrib.toml:14: limits[2].tools: 'tag:none' matches no tool",
        "toolcrib.toml: limits[3].tools: 'other' matches no tool",
    ]
    assert errors[0].hint == "did you mean 'report'?"
    assert made.check([REPORT, OTHER, tool("rapport", tags=["none"])]) == []
    assert made.check([])[0].key == "limits[2].tools"
    assert made._cache == {}  # tools that are gone are let go


@pytest.mark.parametrize(
    ("limit", "key"),
    [
        (Limit(tools=["re:("], timeout_s=1), "limits[2].tools"),
        (Limit(who=["role:nobody"], timeout_s=1), "limits[2].who"),
    ],
)
def test_a_selector_that_cannot_be_read_is_named(limit, key):
    with pytest.raises(ConfigurationError) as caught:
        quota_of(Clocks(), Limit(timeout_s=1), limit)
    assert caught.value.key == key


async def test_arguments_that_are_too_large_are_refused_before_anything_is_counted():
    made = quota_of(
        Clocks(),
        Limit(max_arguments_bytes=2000, name="loose"),
        Limit(max_arguments_bytes=1000, name="tight"),
        Limit(rate="1/h"),
    )
    error = await refused(made, size=lambda: 1001)
    assert str(error) == "The arguments of 'report' are too large: 1001 bytes, and at most 1000 are allowed."
    assert error.details == {"limit": "tight", "kind": "size", "maxBytes": 1000}
    await enter(made, size=lambda: 1000)


async def test_the_size_is_asked_for_only_where_a_limit_needs_it():
    await enter(quota_of(Clocks(), Limit(rate="9/s", concurrency=5, daily=5, max_result_bytes=5)))
    with pytest.raises(AssertionError):
        await enter(quota_of(Clocks(), Limit(max_arguments_bytes=5)))


@pytest.mark.parametrize(
    ("wait_s", "words"),
    [
        (0.001, "0.001 s"),
        (3.0, "3 s"),
        (9.999, "9.999 s"),
        (10.001, "11 s"),
        (119.0, "119 s"),
        (119.001, "2 min"),
        (7140.0, "119 min"),
        (7140.5, "2 h"),
        (18_780.0, "5 h 13 min"),
        (18_781.0, "5 h 14 min"),
    ],
)
def test_a_wait_is_said_in_words_that_are_never_too_short(wait_s, words):
    assert format_wait(wait_s) == words


def test_the_share_of_one_process_is_a_tenth_and_at_least_one():
    policy = Policy(limits=[])
    wide = Limit(rate="600/min", burst=50, concurrency=40, daily=1000, timeout_s=3, queue=7, queue_s=2)
    narrow = Limit(rate="5/min", concurrency=5, daily=5)
    limits = CallLimits([CompiledLimit(policy, 1, wide), CompiledLimit(policy, 2, narrow)], ANA, REPORT)
    local = limits.local
    assert limits.local is local
    assert [(need.pace.step, need.pace.tolerance, need.pace.scale) for need in limits.rates] == [
        (100_000_000, 4_900_000_000, 1),
        (12_000_000_000, 48_000_000_000, 1),
    ]
    assert [(need.pace.step, need.pace.tolerance, need.pace.scale) for need in local.rates] == [
        (1_000_000_000, 4_000_000_000, 1),
        (120_000_000_000, 0, 1),
    ]
    assert [need.maximum for need in local.budgets] == [100, 1]
    slots = local.concurrency
    assert [(need.maximum, need.queue, need.queue_s) for need in slots] == [
        (4, 7, 2),
        (1, 0, 10.0),
    ]
    assert local.timeout_s == 3


def test_a_rate_is_counted_in_the_largest_parts_that_are_exact():
    term = CompiledLimit(Policy(limits=[]), 1, Limit(rate="7/min"))
    (need,) = CallLimits([term], ANA, REPORT).rates
    assert (need.pace.scale, need.pace.step, need.pace.tolerance) == (7, 60_000_000_000, 360_000_000_000)
    assert need.key == "rate 7 in 60 s|1:|principal=key:ana"
