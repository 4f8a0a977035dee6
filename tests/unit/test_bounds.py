"""What a schema may look like before it is compiled."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import limits as bounds
from toolcrib.validation.limits import check_bounds, guard_patterns, walk_schema, weigh_pattern

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
        {"enum": ["x"] * bounds.MAX_LISTED},
        {"pattern": "a" * bounds.MAX_PATTERN},
        {"properties": {f"p{i}": {} for i in range(bounds.MAX_SUBSCHEMAS - 1)}},
        {"$ref": "#/$defs/a", "$dynamicRef": "#b", "$recursiveRef": "#"},
        {"$id": "https://example.org/schema", "$defs": {"a": {"$id": "#/properties/a"}}},
        {"properties": {"$id": {"type": "string"}, "$ref": {"type": "string"}, "pattern": {}, "default": {}}},
        {"properties": {"a": {"id": "an annotation"}}},
        {"default": {"$ref": "elsewhere.json", "$id": "x", "pattern": "a" * 1_000}},
        {"enum": [{"$ref": "elsewhere.json"}], "const": {"patternProperties": {"a" * 1_000: 1}}},
        {"allOf": ({"minProperties": 1},), "pattern": 5, "patternProperties": 5, "$ref": 5},
    ],
)
def test_honest_schemas_pass(schema: Any) -> None:
    check_bounds(schema)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (nest(33), "nested deeper than 32 levels"),
        ({"enum": ["x"] * (bounds.MAX_LISTED + 1)}, "more than 10000 values in one place"),
        ({"enum": ["x"] * (bounds.MAX_VALUES + 1)}, "more than 30000 values"),
        ({"a": ["x"] * 9_000, "b": ["x"] * 9_000, "c": ["x"] * 9_000, "d": ["x"] * 9_000}, "30000 values"),
        ({"properties": {f"p{i}": {} for i in range(bounds.MAX_SUBSCHEMAS)}}, "more than 1000 parts"),
        ({"pattern": "a" * 257}, "pattern longer than 256 characters"),
        ({"items": {"patternProperties": {"a" * 257: {}}}}, "pattern longer than 256 characters"),
        ({1: {}}, "key that is not a string: 1"),
        ({"default": {None: 1}}, "key that is not a string: None"),
        ({"$ref": "other.json"}, "'other.json', outside itself"),
        ({"$ref": "https://example.org/" + "x" * 1_000}, "outside itself"),
        ({"items": {"$dynamicRef": "x#y"}}, "outside itself"),
        ({"$recursiveRef": ""}, "outside itself"),
        ({"properties": {"a": {"$id": "https://example.org/a"}}}, "an '$id' inside"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "items": {"id": "b"}}, "an 'id' inside"),
    ],
)
def test_what_is_too_large_or_leads_elsewhere_is_refused(schema: Any, words: str) -> None:
    with pytest.raises(InvalidSchemaError) as refused:
        check_bounds(schema)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_schema_that_contains_itself_is_refused_and_not_walked_for_ever() -> None:
    schema: dict[str, Any] = {}
    schema["items"] = schema
    with pytest.raises(InvalidSchemaError):
        check_bounds(schema)


def test_walking_tells_schemas_from_names_and_data() -> None:
    schema = {
        "properties": {"default": {"enum": [[1], {"a": {}}]}},
        "allOf": [{"examples": [{}]}],
        "x-own": {"const": {"properties": {}}},
    }
    found = [(keyword, node) for node, _, keyword in walk_schema(schema)]
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
def test_a_pattern_weighs_what_a_matcher_has_to_keep_in_mind(pattern: str, weight: int) -> None:
    assert weigh_pattern(pattern) == weight


def test_a_costly_pattern_is_kept_from_long_texts() -> None:
    schema = {"items": {"pattern": HEAVY, "maxLength": 5, "allOf": [{}]}, "const": {"pattern": HEAVY}}
    assert guard_patterns(schema) is None
    short = {"maxLength": bounds.PATTERN_BUDGET // 1601}
    guard = {"if": short, "then": {"pattern": HEAVY}, "else": short}
    assert schema == {"items": {"maxLength": 5, "allOf": [{}, guard]}, "const": {"pattern": HEAVY}}


def test_a_cheap_pattern_stays_where_it_is() -> None:
    schema = {"pattern": "^[a-z]{1,64}$", "patternProperties": {"^x-": {}}, "properties": {"pattern": {}}}
    assert guard_patterns(schema) is None
    assert schema == {
        "pattern": "^[a-z]{1,64}$",
        "patternProperties": {"^x-": {}},
        "properties": {"pattern": {}},
    }


def test_costly_patterns_for_names_say_how_long_names_may_be() -> None:
    schema = {"patternProperties": {HEAVY: {}, "(a{1,20}){1,20}": {}, "^x": {}}}
    assert guard_patterns(schema) == bounds.PATTERN_BUDGET // 1601


@pytest.mark.parametrize("draft", ["draft-04", "draft-06"])
def test_drafts_that_know_no_conditions_may_have_no_costly_pattern(draft: str) -> None:
    schema = {"$schema": f"http://json-schema.org/{draft}/schema#", "pattern": HEAVY}
    with pytest.raises(InvalidSchemaError, match="costly pattern"):
        guard_patterns(schema)
