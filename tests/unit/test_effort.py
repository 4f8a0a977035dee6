"""What checking against a schema costs, found before anything is checked."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import codec
from toolcrib.validation import limits as effort
from toolcrib.validation.limits import Effort, measure


def take(schema: dict[str, Any], longest_name: int | None = None) -> Effort:
    return measure(schema, codec.encode(schema), longest_name)


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def chain(levels: int, last: Any, width: int = 2) -> dict[str, Any]:
    """Each definition looks `width` times at what is below one property, through the next definition."""
    defs = {
        f"d{i}": {"allOf": [{"properties": {"a": ref(f"d{i + 1}")}} for _ in range(width)]}
        for i in range(levels)
    }
    return {**ref("d0"), "$defs": {**defs, f"d{levels}": last}}


def test_a_schema_without_branches_costs_one_visit_per_value() -> None:
    found = take({"properties": {"a": {"items": {"type": "string"}}}})
    assert found == Effort((1,), (1,))
    assert found.is_light


@pytest.mark.parametrize(
    ("schema", "visits"),
    [
        ({"anyOf": [{}, {}]}, (3, 0)),
        ({"anyOf": [{}, {}], "unevaluatedItems": False}, (7, 0)),
        ({"anyOf": [{"items": {}}], "unevaluatedItems": False}, (4, 3, 0)),
        ({"properties": {"a": {"anyOf": [{}, {}]}, "b": {"not": {}}}}, (1, 3, 0)),
        ({"items": {"anyOf": [{"items": {}}, {"items": {}}]}}, (1, 3, 2, 0)),
        (
            {"allOf": [{"properties": {"a": {}}}, {"properties": {"a": {}}}, {"properties": {"b": {}}}]},
            (4, 2, 0),
        ),
        ({"properties": {"a": {}}, "additionalProperties": {"anyOf": [{}]}}, (1, 2, 0)),
        ({"allOf": [{"properties": {"a": {}}}], "additionalProperties": {}}, (2, 2, 0)),
        ({"properties": {"a": {}}, "patternProperties": {"a": {}, "b": {}}}, (1, 5, 0)),
        ({"propertyNames": {"anyOf": [{}, {}]}}, (1, 3, 0)),
        ({"prefixItems": [{"anyOf": [{}]}, {}], "items": {}, "contains": {}}, (1, 3, 0)),
        ({"items": {"enum": [1, 2]}}, (1, 13, 0)),
        ({"properties": {"a": ref("x"), "b": ref("x")}, "$defs": {"x": {"items": {}}}}, (1, 2, 1, 0)),
        ({"items": {"not": {}}, "additionalProperties": {"anyOf": [{}, {}]}}, (1, 3, 0)),
    ],
)
def test_visits_are_counted_level_by_level(schema: dict[str, Any], visits: tuple[int, ...]) -> None:
    found = take(schema)
    assert found.visits == found.words == visits
    assert found.deepest is None


def test_visits_multiply_along_references() -> None:
    found = take(chain(4, {}))
    assert found.visits == (4, 8, 16, 32, 32, 0)


def test_more_levels_than_anybody_writes_bound_how_deep_data_may_nest() -> None:
    defs = {f"d{i}": {"items": ref(f"d{i + 1}")} for i in range(80)}
    found = take({**ref("d0"), "$defs": {**defs, "d80": {}}})
    assert found.deepest == effort.MAX_LEVELS - 1


def test_a_list_type_costs_little_and_bounds_depth() -> None:
    found = take({"properties": {"a": ref("n")}, "$defs": {"n": {"properties": {"next": ref("n")}}}})
    assert max(found.visits) < 10
    assert found.deepest == effort.MAX_NESTING
    assert not found.is_light
    assert set(found.words) == {2}


def test_what_one_way_around_costs_is_added_for_each_level_above() -> None:
    # Around the loop: the root, below it a reference beside the root.
    found = take({"properties": {"a": {"$ref": "#"}}})
    assert found.visits == (1 + 1, 2 + 3, 2 + 3, 3, 3)
    assert found.words == (2,) * effort.MAX_LEVELS


def test_a_tree_of_unions_is_cheap_to_check_and_dear_to_explain() -> None:
    options = [{"properties": {"a": ref("x"), "kind": {"const": str(i)}}} for i in range(4)]
    found = take({"properties": {"a": ref("x")}, "$defs": {"x": {"anyOf": options}}})
    assert max(found.visits) < 300
    assert found.words[0] == 6
    assert found.words[1] == 24
    assert found.words[-1] > 100_000


def test_loops_that_double_on_their_way_around_are_counted_twice_around() -> None:
    schema = chain(3, {})
    schema["$defs"]["d3"] = ref("d0")
    found = take(schema)
    assert max(found.visits) > 2**6
    assert found.visits[-1] < max(found.visits)


def test_of_a_loop_with_two_ways_in_only_the_growth_is_known() -> None:
    schema = chain(3, {})
    schema["$defs"]["d3"] = ref("d0")
    schema["properties"] = {"b": ref("d1")}
    found = take(schema)
    assert found.visits == found.words
    assert found.deepest == len(found.visits) - 1
    assert found.visits[1] == 2 * found.visits[0]
    assert found.visits[-1] * 2 > effort.BUDGET


def test_a_loop_that_does_not_grow_is_known_for_some_levels() -> None:
    defs = {"a": {"items": ref("b")}, "b": {"items": ref("a")}}
    found = take({"prefixItems": [ref("a"), ref("b")], "$defs": defs})
    assert found.deepest == effort.MAX_LEVELS - 1
    assert set(found.visits) == {2}


@pytest.mark.parametrize(
    ("schema", "words"),
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
        (
            {
                "properties": {f"p{i}": {"anyOf": [ref(f"d{j}") for j in range(90)]} for i in range(90)},
                "$defs": {f"d{j}": {"properties": {f"q{k}": {} for k in range(9)}} for j in range(90)},
            },
            "too intertwined",
        ),
    ],
)
def test_what_nothing_could_be_checked_against_is_refused(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSchemaError, match=words):
        take(schema)


def test_values_are_refused_for_what_they_would_cost() -> None:
    found = Effort((1, 1_000, 0), (1,))
    assert found.refuse({"a": [1] * 100_000}) is None
    assert found.refuse({str(i): i for i in range(1_999)}) is None
    assert found.refuse([1] * 2_000) == "too much for this schema to check (2000 values 1 levels deep)"
    assert not found.is_light


def test_the_last_figure_holds_for_all_deeper_levels() -> None:
    assert Effort((1, effort.BUDGET // 2), (1,)).refuse([[]]) is None
    assert Effort((1, effort.BUDGET // 2), (1,)).refuse([[[]]]) == (
        "too much for this schema to check (1 values 2 levels deep)"
    )


def test_values_are_refused_for_their_depth() -> None:
    found = Effort((1,), (1,), deepest=2)
    assert found.refuse([[1]]) is None
    assert found.refuse({"a": ({"b": 1},)}) == "nested deeper than 2 levels"
    assert not found.is_light


def test_values_are_refused_for_long_names() -> None:
    found = take({"patternProperties": {"x": {}}}, longest_name=3)
    assert found.refuse({"abc": [{"abc": 1, 5: 1}]}) is None
    assert found.refuse({"abc": [{"abcd": 1}]}) == "a name is longer than 3 characters"
    assert not found.is_light


def test_explaining_has_a_price_of_its_own() -> None:
    found = Effort((1,), (1, 10))
    assert not found.is_wordy([1] * 10, 101)
    assert found.is_wordy([1] * 11, 101)
