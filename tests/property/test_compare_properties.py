"""A change that is graded compatible is compatible: whatever was accepted before is accepted now.

Schemas are small and their values come from a small world, so that many of them are valid. Objects say
whether they accept undeclared names, except in one test: where nothing is said, those are assumed not to be
sent.
"""

from __future__ import annotations

import copy
from typing import Any

import jsonschema_rs
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.definitions.value_universe import NAMES, PLAIN, WORLD
from toolcrib import ToolDefinition
from toolcrib.catalog.compare import compare
from toolcrib.catalog.compare_schemas import Use, compare_schemas
from toolcrib.sources.described import describe

SCALARS = st.sampled_from(PLAIN)
SMALL = st.integers(0, 3)
USES: tuple[Use, Use] = ("input", "output")


def some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


def plain_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    kinds = {
        "integer": some(minimum=SMALL, maximum=SMALL, exclusiveMinimum=SMALL, multipleOf=st.integers(1, 3)),
        "number": some(minimum=SMALL, exclusiveMaximum=SMALL, multipleOf=st.sampled_from([1, 2, 0.5])),
        "string": some(minLength=SMALL, maxLength=SMALL, pattern=st.sampled_from(["^a", "b$"])),
        "array": some(
            items=inner,
            minItems=SMALL,
            maxItems=SMALL,
            uniqueItems=st.booleans(),
            prefixItems=st.lists(inner, min_size=1, max_size=2),
            contains=inner,
            minContains=SMALL,
        ),
        "object": st.builds(
            lambda rest, facts: {"additionalProperties": rest, **facts},
            st.booleans() | inner,
            some(
                properties=names,
                required=st.lists(st.sampled_from(NAMES), unique=True, max_size=2),
                minProperties=SMALL,
                maxProperties=SMALL,
                patternProperties=st.fixed_dictionaries({"^[ab]": inner}),
                unevaluatedProperties=st.booleans(),
            ),
        ),
        "null": st.just({}),
        "boolean": st.just({}),
    }
    typed = st.one_of([facts.map(lambda f, k=kind: {"type": k, **f}) for kind, facts in kinds.items()])
    untyped = st.one_of(list(kinds.values()))
    several = st.builds(
        lambda types, facts: {**facts, "type": types},
        st.lists(st.sampled_from(sorted(kinds)), unique=True, min_size=1, max_size=3),
        untyped,
    )
    return typed | untyped | several


def combined_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        plain_schemas(inner),
        plain_schemas(inner),
        st.lists(SCALARS, min_size=1, max_size=4).map(lambda values: {"enum": values}),
        SCALARS.map(lambda value: {"const": value}),
        parts.map(lambda p: {"anyOf": p}),
        parts.map(lambda p: {"oneOf": p}),
        parts.map(lambda p: {"allOf": p}),
        inner.map(lambda p: {"not": p}),
        st.builds(lambda a, b, c: {"if": a, "then": b, "else": c}, inner, inner, inner),
        st.builds(
            lambda a, b: {**a, **b} if isinstance(a, dict) else a,
            plain_schemas(inner),
            inner.filter(lambda n: isinstance(n, dict)),
        ),
        st.booleans(),
        st.sampled_from(
            [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x", "minLength": 1}, {"$ref": "#/$defs/y"}]
        ),
    )


LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": ["number", "null"]},
        {"enum": ["a", 1]},
        {},
        True,
        False,
    ]
)
SCHEMAS = st.recursive(LEAVES.map(copy.deepcopy), combined_schemas, max_leaves=4)
DOCUMENTS = st.builds(
    lambda node, x, y: {**node, "$defs": {"x": x, "y": y}},
    combined_schemas(SCHEMAS).filter(lambda node: isinstance(node, dict)),
    plain_schemas(SCHEMAS),
    plain_schemas(SCHEMAS),
)


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """The same document with something changed somewhere, up to three times."""
    new = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        nodes = [node for node in _nodes(new) if isinstance(node, dict)]
        node = draw(st.sampled_from(nodes))
        keys = sorted(node.keys() - {"$defs"})
        deed = draw(st.sampled_from(["drop", "nudge", "add", "exchange"]))
        if deed == "drop" and keys:
            del node[draw(st.sampled_from(keys))]
        elif deed == "nudge" and (numbers := [key for key in keys if type(node[key]) is int]):
            node[draw(st.sampled_from(numbers))] += draw(st.sampled_from([-1, 1]))
        elif deed == "add":
            node |= copy.deepcopy(draw(plain_schemas(SCHEMAS)))
        elif keys:
            key = draw(st.sampled_from(keys))
            if isinstance(node[key], list) and node[key]:
                node[key].pop() if draw(st.booleans()) else node[key].append(draw(SCALARS))
            elif isinstance(node[key], dict):
                node[key] = copy.deepcopy(draw(combined_schemas(SCHEMAS)))
    return new


def _nodes(node: Any) -> list[Any]:
    found = [node]
    for item in found:
        found += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    return found


def compile_all(*schemas: Any) -> list[Any]:
    try:
        return [jsonschema_rs.validator_for(schema) for schema in schemas]
    except (ValueError, jsonschema_rs.ValidationError):
        assume(False)
        raise


@given(st.data())
def test_no_value_proves_a_compatible_change_to_be_breaking(data: st.DataObject) -> None:
    """New fields of results are an exception: readers do not look at them."""
    old = data.draw(DOCUMENTS)
    new = data.draw(changed(old) | DOCUMENTS)
    first, second = compile_all(old, new)
    taken, given_back = (compare_schemas(old, new, use, "") for use in USES)
    if not any(item.grade == "breaking" for item in taken):
        for value in WORLD:
            assert not first.is_valid(value) or second.is_valid(value), value
    if not any(item.grade == "breaking" or item.code == "added" for item in given_back):
        for value in WORLD:
            assert not second.is_valid(value) or first.is_valid(value), value


# --- changes of known direction --------------------------------------------------------------------------

PARAMETERS = st.fixed_dictionaries(
    {
        "a": some(minimum=SMALL, maximum=st.integers(4, 6)).map(lambda f: {"type": "integer", **f}),
        "b": st.lists(st.sampled_from("xyz"), unique=True, min_size=2).map(lambda v: {"enum": v}),
        "c": SMALL.map(lambda n: {"type": "array", "items": {"type": "string"}, "maxItems": n}),
    }
)
WIDER = st.sampled_from(
    [
        ("a", lambda n: n | {"type": ["integer", "null"]}),
        ("a", lambda n: n | {"type": "number"}),
        ("a", lambda n: {"anyOf": [n, {"type": "string"}]}),
        ("a", lambda n: n | {"maximum": n.get("maximum", 3) + 1} if "maximum" in n else {"type": "number"}),
        ("b", lambda n: {"enum": [*n["enum"], "more"]}),
        ("b", lambda _: {"type": "string"}),
        ("c", lambda n: n | {"maxItems": n["maxItems"] + 1}),
        ("c", lambda n: n | {"items": {"type": ["string", "integer"]}}),
        ("c", lambda _: {}),
    ]
)


@given(st.data(), PARAMETERS, WIDER, st.sets(st.sampled_from(NAMES)))
def test_widening_is_compatible_for_arguments_and_breaking_for_results(
    data: st.DataObject, names: Any, widening: Any, required: set[str]
) -> None:
    old = {"type": "object", "properties": names, "required": sorted(required)}
    name, widen = widening
    new = copy.deepcopy(old)
    new["properties"][name] = widen(names[name])
    assert {item.grade for item in compare_schemas(old, new, "input", "")} == {"compatible"}
    assert {item.grade for item in compare_schemas(new, old, "output", "")} == {"compatible"}
    for use, pair in (("input", (new, old)), ("output", (old, new))):
        assert "breaking" in {item.grade for item in compare_schemas(*pair, use, "")}
    if data.draw(st.booleans()):
        need = copy.deepcopy(new)
        need["required"] = sorted(required | {name})
        is_new = name not in required
        assert ("breaking" in {i.grade for i in compare_schemas(old, need, "input", "")}) is is_new


@given(DOCUMENTS, st.data())
def test_every_pair_of_definitions_can_be_compared_and_equal_ones_have_no_changes(
    old: Any, data: st.DataObject
) -> None:
    new = data.draw(
        changed(old) | DOCUMENTS | st.dictionaries(st.text(max_size=3), st.sampled_from(WORLD), max_size=3)
    )
    tools = [
        describe(ToolDefinition("thing", "Does it.", input_schema=schema, output_schema=schema))
        for schema in (old, new)
    ]
    assert compare([tools[0]], [tools[0]]).changes == []
    found = compare([tools[0]], [tools[1]])
    is_same = tools[0].origin.fingerprint == tools[1].origin.fingerprint
    assert is_same is (not found.changes)
    for change in found.changes:
        assert change.message
        assert change.to_json()["grade"] == change.grade
