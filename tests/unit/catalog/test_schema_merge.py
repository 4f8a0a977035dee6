"""Merging two schemas: exactly the values that both accept, or no result at all."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.catalog.schema_merge import are_disjoint, is_nothing, merge

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ({"type": "number"}, {"type": "integer"}, {"type": "integer"}),
        ({"type": ["string", "number"]}, {"type": ["integer", "null"]}, {"type": "integer"}),
        ({"minimum": 1, "maxLength": 5}, {"minimum": 3, "maxLength": 2}, {"minimum": 3, "maxLength": 2}),
        ({"multipleOf": 4}, {"multipleOf": 6}, {"multipleOf": 12}),
        ({"enum": [1, 2, "a"]}, {"enum": [2.0, "b", 1]}, {"enum": [1, 2]}),
        ({"required": ["a"]}, {"required": ["b", "a"]}, {"required": ["a", "b"]}),
        ({"items": TEXT}, {"items": {"minLength": 1}}, {"items": {"type": "string", "minLength": 1}}),
        (
            {"title": "A", "description": "One"},
            {"description": "Two"},
            {"title": "A", "description": "One\nTwo"},
        ),
        (
            {"anyOf": [TEXT, WHOLE]},
            {"anyOf": [WHOLE, {"type": "null"}]},
            {"anyOf": [WHOLE]},
        ),
    ],
)
def test_rules_are_merged(one: dict[str, Any], other: dict[str, Any], both: dict[str, Any]) -> None:
    assert merge(one, other) == both


def test_additional_properties_apply_to_the_names_of_the_other_schema() -> None:
    closed = {"properties": {"a": TEXT}, "additionalProperties": False}
    both = merge(closed, {"properties": {"b": WHOLE}})
    assert both is not None
    assert is_nothing(both["properties"]["b"])
    typed = {"properties": {"a": TEXT}, "additionalProperties": {"type": "number"}}
    both = merge(typed, {"properties": {"b": WHOLE, "a": {"minLength": 1}}})
    assert both is not None
    assert both["properties"] == {"a": {**TEXT, "minLength": 1}, "b": WHOLE}
    assert both["additionalProperties"] == {"type": "number"}


@pytest.mark.parametrize(
    ("one", "other"),
    [(TEXT, WHOLE), ({"enum": [1]}, {"enum": [True]}), ({"not": {}}, TEXT)],
)
def test_contradicting_schemas_accept_nothing(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert is_nothing(merge(one, other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"pattern": "a"}, {"pattern": "b"}),
        ({"format": "date"}, {"format": "email"}),
        ({"not": TEXT}, {"not": WHOLE}),
        ({"if": TEXT, "then": {}}, {"if": WHOLE}),
        ({"oneOf": [TEXT]}, {"oneOf": [WHOLE]}),
        ({"contains": TEXT}, {"contains": WHOLE}),
        ({"multipleOf": 0.5}, {"multipleOf": 0.3}),
        ({"unevaluatedProperties": False}, {"properties": {"a": TEXT}}),
        ({"additionalProperties": False}, {"patternProperties": {"x": TEXT}}),
        ({"prefixItems": [TEXT]}, {"items": WHOLE}),
        ({"properties": {"a": {"pattern": "a"}}}, {"properties": {"a": {"pattern": "b"}}}),
        ({"anyOf": [{"const": n} for n in range(5)]}, {"anyOf": [{"minimum": n} for n in range(5)]}),
    ],
)
def test_schemas_without_an_exact_merge_are_not_merged(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert merge(one, other) is None


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
