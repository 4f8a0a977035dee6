"""Requests and their answers, whatever a server does: an answer, an error in words, never a hang."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from toolcrib.errors import (
    InvalidArgumentsError,
    InvalidResponseError,
    RemoteError,
    ResponseTimeoutError,
    ToolcribError,
    TransportError,
)

from .scripted_server import ScriptedServer, both, legacy, modern, silence, text


@pytest.mark.parametrize("scripted", both(tools_call=text("well")), ids=["modern", "legacy"])
async def test_a_call_gets_its_answer(scripted: ScriptedServer) -> None:
    async with scripted.client() as client:
        result = await client.call("t", {"a": 1})
    assert (result.text, result.is_error) == ("well", False)
    assert scripted.named("tools/call")[0]["params"]["arguments"] == {"a": 1}
    assert not scripted.is_open


async def test_answers_find_their_requests_in_any_order() -> None:
    waiting: list[dict[str, Any]] = []

    def hold(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        waiting.append(message)
        if len(waiting) == 20:
            for held in reversed(waiting):
                scripted.answer(held, text(held["params"]["name"]))

    async with modern(tools_call=hold).client() as client:
        results = await asyncio.gather(*(client.call(f"t{number}") for number in range(20)))
    assert [result.text for result in results] == [f"t{number}" for number in range(20)]


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"{",
        b"null",
        b"17",
        b'"text"',
        b"[[]]",
        b"{}",
        b'{"jsonrpc": "2.0"}',
        b'{"id": 2}',
        b'{"method": 5}',
        b'{"id": 99, "result": {}}',
        b'{"id": "2", "result": {}}',
        b'{"id": true, "result": {}}',
        b'{"id": 2.0, "result": {}}',
        b'{"id": 3.0, "result": {}}',
        b'{"id": [2], "error": {"code": 1, "message": "x"}}',
        b'{"id": {}, "method": "ping"}',
        b'{"method": "notifications/progress", "params": 5}',
        b'{"method": "notifications/progress", "params": {"progressToken": [], "progress": "x"}}',
        b'{"method": "notifications/message"}',
        b'{"method": "notifications/cancelled", "params": {"requestId": {}}}',
        b'{"method": "notifications/subscriptions/acknowledged", "params": {"_meta": 4}}',
        b'{"method": "notifications/unheard/of"}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a": "\\ud800"}',
    ],
)
@pytest.mark.parametrize("era", [modern, legacy])
async def test_nothing_a_server_says_disturbs_the_answer_that_follows(
    era: Any, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        scripted.say_raw(garbage)
        scripted.answer(message, text("still here"))

    async with era(tools_call=reply).client() as client:
        heard = await client.call("t", on_progress=lambda *_: None, on_log=lambda *_: None)
        assert heard.text == "still here"
    assert not [record for record in caplog.records if record.name == "asyncio"]  # nothing was raised


async def test_garbage_is_warned_of_a_few_times_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        for number in range(50):
            scripted.say_raw(b"hello from print %d" % number)
        scripted.answer(message, text("well"))

    async with modern(tools_call=reply).client() as client:
        await client.call("t")
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 5
    assert warned[0] == "scripted sent invalid JSON: 'hello from print 0'"
    assert "further ones are not logged" in warned[-1]


@pytest.mark.parametrize(
    "answer",
    [
        {"result": None},
        {"result": [1]},
        {"result": "text"},
        {"error": "text"},
        {"error": {}},
        {"error": {"code": "x", "message": "y"}},
        {"error": {"code": True, "message": "y"}},
        {"error": None},
    ],
)
async def test_an_answer_that_is_neither_result_nor_error_is_said_to_be_so(answer: dict[str, Any]) -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        scripted.say({"jsonrpc": "2.0", "id": message["id"], **answer})

    async with modern(tools_call=reply).client() as client:
        with pytest.raises(
            InvalidResponseError, match="scripted sent a response with neither result nor error"
        ):
            await client.call("t")


async def test_an_error_keeps_its_code_its_words_and_its_data() -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        scripted.refuse(message, -32603, "It broke", {"why": 1})

    async with modern(tools_call=reply).client() as client:
        with pytest.raises(RemoteError, match=r"^It broke$") as caught:
            await client.call("t")
    assert (caught.value.rpc_code, caught.value.data) == (-32603, {"why": 1})


async def test_an_error_without_words_is_still_an_error() -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        scripted.say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": 5}})

    async with modern(tools_call=reply).client() as client:
        with pytest.raises(RemoteError, match="an error without a message"):
            await client.call("t")


async def test_an_error_without_an_id_ends_the_only_request_there_is() -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        scripted.say({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "not JSON"}})

    async with modern(tools_call=reply).client() as client:
        with pytest.raises(RemoteError, match="not JSON"):
            await client.call("t")


async def test_an_error_without_an_id_ends_none_of_several() -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        if message["params"]["name"] == "second":
            scripted.say({"jsonrpc": "2.0", "error": {"code": -32700, "message": "whose is it"}})
            for held in scripted.named("tools/call"):
                scripted.answer(held, text("well"))

    async with modern(tools_call=reply).client() as client:
        results = await asyncio.gather(client.call("first"), client.call("second"))
    assert [result.text for result in results] == ["well", "well"]


async def test_messages_in_one_array_are_all_heard() -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        progress = {"progressToken": message["id"], "progress": 1}
        scripted.say(
            [
                {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress},
                5,
                {"jsonrpc": "2.0", "id": message["id"], "result": text("well")},
            ]
        )

    steps: list[Any] = []
    async with legacy(tools_call=reply).client() as client:
        await client.call("t", on_progress=lambda *step: steps.append(step))
    assert steps == [(1, None, None)]


# --- time ---


async def test_a_server_that_never_answers_is_an_error_in_time() -> None:
    async with modern(tools_call=silence).client() as client:
        started = time.monotonic()
        with pytest.raises(
            ResponseTimeoutError, match=r"^scripted: no response to tools/call within 0\.05 s$"
        ):
            await client.call("t", timeout_s=0.05)
        assert time.monotonic() - started < 2


async def test_a_time_out_tells_of_answers_that_belong_to_no_request() -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        scripted.say({"jsonrpc": "2.0", "id": 4711, "result": {}})

    async with modern(tools_call=reply).client() as client:
        with pytest.raises(ResponseTimeoutError, match=r"; unexpected messages: 1$"):
            await client.call("t", timeout_s=0.05)


async def test_a_flood_of_notifications_does_not_stop_the_clock() -> None:
    def flood(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        def more() -> None:
            if scripted.is_open:
                for _ in range(100):
                    scripted.notify("notifications/progress", progressToken=message["id"], progress=1)
                    scripted.notify("notifications/tools/list_changed")
                asyncio.get_running_loop().call_soon(more)

        more()

    seen: list[Any] = []
    async with modern(tools_call=flood).client() as client:
        with pytest.raises(ResponseTimeoutError):
            await client.call("t", timeout_s=0.1, on_progress=lambda *step: seen.append(step))
    assert seen


# --- cancelling ---


@pytest.mark.parametrize("scripted", both(tools_call=silence), ids=["modern", "legacy"])
async def test_a_call_no_caller_waits_for_is_cancelled_at_the_server(scripted: ScriptedServer) -> None:
    async with scripted.client() as client:
        task = asyncio.create_task(client.call("t"))
        call = await scripted.wait_for("tools/call")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        told = await scripted.wait_for("notifications/cancelled")
        assert told["params"]["requestId"] == call["id"]


async def test_an_answer_after_the_end_is_dropped() -> None:
    scripted = modern(tools_call=silence)
    async with scripted.client() as client:
        with pytest.raises(ResponseTimeoutError):
            await client.call("t", timeout_s=0.02)
        scripted.answer(scripted.named("tools/call")[0], text("late"))
        scripted.replies["tools/call"] = text("in time")
        assert (await client.call("t")).text == "in time"


async def test_closing_ends_what_waits_and_tells_the_server() -> None:
    scripted = legacy(tools_call=silence)
    client = scripted.client()
    await client.connect()
    task = asyncio.create_task(client.call("t"))
    await scripted.wait_for("tools/call")
    await client.close()
    with pytest.raises(TransportError, match="scripted: connection closed"):
        await task
    assert scripted.named("notifications/cancelled")
    await client.close()
    with pytest.raises(TransportError, match="scripted: not connected"):
        await client.call("t")


# --- hearing ---


@pytest.mark.parametrize("scripted", both(), ids=["modern", "legacy"])
async def test_progress_and_log_lines_reach_their_call(scripted: ScriptedServer) -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        token = message["params"]["_meta"]["progressToken"]
        scripted.notify("notifications/progress", progressToken=token, progress=0.5, total=2, message="half")
        scripted.notify("notifications/progress", progressToken="another's", progress=1)
        scripted.notify("notifications/message", level="info", data={"line": 1})
        scripted.notify("notifications/message", data="no level")
        scripted.answer(message, text("well"))

    scripted.replies["tools/call"] = reply
    steps: list[Any] = []
    lines: list[Any] = []
    async with scripted.client() as client:
        await client.call(
            "t", on_progress=lambda *step: steps.append(step), on_log=lambda *line: lines.append(line)
        )
        await client.call("t", on_progress=lambda *_: None, on_log=lambda *_: None)
    assert steps == [(0.5, 2, "half")]
    assert lines == [("info", {"line": 1}), ("info", "no level")]
    meta = scripted.named("tools/call")[0]["params"]["_meta"]
    if client_is_legacy := bool(scripted.named("initialize")):
        assert len(scripted.named("logging/setLevel")) == 1
    assert ("io.modelcontextprotocol/logLevel" in meta) is not client_is_legacy


async def test_a_listener_that_fails_is_warned_of_and_the_call_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        scripted.notify("notifications/progress", progressToken=message["id"], progress=1)
        scripted.answer(message, text("well"))

    def fail(*_: Any) -> None:
        raise ZeroDivisionError("oh")

    async with modern(tools_call=reply).client() as client:
        assert (await client.call("t", on_progress=fail)).text == "well"
    assert "a callback for scripted failed: ZeroDivisionError: oh" in caplog.text


@pytest.mark.parametrize(
    "arguments", [{"x": float("nan")}, {"x": object()}, {"x": "\ud800"}, {"x": 10**5000}]
)
async def test_arguments_that_are_not_json_are_refused_before_they_are_sent(arguments: Any) -> None:
    scripted = modern(tools_call=text("well"))
    async with scripted.client() as client:
        with pytest.raises(InvalidArgumentsError, match="The arguments are not JSON"):
            await client.call("t", arguments)
        assert (await client.call("t")).text == "well"
    assert len(scripted.named("tools/call")) == 1


def test_every_error_is_one_of_toolcribs() -> None:
    assert issubclass(TransportError, ToolcribError | ConnectionError)
    assert issubclass(ResponseTimeoutError, TimeoutError)
