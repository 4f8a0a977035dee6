"""Readers of turns trust nothing: whatever comes is a turn, or a failure in words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.model_endpoints import VOICES
from toolcrib.agents.anthropic import AnthropicTurn
from toolcrib.agents.gemini import GeminiTurn
from toolcrib.agents.hosted import Turn, TurnReader
from toolcrib.agents.openai import OpenAITurn
from toolcrib.errors import AgentError

READERS: list[type[TurnReader]] = [OpenAITurn, AnthropicTurn, GeminiTurn]
every_reader = pytest.mark.parametrize("make", READERS)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def real_items() -> list[list[Any]]:
    """The objects of real streams, as the imitations send them."""
    found = []
    for voice in VOICES:
        lines = b"".join(voice.stream("Well", [("add", {"a": 1}), ("now", {})]).chunks).decode().splitlines()
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
        found.append([json.loads(item) for item in data])
    return found


STREAMS = dict(zip(READERS, real_items(), strict=True))


def read(make: type[TurnReader], items: list[Any]) -> Turn | None:
    reader = make()
    try:
        for item in items:
            assert all(isinstance(text, str) for text in reader.feed(item))
        return reader.finish()
    except AgentError:
        return None


@every_reader
def test_a_stream_is_read_as_it_was_meant(make: type[TurnReader]) -> None:
    turn = read(make, STREAMS[make])
    assert turn is not None
    assert turn.text == "Well"
    assert [call.name for call in turn.calls] == ["add", "now"]
    assert all(call.flaw is None for call in turn.calls)
    json.dumps(turn.message)


def paths(node: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [before, *(path for key, child in inner for path in paths(child, (*before, key)))]


@every_reader
@given(data=st.data())
def test_a_stream_with_anything_in_the_wrong_place_is_survived(make: type[TurnReader], data: Any) -> None:
    items = json.loads(json.dumps(STREAMS[make]))
    number = data.draw(st.integers(0, len(items) - 1))
    path = data.draw(st.sampled_from(paths(items[number])[1:] or [()]))
    node = items[number]
    for key in path[:-1]:
        node = node[key]
    if path:
        node[path[-1]] = data.draw(JSON)
    turn = read(make, items)
    if turn is not None:
        json.dumps(turn.message)
        assert len({call.id for call in turn.calls}) == len(turn.calls)


@every_reader
@given(items=st.lists(st.dictionaries(st.text(max_size=4), JSON, max_size=4), max_size=4))
def test_objects_of_any_kind_are_survived(make: type[TurnReader], items: list[Any]) -> None:
    assert read(make, items) is None  # none of them says that the turn is over


@every_reader
def test_a_turn_that_never_stops_growing_is_ended(
    make: type[TurnReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.agents.hosted.MAX_TURN_CHARS", 1000)
    reader = make()
    endless = (text for item in STREAMS[make] * 1000 for text in reader.feed(item))
    with pytest.raises(AgentError, match="more than anybody could read"):
        list(endless)


def test_gemini_says_when_it_will_not_answer_and_when_it_stumbled() -> None:
    with pytest.raises(AgentError, match=r"will not answer this \(SAFETY\)") as error:
        list(GeminiTurn().feed({"promptFeedback": {"blockReason": "SAFETY"}}))
    assert error.value.kind == "refused"
    reader = GeminiTurn()
    list(reader.feed({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}))
    with pytest.raises(AgentError, match="could not read"):
        reader.finish()


def test_an_overloaded_service_is_busy() -> None:
    with pytest.raises(AgentError) as error:
        list(AnthropicTurn().feed({"type": "error", "error": {"type": "overloaded_error", "message": "hot"}}))
    assert (error.value.kind, str(error.value)) == ("busy", "the service broke off: hot")
