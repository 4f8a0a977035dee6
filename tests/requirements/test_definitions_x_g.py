"""Definitions where the documents disagree, and further wishes of users."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, NamedTuple, TypedDict

import attrs
import pydantic
import pytest
from pydantic import Field

from tests.support.definitions.hints import definition_of, schema_of
from toolcrib import InvalidArgumentsError, MCPServer, Tool


@pytest.fixture
def server() -> MCPServer:
    return MCPServer()


# --- schemas -----------------------------------------------------------------------------------------


@pytest.mark.requirement("X-16")
async def test_an_optional_parameter_is_the_bare_type_and_null_means_what_the_hint_says(
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


@pytest.mark.requirement("X-18", "X-19")
async def test_nothing_is_published_that_is_not_known_and_unknown_names_are_refused_all_the_same(
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


@pytest.mark.requirement("X-21")
def test_an_empty_list_of_required_names_is_accepted_either_way() -> None:
    for schema in (
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {}, "required": []},
    ):
        tool = Tool.from_function(lambda arguments: "", name="a", input_schema=schema)
        assert tool.check().definition.input_schema == schema


# --- words -------------------------------------------------------------------------------------------


@pytest.mark.requirement("G-02")
def test_the_text_of_a_field_wins_over_the_docstring() -> None:
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


@pytest.mark.requirement("G-02")
def test_a_docstring_is_inherited() -> None:
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


@pytest.mark.requirement("G-22")
async def test_annotations_titles_and_output_schemas_are_published_and_kept(server: MCPServer) -> None:
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


@pytest.mark.requirement("A-20")
@pytest.mark.parametrize("dto", [Dataclass, Typed, Named, Model, Attrs])
async def test_a_data_transfer_object_becomes_a_schema_an_object_and_data_again(
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
