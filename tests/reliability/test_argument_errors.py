"""Missing, unknown, wrong and repairable arguments, with repair on and off."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from toolcrib import MCPServer

pytestmark = pytest.mark.row("A9")

EXPLICIT = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "flags": {"type": "object", "properties": {"deep": {"type": "boolean"}}},
        "any": {},
    },
    "required": ["count"],
}


def make(*, repair: bool, extra: Literal["refuse", "ignore"] = "refuse") -> MCPServer:
    server = MCPServer()

    @server.tool(repair=repair, extra=extra, run="inline")
    def take(
        number: int,
        text: str = "none",
        ratio: float | None = None,
        flag: bool = False,
        names: list[str] | None = None,
        either: int | str = 0,
        box: dict[str, int] | None = None,
        anything: Any = None,
    ) -> dict:
        return dict(locals())

    @server.tool("explicit", "An explicit schema", EXPLICIT, repair=repair)
    async def explicit(arguments: dict) -> dict:
        return arguments

    return server


MENDED = [
    ({"number": "5"}, "number", 5),
    ({"number": "5.0"}, "number", 5),
    ({"number": 1, "ratio": "0.5"}, "ratio", 0.5),
    ({"number": 1, "flag": "true"}, "flag", True),
    ({"number": 1, "names": '["a", "b"]'}, "names", ["a", "b"]),
    ({"number": 1, "box": '{"a": 1}'}, "box", {"a": 1}),
    ({"number": 1, "box": {"a": "1"}}, "box", {"a": 1}),
    ({"number": 1, "names": "null"}, "names", None),
]
TAKEN = [
    ({"number": 5}, "number", 5),
    ({"number": 5.0}, "number", 5),
    ({"number": 1e20}, "number", 10**20),
    ({"number": 1, "ratio": 2}, "ratio", 2.0),
    ({"number": 1, "text": "5"}, "text", "5"),
    ({"number": 1, "text": '{"a": 1}'}, "text", '{"a": 1}'),
    ({"number": 1, "text": "null"}, "text", "null"),
    ({"number": 1, "either": "[1]"}, "either", "[1]"),
    ({"number": 1, "anything": '{"a": 1}'}, "anything", '{"a": 1}'),
    ({"number": 1, "ratio": None}, "ratio", None),
    ({"number": 1, "text": None}, "text", "none"),
    ({"number": 1, "flag": None}, "flag", False),
    ({"number": 1, "anything": None}, "anything", None),
]
REFUSED = [
    ({}, "'number': required, but missing"),
    ({"number": None}, "'number': expected integer, got null"),
    ({"number": True}, "'number': expected integer, got true"),
    ({"number": 1.5}, "'number': expected integer, got number 1.5"),
    ({"number": "x"}, "'number': expected integer, got string 'x'"),
    ({"number": "1e999"}, "'number': expected integer"),
    ({"number": "NaN"}, "'number': expected integer"),
    ({"number": 1, "text": 5}, "'text': expected string, got integer 5"),
    ({"number": 1, "names": ["a", 1]}, "'names[1]': expected string, got integer 1"),
    ({"number": 1, "names": [None]}, "'names[0]': expected string, got null"),
    ({"number": 1, "names": '["a", 1]'}, "'names"),
    ({"number": 1, "box": {"a": None}}, "'box.a': expected integer, got null"),
    ({"numbr": 1}, "'numbr': not a parameter of this tool (did you mean 'number'?)"),
    ({"number": 1, "zzz": 1}, "'zzz': not a parameter of this tool (it takes: "),
]


@pytest.mark.parametrize("repair", [True, False])
@pytest.mark.parametrize(("arguments", "name", "value"), TAKEN)
async def test_what_fits_arrives_as_the_hint_promises(
    arguments: dict[str, Any], name: str, value: Any, repair: bool
) -> None:
    result = await make(repair=repair).call("take", arguments)
    assert not result.is_error, result.text
    assert result.structured_content[name] == value
    assert type(result.structured_content[name]) is type(value)


@pytest.mark.parametrize(("arguments", "name", "value"), MENDED)
async def test_a_plain_slip_is_mended(arguments: dict[str, Any], name: str, value: Any) -> None:
    result = await make(repair=True).call("take", arguments)
    assert not result.is_error, result.text
    assert result.structured_content[name] == value


@pytest.mark.parametrize(("arguments", "name", "value"), MENDED)
async def test_with_repair_off_the_same_slip_is_refused(
    arguments: dict[str, Any], name: str, value: Any
) -> None:
    result = await make(repair=False).call("take", arguments)
    assert result.is_error
    assert f"'{name}" in result.text


@pytest.mark.parametrize("repair", [True, False])
@pytest.mark.parametrize(("arguments", "words"), REFUSED)
async def test_a_refusal_names_the_field_and_no_library(
    arguments: dict[str, Any], words: str, repair: bool
) -> None:
    result = await make(repair=repair).call("take", arguments)
    assert result.is_error
    assert words in result.text
    assert "http" not in result.text
    assert "pydantic" not in result.text
    assert "jsonschema" not in result.text
    assert result.error is not None
    assert result.error.code == "invalid-arguments"
    assert all({"field", "expected", "got"} <= problem.keys() for problem in result.error.details)


async def test_unknown_names_are_dropped_where_the_author_says_so() -> None:
    result = await make(repair=True, extra="ignore").call("take", {"number": 1, "zzz": 2})
    assert result.structured_content["number"] == 1


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ({"count": 1}, {"count": 1}),
        ({"count": "1"}, {"count": 1}),
        ({"count": 1, "note": None}, {"count": 1, "note": None}),  # the schema itself speaks of null
        ({"count": 1, "flags": None}, {"count": 1}),  # optional, and does not: counts as left out
        ({"count": 1, "flags": '{"deep": "true"}'}, {"count": 1, "flags": {"deep": True}}),
        ({"count": 1, "flags": {"deep": None}}, None),  # nested nulls are untouched
        ({"count": 1, "any": "5"}, {"count": 1, "any": "5"}),
        ({"count": 1, "other": 2}, {"count": 1, "other": 2}),  # as written: nothing forbids it
    ],
)
async def test_an_explicit_schema_is_enforced_as_written(arguments: dict[str, Any], outcome: Any) -> None:
    result = await make(repair=True).call("explicit", arguments)
    if outcome is None:
        assert result.is_error
    else:
        assert result.structured_content == outcome


@pytest.mark.parametrize("arguments", [[1], "x", 5, True])
async def test_arguments_that_are_no_object_are_refused(arguments: Any) -> None:
    result = await make(repair=True).call("take", arguments)
    assert result.is_error
    assert "must be an object" in result.text


@pytest.mark.parametrize(
    "arguments", [{"number": 1, "text": "\ud800"}, {1: 2}, {"number": object()}, {"number": b""}]
)
async def test_what_json_cannot_say_is_an_error_of_this_call_only(arguments: Any) -> None:
    server = make(repair=True)
    assert (await server.call("take", arguments)).is_error
    assert not (await server.call("take", {"number": 1})).is_error
