"""Limits on schemas: size, patterns, and the cost of checking."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import codec, limits
from toolcrib.validation.limits import (
    ValidationCost,
    check_limits,
    count_states,
    estimate_cost,
    limit_patterns,
    max_matched_length,
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


def cost_of(schema: dict[str, Any], max_name_length: int | None = None) -> ValidationCost:
    return estimate_cost(schema, codec.encode(schema), max_name_length)


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def chain(levels: int, last: Any, width: int = 2) -> dict[str, Any]:
    """Each definition checks one property `width` times, through the next definition."""
    defs = {
        f"d{i}": {"allOf": [{"properties": {"a": ref(f"d{i + 1}")}} for _ in range(width)]}
        for i in range(levels)
    }
    return {**ref("d0"), "$defs": {**defs, f"d{levels}": last}}


def test_a_schema_without_branches_needs_one_check_per_value() -> None:
    cost = cost_of({"properties": {"a": {"items": {"type": "string"}}}})
    assert cost == ValidationCost((1,), (1,))
    assert cost.is_low


@pytest.mark.parametrize(
    ("schema", "checks"),
    [
        ({"anyOf": [{}, {}]}, (3, 0)),
        ({"anyOf": [{}, {}], "unevaluatedItems": False}, (7, 1, 0)),
        ({"anyOf": [{"items": {}}], "unevaluatedProperties": {}}, (4, 3, 0)),
        ({"properties": {"a": {"anyOf": [{}, {}]}, "b": {"not": {}}}}, (1, 3, 0)),
        ({"items": {"anyOf": [{"items": {}}, {"items": {}}]}}, (1, 3, 2, 0)),
        ({"allOf": [{"properties": {"a": {}}}, {"properties": {"a": {}}}]}, (3, 2, 0)),
        ({"properties": {"a": {}}, "additionalProperties": {"anyOf": [{}]}}, (1, 2, 0)),
        ({"allOf": [{"properties": {"a": {}}}], "additionalProperties": {}}, (2, 2, 0)),
        ({"properties": {"a": {}}, "patternProperties": {"a": {}, "b": {}}}, (1, 5, 0)),
        ({"propertyNames": {"anyOf": [{}, {}]}}, (1, 3, 0)),
        ({"prefixItems": [{"anyOf": [{}]}, {}], "items": {}, "contains": {}}, (1, 3, 0)),
        ({"items": {}, "contains": {}}, (1, 2, 0)),
        ({"items": [{"anyOf": [{}]}, {}], "additionalItems": {"not": {"not": {}}}}, (1, 3, 0)),
        ({"items": {"enum": [1, 2]}}, (1, 13, 0)),
        ({"properties": {"a": ref("x"), "b": ref("x")}, "$defs": {"x": {"items": {}}}}, (1, 2, 1, 0)),
        ({"items": {"not": {}}, "additionalProperties": {"anyOf": [{}, {}]}}, (1, 3, 0)),
        ({"dependentSchemas": {"a": {}}, "dependencies": {"b": {}, "c": ["a"]}, "if": {}}, (4, 0)),
        ({"allOf": 5, "properties": 5, "items": 5, "patternProperties": 5, "$ref": 5}, (1, 0)),
    ],
)
def test_checks_are_counted_level_by_level(schema: dict[str, Any], checks: tuple[int, ...]) -> None:
    cost = cost_of(schema)
    assert cost.checks == cost.report == checks
    assert cost.max_depth is None


@pytest.mark.parametrize(
    ("schema", "checks"),
    [
        ({"enum": ["a", "b"]}, 1),
        ({"enum": ["a", None]}, 13),
        ({"enum": [1, {"a": 1}, []]}, 52),
        ({"const": "a"}, 1),
        ({"const": None}, 1),
        ({"const": 1}, 11),
        ({"multipleOf": 2}, 1),
        ({"multipleOf": 0.5}, 61),
    ],
)
def test_some_keywords_cost_more_than_others(schema: dict[str, Any], checks: int) -> None:
    assert cost_of(schema).checks[0] == checks


def test_checks_multiply_along_references() -> None:
    assert cost_of(chain(4, {})).checks == (4, 8, 16, 32, 32, 0)


def test_a_schema_of_very_many_levels_limits_the_depth_of_data() -> None:
    defs = {f"d{i}": {"items": ref(f"d{i + 1}")} for i in range(80)}
    cost = cost_of({**ref("d0"), "$defs": {**defs, "d80": {}}})
    assert cost.max_depth == limits.MAX_LEVELS - 1


def test_a_linked_list_is_cheap_and_limits_the_depth_of_data() -> None:
    cost = cost_of({"properties": {"a": ref("n")}, "$defs": {"n": {"properties": {"next": ref("n")}}}})
    assert max(cost.checks) < 10
    assert cost.max_depth == limits.MAX_NESTING
    assert not cost.is_low


def test_a_recursive_union_is_cheap_to_check_and_expensive_to_report() -> None:
    options = [{"properties": {"a": ref("x"), "kind": {"const": str(i)}}} for i in range(4)]
    cost = cost_of({"properties": {"a": ref("x")}, "$defs": {"x": {"anyOf": options}}})
    assert max(cost.checks) < 300
    assert cost.report[1] == 6
    assert cost.report[2] == 24
    assert cost.report[-1] > 100_000


def test_a_loop_that_doubles_on_its_way_is_counted_twice_around() -> None:
    schema = chain(3, {})
    schema["$defs"]["d3"] = ref("d0")
    cost = cost_of(schema)
    assert max(cost.checks) > 2**6
    assert cost.checks[-1] < max(cost.checks)


def test_behind_its_first_rounds_a_loop_costs_the_same_at_every_level() -> None:
    long_way: dict[str, Any] = ref("x")
    for name in ("c", "b", "a"):
        long_way = {"properties": {name: long_way}}
    deep: dict[str, Any] = {}
    for _ in range(20):
        deep = {"properties": {"a": deep}}
    loop = {"anyOf": [long_way, long_way]}
    cost = cost_of({"properties": {"loop": ref("x"), "deep": deep}, "$defs": {"x": loop}})
    assert set(cost.checks[8:22]) == {10}


@pytest.mark.parametrize("entry", [ref("d1"), {"$ref": "#/$defs/d2/allOf/0"}])
def test_of_a_loop_with_two_entries_every_round_is_counted(entry: dict[str, Any]) -> None:
    schema = chain(3, {})
    schema["$defs"]["d3"] = ref("d0")
    schema["properties"] = {"b": entry}
    cost = cost_of(schema)
    assert cost.checks == cost.report
    assert cost.checks[-1] > limits.MAX_CHECKS
    assert cost.checks[-1] > 1.5 * cost.checks[-2]


def test_a_loop_within_a_loop_is_counted_without_end() -> None:
    pair = {
        "n": {"anyOf": [{"properties": {"a": ref("m"), "b": ref("n")}}] * 2},
        "m": {"properties": {"a": ref("m"), "b": ref("n")}},
    }
    cost = cost_of({"properties": {"x": ref("n")}, "$defs": pair})
    assert cost.checks == cost.report
    assert cost.checks[-1] > limits.MAX_CHECKS


def test_two_recursive_types_are_counted_each_on_its_own() -> None:
    def tree(name: str, inner: dict[str, Any]) -> dict[str, Any]:
        options = [{"properties": {"kind": {"const": str(i)}, "a": ref(name)}} for i in range(10)]
        return {"anyOf": [*options, inner]}

    defs = {"x": tree("x", ref("y")), "y": tree("y", {"type": "string"})}
    cost = cost_of({"properties": {"a": ref("x"), "b": ref("y")}, "$defs": defs})
    assert cost.report[-1] > limits.MAX_CHECKS
    assert cost.checks[-1] < 1_000


def test_a_formula_of_ten_operators_may_be_thirty_levels_deep() -> None:
    options = [
        {"properties": {"op": {"const": f"op{i}"}, "a": ref("x"), "b": ref("x")}, "required": ["op"]}
        for i in range(10)
    ]
    defs = {"x": {"anyOf": [*options, {"type": "number"}]}}
    cost = cost_of({"properties": {"formula": ref("x")}, "$defs": defs})
    formula: Any = 1
    for _ in range(30):
        formula = {"op": "op9", "a": formula, "b": {"op": "op8", "a": 1, "b": 2}}
    assert cost.find_excess({"formula": formula}) is None


def test_options_for_objects_and_for_arrays_do_not_multiply() -> None:
    options = [{"items": ref("x")}, {"additionalProperties": ref("x")}, {"type": "string"}]
    cost = cost_of({**ref("x"), "$defs": {"x": {"anyOf": options}}})
    assert set(cost.checks) == {5}


def test_a_loop_that_does_not_grow_is_cheap_at_every_level() -> None:
    defs = {"a": {"items": ref("b")}, "b": {"items": ref("a")}}
    cost = cost_of({"prefixItems": [ref("a"), ref("b")], "$defs": defs})
    assert cost.max_depth == limits.MAX_NESTING
    assert set(cost.checks) <= {1, 2}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"$ref": "#"}, "refers to itself without end"),
        (
            {"allOf": [ref("a")], "$defs": {"a": {"not": ref("b")}, "b": ref("a")}},
            "refers to itself without end",
        ),
        ({"anyOf": [{"allOf": [{}] * 50}] * 50}, "too many checks"),
        (
            {**ref("d0"), "$defs": {**{f"d{i}": ref(f"d{i + 1}") for i in range(150)}, "d150": {}}},
            "more than 100 references in a row",
        ),
        ({"not": ref("missing")}, "does not exist"),
    ],
)
def test_schemas_that_cannot_be_checked_are_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSchemaError, match=message):
        cost_of(schema)


def test_values_are_refused_for_their_cost() -> None:
    cost = ValidationCost((1, 1_000, 0), (1,))
    assert cost.find_excess({"a": [1] * 100_000}) is None
    assert cost.find_excess({str(i): i for i in range(1_999)}) is None
    assert cost.find_excess([1] * 2_000) == (
        "too expensive to check against this schema (2000 values at level 1)"
    )
    assert not cost.is_low


def test_the_last_number_holds_for_all_deeper_levels() -> None:
    cost = ValidationCost((1, limits.MAX_CHECKS // 2), (1,))
    assert cost.find_excess([[]]) is None
    assert cost.find_excess([[[]]]) == "too expensive to check against this schema (1 values at level 2)"


def test_values_are_refused_for_their_depth() -> None:
    cost = ValidationCost((1,), (1,), max_depth=2)
    assert cost.find_excess([[1]]) is None
    assert cost.find_excess({"a": ({"b": 1},)}) == "nested deeper than 2 levels"
    assert not cost.is_low


def test_values_are_refused_for_long_property_names() -> None:
    cost = cost_of({"patternProperties": {"x": {}}}, max_name_length=3)
    assert cost.find_excess({"abc": [{"abc": 1, 5: 1}]}) is None
    assert cost.find_excess({"abc": [{"abcd": 1}]}) == "a property name is longer than 3 characters"
    assert not cost.is_low


def test_reporting_has_a_cost_of_its_own() -> None:
    cost = ValidationCost((1,), (1, 10))
    assert not cost.exceeds_report([1] * 10, 101)
    assert cost.exceeds_report([1] * 11, 101)
