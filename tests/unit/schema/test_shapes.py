"""Visiting shapes, and whether they accept null."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.schema.shapes import (
    MISSING,
    AnyValue,
    Array,
    Constrained,
    Enumeration,
    External,
    Named,
    Scalar,
    Shape,
    Union,
    accepts_none,
    accepts_null,
)

TEXT = Scalar("string")


def foreign(schema: dict[str, Any]) -> External:
    return External(schema, lambda value: value, lambda value: value)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (AnyValue(), True),
        (Scalar("null"), True),
        (TEXT, False),
        (Enumeration((None, 1)), True),
        (Enumeration((1,)), False),
        (Union((TEXT, Scalar("null"))), True),
        (Constrained(Scalar("null"), {}), True),
        (Named("N", TEXT), False),
        (Array(), False),
        (foreign({"type": "null"}), True),
        (foreign({"$ref": "#/$defs/X"}), False),
    ],
)
def test_whether_a_shape_takes_null_is_known(shape: Shape, expected: bool) -> None:
    assert accepts_none(shape) is expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, True),
        ({"type": "null"}, True),
        ({"type": ["null", "string"]}, True),
        ({"type": "string"}, False),
        ({"const": None}, True),
        ({"const": 1}, False),
        ({"enum": [1]}, False),
        ({"oneOf": [{"type": "string"}, True]}, True),
        ({"anyOf": [{"type": "string"}, False]}, False),
    ],
)
def test_whether_a_schema_accepts_null_is_known(schema: dict[str, Any], expected: bool) -> None:
    assert accepts_null(schema) is expected


def test_missing_is_recognisable() -> None:
    assert repr(MISSING) == "MISSING"
