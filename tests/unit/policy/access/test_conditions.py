"""Conditions: operators, folders, paths into arguments."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from ipaddress import IPv6Address
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel, StringConstraints, field_validator

from toolcrib import Principal, Tool
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Policy, Rule
from toolcrib.policy.access import Access
from toolcrib.policy.access.conditions import (
    ABSENT,
    ArgumentPath,
    Predicate,
    is_finite,
    is_nothing,
    is_same,
    parse_predicate,
)
from toolcrib.schema.received import Received
from toolcrib.validation.schema_tree import Resolver

POLICY = Policy(file="toolcrib.toml", lines={"rules[2]": 7, "rules[2].when.amount": 9})


def read(given: Any) -> Predicate:
    return parse_predicate(POLICY, "rules[2].when.amount", given)


@pytest.mark.parametrize(
    ("given", "value", "expected"),
    [
        (5, 5, True),
        (5, 5.0, True),
        (5, 6, False),
        (5, "5", None),
        (1, True, False),
        (True, 1, False),
        (True, True, True),
        (False, True, False),
        (None, None, True),
        (None, ABSENT, False),
        ("a*", "ab", False),
        ("a", "a", True),
        ("a", ABSENT, False),
        (["a", 1], "a", True),
        (["a", 1], 1.0, True),
        (["a", 1], True, False),
        (("a", "b"), "c", False),
        ({"equals": "a"}, "a", True),
        ({"one_of": ["a", "b"]}, "b", True),
        ({"one_of": ["a", "b"]}, ABSENT, False),
        ({"not": "a"}, "a", False),
        ({"not": "a"}, "b", True),
        ({"not": "a"}, ABSENT, True),
        ({"not": ["a", "b"]}, "b", False),
        ({"not": ["a", "b"]}, "c", True),
        ({"not": {"prefix": "a"}}, "ab", False),
        ({"not": {"prefix": "a"}}, "ba", True),
        ({"not": {"prefix": "a"}}, 5, None),
        ({"not": {"prefix": "a", "suffix": "b"}}, "ac", True),
        ({"prefix": "ab"}, "abc", True),
        ({"prefix": "ab"}, "Abc", False),
        ({"prefix": "ab"}, 5, None),
        ({"prefix": "ab"}, {"a": 1}, None),
        ({"prefix": "ab"}, None, False),
        ({"prefix": "ab"}, [], False),
        ({"prefix": "ab"}, ABSENT, False),
        ({"suffix": "bc"}, "abc", True),
        ({"suffix": "bc"}, "bcd", False),
        ({"glob": "a*c?"}, "abbcd", True),
        ({"glob": "a*c?"}, "abbc", False),
        ({"glob": "a*"}, "a\nb", True),
        ({"glob": "a"}, "a\n", False),
        ({"glob": "[ab]x"}, "bx", True),
        ({"matches": "[a-z]+"}, "abc", True),
        ({"matches": "[a-z]+"}, "abc1", False),
        ({"matches": "[a-z]+"}, "1abc", False),
        ({"matches": "a|b"}, "bx", False),
        ({"matches": "a|b"}, "xa", False),
        ({"matches": "[a-z]+"}, "abc\n", False),
        ({"matches": "[a-z]+"}, 5, None),
        ({"below": 10}, 9.5, True),
        ({"below": 10}, 10, False),
        ({"at_most": 10}, 10, True),
        ({"at_most": 10}, 10.5, False),
        ({"above": 10}, 10.5, True),
        ({"above": 10}, 10, False),
        ({"at_least": 10}, 10.0, True),
        ({"at_least": 10}, 9, False),
        ({"at_least": 10}, True, None),
        ({"at_least": 10}, "11", None),
        ({"at_least": 10}, None, False),
        ({"at_least": 10}, [], False),
        ({"at_least": 10}, ABSENT, False),
        ({"above": 1, "below": 3}, 2, True),
        ({"above": 1, "below": 3}, 3, False),
        ({"above": 1, "below": 3}, 1, False),
        ({"above": 1, "prefix": "a"}, 2, None),
        ({"above": 1, "prefix": "a"}, 0, False),
        ({"prefix": "a", "above": 1}, 0, False),
        ({"max_length": 2}, "ab", True),
        ({"max_length": 2}, "abc", False),
        ({"max_length": 0}, "", True),
        ({"max_length": 2}, 17, None),
        ({"max_length": 2}, ABSENT, False),
        ({"below_path": "/data"}, "/data/x", True),
        ({"below_path": "/data"}, "/database", False),
        ({"below_path": "/data"}, "/data/../etc", None),
        ({"below_path": "/data"}, 5, None),
        ({"below_path": "/data"}, ABSENT, False),
    ],
)
def test_an_operator_answers_yes_no_or_that_it_cannot_tell(given: Any, value: Any, expected: Any) -> None:
    assert read(given).holds(value, value is not ABSENT) is expected


@pytest.mark.parametrize(
    ("exists", "is_given", "expected"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, True)],
)
def test_exists_asks_whether_the_caller_gave_it(exists: bool, is_given: bool, expected: bool) -> None:
    assert read({"exists": exists}).holds("x", is_given) is expected
    assert read({"exists": exists, "prefix": "y"}).holds("x", is_given) is False


def test_a_text_that_is_too_long_for_a_costly_pattern_is_not_judged() -> None:
    demand = read({"matches": "(a|b|c|d|e|f|g|h|i|j|k|l)+x"})
    assert demand.holds("ax", True) is True
    assert demand.holds("a" * 50_000 + "x", True) is None
    assert read({"matches": "a+"}).holds("a" * 50_000, True) is True


@pytest.mark.parametrize(
    ("given", "key", "words"),
    [
        ({}, "", "has no operator"),
        ({"exists": 1}, ".exists", "must be true or false, got 1"),
        ({"amuont": 3}, ".amuont", "unknown operator"),
        ({"equals": [1]}, ".equals", "must be a string, a number, true or false, got [1]"),
        ({"equals": {"a": 1}}, ".equals", "must be a string, a number, true or false, got {'a': 1}"),
        ({"equals": float("nan")}, ".equals", "must be a string, a number, true or false, got nan"),
        (dt.date(2026, 1, 1), "", "must be a string, a number, true or false, got datetime.date(2026, 1, 1)"),
        ([], "", "must be a non-empty list of values, got []"),
        ({"one_of": "ab"}, ".one_of", "must be a non-empty list of values, got 'ab'"),
        ([["a"]], "", "must be a string, a number, true or false, got ['a']"),
        ({"not": {"exists": True}}, ".not", "cannot negate `exists` or `not`"),
        ({"not": {"not": "a"}}, ".not", "cannot negate `exists` or `not`"),
        ({"not": {}}, ".not", "has no operator"),
        ({"not": {"below": "5"}}, ".not.below", "must be a number, got '5'"),
        ({"prefix": ""}, ".prefix", "must be a non-empty string, got ''"),
        ({"suffix": 5}, ".suffix", "must be a non-empty string, got 5"),
        ({"matches": "(?=a)b"}, ".matches", '"(?=a)b" is not a pattern that runs in linear time'),
        ({"matches": "a)|(?:b"}, ".matches", '"a)|(?:b" is not a pattern that runs in linear time'),
        ({"matches": "((((("}, ".matches", '"(((((" is not a pattern that runs in linear time'),
        ({"matches": "a" * 300}, ".matches", "Schema has a pattern longer than 256 characters"),
        ({"below_path": "/a/../b"}, ".below_path", "must be a plain path"),
        ({"below": "5"}, ".below", "must be a number, got '5'"),
        ({"below": True}, ".below", "must be a number, got True"),
        ({"above": float("inf")}, ".above", "must be a number, got inf"),
        ({"max_length": -1}, ".max_length", "must be a number of characters, got -1"),
        ({"max_length": 1.5}, ".max_length", "must be a number of characters, got 1.5"),
        ({"max_length": True}, ".max_length", "must be a number of characters, got True"),
    ],
)
def test_anything_that_cannot_be_asked_is_an_error_that_names_file_line_and_key(
    given: Any, key: str, words: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(given)
    assert caught.value.key == f"rules[2].when.amount{key}"
    assert (caught.value.file, caught.value.line) == ("toolcrib.toml", 9)
    assert caught.value.message.startswith(words)


def test_a_table_in_a_table_is_told_to_be_a_path() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read({"cents": {"below": 3}})
    assert caught.value.hint is not None
    assert '"amount.cents" in quotes' in caught.value.hint
    assert "equals, not, one_of, prefix" in caught.value.hint
    with pytest.raises(ConfigurationError) as caught:
        read({})
    assert str(caught.value.hint).startswith("operators: equals, ")
    assert str(caught.value.hint).endswith(", exists")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"equals": [1]}, "lists are compared item by item"),
        (dt.time(), "dates and times are compared as strings"),
        ({"not": {"exists": True}}, "write exists = false"),
    ],
)
def test_an_error_says_what_to_write_instead(given: Any, hint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(given)
    assert str(caught.value.hint).startswith(hint)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (5, "equals 5"),
        ("a", 'equals "a"'),
        (["a", 1], 'one_of ["a", 1]'),
        ({"above": 1, "below": 3}, "above 1 and below 3"),
        ({"at_least": 1, "at_most": 3}, "at_least 1 and at_most 3"),
        ({"exists": True}, "is given"),
        ({"exists": False, "prefix": "x"}, 'is not given and prefix "x"'),
        ({"not": "a"}, 'not equals "a"'),
        ({"not": {"prefix": "a", "suffix": "b"}}, 'not (prefix "a" and suffix "b")'),
    ],
)
def test_a_demand_says_itself(given: Any, words: str) -> None:
    assert str(read(given)) == words


def test_every_operator_is_met_on_a_walk() -> None:
    demand = read({"not": {"prefix": "a", "suffix": "b"}, "max_length": 3})
    assert [operator.name for operator in demand.walk()] == ["not", "prefix", "suffix", "max_length"]


def test_the_small_questions() -> None:
    assert is_same("a", "a")
    assert not is_same(0, False)
    assert is_same(False, False)
    assert [is_finite(item) for item in (1, 1.5, True, "1", float("inf"), float("nan"))] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert [is_nothing(item) for item in (ABSENT, None, [], 0, "", {}, False)] == [True] * 3 + [False] * 4
    assert repr(ABSENT) == "nothing"


class Bill(BaseModel):
    amount: Decimal = Decimal(1)

    @field_validator("amount", mode="before")
    @classmethod
    def see(cls, value: Any) -> Any:
        return value


def pay(bill: Bill) -> None:
    """Pay."""


@pytest.mark.parametrize("spelt", ["500", "500.0", "5e2", " 500", "5_00"])
@pytest.mark.parametrize("demand", [500, [7, 500], {"not": [1, 2, 500]}])
def test_a_number_as_a_text_is_not_a_way_around_a_rule(spelt: str, demand: Any) -> None:
    tool, who = Tool.from_function(pay), Principal("key:ana")
    for effect in ("deny", "allow"):
        rules = [Rule(**{effect: ["pay"]}, when={"bill.amount": demand})]
        assert not Access(Policy(rules=rules)).decide(who, tool).judge({"bill": {"amount": spelt}}).is_allowed
    rules = [Rule(deny=["pay"], when={"bill.amount": 500})]
    assert Access(Policy(rules=rules)).decide(who, tool).judge({"bill": {"amount": "501"}}).is_allowed


@pytest.mark.parametrize(
    ("folder", "path", "expected"),
    [
        ("/data", "/data", True),
        ("/data", "/data/", True),
        ("/data/", "/data/a/b", True),
        ("/data", "//data//a", True),
        ("/data", "/./data/./a", True),
        ("/data", "/data/..a/b", True),
        ("/data", "/database", False),
        ("/data", "/Data/a", False),
        ("/data", "/", False),
        ("/data/a", "/data", False),
        ("/", "/anything", True),
        ("data", "data/a", True),
        ("data", "./data/a", True),
        ("data", "other/data", False),
        (".", "anything/at/all", True),
        ("/data", "/data/../etc", None),
        ("/data", "/data/a/..", None),
        ("/data", "..", None),
        ("/data", "data/a", None),
        ("data", "/data/a", None),
        (".", "/etc", None),
        ("/data", "", None),
        ("/data", "/data/a\x00", None),
        ("/data", "/data\\..\\etc", None),
        ("/data", "/data/%2e%2e/etc", None),
        ("/data", "/data/%2E%2E/etc", None),
        ("/data", "/data%2Fa", None),
        ("/data", "/data%5ca", None),
        ("/data", "/data/%00", None),
        ("/data", "/data/%20", True),
        ("data", "~/data", None),
        ("data", "data/~", True),
        ("data", "C:/data", None),
        ("data", "data/C:", True),
    ],
)
def test_a_path_is_below_a_folder_or_not_or_nobody_can_tell(
    folder: str, path: str, expected: bool | None
) -> None:
    assert read({"below_path": folder}).holds(path, True) is expected


@pytest.mark.parametrize("text", ["", "..", "/a/../b", "~", "~/x", "a\\b", "C:/x", "/a/%2e", "/a\x00"])
def test_a_folder_has_to_say_which_it_is(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"must be a (plain path|non-empty string)"):
        read({"below_path": text})


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
def test_anything_that_is_found_is_what_the_tool_will_work_with(
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


def test_anything_that_a_schema_says_beside_its_alternatives_counts() -> None:
    kind = {"properties": {"kind": {"default": "a"}}}
    tool = handler({"properties": {"x": {**kind, "anyOf": [{"minProperties": 1}]}, "y": {"oneOf": [kind]}}})
    assert ArgumentPath("x.kind", tool).find({"x": {}}) == [("a", False)]
    assert ArgumentPath("y.kind", tool).find({"y": {}}) == [("a", False)]


def test_there_is_nothing_inside_what_is_not_an_object() -> None:
    tool = handler(
        {"properties": {"x": {"type": ["string", "integer"]}, "y": {"type": ["string", "object"]}}}
    )
    assert not ArgumentPath("x.kind", tool).is_possible
    assert ArgumentPath("y.kind", tool).is_possible


def test_forms_follow_references_once_and_not_for_ever() -> None:
    loop = {"anyOf": [{"$ref": "#/$defs/Loop"}, {"type": "null"}]}
    root = {"$defs": {"Loop": loop, "a/b": {"type": "integer"}, "~c": {"type": "number"}}}
    resolver = Resolver(root)
    assert resolver.forms(loop) == [{"type": "null"}]
    assert resolver.forms({"$ref": "#/$defs/a~1b"}) == [{"type": "integer"}]
    assert resolver.forms({"$ref": "#/$defs/~0c"}) == [{"type": "number"}]
    assert resolver.forms({"$ref": "#/$defs/missing/further"}) == []
    assert resolver.forms({"anyOf": [False, loop, {"type": "string"}]}) == [
        {"type": "string"},
        {"type": "null"},
    ]
    assert resolver.forms({"type": "object", "allOf": [{"title": "x"}]}) == [
        {"type": "object", "allOf": [{"title": "x"}]},
        {"title": "x"},
    ]
    assert len(resolver.forms({"anyOf": [{"const": number} for number in range(100)]})) == 64


def test_lists_in_lists_are_followed_so_far_and_no_further() -> None:
    inner: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "integer"}}}
    schemas = [inner]
    for _ in range(4):
        schemas.append({"type": "array", "items": schemas[-1]})
    for depth, schema in enumerate(schemas):
        step = ArgumentPath("a.x", handler({"properties": {"a": schema}})).steps[1]
        assert step.is_possible
        assert bool(step.schemas) is (depth < 4)


def test_anything_that_cannot_be_built_takes_anything() -> None:
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
def test_another_spelling_of_a_value_is_not_a_way_around_a_rule(path: str, given: Any, made: str) -> None:
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
def test_anything_that_was_left_out_is_not_given_because_the_tool_gets_it(effect: str) -> None:
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


def test_anything_that_is_in_a_table_has_its_defaults_too() -> None:
    reach = ArgumentPath("shelves.left.amount", STOCK)
    assert reach.find({"shelves": {"left": {"number": 1}}}) == [(5.0, False)]
    assert reach.find({"shelves": {"left": {"number": 1, "amount": 9}}}) == [(9, True)]
    assert reach.find({"shelves": {}}) == [(ABSENT, False)]
    assert ArgumentPath("counts.left", STOCK).is_possible


def test_a_path_that_takes_the_name_of_an_entry_for_the_one_of_a_field_is_an_error() -> None:
    access = Access(Policy(rules=[Rule(deny=["stock"], when={"shelves.amount": {"above": 100}})]))
    [error] = access.check([STOCK])
    assert "can never hold" in str(error)
    for path in ("shelves.left.amount", "counts.left"):
        assert not Access(Policy(rules=[Rule(deny=["stock"], when={path: {"above": 100}})])).check([STOCK])


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (["a", "b", "a"], ["a", "b"]),
        ([1, 1.0, 2], [1, 2]),
        ([True, 1, 1], [True, 1, 1]),
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
