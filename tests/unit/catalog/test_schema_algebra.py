"""Plain forms of schemas, and whether two schemas have a common value."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.catalog.schemas import are_disjoint, flatten, is_nothing

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def of(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


@pytest.mark.parametrize(
    ("parts", "both"),
    [
        ([{"type": "number"}, {"type": "integer"}], {"type": "integer"}),
        ([{"type": ["string", "number"]}, {"type": ["integer", "null"]}], {"type": "integer"}),
        ([WHOLE, {"minimum": 1}, {"minimum": 3}], {"type": "integer", "minimum": 3}),
        ([{"enum": [1, 2, "a"]}, {"enum": [2, "b", 1]}], {"enum": [1, 2]}),
        (
            [{**TEXT, "title": "A", "description": "One"}, {"description": "Two"}],
            {**TEXT, "title": "A", "description": "One\nTwo"},
        ),
        (
            [of({"b": {**TEXT, "description": "B"}, "a": {}}), of({"c": WHOLE}, required=["c"])],
            of({"b": {**TEXT, "description": "B"}, "a": {}, "c": WHOLE}, required=["c"]),
        ),
        (
            [of({"a": TEXT, "b": {}}, additionalProperties=False), {"minProperties": 1}],
            of({"a": TEXT, "b": {}}, additionalProperties=False, minProperties=1),
        ),
        ([{"anyOf": [TEXT, WHOLE]}, {"anyOf": [WHOLE, {"type": "null"}]}], WHOLE),
    ],
)
def test_parts_are_merged(parts: list[dict[str, Any]], both: dict[str, Any]) -> None:
    assert flatten({"allOf": parts}) == both


def test_rules_beside_a_union_are_moved_into_it() -> None:
    either = [{"required": ["a"]}, {"required": ["b"]}]
    both = of({"a": {**TEXT, "description": "A"}, "b": TEXT})
    found = flatten({**both, "anyOf": either, "description": "One of them"})
    expected = [{**both, **branch} for branch in either]
    assert found == {"anyOf": expected, "description": "One of them"}


@pytest.mark.parametrize("parts", [[TEXT, WHOLE], [{"enum": [1]}, {"enum": [True]}], [{"not": {}}, TEXT]])
def test_contradicting_schemas_accept_nothing(parts: list[dict[str, Any]]) -> None:
    assert is_nothing(flatten({"allOf": parts}))


@pytest.mark.parametrize(
    "parts",
    [
        [{**TEXT, "pattern": "a"}, {"pattern": "b"}],
        [{"anyOf": [{"minLength": n}, {"maxLength": n}]} for n in range(40)],
    ],
)
def test_schemas_without_a_plain_form_are_not_merged(parts: list[dict[str, Any]]) -> None:
    assert flatten({"allOf": parts}) is None


@pytest.mark.parametrize(
    ("one", "other", "disjoint"),
    [
        (TEXT, WHOLE, True),
        ({"type": "number"}, WHOLE, False),
        ({"enum": [1]}, {"enum": [2]}, True),
        ({"enum": [1]}, {"enum": [1.0]}, False),
        ({"enum": ["a"]}, WHOLE, True),
        ({}, TEXT, False),
        (
            {"type": "object", "properties": {"k": {"enum": ["a"]}}, "required": ["k"]},
            {"type": "object", "properties": {"k": {"enum": ["b"]}}, "required": ["k"]},
            True,
        ),
        (
            {"type": "object", "properties": {"k": {"enum": ["a"]}}, "required": ["k"]},
            {"type": "object", "properties": {"k": {"enum": ["b"]}}},
            True,
        ),
        (
            {"type": "object", "properties": {"k": {"enum": ["a"]}}},
            {"type": "object", "properties": {"k": {"enum": ["b"]}}},
            False,
        ),
    ],
)
def test_schemas_without_a_common_value_are_disjoint(
    one: dict[str, Any], other: dict[str, Any], disjoint: bool
) -> None:
    assert are_disjoint(one, other) is disjoint
    assert are_disjoint(other, one) is disjoint
