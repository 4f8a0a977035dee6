"""The example of hosted models, against local imitations of the services of OpenAI, Anthropic and Google."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from tests.support.models.agent_tools import QUICK, Bench, collect
from tests.support.models.model_endpoints import VOICES, Endpoint, GeminiVoice, Reply, Voice, whole
from tests.support.servers.server_processes import ROOT
from toolcrib.agents import AgentRunner, Failure, Final, ToolCall, ToolResult

every_voice = pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.name)


@pytest.fixture(autouse=True)
def hosted(sdks: None, _own_providers: None) -> None:
    runpy.run_path(str(ROOT / "examples" / "hosted_models.py"))


def talk(bench: Bench, voice: Voice, endpoint: Endpoint, **options: Any) -> AgentRunner:
    options = {"model": "m-1", "api_key": "k3y", "base_url": endpoint.address + voice.base, **options}
    return AgentRunner(bench.server, provider=voice.name, limits=QUICK, **options)


@every_voice
async def test_a_model_asks_for_a_tool_and_answers(voice: Voice) -> None:
    replies = voice.answer("Let me see. ", [("add", {"a": 2, "b": 3})]), voice.answer("The sum is 5.")
    async with (
        Endpoint(*replies) as endpoint,
        talk(Bench(), voice, endpoint, instructions="Be brief.") as runner,
    ):
        events = await collect(runner)
    call = next(event for event in events if isinstance(event, ToolCall))
    assert (call.name, call.arguments) == ("add", {"a": 2, "b": 3})
    assert [event.text for event in events if isinstance(event, ToolResult)] == ["5"]
    assert events[-1] == Final("The sum is 5.")
    assert voice.results(endpoint.requests[1].body) == ["5"]
    assert "Be brief." in str(endpoint.requests[0].body)


@every_voice
async def test_the_next_question_has_the_whole_conversation(voice: Voice) -> None:
    replies = (voice.answer("", [("add", {"a": 1, "b": 1})]), voice.answer("Two."), voice.answer("Yes."))
    async with Endpoint(*replies) as endpoint, talk(Bench(), voice, endpoint) as runner:
        assert await runner.ask("One and one?") == "Two."
        assert await runner.ask("Sure?") == "Yes."
    body = str(endpoint.requests[2].body)
    assert [body.count(words) for words in ("One and one?", "Two.", "Sure?")] == [1, 1, 1]
    assert voice.results(endpoint.requests[2].body) == ["2"]


@every_voice
async def test_calls_of_one_turn_run_at_the_same_time(voice: Voice) -> None:
    calls = [("meet", {"name": "Ann"}), ("meet", {"name": "Bob"})]
    async with (
        Endpoint(voice.answer("", calls), voice.answer("Both.")) as endpoint,
        talk(Bench(), voice, endpoint) as runner,
    ):
        assert await runner.ask("Meet") == "Both."
    assert voice.results(endpoint.requests[1].body) == ["Ann was there", "Bob was there"]


@every_voice
async def test_unknown_tools_and_bad_arguments_become_results(voice: Voice) -> None:
    calls = [("ad", {}), ("add", {"a": "many"}), ("fail", {})]
    async with (
        Endpoint(voice.answer("", calls), voice.answer("Sorry.")) as endpoint,
        talk(Bench(), voice, endpoint) as runner,
    ):
        assert await runner.ask("Try") == "Sorry."
    unknown, wrong, refused = voice.results(endpoint.requests[1].body)
    assert "Unknown tool: ad; did you mean 'add'?" in unknown
    assert "Invalid arguments" in wrong
    assert "not today" in refused


@every_voice
async def test_a_session_without_tools_sends_none(voice: Voice) -> None:
    async with Endpoint(voice.answer("Hello.")) as endpoint:
        options = {"model": "m", "api_key": "k", "base_url": endpoint.address + voice.base}
        async with AgentRunner([], provider=voice.name, **options) as runner:
            assert await runner.ask("Hello?") == "Hello."
    assert "tools" not in endpoint.requests[0].body


@every_voice
async def test_a_refusal_of_the_service_is_a_failure(voice: Voice) -> None:
    refusal = voice.refuse(400, "no such model")
    async with (
        Endpoint(refusal) as endpoint,
        talk(Bench(), voice, endpoint) as runner,
    ):
        [failure] = await collect(runner)
    assert isinstance(failure, Failure)
    assert failure.kind == "failed"
    assert "no such model" in failure.message


async def test_signed_parts_are_sent_back_to_gemini() -> None:
    signed = {"functionCall": {"id": "f1", "name": "add", "args": {"a": 1}}, "thoughtSignature": "c2ln"}
    thought = {"text": "hm", "thought": True}
    content = {"role": "model", "parts": [thought, signed]}
    reply: Reply = whole({"candidates": [{"content": content, "finishReason": "STOP"}]})
    voice = GeminiVoice()
    async with Endpoint(reply, voice.answer("Two.")) as endpoint, talk(Bench(), voice, endpoint) as runner:
        assert await runner.ask("One more?") == "Two."
    contents = endpoint.requests[1].body["contents"]
    assert contents[1] == content
    assert contents[2]["parts"][0]["functionResponse"]["id"] == "f1"
