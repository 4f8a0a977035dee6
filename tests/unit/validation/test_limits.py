"""Limits on schemas: size, patterns, and the number of checks."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import codec, limits
from toolcrib.validation.limits import (
    Bounds,
    check_limits,
    count_states,
    has_more_values,
    limit_patterns,
    max_matched_length,
    read_bounds,
    walk_containers,
)

HEAVY = "(a{1,40}){1,40}b"


def nest(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {},
        nest(31),
        {"enum": ["x"] * limits.MAX_LIST_LENGTH},
        {"pattern": "a" * limits.MAX_PATTERN_LENGTH},
        {"properties": {f"p{i}": {} for i in range(limits.MAX_SUBSCHEMAS - 1)}},
        {"$ref": "#/$defs/a", "$dynamicRef": "#b", "$recursiveRef": "#"},
        {"$id": "https://example.org/schema", "$defs": {"a": {"$id": "#/properties/a"}}},
        {"properties": {"$id": {"type": "string"}, "$ref": {"type": "string"}, "pattern": {}, "default": {}}},
        {"properties": {"a": {"id": "an annotation"}}},
        {"default": {"$ref": "elsewhere.json", "$id": "x", "pattern": "a" * 1_000}},
        {"enum": [{"$ref": "elsewhere.json"}], "const": {"patternProperties": {"a" * 1_000: 1}}},
        {"allOf": ({"minProperties": 1},), "pattern": 5, "patternProperties": 5, "$ref": 5},
    ],
)
def test_ordinary_schemas_pass(schema: Any) -> None:
    check_limits(schema)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (nest(33), "nested deeper than 32 levels"),
        ({"enum": ["x"] * (limits.MAX_LIST_LENGTH + 1)}, "a list of more than 10000 values"),
        ({"enum": ["x"] * (limits.MAX_VALUES + 1)}, "more than 30000 values"),
        ({"a": ["x"] * 9_000, "b": ["x"] * 9_000, "c": ["x"] * 9_000, "d": ["x"] * 9_000}, "30000 values"),
        ({"properties": {f"p{i}": {} for i in range(limits.MAX_SUBSCHEMAS)}}, "more than 1000 parts"),
        ({"pattern": "a" * 257}, "pattern longer than 256 characters"),
        ({"items": {"patternProperties": {"a" * 257: {}}}}, "pattern longer than 256 characters"),
        ({1: {}}, "key that is not a string: 1"),
        ({"default": {None: 1}}, "key that is not a string: None"),
        ({"$ref": "other.json"}, "'other.json', outside itself"),
        ({"$ref": "https://example.org/" + "x" * 1_000}, "outside itself"),
        ({"items": {"$dynamicRef": "x#y"}}, "outside itself"),
        ({"$recursiveRef": ""}, "outside itself"),
        ({"properties": {"a": {"$id": "https://example.org/a"}}}, "an '$id' in a subschema"),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "items": {"id": "b"}},
            "an 'id' in a subschema",
        ),
    ],
)
def test_schemas_that_are_too_large_or_refer_outside_are_refused(schema: Any, words: str) -> None:
    with pytest.raises(InvalidSchemaError) as refused:
        check_limits(schema)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_schema_that_contains_itself_is_refused() -> None:
    schema: dict[str, Any] = {}
    schema["items"] = schema
    with pytest.raises(InvalidSchemaError):
        check_limits(schema)


def test_walking_distinguishes_schemas_from_names_and_data() -> None:
    schema = {
        "properties": {"default": {"enum": [[1], {"a": {}}]}},
        "allOf": [{"examples": [{}]}],
        "x-own": {"const": {"properties": {}}},
    }
    found = [(keyword, node) for node, _, keyword in walk_containers(schema)]
    schemas = [node for keyword, node in found if keyword is None]
    assert schema["properties"]["default"] in schemas
    assert schema["properties"] not in schemas
    assert {"a": {}} not in schemas
    assert ("enum", {}) in found
    assert ("examples", {}) in found
    assert ("const", {"properties": {}}) in found
    assert ("const", {}) in found


@pytest.mark.parametrize(
    ("pattern", "weight"),
    [
        ("", 0),
        ("abc", 3),
        ("^abc$", 1),
        ("^abc|def$", 6),
        ("a|^b", 2),
        ("[a-z]", 1),
        (r"[\]a]x", 2),
        ("[]a]x", 2),
        ("[^]a]x", 2),
        (r"\d\.\p{Lu}\x{41}\u{42}", 5),
        ("a{3}", 3),
        ("a{2,5}", 5),
        ("a{2,}", 2),
        ("a{0}", 1),
        ("a{x}", 4),
        ("(ab){3}", 6),
        ("(a{3}){4}", 12),
        ("(?:ab|c){2}d", 7),
        ("(?P<name>a)(?<other>b)(?i)c", 3),
        ("(?i:a)", 1),
        ("a)b", 2),
        ("^a*", 1),
        ("^[a-z0-9]{1,2000}$", 1),
        ("^[a-z]{1,9}[0-9]{1,9}$", 10),
        ("^(ab){1,9}$", 18),
        ("^(a[x]*b)+$", 3),
        ("^data:image/(png|jpeg);base64,[A-Za-z0-9+/=]+$", 1),
        ("^[^@]+@[^@]+$", 3),
        (HEAVY, 1601),
    ],
)
def test_the_states_of_a_pattern_are_counted(pattern: str, weight: int) -> None:
    assert count_states(pattern) == weight


def test_an_expensive_pattern_is_not_matched_against_long_strings() -> None:
    schema = {"items": {"pattern": HEAVY, "maxLength": 5, "allOf": [{}]}, "const": {"pattern": HEAVY}}
    assert limit_patterns(schema) is None
    short = {"maxLength": limits.PATTERN_BUDGET // 1601}
    guard = {"if": short, "then": {"pattern": HEAVY}, "else": short}
    assert schema == {"items": {"maxLength": 5, "allOf": [{}, guard]}, "const": {"pattern": HEAVY}}


def test_a_cheap_pattern_is_left_alone() -> None:
    schema = {"pattern": "^[a-z]{1,64}$", "patternProperties": {"^x-": {}}, "properties": {"pattern": {}}}
    assert limit_patterns(schema) is None
    assert schema == {
        "pattern": "^[a-z]{1,64}$",
        "patternProperties": {"^x-": {}},
        "properties": {"pattern": {}},
    }


def test_expensive_patterns_for_names_limit_the_length_of_names() -> None:
    schema = {"patternProperties": {HEAVY: {}, "(a{1,20}){1,20}": {}, "^x": {}}}
    assert limit_patterns(schema) == limits.PATTERN_BUDGET // 1601


@pytest.mark.parametrize("draft", ["draft-04", "draft-06"])
def test_drafts_without_conditions_may_have_no_expensive_pattern(draft: str) -> None:
    schema = {"$schema": f"http://json-schema.org/{draft}/schema#", "pattern": HEAVY}
    with pytest.raises(InvalidSchemaError, match="costly pattern"):
        limit_patterns(schema)


def test_the_length_that_a_pattern_may_be_matched_against() -> None:
    assert max_matched_length("^[a-z]+$") is None
    assert max_matched_length(HEAVY) == limits.PATTERN_BUDGET // 1601


# --- the cost of checking ---


def bounds_of(schema: dict[str, Any], max_name_length: int | None = None) -> Bounds:
    return read_bounds(schema, codec.encode(schema), max_name_length)


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def chain(levels: int, last: Any, width: int = 2) -> dict[str, Any]:
    """Each definition checks one property `width` times, through the next definition."""
    defs = {
        f"d{i}": {"allOf": [{"properties": {"a": ref(f"d{i + 1}")}} for _ in range(width)]}
        for i in range(levels)
    }
    return {**ref("d0"), "$defs": {**defs, f"d{levels}": last}}


def operators(count: int) -> dict[str, Any]:
    """A formula of so many operators, with two operands each."""
    options = [
        {"properties": {"op": {"const": f"op{i}"}, "a": ref("x"), "b": ref("x")}, "required": ["op"]}
        for i in range(count)
    ]
    defs = {"x": {"anyOf": [*options, {"type": "number"}]}}
    return {"properties": {"formula": ref("x")}, "$defs": defs}


def formula(levels: int) -> Any:
    return {"op": "op9", "a": formula(levels - 1), "b": {"op": "op8", "a": 1, "b": 2}} if levels else 1


def test_a_schema_without_branches_needs_one_check_per_value() -> None:
    bounds = bounds_of({"properties": {"a": {"items": {"type": "string"}}}})
    assert bounds == Bounds(1)
    assert bounds.are_low


@pytest.mark.parametrize(
    ("schema", "checks"),
    [
        ({"anyOf": [{}, {}]}, 3),
        ({"anyOf": [{}, {}], "unevaluatedItems": False}, 7),
        ({"properties": {"a": {"anyOf": [{}, {}]}, "b": {"not": {}}}}, 3),
        ({"items": {"anyOf": [{"items": {}}, {"items": {}}]}}, 3),
        ({"allOf": [{"properties": {"a": {}}}, {"properties": {"a": {}}}]}, 3),
        ({"properties": {"a": {}}, "additionalProperties": {"anyOf": [{}]}}, 2),
        ({"properties": {"a": {}}, "patternProperties": {"a": {}, "b": {}}}, 5),
        ({"propertyNames": {"anyOf": [{}, {}]}}, 3),
        ({"prefixItems": [{"anyOf": [{}]}, {}], "items": {}, "contains": {}}, 3),
        ({"items": [{"anyOf": [{}]}, {}], "additionalItems": {"not": {"not": {}}}}, 3),
        ({"items": {"enum": [1, 2]}}, 1),
        ({"properties": {"a": ref("x"), "b": ref("x")}, "$defs": {"x": {"items": {}}}}, 2),
        ({"dependentSchemas": {"a": {}}, "dependencies": {"b": {}, "c": ["a"]}, "if": {}}, 4),
        ({"allOf": 5, "properties": 5, "items": 5, "patternProperties": 5, "$ref": 5}, 1),
        ({"enum": ["a", "b"]}, 1),
        ({"enum": [1, {"a": 1}, []]}, 2),
        ({"const": {"a": 1}}, 1),
        ({"multipleOf": 0.5}, 1),
        (chain(4, {}), 62),
    ],
)
def test_the_checks_of_one_value_are_counted(schema: dict[str, Any], checks: int) -> None:
    assert bounds_of(schema) == Bounds(checks)


def test_a_linked_list_is_cheap_and_limits_the_depth_of_data() -> None:
    bounds = bounds_of({"properties": {"a": ref("n")}, "$defs": {"n": {"properties": {"next": ref("n")}}}})
    assert (bounds.checks, bounds.is_recursive) == (3, True)
    assert not bounds.are_low
    deep: Any = {}
    for _ in range(limits.MAX_NESTING + 1):
        deep = {"next": deep}
    assert bounds.find_excess(deep["next"]) is None
    assert bounds.find_excess(deep) == "nested deeper than 256 levels"


def test_a_formula_of_ten_operators_may_be_large() -> None:
    bounds = bounds_of(operators(10))
    assert bounds.find_excess({"formula": [formula(30)] * 100}) is None


def test_errors_of_a_recursive_schema_are_listed_for_small_values_only() -> None:
    branching, tree = bounds_of(operators(10)), bounds_of({"items": {"$ref": "#"}})
    assert branching.allow_report({"formula": "x"})
    assert not branching.allow_report({"formula": formula(3)})
    assert tree.allow_report([[[[[[[[]]]]]]]])
    assert not tree.allow_report([[[[[[[[[["x"]]]]]]]]]])


def test_errors_of_large_values_are_not_listed() -> None:
    bounds = Bounds(checks=10)
    assert bounds.allow_report([1] * 299)
    assert not bounds.allow_report([1] * 300)


def test_recursive_types_that_contain_each_other_count_for_more() -> None:
    def types(count: int) -> dict[str, Any]:
        every = [{"properties": {"a": ref(f"d{i}")}} for i in range(count)]
        return {**ref("d0"), "$defs": {f"d{i}": {"anyOf": every} for i in range(count)}}

    few = bounds_of(types(3)).checks
    assert bounds_of(types(5)).checks > 8 * few
    with pytest.raises(InvalidSchemaError, match="too many checks"):
        bounds_of(types(12))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"$ref": "#"}, "refers to itself without end"),
        (
            {"allOf": [ref("a")], "$defs": {"a": {"not": ref("b")}, "b": ref("a")}},
            "refers to itself without end",
        ),
        ({"anyOf": [{"allOf": [{}] * 50}] * 50}, "too many checks"),
        (chain(12, {}), "too many checks"),
        (chain(12, ref("d0")), "too many checks"),
        (
            {**ref("d0"), "$defs": {**{f"d{i}": ref(f"d{i + 1}") for i in range(250)}, "d250": {}}},
            "deeper than 200 levels",
        ),
        ({"not": ref("missing")}, "does not exist"),
    ],
)
def test_schemas_that_cannot_be_checked_are_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSchemaError, match=message):
        bounds_of(schema)


def test_values_are_refused_for_their_size() -> None:
    bounds = Bounds(checks=1_000)
    assert bounds.find_excess({"a": [1] * 998}) is None
    assert bounds.find_excess({"a": [1] * 999}) == "too large to check against this schema"
    assert not bounds.are_low


def test_values_are_refused_for_long_property_names() -> None:
    bounds = bounds_of({"patternProperties": {"x": {}}}, max_name_length=3)
    assert bounds.find_excess({"abc": [{"abc": 1, 5: 1}]}) is None
    assert bounds.find_excess({"abc": [{"abcd": 1}]}) == "a property name is longer than 3 characters"
    assert not bounds.are_low


@pytest.mark.parametrize(
    ("value", "count"), [([], 0), ([1, 2], 2), ({"a": [1, {"b": 2}]}, 6), ([[1], [[]]], 7)]
)
def test_values_are_counted_with_all_that_they_contain(value: Any, count: int) -> None:
    assert not has_more_values(value, count)
    assert has_more_values(value, count - 1)
