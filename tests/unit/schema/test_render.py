"""Shapes written as JSON Schema."""

from __future__ import annotations

from typing import Any

from toolcrib.schema.render import arguments_schema
from toolcrib.schema.shapes import (
    Array,
    External,
    Field,
    FixedArray,
    Named,
    Record,
    Scalar,
    Shape,
)
from toolcrib.validation.validator import check_schema

TEXT = Scalar("string")


def foreign(schema: dict[str, Any]) -> External:
    return External(schema, lambda value: value, lambda value: value)


def record(name: str, **fields: Shape) -> Named:
    return Named(name, Record(name, [Field(key, shape) for key, shape in fields.items()]))


def test_anything_that_is_used_once_is_in_its_place() -> None:
    assert "$defs" not in arguments_schema([Field("a", record("Point", x=TEXT))])


def test_anything_that_is_used_twice_is_defined_once() -> None:
    point = record("Point", x=TEXT)
    schema = arguments_schema(
        [Field("a", point), Field("b", Array(FixedArray((point, point))), description="many")]
    )
    assert schema == {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/Point"},
            "b": {
                "type": "array",
                "items": {
                    "type": "array",
                    "prefixItems": [{"$ref": "#/$defs/Point"}, {"$ref": "#/$defs/Point"}],
                    "minItems": 2,
                    "maxItems": 2,
                },
                "description": "many",
            },
        },
        "required": ["a", "b"],
        "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}},
    }
    check_schema(schema)


def test_names_that_are_taken_get_a_number() -> None:
    points = [record("Point", x=TEXT), record("Point", y=TEXT), record("Point", z=TEXT)]
    schema = arguments_schema(
        [Field(str(index), FixedArray((point, point))) for index, point in enumerate(points)]
    )
    assert sorted(schema["$defs"]) == ["Point", "Point2", "Point3"]
    check_schema(schema)


def test_definitions_of_another_engine_move_to_the_root() -> None:
    point = record("Point", x=TEXT)
    strange = {
        "anyOf": [{"$ref": "#/$defs/Point"}, {"$ref": "#elsewhere"}, "not a schema"],
        "$defs": {"Point": {"type": "object", "properties": {"again": {"$ref": "#/$defs/Point"}}}},
    }
    schema = arguments_schema(
        [Field("a", point), Field("b", point), Field("c", foreign(strange)), Field("d", foreign(strange))]
    )
    assert schema["properties"]["c"]["anyOf"] == [
        {"$ref": "#/$defs/Point2"},
        {"$ref": "#elsewhere"},
        "not a schema",
    ]
    assert schema["$defs"]["Point2"]["properties"] == {"again": {"$ref": "#/$defs/Point2"}}
    assert schema["properties"]["d"]["anyOf"][0] == {"$ref": "#/$defs/Point2"}
    assert sorted(schema["$defs"]) == ["Point", "Point2"]


def test_a_definition_that_two_engine_schemas_share_is_published_once() -> None:
    shared, own = {"type": "string"}, {"type": "integer"}
    one = foreign({"$ref": "#/$defs/A", "$defs": {"A": own, "B": shared}})
    other = foreign({"$ref": "#/$defs/B", "$defs": {"B": shared, "C": own}})
    schema = arguments_schema([Field("x", one), Field("y", other)])
    assert list(schema["$defs"]) == ["A", "B", "C"]


def test_definitions_that_read_alike_but_refer_to_different_things_stay_apart() -> None:
    def linked(kind: str) -> External:
        inner = {"A": {"anyOf": [{"properties": {"b": {"$ref": "#/$defs/B"}}}]}, "B": {"type": kind}}
        return foreign({"$ref": "#/$defs/A", "$defs": inner})

    schema = arguments_schema([Field("one", linked("string")), Field("two", linked("integer"))])
    assert schema["properties"] == {"one": {"$ref": "#/$defs/A"}, "two": {"$ref": "#/$defs/A2"}}
    assert schema["$defs"]["A2"]["anyOf"][0]["properties"]["b"] == {"$ref": "#/$defs/B2"}
    assert (schema["$defs"]["B"], schema["$defs"]["B2"]) == ({"type": "string"}, {"type": "integer"})


def test_an_external_schema_is_never_changed_in_place() -> None:
    shape = foreign({"type": "string"})
    assert (
        arguments_schema([Field("a", shape, description="words")])["properties"]["a"]["description"]
        == "words"
    )
    assert shape.schema == {"type": "string"}


def test_the_description_of_a_class_is_published_once() -> None:
    described = Record("R", description="A thing")
    fields = [Field("a", described, description="A thing"), Field("b", described, description="This one")]
    schema = arguments_schema(fields)["properties"]
    assert schema["a"]["description"] == "A thing"
    assert schema["b"]["description"] == "This one\n\nA thing"
