"""Typed questions to the user, and mistakes that a tool makes with its Context."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from toolcrib import Context, MCPServer
from toolcrib.context import Answer, Elicitation
from toolcrib.schema.arguments import read_form

pytestmark = pytest.mark.anyio


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Reason(BaseModel):
    """Why it is done."""

    text: Annotated[str, Field(description="In your words", min_length=2)]
    urgent: bool = False
    count: int | None = None
    size: Size = Size.SMALL
    tags: list[Literal["a", "b"]] = []

    @field_validator("text")
    @classmethod
    def refuse_nothing(cls, text: str) -> str:
        if text == "nothing":
            raise ValueError("say more")
        return text


@dataclasses.dataclass
class Place:
    name: str
    floor: int = 0


class Keys(TypedDict, total=False):
    name: str


class Nested(BaseModel):
    place: Place


def make() -> MCPServer:
    server = MCPServer("desk")

    @server.tool
    async def reason(ctx: Context) -> str:
        return repr(await ctx.ask("r", "Why?", Reason))

    @server.tool
    def on_a_thread(ctx: Context) -> str:
        return repr(ctx.ask("r", "Where?", Place))

    @server.tool
    async def several(ctx: Context) -> str:
        found = await ctx.ask_all(
            {"p": Elicitation("Where?", Place), "k": Elicitation("Who?", Keys), "s": Elicitation("Sure?")}
        )
        return repr(found)

    return server


VERSIONS = ["2025-11-25", "2026-07-28"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_question_is_answered_with_an_object_of_its_class(version: str) -> None:
    asked: list[Any] = []

    async def answer(form: Elicitation) -> Answer:
        asked.append(form.schema)
        content = (
            {"text": "because", "size": "l", "tags": ["b"]} if "text" in str(form.schema) else {"name": "x"}
        )
        return Answer("accept", content)

    async with make().connect(on_ask=answer, protocol=version) as client:
        expected = Reason(text="because", size=Size.LARGE, tags=["b"])
        assert (await client.call("reason")).text == repr(expected)
        assert (await client.call("on_a_thread")).text == repr(Place("x"))
        sure = Answer("accept", {"name": "x"})
        assert (await client.call("several")).text == repr({"p": Place("x"), "k": {"name": "x"}, "s": sure})
    assert asked[0]["properties"] == {
        "text": {"type": "string", "minLength": 2, "description": "In your words"},
        "urgent": {"type": "boolean", "default": False},
        "count": {"type": "integer"},
        "size": {"type": "string", "enum": ["s", "l"], "default": "s"},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": []},
    }
    assert asked[0]["required"] == ["text"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_user_who_declines_is_none_and_what_a_validator_refuses_is_a_call_error(version: str) -> None:
    replies = [Answer("decline"), Answer("accept", {"text": "nothing"})]

    async def answer(_: Elicitation) -> Answer:
        return replies[0]

    async with make().connect(on_ask=answer, protocol=version) as client:
        assert (await client.call("reason")).text == "None"
        del replies[0]
        result = await client.call("reason")
        assert result.is_error
        assert result.text == "The answer to 'r' cannot be used: 'text': say more"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (Nested, "Nested.place is an object; a form has text, numbers, booleans and choices"),
        (int, "a form is a JSON Schema, a model, a dataclass or a TypedDict, got int"),
        ("text", "annotation 'text' is not a type"),
        ({"type": "string"}, "its schema must have type 'object'"),
        ({"type": "object", "properties": 5}, "5 is not of type"),
        (5, "annotation 5 is not a type"),
    ],
)
def test_anything_that_is_not_a_form_is_explained(schema: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words.replace("[", r"\[")):
        read_form(schema)


MISTAKES = {
    "a nested model": (
        lambda ctx: ctx.ask("r", "Why?", Nested),
        "Question 'r' cannot be asked: Nested.place is",
    ),
    "no text": (
        lambda ctx: ctx.ask("r", 5),
        "Question 'r' cannot be asked: its message must be a string, got 5",
    ),
    "no key": (lambda ctx: ctx.ask("", "Why?"), "The key of a question must be a non-empty string"),
    "a key of the policy": (lambda ctx: ctx.ask("toolcrib.x", "Why?"), "must not begin with 'toolcrib.'"),
    "an object as schema": (
        lambda ctx: ctx.ask("r", "Why?", object()),
        "Question 'r' cannot be asked: a form is",
    ),
    "no question": (
        lambda ctx: ctx.ask_all({"r": "Why?"}),
        "it is a str, not an Elicitation, URLElicitation, Sampling or Roots",
    ),
    "no address": (lambda ctx: ctx.ask_url("r", "Go", None), "its url must be a string, got None"),
    "no messages": (lambda ctx: ctx.sample("r", [object()]), "Question 'r' cannot be asked: "),
    "no limit": (lambda ctx: ctx.sample("r", "x", max_tokens="5"), "max_tokens must be a positive integer"),
    "no number": (lambda ctx: ctx.progress("half"), "ctx.progress() takes a number as progress, got 'half'"),
    "not a number": (lambda ctx: ctx.progress(1, float("nan")), "takes a number as total, got nan"),
    "no message": (lambda ctx: ctx.progress(1, 2, 3), "ctx.progress() takes a string as message, got 3"),
    "too few arguments": (lambda ctx: ctx.log("hello"), "ctx.log() missing 1 required positional argument"),
    "a misspelt method": (
        lambda ctx: ctx.progres(1),
        "Context has no attribute 'progres' (did you mean 'progress'?)",
    ),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("mistake", "words"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
async def test_a_mistake_with_the_context_is_a_call_error_that_names_it(
    version: str, mistake: Any, words: str, is_async: bool
) -> None:
    server = MCPServer("desk")

    async def act_async(ctx: Context) -> None:
        await mistake(ctx)

    def act_on_thread(ctx: Context) -> None:
        mistake(ctx)

    server.add(act_async if is_async else act_on_thread, name="act")

    async def decline(_: Elicitation) -> Answer:
        return Answer("decline")

    async with server.connect(on_ask=decline, protocol=version) as client:
        result = await client.call("act")
    assert result.is_error
    assert result.text.startswith("Tool 'act' has an error: ")
    assert words in result.text


async def test_a_log_message_without_a_json_form_is_sent_as_text() -> None:
    server = MCPServer("desk")
    heard: list[Any] = []

    @server.tool
    async def act(ctx: Context) -> None:
        await ctx.log("info", ValueError("broken"))

    async with server.connect() as client:
        await client.call("act", on_log=lambda level, data: heard.append((level, data)))
    assert heard == [("info", "broken")]
