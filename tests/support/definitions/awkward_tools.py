"""Forty tools that are hard to export, each with valid arguments.

Schemas that type hints cannot express, unusual names, schemas that grow when expanded, and some plain ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolcrib import Tool
from toolcrib.definition import ToolDefinition
from toolcrib.sources.described import describe

ANYTHING = {"type": ["string", "number", "boolean", "object", "array", "null"]}
TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
PERSON = {
    "type": "object",
    "properties": {"name": {**TEXT, "description": "In full"}, "age": {**WHOLE, "minimum": 0}},
    "required": ["name"],
}
LONG = "read_the_quarterly_report_of_every_department_and_write_a_summary_for_the_board"


@dataclass(frozen=True)
class Awkward:
    """A tool and arguments that fit it. `is_exportable` is False if no provider accepts it."""

    name: str
    schema: dict[str, Any]
    arguments: dict[str, Any]
    description: str = "Do something awkward."
    is_exportable: bool = True

    @property
    def tool(self) -> Tool:
        return describe(ToolDefinition(self.name, self.description, self.schema))


def of(properties: dict[str, Any], required: list[str] | None = None, **more: Any) -> dict[str, Any]:
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **needed, **more}


def _deep(levels: int) -> dict[str, Any]:
    node: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        node = of({"in": node}, ["in"])
    return node


def _deep_value(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = {"in": value}
    return value


def _bomb(levels: int) -> dict[str, Any]:
    defs: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(1, levels):
        inner = {"$ref": f"#/$defs/d{level - 1}"}
        defs[f"d{level}"] = of({"l": inner, "r": inner, "m": inner})
    return of({"x": {"$ref": f"#/$defs/d{levels - 1}"}}, **{"$defs": defs})


TREE = of(
    {"root": {"$ref": "#/$defs/node"}},
    ["root"],
    **{
        "$defs": {
            "node": of(
                {"value": WHOLE, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, ["value"]
            )
        }
    },
)
SHAPES = {
    "oneOf": [
        of(
            {"kind": {"const": "circle"}, "radius": {"type": "number", "exclusiveMinimum": 0}},
            ["kind", "radius"],
        ),
        of({"kind": {"const": "square"}, "side": {"type": "number"}}, ["kind", "side"]),
    ]
}

AWKWARD = [
    Awkward("nothing_at_all", {"type": "object"}, {}),
    Awkward("no_parameters", of({}), {}),
    Awkward("no_words", of({"a": WHOLE}, ["a"]), {"a": 1}, description=""),
    Awkward("closed", of({"a": WHOLE}, ["a"], additionalProperties=False), {"a": 1}),
    Awkward(
        "permissive", of({"value": ANYTHING, "more": {}}, ["value"]), {"value": [1, "a"], "more": {"x": None}}
    ),
    Awkward("bare_list", of({"items": {"type": "array"}}, ["items"]), {"items": [1, "two"]}),
    Awkward("bare_object", of({"options": {"type": "object"}}, ["options"]), {"options": {"deep": [1]}}),
    Awkward(
        "map_of_numbers",
        of({"prices": {"type": "object", "additionalProperties": {"type": "number"}}}),
        {"prices": {"tea": 2.5}},
    ),
    Awkward(
        "nullable",
        of({"note": {"type": ["string", "null"], "default": None}, "count": WHOLE}, ["count"]),
        {"count": 2, "note": "x"},
    ),
    Awkward(
        "patch", of({"title": {"type": ["string", "null"]}, "id": WHOLE}, ["id"]), {"id": 1, "title": None}
    ),
    Awkward(
        "several_types",
        of({"id": {"type": ["integer", "string"], "minLength": 2, "minimum": 5}}, ["id"]),
        {"id": "ab"},
    ),
    Awkward(
        "references",
        of(
            {"who": {"$ref": "#/$defs/person"}, "also": {"$ref": "#/$defs/person", "description": "Another"}},
            ["who"],
            **{"$defs": {"person": PERSON}},
        ),
        {"who": {"name": "Ada", "age": 36}},
    ),
    Awkward(
        "odd_pointers",
        of({"a": {"$ref": "#/properties/b~1c"}, "b/c": {"type": "string", "maxLength": 3}}, ["a"]),
        {"a": "abc", "b/c": "x"},
    ),
    Awkward(
        "old_draft",
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "type": "object",
            "definitions": {"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}},
            "properties": {
                "n": {"$ref": "#/definitions/n"},
                "pair": {"type": "array", "items": [WHOLE, TEXT], "additionalItems": False},
            },
            "required": ["n"],
        },
        {"n": 1, "pair": [1, "a"]},
    ),
    Awkward(
        "seventh_draft",
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"a": WHOLE, "b": WHOLE},
            "dependencies": {"a": ["b"]},
        },
        {"a": 1, "b": 2},
    ),
    Awkward("tree", TREE, {"root": {"value": 1, "kids": [{"value": 2}]}}),
    Awkward("bomb", _bomb(9), {"x": {}}, is_exportable=False),
    Awkward(
        "anchored",
        of({"a": {"$ref": "#here"}}, **{"$defs": {"x": {"$anchor": "here", "type": "string"}}}),
        {"a": "x"},
        is_exportable=False,
    ),
    Awkward(
        "either",
        {**of({"id": WHOLE, "name": TEXT}), "anyOf": [{"required": ["id"]}, {"required": ["name"]}]},
        {"name": "Ada"},
    ),
    Awkward(
        "exactly_one",
        {
            **of({"url": TEXT, "path": TEXT}, additionalProperties=False),
            "oneOf": [{"required": ["url"]}, {"required": ["path"]}],
        },
        {"url": "x"},
    ),
    Awkward(
        "all_at_once",
        {
            "type": "object",
            "allOf": [of({"a": WHOLE}, ["a"]), of({"b": {"type": "string", "minLength": 1}}, ["b"])],
        },
        {"a": 1, "b": "x"},
    ),
    Awkward("a_union", of({"shape": SHAPES}, ["shape"]), {"shape": {"kind": "circle", "radius": 2.5}}),
    Awkward("a_union_on_top", {"type": "object", **SHAPES}, {"kind": "square", "side": 2}),
    Awkward(
        "choices_of_numbers",
        of({"level": {"enum": [1, 2, 3]}, "odd": {"enum": [1, 5]}}, ["level"]),
        {"level": 2, "odd": 5},
    ),
    Awkward("mixed_choices", of({"mode": {"enum": ["auto", 0, None, True, ""]}}, ["mode"]), {"mode": "auto"}),
    Awkward(
        "many_choices",
        of(
            {"city": {"type": "string", "enum": [f"city number {number}" for number in range(1_500)]}},
            ["city"],
        ),
        {"city": "city number 7"},
    ),
    Awkward(
        "rules",
        of(
            {
                "mail": {"type": "string", "format": "email", "minLength": 3},
                "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
                "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                "even": {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 2},
                "tags": {"type": "array", "items": TEXT, "uniqueItems": True, "maxItems": 3},
            },
            ["mail"],
        ),
        {"mail": "a@b.example", "zip": "12345", "share": 0.5, "even": 4, "tags": ["a"]},
    ),
    Awkward(
        "a_pair",
        of(
            {
                "point": {
                    "type": "array",
                    "prefixItems": [{"type": "number"}, TEXT],
                    "items": False,
                    "minItems": 2,
                }
            },
            ["point"],
        ),
        {"point": [1.5, "north"]},
    ),
    Awkward(
        "conditions",
        {
            **of({"country": TEXT, "state": TEXT}, ["country"]),
            "if": {"properties": {"country": {"const": "US"}}},
            "then": {"required": ["state"]},
        },
        {"country": "US", "state": "NY"},
    ),
    Awkward(
        "dependent",
        of({"card": TEXT, "address": TEXT}, dependentRequired={"card": ["address"]}),
        {"card": "1", "address": "x"},
    ),
    Awkward(
        "patterned",
        of({"x": {"type": "object", "patternProperties": {"^x-": TEXT}, "additionalProperties": False}}),
        {"x": {"x-a": "b"}},
    ),
    Awkward(
        "unevaluated",
        {
            "type": "object",
            "allOf": [of({"a": WHOLE})],
            "properties": {"b": WHOLE},
            "unevaluatedProperties": False,
        },
        {"a": 1, "b": 2},
    ),
    Awkward(
        "yes_and_no",
        of({"any": True, "never": False, "not_text": {"not": {"type": "string"}}}),
        {"any": 1, "not_text": 5},
    ),
    Awkward("deep", of({"top": _deep(14)}, ["top"]), {"top": _deep_value(14)}),
    Awkward(
        "defaults",
        of(
            {
                "limit": {**WHOLE, "default": 10},
                "order": {"enum": ["asc", "desc"], "default": "asc"},
                "when": {"type": "string", "format": "date-time", "examples": ["2024-01-31T00:00:00Z"]},
            }
        ),
        {"limit": 5},
    ),
    Awkward(
        "odd_names",
        of(
            {"größe": WHOLE, "user-id": TEXT, "with space": {"type": "boolean"}, "1st": WHOLE, "": TEXT},
            ["größe", "user-id"],
        ),
        {"größe": 4, "user-id": "u", "with space": True, "1st": 1, "": "x"},
    ),
    Awkward(
        "nested_odd_names",
        of(
            {
                "filter": {
                    "type": "array",
                    "items": of({"content-type": TEXT, "content_type": TEXT}, ["content-type"]),
                }
            },
            ["filter"],
        ),
        {"filter": [{"content-type": "a", "content_type": "b"}]},
    ),
    Awkward("files.read/all", of({"path": TEXT}, ["path"]), {"path": "x"}),
    Awkward(LONG, of({"path": TEXT}, ["path"]), {"path": "x"}),
    Awkward(
        "markup",
        of({"a": {"type": "string", "description": "| a | <b>\n- no list"}}, ["a"]),
        {"a": "x"},
        description="# Not a heading\n\n[click](javascript:x) <script>alert(1)</script>\n- forged: entry",
    ),
]
