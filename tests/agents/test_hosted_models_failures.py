"""Services that refuse, stall, loop, disconnect and send bad answers."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from contextlib import aclosing
from typing import Any

import pytest

from tests.agents.test_hosted_models import every_voice, talk
from tests.support.agents import Bench, collect
from tests.support.model_endpoints import VOICES, Endpoint, OpenAIVoice, Reply, Voice, event, whole
from toolcrib.agents import AgentRunner, Failure, Final, Limits, SessionCtx, Token, ToolCall
from toolcrib.errors import ConfigurationError

pytestmark = pytest.mark.usefixtures("sdks")
OPENAI = OpenAIVoice()


async def fail(voice: Voice, *replies: Reply, limits: Limits | None = None, **options: Any) -> Failure:
    async with (
        Endpoint(*replies) as endpoint,
        talk(Bench(), voice, endpoint, limits or Limits(turn_s=5, answer_s=10), **options) as runner,
    ):
        events = await collect(runner)
        last = events[-1]
        assert isinstance(last, Failure)
        assert "k3y" not in str(last)
        assert runner.session.messages == []
    return last


@every_voice
async def test_a_refused_key_is_reported_without_the_key(
    voice: Voice, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        failure = await fail(voice, voice.refuse(401, "Incorrect API key provided: k3y"))
    assert failure.kind == "access"
    assert "(401 Unauthorized): Incorrect API key provided: ***" in failure.message
    assert failure.hint == "check the key from api_key"
    assert "k3y" not in caplog.text


@every_voice
async def test_a_busy_service_is_asked_again(voice: Voice) -> None:
    busy = voice.refuse(429, "slow down", retry_after_ms="1")
    async with Endpoint(busy, voice.stream("Here.")) as endpoint, talk(Bench(), voice, endpoint) as runner:
        assert await runner.ask("There?") == "Here."
    assert len(endpoint.requests) == 2


async def test_a_service_that_keeps_failing_is_a_failure() -> None:
    async with (
        Endpoint(OPENAI.refuse(500, "oops", retry_after_ms="1")) as endpoint,
        talk(Bench(), OPENAI, endpoint) as runner,
    ):
        failure = (await collect(runner))[-1]
    assert isinstance(failure, Failure)
    assert (failure.kind, len(endpoint.requests)) == ("failed", 4)
    assert "failed (500 Internal Server Error): oops" in failure.message


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (
            OPENAI.refuse(400, "messages: too long"),
            "refused",
            "refuses the request (400 Bad Request)",
        ),
        (OPENAI.refuse(404, "no such model"), "refused", "has no model 'm-1' (404 Not Found)"),
        (Reply([b"<html>Sign in</html>"], 200, "text/html"), "cut", "ended before it was complete"),
        (Reply([b"<html>Not here</html>"], 404, "text/html"), "refused", "(404 Not Found)"),
        (Reply([b"see other"], 302, "text/plain", {"Location": "http://x/"}), "garbled", "(302 Found)"),
        (whole({}), "cut", "ended before it was complete"),
        (Reply([b"data: {half\n\n"]), "garbled", "(JSONDecodeError"),
        (Reply([b"data: 7\n\n"]), "garbled", "cannot read the answer of"),
        (Reply([b"garbage\x00\xff\n\n"]), "garbled", "cannot read the answer of"),
        (Reply([b"garbage\n\n"]), "cut", "ended before it was complete"),
        (Reply([]), "cut", "ended before it was complete"),
        (Reply([event({"error": {"message": "overheated"}})]), "failed", "reports an error: overheated"),
    ],
)
async def test_every_bad_answer_is_explained(reply: Reply, kind: str, words: str) -> None:
    failure = await fail(OPENAI, reply)
    assert failure.kind == kind
    assert words in failure.message


@pytest.mark.parametrize(
    ("reply", "kind"),
    [(whole([]), "garbled"), (whole(b"{half"), "garbled"), (whole(b"7"), "garbled"), (whole({}), "cut")],
)
async def test_a_whole_answer_may_be_bad_too(reply: Reply, kind: str) -> None:
    assert (await fail(OPENAI, reply, stream=False)).kind == kind


@every_voice
@pytest.mark.parametrize("count", [1, 2, 4])
async def test_a_stream_that_ends_early_is_a_failure(voice: Voice, count: int) -> None:
    reply = voice.stream("Let me think about it", [("add", {"a": 1})])
    failure = await fail(voice, Reply(reply.chunks[:count], then="cut"))
    assert failure.kind == "cut"
    clean = await fail(voice, Reply(reply.chunks[:count]))
    assert clean.kind == "cut"


@every_voice
async def test_a_stalled_stream_is_a_failure_and_is_closed(voice: Voice) -> None:
    stalling = Reply(voice.stream("Let me think").chunks[:3], then="stall")
    limits = Limits(turn_s=2, answer_s=10)  # starting the SDK counts too
    async with Endpoint(stalling) as endpoint, talk(Bench(), voice, endpoint, limits) as runner:
        failure = (await collect(runner))[-1]
        assert isinstance(failure, Failure)
        assert failure.kind == "stalled"
        async with asyncio.timeout(5):
            await endpoint.gone.wait()


@every_voice
async def test_endless_calls_are_stopped(voice: Voice) -> None:
    limits = Limits(turns=4, turn_s=5, answer_s=10)
    failure = await fail(voice, voice.stream("", [("add", {"a": 1, "b": 1})]), limits=limits)
    assert failure.kind == "limit"
    assert failure.hint is not None
    assert "called 'add' 4 times" in failure.hint


@every_voice
async def test_endless_text_is_stopped(voice: Voice) -> None:
    chunks = voice.stream("and so on and on").chunks[:-1]
    failure = await fail(voice, Reply(chunks, then="repeat"), limits=Limits(output_chars=5_000, turn_s=20))
    assert (failure.kind, "5000 characters" in failure.message) == ("limit", True)


async def test_a_service_that_does_not_stream_gets_a_hint() -> None:
    failure = await fail(OPENAI, OPENAI.answer("Hello."))
    assert failure.hint == "check base_url, or set stream=False if it cannot stream"


async def test_invalid_arguments_become_the_result_and_are_not_sent_back() -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "add", "arguments": '{"a": 1,'}}
    bad = event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "length"}]})
    async with (
        Endpoint(Reply([bad]), OPENAI.stream("Sorry.")) as endpoint,
        talk(Bench(), OPENAI, endpoint) as runner,
    ):
        assert await runner.ask("Add") == "Sorry."
    sent = endpoint.requests[1].body["messages"]
    assert "the arguments are not JSON" in OPENAI.results(endpoint.requests[1].body)[0]
    assert json.loads(sent[1]["tool_calls"][0]["function"]["arguments"]) == {}


async def test_calls_with_missing_or_equal_ids_are_kept_apart() -> None:
    def piece(**call: Any) -> dict[str, Any]:
        return {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}

    items = [
        piece(index=0, id="x", function={"name": "add", "arguments": '{"a": 1}'}),
        piece(index=0, id="y", function={"name": "add", "arguments": '{"a": 2}'}),
        piece(id="x", function={"name": "add", "arguments": '{"a": 3}'}),
        piece(function={"name": "add", "arguments": {"a": 4}}),
    ]
    async with (
        Endpoint(Reply([event(item) for item in items]), OPENAI.stream("Done.")) as endpoint,
        talk(Bench(), OPENAI, endpoint) as runner,
    ):
        events = await collect(runner)
    calls = [item for item in events if isinstance(item, ToolCall)]
    assert [call.arguments for call in calls] == [{"a": 1}, {"a": 2}, {"a": 3}, {"a": 4}]
    assert len({call.id for call in calls}) == 4
    assert OPENAI.results(endpoint.requests[1].body) == ["2", "3", "4", "5"]


async def test_an_unreachable_service_is_a_failure_with_a_hint() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        runner = AgentRunner([], provider="openai", model="m", base_url=address)
        async with runner:
            failure = (await collect(runner))[-1]
    assert isinstance(failure, Failure)
    assert failure.kind == "unreachable"
    assert "cannot connect to 127.0.0.1" in failure.message
    assert failure.hint is not None
    assert "base_url" in failure.hint


@pytest.mark.parametrize("voice", VOICES[:2], ids=lambda voice: voice.name)
async def test_a_call_cut_off_by_the_maximum_length_is_not_run(voice: Voice) -> None:
    reply = voice.stream("", [("fail", {})], {"openai": "length", "anthropic": "max_tokens"}[voice.name])
    kept = [chunk for chunk in reply.chunks if b'"{}"' not in chunk]  # OpenAI: not even the braces came
    async with (
        Endpoint(Reply(kept), voice.stream("Sorry.")) as endpoint,
        talk(Bench(), voice, endpoint) as runner,
    ):
        assert await runner.ask("Fail") == "Sorry."
    (result,) = voice.results(endpoint.requests[1].body)
    assert "was cut off" in result
    assert "not today" not in result


async def test_without_a_key_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    async with AgentRunner([], provider="anthropic", model="m") as runner:
        assert await collect(runner) == [
            Failure("access", "there is no API key for anthropic", "set ANTHROPIC_API_KEY")
        ]


async def test_a_key_from_the_environment_is_not_sent_over_plain_http(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "fr0m-outside")
    sent = {
        "http://models.example": None,
        "http://127.evil.example": None,
        "http://127.0.0.1.evil.example": None,
        "http://127.0.0.1:1/v1": "fr0m-outside",
        "http://[::1]:1/v1": "fr0m-outside",
        "https://models.example": "fr0m-outside",
    }
    for base_url, key in sent.items():
        provider: Any = AgentRunner([], provider="openai", model="m", base_url=base_url).provider
        assert provider.key == key, base_url


@every_voice
@pytest.mark.parametrize("base_url", ["http://models.example", "https://models.example"])
async def test_headers_from_the_environment_are_not_sent_over_plain_http(
    voice: Voice, base_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "ANTHROPIC_AUTH_TOKEN", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "fr0m-outside")
    for name in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, "Authorization: Bearer fr0m-outside\nX-Other: fr0m-outside")
    options = {"model": "m", "base_url": base_url, "headers": {"X-Mine": "given"}}
    provider: Any = AgentRunner([], provider=voice.name, **options).provider
    await provider.start(SessionCtx())
    client = provider._client
    headers = client.default_headers if voice.name != "gemini" else client._api_client._http_options.headers
    assert headers["X-Mine"] == "given"
    assert ("fr0m-outside" in str(headers)) is base_url.startswith("https")
    await provider.stop()


@every_voice
async def test_a_key_may_end_with_a_line_feed(voice: Voice) -> None:
    async with (
        Endpoint(voice.stream("Here.")) as endpoint,
        talk(Bench(), voice, endpoint, api_key="k3y\n") as runner,
    ):
        assert await runner.ask("There?") == "Here."
    assert any(value.endswith("k3y") for value in endpoint.requests[0].headers.values())


@pytest.mark.parametrize("key", ["k3y\nx", "k3y\N{HORIZONTAL ELLIPSIS}"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        AgentRunner([], provider="openai", model="m", api_key=key)
    assert str(caught.value) == "api_key: the key of openai has invalid characters"


async def test_an_sdk_that_cannot_be_used_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**options: Any) -> None:
        raise TypeError(f"unexpected {options['api_key']}")

    monkeypatch.setattr("openai.AsyncOpenAI", fail)
    async with AgentRunner([], provider="openai", model="m", api_key="k3y") as runner:
        failure = (await collect(runner))[-1]
    assert failure == Failure(
        "missing",
        "the package 'openai' cannot be used: TypeError: unexpected ***",
        "pip install -U 'toolcrib[openai]'",
    )


@every_voice
async def test_to_stop_reading_closes_the_connection(voice: Voice) -> None:
    stalling = Reply(voice.stream("Let me think").chunks[:4], then="stall")
    async with Endpoint(stalling) as endpoint, talk(Bench(), voice, endpoint) as runner:
        async with aclosing(runner.send("Well?")) as events:
            assert isinstance(await anext(events), Token)
        async with asyncio.timeout(5):
            await endpoint.gone.wait()


@every_voice
async def test_a_failed_question_is_not_part_of_the_conversation(voice: Voice) -> None:
    replies = (voice.stream("One."), voice.refuse(400, "no"), voice.stream("Three."))
    async with Endpoint(*replies) as endpoint, talk(Bench(), voice, endpoint) as runner:
        assert await runner.ask("First?") == "One."
        assert isinstance((await collect(runner, "Second?"))[-1], Failure)
        assert await runner.ask("Third?") == "Three."
    body = str(endpoint.requests[2].body)
    assert ("First?" in body, "One." in body, "Second?" in body, "Third?" in body) == (
        True,
        True,
        False,
        True,
    )


@pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.name)
async def test_a_refusal_of_the_model_has_the_reason_refused(voice: Voice) -> None:
    reason = {"openai": "content_filter", "anthropic": "refusal", "gemini": "SAFETY"}[voice.name]
    async with (
        Endpoint(voice.stream("I will not", reason=reason)) as endpoint,
        talk(Bench(), voice, endpoint) as runner,
    ):
        final = (await collect(runner))[-1]
    assert isinstance(final, Final)
    assert (final.text, final.reason) == ("I will not", "refused")
