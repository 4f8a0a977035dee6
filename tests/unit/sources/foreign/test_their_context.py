"""The Context of another library in its functions: progress, log messages, questions, state."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from fastmcp.server.context import _current_context
from fastmcp.server.dependencies import fastmcp_request_ctx

from tests.unit.sources.foreign.answering_client import GUESTS, Person
from toolcrib import MCPServer
from toolcrib.context import Answer, Elicitation, Root, Roots, Sampling, SamplingResult

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


async def serve(*files: str) -> MCPServer:
    server = MCPServer("test")
    for file in files:
        server.add(str(GUESTS / file))
    return server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sdk() -> AsyncIterator[MCPServer]:
    async with await serve("sdk_shop.py", "sdk_odd.py") as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fast() -> AsyncIterator[MCPServer]:
    async with await serve("fast_desk.py") as server:
        yield server


class TestTelling:
    async def test_progress_and_log_lines_of_the_sdk_reach_the_caller(self, sdk: MCPServer) -> None:
        person = Person()

        result = await person.call(sdk, "price", {"item": "tea"})

        assert result.structured_content == 4.5
        assert person.told == [(1, 2, "looking"), (2, 2, None)]
        assert person.logged == [("info", "asked for tea")]

    async def test_progress_and_log_lines_of_fastmcp_reach_the_caller(self, fast: MCPServer) -> None:
        person = Person()

        await person.call(fast, "work", {"steps": 2})

        assert person.told == [(1, 2, None), (2, 2, None)]
        assert person.logged == [("warning", {"msg": "nearly done", "extra": {"steps": 2}})]

    async def test_a_tool_that_calls_another_tells_the_same_caller(self, fast: MCPServer) -> None:
        person = Person()

        await person.call(fast, "nested", {"a": 1})

        assert person.told == [(1, 1, None)]

    async def test_nothing_of_it_is_left_after_the_call(self, fast: MCPServer) -> None:
        await fast.call("work", {"steps": 1})

        assert _current_context.get() is None
        assert fastmcp_request_ctx.get() is None

    async def test_two_calls_have_two_states(self, fast: MCPServer) -> None:
        first = await fast.call("work", {"steps": 1})
        second = await fast.call("work", {"steps": 3})

        assert (first.text[0], second.text[0]) == ("1", "3")


@pytest.mark.parametrize("calls_again", [False, True], ids=["waits", "calls again"])
class TestAsking:
    async def test_a_model_of_pydantic_is_asked_for_and_made(self, sdk: MCPServer, calls_again: bool) -> None:
        person = Person(Answer("accept", {"really": True, "reason": "thirst"}), calls_again=calls_again)

        result = await person.call(sdk, "buy", {"item": "tea"})

        assert result.text == "bought tea: True, thirst"
        (question,) = person.questions
        assert isinstance(question, Elicitation)
        assert question.message == "Really buy tea?"
        assert question.schema["required"] == ["really"]

    @pytest.mark.parametrize("action", ["decline", "cancel"])
    async def test_no_is_an_answer(self, sdk: MCPServer, action: str, calls_again: bool) -> None:
        person = Person(Answer(action), calls_again=calls_again)  # type: ignore[arg-type]

        assert (await person.call(sdk, "buy", {"item": "tea"})).text == f"not bought: {action}"

    async def test_questions_that_are_returned_are_asked(self, fast: MCPServer, calls_again: bool) -> None:
        person = Person(Answer("accept", {"sure": True}), calls_again=calls_again)

        assert (await person.call(fast, "guard", {"city": "Oslo"})).text == "Oslo: True, state of Oslo"

    async def test_a_resolver_asks_for_what_it_injects(self, sdk: MCPServer, calls_again: bool) -> None:
        person = Person(Answer("accept", {"user": "ada"}), calls_again=calls_again)

        assert (await person.call(sdk, "whoami", {"greeting": "Hi"})).text == "Hi, ada"

    async def test_the_clients_model_is_asked(self, sdk: MCPServer, calls_again: bool) -> None:
        person = Person(
            SamplingResult({"type": "text", "text": "bee, sea"}, model="m1"), calls_again=calls_again
        )

        result = await person.call(sdk, "poem", {"topic": "tea"})

        assert result.text == "m1: bee, sea"
        (question,) = person.questions
        assert isinstance(question, Sampling)
        assert question.max_tokens == 50
        assert question.system == "Be brief"
        assert question.options == {"temperature": 0.5}
        assert question.messages == [{"role": "user", "content": {"type": "text", "text": "Rhyme on tea"}}]

    @pytest.mark.parametrize("tool", ["folders", "where"])
    async def test_the_clients_folders_are_asked(self, sdk: MCPServer, tool: str, calls_again: bool) -> None:
        person = Person([Root("file:///home", "home"), Root("file:///tmp")], calls_again=calls_again)

        result = await person.call(sdk, tool)

        assert result.structured_content == ["file:///home", "file:///tmp"]
        assert isinstance(person.questions[0], Roots)


class TestNobody:
    @pytest.mark.parametrize("tool", ["ask_name", "ask_contact"])
    async def test_anyone_who_cannot_be_asked_is_said_in_words(self, fast: MCPServer, tool: str) -> None:
        result = await fast.call(tool)

        assert result.is_error
        assert "Cannot ask the user" in result.text
