"""One verdict for what came and for what the tool gets: all of it, none of it, or nobody can say."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import AfterValidator

from toolcrib import Tool
from toolcrib.context import LOCAL
from toolcrib.policy import Policy, Rule
from toolcrib.policy.access import Access, Decision
from toolcrib.policy.access.conditions import ABSENT, ArgumentPath
from toolcrib.schema.received import Received


@dataclass
class Order:
    note: str = "none"
    code: InitVar[str] = "x"


class Row(TypedDict, total=False):
    note: Annotated[str, AfterValidator(str.strip)]


class Thing:
    """Not published as a default, and of no plain form."""


THING = Thing()


def sell(
    text: Annotated[str, AfterValidator(str.strip)] = "none",
    order: Order | None = None,
    orders: list[Order] | None = None,
    rows: list[Row] | None = None,
    odd: Annotated[str, AfterValidator(lambda _: Thing())] = "none",
    parts: Annotated[str, AfterValidator(lambda text: {"size": len(text)})] = "none",
    length: Annotated[str, AfterValidator(lambda text: len(text) or None)] = "none",
    nothing: int | None = None,
    amount: Any = THING,
) -> None:
    """Sell."""


SELL = Tool.from_function(sell)


def decide(effect: str, when: dict[str, Any]) -> Decision:
    return Access(Policy(rules=[Rule(**{effect: ["sell"]}, when=when)])).decide(LOCAL, SELL)


def counts(effect: str, when: dict[str, Any], arguments: dict[str, Any]) -> bool:
    """Whether a rule counts for a call."""
    check = SELL.arguments
    received = check.receive(arguments, check.convert(arguments))
    judged = decide(effect, when).judge(arguments, received)
    return judged.confirm is not None if effect == "confirm" else judged.is_allowed is (effect == "allow")


@pytest.mark.parametrize(
    ("when", "arguments", "verdict"),
    [
        ({"text": "a"}, {"text": "a"}, True),
        ({"text": "a"}, {"text": " a"}, None),
        ({"text": " a"}, {"text": " a"}, None),
        ({"text": "b"}, {"text": " a"}, False),
        ({"text": {"not": "a"}}, {"text": " a"}, None),
        ({"text": {"not": "b"}}, {"text": " a"}, True),
        ({"text": {"exists": True}}, {"text": " a"}, True),
        ({"text": {"exists": False}}, {"text": " a"}, False),
        ({"text": {"exists": True, "equals": "none"}}, {}, False),
        ({"text": {"exists": False, "equals": "none"}}, {}, True),
        # objects, of which some fields were filled in and some are gone
        ({"order.note": "none"}, {"order": {}}, True),
        ({"order.note": {"exists": False}}, {"order": {}}, True),
        ({"order.note": {"exists": True}}, {"order": {}}, False),
        ({"order.code": "x"}, {"order": {"code": "x"}}, None),
        ({"order.code": "y"}, {"order": {"code": "x"}}, None),
        ({"order.code": {"exists": True}}, {"order": {"code": "x"}}, True),
        ({"orders.note": ["a", "b"]}, {"orders": [{"note": "a"}, {"note": "b"}]}, True),
        ({"orders.note": "a"}, {"orders": [{"note": "a"}, {"note": "b"}]}, None),
        ({"orders.note": "a"}, {"orders": []}, False),
        ({"orders.note": {"not": "a"}}, {"orders": []}, None),
        ({"rows.note": "a"}, {"rows": [{}, {"note": " a"}]}, None),
        ({"rows.note": "b"}, {"rows": [{}, {"note": " a"}]}, False),
        # what has no plain form
        ({"odd": "a"}, {"odd": "a"}, None),
        ({"odd": "b"}, {"odd": "a"}, None),
        ({"odd": {"not": "b"}}, {"odd": "a"}, None),
        ({"odd.size": 1}, {"odd": "a"}, None),
        ({"odd": {"exists": True}}, {"odd": "a"}, True),
        # a text that becomes an object
        ({"parts.size": 1}, {"parts": "a"}, None),
        ({"parts.size": 2}, {"parts": "a"}, False),
        ({"parts": {"prefix": "a"}}, {"parts": "a"}, None),
        ({"parts": "a"}, {"parts": "a"}, None),
        ({"parts": "b"}, {"parts": "a"}, None),
        # a text that becomes a number, or nothing
        ({"length": 1}, {"length": "a"}, None),
        ({"length": 2}, {"length": "a"}, False),
        ({"length": "1"}, {"length": "a"}, None),
        ({"length": ["a", 1]}, {"length": "a"}, True),
        ({"length": {"not": [1, "b"]}}, {"length": "ab"}, True),
        ({"length": "b"}, {"length": ""}, False),
        # defaults that are not published
        ({"nothing": None}, {}, None),
        ({"nothing": 5}, {}, False),
        ({"amount": {"above": 5}}, {}, None),
        ({"amount": {"exists": False}}, {}, True),
    ],
)
def test_a_rule_that_allows_counts_where_it_is_certain_and_any_other_where_it_is_not(
    when: dict[str, Any], arguments: dict[str, Any], verdict: bool | None
) -> None:
    assert counts("allow", when, arguments) is (verdict is True)
    assert counts("deny", when, arguments) is (verdict is not False)
    assert counts("confirm", when, arguments) is (verdict is not False)


def test_anything_that_is_refused_as_it_came_is_refused_whatever_the_tool_gets() -> None:
    received = Received({"text": "a"}, {"text": "b"})
    assert not decide("allow", {"text": "a"}).judge({"text": "b"}, received).is_allowed
    assert not decide("deny", {"text": "b"}).judge({"text": "b"}, received).is_allowed
    assert decide("confirm", {"text": "b"}).judge({"text": "b"}, received).confirm is not None


def add(amount: int, note: str | None = None) -> None:
    """Add."""


@pytest.mark.parametrize(
    ("tool", "rule", "expected"),
    [
        (SELL, {"deny": ["*"], "when": {"text": "a"}}, True),
        (SELL, {"allow": ["*"], "when": {"order.note": "a"}}, True),
        (SELL, {"confirm": ["*"]}, True),
        (Tool.from_function(add), {"deny": ["*"], "when": {"amount": 1}}, False),
        (Tool.from_function(add), {"deny": ["*"], "when": {"note": "a"}}, True),
        (Tool.from_function(Thing, name="thing"), {"confirm": ["*"]}, False),
    ],
)
def test_arguments_are_converted_ahead_only_where_that_can_make_a_difference(
    tool: Tool, rule: dict[str, Any], expected: bool
) -> None:
    decision = Access(Policy(rules=[Rule(**rule)])).decide(LOCAL, tool)
    assert decision.rules.compares_received is expected


def test_a_condition_on_what_becomes_of_an_argument_can_hold() -> None:
    for effect, errors in (("deny", 0), ("confirm", 0), ("allow", 1)):
        access = Access(Policy(rules=[Rule(**{effect: ["sell"]}, when={"length": 1000})]))
        assert len(access.check([SELL])) == errors


def test_there_is_nothing_inside_of_a_value_that_is_not_an_object() -> None:
    reach = ArgumentPath("order.note", SELL)
    assert reach.find_received(Received({"order": "a"}, {})) == [ABSENT]
    assert reach.find_received(Received({"order": {"note": "a"}}, {})) == ["a"]
    assert ArgumentPath("text", SELL).find_received(Received({"text": ["a", "b"]}, {})) == ["a", "b"]


def weigh(values: list[float]) -> None:
    """Weigh."""


@pytest.mark.parametrize(
    ("sent", "made", "is_denied"),
    [
        ([1, 2], [1.0, 2.0], False),
        ([1, 2], [1.0, 7.0], True),
        ([1, 2], [1, 2, 7], True),
        ([1, 0], [1, False], True),
        ([1], ["a"], True),
    ],
)
def test_a_list_is_judged_again_where_the_tool_gets_another(
    sent: list[Any], made: list[Any], is_denied: bool
) -> None:
    rules = [Rule(deny=["weigh"], when={"values": {"above": 5}})]
    decision = Access(Policy(rules=rules)).decide(LOCAL, Tool.from_function(weigh))
    received = Received({"values": made}, {"values": sent})
    assert decision.judge({"values": sent}, received).is_allowed is not is_denied
