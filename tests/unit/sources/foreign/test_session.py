"""The session and the request behind a Context of theirs."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from tests.unit.sources.foreign.answering import Person
from toolcrib.context import Answer, Completion, Context, Folders, Form, Prompt, Visit
from toolcrib.errors import ToolError
from toolcrib.sources.foreign.context import Bus, NotLentError, Request, answer_of, question_of
from toolcrib.sources.foreign.recognition import is_low_level, library_of


def request_of(person: Person) -> Request:
    return Request(Context("tool", {}, channel=person), {"db": 1})


async def test_a_page_to_visit_is_asked_for() -> None:
    person = Person(Answer("accept"))

    result = await request_of(person).session.elicit_url("Sign in", "https://id.example", "1")

    assert (result.action, result.content) == ("accept", None)
    assert person.questions == [Visit("Sign in", "https://id.example")]


async def test_both_spellings_of_a_forms_schema_are_understood() -> None:
    person, schema = (
        Person(Answer("accept", {"a": 1}), Answer("decline")),
        {"type": "object", "properties": {}},
    )
    session = request_of(person).session

    first = await session.elicit("A?", schema)
    second = await session.elicit(message="B?", requestedSchema=schema)

    assert (first.content, second.action) == ({"a": 1}, "decline")
    assert [question.message for question in person.questions if isinstance(question, Form)] == ["A?", "B?"]


async def test_the_client_may_be_asked_in_the_general_way() -> None:
    person = Person(Completion([{"type": "text", "text": "x"}]))
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="hi"))
    request = types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=9)
    )

    result = await request_of(person).session.send_request(request, types.CreateMessageResultWithTools)

    assert isinstance(result, types.CreateMessageResultWithTools)
    assert isinstance(person.questions[0], Prompt)
    assert person.questions[0].max_tokens == 9


async def test_a_request_to_the_client_that_is_no_question_is_refused_in_words() -> None:
    with pytest.raises(NotLentError, match="the request ping"):
        await request_of(Person()).session.send_request(types.PingRequest(), types.EmptyResult)


async def test_closing_the_stream_is_passed_on() -> None:
    person = Person()

    await request_of(person).close_sse_stream()

    assert person.closed == 1


def test_what_is_not_there_is_both_an_error_to_read_and_a_missing_attribute() -> None:
    request = request_of(Person())

    assert not hasattr(request.session, "send_ping")
    assert getattr(request, "nothing", 3) == 3
    with pytest.raises(ToolError, match=r"ctx\.session\.send_ping"):
        _ = request.session.send_ping


def test_a_request_has_one_number_and_tells_it_wherever_it_is_looked_for() -> None:
    request = request_of(Person())

    assert request.meta.get("progress_token") == request.meta.progressToken == request.request_id
    assert request.meta.client_id is None
    assert request.session.check_client_capability(types.ClientCapabilities()) is False


async def test_announcing_changes_has_no_listeners() -> None:
    with pytest.raises(NotLentError, match="notify"):
        await Bus().publish(object())
    with pytest.raises(NotLentError):
        Bus().subscribe(print)


def test_an_answer_that_answers_nothing_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError):
        answer_of(Folders(), Answer("accept"))
    assert question_of("roots/list", {}) == Folders()


@pytest.mark.parametrize("thing", [None, 1, "x", type, object(), types, Person])
def test_nothing_else_is_taken_for_a_server_of_theirs(thing: Any) -> None:
    assert library_of(thing) is None
    assert not is_low_level(thing)


def test_a_class_may_say_anything_of_its_module() -> None:
    odd = type("MCPServer", (), {"__module__": 3})()

    assert library_of(odd) is None
