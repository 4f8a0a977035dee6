"""Questions on the wire, and the seal on the state of a call that waits for answers."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from toolcrib.context import (
    Answer,
    Elicitation,
    Question,
    Root,
    Roots,
    Sampling,
    SamplingResult,
    URLElicitation,
)
from toolcrib.errors import CannotAskError
from toolcrib.protocol.messages import INVALID_PARAMS, RPCError
from toolcrib.protocol.questions import STATE_S, StateSealer, check_capability, from_wire, to_wire
from toolcrib.protocol.revisions import LEGACY, MODERN

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
CALL: list[Any] = ["ada", "greet", {"a": 1}]


class Wall:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_anything_that_was_sealed_is_opened_with_the_same_call() -> None:
    sealer = StateSealer(now=Wall())
    state = sealer.seal(CALL, {"who": {"action": "accept"}})
    assert sealer.open(state, ["ada", "greet", {"a": 1}]).answers == {"who": {"action": "accept"}}
    assert sealer.seal(CALL, {}) != sealer.seal(CALL, {})


@pytest.mark.parametrize(
    "other", [["eve", "greet", {"a": 1}], ["ada", "delete", {"a": 1}], ["ada", "greet", {"a": 2}]]
)
def test_a_state_of_another_principal_tool_or_arguments_is_refused(other: list[Any]) -> None:
    sealer = StateSealer(now=Wall())
    with pytest.raises(RPCError) as refused:
        sealer.open(sealer.seal(CALL, {}), other)
    assert refused.value.code == INVALID_PARAMS


def test_a_state_that_was_changed_anywhere_is_refused() -> None:
    sealer = StateSealer(now=Wall())
    state = sealer.seal(CALL, {"who": {"action": "decline"}})
    for position in range(len(state)):
        letter = "A" if state[position] != "A" else "B"
        with pytest.raises(RPCError):
            sealer.open(state[:position] + letter + state[position + 1 :], CALL)


@pytest.mark.parametrize("state", [None, 5, {}, "", "x", "-TAMPERED", "\u00e9", "A" * 10_000_000])
def test_anything_that_is_not_a_state_is_refused(state: Any) -> None:
    with pytest.raises(RPCError):
        StateSealer(now=Wall()).open(state, CALL)


def test_something_appended_or_another_spelling_is_refused() -> None:
    sealer = StateSealer(now=Wall())
    state = sealer.seal(CALL, {})
    for other in (
        state + "-TAMPERED",
        state + "=",
        state + "\n",
        state[:-1],
        base64.b64encode(b"x").decode(),
    ):
        with pytest.raises(RPCError):
            sealer.open(other, CALL)


def test_a_state_lives_for_ten_minutes() -> None:
    wall = Wall()
    sealer = StateSealer(now=wall)
    state = sealer.seal(CALL, {})
    wall.now += STATE_S - 1
    assert sealer.open(state, CALL).answers == {}
    wall.now += 2
    with pytest.raises(RPCError, match="expired"):
        sealer.open(state, CALL)


def test_workers_that_share_a_key_open_each_others_states() -> None:
    key = b"k" * 32
    state = StateSealer([key], now=Wall()).seal(CALL, {"a": 1})
    assert StateSealer([b"new" * 11, key], now=Wall()).open(state, CALL).answers == {"a": 1}
    with pytest.raises(RPCError):
        StateSealer([b"l" * 32], now=Wall()).open(state, CALL)


@pytest.mark.parametrize(
    ("question", "raw", "reply"),
    [
        (
            Elicitation("?", NAME),
            {"action": "accept", "content": {"name": "Ada"}},
            Answer("accept", {"name": "Ada"}),
        ),
        (Elicitation("?", NAME), {"action": "decline"}, Answer("decline")),
        (Elicitation("?", NAME), {"action": "cancel", "content": None}, Answer("cancel")),
        (Elicitation("?", NAME), {"action": "accept", "content": {"name": 5}}, None),
        (Elicitation("?", NAME), {"action": "accept"}, None),
        (Elicitation("?", NAME), {"action": "maybe"}, None),
        (Elicitation("?", NAME), {"action": ["accept"]}, None),
        (Elicitation("?"), {"action": "accept", "content": 5}, None),
        (URLElicitation("?", "https://x.example"), {"action": "accept"}, Answer("accept")),
        (
            Sampling("Hi"),
            {
                "role": "assistant",
                "content": {"type": "text", "text": "Ho"},
                "model": "m",
                "stopReason": "end",
            },
            SamplingResult({"type": "text", "text": "Ho"}, "assistant", "m", "end"),
        ),
        (Sampling("Hi"), {"role": "assistant", "content": [], "model": 5}, SamplingResult([], "assistant")),
        (Sampling("Hi"), {"content": "Ho"}, None),
        (Roots(), {"roots": [{"uri": "file:///a", "name": "a"}]}, [Root("file:///a", "a")]),
        (Roots(), {"roots": [{"name": "a"}]}, None),
        (Roots(), {"roots": {}}, None),
        (Roots(), None, None),
        (Roots(), 5, None),
    ],
)
def test_an_answer_is_read_for_what_it_answers(question: Question, raw: Any, reply: Any) -> None:
    assert from_wire(question, raw) == reply


def test_an_answer_is_true_where_it_was_accepted_and_gives_its_fields() -> None:
    answer = Answer("accept", {"name": "Ada"})
    assert bool(answer)
    assert (answer["name"], answer.get("age", 5)) == ("Ada", 5)
    assert not Answer("decline")
    assert (
        SamplingResult([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]).text
        == "a\nb"
    )


def test_a_text_to_complete_becomes_one_message_of_the_user() -> None:
    method, params = to_wire(Sampling("Hi", 100, "Be kind", {"temperature": 0}))
    assert method == "sampling/createMessage"
    assert params == {
        "temperature": 0,
        "messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}],
        "maxTokens": 100,
        "systemPrompt": "Be kind",
    }


@pytest.mark.parametrize(
    ("question", "capabilities", "revision", "lacks"),
    [
        (Elicitation("?"), {"elicitation": {}}, MODERN, None),
        (Elicitation("?"), {"elicitation": {"form": {}}}, MODERN, None),
        (Elicitation("?"), {"elicitation": {"url": {}}}, MODERN, {"elicitation": {}}),
        (Elicitation("?"), {}, MODERN, {"elicitation": {}}),
        (Elicitation("?"), {"elicitation": {}}, LEGACY["2025-06-18"], None),
        (Elicitation("?"), {"elicitation": {}}, LEGACY["2025-03-26"], {"elicitation": {}}),
        (URLElicitation("?", "u"), {"elicitation": {"url": {}}}, MODERN, None),
        (URLElicitation("?", "u"), {"elicitation": {}}, MODERN, {"elicitation": {"url": {}}}),
        (
            URLElicitation("?", "u"),
            {"elicitation": {"url": {}}},
            LEGACY["2025-06-18"],
            {"elicitation": {"url": {}}},
        ),
        (Sampling("?"), {"sampling": {}}, LEGACY["2024-11-05"], None),
        (Sampling("?"), {"sampling": True}, MODERN, {"sampling": {}}),
        (Roots(), {"roots": {}}, MODERN, None),
        (Roots(), {}, MODERN, {"roots": {}}),
    ],
)
def test_only_what_a_client_declares_is_asked(
    question: Question, capabilities: Any, revision: Any, lacks: Any
) -> None:
    if lacks is None:
        check_capability(question, capabilities, revision)
        return
    with pytest.raises(CannotAskError) as refused:
        check_capability(question, capabilities, revision)
    assert refused.value.details == {"requiredCapabilities": lacks}
