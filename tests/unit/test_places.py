"""A schema as a graph: who looks at which place, and which ways lead back."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.errors import InvalidSchemaError
from toolcrib.validation.limits import Graph, Node, find_head, find_loops


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def graph(**schema: Any) -> Graph:
    if "defs" in schema:
        schema["$defs"] = schema.pop("defs")
    return Graph(schema)


def test_everything_that_is_applied_in_place_is_beside() -> None:
    top = graph(
        allOf=[{}, {}],
        anyOf=[{}],
        oneOf=[True],
        **{"not": {}, "if": {}, "then": {}, "else": {}, "$ref": "#/$defs/a", "$dynamicRef": "#b"},
        dependentSchemas={"x": {}},
        dependencies={"y": {}, "z": ["x"]},
        defs={"a": {}, "b": {"$dynamicAnchor": "b"}},
    ).top
    assert len(top.beside) == 4 + 4 + 1 + 2 + 2
    assert len(top.targets) == 2
    assert top.beside[-2:] == top.targets
    assert top.is_leaf


def test_objects_and_arrays_have_places_of_their_own() -> None:
    top = graph(
        properties={"a": {}, "b": {}},
        patternProperties={"^x": {}},
        additionalProperties={},
        unevaluatedProperties={},
        propertyNames={},
        prefixItems=[{}, {}],
        items={},
        contains={},
        unevaluatedItems={},
    ).top
    objects, arrays = top.objects, top.arrays
    assert [*objects.named] == ["a", "b"]
    assert (len(objects.others), len(objects.always), len(objects.names), objects.patterns) == (2, 1, 1, 1)
    assert [*arrays.named] == [0, 1]
    assert (len(arrays.others), len(arrays.always)) == (2, 1)
    assert not top.is_leaf
    assert len(set(top.children())) == 2 + 1 + 2 + 2 + 1 + 2


def test_old_drafts_list_the_first_items() -> None:
    arrays = graph(items=[{}, {}], additionalItems={}).top.arrays
    assert [*arrays.named] == [0, 1]
    assert len(arrays.others) == 1


def test_keywords_with_odd_values_are_left_to_the_engine() -> None:
    top = graph(
        allOf=5,
        properties=5,
        prefixItems=5,
        items=5,
        dependentSchemas=5,
        patternProperties=5,
        enum=5,
        **{"$ref": 5},
    ).top
    assert list(top.children()) == []


@pytest.mark.parametrize(
    ("schema", "weight"),
    [
        ({}, 1),
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
def test_a_look_costs_what_the_engine_takes_for_it(schema: dict[str, Any], weight: int) -> None:
    assert Graph(schema).top.weight == weight


def test_unevaluated_keywords_look_at_their_neighbours_again() -> None:
    assert graph(unevaluatedItems=False, anyOf=[{}]).top.factor == 3
    assert graph(unevaluatedProperties={}, anyOf=[{}]).top.factor == 3
    assert graph(anyOf=[{}]).top.factor == 1


@pytest.mark.parametrize(
    "reference",
    [
        *("#/$defs/a~1b~0c", "#/$defs/a~1b%7E0c", "#/%24defs/a~1b~0c", "#/allOf/0", "#/properties/default"),
        *("#/$defs/default/properties/const", "#named", "#old", "#older"),
    ],
)
def test_references_are_followed(reference: str) -> None:
    target = {"minimum": 1}
    schema = {
        "$defs": {"a/b~0c": {}, "a/b~c": target, "default": {"properties": {"const": target}}, "n": target},
        "properties": {"default": target, "x": {"$ref": reference}},
        "allOf": [target],
    }
    if not reference.startswith(("#/", "#%")):
        target["$anchor" if reference == "#named" else "$id" if reference == "#old" else "id"] = (
            "named" if reference == "#named" else reference
        )
        schema = {"$defs": {"n": target}, "properties": {"x": {"$ref": reference}}}
    graph = Graph(schema)
    assert graph.top.objects.named["x"].targets == [graph._nodes[id(target)]]


def test_an_empty_reference_means_the_whole() -> None:
    found = graph(properties={"a": {"$ref": "#"}})
    assert found.top.objects.named["a"].targets == [found.top]


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        *(
            (text, "does not exist")
            for text in ("#/$defs/b", "#x", "#/allOf/1", "#/allOf/x", "#/allOf/²", "#/type/a")
        ),
        ("#/$defs/a/default", "which is data"),
        ("#/$defs/a/enum/0", "which is data"),
    ],
)
def test_references_that_lead_nowhere_are_refused(reference: str, words: str) -> None:
    schema = {
        "type": "object",
        "$defs": {"a": {"default": {}, "enum": [{}]}},
        "allOf": [{}],
        "properties": {"x": {"$ref": reference}},
    }
    with pytest.raises(InvalidSchemaError, match=words):
        Graph(schema)


def test_several_anchors_are_told_apart() -> None:
    found = graph(
        prefixItems=[{"$ref": "#a"}, {"$ref": "#b"}], defs={"x": {"$anchor": "a"}, "y": {"$anchor": "b"}}
    )
    first, second = found.top.arrays.named.values()
    assert first.targets != second.targets


def test_an_anchor_may_be_set_once() -> None:
    with pytest.raises(InvalidSchemaError, match="anchor 'x' twice"):
        graph(**{"$ref": "#x"}, defs={"a": {"$anchor": "x"}, "b": {"$dynamicAnchor": "x"}})
    graph(**{"$ref": "#x"}, defs={"a": {"$anchor": "x"}, "b": {"default": {"$anchor": "x"}, "$id": "a.json"}})


# --- loops ---


def loops_of(**schema: Any) -> list[tuple[int, bool]]:
    """For each loop how many nodes it has, and whether it has a head."""
    found = graph(**schema)
    return sorted((len(loop), find_head(found, loop) is not None) for loop in find_loops(found))


NODE = {"properties": {"next": ref("n")}}


def test_a_tree_has_no_loop() -> None:
    assert loops_of(properties={"a": {"anyOf": [{}, {}]}}) == []
    assert loops_of(properties={"a": ref("x"), "b": ref("x")}, defs={"x": {"items": {}}}) == []


def test_a_type_that_refers_to_itself_is_a_loop_with_a_head() -> None:
    assert loops_of(properties={"a": ref("n"), "b": ref("n")}, defs={"n": NODE}) == [(2, True)]
    assert loops_of(properties={"a": {"$ref": "#"}}) == [(2, True)]
    # The reference is beside itself: one node, refused elsewhere.
    assert loops_of(**{"$ref": "#"}) == [(1, True)]


def test_types_that_refer_to_each_other_have_a_head_if_there_is_one_way_in() -> None:
    pair = {"n": {"properties": {"a": ref("m")}}, "m": {"items": ref("n")}}
    assert loops_of(properties={"x": ref("n")}, defs=pair) == [(4, True)]
    assert loops_of(properties={"x": ref("n"), "y": ref("m")}, defs=pair) == [(4, False)]


def test_two_loops_are_two() -> None:
    defs = {"n": NODE, "m": {"items": ref("m"), "contains": ref("n")}}
    assert loops_of(properties={"x": ref("m")}, defs=defs) == [(2, True), (2, True)]


def test_a_loop_within_a_loop_has_no_single_head() -> None:
    defs = {
        "n": {"properties": {"a": ref("m"), "b": ref("n")}},
        "m": {"properties": {"a": ref("m"), "b": ref("n")}},
    }
    assert loops_of(properties={"x": ref("n")}, defs=defs) == [(6, False)]


def test_a_way_around_that_is_no_reference_gives_no_head() -> None:
    inner = {"properties": {"c": {"$ref": "#/$defs/outer"}}}
    defs = {"outer": {"properties": {"b": inner}}}
    assert loops_of(properties={"x": {"$ref": "#/$defs/outer/properties/b"}}, defs=defs) == [(3, False)]


def test_nodes_are_compared_by_identity() -> None:
    assert Node() != Node()
