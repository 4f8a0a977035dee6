"""Where the documents disagree about definitions, and what users ask for besides."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import Annotated, Any, NamedTuple, TypedDict

import attrs
import pydantic
import pytest
from pydantic import Field

from tests.support.definitions.hints import definition_of, schema_of
from tests.support.servers.api_server import WeatherApp
from toolcrib import InvalidArgumentsError, MCPServer, Tool, ToolRegistry
from toolcrib.errors import InvalidSchemaError
from toolcrib.registry.selection import tags_of

REQUIRING: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "number"}},
    "required": ["a"],
}


@pytest.fixture
def server() -> MCPServer:
    return MCPServer()


# --- schemas -----------------------------------------------------------------------------------------


async def test_x_14_a_schema_is_2020_12_unless_it_says_otherwise(server: MCPServer) -> None:
    tuple_of_2020 = {"type": "object", "properties": {"p": {"prefixItems": [{"type": "integer"}]}}}
    tuple_of_7 = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"p": {"items": [{"type": "integer"}]}},
    }
    server.add(lambda arguments: "fine", name="new", input_schema=tuple_of_2020)
    server.add(lambda arguments: "fine", name="old", input_schema=tuple_of_7)
    for name in ("new", "old"):
        assert (await server.call(name, {"p": [1]})).text == "fine"
        assert (await server.call(name, {"p": ["one"]})).is_error
    undeclared = {key: value for key, value in tuple_of_7.items() if key != "$schema"}
    with pytest.raises(InvalidSchemaError):
        Tool.from_function(lambda arguments: "", name="mixed", input_schema=undeclared).check()


def test_x_15_the_schema_itself_is_checked_and_not_an_empty_object_against_it() -> None:
    assert Tool.from_function(lambda arguments: "", name="a", input_schema=REQUIRING).check()
    with pytest.raises(InvalidSchemaError, match="The input schema of tool 'a' is invalid"):
        Tool.from_function(
            lambda arguments: "",
            name="a",
            input_schema={"type": "object", "properties": {"a": {"type": "strng"}}},
        ).check()


def test_x_38_every_schema_is_checked_with_nothing_more_to_install() -> None:
    dangling = {"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere"}}}
    with pytest.raises(InvalidSchemaError, match="nowhere"):
        Tool.from_function(lambda arguments: "", name="a", input_schema=dangling).check()


async def test_x_16_an_optional_parameter_is_the_bare_type_and_null_means_what_the_hint_says(
    server: MCPServer,
) -> None:
    @server.tool
    def f(needed: int | None, nullable: int | None = 5, plain: int = 7) -> list:
        return [needed, nullable, plain]

    assert server.registry.get("f").definition.input_schema == {
        "type": "object",
        "properties": {
            "needed": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "nullable": {"type": "integer", "default": 5},
            "plain": {"type": "integer", "default": 7},
        },
        "required": ["needed"],
    }
    nulls = {"needed": None, "nullable": None, "plain": None}
    assert (await server.call("f", nulls)).structured_content == [None, None, 7]
    assert (await server.call("f", {"needed": 1})).structured_content == [1, 5, 7]
    assert (await server.call("f", {})).is_error


def test_x_17_a_type_in_the_docstring_stands_in_for_a_hint_and_nothing_means_anything() -> None:
    def f(documented, undocumented, told=None):
        """Do it.

        Args:
            documented (int): has a type
            undocumented: has none
            told (list of str, optional): has one too
        """

    assert definition_of(f)["inputSchema"]["properties"] == {
        "documented": {"type": "integer", "description": "has a type"},
        "undocumented": {"description": "has none"},
        "told": {"type": "array", "items": {"type": "string"}, "description": "has one too"},
    }


async def test_x_18_x_19_nothing_is_published_that_is_not_known_and_unknown_names_are_refused_all_the_same(
    server: MCPServer,
) -> None:
    def f(names: list, query: str = "") -> str:
        return query

    server.add(f)
    server.add(f, name="lenient", extra="ignore")
    definition = server.registry.get("f").definition
    assert definition.input_schema == {
        "type": "object",
        "properties": {"names": {"type": "array"}, "query": {"type": "string", "default": ""}},
        "required": ["names"],
    }
    refused = await server.call("f", {"names": [], "qurey": "a"})
    assert refused.is_error
    assert isinstance(refused.error, InvalidArgumentsError)
    assert "did you mean 'query'?" in refused.text
    assert not (await server.call("lenient", {"names": [], "qurey": "a"})).is_error


def test_x_20_one_sentence_loses_its_full_stop_and_more_prose_is_kept_whole() -> None:
    def short() -> None:
        """Do it."""

    def long(a: int) -> dict:
        """Do it. Do it well.

        Note: never twice.

        Args:
            a: the first

        Returns:
            What was done

        Example:
            long(5)
        """

    assert definition_of(short)["description"] == "Do it"
    description = definition_of(long)["description"]
    assert description.startswith("Do it. Do it well.")
    assert "Note: never twice." in description
    assert "long(5)" in description
    assert "the first" not in description
    assert "What was done" not in description


def test_x_21_an_empty_list_of_required_names_is_accepted_either_way() -> None:
    for schema in (
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {}, "required": []},
    ):
        tool = Tool.from_function(lambda arguments: "", name="a", input_schema=schema)
        assert tool.check().definition.input_schema == schema


def test_x_40_a_listing_has_the_documents_three_keys_and_more_only_where_known() -> None:
    bare = definition_of(lambda: None, name="bare", description="Does nothing.")
    assert list(bare) == ["name", "description", "inputSchema"]
    weather = definition_of(WeatherApp().get_weather, title="Weather", read_only=True)
    assert list(weather) == ["name", "title", "description", "inputSchema", "outputSchema", "annotations"]
    assert all("description" in schema for schema in weather["inputSchema"]["properties"].values())


# --- words -------------------------------------------------------------------------------------------

STYLES = {
    "google": """Search.

    Args:
        query: what to look for
        limit: how many
    """,
    "numpy": """Search.

    Parameters
    ----------
    query : str
        what to look for
    limit : int, optional
        how many
    """,
    "rest": """Search.

    :param query: what to look for
    :param limit: how many
    :type limit: int
    """,
}


@pytest.mark.parametrize("style", STYLES)
def test_g_02_parameters_are_described_from_every_style(style: str) -> None:
    def search(query: str, limit: int = 10) -> None: ...

    search.__doc__ = STYLES[style]
    properties = definition_of(search)["inputSchema"]["properties"]
    assert [properties[name]["description"] for name in ("query", "limit")] == [
        "what to look for",
        "how many",
    ]


def test_g_02_the_text_of_a_field_wins_over_the_docstring() -> None:
    def search(
        query: Annotated[str, Field(description="from the field")],
        limit: Annotated[int, "from the annotation"] = 10,
        page: int = Field(1, description="from the default"),
    ) -> None:
        """Search.

        Args:
            query: from the docstring
            limit: from the docstring
            page: from the docstring
        """

    properties = definition_of(search)["inputSchema"]["properties"]
    assert [schema["description"] for schema in properties.values()] == [
        "from the field",
        "from the annotation",
        "from the default",
    ]


def test_g_02_a_docstring_is_inherited() -> None:
    class Base:
        def search(self, query: str) -> str:
            """Search the base.

            Args:
                query: what to look for
            """
            return query

    class Sub(Base):
        def search(self, query: str) -> str:
            return query.upper()

    definition = definition_of(Sub().search)
    assert definition["description"] == "Search the base"
    assert definition["inputSchema"]["properties"]["query"]["description"] == "what to look for"


# --- overriding --------------------------------------------------------------------------------------


async def test_g_19_a_schema_can_be_replaced_at_and_after_registration() -> None:
    def plan(day: dt.date) -> str:
        """Plan a day."""
        return f"{day:%A}"

    server = MCPServer(dynamic=True)
    server.add(plan)
    made = server.registry.get("plan")
    assert isinstance(made, Tool)
    schema = {
        "type": "object",
        "properties": {"day": {"type": "string", "format": "date", "description": "a workday"}},
        "required": ["day"],
    }
    server.registry.replace(made.with_options(input_schema=schema))
    assert server.registry.get("plan").definition.input_schema == schema
    assert (await server.call("plan", {"day": "2026-01-31"})).text == "Saturday"
    assert (await server.call("plan", {"day": "soon"})).is_error

    registry = ToolRegistry()
    registry.add(Tool.from_function(plan, input_schema=schema))
    assert registry.get("plan").definition.input_schema == schema


async def test_g_22_annotations_titles_and_output_schemas_are_published_and_kept(server: MCPServer) -> None:
    class Count(TypedDict):
        total: int

    def count(words: str) -> Count:
        """Count words.

        Returns:
            How many there are
        """
        return {"total": len(words.split()), "internal": True}  # type: ignore[typeddict-unknown-key]

    count.__annotations__["return"] = Count
    server.add(count, title="Word count", read_only=True, idempotent=True, open_world=False)
    wire = server.list_tools()[0].to_wire()
    assert wire["title"] == "Word count"
    assert wire["annotations"] == {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}
    assert wire["outputSchema"] == {
        "type": "object",
        "properties": {"total": {"type": "integer"}},
        "required": ["total"],
        "description": "How many there are",
    }
    result = await server.call("count", {"words": "one two"})
    assert (result.structured_content, result.text) == ({"total": 2}, '{"total":2}')


def test_g_22_tags_are_derived_from_annotations(server: MCPServer) -> None:
    server.add(lambda: None, name="look", read_only=True, idempotent=True, tags=["files"])
    server.add(lambda: None, name="wipe", destructive=True)
    look, wipe = server.registry
    assert set(tags_of(look)) == {"files", "read-only", "idempotent"}
    assert server.registry.select(["tag:destructive"]) == [wipe]


# --- data transfer objects -----------------------------------------------------------------------------


class Mood(enum.Enum):
    CALM = "calm"
    WILD = "wild"


@dataclasses.dataclass
class Dataclass:
    name: str
    mood: Mood = Mood.CALM


class Typed(TypedDict):
    name: str
    mood: Mood


class Named(NamedTuple):
    name: str
    mood: Mood = Mood.CALM


class Model(pydantic.BaseModel):
    name: str
    mood: Mood = Mood.CALM


@attrs.define
class Attrs:
    name: str
    mood: Mood = Mood.CALM


@pytest.mark.parametrize("dto", [Dataclass, Typed, Named, Model, Attrs])
async def test_a_20_a_data_transfer_object_becomes_a_schema_an_object_and_data_again(
    server: MCPServer, dto: Any
) -> None:
    seen: list[Any] = []

    def keep(item):
        seen.append(item)
        return item

    keep.__annotations__ = {"item": dto, "return": dto}
    server.add(keep)
    mood: dict[str, Any] = {"type": "string", "enum": ["calm", "wild"]}
    optional = dto is not Typed
    assert schema_of(dto) == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "mood": {**mood, "default": "calm"} if optional else mood},
        "required": ["name"] if optional else ["name", "mood"],
    }
    result = await server.call("keep", {"item": {"name": "Ada", "mood": "wild"}})
    assert seen == [dto(name="Ada", mood=Mood.WILD)]
    assert result.structured_content == {"name": "Ada", "mood": "wild"}


async def test_a_20_an_enum_is_a_parameter_and_a_result(server: MCPServer) -> None:
    @server.tool
    def other(mood: Mood) -> Mood:
        return Mood.WILD if mood is Mood.CALM else Mood.CALM

    assert (await server.call("other", {"mood": "calm"})).structured_content == "wild"
