"""Calls that become tasks, on a scripted server of 2026-07-28."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcrib.client import TaskStatus
from toolcrib.client import tasks as tasks_module
from toolcrib.context import Answer, Elicitation, URLElicitation
from toolcrib.errors import (
    InvalidResponseError,
    RemoteError,
    ResponseTimeoutError,
    TaskCancelledError,
    TransportError,
)

from .scripted_http import Answer as HttpAnswer
from .scripted_http import modern as modern_stage
from .scripted_server import META, ScriptedServer, legacy, modern, text

TASKS = "io.modelcontextprotocol/tasks"
TIMES = {"createdAt": "2026-07-28T10:00:00Z", "lastUpdatedAt": "2026-07-28T10:00:00Z"}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
FORM = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": NAME}}
TASK = {"taskId": "t-1", "status": "working", **TIMES, "ttlMs": None, "pollIntervalMs": 1}
ACK = {"resultType": "complete"}


def states(*found: dict[str, Any]) -> Any:
    """A reply to `tasks/get`: one state after the other, and then the last one."""

    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        asked = len(scripted.named("tasks/get"))
        scripted.answer(message, {"resultType": "complete", **TASK, **found[min(asked, len(found)) - 1]})

    return reply


WORKING: dict[str, Any] = {"status": "working"}
DONE: dict[str, Any] = {"status": "completed", "result": text("well")}


def serving(*found: dict[str, Any], **more: Any) -> ScriptedServer:
    replies = {"tools_call": {"resultType": "task", **TASK}, "tasks_get": states(*found)}
    return modern(**{**replies, "tasks_update": ACK, "tasks_cancel": ACK, **more})


async def say_ada(question: Elicitation | URLElicitation) -> Answer:
    return Answer("accept", {"name": "Ada"})


# --- what is declared ---


async def test_the_extension_is_declared_in_every_request() -> None:
    scripted = serving(WORKING, DONE)
    async with scripted.client() as client:
        await client.call("t")
        await client.ping()
    declared = [message["params"]["_meta"][f"{META}clientCapabilities"] for message in scripted.heard]
    assert len(declared) == 5
    assert all(item == {"extensions": {TASKS: {}}} for item in declared)


async def test_the_extension_can_be_left_out_and_is_unknown_to_older_servers() -> None:
    scripted = serving(DONE)
    async with scripted.client(tasks=False) as client:
        with pytest.raises(InvalidResponseError, match="unknown resultType 'task'"):
            await client.call("t")
    assert scripted.heard[0]["params"]["_meta"][f"{META}clientCapabilities"] == {}
    old = legacy(tools_call=text("plain"))
    async with old.client() as client:
        assert (await client.call("t")).text == "plain"
    assert old.named("initialize")[0]["params"]["capabilities"] == {}


# --- waiting ---


async def test_a_call_waits_for_the_end_of_its_task() -> None:
    scripted = serving(WORKING, {"status": "working", "statusMessage": "half"}, DONE)
    async with scripted.client() as client:
        assert (await client.call("t", {"a": 1})).text == "well"
    assert [message["params"]["taskId"] for message in scripted.named("tasks/get")] == ["t-1"] * 3
    assert not scripted.named("tasks/cancel")


async def test_a_tool_error_is_a_result_and_a_protocol_error_is_raised() -> None:
    async with serving({**DONE, "result": {**text("no"), "isError": True}}).client() as client:
        result = await client.call("t")
        assert (result.is_error, result.text) == (True, "no")
    failed = {"status": "failed", "error": {"code": -32603, "message": "broken", "data": {"x": 1}}}
    scripted = serving(failed)
    async with scripted.client() as client:
        with pytest.raises(RemoteError, match="broken") as caught:
            await client.call("t")
    assert (caught.value.rpc_code, caught.value.data) == (-32603, {"x": 1})
    assert not scripted.named("tasks/cancel")


async def test_a_task_that_somebody_cancelled_is_an_error_of_its_own() -> None:
    for message, words in ((None, "scripted: the task was cancelled"), ("by the boss", "by the boss")):
        async with serving({"status": "cancelled", "statusMessage": message}).client() as client:
            with pytest.raises(TaskCancelledError, match=words):
                await client.call("t")


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"status": "asleep"}, "unknown status 'asleep'"),
        ({"status": None}, "unknown status None"),
        ({"status": "completed"}, "without a result"),
        ({"status": "completed", "result": {"content": 5}}, "invalid content"),
        ({"status": "failed", "error": {"message": "x"}}, "without an error"),
        ({"status": "failed"}, "without an error"),
    ],
)
async def test_an_invalid_task_is_an_error(task: dict[str, Any], words: str) -> None:
    async with serving(task).client() as client:
        with pytest.raises(InvalidResponseError, match=words):
            await client.call("t")


@pytest.mark.parametrize(
    "task", [{}, {"taskId": 5, "status": "working"}, {"taskId": "", "status": "working"}]
)
async def test_a_task_without_an_id_is_an_error(task: dict[str, Any]) -> None:
    async with modern(tools_call={"resultType": "task", **task}).client() as client:
        with pytest.raises(InvalidResponseError, match="without taskId"):
            await client.call("t")


async def test_a_task_that_the_server_forgot_is_an_error() -> None:
    def gone(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        scripted.refuse(message, -32602, "Unknown task")

    scripted = serving(tasks_get=gone)
    async with scripted.client() as client:
        with pytest.raises(RemoteError, match="Unknown task"):
            await client.call("t")
    assert not scripted.named("tasks/cancel")


# --- pauses ---


async def test_the_server_chooses_how_often_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(pause_s: float) -> None:
        pauses.append(pause_s)
        await sleep(0)

    clock = [1000.0]
    monkeypatch.setattr(tasks_module.asyncio, "sleep", note)
    monkeypatch.setattr(tasks_module.time, "monotonic", lambda: clock[0])
    scripted = serving({**WORKING, "pollIntervalMs": 5000}, {**WORKING, "pollIntervalMs": 10**30}, DONE)
    scripted.replies["tools/call"] = {"resultType": "task", **TASK, "pollIntervalMs": None}
    async with scripted.client() as client:
        await client.call("t")
    assert pauses == [1.0, 5.0, 60.0]


async def test_a_connection_that_breaks_does_not_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(answer: HttpAnswer) -> None:
        asked = len(scripted.named("tasks/get"))
        if asked == 1:
            answer.writer.close()
        elif asked == 2:
            answer.send(503)
        else:
            answer.result({"resultType": "complete", **TASK, **DONE})

    acts = {"tools_call": {"resultType": "task", **TASK}, "tasks_get": get}
    async with modern_stage(**acts) as scripted, scripted.client() as client:
        assert (await client.call("t")).text == "well"
        assert [request.headers["mcp-name"] for request in scripted.named("tasks/get")] == ["t-1"] * 3


async def test_a_server_that_denies_access_is_not_asked_again() -> None:
    def deny(answer: HttpAnswer) -> None:
        answer.send(403)

    acts = {"tools_call": {"resultType": "task", **TASK}, "tasks_get": deny, "tasks_cancel": ACK}
    async with modern_stage(**acts) as scripted, scripted.client() as client:
        with pytest.raises(TransportError, match="denied access"):
            await client.call("t")
        assert len(scripted.named("tasks/get")) == len(scripted.named("tasks/cancel")) == 1


# --- questions ---


async def test_a_task_whose_questions_cannot_be_answered_is_cancelled() -> None:
    scripted = serving({"status": "input_required", "inputRequests": {"one": FORM}})
    async with scripted.client() as client:
        with pytest.raises(InvalidResponseError, match="input that is not available"):
            await client.call("t")
    assert [message["params"]["taskId"] for message in scripted.named("tasks/cancel")] == ["t-1"]


async def test_the_questions_of_one_task_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_module, "MAX_ANSWERS", 3)
    asking = [{"status": "input_required", "inputRequests": {f"q{number}": FORM}} for number in range(9)]
    async with serving(*asking).client(on_ask=say_ada) as client:
        with pytest.raises(InvalidResponseError, match="more than 3 questions"):
            await client.call("t")


async def test_a_question_may_come_before_the_task() -> None:
    def call(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        if "inputResponses" in message["params"]:
            scripted.answer(message, {"resultType": "task", **TASK})
        else:
            scripted.answer(message, {"resultType": "input_required", "inputRequests": {"q": FORM}})

    async with serving(WORKING, DONE, tools_call=call).client(on_ask=say_ada) as client:
        assert (await client.call("t")).text == "well"


async def test_the_time_of_an_answer_does_not_count() -> None:
    async def think(question: Elicitation | URLElicitation) -> Answer:
        await asyncio.sleep(0.4)
        return Answer("accept", {"name": "Ada"})

    asks = {"status": "input_required", "inputRequests": {"one": FORM}}
    async with serving(asks, DONE).client(on_ask=think) as client:
        assert (await client.call("t", timeout_s=0.3)).text == "well"


# --- giving up ---


async def test_a_cancelled_call_cancels_its_task() -> None:
    scripted = serving(WORKING)
    async with scripted.client() as client:
        calling = asyncio.create_task(client.call("t"))
        await scripted.wait_for("tasks/get")
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert len(scripted.named("tasks/cancel")) == 1


async def test_a_call_that_times_out_cancels_its_task() -> None:
    scripted = serving(WORKING)
    async with scripted.client() as client:
        with pytest.raises(ResponseTimeoutError, match="task t-1 did not end within"):
            await client.call("t", timeout_s=0.1)
    assert len(scripted.named("tasks/cancel")) == 1


async def test_a_server_that_cannot_cancel_delays_nothing() -> None:
    def refuse(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        scripted.refuse(message, -32603, "no")

    async with serving(WORKING, tasks_cancel=refuse).client() as client:
        with pytest.raises(ResponseTimeoutError):
            await client.call("t", timeout_s=0.1)


# --- handles ---


async def test_a_handle_tells_the_status_and_the_result() -> None:
    half = {"status": "working", "statusMessage": "half", "ttlMs": 60_000}
    scripted = serving(half, DONE)
    async with scripted.client() as client:
        handle = await client.start("t", {"a": 1})
        assert (handle.id, handle.is_done) == ("t-1", False)
        status = await handle.status()
        assert status == TaskStatus("working", "half", TIMES["createdAt"], TIMES["lastUpdatedAt"], 60_000, 1)
        assert not status.has_ended
        assert (await handle.result()).text == "well"
        assert (await handle.result()).text == "well"
        assert (await handle.status()).state == "completed"
        await handle.cancel()  # has ended
    assert len(scripted.named("tasks/get")) == 2
    assert not scripted.named("tasks/cancel")


async def test_a_handle_that_is_not_waited_for_leaves_the_task_running() -> None:
    scripted = serving(WORKING)
    async with scripted.client() as client:
        handle = await client.start("t")
        with pytest.raises(ResponseTimeoutError):
            await handle.result(timeout_s=0.05)
        assert not scripted.named("tasks/cancel")
        await handle.cancel()
        assert len(scripted.named("tasks/cancel")) == 1
        scripted.replies["tasks/get"] = states({"status": "cancelled"})
        with pytest.raises(TaskCancelledError):
            await handle.result()


async def test_a_call_that_is_answered_at_once_has_a_handle_too() -> None:
    for scripted in (modern(tools_call=text("now")), legacy(tools_call=text("now"))):
        async with scripted.client() as client:
            handle = await client.start("t")
            assert (handle.id, handle.is_done) == (None, True)
            assert (await handle.status()).state == "completed"
            assert (await handle.result()).text == "now"
            await handle.cancel()


async def test_a_task_is_found_again_by_its_id() -> None:
    scripted = serving(DONE)
    async with scripted.client() as client:
        assert (await client.task("t-9").result()).text == "well"
    assert scripted.named("tasks/get")[0]["params"]["taskId"] == "t-9"


async def test_all_requests_about_a_task_carry_its_id_in_a_header() -> None:
    asks = {"status": "input_required", "inputRequests": {"one": FORM}}

    def get(answer: HttpAnswer) -> None:
        is_answered = bool(scripted.named("tasks/update"))
        answer.result({"resultType": "complete", **TASK, **(WORKING if is_answered else asks)})

    created = {"resultType": "task", **TASK, "taskId": "zadanie-ł"}
    acts = {"tools_call": created, "tasks_get": get, "tasks_update": ACK, "tasks_cancel": ACK}
    async with modern_stage(**acts) as scripted, scripted.client(on_ask=say_ada) as client:
        with pytest.raises(ResponseTimeoutError):
            await client.call("t", timeout_s=0.3)
        sent = [request.headers for request in scripted.requests if request.rpc.startswith("tasks/")]
    assert {headers["mcp-name"] for headers in sent} == {"=?base64?emFkYW5pZS3Fgg==?="}
    assert {headers["mcp-method"] for headers in sent} == {"tasks/get", "tasks/update", "tasks/cancel"}
