"""Whether one schema covers another."""

from __future__ import annotations

import time
from typing import Any

import pytest

from toolcrib.catalog.compare_schemas import compare_schemas

TEXT, WHOLE, NOTHING = {"type": "string"}, {"type": "integer"}, {"type": "null"}
LIST = {
    "$defs": {
        "n": {"type": "object", "additionalProperties": False, "properties": {"a": {"$ref": "#/$defs/n"}}}
    }
}


def is_covered(inner: Any, outer: Any) -> bool:
    """Return whether readers of `outer` get along with `inner`, new fields included."""
    found = compare_schemas(outer, inner, "output", "")
    return not any(item.grade == "breaking" or item.code == "added" for item in found)


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        (WHOLE, {"type": "number"}),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, {"enum": ["b", "a"]}),
        ({"enum": ["a", "b"]}, {"oneOf": [{"const": "a"}, {"const": "b"}]}),
        ({"enum": ["a", "ab"]}, {"type": "string", "pattern": "^a"}),
        ({"type": ["string", "null"]}, {"anyOf": [NOTHING, TEXT, WHOLE]}),
        (
            {"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": TEXT}}]},
            {"type": "object", "properties": {"a": TEXT}},
        ),
        ({"type": "integer", "minimum": 1, "maximum": 3}, {"type": "number", "exclusiveMinimum": 0}),
        ({**LIST, "$ref": "#/$defs/n"}, {"type": "object", "properties": {"a": {"$ref": "#"}}}),
        (
            {"type": "array", "prefixItems": [TEXT, WHOLE], "items": False},
            {"type": "array", "items": {"type": ["string", "integer"]}},
        ),
        (
            {"oneOf": [{"type": "object", "properties": {"k": {"const": "x"}}, "required": ["k"]}]},
            {
                "oneOf": [
                    {"type": "object", "properties": {"k": {"const": "x"}}, "required": ["k"]},
                    {"type": "object", "properties": {"k": {"const": "y"}}, "required": ["k"]},
                ]
            },
        ),
    ],
)
def test_plain_coverage_is_found(inner: Any, outer: Any) -> None:
    assert is_covered(inner, outer)


def test_both_members_of_a_tagged_union_may_get_a_field() -> None:
    def union(**more: Any) -> dict[str, Any]:
        return {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": kind}, "size": WHOLE, **more},
                    "required": ["kind"],
                }
                for kind in ("cat", "dog")
            ]
        }

    found = compare_schemas(union(), union(name=TEXT), "input", "")
    assert [(item.grade, item.code) for item in found] == [("compatible", "added")]


def test_a_parameter_may_be_added_beside_alternatives_that_require_others() -> None:
    def schema(**properties: Any) -> dict[str, Any]:
        either = [{"required": ["a"]}, {"required": ["b"]}]
        return {"type": "object", "properties": {"a": TEXT, "b": TEXT, **properties}, "anyOf": either}

    found = compare_schemas(schema(), schema(c=TEXT), "input", "")
    assert [(item.grade, item.code) for item in found] == [("compatible", "added")]


@pytest.mark.parametrize(
    "rule",
    [
        {"dependentRequired": {"a": ["b"]}},
        {"propertyNames": {"pattern": "^[a-z]+$"}},
        {"not": {"required": ["a", "b"]}},
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
    ],
    ids=str,
)
def test_a_parameter_may_be_added_beside_a_rule_that_stays(rule: dict[str, Any]) -> None:
    old = {"type": "object", "properties": {"a": TEXT, "b": TEXT}, **rule}
    new = {**old, "properties": {"a": TEXT, "b": TEXT, "c": WHOLE}}
    found = compare_schemas(old, new, "input", "")
    assert [(item.grade, item.code) for item in found] == [("compatible", "added")]


def test_a_parameter_may_be_added_to_a_schema_made_of_parts() -> None:
    def schema(**properties: Any) -> dict[str, Any]:
        base = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
        own = {"properties": {"b": WHOLE, **properties}}
        return {"$defs": {"Base": base}, "allOf": [{"$ref": "#/$defs/Base"}, own]}

    found = compare_schemas(schema(), schema(c=TEXT), "input", "")
    assert [(item.grade, item.code) for item in found] == [("compatible", "added")]


def test_endless_schemas_are_compared_in_finite_time() -> None:
    loop = {
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}, TEXT]}},
        "$ref": "#/$defs/a",
    }
    wide = {"allOf": [{"anyOf": [{"minLength": n}, {"maxLength": n}]} for n in range(40)]}
    for schema in (loop, wide):
        assert not is_covered(schema, WHOLE)
    assert not is_covered(WHOLE, loop)


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"anyOf": [{"required": [f"a{n}"]}, {"required": [f"b{n}"]}]} for n in range(40)]},
        {"dependentRequired": {f"a{n}": [f"b{n}"] for n in range(60)}},
        {"allOf": [{"if": {"required": [f"a{n}"]}, "then": {"required": [f"b{n}"]}} for n in range(60)]},
        {
            "$defs": {f"d{n}": {"anyOf": [{"minProperties": n}, {"required": [f"b{n}"]}]} for n in range(60)},
            "allOf": [{"$ref": f"#/$defs/d{n}"} for n in range(60)],
        },
    ],
    ids=["alternatives", "dependencies", "conditions", "references"],
)
def test_schemas_with_too_many_combinations_are_not_compared(schema: dict[str, Any]) -> None:
    begin = time.process_time()
    changed = {**schema, "minProperties": 1}
    assert not is_covered(schema, changed)
    assert not is_covered(changed, {**schema, "maxProperties": 9})
    assert time.process_time() - begin < 1.0
