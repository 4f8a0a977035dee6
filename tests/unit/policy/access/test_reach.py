"""Where conditions look in arguments, and what they find there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import IPv6Address
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import StringConstraints

from toolcrib import Principal, Tool
from toolcrib.policy import Policy, Rule
from toolcrib.policy.access import Access
from toolcrib.policy.access.conditions import ABSENT, ArgumentPath, forms_of
from toolcrib.schema.received import Received
from toolcrib.validation.schema_tree import Resolver


@dataclass
class Order:
    number: int
    amount: float = 5.0
    tags: list[str] = field(default_factory=list)


def sell(order: Order, spare: Order | None = None, amount: float = 1000, label: str | None = None) -> None:
    """Sell."""


def ship(orders: list[Order], places: list[list[str]], rest: dict[str, Any]) -> None:
    """Ship."""


SELL = Tool.from_function(sell)
SHIP = Tool.from_function(ship)


def handler(schema: Mapping[str, Any], **options: Any) -> Tool:
    async def run(arguments: dict[str, Any]) -> str:
        return str(arguments)

    return Tool.from_handler(run, "tool", "A tool.", {"type": "object", **schema}, **options)


@pytest.mark.parametrize(
    ("path", "arguments", "expected"),
    [
        ("amount", {"amount": 3}, [(3, True)]),
        ("amount", {"amount": True}, [(True, True)]),
        ("amount", {}, [(1000, False)]),
        ("amount", {"amount": None}, [(1000, False)]),
        ("label", {}, [(ABSENT, False)]),
        ("label", {"label": None}, [(None, True)]),
        ("nothing", {}, [(ABSENT, False)]),
        ("order", {"order": {"number": 1}}, [({"number": 1}, True)]),
        ("order.number", {"order": {"number": 1}}, [(1, True)]),
        ("order.number", {"order": {"number": None}}, [(None, True)]),
        ("order.nothing.at.all", {"order": {"nothing": {"at": {"all": None}}}}, [(None, True)]),
        ("order.amount", {"order": {"number": 1}}, [(5.0, False)]),
        ("order.amount", {}, [(ABSENT, False)]),
        ("order.amount", {"order": 7}, [(ABSENT, False)]),
        ("order.amount.cents", {"order": {"amount": 7}}, [(ABSENT, False)]),
        ("spare.amount", {"spare": {"number": 1}}, [(5.0, False)]),
        ("order.tags", {"order": {"tags": ["a", "b"]}}, [("a", True), ("b", True)]),
        ("order.tags", {"order": {"tags": []}}, [([], True), (ABSENT, False)]),
    ],
)
def test_what_is_found_is_what_the_tool_will_work_with(
    path: str, arguments: dict[str, Any], expected: list[Any]
) -> None:
    assert ArgumentPath(path, SELL).find(arguments) == expected


@pytest.mark.parametrize(
    ("path", "arguments", "expected"),
    [
        ("orders.number", {"orders": [{"number": 1}, {"number": 2}]}, [(1, True), (2, True)]),
        ("orders.amount", {"orders": [{"amount": 1}, {}]}, [(1, True), (5.0, False)]),
        ("orders.amount", {"orders": []}, [(ABSENT, False)]),
        ("orders.tags", {"orders": [{"tags": ["a"]}, {"tags": ["b", "c"]}]}, [(x, True) for x in "abc"]),
        ("places", {"places": [["a"], ["b", "c"]]}, [(x, True) for x in "abc"]),
        ("places", {"places": [["a"], []]}, [("a", True), ([], True), (ABSENT, False)]),
        ("places.x", {"places": [[{"x": 1}]]}, [(1, True)]),
        ("rest.any.thing", {"rest": {"any": {"thing": 4}}}, [(4, True)]),
    ],
)
def test_a_path_leads_through_every_item_of_a_list(
    path: str, arguments: dict[str, Any], expected: list[Any]
) -> None:
    assert ArgumentPath(path, SHIP).find(arguments) == expected


@pytest.mark.parametrize(
    ("tool", "path", "expected"),
    [
        (SELL, "amount", True),
        (SELL, "amuont", False),
        (SELL, "order.number", True),
        (SELL, "order.number.more", False),
        (SELL, "amount.more", False),
        (SHIP, "orders.amount", True),
        (SHIP, "orders.tags.more", False),
        (SHIP, "rest.any.thing", True),
    ],
)
def test_a_path_that_no_argument_can_have_is_known(tool: Tool, path: str, expected: bool) -> None:
    assert ArgumentPath(path, tool).is_possible is expected


def test_a_schema_says_whether_more_names_may_come() -> None:
    closed = {"type": "object", "properties": {"b": {}}, "additionalProperties": False}
    tool = handler({"properties": {"a": closed, "c": {"type": ["object", "null"]}}})
    assert ArgumentPath("a.b.c", tool).is_possible
    assert not ArgumentPath("a.x", tool).is_possible
    assert ArgumentPath("c.x", tool).is_possible
    assert ArgumentPath("z", handler({"properties": {}})).is_possible
    either = handler({"properties": {"a": {"anyOf": [closed, {"type": "string"}, {"type": "object"}]}}})
    assert ArgumentPath("a.x", either).is_possible
    neither = handler({"properties": {"a": {"anyOf": [closed, {"type": "string"}]}}})
    assert not ArgumentPath("a.x", neither).is_possible
    assert not ArgumentPath("z", handler({"properties": {}, "additionalProperties": False})).is_possible


def test_a_name_with_dots_is_a_name_where_the_tool_has_it() -> None:
    tool = handler({"properties": {"a.b": {"type": "integer", "default": 4}, "a": {"type": "object"}}})
    assert ArgumentPath("a.b", tool).find({"a.b": 1, "a": {"b": 2}}) == [(1, True)]
    assert ArgumentPath("a.b", tool).find({"a": {"b": 2}}) == [(4, False)]
    assert ArgumentPath("a.c", tool).find({"a": {"c": 2}}) == [(2, True)]


def test_the_default_beside_a_reference_wins_and_several_behind_it_all_count() -> None:
    definitions = {"One": {"type": "integer", "default": 1}, "Two": {"type": "string", "default": "two"}}
    beside = {"$ref": "#/$defs/One", "default": 9}
    either = {"anyOf": [{"$ref": "#/$defs/One"}, {"$ref": "#/$defs/Two"}, {"$ref": "#/$defs/One"}]}
    tool = handler({"properties": {"beside": beside, "either": either, "odd": True}, "$defs": definitions})
    assert ArgumentPath("beside", tool).find({}) == [(9, False)]
    assert ArgumentPath("either", tool).find({}) == [(1, False), ("two", False)]
    assert ArgumentPath("odd", tool).find({}) == [(ABSENT, False)]


def test_what_a_schema_says_beside_its_alternatives_counts() -> None:
    kind = {"properties": {"kind": {"default": "a"}}}
    tool = handler({"properties": {"x": {**kind, "anyOf": [{"minProperties": 1}]}, "y": {"oneOf": [kind]}}})
    assert ArgumentPath("x.kind", tool).find({"x": {}}) == [("a", False)]
    assert ArgumentPath("y.kind", tool).find({"y": {}}) == [("a", False)]


def test_there_is_nothing_inside_what_is_no_object() -> None:
    tool = handler(
        {"properties": {"x": {"type": ["string", "integer"]}, "y": {"type": ["string", "object"]}}}
    )
    assert not ArgumentPath("x.kind", tool).is_possible
    assert ArgumentPath("y.kind", tool).is_possible


def test_forms_follow_references_once_and_not_for_ever() -> None:
    loop = {"anyOf": [{"$ref": "#/$defs/Loop"}, {"type": "null"}]}
    root = {"$defs": {"Loop": loop, "a/b": {"type": "integer"}, "~c": {"type": "number"}}}
    assert forms_of(loop, Resolver(root)) == [{"type": "null"}]
    assert forms_of({"$ref": "#/$defs/a~1b"}, Resolver(root)) == [{"type": "integer"}]
    assert forms_of({"$ref": "#/$defs/~0c"}, Resolver(root)) == [{"type": "number"}]
    assert forms_of({"$ref": "#/$defs/missing/further"}, Resolver(root)) == []
    assert forms_of({"anyOf": [False, loop, {"type": "string"}]}, Resolver(root)) == [
        {"type": "string"},
        {"type": "null"},
    ]
    assert forms_of({"type": "object", "allOf": [{"title": "x"}]}, Resolver(root)) == [
        {"type": "object", "allOf": [{"title": "x"}]},
        {"title": "x"},
    ]
    assert len(forms_of({"anyOf": [{"const": number} for number in range(100)]}, Resolver(root))) == 64


def test_lists_in_lists_are_followed_so_far_and_no_further() -> None:
    inner: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "integer"}}}
    schemas = [inner]
    for _ in range(4):
        schemas.append({"type": "array", "items": schemas[-1]})
    for depth, schema in enumerate(schemas):
        step = ArgumentPath("a.x", handler({"properties": {"a": schema}})).steps[1]
        assert step.is_possible
        assert bool(step.schemas) is (depth < 4)


def test_what_cannot_be_built_takes_anything() -> None:
    tool = Tool.from_handler(lambda arguments: "", "tool", "A tool.", {"type": "no such type"})
    assert ArgumentPath("a.b", tool).is_possible
    assert ArgumentPath("a.b", tool).find({"a": {"b": 1}}) == [(1, True)]


@dataclass
class Parcel:
    id: UUID
    tags: list[str] = field(default_factory=list)


def send(
    id: UUID,
    address: IPv6Address,
    at: datetime,
    wait: timedelta,
    bucket: Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)],
    parcels: list[Parcel],
    count: int = 1,
) -> None:
    """Send."""


ID = "550e8400-e29b-41d4-a716-446655440000"


def receive(tool: Tool, arguments: dict[str, Any]) -> Received:
    check = tool.arguments
    return check.receive(arguments, check.convert(arguments))


@pytest.mark.parametrize(
    ("path", "given", "made"),
    [
        ("id", ID.upper(), ID),
        ("address", "0:0:0:0:0:0:0:1", "::1"),
        ("at", "2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00Z"),
        ("wait", "PT24H", "P1D"),
        ("bucket", " PROD", "prod"),
        ("parcels.id", [{"id": ID.upper()}], ID),
    ],
)
def test_another_spelling_of_a_value_is_no_way_around_a_rule(path: str, given: Any, made: str) -> None:
    tool, who = Tool.from_function(send), Principal("key:ana")
    arguments = {path.partition(".")[0]: given}
    for effect in ("deny", "confirm"):
        decision = Access(Policy(rules=[Rule(**{effect: ["send"]}, when={path: made})])).decide(who, tool)
        judgement = decision.judge(arguments, receive(tool, arguments))
        assert judgement.is_allowed is (effect == "confirm")
        assert (judgement.confirm is None) is (effect == "deny")
    allowing = Access(Policy(rules=[Rule(allow=["send"], when={path: made})])).decide(who, tool)
    assert not allowing.judge(arguments, receive(tool, arguments)).is_allowed


@pytest.mark.parametrize("effect", ["deny", "confirm"])
def test_what_was_left_out_is_not_given_because_the_tool_gets_it(effect: str) -> None:
    tool = Tool.from_function(sell)
    arguments: dict[str, Any] = {"order": {"number": 1}}
    for path, default in (("order.amount", 5), ("amount", 1000)):
        for exists in (True, False):
            rule = Rule(**{effect: ["sell"]}, when={path: {"exists": exists, "equals": default}})
            decision = Access(Policy(rules=[rule])).decide(Principal("key:ana"), tool)
            judged = decision.judge(arguments, receive(tool, arguments))
            assert (not judged.is_allowed or judged.confirm is not None) is not exists


def stock(shelves: dict[str, Order], counts: dict[str, int]) -> None:
    """Stock."""


STOCK = Tool.from_function(stock)


def test_what_is_in_a_table_has_its_defaults_too() -> None:
    reach = ArgumentPath("shelves.left.amount", STOCK)
    assert reach.find({"shelves": {"left": {"number": 1}}}) == [(5.0, False)]
    assert reach.find({"shelves": {"left": {"number": 1, "amount": 9}}}) == [(9, True)]
    assert reach.find({"shelves": {}}) == [(ABSENT, False)]
    assert ArgumentPath("counts.left", STOCK).is_possible


def test_a_path_that_takes_the_name_of_an_entry_for_that_of_a_field_is_an_error() -> None:
    access = Access(Policy(rules=[Rule(deny=["stock"], when={"shelves.amount": {"above": 100}})]))
    [error] = access.check([STOCK])
    assert "can never hold" in str(error)
    for path in ("shelves.left.amount", "counts.left"):
        assert not Access(Policy(rules=[Rule(deny=["stock"], when={path: {"above": 100}})])).check([STOCK])


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (["a", "b", "a"], ["a", "b"]),
        ([1, 1.0, 2, "1", None, None], [1, 2, "1", None]),
        ([True, 1, 1], [True, 1, 1]),
        ([True, "a", True], [True, "a"]),
        ([2**61, 2**61], [2**61, 2**61]),
        (["a", -(2**61), -(2**61)], ["a", -(2**61), -(2**61)]),
        ([[1, 1], 1, [2]], [1, 1, 2]),
        ([{}, {}], [{}, {}]),
    ],
)
def test_texts_and_numbers_of_a_list_are_found_once_each(items: list[Any], expected: list[Any]) -> None:
    found = [value for value, _ in ArgumentPath("x", handler({})).find({"x": items})]
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))
