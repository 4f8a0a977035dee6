"""Results of calls that fail, and calls that ask for input."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import MCPServer, ToolError
from toolcrib.context import Elicitation, InputNeeded
from toolcrib.dispatch.failures import raise_questions

WHO, WHEN = (Elicitation(words, {"type": "object"}) for words in ("Who?", "When?"))


def test_a_question_is_asked_as_it_is() -> None:
    question = InputNeeded({"who": WHO})
    with pytest.raises(InputNeeded) as asked:
        raise_questions(question)
    assert asked.value.questions == question.questions


def test_questions_that_tasks_of_a_tool_asked_at_once_are_asked_together() -> None:
    inner = BaseExceptionGroup("inner", [InputNeeded({"when": WHEN})])
    with pytest.raises(InputNeeded) as asked:
        raise_questions(BaseExceptionGroup("outer", [InputNeeded({"who": WHO}), inner]))
    assert asked.value.questions == {"who": WHO, "when": WHEN}


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        ExceptionGroup("group", [ValueError("no")]),
        BaseExceptionGroup("group", [InputNeeded({"who": WHO}), ValueError("no")]),
    ],
)
def test_anything_that_failed_asks_nothing(error: BaseException) -> None:
    raise_questions(error)


async def test_words_may_be_as_long_as_a_result_and_no_longer() -> None:
    server = MCPServer()

    @server.tool
    async def fail(size: int) -> None:
        raise ToolError("x" * size)

    most = server.registry.get("fail").results.max_bytes
    assert (await server.call("fail", {"size": most})).text == "x" * most
    result: Any = await server.call("fail", {"size": most + 1})
    assert result.text == "Tool 'fail' failed, and its error message cannot be sent."
    assert result.error.code == "invalid-result"


async def test_errors_in_one_another_are_told_as_the_one_that_they_are() -> None:
    server = MCPServer()

    @server.tool
    async def fail() -> None:
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [ToolError("the only one")])])

    assert (await server.call("fail")).text == "the only one"


async def test_every_crash_has_a_reference_of_its_own() -> None:
    server = MCPServer()
    server.add(lambda: 1 // 0, name="fail")
    texts = {(await server.call("fail")).text for _ in range(3)}
    server.dispatcher.close()
    assert len(texts) == 3
    assert all(text.startswith("Tool 'fail' failed unexpectedly (reference ") for text in texts)
