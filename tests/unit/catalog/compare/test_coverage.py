"""Every pair of a hundred schemas: no value proves a compatible change to be breaking."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import jsonschema_rs
import pytest

from tests.support.definitions.value_universe import WORLD
from toolcrib.catalog.compare_schemas import Use, compare_schemas

TEXT, WHOLE, NOTHING = {"type": "string"}, {"type": "integer"}, {"type": "null"}
A = {"type": "object", "additionalProperties": False, "properties": {"a": TEXT}}
LIST = {
    "$defs": {
        "n": {"type": "object", "additionalProperties": False, "properties": {"a": {"$ref": "#/$defs/n"}}}
    }
}

SCHEMAS: list[Any] = [
    {},
    {"not": {}},
    TEXT,
    WHOLE,
    NOTHING,
    {"type": "number"},
    {"type": "boolean"},
    {"type": "array"},
    {"type": "object"},
    {"type": ["string", "null"]},
    {"type": ["integer", "string"]},
    {"type": ["number", "null"]},
    *({"type": "integer", **facts} for facts in ({"minimum": 1}, {"minimum": 2}, {"exclusiveMinimum": 1})),
    *({"type": "number", **facts} for facts in ({"minimum": 2}, {"exclusiveMinimum": 1}, {"maximum": 2})),
    {"type": "number", "exclusiveMaximum": 2, "minimum": 1},
    {"minimum": 1},
    {"exclusiveMaximum": 2.5},
    *({"type": "integer", "multipleOf": step} for step in (1, 2, 4)),
    {"type": "number", "multipleOf": 0.5},
    {"type": "number", "multipleOf": 1},
    *({"type": "string", **facts} for facts in ({"minLength": 1}, {"maxLength": 1}, {"pattern": "^a"})),
    {"type": "string", "minLength": 1, "maxLength": 2},
    {"type": "string", "format": "date"},
    {"minLength": 1},
    {"const": "a"},
    {"const": "abc"},
    {"const": 1},
    {"allOf": [{"enum": [1]}, {"enum": [1.0, "a"]}]},
    {"const": 1.0},
    {"const": True},
    {"enum": ["a", "b"]},
    {"enum": [0, 1, 2, None]},
    {"enum": [True, False]},
    {"enum": [False, 0]},
    {"enum": ["a", "abc"], "maxLength": 1},
    {"anyOf": [TEXT, NOTHING]},
    {"anyOf": [WHOLE, {"type": "number", "minimum": 2}]},
    {"anyOf": [{"const": "a"}, {"const": 2}]},
    {"oneOf": [TEXT, NOTHING]},
    {"oneOf": [WHOLE, {"type": "number"}]},
    {"oneOf": [WHOLE, {"type": "number", "minimum": 2}]},
    {"oneOf": [{"enum": ["a", "b"]}, {"enum": ["b", "ab"]}]},
    {"allOf": [WHOLE, {"minimum": 1}]},
    {"allOf": [{"type": "number"}, WHOLE]},
    {"allOf": [{"enum": ["a", "b"]}, {"enum": ["b", 1]}]},
    {"type": "string", "anyOf": [{"minLength": 1}, {"const": ""}]},
    {"not": TEXT},
    {"not": NOTHING},
    {"type": "string", "not": {"const": "a"}},
    {"if": TEXT, "then": {"minLength": 1}},
    {"if": TEXT, "then": {"minLength": 1}, "else": WHOLE},
    {"type": "array", "items": TEXT},
    {"type": "array", "items": {"type": ["string", "integer"]}},
    {"type": "array", "items": False},
    {"type": "array", "minItems": 1},
    {"type": "array", "maxItems": 1},
    {"type": "array", "uniqueItems": True},
    {"type": "array", "prefixItems": [TEXT]},
    {"type": "array", "prefixItems": [TEXT], "items": WHOLE},
    {"type": "array", "prefixItems": [TEXT, TEXT], "items": False},
    {"type": "array", "contains": TEXT},
    {"type": "array", "contains": TEXT, "minContains": 0},
    {"type": "array", "contains": TEXT, "minContains": 2},
    {"type": "array", "contains": TEXT, "maxContains": 1},
    {"type": "array", "unevaluatedItems": False},
    {"type": "array", "prefixItems": [TEXT], "unevaluatedItems": False},
    A,
    {**A, "additionalProperties": True},
    {**A, "additionalProperties": TEXT},
    {**A, "additionalProperties": WHOLE},
    {**A, "required": ["a"]},
    {**A, "required": ["a", "b"]},
    {**A, "properties": {"a": TEXT, "b": WHOLE}},
    {**A, "properties": {"a": {"type": ["string", "null"]}}},
    {**A, "properties": {"a": False}},
    {**A, "minProperties": 1},
    {**A, "maxProperties": 0},
    {"type": "object", "minProperties": 2},
    {"type": "object", "required": ["a"], "additionalProperties": True},
    {"type": "object", "additionalProperties": WHOLE},
    {"type": "object", "patternProperties": {"^a": TEXT}, "additionalProperties": False},
    {"type": "object", "patternProperties": {"^a": TEXT}, "additionalProperties": True},
    {"type": "object", "patternProperties": {"^[ab]": TEXT}, "additionalProperties": WHOLE},
    {**A, "patternProperties": {"^[ab]": WHOLE}},
    {"type": "object", "unevaluatedProperties": False, "additionalProperties": True},
    {"type": "object", "properties": {"a": TEXT}, "unevaluatedProperties": False},
    {"type": "object", "allOf": [{"properties": {"a": TEXT}}], "unevaluatedProperties": False},
    {"allOf": [A, {"type": "object", "required": ["a"]}]},
    {"allOf": [A, {**A, "properties": {"b": WHOLE}}]},
    {"type": "object", "propertyNames": {"const": "a"}, "additionalProperties": True},
    {"type": "object", "dependentRequired": {"a": ["b"]}, "additionalProperties": True},
    {"type": "object", "dependentSchemas": {"a": {"required": ["b"]}}, "additionalProperties": True},
    {**LIST, "$ref": "#/$defs/n"},
    {**LIST, "$ref": "#/$defs/n", "required": ["a"]},
    {**LIST, "anyOf": [{"$ref": "#/$defs/n"}, NOTHING]},
    {"type": "object", "additionalProperties": False, "properties": {"a": {"$ref": "#"}}},
    {"type": "object", "additionalProperties": True, "properties": {"a": {"$ref": "#"}}},
    {"type": "object", "additionalProperties": {"$ref": "#"}},
    {"$defs": {"n": TEXT}, "$ref": "#/$defs/n"},
    {"$defs": {"n": WHOLE}, "$ref": "#/$defs/n"},
    {"$defs": {"n": TEXT}, "type": "array", "items": {"$ref": "#/$defs/n"}},
    {"$defs": {"n": WHOLE}, "type": "array", "items": {"$ref": "#/$defs/n"}},
    {"$defs": {"n": {"$anchor": "x", **TEXT}}, "$ref": "#x"},
]


USES: tuple[Use, Use] = ("input", "output")


def is_covered(inner: Any, outer: Any) -> bool:
    """Return whether readers of `outer` get along with `inner`, new fields included."""
    found = compare_schemas(outer, inner, "output", "")
    return not any(item.grade == "breaking" or item.code == "added" for item in found)


def test_no_value_proves_a_compatible_change_to_be_breaking() -> None:
    checks = [jsonschema_rs.validator_for(schema, validate_formats=True) for schema in SCHEMAS]
    valid = [{index for index, value in enumerate(WORLD) if check.is_valid(value)} for check in checks]
    wrong, covered = [], 0
    for (one, first), (other, second) in product(zip(SCHEMAS, valid, strict=True), repeat=2):
        is_compatible = is_covered(one, other)
        covered += is_compatible
        if is_compatible and not first <= second:
            wrong.append((one, other, WORLD[min(first - second)]))
    assert wrong == []
    assert covered > 1_500, "it says yes where it can"


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_the_order_of_keywords_makes_no_difference(schema: Any) -> None:
    other = dict(reversed(schema.items()))
    for use in USES:
        assert compare_schemas(schema, other, use, "") == []
    assert is_covered(schema, {})


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
