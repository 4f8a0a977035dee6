"""Literals and enums, as parameters and as results."""

from __future__ import annotations

import datetime as dt
import enum
from typing import Any, Literal

import pytest

from tests.support.definitions.hints import emit, receive, schema_of, taking
from toolcrib import DefinitionError, InvalidArgumentsError


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"
    NO = "no"


class Mixed(enum.Enum):
    ONE = 1
    TEXT = "t"
    NOTHING = None
    HALF = 0.5


class Place(enum.Enum):
    HERE = (0, 0)
    THERE = (1, 1)


class Rights(enum.Flag):
    READ = 1
    WRITE = 2
    BOTH = 3


class Empty(enum.Enum):
    pass


class Priority(enum.Enum):
    """How soon it has to be done.

    Attributes:
        NOW: within the hour
        LATER: this week
        NEVER: is not a member
    """

    NOW = 1
    LATER = 2
    SOON = 2  # noqa: PIE796 - an alias


class Silent(enum.Enum):
    """
    Attributes:
        A: the first
    """

    A = "a"


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
        (Literal[True], {"type": "boolean", "enum": [True]}),
        (Literal["a", 1, True], {"enum": ["a", 1, True]}),
        (Literal[b"raw"], {"type": "string", "enum": ["raw"]}),
        (Literal[Colour.RED, Level.HIGH, Place.HERE], {"enum": ["r", 2, "HERE"]}),
        (Colour, {"type": "string", "enum": ["r", "b"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (Word, {"type": "string", "enum": ["yes", "no"]}),
        (Mixed, {"enum": [1, "t", None, 0.5]}),
        (Place, {"type": "string", "enum": ["HERE", "THERE"]}),
        (Colour | Word, {"type": "string", "enum": ["r", "b", "yes", "no"]}),
    ],
)
def test_the_values_are_published(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint) == schema


@pytest.mark.requirement("A-20")
@pytest.mark.parametrize(
    ("hint", "sent", "made"),
    [
        (Literal["a", 1, True], True, True),
        (Literal["a", 1, True], 1, 1),
        (Literal[b"raw"], "raw", b"raw"),
        (Literal[Level.HIGH], 2, Level.HIGH),
        (Literal[Place.HERE], "HERE", Place.HERE),
        (Colour, "r", Colour.RED),
        (Level, 2, Level.HIGH),
        (Level, 2.0, Level.HIGH),
        (Word, "no", Word.NO),
        (Mixed, None, Mixed.NOTHING),
        (Mixed, 1, Mixed.ONE),
        (Place, "THERE", Place.THERE),
        (Rights, 3, Rights.READ | Rights.WRITE),
        (Rights, 0, Rights(0)),
        (Colour | Word, "yes", Word.YES),
        (dict[Colour, int], {"r": 1}, {Colour.RED: 1}),
        (dict[Level, int], {"2": 1}, {Level.HIGH: 1}),
        (dict[Place, int], {"HERE": 1}, {Place.HERE: 1}),
    ],
)
def test_a_value_becomes_its_member_and_back(hint: Any, sent: Any, made: Any) -> None:
    found = receive(hint, sent)
    assert (found, type(found)) == (made, type(made))
    assert emit(hint, made) == sent


@pytest.mark.parametrize(("hint", "sent"), [(Colour, "RED"), (Level, True), (Rights, 4), (Place, [0, 0])])
def test_anything_else_is_refused(hint: Any, sent: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match="'x'"):
        receive(hint, sent)


def test_words_about_the_members_reach_the_model() -> None:
    assert schema_of(Priority) == {
        "type": "integer",
        "enum": [1, 2],
        "description": "How soon it has to be done\n- 1: within the hour\n- 2: this week",
    }
    assert schema_of(Silent) == {"type": "string", "enum": ["a"], "description": "- a: the first"}


def test_flags_are_sent_as_a_sum_with_the_bits_in_the_description() -> None:
    assert schema_of(Rights) == {
        "type": "integer",
        "minimum": 0,
        "maximum": 3,
        "description": "sum of 1 (READ), 2 (WRITE)",
    }


def test_an_enum_without_members_is_refused() -> None:
    with pytest.raises(DefinitionError, match="enum Empty has no members"):
        schema_of(Empty)


def test_a_member_as_default_is_published_by_its_value() -> None:
    assert schema_of(Colour, Colour.BLUE) == {"type": "string", "enum": ["r", "b"], "default": "b"}
    assert schema_of(Place, Place.THERE)["default"] == "THERE"


def test_a_null_that_is_a_member_is_that_member_even_where_there_is_a_default() -> None:
    plan = taking(Mixed, Mixed.ONE).arguments
    assert plan.bind(plan.check({"x": None})) == {"x": Mixed.NOTHING}


def test_a_value_that_is_not_a_member_leaves_as_it_is_and_is_refused() -> None:
    from toolcrib.errors import InvalidResultError

    with pytest.raises(InvalidResultError, match="expected one of 'r', 'b'"):
        emit(Colour, "green")
    assert emit(dict[dt.date, Colour], {dt.date(2026, 1, 31): Colour.RED}) == {"2026-01-31": "r"}
