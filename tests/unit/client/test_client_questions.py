"""Questions of a server while it works: in a legacy session by requests, on 2026-07-28 by results."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from toolcrib.client import client as client_module
from toolcrib.context import Answer, Elicitation, Root, Sampling, SamplingResult, URLElicitation
from toolcrib.errors import InvalidResponseError, ResponseTimeoutError

from .scripted_server import ScriptedServer, legacy, modern, silence, text

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
FORM = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "Who?", "requestedSchema": NAME},
}
PAGE = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "Pay", "url": "https://pay.example/1"},
}
MODEL = {
    "method": "sampling/createMessage",
    "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}],
        "maxTokens": 9,
        "systemPrompt": "Be brief",
        "temperature": 0.5,
    },
}
ROOTS: dict[str, Any] = {"method": "roots/list"}


async def say_ada(question: Elicitation | URLElicitation) -> Answer:
    return Answer("accept", {"name": "Ada"})


async def complete(prompt: Sampling) -> SamplingResult:
    return SamplingResult("Hello", model="m", stop_reason="endTurn")


def asking(question: dict[str, Any], state: str | None = "s1") -> Any:
    """A tool of 2026-07-28 that asks once, and tells what it was answered."""

    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        params = message["params"]
        if "inputResponses" not in params:
            wants: dict[str, Any] = {"resultType": "input_required", "inputRequests": {"q": question}}
            scripted.answer(message, wants if state is None else {**wants, "requestState": state})
        else:
            scripted.answer(message, {**text("done"), "structuredContent": params["inputResponses"]["q"]})

    return reply


def interrupting(question: dict[str, Any]) -> Any:
    """A tool of a legacy session that asks once, and tells what it was answered."""

    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        async def ask() -> None:
            scripted.say({"jsonrpc": "2.0", "id": "ask-1", **question})
            answer = await scripted.wait_for_reply("ask-1")
            scripted.answer(message, {**text("done"), "structuredContent": answer.get("result", answer)})

        scripted.task = asyncio.get_running_loop().create_task(ask())  # type: ignore[attr-defined]

    return reply


ERAS = pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])


def scripted_by(era: str, question: dict[str, Any]) -> ScriptedServer:
    is_modern = era == "2026-07-28"
    return modern(tools_call=asking(question)) if is_modern else legacy(tools_call=interrupting(question))


async def answer_to(era: str, question: dict[str, Any], **answers: Any) -> Any:
    async with scripted_by(era, question).client(**answers) as client:
        return (await client.call("t")).structured_content


@ERAS
async def test_a_form_is_answered(era: str) -> None:
    asked: list[Elicitation | URLElicitation] = []

    async def on_ask(question: Elicitation | URLElicitation) -> Answer:
        asked.append(question)
        return Answer("accept", {"name": "Ada"})

    given = await answer_to(era, FORM, on_ask=on_ask)
    assert asked == [Elicitation("Who?", NAME)]
    assert given == {"action": "accept", "content": {"name": "Ada"}}


@ERAS
async def test_a_page_is_answered_without_content(era: str) -> None:
    asked: list[Elicitation | URLElicitation] = []

    async def on_ask(question: Elicitation | URLElicitation) -> Answer:
        asked.append(question)
        return Answer("accept", {"secret": 1})

    assert await answer_to(era, PAGE, on_ask=on_ask) == {"action": "accept"}
    assert asked == [URLElicitation("Pay", "https://pay.example/1")]


@ERAS
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_refusal_carries_no_content(era: str, action: Any) -> None:
    async def on_ask(question: Elicitation | URLElicitation) -> Answer:
        return Answer(action, {"name": "Ada"})

    assert await answer_to(era, FORM, on_ask=on_ask) == {"action": action}


@ERAS
async def test_a_field_left_out_gets_its_default(era: str) -> None:
    fields = {"name": {"type": "string"}, "age": {"type": "integer", "default": 30}, "odd": 5}
    form = {**FORM, "params": {**FORM["params"], "requestedSchema": {"properties": fields}}}  # type: ignore[dict-item]
    given = await answer_to(era, form, on_ask=say_ada)
    assert given["content"] == {"age": 30, "name": "Ada"}


@ERAS
async def test_the_clients_model_completes(era: str) -> None:
    asked: list[Sampling] = []

    async def on_sample(prompt: Sampling) -> SamplingResult:
        asked.append(prompt)
        return SamplingResult("Hello", model="m", stop_reason="endTurn")

    given = await answer_to(era, MODEL, on_sample=on_sample)
    assert asked[0].max_tokens == 9
    assert (asked[0].system, asked[0].options) == ("Be brief", {"temperature": 0.5})
    content = {"type": "text", "text": "Hello"}
    assert given == {"role": "assistant", "content": content, "model": "m", "stopReason": "endTurn"}


@ERAS
async def test_the_clients_folders_are_told(era: str, tmp_path: Path) -> None:
    roots = [tmp_path, "file:///work", Root("file:///home", "home")]
    given = await answer_to(era, ROOTS, roots=roots)
    assert given["roots"] == [
        {"uri": tmp_path.as_uri(), "name": tmp_path.name},
        {"uri": "file:///work"},
        {"uri": "file:///home", "name": "home"},
    ]


@pytest.mark.parametrize(
    ("version", "spelt"),
    [
        ("2026-07-28", {"form": {}, "url": {}}),
        ("2025-11-25", {"form": {}, "url": {}}),
        ("2025-06-18", {}),
        ("2025-03-26", None),
    ],
)
async def test_only_what_is_answered_is_offered(version: str, spelt: Any) -> None:
    meta = "io.modelcontextprotocol/clientCapabilities"
    for answers, name in (
        (dict[str, Any](on_ask=say_ada), "elicitation"),
        ({"on_sample": complete}, "sampling"),
    ):
        scripted = modern() if version == "2026-07-28" else legacy()
        async with scripted.client(protocol=version, tasks=False, **answers):
            params = scripted.heard[0]["params"]
        offered = params["_meta"][meta] if version == "2026-07-28" else params["capabilities"]
        expected = spelt if name == "elicitation" else {}
        assert offered == ({} if expected is None else {name: expected})


@pytest.mark.parametrize(
    "question",
    [
        FORM,
        MODEL,
        ROOTS,
        {"method": "tools/list"},
        {"method": "elicitation/create"},
        {"method": "elicitation/create", "params": {"message": 5}},
        {"method": "elicitation/create", "params": {"message": "x", "requestedSchema": 5}},
        {"method": "elicitation/create", "params": {"message": "x", "mode": "url"}},
        {"method": "sampling/createMessage", "params": {"messages": "x"}},
    ],
)
async def test_anything_that_cannot_be_answered_is_an_error_at_both_ends(question: dict[str, Any]) -> None:
    answers: dict[str, Any] = {}
    if question.get("params") not in (FORM["params"], MODEL["params"]) and "params" in question:
        answers = {"on_ask": say_ada, "on_sample": complete}
    reply = await answer_to("2025-11-25", question, **answers)
    assert reply["error"]["code"] in (-32601, -32602)
    async with modern(tools_call=asking(question)).client(**answers) as client:
        with pytest.raises(InvalidResponseError, match="scripted asked for input that is not available"):
            await client.call("t")


async def test_a_failing_answerer_fails_a_modern_call_and_is_told_a_legacy_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def on_ask(question: Elicitation | URLElicitation) -> Answer:
        raise ZeroDivisionError("oh")

    reply = await answer_to("2025-11-25", FORM, on_ask=on_ask)
    assert reply["error"] == {"code": -32603, "message": "Client error"}
    assert "could not answer elicitation/create: ZeroDivisionError: oh" in caplog.text
    with pytest.raises(ZeroDivisionError):
        await answer_to("2026-07-28", FORM, on_ask=on_ask)


# --- rounds of 2026-07-28 ---


async def test_each_round_is_a_new_request_with_the_state_as_it_came() -> None:
    scripted = modern(tools_call=asking(FORM, "opaque \u017c \n state"))
    async with scripted.client(on_ask=say_ada) as client:
        await client.call("t", {"a": 1})
    first, second = scripted.named("tools/call")
    assert first["id"] != second["id"]
    assert "requestState" not in first["params"]
    assert second["params"]["requestState"] == "opaque \u017c \n state"
    assert second["params"]["arguments"] == {"a": 1}


async def test_a_state_alone_means_again() -> None:
    def busy(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        if message["params"].get("requestState") == "n2":
            scripted.answer(message, text("at last"))
        else:
            state = f"n{len(scripted.named('tools/call'))}"
            scripted.answer(message, {"resultType": "input_required", "requestState": state})

    scripted = modern(tools_call=busy)
    async with scripted.client() as client:
        assert (await client.call("t")).text == "at last"
    assert "inputResponses" not in scripted.named("tools/call")[2]["params"]


async def test_a_server_that_asks_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MAX_ROUNDS", 3)
    question = {"resultType": "input_required", "inputRequests": {"q": FORM}}
    scripted = modern(tools_call=question)
    async with scripted.client(on_ask=say_ada) as client:
        with pytest.raises(InvalidResponseError, match="scripted asked for input 3 times without a result"):
            await client.call("t")
    assert len(scripted.named("tools/call")) == 3


@pytest.mark.parametrize(
    "wants",
    [
        {},
        {"inputRequests": {}},
        {"inputRequests": []},
        {"inputRequests": "x"},
        {"inputRequests": {"q": 5}},
        {"inputRequests": {"q": {}}},
        {"inputRequests": {f"q{number}": FORM for number in range(101)}},
    ],
)
async def test_input_that_is_wanted_but_not_asked_for_is_an_error(wants: dict[str, Any]) -> None:
    async with modern(tools_call={"resultType": "input_required", **wants}).client(on_ask=say_ada) as client:
        with pytest.raises(
            InvalidResponseError,
            match=r"scripted (requires input but asks no|asked for input that is not|asks more than 100) ",
        ):
            await client.call("t")


# --- time and tasks of a legacy session ---


@ERAS
async def test_the_clock_stands_still_while_a_person_thinks(era: str) -> None:
    async def slowly(question: Elicitation | URLElicitation) -> Answer:
        await asyncio.sleep(0.4)
        return Answer("accept", {"name": "Ada"})

    async with scripted_by(era, FORM).client(on_ask=slowly) as client:
        assert (await client.call("t", timeout_s=0.3)).text == "done"


async def test_the_rounds_of_a_call_share_its_time() -> None:
    def slow(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        wants = {"resultType": "input_required", "requestState": "s", "inputRequests": {"q": FORM}}
        asyncio.get_running_loop().call_later(0.1, scripted.answer, message, wants)

    scripted = modern(tools_call=slow)
    async with scripted.client(on_ask=say_ada) as client:
        with pytest.raises(ResponseTimeoutError):
            await client.call("t", timeout_s=0.25)
    assert len(scripted.named("tools/call")) == 3


async def test_the_clock_runs_on_once_the_person_has_answered() -> None:
    def ask_then_sleep(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        scripted.say({"jsonrpc": "2.0", "id": 1, **FORM})

    async with legacy(tools_call=ask_then_sleep).client(on_ask=say_ada) as client:
        with pytest.raises(ResponseTimeoutError):
            await client.call("t", timeout_s=0.1)


async def test_a_question_that_is_withdrawn_is_not_thought_about_any_more() -> None:
    thinking, stopped = asyncio.Event(), asyncio.Event()

    async def think(question: Elicitation | URLElicitation) -> Answer:
        thinking.set()
        try:
            return await asyncio.Future()
        finally:
            stopped.set()

    scripted = legacy(tools_call=silence)
    async with scripted.client(on_ask=think):
        scripted.say({"jsonrpc": "2.0", "id": "q", **FORM})
        await asyncio.wait_for(thinking.wait(), 5)
        scripted.notify("notifications/cancelled", requestId="q")
        await asyncio.wait_for(stopped.wait(), 5)


async def test_closing_ends_a_question_that_is_thought_about() -> None:
    thinking = asyncio.Event()

    async def think(question: Elicitation | URLElicitation) -> Answer:
        thinking.set()
        return await asyncio.Future()

    scripted = legacy()
    async with asyncio.timeout(5):
        async with scripted.client(on_ask=think):
            scripted.say({"jsonrpc": "2.0", "id": "q", **FORM})
            await thinking.wait()


async def test_a_legacy_server_may_ping() -> None:
    scripted = legacy()
    async with scripted.client():
        scripted.say({"jsonrpc": "2.0", "id": 5, "method": "ping"})
        assert await scripted.wait_for_reply(5) == {"jsonrpc": "2.0", "id": 5, "result": {}}


async def test_a_modern_server_must_not_send_requests_and_gets_no_reply() -> None:
    scripted = modern(tools_call=text("well"))
    async with scripted.client(on_ask=say_ada) as client:
        scripted.say({"jsonrpc": "2.0", "id": 5, "method": "ping"})
        scripted.say({"jsonrpc": "2.0", "id": 6, **FORM})
        assert (await client.call("t")).text == "well"
    assert all("method" in message for message in scripted.heard)


async def test_a_flood_of_questions_is_bounded_and_the_session_stays_usable() -> None:
    waiting = 0
    most = 0

    async def think(question: Elicitation | URLElicitation) -> Answer:
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        try:
            return await asyncio.Future()
        finally:
            waiting -= 1

    scripted = legacy(tools_call=text("well"))
    async with scripted.client(on_ask=think) as client:
        for number in range(1000):
            scripted.say({"jsonrpc": "2.0", "id": f"q{number}", **FORM})
        assert (await client.call("t")).text == "well"
        await asyncio.sleep(0)
        assert 0 < most <= 64
