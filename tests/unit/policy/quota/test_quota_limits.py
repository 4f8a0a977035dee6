"""The limits of a caller and a tool, errors in limits, sizes."""

from __future__ import annotations

import pytest

from tests.unit.policy.quota.counted_quota import ANA, BEN, OTHER, REPORT, tool
from toolcrib import MCPServer
from toolcrib.component import Tool
from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Limit, Policy
from toolcrib.policy.quota import CallLimits, CompiledLimit, Quota, format_wait


def is_limited(quota: Quota, who: Principal, what: Tool = REPORT) -> bool:
    return quota.find(who, what) is not None


def test_a_limit_concerns_its_tools_and_its_callers():
    limit = Limit(tools=["rep*"], who=["role:staff", "key:b*"], timeout_s=1)
    made = Quota(Policy(limits=[limit], roles={"staff": ["key:ana"]}))
    assert is_limited(made, ANA)
    assert is_limited(made, BEN)
    assert not is_limited(made, ANA, OTHER)
    assert not is_limited(made, Principal("key:eve"))
    assert is_limited(made, Principal("key:eve", roles=frozenset({"staff"})))


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


@pytest.mark.parametrize(
    ("limit", "key"),
    [
        (Limit(tools=["re:("], timeout_s=1), "limits[2].tools"),
        (Limit(who=["role:nobody"], timeout_s=1), "limits[2].who"),
    ],
)
def test_a_selector_that_cannot_be_read_is_named(limit, key):
    with pytest.raises(ConfigurationError) as caught:
        Quota(Policy(limits=[Limit(timeout_s=1), limit]))
    assert caught.value.key == key


async def test_arguments_that_are_too_large_are_refused_before_anything_is_counted():
    limits = [
        Limit(max_arguments_bytes=2000, name="loose"),
        Limit(max_arguments_bytes=1000, name="tight"),
        Limit(rate="1/h"),
    ]
    server = MCPServer("sizes", policy=Policy(limits=limits))

    @server.tool
    async def report(text: str) -> str:
        """Report."""
        return "done"

    refused = await server.call("report", {"text": "x" * 990})
    assert (
        refused.text == "The arguments of 'report' are too large: 1001 bytes, and at most 1000 are allowed."
    )
    assert refused.error.details == {"limit": "tight", "kind": "size", "maxBytes": 1000}
    assert (await server.call("report", {"text": "x" * 989})).text == "done"
    assert (await server.call("report", {"text": ""})).error.details["kind"] == "rate"


def test_the_smallest_of_several_limits_applies():
    policy = Policy(limits=[])
    given = [
        Limit(timeout_s=5, max_result_bytes=100),
        Limit(timeout_s=3, max_result_bytes=200),
        Limit(max_arguments_bytes=9),
    ]
    limits = CallLimits([CompiledLimit(policy, n, limit) for n, limit in enumerate(given)], ANA, REPORT)
    assert (limits.timeout_s, limits.max_result_bytes, limits.max_arguments_bytes) == (3, 100, 9)
    assert (limits.counted.each, limits.is_held) == ((), False)


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


def test_a_rate_is_part_of_its_key():
    limit = CompiledLimit(Policy(limits=[]), 1, Limit(rate="7/min", burst=3))
    (counted,) = CallLimits([limit], ANA, REPORT).counted.each
    assert counted == ("rate", "7 in 60 s|1:|principal=key:ana", 7, 60_000, 3)
