"""The services that tests imitate are imitated well: the providers' own packages understand them.

And the other way round: what our requests say is what those packages would send.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.test_hosted_models import talk
from tests.support.agents import Bench
from tests.support.model_endpoints import AnthropicVoice, Endpoint, GeminiVoice, OpenAIVoice

CALLS = [("add", {"a": 2, "b": 3})]


async def test_the_openai_sdk_reads_the_imitated_service() -> None:
    openai = pytest.importorskip("openai")
    voice = OpenAIVoice()
    ask: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello?"}]}
    async with (
        Endpoint(voice.stream("Well. ", CALLS), voice.answer("", CALLS)) as endpoint,
        openai.AsyncOpenAI(base_url=endpoint.address + "/v1", api_key="k") as client,
    ):
        text = arguments = ""
        stream = await client.chat.completions.create(**ask, stream=True)
        async for chunk in stream:
            delta = chunk.choices[0].delta
            text += delta.content or ""
            arguments += "".join(call.function.arguments for call in delta.tool_calls or ())
        assert (text, arguments) == ("Well. ", '{"a": 2, "b": 3}')
        whole = await client.chat.completions.create(**ask)
        assert whole.choices[0].message.tool_calls[0].function.name == "add"


async def test_the_anthropic_sdk_reads_the_imitated_service() -> None:
    anthropic = pytest.importorskip("anthropic")
    voice = AnthropicVoice()
    ask: dict[str, Any] = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hello?"}],
    }
    async with (
        Endpoint(voice.stream("Well. ", CALLS), voice.answer("", CALLS)) as endpoint,
        anthropic.AsyncAnthropic(base_url=endpoint.address, api_key="k") as client,
    ):
        async with client.messages.stream(**ask) as stream:
            message = await stream.get_final_message()
        assert [block.type for block in message.content] == ["text", "tool_use"]
        assert message.content[1].input == {"a": 2, "b": 3}
        assert message.stop_reason == "tool_use"
        whole = await client.messages.create(**ask)
        assert whole.content[0].name == "add"


async def test_the_gemini_sdk_reads_the_imitated_service() -> None:
    genai = pytest.importorskip("google.genai")
    voice = GeminiVoice()
    async with Endpoint(voice.stream("Well. ", CALLS), voice.answer("", CALLS)) as endpoint:
        client = genai.Client(api_key="k", http_options={"base_url": endpoint.address})
        parts: list[Any] = []
        async for chunk in await client.aio.models.generate_content_stream(model="m", contents="Hello?"):
            parts += chunk.candidates[0].content.parts
        assert "".join(part.text or "" for part in parts) == "Well. "
        assert parts[-1].function_call.args == {"a": 2, "b": 3}
        whole = await client.aio.models.generate_content(model="m", contents="Hello?")
        assert whole.function_calls[0].name == "add"
        await client.aio.aclose()
        client.close()


async def test_requests_match_the_types_of_the_sdks() -> None:
    pydantic = pytest.importorskip("pydantic")
    chat = pytest.importorskip("openai.types.chat")
    messages = pytest.importorskip("anthropic.types")
    genai = pytest.importorskip("google.genai.types")
    bodies = {}
    for voice in (OpenAIVoice(), AnthropicVoice(), GeminiVoice()):
        async with (
            Endpoint(voice.stream("Well. ", CALLS), voice.stream("Five.")) as endpoint,
            talk(Bench(), voice, endpoint, instructions="Be brief.") as runner,
        ):
            await runner.ask("What is 2 and 3?")
        bodies[voice.name] = endpoint.requests[1].body
    for item in bodies["openai"]["messages"]:
        pydantic.TypeAdapter(chat.ChatCompletionMessageParam).validate_python(item)
    for item in bodies["openai"]["tools"]:
        pydantic.TypeAdapter(chat.ChatCompletionToolParam).validate_python(item)
    for item in bodies["anthropic"]["messages"]:
        pydantic.TypeAdapter(messages.MessageParam).validate_python(item)
    for item in bodies["anthropic"]["tools"]:
        pydantic.TypeAdapter(messages.ToolParam).validate_python(item)
    for item in bodies["gemini"]["contents"]:
        genai.Content.model_validate(item)
    for item in bodies["gemini"]["tools"]:
        genai.Tool.model_validate(item)
