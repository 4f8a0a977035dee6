"""Schema bombs: expensive schemas with expensive data, and a program that tries them one by one.

The program runs in a separate process and writes one line of JSON for each bomb: its outcome and CPU time.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from toolcrib import DefinitionError, MCPServer, Tool
from toolcrib.validation import validator as validation

Bomb = Callable[[], tuple[dict[str, Any], dict[str, Any]]]
MARK = "PLACE"
"""Stands in a bomb for an address that must not be visited."""


def obj(**keywords: Any) -> dict[str, Any]:
    return {"type": "object", **keywords}


def prop(schema: Any, **keywords: Any) -> dict[str, Any]:
    return obj(properties={"a": schema}, **keywords)


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def nested(levels: int, leaf: Any = 1) -> Any:
    for _ in range(levels):
        leaf = {"a": leaf}
    return leaf


def wrapped(levels: int, wrap: Callable[[Any], Any], inner: Any) -> Any:
    for _ in range(levels):
        inner = wrap(inner)
    return inner


def chain(levels: int, keyword: str, width: int = 2, *, below: bool = False, back: bool = False) -> Any:
    """Definitions that each lead to the next one `width` times, in place or one level of the data deeper."""

    def lead(to: int) -> Any:
        target = ref(f"d{0 if back and to == levels else to}")
        return {"properties": {"a": target}} if below else target

    defs = {f"d{i}": {keyword: [lead(i + 1) for _ in range(width)]} for i in range(levels)}
    return obj(**ref("d0"), **{"$defs": {**defs, f"d{levels}": {"type": "object"}}})


def operators(count: int) -> dict[str, Any]:
    """Return a tree of tagged unions, as in filters and formulas: legitimate, with many branches."""
    names = [f"op{i}" for i in range(count)]
    defs: dict[str, Any] = {
        name: obj(properties={"op": {"const": name}, "a": ref("Any"), "b": ref("Any")}, required=["op"])
        for name in names
    }
    defs["Any"] = {"anyOf": [*map(ref, names), {"type": "number"}]}
    return prop(ref("Any"), **{"$defs": defs})


def formula(levels: int, op: str) -> Any:
    return {"op": op, "a": formula(levels - 1, op), "b": 1} if levels else 1


def pattern(text: str, value: str) -> Bomb:
    return lambda: (prop({"type": "string", "pattern": text}), {"a": value})


def elsewhere(**keywords: Any) -> Bomb:
    return lambda: (prop(keywords), {"a": {"b": 1}})


MEGA = 1 << 20

BOMBS: dict[str, Bomb] = {
    # deep and large
    "deep nesting": lambda: (wrapped(5_000, prop, {}), {}),
    "deep allOf": lambda: (obj(**wrapped(5_000, lambda s: {"allOf": [s]}, {})), {}),
    "deep data below a deep schema": lambda: (wrapped(31, prop, {"type": "string"}), nested(31)),
    "many parts": lambda: (obj(properties={f"p{i}": {} for i in range(100_000)}), {}),
    "huge enum": lambda: (prop({"enum": list(range(1_000_000))}), {"a": 1}),
    "enum of lists": lambda: (prop({"enum": [[list(range(100))] * 100] * 100}), {"a": 1}),
    "mixed enum times items": lambda: (
        prop({"items": {"enum": [None, *(f"v{i}" for i in range(9_000))]}}),
        {"a": ["v8999"] * 10_000},
    ),
    "enum of objects times items": lambda: (
        prop({"items": {"enum": [{"k": i} for i in range(900)]}}),
        {"a": [{"k": 899}] * 10_000},
    ),
    "one of thousands": lambda: (prop({"oneOf": [{"const": i} for i in range(5_000)]}), {"a": 1}),
    "one of hundreds times items": lambda: (
        prop({"items": {"oneOf": [{"const": i} for i in range(900)]}}),
        {"a": [899] * 10_000},
    ),
    "any of hundreds, all wrong": lambda: (
        prop({"items": {"anyOf": [{"type": "integer", "minimum": i} for i in range(900)]}}),
        {"a": [-1] * 2_000},
    ),
    # references
    "loop": lambda: (obj(**ref("a"), **{"$defs": {"a": ref("b"), "b": ref("a")}}), {}),
    "loop through allOf": lambda: (obj(**ref("a"), **{"$defs": {"a": {"allOf": [ref("a")]}}}), {}),
    "loop at the root": lambda: (obj(**{"$ref": "#"}), {}),
    "dynamic loop": lambda: (obj(**{"$dynamicAnchor": "x", "$dynamicRef": "#x"}), {}),
    "recursive loop": lambda: (
        obj(**{"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": "#"}),
        {},
    ),
    "anchor loop": lambda: (obj(**{"$ref": "#x", "$defs": {"x": {"$anchor": "x", "$ref": "#x"}}}), {}),
    "the same anchor twice": lambda: (
        obj(**{"$ref": "#x", "$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x", "allOf": [ref("b")]}}}),
        {},
    ),
    "loop behind an inner $id": lambda: (
        prop({"$id": "urn:inner", "$ref": "#/$defs/a", "$defs": {"a": ref("a")}}, **{"$defs": {"a": {}}}),
        {"a": 1},
    ),
    "reference into data": lambda: (
        prop({"default": {"pattern": "x"}, "$ref": "#/properties/a/default"}),
        {},
    ),
    "reference to nothing": lambda: (prop(ref("missing")), {"a": 1}),
    "long chain of references": lambda: (
        obj(**ref("d0"), **{"$defs": {**{f"d{i}": ref(f"d{i + 1}") for i in range(400)}, "d400": {}}}),
        {},
    ),
    # things that multiply
    **{
        f"doubling {keyword} {levels} times": lambda keyword=keyword, levels=levels: (
            chain(levels, keyword),
            {},
        )
        for keyword in ("allOf", "anyOf", "oneOf")
        for levels in (8, 16, 30)
    },
    **{
        f"doubling {keyword} below, {levels} levels": lambda keyword=keyword, levels=levels: (
            chain(levels, keyword, below=True),
            nested(levels, "x"),
        )
        for keyword in ("allOf", "anyOf", "oneOf")
        for levels in (12, 18, 30)
    },
    "doubling around a long loop": lambda: (chain(20, "anyOf", below=True, back=True), nested(19, "x")),
    "branching recursion": lambda: (chain(1, "anyOf", 3, below=True, back=True), nested(60, "x")),
    "branching recursion, two ways in": lambda: (
        {**chain(8, "anyOf", below=True, back=True), "properties": {"a": ref("d4")}},
        nested(30, "x"),
    ),
    "twenty operators, wrong at the bottom": lambda: (operators(20), {"a": formula(25, "nothing")}),
    **{
        f"{count} types that contain each other, {keyword}": lambda keyword=keyword, count=count: (
            prop(
                ref("d0"),
                **{
                    "$defs": {
                        f"d{i}": {keyword: [prop(ref(f"d{j}"), required=["a"]) for j in range(count)]}
                        for i in range(count)
                    }
                },
            ),
            nested(60, "x"),
        )
        for keyword in ("oneOf", "allOf")
        for count in (4, 7, 12)
    },
    "recursion into deep data": lambda: (prop({"$ref": "#"}), nested(100_000, {})),
    "unevaluated over unevaluated": lambda: (
        obj(
            **wrapped(
                20, lambda s: {"anyOf": [s], "unevaluatedProperties": False}, {"properties": {"a": True}}
            )
        ),
        {"a": 1},
    ),
    "unevaluated items over unevaluated items": lambda: (
        prop(wrapped(20, lambda s: {"anyOf": [s], "unevaluatedItems": False}, {"prefixItems": [True]})),
        {"a": [1]},
    ),
    "not not not": lambda: (obj(**{"not": wrapped(60, lambda s: {"not": s}, {})}), {}),
    "if within if": lambda: (
        obj(**wrapped(20, lambda s: {"if": s, "then": s}, {"minProperties": 1})),
        {"a": 1},
    ),
    "dependentSchemas, a chain": lambda: (
        obj(dependentSchemas={f"k{i}": {"required": [f"k{i + 1}"]} for i in range(900)}),
        {f"k{i}": i for i in range(901)},
    ),
    "dependencies of an old draft": lambda: (
        obj(
            **{"$schema": "http://json-schema.org/draft-07/schema#"},
            **wrapped(30, lambda s: {"dependencies": {"a": s, "b": s}}, {"minProperties": 1}),
        ),
        {"a": 1, "b": 1},
    ),
    "references across hundreds of parts": lambda: (
        obj(
            properties={f"p{i}": {"anyOf": [ref(f"d{j}") for j in range(30)]} for i in range(15)},
            **{
                "$defs": {
                    f"d{j}": {"properties": {f"q{k}": ref(f"d{(j + k) % 30}") for k in range(10)}}
                    for j in range(30)
                }
            },
        ),
        {"p0": {"q0": {"q1": {}}}},
    ),
    # patterns
    "nested quantifiers": pattern("^(a+)+$", "a" * MEGA + "b"),
    "nested alternatives": pattern("^(a|aa)+$", "a" * MEGA + "b"),
    "three stars": pattern("^(.*.*.*)=$", "a" * MEGA),
    "counted repetition": pattern("(a{1,40}){1,40}b", "a" * MEGA),
    "counted repetition, short text": pattern("(a{1,40}){1,40}b", "a" * 156),
    "thrice counted": pattern("((a{1,9}){1,9}){1,9}b", "a" * 342),
    "exponential automaton": pattern("^[ab]*a[ab]{200}[cd]$", "ab" * (MEGA // 2)),
    "exponential automaton, short text": pattern("^[ab]*a[ab]{200}[cd]$", "ab" * 600),
    "a pattern that fills the memory": pattern("((a{1,1000}){1,1000}){1,1000}", "a"),
    "a pattern of a megabyte": pattern("a" * MEGA, "a"),
    "look-ahead": pattern("(?=(a+)+$)b", "a" * 30),
    "back-reference": pattern(r"^(a+)\1+$", "a" * 30),
    "unclosed": pattern("(", "a"),
    "patterns for names": lambda: (
        obj(patternProperties={f"^a{i}[a-z]*$": {"type": "integer"} for i in range(900)}),
        {f"a{i}b": 1 for i in range(10_000)},
    ),
    "a costly pattern for a long name": lambda: (
        obj(patternProperties={"(a{1,40}){1,40}b": {}}),
        {"a" * MEGA: 1},
    ),
    "a costly pattern for names": lambda: (
        obj(propertyNames={"pattern": "(a{1,40}){1,40}b"}),
        {"a" * MEGA: 1},
    ),
    "a costly pattern of an old draft": lambda: (
        prop({"pattern": "(a{1,40}){1,40}b"}, **{"$schema": "http://json-schema.org/draft-04/schema#"}),
        {"a": "a" * MEGA},
    ),
    # values
    "unique objects": lambda: (
        prop({"uniqueItems": True}),
        {"a": [{"k": i, "deep": {"er": [i]}} for i in range(5_000)]},
    ),
    "unique, deep": lambda: (prop({"uniqueItems": True}), {"a": [nested(100_000), nested(99_999)]}),
    "contains, hundreds of thousands": lambda: (
        prop({"contains": {"const": 1}, "minContains": 10**30}),
        {"a": [0] * 200_000},
    ),
    "tiny multiple": lambda: (prop({"multipleOf": 5e-324}), {"a": 10**4_000}),
    "huge bounds": lambda: (prop({"minLength": 10**300, "maximum": 10**300}), {"a": "x"}),
    "infinite bound": lambda: (prop({"minimum": float("inf")}), {"a": 1}),
    "a million wrong items": lambda: (prop({"items": {"type": "integer"}}), {"a": ["x"] * 1_000_000}),
    "a million wrong items, two ways": lambda: (
        prop({"anyOf": [{"items": {"type": "integer"}}, {"items": {"type": "boolean"}}]}),
        {"a": ["x"] * 1_000_000},
    ),
    "a hundred thousand wrong names": lambda: (
        obj(properties={}, additionalProperties=False),
        {f"n{i}": 1 for i in range(100_000)},
    ),
    "text that spells deep data": lambda: (
        prop({"anyOf": [{"type": "array", "items": {"$ref": "#/properties/a"}}, {"type": "integer"}]}),
        {"a": "[" * 900 + "]" * 900},
    ),
    "text that spells a million items": lambda: (
        prop({"type": "array", "items": {"type": "boolean"}}),
        {"a": "[" + "1," * (MEGA // 2 - 2) + "1]"},
    ),
    # elsewhere
    "remote reference": elsewhere(**{"$ref": f"{MARK}/a.json"}),
    "remote dynamic reference": elsewhere(**{"$dynamicRef": f"{MARK}/a.json#x"}),
    "remote reference in the depths": lambda: (
        prop({"items": {"not": {"$ref": f"{MARK}/a.json"}}}),
        {"a": []},
    ),
    "remote meta-schema": lambda: (obj(**{"$schema": f"{MARK}/meta.json"}), {}),
    "remote id": lambda: (prop(ref("b"), **{"$id": f"{MARK}/id.json", "$defs": {"b": {}}}), {"a": 1}),
    "relative to a remote id": lambda: (prop({"$ref": "other.json"}, **{"$id": f"{MARK}/id.json"}), {"a": 1}),
    "remote id inside": elsewhere(**{"$id": f"{MARK}/inner.json", "$ref": "#/$defs/b"}),
    "remote id of an old draft": lambda: (
        prop({"id": f"{MARK}/x", "$ref": "#/y"}, **{"$schema": "http://json-schema.org/draft-04/schema#"}),
        {"a": 1},
    ),
    "local file": elsewhere(**{"$ref": "file://FILE"}),
    "local file, plain": elsewhere(**{"$ref": "FILE"}),
    "local file as meta-schema": lambda: (obj(**{"$schema": "file://FILE"}), {}),
}


def settle(value: Any, place: str, file: str) -> Any:
    """Return the bomb with the real addresses filled in."""
    if isinstance(value, str):
        return value.replace(MARK, place).replace("FILE", file)
    if isinstance(value, dict):
        return {key: settle(item, place, file) for key, item in value.items()}
    return value


async def set_off(schema: dict[str, Any], value: dict[str, Any]) -> tuple[str, str, float]:
    async def handle(arguments: dict[str, Any]) -> str:
        return "ran"

    server = MCPServer()
    validation._compile.cache_clear()
    started = time.process_time()
    try:
        tool = Tool.from_handler(handle, "bomb", "A bomb.", schema)
        tool.check()
        server.add(tool)
    except DefinitionError as error:
        return "refused", str(error), time.process_time() - started
    result = await server.call("bomb", value)
    took = time.process_time() - started
    return ("wrong arguments" if result.is_error else "ran"), result.text, took


def main(place: str, file: str, *names: str) -> None:
    sys.setrecursionlimit(1_000)
    asyncio.run(set_off(prop({"anyOf": [{"type": "integer"}]}), {"a": "5"}))  # what is loaded once
    for name in names:
        print(json.dumps({"began": name}), flush=True)
        schema, value = BOMBS[name]()
        if name.startswith(("remote", "relative", "local")):
            schema = settle(schema, place, file)
        tries = [asyncio.run(set_off(schema, value)) for _ in range(3)]
        outcome, words, _ = tries[0]
        took = min(attempt[2] for attempt in tries)
        print(
            json.dumps({"name": name, "outcome": outcome, "words": words[:3_000], "took": took}), flush=True
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
