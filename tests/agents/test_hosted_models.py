"""OpenAI-compatible, Anthropic's and Google's services, imitated by local HTTP servers."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from tests.support.agents import QUICK, Bench, collect
from tests.support.model_endpoints import VOICES, Endpoint, GeminiVoice, OpenAIVoice, Reply, Voice, event
from toolcrib.agents import AgentRunner, Final, Limits, Token, ToolCall, ToolResult

pytestmark = pytest.mark.usefixtures("sdks")
every_voice = pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.name)


def talk(
    bench: Bench, voice: Voice, endpoint: Endpoint, limits: Limits = QUICK, **options: Any
) -> AgentRunner:
    options = {"model": "m-1", "api_key": "k3y", **options}
    base_url = endpoint.address + voice.base
    return AgentRunner(bench.server, provider=voice.name, base_url=base_url, limits=limits, **options)


@every_voice
@pytest.mark.parametrize("way", ["stream", "answer"])
async def test_a_model_asks_for_a_tool_and_answers(voice: Voice, way: str) -> None:
    speak = getattr(voice, way)
    async with (
        Endpoint(speak("Let me see. ", [("add", {"a": 2, "b": 3})]), speak("The sum is 5.")) as endpoint,
        talk(Bench(), voice, endpoint, stream=way == "stream", instructions="Be brief.") as runner,
    ):
        events = await collect(runner)
    call = next(event for event in events if isinstance(event, ToolCall))
    assert (call.name, call.arguments) == ("add", {"a": 2, "b": 3})
    assert [event.text for event in events if isinstance(event, ToolResult)] == ["5"]
    said = "".join(event.text for event in events if isinstance(event, Token))
    assert said == "Let me see. The sum is 5."
    last = events[-1]
    assert isinstance(last, Final)
    assert (last.text, last.reason) == ("The sum is 5.", "stop")
    assert voice.results(endpoint.requests[1].body) == ["5"]
    assert "Be brief." in str(endpoint.requests[0].body)


@every_voice
async def test_the_next_question_has_the_whole_conversation(voice: Voice) -> None:
    replies = (voice.stream("", [("add", {"a": 1, "b": 1})]), voice.stream("Two."), voice.stream("Yes."))
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
        Endpoint(voice.stream("", calls), voice.stream("Both.")) as endpoint,
        talk(Bench(), voice, endpoint) as runner,
    ):
        assert await runner.ask("Meet") == "Both."
    assert voice.results(endpoint.requests[1].body) == ["Ann was there", "Bob was there"]


@every_voice
async def test_unknown_tools_and_bad_arguments_become_results(voice: Voice) -> None:
    calls = [("ad", {}), ("add", {"a": "many"}), ("fail", {})]
    async with (
        Endpoint(voice.stream("", calls), voice.stream("Sorry.")) as endpoint,
        talk(Bench(), voice, endpoint) as runner,
    ):
        events = await collect(runner)
    assert events[-1] == Final("Sorry.", "stop", events[-1].usage)  # type: ignore[union-attr]
    unknown, wrong, refused = voice.results(endpoint.requests[1].body)
    assert "Unknown tool: ad; did you mean 'add'?" in unknown
    assert "Invalid arguments" in wrong
    assert "not today" in refused


@every_voice
async def test_an_answer_cut_short_by_a_limit_has_the_reason_length(voice: Voice) -> None:
    reason = {"openai": "length", "anthropic": "max_tokens", "gemini": "MAX_TOKENS"}[voice.name]
    async with (
        Endpoint(voice.stream("And then", reason=reason)) as endpoint,
        talk(Bench(), voice, endpoint, max_tokens=7, temperature=0.5) as runner,
    ):
        final = (await collect(runner))[-1]
    assert isinstance(final, Final)
    assert (final.text, final.reason) == ("And then", "length")
    assert "7" in str(endpoint.requests[0].body)
    assert "0.5" in str(endpoint.requests[0].body)


@every_voice
async def test_a_session_without_tools_sends_none(voice: Voice) -> None:
    async with Endpoint(voice.stream("Hello.")) as endpoint:
        base_url = endpoint.address + voice.base
        runner = AgentRunner([], provider=voice.name, model="m", api_key="k", base_url=base_url)
        async with runner:
            assert await runner.ask("Hello?") == "Hello."
    assert "tools" not in endpoint.requests[0].body


async def test_requests_have_the_path_headers_and_tools_of_their_service() -> None:
    seen: dict[str, Any] = {}
    for voice in VOICES:
        async with Endpoint(voice.stream("Hello.")) as endpoint, talk(Bench(), voice, endpoint) as runner:
            await runner.ask("Hello?")
        seen[voice.name] = endpoint.requests[0]
    assert seen["openai"].path == "/v1/chat/completions"
    assert seen["openai"].headers["authorization"] == "Bearer k3y"
    assert seen["openai"].body["tools"][0]["function"]["name"] == "add"
    assert seen["anthropic"].path == "/v1/messages"
    sent = seen["anthropic"].headers  # version 1 of the SDK has the key in the other header
    assert (sent.get("authorization"), sent.get("x-api-key")) in (("Bearer k3y", None), (None, "k3y"))
    assert seen["anthropic"].headers["anthropic-version"]
    assert seen["anthropic"].body["tools"][0]["input_schema"]["properties"].keys() == {"a", "b"}
    assert seen["gemini"].path.endswith("/models/m-1:streamGenerateContent?alt=sse")
    assert seen["gemini"].headers["x-goog-api-key"] == "k3y"
    assert seen["gemini"].body["tools"][0]["functionDeclarations"][0]["name"] == "add"


async def test_the_key_and_the_address_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    voice = OpenAIVoice()
    async with Endpoint(voice.stream("Hello.")) as endpoint:
        monkeypatch.setenv("OPENAI_API_KEY", "fr0m-outside")
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.address)
        runner = AgentRunner([], provider="openai", model="m", extra={"seed": 7})
        async with runner:
            assert await runner.ask("Hello?") == "Hello."
            assert "fr0m-outside" not in repr(runner.provider)
    request = endpoint.requests[0]
    assert request.headers["authorization"] == "Bearer fr0m-outside"
    assert request.body["seed"] == 7


async def test_signed_parts_are_sent_back_to_gemini() -> None:
    voice = GeminiVoice()
    signed = {"functionCall": {"id": "f1", "name": "add", "args": {"a": 1}}, "thoughtSignature": "c2ln"}
    thought = {"text": "hm", "thought": True}
    answer = {
        "candidates": [{"content": {"role": "model", "parts": [thought, signed]}, "finishReason": "STOP"}]
    }
    async with (
        Endpoint(Reply([event(answer)]), voice.stream("Two.")) as endpoint,
        talk(Bench(), voice, endpoint) as runner,
    ):
        events = await collect(runner)
    assert not any(isinstance(item, Token) and "hm" in item.text for item in events)
    contents = endpoint.requests[1].body["contents"]
    assert contents[1] == {"role": "model", "parts": [thought, signed]}
    assert contents[2]["parts"][0]["functionResponse"]["id"] == "f1"


async def test_text_that_an_openai_service_sends_in_parts_is_joined() -> None:
    parts = [
        {"type": "thinking", "thinking": []},
        {"type": "text", "text": "Fi"},
        {"type": "text", "text": "ve."},
    ]
    chunk = {"choices": [{"index": 0, "delta": {"content": parts}, "finish_reason": "stop"}]}
    async with Endpoint(Reply([event(chunk)])) as endpoint, talk(Bench(), VOICES[0], endpoint) as runner:
        assert await runner.ask("2 and 3?") == "Five."


async def test_signed_thinking_is_sent_back_to_anthropic() -> None:
    voice = VOICES[1]
    usage = {"input_tokens": 1, "output_tokens": 1}
    begin: dict[str, Any] = {"type": "message_start", "message": {"content": [], "usage": usage}}
    items = [
        begin,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "signature_delta", "signature": "c2ln"},
        },
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {"type": "tool_use", "id": "t1", "name": "add", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 2,
            "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'},
        },
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage},
    ]
    async with (
        Endpoint(Reply([event(item, item["type"]) for item in items]), voice.stream("Two.")) as endpoint,
        talk(Bench(), voice, endpoint) as runner,
    ):
        assert await runner.ask("One more?") == "Two."
    assert endpoint.requests[1].body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
    ]


async def test_requests_match_the_types_of_the_sdks() -> None:
    import anthropic.types
    import openai.types.chat
    from google import genai

    bodies: dict[str, Any] = {}
    for voice in VOICES:
        async with (
            Endpoint(voice.stream("Well. ", [("add", {"a": 2, "b": 3})]), voice.stream("Five.")) as endpoint,
            talk(Bench(), voice, endpoint, instructions="Be brief.") as runner,
        ):
            await runner.ask("What is 2 and 3?")
        bodies[voice.name] = endpoint.requests[1].body
    for item in bodies["openai"]["messages"]:
        pydantic.TypeAdapter(openai.types.chat.ChatCompletionMessageParam).validate_python(item)
    for item in bodies["openai"]["tools"]:
        pydantic.TypeAdapter(openai.types.chat.ChatCompletionToolParam).validate_python(item)
    for item in bodies["anthropic"]["messages"]:
        pydantic.TypeAdapter(anthropic.types.MessageParam).validate_python(item)
    for item in bodies["anthropic"]["tools"]:
        pydantic.TypeAdapter(anthropic.types.ToolParam).validate_python(item)
    for item in bodies["gemini"]["contents"]:
        genai.types.Content.model_validate(item)
    for item in bodies["gemini"]["tools"]:
        genai.types.Tool.model_validate(item)
