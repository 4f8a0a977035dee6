"""Questions to clients of the handshake revisions over HTTP, on both stacks: asked on the stream of the call,
answered by another request of the same session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.clients.legacy_client import Answer, Event, Older
from tests.support.servers.feature_server import NAME

Connect = Callable[..., Older]


def question(answer: Answer) -> Event:
    """The next question on the stream of a call."""
    for event in answer.events():
        if event.data and "method" in event.message:
            return event
    raise AssertionError("nothing was asked")


def outcome(answer: Answer) -> Any:
    return answer.messages()[-1]["result"]


def test_a_form_is_asked_on_the_stream_of_its_call_and_the_answer_goes_on_with_it(
    connect: Connect,
) -> None:
    client = connect(elicitation={})
    call = client.call("greet")
    asked = question(call)
    params = {"mode": "form", "message": "What is your name?", "requestedSchema": NAME}
    assert asked.message["method"] == "elicitation/create"
    assert asked.message["params"] == params
    assert asked.id == "1-1"
    assert client.reply(asked.message["id"], {"action": "accept", "content": {"name": "Ada"}}).status == 202
    assert outcome(call)["content"][0]["text"] == "Hello, Ada!"


def test_a_client_of_2025_06_18_is_not_told_of_modes(connect: Connect) -> None:
    client = connect("2025-06-18", elicitation={})
    call = client.call("greet")
    asked = question(call)
    assert asked.message["params"] == {"message": "What is your name?", "requestedSchema": NAME}
    client.reply(asked.message["id"], {"action": "decline"})
    assert outcome(call)["content"][0]["text"] == "They decline."


def test_a_client_is_asked_only_what_it_can_do(connect: Connect) -> None:
    for client, tools in (
        (connect(), ("greet", "visit", "complete", "where")),
        (connect(elicitation={}), ("visit", "complete", "where")),
        (connect("2025-06-18", elicitation={"url": {}}), ("visit",)),
        (connect("2025-03-26", elicitation={}), ("greet", "visit")),
    ):
        for tool in tools:
            answer = client.call(tool)
            assert not answer.is_stream
            assert answer.result["isError"] is True
            assert "cannot be asked that" in answer.result["content"][0]["text"]


def test_an_answer_from_another_session_is_none(connect: Connect) -> None:
    client, thief = connect(elicitation={}), connect(elicitation={})
    call = client.call("greet")
    number = question(call).message["id"]
    assert thief.reply(number, {"action": "accept", "content": {"name": "Eve"}}).status == 202
    assert client.reply("ask-99", {"action": "accept", "content": {"name": "Nobody"}}).status == 202
    client.reply(number, {"action": "accept", "content": {"name": "Ada"}})
    assert outcome(call)["content"][0]["text"] == "Hello, Ada!"
    assert client.reply(number, {"action": "accept"}).status == 202  # too late: no caller waits for it


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"action": "maybe"},
        {"action": "accept"},
        {"action": "accept", "content": {"name": 5}},
        {"action": "accept", "content": []},
        [],
        "accept",
        None,
    ],
)
def test_anything_that_is_not_an_answer_fails_the_call(connect: Connect, reply: Any) -> None:
    client = connect(elicitation={})
    call = client.call("greet")
    assert client.reply(question(call).message["id"], reply).status == 202
    found = outcome(call)
    assert found["isError"] is True
    assert "does not fit the question" in found["content"][0]["text"]


def test_a_client_that_comes_back_finds_its_question(connect: Connect) -> None:
    client = connect(elicitation={})
    call = client.call("greet")
    primed = call.event()
    assert primed is not None
    call.leave()
    back = client.listen(primed.id)
    asked = question(back)
    client.reply(asked.message["id"], {"action": "accept", "content": {"name": "Ada"}})
    assert outcome(back)["content"][0]["text"] == "Hello, Ada!"


def test_a_cancelled_call_does_not_wait_for_its_answer(connect: Connect) -> None:
    client = connect(elicitation={})
    call = client.call("greet", id_="asks")
    number = question(call).message["id"]
    client.cancel("asks")
    assert call.messages() == []
    assert client.reply(number, {"action": "accept", "content": {"name": "Ada"}}).status == 202
    assert client.call("add", {"a": 1}, id_="asks").status == 200
