"""Comparing schemas: every change of arguments and results has a grade, a path and a message."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from toolcrib import Tool, ToolDefinition
from toolcrib.catalog.compare import compare
from toolcrib.sources.described import describe

CLOSED = {"type": "object", "additionalProperties": False}
NODE = {
    "type": "object",
    "properties": {"node": {"$ref": "#/$defs/Node"}, "other": {"$ref": "#/$defs/Node"}},
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
            },
        }
    },
}


def make(name: str = "find_orders", description: str = "Find orders by status.", **facts: Any) -> Tool:
    facts.setdefault("input_schema", {"type": "object", "properties": {"status": {"type": "string"}}})
    return describe(ToolDefinition(name, description, **facts))


def taking(schema: Any, *, required: bool = False) -> Tool:
    """A tool with one parameter, `limit`."""
    more = {"required": ["limit"]} if required else {}
    return make(input_schema={"type": "object", "properties": {"limit": schema}, **more})


def giving(schema: Any) -> Tool:
    return make(output_schema=schema)


def grades(old: Tool, new: Tool) -> list[tuple[str, str]]:
    return [(change.grade, change.message) for change in compare([old], [new]).changes]


# --- arguments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "keyword"),
    [
        *(("number", keyword) for keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")),
        *(("string", keyword) for keyword in ("minLength", "maxLength")),
        *(("array", keyword) for keyword in ("minItems", "maxItems")),
        *(("object", keyword) for keyword in ("minProperties", "maxProperties")),
    ],
)
def test_a_bound_breaks_callers_in_one_direction(kind: str, keyword: str) -> None:
    low, high = (taking({"type": kind, keyword: bound}) for bound in (5, 10))
    is_upper = "max" in keyword.lower()
    lowered, raised = (compare([old], [new]).changes for old, new in ((high, low), (low, high)))
    assert [change.grade for change in lowered] == ["breaking" if is_upper else "compatible"]
    assert [change.grade for change in raised] == ["compatible" if is_upper else "breaking"]


@pytest.mark.parametrize(
    ("old", "new", "grade", "words"),
    [
        (
            {"type": "integer"},
            {"type": "string"},
            "breaking",
            "the type of `limit` was `integer` and is now `string`",
        ),
        (
            {"type": "integer"},
            {"type": "number"},
            "compatible",
            "the type of `limit` was `integer` and is now `number`",
        ),
        (
            {"type": "integer"},
            {"type": ["integer", "null"]},
            "compatible",
            'the type of `limit` was `integer` and is now `["null","integer"]`',
        ),
        (
            {"type": ["integer", "null"]},
            {"type": "integer"},
            "breaking",
            'the type of `limit` was `["null","integer"]` and is now `integer`',
        ),
        (
            {"enum": ["a", "b"]},
            {"enum": ["a"]},
            "breaking",
            'the enum of `limit` was `["a","b"]` and is now `["a"]`',
        ),
        (
            {"enum": ["a"]},
            {"enum": ["a", "b"]},
            "compatible",
            'the enum of `limit` was `["a"]` and is now `["a","b"]`',
        ),
        ({"type": "string"}, {"enum": ["a", "b"]}, "breaking", "`limit` now rejects some values"),
        ({"enum": ["a"]}, {"type": "string"}, "compatible", "`limit` now accepts more values"),
        (
            {"type": "integer", "minimum": 1},
            {"type": "integer", "minimum": 5},
            "breaking",
            "the minimum of `limit` was `1` and is now `5`",
        ),
        (
            {"type": "integer", "maximum": 10},
            {"type": "integer"},
            "compatible",
            "the maximum of `limit`, `10`, was removed",
        ),
        (
            {"type": "string"},
            {"type": "string", "pattern": "^a"},
            "breaking",
            "the pattern of `limit` is now `^a`",
        ),
        (
            {"type": "string", "format": "date"},
            {"type": "string"},
            "compatible",
            "the format of `limit`, `date`, was removed",
        ),
        (
            {"type": "array", "items": {"type": "string"}},
            {"type": "array", "items": {"type": "integer"}},
            "breaking",
            "the type of `limit[]` was `string` and is now `integer`",
        ),
        (
            {"type": "string", "contentEncoding": "base64"},
            {"type": "string", "contentEncoding": "base16"},
            "breaking",
            "the contentEncoding of `limit` was `base64` and is now `base16`",
        ),
        (
            {"type": ["integer", "null"], "format": "int64"},
            {"type": ["integer", "null"]},
            "compatible",
            "the format of `limit`, `int64`, was removed",
        ),
        ({"type": "object"}, CLOSED, "breaking", "`limit` no longer accepts undeclared names"),
        (
            {"type": "string", "not": {"pattern": "^a"}},
            {"type": "string", "not": {"pattern": "^ab"}},
            "breaking",
            "`limit` changed in a way that cannot be compared: it may break callers",
        ),
        ({"type": "string"}, {}, "compatible", "the type of `limit`, `string`, was removed"),
        (
            {"oneOf": [{"type": "integer"}, {"type": "string"}]},
            {"type": "integer"},
            "breaking",
            'the type of `limit` was `["integer","string"]` and is now `integer`',
        ),
    ],
)
def test_a_changed_parameter_is_graded_by_what_is_still_accepted(
    old: Any, new: Any, grade: str, words: str
) -> None:
    assert grades(taking(old), taking(new)) == [(grade, words)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": ["null", "string"]}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}),
        ({"const": "a"}, {"enum": ["a"]}),
        ({"allOf": [{"type": "integer"}]}, {"type": "integer"}),
        ({"type": "boolean"}, {"enum": [True, False]}),
        ({"enum": ["a", "b"]}, {"enum": ["b", "a"]}),
    ],
)
def test_an_equivalent_schema_is_cosmetic(old: Any, new: Any) -> None:
    expected = [("cosmetic", "its schema is written differently and means the same")]
    assert grades(taking(old), taking(new)) == expected == grades(taking(new), taking(old))


def test_parameters_that_are_added_removed_and_become_required() -> None:
    old = make(
        input_schema={"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    )
    new = make(
        input_schema={
            "type": "object",
            "properties": {"b": {"type": "integer"}, "c": {"type": "boolean"}, "d": {"type": "array"}},
            "required": ["b", "d"],
        }
    )
    assert grades(old, new) == [
        ("breaking", "`a` was removed: callers that still send it will fail"),
        ("breaking", "`b` is now required: callers that do not send it will fail"),
        ("breaking", "`d` is new and required: callers that do not send it will fail"),
        ("compatible", "`c` is new and optional"),
    ]
    assert ("compatible", "`b` is now optional") in grades(new, old)


def test_nested_changes_have_a_path_and_a_pointer() -> None:
    def tool(kind: str) -> Tool:
        inner = {"type": "array", "items": {"type": "object", "properties": {"id": {"type": kind}}}}
        return taking({"type": "object", "properties": {"orders": inner}})

    (change,) = compare([tool("integer")], [tool("string")]).changes
    assert change.message == "the type of `limit.orders[].id` was `integer` and is now `string`"
    assert change.pointer == "/inputSchema/properties/limit/properties/orders/items/properties/id/type"
    assert (change.old, change.new) == ('"integer"', '"string"')


def test_recursive_schemas_are_compared_once() -> None:
    wider = copy.deepcopy(NODE)
    wider["$defs"]["Node"]["properties"]["value"] = {"type": "number"}  # type: ignore[index]
    found = grades(make(input_schema=NODE), make(input_schema=wider))
    assert found == [
        ("compatible", "the type of `node.value` was `integer` and is now `number`"),
        ("compatible", "the type of `other.value` was `integer` and is now `number`"),
    ]
    assert [grade for grade, _ in grades(make(input_schema=wider), make(input_schema=NODE))] == [
        "breaking"
    ] * 2


def test_a_changed_default_is_compatible() -> None:
    found = grades(taking({"type": "integer", "default": 10}), taking({"type": "integer", "default": 20}))
    assert found == [("compatible", "the default of `limit` was `10` and is now `20`")]


# --- results ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "grade", "words"),
    [
        (
            {"type": "integer"},
            {"type": ["integer", "null"]},
            "breaking",
            'the type of the result was `integer` and is now `["null","integer"]`',
        ),
        (
            {"type": ["integer", "null"]},
            {"type": "integer"},
            "compatible",
            'the type of the result was `["null","integer"]` and is now `integer`',
        ),
        (
            {"enum": ["a"]},
            {"enum": ["a", "b"]},
            "breaking",
            'the enum of the result was `["a"]` and is now `["a","b"]`',
        ),
        (
            {"enum": ["a", "b"]},
            {"enum": ["a"]},
            "compatible",
            'the enum of the result was `["a","b"]` and is now `["a"]`',
        ),
        (None, {"type": "string"}, "compatible", "its result now has a schema"),
        (
            {"type": "string"},
            None,
            "breaking",
            "its result no longer has a schema: readers of structured results will fail",
        ),
    ],
)
def test_a_changed_result_is_graded_by_what_readers_may_get(
    old: Any, new: Any, grade: str, words: str
) -> None:
    assert grades(giving(old), giving(new)) == [(grade, words)]


def test_fields_of_results_may_be_added_but_not_removed() -> None:
    old = giving({**CLOSED, "properties": {"a": {"type": "string"}}, "required": ["a"]})
    new = giving({**CLOSED, "properties": {"a": {"type": "string"}, "b": {"type": "string"}}})
    assert grades(old, new) == [
        ("breaking", "`a` of the result may now be missing: readers that rely on it will fail"),
        ("compatible", "`b` of the result is new"),
    ]
    assert ("breaking", "`b` of the result was removed: readers that use it will fail") in grades(new, old)


@pytest.mark.parametrize(
    "malformed",
    [{"anyOf": 7}, {"properties": 5}, {"enum": 3}, {"enum": []}, {"required": 1}, {"type": 5}, {"$ref": 1}],
)
def test_a_malformed_schema_cannot_be_compared(malformed: dict[str, Any]) -> None:
    for old, new in ((taking(malformed), taking({"type": "string"})), (giving({"a": 1}), giving(malformed))):
        assert compare([old], [new]).changes
        assert compare([new], [old]).changes


def test_recursion_in_a_negation_cannot_be_compared() -> None:
    def nested(value: str) -> Tool:
        child = {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}, "required": ["child"]}
        node = {"type": "object", "properties": {"value": {"type": value}}, "not": child}
        properties = {"node": {"$ref": "#/$defs/node"}}
        return make(input_schema={"type": "object", "properties": properties, "$defs": {"node": node}})

    # {"value": 1, "child": {"value": 1.5}} was a node because its child was none.
    assert {grade for grade, _ in grades(nested("integer"), nested("number"))} == {"breaking"}


def test_a_field_may_not_have_values_that_other_names_could_not_have() -> None:
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    number = {**texts, "properties": {"count": {"type": "integer"}}}
    assert grades(giving(texts), giving(number)) == [
        ("breaking", "`count` of the result had other values while it was not declared"),
        ("compatible", "`count` of the result is new"),
    ]
