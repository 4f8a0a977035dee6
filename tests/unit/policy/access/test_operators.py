"""What a condition may ask of a value, and what it answers."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from toolcrib import Principal, Tool
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Policy, Rule
from toolcrib.policy.access import Access
from toolcrib.policy.access.conditions import (
    ABSENT,
    Predicate,
    is_finite,
    is_nothing,
    is_same,
    parse_predicate,
)

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
def test_what_cannot_be_asked_is_an_error_that_names_file_line_and_key(
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
def test_a_number_as_a_text_is_no_way_around_a_rule(spelt: str, demand: Any) -> None:
    tool, who = Tool.from_function(pay), Principal("key:ana")
    for effect in ("deny", "allow"):
        rules = [Rule(**{effect: ["pay"]}, when={"bill.amount": demand})]
        assert not Access(Policy(rules=rules)).decide(who, tool).judge({"bill": {"amount": spelt}}).is_allowed
    rules = [Rule(deny=["pay"], when={"bill.amount": 500})]
    assert Access(Policy(rules=rules)).decide(who, tool).judge({"bill": {"amount": "501"}}).is_allowed
