"""A tool is hidden only if it is proved that no arguments pass; else an example is looked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jsonschema_rs
import pytest

from toolcrib import Tool
from toolcrib.context import LOCAL
from toolcrib.policy import Policy, Rule
from toolcrib.policy.access import Access, Decision


def tool_with(properties: Mapping[str, Any], *required: str) -> Tool:
    async def run(arguments: dict[str, Any]) -> None: ...

    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Tool.from_handler(run, "run", "Run.", schema)


def decide(tool: Tool, *rules: Rule) -> Decision:
    return Access(Policy(rules=rules)).decide(LOCAL, tool)


def allow(**when: Any) -> Rule:
    return Rule(allow=["run"], when=when)


def deny(**when: Any) -> Rule:
    return Rule(deny=["run"], when=when)


TEXT = {"type": "string"}
NUMBER = {"type": "number"}
WHOLE = {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "rules", "passes"),
    [
        # numbers
        (NUMBER, [allow(x={"above": 5, "below": 6})], True),
        (WHOLE, [allow(x={"above": 5, "below": 6})], False),
        (WHOLE, [allow(x={"above": 5, "below": 7})], True),
        (WHOLE, [allow(x={"above": 5.5, "below": 6.5})], True),
        (NUMBER, [allow(x={"at_most": 5}), deny(x={"at_most": 5})], False),
        (NUMBER, [allow(x={"at_most": 5}), deny(x={"below": 5})], True),
        (NUMBER, [deny(x={"at_most": 5}), deny(x={"above": 5})], False),
        (NUMBER, [deny(x={"below": 5}), deny(x={"above": 5})], True),
        (NUMBER, [deny(x={"below": 5}), deny(x={"above": 5}), deny(x=5)], False),
        (NUMBER, [allow(x={"above": 1e308})], True),
        (NUMBER, [allow(x={"above": -1e-9, "below": 1e-9, "not": 0})], True),
        ({**NUMBER, "maximum": 10}, [allow(x={"above": 10})], False),
        ({**NUMBER, "exclusiveMaximum": 10}, [allow(x={"at_least": 10})], False),
        ({**NUMBER, "maximum": 10}, [allow(x={"at_least": 10})], True),
        ({**NUMBER, "minimum": 3, "maximum": 4}, [deny(x={"above": 3}), deny(x={"below": 3})], True),
        ({**WHOLE, "multipleOf": 10}, [allow(x={"above": 10, "below": 20})], False),
        ({**WHOLE, "multipleOf": 10}, [allow(x={"above": 13, "below": 27})], True),
        ({**WHOLE, "multipleOf": 10}, [allow(x={"above": 10**400})], True),
        ({**WHOLE, "multipleOf": 10}, [allow(x={"below": 10, "not": 0})], True),
        ({**WHOLE, "multipleOf": 10}, [allow(x={"above": 0, "not": [10, 20]})], True),
        # texts
        (TEXT, [allow(x="a"), deny(x="a")], False),
        (TEXT, [allow(x=["a", "b"]), deny(x="a")], True),
        (TEXT, [allow(x={"prefix": "ab"}), deny(x={"prefix": "ab"})], False),
        (TEXT, [allow(x={"prefix": "ab"}), deny(x={"prefix": "a"})], True),  # no proof: two texts
        (TEXT, [allow(x={"prefix": "a", "suffix": "b"})], True),
        (TEXT, [allow(x={"prefix": "ab", "suffix": "bc", "max_length": 3})], True),
        (TEXT, [allow(x={"prefix": "ab", "suffix": "bc", "max_length": 2})], True),  # no proof: they overlap
        (TEXT, [allow(x={"prefix": "ab", "suffix": "bc", "not": {"max_length": 9}})], True),
        (TEXT, [allow(x={"max_length": 0})], True),
        ({**TEXT, "minLength": 1}, [allow(x={"max_length": 0})], False),
        ({**TEXT, "minLength": 7}, [allow(x={"prefix": "a", "max_length": 7})], True),
        (TEXT, [deny(x={"not": {"prefix": "a"}}), deny(x={"prefix": "a"})], False),
        (TEXT, [allow(x={"glob": "a*b?c"})], True),
        (TEXT, [allow(x={"glob": "*"}), deny(x={"glob": "*"})], False),
        (TEXT, [allow(x={"glob": "a*"}), deny(x={"glob": "?*"})], True),  # two globs are no proof
        (TEXT, [allow(x={"glob": "*a*", "not": {"max_length": 3}, "max_length": 4})], True),
        (TEXT, [allow(x={"prefix": "b", "max_length": 0}), deny(x={"glob": "c*"})], False),
        (TEXT, [allow(x={"below_path": "/a", "not": "/a", "max_length": 3})], True),
        (TEXT, [deny(x={"glob": "*"})], False),
        (TEXT, [deny(x={"glob": "?*"})], True),
        (TEXT, [allow(x={"glob": "a*", "not": {"max_length": 9}})], True),
        (TEXT, [allow(x={"glob": "[!a]x[bc]"})], True),
        (TEXT, [allow(x={"below_path": "/a"}), deny(x={"below_path": "/a/b"})], True),
        (TEXT, [allow(x={"below_path": "/a", "not": "/a"})], True),
        (TEXT, [allow(x={"below_path": "/a", "not": {"max_length": 9}})], True),
        (TEXT, [allow(x={"below_path": "/a", "suffix": ".txt"})], True),
        (TEXT, [allow(x={"matches": "[0-9]{3}"})], True),
        (TEXT, [deny(x={"matches": ".*"})], True),  # a pattern is no proof either
        (TEXT, [allow(x={"max_length": 100_000}), deny(x={"max_length": 50_000})], True),
        # kinds
        ({"type": "boolean"}, [deny(x=True), deny(x=False)], False),
        ({"type": "boolean"}, [deny(x=True)], True),
        ({"type": "null"}, [deny(x=True)], True),
        ({"type": ["string", "integer"]}, [allow(x={"above": 3}), deny(x={"prefix": "a"})], False),
        ({"type": ["string", "integer"]}, [allow(x={"above": 3}), deny(x={"above": 5})], True),
        ({"enum": ["a", "b"]}, [deny(x=["a", "b"])], False),
        ({"enum": ["a", "b", 3]}, [deny(x=["a", "b"])], True),
        ({"const": "a"}, [deny(x={"not": "a"})], True),
        ({"const": "a"}, [deny(x="a")], False),
        ({}, [deny(x={"prefix": "a"})], True),
        ({"anyOf": [TEXT, WHOLE]}, [allow(x={"above": 3})], True),
        ({"type": "object"}, [deny(x={"exists": True})], False),
        ({"type": "object"}, [deny(x={"exists": False})], True),
        # no proof: the values tried are none that the schema takes
        ({**TEXT, "pattern": "^[A-Z]{3}$"}, [deny(x={"prefix": "a"})], True),
        ({**TEXT, "format": "date"}, [allow(x={"prefix": "2026"})], True),
        ({**NUMBER, "multipleOf": 0.3}, [allow(x={"above": 1, "below": 1.1})], False),
        # lists
        ({"type": "array", "items": TEXT}, [allow(x="a")], True),
        ({"type": "array", "items": TEXT}, [allow(x="a"), deny(x="a")], False),
        ({"type": "array", "items": TEXT}, [deny(x={"glob": "*"})], True),
        ({"type": "array", "items": TEXT, "minItems": 2}, [deny(x={"glob": "*"})], False),
        ({"type": "array", "items": TEXT, "minItems": 2}, [allow(x="a")], True),
        (
            {"type": "array", "items": TEXT, "minItems": 2, "uniqueItems": True},
            [deny(x={"glob": "*"})],
            False,
        ),
        ({"type": "array", "items": TEXT, "maxItems": 0}, [allow(x="a")], False),
        ({"type": "array", "items": TEXT, "maxItems": 0}, [deny(x="a")], True),
        ({"type": "array", "prefixItems": [TEXT], "minItems": 1}, [deny(x={"glob": "*"})], False),
        ({"type": "array"}, [allow(x="a")], True),
        ({"type": "array", "items": True}, [allow(x="a")], True),
        ({"type": "array", "items": False}, [allow(x="a")], False),
        # odd schemas
        (True, [allow(x="a")], True),
        ({"anyOf": [True, TEXT]}, [allow(x=3)], True),
        ({"anyOf": [False, TEXT]}, [allow(x=3)], False),
        ({"$ref": "#/properties/other"}, [allow(x=3)], True),
        ({**NUMBER, "multipleOf": 0.5}, [allow(x={"above": 10**400})], True),
    ],
)
def test_a_required_argument_can_pass_or_cannot(schema: Any, rules: list[Rule], passes: bool) -> None:
    decision = decide(tool_with({"x": schema, "other": TEXT}, "x"), *rules)
    assert decision.is_visible is passes


def test_without_an_engine_that_can_prove_it_a_tool_is_shown_and_its_calls_are_judged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(jsonschema_rs, "CanonicalSchema")
    decision = decide(tool_with({"x": WHOLE}, "x"), allow(x={"above": 5, "below": 6}))
    assert decision.is_visible
    assert not decision.judge({"x": 5}).is_allowed
    assert decide(tool_with({"y": WHOLE}, "y"), allow(y={"above": 5, "below": 6})).is_visible
    [record] = caplog.records
    assert "needs jsonschema-rs 0.52 or newer" in record.getMessage()


def test_a_tool_that_no_arguments_pass_is_denied_whatever_they_are() -> None:
    decision = decide(tool_with({"x": TEXT}, "x"), Rule(allow=["*"]), deny(x={"glob": "*"}))
    assert (decision.is_visible, decision.rule) == (False, "rule 2")
    assert not decision.judge({"x": "a"}).is_allowed
    decision = decide(tool_with({"x": WHOLE}, "x"), Rule(allow=["run"], when={"x": "a"}, because="never"))
    assert (not decision.is_visible, decision.rule, decision.judge({}).because) == (True, "rule 1", "never")


def test_the_rule_that_is_named_is_one_that_denies_something() -> None:
    tool = tool_with({"x": TEXT}, "x")
    idle = Rule(deny=["run"], when={"x": 3})
    decision = decide(tool, idle, Rule(deny=["run"], when={"x": {"glob": "*"}}, because="all of it"))
    assert (not decision.is_visible, decision.rule) == (True, "rule 2")
    assert decision.judge({"x": "a"}).because == "all of it"
    decision = decide(tool, idle, allow(x=4))
    assert (not decision.is_visible, decision.rule) == (True, "rule 2")


def test_an_argument_may_be_left_out_unless_it_is_required() -> None:
    assert decide(tool_with({"x": TEXT}), deny(x={"glob": "*"})).is_visible
    assert decide(tool_with({"x": TEXT}), deny(x={"exists": False})).is_visible
    default = tool_with({"x": {**TEXT, "default": "a"}})
    assert not decide(default, deny(x={"glob": "*"})).is_visible
    assert decide(default, allow(x={"exists": False})).is_visible


def test_conditions_on_several_arguments_are_met_together() -> None:
    tool = tool_with({"x": WHOLE, "y": WHOLE}, "x", "y")
    rules = [deny(x={"above": 5}), deny(y={"above": 5}), allow(x={"at_least": 5}, y={"at_least": 5})]
    decision = decide(tool, *rules)
    assert decision.is_visible
    assert not decide(tool, *rules, deny(x=5, y=5)).is_visible
    assert decide(tool, *rules[:2], deny(x=5, y=5)).is_visible


def test_a_rule_that_always_allows_leaves_only_the_denials() -> None:
    tool = tool_with({"x": WHOLE}, "x")
    assert decide(tool, Rule(allow=["*"]), allow(x=3), deny(x=3)).is_visible
    assert not decide(tool, allow(x=3), deny(x=3)).is_visible


@dataclass
class Order:
    number: int
    kind: Literal["new", "old"]
    amount: float = 5.0


def sell(order: Order) -> None: ...


def offer(order: Order | None = None) -> None: ...


def ship(orders: list[Order]) -> None: ...


def decide_about(function: Any, *rules: Rule) -> Decision:
    return decide(Tool.from_function(function, name="run"), *rules)


def test_paths_into_objects_are_built_and_left_out() -> None:
    every = {"order.kind": ["new", "old"]}
    assert not decide_about(sell, Rule(deny=["run"], when=every)).is_visible
    assert decide_about(sell, Rule(deny=["run"], when={"order.kind": "new"})).is_visible
    assert decide_about(offer, Rule(deny=["run"], when=every)).is_visible
    amount = {"order.amount": {"not": 5}}
    assert decide_about(sell, Rule(deny=["run"], when=amount)).is_visible
    five = Rule(deny=["run"], when={"order.amount": 5})
    assert decide_about(sell, five).is_visible


def test_an_object_that_may_be_something_else_need_not_have_what_the_object_has() -> None:
    order = {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}}, "required": ["kind"]}
    rules = [Rule(deny=["run"], when={"x.kind": ["a", "b"]})]
    assert not decide(tool_with({"x": order}, "x"), *rules).is_visible
    assert decide(tool_with({"x": {"anyOf": [order, TEXT]}}, "x"), *rules).is_visible
    order = {"type": "object", "properties": {"kind": {"enum": ["a", "b"], "default": "a"}}}
    assert not decide(tool_with({"x": order}, "x"), *rules).is_visible
    decision = decide(tool_with({"x": {"anyOf": [order, TEXT]}}, "x"), *rules)
    assert decision.is_visible
    assert decision.judge({"x": "a"}).is_allowed


def test_a_list_without_items_passes_what_every_item_would_not() -> None:
    every = Rule(deny=["run"], when={"orders.kind": ["new", "old"]})
    assert decide_about(ship, every).is_visible
    items = {"type": "object", "properties": {"kind": {"const": "new"}}, "required": ["kind"]}
    orders = {"type": "array", "items": items, "minItems": 1}
    tool = tool_with({"orders": orders}, "orders")
    assert not decide(tool, Rule(deny=["run"], when={"orders.kind": "new"})).is_visible


def test_arguments_side_by_side_in_one_object_do_not_hinder_each_other() -> None:
    rules = [
        Rule(allow=["run"], when={"order.kind": "new", "order.number": {"above": 3}}),
        Rule(deny=["run"], when={"order.number": {"above": 4}}),
    ]
    assert decide_about(sell, *rules).is_visible
    rules.append(Rule(deny=["run"], when={"order.kind": "new", "order.number": 4}))
    assert not decide_about(sell, *rules).is_visible


def test_one_path_may_lead_through_another() -> None:
    rules = [
        Rule(deny=["run"], when={"order": {"exists": True}}),
        Rule(deny=["run"], when={"order.number": {"exists": False}}),
    ]
    assert not decide_about(offer, *rules).is_visible
    inside = [Rule(allow=["run"], when={"order": {"exists": True}, "order.number": 7})]
    assert decide_about(offer, *inside).is_visible
    outside = [Rule(allow=["run"], when={"order.number": 7, "order": {"exists": True}})]
    assert decide_about(offer, *outside).is_visible


def test_what_is_certain_stays_so_whatever_else_is_denied() -> None:
    tool = tool_with({"n": WHOLE, "t": TEXT}, "n", "t")
    never = allow(n={"above": 0, "below": 0}, t={"prefix": "a"})
    assert not decide(tool, never).is_visible
    assert not decide(tool, never, deny(t={"glob": "a*"})).is_visible
    assert not decide(tool, never, deny(t={"matches": "a+"}), deny(t={"glob": "a*"})).is_visible
    assert decide(tool, allow(n=1, t={"prefix": "a"}), deny(t={"matches": "a.*"})).is_visible


@pytest.mark.parametrize(
    ("wanted", "denied", "beside"),
    [
        ("a", "a", {"matches": "q+"}),
    ],
)
def test_what_is_certain_stays_so_whatever_else_is_asked_of_the_same(
    wanted: Any, denied: Any, beside: Any
) -> None:
    tool = tool_with({"x": TEXT}, "x")
    assert not decide(tool, allow(x=wanted), deny(x=denied), deny(x=beside)).is_visible
    assert decide(tool, allow(x=wanted), deny(x=beside)).is_visible


def test_numbers_of_hundreds_of_digits_are_no_proof() -> None:
    tool = tool_with({"x": NUMBER}, "x")
    assert decide(tool, allow(x={"above": 10**400, "below": 10**400 + 1})).is_visible


def test_rules_that_are_left_out_of_the_proof_hide_nothing() -> None:
    names = [f"x{number}" for number in range(6)]
    tool = tool_with(dict.fromkeys(names, WHOLE), *names)
    several = [deny(**{name: {"at_most": 0}, "x0": {"at_most": 0}}) for name in names[1:]]
    halves = [deny(x0={"at_most": 0}), deny(x0={"above": 0})]
    assert not decide(tool, *several, *halves).is_visible
    assert decide(tool, *several, halves[1]).is_visible
    many = [deny(x0=number) for number in range(200)]
    assert decide(tool, *many, *halves).is_visible
    assert not decide(tool, *halves, *many).is_visible


def test_a_recursive_schema_beside_the_argument_is_no_obstacle() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    schema = {
        "type": "object",
        "properties": {"x": WHOLE, "node": {"$ref": "#/$defs/Node"}},
        "required": ["x", "node"],
        "$defs": {"Node": node},
    }

    async def run(arguments: dict[str, Any]) -> None: ...

    tool = Tool.from_handler(run, "run", "Run.", schema)
    assert not decide(tool, allow(x={"above": 5, "below": 6})).is_visible
    assert decide(tool, allow(x={"above": 5})).is_visible
