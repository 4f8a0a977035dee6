"""Handlers with explicit schemas."""

# ruff: noqa: B008 - users write Field(...) as a default

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Annotated, Any

import pytest
from pydantic import Field

from tests.support.definitions.hints import received_by
from toolcrib import Context, MCPServer, Tool
from toolcrib.errors import InvalidArgumentsError, InvalidSchemaError, InvalidSignatureError

GREETING: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "times": {"type": "integer"}},
    "required": ["name"],
}


def handler_tool(handler: Any, schema: Any = GREETING, **options: Any) -> Tool:
    return Tool.from_function(handler, name="greet", input_schema=schema, **options)


class TestSchema:
    def test_is_published_as_written(self) -> None:
        tool = Tool.from_handler(lambda arguments: "", "greet", "Greets somebody.", GREETING)
        assert tool.definition.to_wire() == {
            "name": "greet",
            "description": "Greets somebody.",
            "inputSchema": GREETING,
        }

    @pytest.mark.requirement("T-02")
    def test_is_enforced(self) -> None:
        tool = handler_tool(lambda arguments: "")
        with pytest.raises(InvalidArgumentsError, match="'name': expected a length of at most 5"):
            received_by(tool, name="Eleonora")
        with pytest.raises(InvalidArgumentsError, match="'name': required"):
            received_by(tool)

    @pytest.mark.parametrize(
        ("schema", "words"),
        [
            ({"type": "array"}, "must have type='object'"),
            ({"type": "object", "properties": {"a": {"type": "nonsense"}}}, "is invalid"),
            ({"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere"}}}, "is invalid"),
        ],
    )
    def test_that_is_none_is_refused(self, schema: Any, words: str) -> None:
        with pytest.raises(InvalidSchemaError, match=words) as caught:
            handler_tool(lambda arguments: "", schema).check()
        assert caught.value.tool == "greet"
        assert caught.value.source.line

    def test_of_the_result_is_checked_too(self) -> None:
        good = handler_tool(lambda arguments: "", output_schema={"type": "integer"})
        assert good.definition.output_schema == {"type": "integer"}
        with pytest.raises(InvalidSchemaError):
            handler_tool(lambda arguments: "", output_schema={"type": "nonsense"}).check()


class TestWords:
    def test_come_from_the_docstring_where_none_are_given(self) -> None:
        def greet(arguments: dict[str, Any]) -> str:
            """Greet.

            Returns:
                A greeting

            Raises:
                ValueError: if too loud

            Tags: polite
            """
            return ""

        assert handler_tool(greet).definition.description == (
            "Greet.\n\nReturns: A greeting\n\nRaises:\n- ValueError: if too loud\n\nTags: polite"
        ) or handler_tool(greet).definition.description.startswith("Greet.")
        told = handler_tool(greet, output_schema={"type": "string"}).definition
        assert "Returns" not in told.description
        assert "Returns: A greeting" in told.standalone_description

    def test_given_ones_are_taken_as_they_are(self) -> None:
        def greet(arguments: dict[str, Any]) -> str:
            """Greet.

            Returns:
                A greeting
            """
            return ""

        assert handler_tool(greet, description="Says hello.").definition.description == "Says hello."


class TestArguments:
    def test_come_whole_to_a_parameter_of_that_name(self) -> None:
        assert received_by(handler_tool(lambda arguments: ""), name="Ada") == {"arguments": {"name": "Ada"}}

    def test_come_as_keywords_to_any_other(self) -> None:
        assert received_by(handler_tool(lambda name, times=1: ""), name="Ada") == {"name": "Ada"}

    def test_come_as_keywords_to_a_handler_that_takes_any(self) -> None:
        assert received_by(handler_tool(lambda **given: ""), name="Ada", times=2) == {
            "name": "Ada",
            "times": 2,
        }

    async def test_come_whole_to_a_positional_only_parameter_too(self) -> None:
        server = MCPServer()
        server.add(handler_tool(lambda arguments, /: arguments["name"]))
        assert (await server.call("greet", {"name": "Ada"})).text == "Ada"

    async def test_come_with_the_server_and_the_context_to_a_handler_that_asks(self) -> None:
        server = MCPServer("desk")

        def greet(arguments: dict[str, Any], server: Any, ctx: Context) -> str:
            return f"{arguments['name']} {server.name} {ctx.tool}"

        server.add(handler_tool(greet))
        assert (await server.call("greet", {"name": "Ada"})).text == "Ada desk greet"

    def test_called_server_in_the_schema_are_arguments(self) -> None:
        schema = {"type": "object", "properties": {"server": {"type": "string"}}, "required": ["server"]}
        tool = handler_tool(lambda server: "", schema)
        assert received_by(tool, server="web1") == {"server": "web1"}
        assert tool.arguments.server is None

    def test_an_explicit_null_counts_as_left_out_unless_the_schema_allows_it(self) -> None:
        schema = {
            "type": "object",
            "properties": {
                "plain": {"type": "string"},
                "typed": {"type": ["string", "null"]},
                "listed": {"enum": ["a", None]},
                "fixed": {"const": 5},
                "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "neither": {"oneOf": [{"type": "string"}, False]},
                "whatever": {"anyOf": [True]},
                "any": {},
                "odd": True,
            },
        }
        tool = handler_tool(lambda **given: "", schema)
        given = dict.fromkeys(schema["properties"])
        assert received_by(tool, **given) == dict.fromkeys(
            ["typed", "listed", "either", "whatever", "any", "odd"]
        )


class TestFit:
    @pytest.mark.parametrize(
        ("handler", "words", "parameter"),
        [
            (lambda name: "", "does not take 'times', which its schema has", "times"),
            (
                lambda name, volume, times=1: "",
                "requires 'volume', which its schema does not",
                "volume",
            ),
            (lambda name, times: "", "requires 'times', which its schema does not", "times"),
            (lambda *names: "", "does not take 'name', which its schema has", "name"),
        ],
    )
    def test_of_handler_and_schema_is_checked_when_the_tool_is_built(
        self, handler: Any, words: str, parameter: str
    ) -> None:
        with pytest.raises(InvalidSignatureError, match=words) as caught:
            handler_tool(handler).check()
        assert (caught.value.tool, caught.value.parameter) == ("greet", parameter)
        assert "`arguments`" in (caught.value.hint or "")

    def test_a_foreign_context_is_refused_here_too(self) -> None:
        foreign = type("Context", (), {"__module__": "fastmcp.server"})

        def greet(arguments: Any, ctx: Any) -> None: ...

        greet.__annotations__ = {"ctx": foreign}
        with pytest.raises(InvalidSignatureError, match="is a Context of fastmcp"):
            handler_tool(greet).check()


class TestConversion:
    SCHEMA: dict[str, Any] = {
        "type": "object",
        "properties": {"day": {"type": ["string", "integer"]}, "size": {"type": "number"}, "rest": {}},
        "required": ["day"],
    }

    def test_gives_a_typed_parameter_what_its_hint_says_where_the_value_is_that(self) -> None:
        def plan(day: dt.date, size: int | None = None, rest: Any = None) -> None: ...

        tool = handler_tool(plan, self.SCHEMA)
        assert received_by(tool, day="2026-01-31", size=3.0) == {"day": dt.date(2026, 1, 31), "size": 3}
        assert received_by(tool, day=5, size=2.5, rest=[1]) == {"day": 5, "size": 2.5, "rest": [1]}
        assert received_by(tool, day="tomorrow") == {"day": "tomorrow"}

    def test_ignores_hints_that_mean_nothing(self) -> None:
        def plan(day: Any, size: Any = None, rest: Any = None) -> None: ...

        plan.__annotations__ = {"day": 5, "size": Annotated[str, Field(ge=3)], "rest": str}
        assert received_by(handler_tool(plan, self.SCHEMA), day=1, size=2) == {"day": 1, "size": 2}

    async def test_fills_in_defaults_that_are_fields(self) -> None:
        @dataclasses.dataclass
        class Reply:
            values: list[Any]

        def plan(
            day: Any, size: int = Field(7), rest: list[int] = Field(default_factory=list)
        ) -> dict[str, Any]:
            return {"values": [day, size, rest]}

        server = MCPServer()
        server.add(handler_tool(plan, self.SCHEMA))
        result = await server.call("greet", {"day": 1})
        assert result.structured_content == {"values": [1, 7, []]}
        assert dataclasses.asdict(Reply([1])) == {"values": [1]}


class TestObjects:
    def test_get_the_whole_whatever_their_parameter_is_called(self) -> None:
        class Greeter:
            name = "greet"
            description = "Greets somebody."
            input_schema = GREETING

            async def execute(self, payload: dict[str, Any]) -> dict[str, Any]:
                return payload

        tool = Tool.from_object(Greeter())
        assert received_by(tool, name="Ada") == {"payload": {"name": "Ada"}}
        assert tool.is_async

    def test_that_take_nothing_get_nothing(self) -> None:
        class Clock:
            name = "clock"
            description = "Tells the time."
            input_schema = {"type": "object", "properties": {}}

            async def execute(self) -> str:
                return "noon"

        assert received_by(Tool.from_object(Clock())) == {}


async def test_a_schema_that_its_author_changes_later_stays_as_it_was_published() -> None:
    server = MCPServer()
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    server.add(Tool.from_handler(_echo, "echo", "Echo it back", schema))
    published = server.registry.get("echo").definition.input_schema
    schema["properties"]["a"]["type"] = "string"
    assert published["properties"]["a"] == {"type": "integer"}
    assert (await server.call("echo", {"a": 1})).structured_content == {"a": 1}


async def _echo(arguments: dict) -> dict:
    return arguments


def test_a_tool_object_that_needs_more_than_its_arguments_is_refused() -> None:
    class Capitalised:
        Name = "capitalised"
        Description = "A tool with a token"
        InputSchema = {"type": "object", "properties": {}}

        async def ExecuteAsync(self, arguments: dict, cancellation: object) -> str:
            return ""

    with pytest.raises(InvalidSignatureError, match="requires 'cancellation'"):
        _ = Tool.from_object(Capitalised()).definition


async def test_a_tool_object_may_have_further_parameters_with_defaults() -> None:
    class Chatty:
        name = "chatty"
        description = "Says how much it says"
        input_schema = {"type": "object", "properties": {}}

        async def execute(self, arguments: dict, loud: bool = False) -> str:
            return f"loud: {loud}"

    server = MCPServer()
    server.add(Chatty())
    assert (await server.call("chatty")).text == "loud: False"
