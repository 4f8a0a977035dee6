"""Whatever arrives, a call ends in one Result; and what is published is what is enforced."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Annotated, Any, Literal

import jsonschema_rs
from hypothesis import assume, given, note
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from tests.support.definitions.random_schemas import Dice
from toolcrib import Context, DefinitionError, MCPServer, Result, Tool
from toolcrib.schema.result import ToolResults
from toolcrib.testing import fuzz
from toolcrib.validation import codec

TEXT = st.text(max_size=8)
NUMBERS = st.integers(-5, 5) | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SPELLED = st.sampled_from(
    ["5", "-1", "2.0", "1e3", "null", "true", "[]", '["1",2]', '{"a":"1"}', '"x"', "x", ""]
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT | SPELLED
NAMES = st.sampled_from(["a", "b", "c", "number", "text", "items", "node", "next", "choice"])
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | TEXT, inner, max_size=4)
)


# --- any arguments, tools of every shape ---


@dataclasses.dataclass
class Node:
    number: int
    next: Node | None = None


class Pet(BaseModel):
    kind: Literal["cat", "dog"]
    age: Annotated[int, Field(ge=0)] = 1


def make_server() -> MCPServer:
    server = MCPServer()

    @server.tool
    async def plain(
        number: int, text: str = "x", items: list[int] | None = None, choice: bool = True
    ) -> dict:
        return dict(locals())

    @server.tool
    async def records(node: Node, a: Pet | None = None, b: dict[str, list[float]] | None = None) -> Any:
        return [node, a, b]

    @server.tool
    async def unions(
        choice: int | str | list[int], a: Node | Pet | None = None, ctx: Context | None = None
    ) -> Any:
        return {"choice": choice, "a": a}

    @server.tool(extra="ignore", repair=False, run="inline")
    def strict(number: float, /, *, text: Literal["5", "x"] = "x") -> Any:
        return number, text

    explicit = {
        "type": "object",
        "properties": {"a": {"type": ["integer", "null"]}, "b": {"$ref": "#/$defs/n"}},
        "$defs": {
            "n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}, "a": {"type": "array"}}}
        },
        "additionalProperties": {"type": "number"},
    }

    @server.tool("whole", "Takes all", explicit)
    async def whole(arguments: dict) -> dict:
        return arguments

    @server.tool
    async def nothing() -> None:
        return None

    return server


SERVER = make_server()


@given(
    st.sampled_from(["plain", "records", "unions", "strict", "whole", "nothing"]),
    st.dictionaries(NAMES, JSON) | JSON,
)
def test_any_arguments_end_in_one_result_that_can_be_sent(name: str, arguments: Any) -> None:
    result = asyncio.run(SERVER.call(name, arguments))
    assert isinstance(result, Result)
    wire = result.to_json()
    assert codec.decode(codec.encode(wire)) == wire
    if result.is_error:
        assert result.error is not None
        assert result.error.code in ("invalid-arguments", "invalid-result")
        assert result.text.isprintable() or "\n" in result.text


# --- published is enforced ---

LEAVES: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "integer"},
    {"type": "number", "minimum": 0},
    {"type": "boolean"},
    {"type": "null"},
    {"type": ["integer", "null"]},
    {"type": ["string", "integer"]},
    {"type": "string", "minLength": 1, "pattern": "^[a-z0-9]*$"},
    {"enum": [1, 5, "x"]},
    {"enum": [1, 5, None]},
    {"const": 5},
    {"const": "5"},
    {"anyOf": [{"type": "integer", "multipleOf": 2}, {"type": "boolean"}]},
    {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 3}]},
    {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]},
    {"allOf": [{"type": "integer"}, {"maximum": 5}]},
    {"not": {"type": "array"}},
    {},
]


def objects(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3)},
        optional={
            "required": st.lists(st.sampled_from("abc"), unique=True, max_size=2),
            "additionalProperties": st.just(False) | inner,
            "maxProperties": st.integers(1, 3),
        },
    )


def arrays(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "maxItems": st.integers(1, 3),
            "uniqueItems": st.booleans(),
        },
    )


SCHEMAS = st.recursive(st.sampled_from(LEAVES), lambda inner: objects(inner) | arrays(inner), max_leaves=6)
SMALL = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
)
VALUES = SMALL | SMALL.map(json.dumps)


def types_of(schema: dict[str, Any]) -> set[str]:
    """The oracle's own view of which JSON types a schema of the grammar above admits."""
    everything = {"string", "integer", "number", "boolean", "null", "array", "object"}
    if "type" in schema:
        said = schema["type"]
        return {said} if isinstance(said, str) else set(said)
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return {
            "string" if isinstance(value, str) else "null" if value is None else "integer" for value in values
        }
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return set().union(*(types_of(option) for option in schema[word]))
    if "allOf" in schema:
        return set.intersection(*(types_of(option) for option in schema["allOf"]))
    return everything


def decode_strings(value: Any, schema: Any) -> Any:
    """The oracle's own repair: what cannot be a string is decoded, at every level."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, str) and "string" not in types_of(schema):
        try:
            decoded = json.loads(value, parse_constant=lambda word: 1 / 0)
        except (ValueError, ZeroDivisionError):
            return value
        return value if isinstance(decoded, str) else decode_strings(decoded, schema)
    if isinstance(value, dict):
        named, others = schema.get("properties", {}), schema.get("additionalProperties")
        return {name: decode_strings(item, named.get(name, others)) for name, item in value.items()}
    if isinstance(value, list):
        first, others = schema.get("prefixItems", []), schema.get("items")
        return [decode_strings(item, first[i] if i < len(first) else others) for i, item in enumerate(value)]
    return value


def without_nulls(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The oracle's own reading of nulls: left out where optional, unless the schema speaks of null."""

    def is_left_out(name: str) -> bool:
        said = schema["properties"].get(name)
        if said is None or name in schema.get("required", ()):
            return False
        return "allOf" not in said and "null" not in types_of(said)  # allOf counts as speaking of anything

    return {name: value for name, value in arguments.items() if value is not None or not is_left_out(name)}


def expected(arguments: dict[str, Any], schema: dict[str, Any], *, repair: bool) -> Any:
    """What a handler should get, or None where the call should be refused."""
    is_valid = jsonschema_rs.validator_for(schema, validate_formats=True).is_valid
    given_ = without_nulls(arguments, schema)
    if is_valid(given_):
        return given_
    repaired = without_nulls(decode_strings(arguments, schema), schema)
    return repaired if repair and is_valid(repaired) else None


def call(schema: dict[str, Any], arguments: dict[str, Any], *, repair: bool) -> tuple[Result, list[Any]]:
    received: list[Any] = []

    async def handle(arguments: dict[str, Any]) -> str:
        received.append(arguments)
        return "ran"

    server = MCPServer()
    server.add(Tool.from_handler(handle, "made", "Made up.", schema, repair=repair))
    return asyncio.run(server.call("made", arguments)), received


@given(objects(SCHEMAS), st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4), st.booleans())
def test_a_call_is_accepted_if_and_only_if_its_arguments_keep_to_the_published_schema(
    schema: dict[str, Any], arguments: dict[str, Any], repair: bool
) -> None:
    result, received = call(schema, arguments, repair=repair)
    wanted = expected(arguments, schema, repair=repair)
    note(f"{result.text}, received {received}, wanted {wanted}")
    assert (not result.is_error) == (wanted is not None)
    assert received == ([] if wanted is None else [wanted])
    if received:
        assert jsonschema_rs.validator_for(schema).is_valid(received[0])
        assert json.dumps(received[0]) == json.dumps(wanted)  # 1 is not True, and 1 is not 1.0


@given(st.data(), st.sampled_from([leaf for leaf in LEAVES if "string" in types_of(leaf)]), SPELLED | TEXT)
def test_anything_that_may_be_a_string_arrives_as_it_was_sent(
    data: st.DataObject, leaf: dict[str, Any], text: str
) -> None:
    schema = {"type": "object", "properties": {"a": leaf, "b": {"type": "integer"}}, "required": ["a", "b"]}
    number = data.draw(st.sampled_from([5, "5"]))
    result, received = call(schema, {"a": text, "b": number}, repair=True)
    if not result.is_error:
        assert received == [{"a": text, "b": 5}]


# --- results ---

PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=15,
)


def listed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [listed(item) for item in value]
    return {name: listed(item) for name, item in value.items()} if isinstance(value, dict) else value


@given(PLAIN)
def test_plain_data_comes_back_as_it_was_returned(value: Any) -> None:
    assume(not (isinstance(value, dict) and "content" in value))
    result = ToolResults("made", None, None, trusted=True).finish(value)
    if isinstance(value, str):
        assert result.to_json() == {"content": [{"type": "text", "text": value}], "isError": False}
    elif value is None:
        assert result.to_json() == {"content": [], "isError": False}
    else:
        assert result.structured_content == listed(value)
        assert repr(result.structured_content) == repr(listed(value))
        assert json.loads(result.text) == listed(value)


@given(st.integers(0, 10_000))
def test_the_fuzzer_finds_nothing_wrong_with_a_tool_that_takes_everything(seed: int) -> None:
    """Whatever its schema is: valid arguments are accepted, and invalid ones do not reach it."""
    server = MCPServer()
    seen: list[Any] = []

    async def keep(arguments: dict[str, Any]) -> None:
        seen.append(arguments)

    try:
        server.tool("keep", "Keep it.", Dice(seed).root())(keep)
    except DefinitionError:
        assume(False)  # it has no meaning, or costs too much
    try:
        report = fuzz(server, calls=5)
    except AssertionError as error:
        if "no valid arguments" not in str(error) and "no tools" not in str(error):
            raise
    else:
        assert len(seen) == report.valid["keep"] > 0
