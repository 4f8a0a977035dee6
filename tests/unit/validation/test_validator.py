"""Compiled schemas and their error messages."""

from __future__ import annotations

import types
from typing import Any

import jsonschema_rs
import pytest

from toolcrib.errors import InvalidSchemaError, ToolcribError
from toolcrib.validation import validator as validation
from toolcrib.validation.validator import (
    Problem,
    Validator,
    canonicalize,
    check_schema,
    describe_value,
    format_path,
    show_name,
)

OLD = "http://json-schema.org/draft-07/schema#"


def told(schema: dict[str, Any], value: Any) -> list[str]:
    return [str(problem) for problem in check_schema(schema).problems(value)]


# --- schemas ---


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ([], "must be a JSON object"),
        (None, "must be a JSON object"),
        ({"$schema": 5}, "'$schema' that is not a string"),
        ({"$schema": "https://example.org/own"}, "Unknown meta-schema"),
        ({"type": "strng"}, "(at type)"),
        ({"properties": {"a": {"minimum": "1"}}}, "(at properties/a/minimum)"),
        ({"pattern": "(?=a)"}, '"(?=a)" is not a pattern that runs in linear time'),
        ({"pattern": "(?=" + "a" * 200 + ")"}, "... is not a pattern that runs in linear time"),
        ({"items": {"pattern": "(?=" + "a" * 200 + ")"}}, "(at items/pattern)"),
        ({"$ref": "#/$defs/a"}, "which does not exist"),
        ({"default": float("nan")}, "Schema has nan at 'default', which is not JSON"),
        ({"enum": [1, float("-inf")]}, "Schema has -inf at 'enum[1]', which is not JSON"),
        ({"default": object()}, "Schema is not JSON: Encoding objects of type object is unsupported"),
        ({"properties": types.MappingProxyType({"a": {}})}, "Schema is not JSON"),
        ({"title": "\ud800"}, "Schema is not JSON"),
        ({"maximum": 10**5_000}, "Schema is not JSON: an integer has too many digits"),
    ],
)
def test_anything_that_is_not_a_schema_is_refused(schema: Any, words: str) -> None:
    with pytest.raises(InvalidSchemaError) as refused:
        check_schema(schema)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 600
    assert "\n" not in str(refused.value)


def test_a_refusal_of_a_large_schema_is_short() -> None:
    with pytest.raises(InvalidSchemaError) as refused:
        check_schema({"properties": {"x" * 5_000: {"type": "y" * 5_000}}})
    assert len(str(refused.value)) < 600


def test_a_refusal_without_words_names_its_type() -> None:
    assert validation._explain(KeyError()) == "KeyError"


def test_a_schema_may_be_any_mapping() -> None:
    assert check_schema(types.MappingProxyType({"type": "string"})).is_valid("a")


def test_nobody_changes_a_compiled_schema() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"type": "integer"}}}
    validator = check_schema(schema)
    schema["properties"]["a"]["type"] = "string"
    assert validator.is_valid({"a": 1})


def test_trusted_schemas_may_be_larger_than_those_of_strangers() -> None:
    schema = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(1_500)}}
    with pytest.raises(InvalidSchemaError):
        Validator(schema)
    assert Validator(schema, trusted=True).is_valid({"p0": "a"})


@pytest.mark.requirement("X-14")
def test_formats_are_asserted_and_old_drafts_understood() -> None:
    assert not check_schema({"format": "date"}).is_valid("2026-13-01")
    assert not check_schema({"$schema": OLD, "items": [{"type": "integer"}]}).is_valid(["a"])


def test_nothing_is_fetched() -> None:
    with pytest.raises(LookupError, match="is not fetched"):
        validation._refuse_to_fetch("https://example.org/schema")


def test_only_heavy_schemas_look_at_what_a_value_costs() -> None:
    light = check_schema({"items": {"type": "integer"}})
    assert not light.is_heavy
    assert light.find_excess([[1] * 100_000]) is None
    heavy = check_schema({"items": {"enum": [{"k": i} for i in range(100)]}})
    assert heavy.is_heavy
    assert heavy.find_excess([1] * 100) is None
    assert heavy.find_excess([1] * 11_000) is not None


def test_a_costly_pattern_refuses_long_texts_for_their_length() -> None:
    schema = {"pattern": "^(a{1,40}){1,40}$"}
    validator = check_schema(schema)
    assert validator.is_valid("a" * 150)
    assert not validator.is_valid("a" * 5_000)
    assert told(schema, "a" * 5_000) == ["expected a length of at most 156, got a string of 5000 characters"]
    assert told(schema, "b")[0].startswith("expected text that matches '^(a{1,40}){1,40}$'")


# --- what is wrong ---


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        ({"type": "integer"}, "5", "expected integer, got string '5'"),
        ({"type": ["integer", "null"]}, [], "expected null or integer, got an empty array"),
        ({"enum": ["a", "b"]}, "c", "expected one of 'a', 'b', got string 'c'"),
        (
            {"enum": [1, None, True, [1], {"a": 1}]},
            2,
            'expected one of 1, null, true, [1], {"a":1}, got integer 2',
        ),
        ({"enum": list(range(25))}, "x", f"expected one of {', '.join(map(str, range(20)))} and 5 more, got"),
        ({"const": None}, 1, "expected null, got integer 1"),
        ({"const": "x" * 100}, 1, f"expected 'x{'x' * 58}..., got integer 1"),
        ({"format": "email"}, "x", "expected an email address such as ada@example.com, got string 'x'"),
        ({"format": "date-time"}, "2026-11-16T10:00:00", "expected a date-time such as 2026-11-16T10:00:00Z"),
        ({"format": "iri"}, ":", "expected the format 'iri', got string ':'"),
        ({"pattern": "^a$"}, "b", "expected text that matches '^a$', got string 'b'"),
        ({"minimum": 3}, 2, "expected at least 3, got integer 2"),
        ({"exclusiveMinimum": 3}, 3.0, "expected more than 3, got number 3.0"),
        ({"maximum": 3}, 4, "expected at most 3, got integer 4"),
        ({"exclusiveMaximum": 3}, 3, "expected less than 3, got integer 3"),
        ({"minLength": 3}, "ab", "expected a length of at least 3, got string 'ab'"),
        ({"maxItems": 1}, [1, 2], "expected a length of at most 1, got an array of 2"),
        ({"minProperties": 1}, {}, "expected a length of at least 1, got object"),
        ({"multipleOf": 2}, 3, "expected a multiple of 2, got integer 3"),
        ({"uniqueItems": True}, [1, 1], "expected items that differ, got an array of 2"),
        ({"not": {}}, True, "does not satisfy 'not', got true"),
        ({"required": ["a"]}, {}, "'a': required, but missing"),
        ({"properties": {"a": {"required": ["b"]}}}, {"a": {}}, "'a.b': required, but missing"),
        ({"properties": {"a": False}}, {"a": None}, "'a': not permitted, got null"),
        ({"properties": {}, "additionalProperties": False, "type": "object"}, {"a": 1}, "'a': not"),
        ({"properties": {"b": {}}, "additionalProperties": False}, {"a": 1}, "'a': not a known name"),
        ({"allOf": [{}], "unevaluatedProperties": False}, {"a": 1}, "'a': not a known name"),
        ({"items": {"type": "string"}}, ["a", 1], "'[1]': expected string, got integer 1"),
        ({"properties": {"a": {"items": {"const": 1}}}}, {"a": [2]}, "'a[0]': expected 1, got integer 2"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "does not satisfy 'propertyNames', got object"),
    ],
)
def test_a_problem_says_what_was_expected_and_what_came(
    schema: dict[str, Any], value: Any, words: str
) -> None:
    [problem] = told(schema, value)
    assert problem.startswith(words)


@pytest.mark.parametrize(
    ("options", "value", "words"),
    [
        ([{"type": "integer"}, {"type": "null"}], "x", "expected integer or null, got string 'x'"),
        (
            [{"type": ["integer", "null"]}, {"type": "boolean"}],
            "x",
            "expected null or integer or boolean, got",
        ),
        ([{"type": "integer"}, {"type": "integer"}], "x", "expected integer, got string 'x'"),
        ([{"type": "integer"}, {"minLength": 5}], "x", "fits none of the permitted forms, got string 'x'"),
        (
            [
                {"type": "integer"},
                {"properties": {"a": {"properties": {"b": {"const": 1}}}}, "type": "object"},
            ],
            {"a": {"b": 2}},
            "'a.b': expected 1, got integer 2",
        ),
        (
            [{"required": ["a", "b"], "type": "object"}, {"required": ["c"], "type": "object"}],
            {},
            "'c': required, but missing",
        ),
    ],
)
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_of_several_forms_the_nearest_is_explained(
    keyword: str, options: list[Any], value: Any, words: str
) -> None:
    [problem] = told({keyword: options}, value)
    assert problem.startswith(words)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"0": 1}, "'0': expected string or array or object, got integer 1"),
        ({"a": {"7": [1]}}, "'a.7[0]': expected string or array or object, got integer 1"),
        (
            {"01": {"b": 1}},
            "'1.b': expected string or array or object, got integer 1",
        ),  # as near as the engine lets us come
        ({"": 1}, "expected string or array or object, got integer 1"),
        ({"": {"x": ["", "", 5]}, "x": [""]}, "'x[2]': expected string or array or object, got integer 5"),
        ({"": {"x": ["", 5]}, "x": [""]}, "'x[1]': expected string or array or object, got integer 5"),
        ({"": {"x": {"y": 5}}, "x": [""]}, "'x.y': expected string or array or object, got integer 5"),
        ([{"+1": [5]}], "'[0].1[0]': expected string or array or object, got integer 5"),
    ],
)
def test_names_of_digits_are_names(value: Any, words: str) -> None:
    schema = {
        "type": ["object", "array", "string"],
        "additionalProperties": {"$ref": "#"},
        "items": {"$ref": "#"},
    }
    assert told(schema, value) == [words]


def test_a_value_that_fits_too_many_forms_is_reported() -> None:
    assert told({"oneOf": [{}, {}]}, 1) == ["fits more than one of the permitted forms, got integer 1"]
    assert told({"items": {"oneOf": [{}, {}, {"type": "string"}]}}, [1]) == [
        "'[0]': fits more than one of the permitted forms, got integer 1"
    ]


def test_problems_are_limited_in_number_and_in_length() -> None:
    many = told({"items": {"type": "integer"}}, ["x"] * 100)
    assert len(many) == 10
    [*names] = told(
        {"properties": {"b": {}}, "additionalProperties": False}, {f"{i}" * 100: 1 for i in range(50)}
    )
    assert len(names) == 10
    assert all(len(name) < 100 for name in names)


def test_of_a_large_value_the_first_problem_is_reported() -> None:
    assert told({"items": {"type": "integer"}}, [1] * 5_000 + ["x"] * 5_000) == [
        "'[5000]': expected integer, got string 'x'"
    ]


def test_problems_of_a_huge_or_branching_value_are_not_listed() -> None:
    assert told({"items": {"type": "integer"}}, ["x"] * 30_000) == []
    assert told({"items": {"anyOf": [{"type": "integer"}]}}, ["x"] * 5_000) == []
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    assert told({"type": "integer"}, deep) == []
    assert told({"properties": {"a": {"type": "integer"}}}, {"a": "x", "b": 1, 5: 1}) == []


# --- words ---


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (5, "integer 5"),
        (1.5, "number 1.5"),
        (10**30, "integer"),
        (2**80 - 1, "integer 1208925819614629174706175"),
        (2**80, "integer"),
        pytest.param(10**5_000, "integer", id="huge"),
        ("a\n\u202e", r"string 'a\n\u202e'"),
        ("a" * 41, "a string of 41 characters"),
        ([], "an empty array"),
        ([1, 2], "an array of 2"),
        ({"a": 1}, "object"),
        ((1,), "tuple"),
        (b"x", "bytes"),
    ],
)
def test_anything_that_came_is_described_in_few_words(value: Any, words: str) -> None:
    assert describe_value(value) == words


def test_a_path_is_written_as_one_would_write_it() -> None:
    assert format_path([]) == ""
    assert format_path(["a", 0, "b", 12]) == "a[0].b[12]"
    assert format_path([0, "a"]) == "[0].a"
    assert format_path(["a\n", "\u202e", "x" * 100]) == "a\\n.\\u202e." + "x" * 60 + "..."
    assert len(format_path(["deeper"] * 100)) < 300


def test_a_made_up_name_is_shown_on_one_line() -> None:
    assert show_name("größe") == "größe"
    assert show_name("a\x1b[31m\n") == "a\\x1b[31m\\n"
    assert show_name("\ud800") == "\\ud800"
    assert show_name(5) == "5"
    assert show_name("x" * 1_000) == "x" * 60 + "..."


def test_a_problem_is_words_and_data() -> None:
    problem = Problem("a", "expected integer", "string 'x'", "send a number")
    assert str(problem) == "'a': expected integer, got string 'x' (send a number)"
    assert problem.to_json() == {
        "field": "a",
        "expected": "expected integer",
        "got": "string 'x'",
        "hint": "send a number",
    }
    assert str(Problem("", "expected more", "")) == "expected more"
    assert Problem("", "expected more", "").to_json() == {"field": "", "expected": "expected more", "got": ""}


# --- older engines ---


@pytest.mark.parametrize("missing", ["CanonicalSchema", "CanonicalSchema.covers"])
def test_an_engine_that_cannot_compare_validates_and_says_what_comparing_needs(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing == "CanonicalSchema":  # until 0.48
        monkeypatch.delattr(jsonschema_rs, "CanonicalSchema")
        monkeypatch.delattr(jsonschema_rs, "canonicalize")
    else:
        monkeypatch.setattr(jsonschema_rs, "CanonicalSchema", object)
    assert told({"type": "object", "required": ["older"]}, {}) == ["'older': required, but missing"]
    with pytest.raises(ToolcribError, match=r"needs jsonschema-rs 0\.52 or newer.*pip install") as caught:
        canonicalize({"type": "string"})
    assert not isinstance(caught.value, ValueError)  # which callers take for a schema that has no answer
