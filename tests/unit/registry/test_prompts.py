"""Prompts: their arguments, and the messages that become of results."""

from __future__ import annotations

import asyncio
import datetime as dt
import enum
from typing import Annotated, Any, Literal

import pytest
from mcp.server.mcpserver import Context as OtherContext
from pydantic import BaseModel

from toolcrib import (
    Audio,
    Context,
    Depends,
    File,
    Image,
    Link,
    MCPServer,
    Message,
    Result,
    ToolError,
    testing,
)
from toolcrib.errors import CallError, DefinitionError, InvalidToolError, ToolNotFoundError


class Tone(enum.Enum):
    FRIENDLY = "friendly"
    FORMAL = "formal"


class Place(BaseModel):
    city: str


def text(words: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": words}}


async def get_result(value: Any) -> list[dict[str, Any]]:
    server = MCPServer("shop")
    server.prompt("it")(lambda: value)
    return await server.get_prompt("it")


# --- what a function returns ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("Hello", [text("Hello")]),
        (Message("Hello"), [text("Hello")]),
        (Message("Hi", role="assistant"), [text("Hi", "assistant")]),
        (["One", Message("Two", role="assistant")], [text("One"), text("Two", "assistant")]),
        (("One", "Two"), [text("One"), text("Two")]),
        ([], []),
        ({"a": 1}, [text('{"a":1}')]),
        (5, [text("5")]),
        (Tone.FORMAL, [text("formal")]),
        (Place(city="Oslo"), [text('{"city":"Oslo"}')]),
        ({"role": "assistant", "content": "Hi"}, [text("Hi", "assistant")]),
        ({"role": "user", "content": {"type": "text", "text": "Hi"}}, [text("Hi")]),
        ({"messages": ["One", Message("Two")], "description": "Both"}, [text("One"), text("Two")]),
        (Result.of("Two left", {"left": 2}), [text("Two left")]),
    ],
)
async def test_a_result_becomes_messages(value: Any, messages: list[Any]) -> None:
    assert await get_result(value) == messages


@pytest.mark.parametrize("value", [Image(b"x"), Audio(b"x"), File("x", uri="a:b"), Link("a:b", "b")])
async def test_content_of_every_kind_can_be_in_a_message(value: Any) -> None:
    block = value.to_block()
    assert await get_result(value) == [{"role": "user", "content": block}]
    assert await get_result(Message(value, role="assistant")) == [{"role": "assistant", "content": block}]
    assert await get_result([block, "and text"]) == [{"role": "user", "content": block}, text("and text")]
    assert await get_result(Result([block])) == [{"role": "user", "content": block}]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "it is None; return text or messages"),
        (["a", None], "it is None"),
        (b"bytes", "bytes are no message"),
        (float("nan"), "not a JSON number"),
        (object(), "a value of type object has no JSON form"),
        ({"role": "system", "content": "Obey"}, "unknown role 'system': use user or assistant"),
        ("x" * (16 * 2**20 + 1), "larger than 16384 KiB"),
        (["x" * (9 * 2**20), "y" * (9 * 2**20)], "larger than 16384 KiB"),
        ("\ud800", "not valid Unicode"),
    ],
)
async def test_a_result_that_cannot_be_sent_is_an_error_that_says_why(value: Any, problem: str) -> None:
    with pytest.raises(CallError, match=problem):
        await get_result(value)


async def test_generators_give_one_message_for_each_item() -> None:
    server = MCPServer("shop")

    @server.prompt
    def sync() -> Any:
        yield "One"
        yield Message("Two", role="assistant")

    @server.prompt("later")
    async def later() -> Any:
        yield "One"
        yield "Two"

    assert await server.get_prompt("sync") == [text("One"), text("Two", "assistant")]
    assert await server.get_prompt("later") == [text("One"), text("Two")]


# --- arguments -----------------------------------------------------------------------------------------


async def test_arguments_come_as_strings_and_have_the_types_of_their_hints() -> None:
    server = MCPServer("shop")

    @server.prompt
    def show(
        name: str,
        count: int = 1,
        exact: bool = False,
        tone: Tone = Tone.FRIENDLY,
        kind: Literal["a", "b"] = "a",
        tags: list[str] | None = None,
        place: Place | None = None,
        day: dt.date | None = None,
        ratio: float | None = None,
    ) -> str:
        return repr((name, count, exact, tone, kind, tags, place, day, ratio))

    arguments = {
        "name": "7",
        "count": "3",
        "exact": "true",
        "tone": "formal",
        "kind": "b",
        "tags": '["x"]',
        "place": '{"city": "Oslo"}',
        "day": "2026-01-31",
        "ratio": "0.5",
    }
    expected = ("7", 3, True, Tone.FORMAL, "b", ["x"], Place(city="Oslo"), dt.date(2026, 1, 31), 0.5)
    assert await server.get_prompt("show", arguments) == [text(repr(expected))]
    assert "('007', 1, False" in (await server.get_prompt("show", {"name": "007"}))[0]["content"]["text"]


@pytest.mark.parametrize("given", ["007", "true", "null", '{"a": 1}', "[1]", "1e3", '"quoted"', " "])
async def test_a_string_stays_as_it_was_written(given: str) -> None:
    server = MCPServer("shop")
    server.prompt("echo")(_echo)
    assert await server.get_prompt("echo", {"words": given}) == [text(given)]


def _echo(words: str) -> str:
    return words


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "'name'"),
        ({"name": "a", "count": "many"}, "'count': expected integer, got string 'many'"),
        ({"name": "a", "tone": "rude"}, "'tone'"),
        ({"name": "a", "other": "b"}, "'other'"),
    ],
)
async def test_wrong_arguments_are_named(arguments: dict[str, str], problem: str) -> None:
    server = MCPServer("shop")

    @server.prompt
    def show(name: str, count: int = 1, tone: Tone = Tone.FORMAL) -> str:
        return name

    with pytest.raises(CallError, match=problem):
        await server.get_prompt("show", arguments)


def test_the_list_says_how_to_write_each_argument() -> None:
    server = MCPServer("shop")

    @server.prompt(title="Show it")
    def show(
        name: str,
        count: Annotated[int, "How many"],
        tone: Tone = Tone.FORMAL,
        exact: bool = False,
        tags: list[str] | None = None,
        either: int | str = 1,
    ) -> str:
        """Show something.

        Args:
            name: What to show
        """
        return name

    made: Any = server.prompts.get("show")
    assert made.to_wire() == {
        "name": "show",
        "title": "Show it",
        "description": "Show something",
        "arguments": [
            {"name": "name", "description": "What to show", "required": True},
            {"name": "count", "description": "How many (integer)", "required": True},
            {"name": "tone", "description": "(one of: friendly, formal)"},
            {"name": "exact", "description": "(true or false)"},
            {"name": "tags", "description": "(JSON array)"},
            {"name": "either"},
        ],
    }


async def test_dependencies_and_the_context_are_not_arguments() -> None:
    server = MCPServer("shop")

    def get_stock() -> dict[str, int]:
        return {"tea": 2}

    @server.prompt
    async def sell(article: str, ctx: Context, stock: dict[str, int] = Depends(get_stock)) -> str:  # noqa: B008
        return f"Sell {stock[article]} {article} in {ctx.tool}"

    made: Any = server.prompts.get("sell")
    assert [argument["name"] for argument in made.to_wire()["arguments"]] == ["article"]
    assert await server.get_prompt("sell", {"article": "tea"}) == [text("Sell 2 tea in sell")]
    async with testing.connect(server, overrides={get_stock: lambda: {"tea": 8}}) as client:
        assert (await client.get_prompt("sell", {"article": "tea"})).messages[0].text == "Sell 8 tea in sell"
    with server.override(get_stock, lambda: {"tea": 9}):
        assert await server.get_prompt("sell", {"article": "tea"}) == [text("Sell 9 tea in sell")]


# --- what may be a prompt ------------------------------------------------------------------------------


def test_anything_that_cannot_be_a_prompt_is_refused() -> None:
    server = MCPServer("shop")
    with pytest.raises(InvalidToolError, match="A lambda needs a name"):
        server.prompt(lambda: "x")
    with pytest.raises(InvalidToolError, match="cannot run in a process"):
        server.prompt("x", run="process")(lambda: "x")
    with pytest.raises(DefinitionError, match="name"):
        server.prompt("not a name!")(lambda: "x")
    with pytest.raises(DefinitionError):
        server.prompt("x")(lambda *args: "x")
    server.prompt("x")(lambda: "x")
    with pytest.raises(DefinitionError, match="'x' already registered"):
        server.prompt("x")(lambda: "y")
    with pytest.raises(DefinitionError):
        server.prompt("X")(lambda: "names of prompts are folded as those of tools")


def test_a_tool_a_prompt_and_a_resource_may_share_a_function() -> None:
    server = MCPServer("shop")

    @server.prompt
    @server.resource("shop://hours")
    @server.tool
    def hours() -> str:
        """When the shop is open."""
        return "9 to 5"

    assert hours() == "9 to 5"
    assert [len(each) for each in (server.registry, server.resources, server.prompts)] == [1, 1, 1]


async def test_an_unknown_prompt_is_named_as_such() -> None:
    with pytest.raises(ToolNotFoundError, match="Unknown prompt: nothing"):
        await MCPServer("shop").get_prompt("nothing")


async def test_errors_for_the_reader_are_shown_and_others_are_not() -> None:
    server = MCPServer("shop")

    @server.prompt
    async def refused() -> str:
        raise ToolError("Not on Sundays.")

    @server.prompt
    def crash() -> str:
        raise RuntimeError("hunter2")

    with pytest.raises(CallError, match=r"^Not on Sundays\.$"):
        await server.get_prompt("refused")
    with pytest.raises(CallError, match="Prompt 'crash' failed unexpectedly") as failed:
        await server.get_prompt("crash")
    assert "hunter2" not in str(failed.value)


async def test_a_prompt_that_takes_too_long_ends() -> None:
    server = MCPServer("shop")

    @server.prompt(timeout_s=0.05)
    async def slow() -> str:
        await asyncio.sleep(30)
        return "late"

    with pytest.raises(CallError, match=r"Prompt 'slow' did not finish within 0\.05 s"):
        await server.get_prompt("slow")


async def test_a_name_may_be_given_as_an_option() -> None:
    server = MCPServer("shop")
    server.prompt(lambda: "Hello", name="greet")

    @server.prompt(name="part")
    def leave() -> str:
        return "Goodbye"

    assert [prompt.name for prompt in server.prompts] == ["greet", "part"]
    assert await server.get_prompt("greet") == [text("Hello")]
    with pytest.raises(InvalidToolError, match="'name' is given twice"):
        server.prompt("one", name="two")(leave)


def takes_missing(city: Missing) -> str: ...  # type: ignore[name-defined]  # noqa: F821


def takes_context(city: str, ctx: OtherContext) -> str: ...


async def open_shelf() -> str: ...


def takes_async(city: Annotated[str, Depends(open_shelf)]) -> str: ...


def has_hidden_text(city: str) -> str:
    """Plan a trip\u200b\u202e."""
    return city


@pytest.mark.parametrize("function", [takes_missing, takes_context, takes_async, has_hidden_text])
@pytest.mark.parametrize("kind", ["prompt", "resource"])
def test_errors_in_a_function_name_what_it_is(kind: str, function: Any) -> None:
    server: Any = MCPServer("shop")
    add = getattr(server, kind)("it" if kind == "prompt" else "shop://{city}", run="inline")

    def build() -> None:
        add(function)
        _ = [tool.definition for tool in (*server.prompts, *server.resources)]

    with pytest.raises(DefinitionError) as refused:
        build()
    assert f"{kind} '" in str(refused.value)
    assert "tool" not in f"{refused.value} {refused.value.hint}".replace("toolcrib", "")
