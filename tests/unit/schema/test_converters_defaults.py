"""Defaults as JSON."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from toolcrib.schema.converters import is_valid_default, published_default, render_default
from toolcrib.schema.shapes import (
    MISSING,
    AnyValue,
    Array,
    Constrained,
    Dictionary,
    External,
    FixedArray,
    Scalar,
    Shape,
)

TEXT = Scalar("string")
NUMBER = Scalar("number", python=float)
WHOLE = Scalar("integer", python=int)
DAY = Scalar("string", "date", python=dt.date)
MOMENT = Scalar("string", "date-time", python=dt.datetime)
SECRET = External({"type": "string", "writeOnly": True}, str, str)


@pytest.mark.parametrize(
    ("shape", "value", "said"),
    [
        (TEXT, "a", "a"),
        (NUMBER, 5, 5),
        (DAY, dt.date(2026, 1, 31), "2026-01-31"),
        (MOMENT, dt.datetime(2026, 1, 31, tzinfo=dt.UTC), "2026-01-31T00:00:00Z"),
        (Array(), (1, (2,)), [1, [2]]),
        (Array(unique=True, python=set), {"b", "a"}, ["a", "b"]),
        (AnyValue(), {"a": (1,)}, {"a": [1]}),
    ],
)
def test_a_default_is_rendered_as_json(shape: Shape, value: Any, said: Any) -> None:
    assert render_default(shape, value) == published_default(shape, value) == said


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (AnyValue(), object()),
        (NUMBER, float("nan")),
        (Array(), [float("inf")]),
        (MOMENT, dt.datetime(2026, 1, 31)),
        (SECRET, object()),
        (TEXT, "\u200b"),
        (Array(), ["\x00"]),
    ],
)
def test_defaults_without_a_json_form_are_not_published(shape: Shape, value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        render_default(shape, value)
    assert published_default(shape, value) is MISSING


def test_a_default_that_contains_itself_is_not_published() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert published_default(AnyValue(), loop) is MISSING


@pytest.mark.parametrize("value", [None, MISSING])
def test_none_is_not_published(value: Any) -> None:
    assert published_default(TEXT, value) is MISSING


@pytest.mark.parametrize(
    ("shape", "plain", "expected"),
    [
        (TEXT, "a", True),
        (TEXT, 5, False),
        (WHOLE, 5, True),
        (WHOLE, True, False),
        (WHOLE, 5.0, False),
        (NUMBER, 5, True),
        (NUMBER, False, False),
        (Scalar("null"), 5, False),
        (DAY, "2026-01-31", True),
        (DAY, "soon", False),
        (Scalar("string", pattern="^a"), "b", False),
        (Array(TEXT), [], True),
        (Array(TEXT), [5], False),
        (Array(TEXT), {}, False),
        (Dictionary(TEXT), {}, True),
        (Dictionary(TEXT), [], False),
        (FixedArray((TEXT,)), [], False),
        (Constrained(WHOLE, {"minimum": 1}), 0, False),
        (AnyValue(), object, True),
    ],
)
def test_defaults_are_checked_against_their_shape(shape: Shape, plain: Any, expected: bool) -> None:
    assert is_valid_default(shape, plain) is expected
    if expected and plain is not object:
        assert published_default(shape, plain) == plain
    elif not expected:
        assert published_default(shape, plain) is MISSING
