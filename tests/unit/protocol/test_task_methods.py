"""Calls that become tasks, and the methods about tasks."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.task_client import EXTENSION, YES, RefusedError, TaskClient, make_params
from toolcrib import Context, MCPServer, Principal, ToolError
from toolcrib.context import Answer, Elicitation
from toolcrib.errors import ConfigurationError, InvalidToolError
from toolcrib.policy import Audit, Limit, Policy, Rule, Tasks
from toolcrib.policy.audit import open_log
from toolcrib.protocol import tasks as tasks_module
from toolcrib.transports.pipe import Pipe

ANA, BEN = Principal("key:ana"), Principal("key:ben")
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Shop:
    """A server whose tools wait for `gate`, and what they have done."""

    def __init__(
        self, folder: Path, *, policy: Policy | None = None, file: Path | None = None, **settings: Any
    ) -> None:
        self.file = file or folder / "tasks.db"
        self.runs: list[str] = []
        self.gate = asyncio.Event()
        given, state = Tasks(**{"wait_s": 0.02, **settings}), f"sqlite:///{self.file}"
        self.server = MCPServer("shop", version="1.0.0", tasks=given, state=state, policy=policy, timeout_s=5)
        _add_tools(self)


def _add_tools(shop: Shop) -> None:
    server, runs = shop.server, shop.runs

    @server.tool(task="when-long")
    async def work(label: str, ctx: Context) -> str:
        """Work until the gate opens."""
        runs.append(label)
        try:
            await shop.gate.wait()
        except asyncio.CancelledError:
            runs.append(f"{label} cancelled")
            raise
        return f"worked on {label}"

    @server.tool(task="when-long")
    def block(seconds: float, ctx: Context) -> str:
        """Work on a thread."""
        time.sleep(seconds)
        return "ok" if ctx.ask("sure", "Sure?") else "declined"

    @server.tool(task="always")
    async def ask_first(ctx: Context) -> str:
        """Ask, then work."""
        runs.append("ask_first")
        answer = await ctx.ask("who", "Who are you?", NAME)
        await shop.gate.wait()
        return f"Hello, {answer['name']}!"

    @server.tool(task="always")
    async def ask_later(ctx: Context) -> str:
        """Work, then ask twice with the same key."""
        runs.append("ask_later")
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        first = await ctx.ask("who", "Who are you?", NAME)
        second = await ctx.ask("who", "And who else?", NAME)
        return f"{first['name']} and {second['name']}"

    @server.tool(task="always")
    async def ask_many(ctx: Context) -> str:
        """Work, then ask two questions at once."""
        await asyncio.sleep(0.01)
        replies = await ctx.ask_all({"a": Elicitation("A?"), "b": Elicitation("B?")})
        return f"{replies['a'].action} {replies['b'].action}"

    @server.tool(task="always")
    async def instant() -> str:
        """End at once."""
        return "at once"

    @server.tool
    async def plain() -> str:
        """Never a task."""
        return "plain"

    _add_failures(shop)


def _add_failures(shop: Shop) -> None:
    server = shop.server

    @server.tool(task="always")
    async def refuse() -> str:
        """Fail in its own words."""
        await asyncio.sleep(0.01)
        raise ToolError("no luck")

    @server.tool(task="always", timeout_s=0.05)
    async def late() -> str:
        """Take longer than it may."""
        await asyncio.sleep(30)
        return "never"

    @server.tool(task="always")
    async def wants_model(ctx: Context) -> str:
        """Ask what the client does not support."""
        await asyncio.sleep(0.01)
        return str(await ctx.sample("text", "Write."))

    @server.tool(task="always")
    async def report(ctx: Context) -> str:
        """Report progress."""
        await asyncio.sleep(0.01)
        for step in range(1, 200):
            await ctx.progress(step, 200)
        await ctx.progress(200, 200, "nearly there")
        await ctx.log("info", "a line for the log")
        await shop.gate.wait()
        return "reported"


@asynccontextmanager
async def serving(
    folder: Path, principal: Principal = ANA, **options: Any
) -> AsyncIterator[tuple[Shop, TaskClient]]:
    shop = Shop(folder, **options)
    async with shop.server, TaskClient(shop.server, principal) as client:
        yield shop, client


# --- becoming a task ---------------------------------------------------------------------------------


async def test_a_long_call_is_answered_with_a_task_and_goes_on(tmp_path: Path) -> None:
    async with serving(tmp_path, poll_s=0.5, ttl_s=60) as (shop, client):
        created = await client.call("work", label="a")
        id_ = created.pop("taskId")
        assert re.fullmatch(r"[\w-]{22}", id_)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", created.pop("createdAt"))
        created.pop("lastUpdatedAt")
        assert created == {"resultType": "task", "status": "working", "ttlMs": 60_000, "pollIntervalMs": 500}
        task = await client.get(id_)
        assert (task["resultType"], task["taskId"], task["status"]) == ("complete", id_, "working")
        shop.gate.set()
        task = await client.until(id_)
    assert task["status"] == "completed"
    assert task["result"]["content"] == [{"type": "text", "text": "worked on a"}]
    assert task["result"]["isError"] is False
    assert shop.runs == ["a"]


async def test_a_call_that_ends_within_its_patience_is_answered_as_before(tmp_path: Path) -> None:
    async with serving(tmp_path, wait_s=5) as (shop, client):
        shop.gate.set()
        result = await client.call("work", label="a")
        instant = await client.call("instant")
    assert result["content"][0]["text"] == "worked on a"
    assert instant["content"][0]["text"] == "at once"
    assert not shop.file.exists()


async def test_the_call_waits_for_a_client_that_does_not_declare_the_extension(tmp_path: Path) -> None:
    async with serving(tmp_path) as (shop, _), TaskClient(shop.server, declares=False) as client:
        _, reply = client.send("tools/call", name="work", arguments={"label": "a"})
        await asyncio.sleep(0.1)
        assert not reply.done()
        shop.gate.set()
        assert (await reply)["result"]["content"][0]["text"] == "worked on a"


async def test_a_tool_that_is_always_a_task_refuses_clients_that_cannot_follow_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as (shop, _), TaskClient(shop.server, declares=False) as client:
        for method, params in (
            ("tools/call", {"name": "ask_later", "arguments": {}}),
            ("tasks/get", {"taskId": "x"}),
            ("tasks/update", {"taskId": "x", "inputResponses": {}}),
            ("tasks/cancel", {"taskId": "x"}),
            ("subscriptions/listen", {"notifications": {"taskIds": ["x"]}}),
        ):
            with pytest.raises(RefusedError) as refused:
                await client.request(method, **params)
            assert refused.value.code == -32021
            assert refused.value.data == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    assert shop.runs == []


async def test_clients_of_older_revisions_wait(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    async with shop.server.connect(protocol="2025-11-25") as client:
        shop.gate.set()
        assert (await client.call("work", {"label": "a"})).text == "worked on a"
        assert (await client.call("instant")).text == "at once"


async def test_the_extension_is_announced_where_a_tool_can_be_a_task(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        capabilities = (await client.request("server/discover"))["capabilities"]
    assert capabilities["extensions"] == {EXTENSION: {}}
    server = MCPServer("plain")
    server.tool(name="plain")(lambda: "x")
    async with server, TaskClient(server) as client:
        assert "extensions" not in (await client.request("server/discover"))["capabilities"]
        with pytest.raises(RefusedError) as refused:
            await client.get("x")
    assert refused.value.code == -32601


async def test_a_tool_that_is_hidden_is_unknown_whatever_the_client_declares(tmp_path: Path) -> None:
    policy = Policy(rules=[Rule(deny=["ask_later"])])
    async with (
        serving(tmp_path, policy=policy) as (shop, _),
        TaskClient(shop.server, declares=False) as client,
    ):
        with pytest.raises(RefusedError, match="Unknown tool"):
            await client.call("ask_later")


async def test_invalid_arguments_are_an_ordinary_result(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        result = await client.call("work", wrong=1)
    assert result["resultType"] == "complete"
    assert result["isError"] is True


# --- the end of a task -------------------------------------------------------------------------------


async def test_an_error_of_the_tool_is_a_completed_task(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        for name, words in (("refuse", "no luck"), ("late", "did not finish within 0.05 s")):
            task = await client.until(await client.start(name))
            assert (task["status"], task["result"]["isError"]) == ("completed", True)
            assert words in task["result"]["content"][0]["text"]


async def test_an_error_of_the_protocol_is_a_failed_task(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        task = await client.until(await client.start("wants_model"))
    assert task["status"] == "failed"
    assert task["error"]["code"] == -32021
    assert task["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}
    assert "result" not in task


async def test_a_cancelled_task_ends_and_stays_cancelled(tmp_path: Path) -> None:
    async with serving(tmp_path) as (shop, client):
        id_ = await client.start("work", label="a")
        assert await client.cancel(id_) == {"resultType": "complete"}
        assert (await client.get(id_))["status"] == "cancelled"
        async with asyncio.timeout(5):
            while "a cancelled" not in shop.runs:
                await asyncio.sleep(0.01)
        shop.gate.set()
        assert await client.cancel(id_) == {"resultType": "complete"}
        assert (await client.get(id_))["status"] == "cancelled"


async def test_cancelling_a_task_that_has_ended_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as (shop, client):
        id_ = await client.start("work", label="a")
        shop.gate.set()
        await client.until(id_)
        assert await client.cancel(id_) == {"resultType": "complete"}
        assert (await client.get(id_))["status"] == "completed"


async def test_a_cancelled_request_ends_the_call_before_and_not_after_it_is_a_task(tmp_path: Path) -> None:
    async with serving(tmp_path, wait_s=0.3) as (shop, client):
        id_, reply = client.send("tools/call", name="work", arguments={"label": "a"})
        await asyncio.sleep(0.05)
        client.notify("notifications/cancelled", requestId=id_)
        await asyncio.sleep(0.5)
        assert not reply.done()
        assert shop.runs == ["a", "a cancelled"]
        id_, reply = client.send("tools/call", name="work", arguments={"label": "b"})
        task_id = (await reply)["result"]["taskId"]
        client.notify("notifications/cancelled", requestId=id_)
        shop.gate.set()
        assert (await client.until(task_id))["status"] == "completed"


async def test_a_client_that_disconnects_takes_its_call_with_it_and_leaves_its_task(tmp_path: Path) -> None:
    shop = Shop(tmp_path, wait_s=0.1)
    async with shop.server:
        async with TaskClient(shop.server, ANA) as client:
            id_ = await client.start("work", label="kept")
            client.send("tools/call", name="work", arguments={"label": "dropped"})
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.05)
        assert "dropped cancelled" in shop.runs
        shop.gate.set()
        async with TaskClient(shop.server, ANA) as client:
            assert (await client.until(id_))["status"] == "completed"


async def test_tasks_of_a_server_that_stops_have_failed(tmp_path: Path) -> None:
    async with serving(tmp_path) as (shop, client):
        id_ = await client.start("work", label="a")
    assert shop.runs == ["a", "a cancelled"]
    async with serving(tmp_path) as (_, client):
        task = await client.get(id_)
    assert task["status"] == "failed"
    assert task["error"] == {"code": -32603, "message": "The task was stopped: the server has shut down."}


async def test_a_result_survives_a_restart_until_it_expires(tmp_path: Path) -> None:
    async with serving(tmp_path, ttl_s=1.5) as (shop, client):
        id_ = await client.start("work", label="a")
        created = time.monotonic()
        shop.gate.set()
        await client.until(id_)
    async with serving(tmp_path) as (_, client):
        while time.monotonic() < created + 1.3:
            assert (await client.get(id_))["status"] == "completed"
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.5)
        with pytest.raises(RefusedError) as refused:
            await client.get(id_)
    assert refused.value.code == -32602


async def test_work_that_takes_longer_than_its_task_is_kept_is_cancelled(tmp_path: Path) -> None:
    async with serving(tmp_path, ttl_s=1) as (shop, client):
        await client.start("work", label="a")
        async with asyncio.timeout(8):
            while "a cancelled" not in shop.runs:
                await asyncio.sleep(0.05)


# --- questions ---------------------------------------------------------------------------------------


async def test_a_question_before_the_task_is_an_ordinary_round_trip(tmp_path: Path) -> None:
    async with serving(tmp_path) as (shop, client):
        first = await client.call("ask_first")
        assert first["resultType"] == "input_required"
        assert "taskId" not in first
        answered = {"who": {"action": "accept", "content": {"name": "Ada"}}}
        shop.gate.clear()
        created = await client.request(
            "tools/call",
            name="ask_first",
            arguments={},
            inputResponses=answered,
            requestState=first["requestState"],
        )
        assert created["resultType"] == "task"
        assert "requestState" not in created
        shop.gate.set()
        task = await client.until(created["taskId"])
    assert task["result"]["content"][0]["text"] == "Hello, Ada!"
    assert shop.runs == ["ask_first", "ask_first"]


async def test_a_question_in_a_task_suspends_the_tool(tmp_path: Path) -> None:
    async with serving(tmp_path) as (shop, client):
        id_ = await client.start("ask_later")
        task = await client.until(id_, "input_required")
        request = task["inputRequests"]["who"]
        assert request["method"] == "elicitation/create"
        assert request["params"]["message"] == "Who are you?"
        answer = {"action": "accept", "content": {"name": "Ada"}}
        assert await client.update(id_, who=answer, other=YES) == {"resultType": "complete"}
        async with asyncio.timeout(5):
            while "who.2" not in (task := await client.get(id_)).get("inputRequests", {}):
                await asyncio.sleep(0.01)
        assert list(task["inputRequests"]) == ["who.2"]  # a key is never used again
        await client.update(id_, who=YES)  # an old key is ignored
        await client.update(id_, **{"who.2": {"action": "accept", "content": {"name": "Bob"}}})
        task = await client.until(id_)
    assert task["result"]["content"][0]["text"] == "Ada and Bob"
    assert shop.runs == ["ask_later"]


async def test_questions_may_be_answered_one_at_a_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        id_ = await client.start("ask_many")
        assert set((await client.until(id_, "input_required"))["inputRequests"]) == {"a", "b"}
        await client.update(id_, b=YES)
        task = await client.get(id_)
        assert (task["status"], list(task["inputRequests"])) == ("input_required", ["a"])
        await client.update(id_, a={"action": "decline"}, b={"action": "cancel"})
        task = await client.until(id_)
    assert task["result"]["content"][0]["text"] == "decline accept"


@pytest.mark.parametrize(
    "answer", [5, None, {}, {"action": "maybe"}, {"action": "accept", "content": {"x": 1}}]
)
async def test_an_answer_that_does_not_fit_is_refused_and_may_be_given_again(
    tmp_path: Path, answer: Any
) -> None:
    async with serving(tmp_path) as (_, client):
        id_ = await client.start("ask_later")
        await client.until(id_, "input_required")
        with pytest.raises(RefusedError, match="the answer to 'who' does not fit") as refused:
            await client.update(id_, who=answer)
        assert refused.value.code == -32602
        assert list((await client.get(id_))["inputRequests"]) == ["who"]


async def test_a_tool_on_a_thread_may_ask_in_its_task(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        id_ = await client.start("block", seconds=0.1)
        await client.until(id_, "input_required")
        await client.update(id_, sure=YES)
        assert (await client.until(id_))["result"]["content"][0]["text"] == "ok"


async def test_a_task_that_waits_for_an_answer_can_be_cancelled(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        id_ = await client.start("block", seconds=0.1)
        await client.until(id_, "input_required")
        await client.cancel(id_)
        task = await client.get(id_)
    assert task["status"] == "cancelled"
    assert "inputRequests" not in task


# --- progress and subscriptions ----------------------------------------------------------------------


async def test_progress_is_the_status_message_of_a_task(tmp_path: Path) -> None:
    async with serving(tmp_path) as (shop, client):
        id_ = await client.start("report")
        async with asyncio.timeout(5):
            while (await client.get(id_)).get("statusMessage") != "nearly there":
                await asyncio.sleep(0.01)
        shop.gate.set()
        await client.until(id_)
    assert client.notes == []


async def test_a_subscription_is_told_the_state_of_tasks(tmp_path: Path) -> None:
    async with serving(tmp_path) as (shop, client), TaskClient(shop.server, BEN) as other:
        id_ = await client.start("ask_later")
        for each in (client, other):
            each.send("subscriptions/listen", notifications={"taskIds": [id_, "unknown"]})
        await client.until(id_, "input_required")
        answer = {"action": "accept", "content": {"name": "Ada"}}
        await client.update(id_, who=answer)
        async with asyncio.timeout(5):
            while "who.2" not in (await client.get(id_)).get("inputRequests", {}):
                await asyncio.sleep(0.01)
        await client.update(id_, **{"who.2": answer})
        await client.until(id_)
        async with asyncio.timeout(5):
            while client.notes[-1]["params"].get("status") != "completed":
                await asyncio.sleep(0.01)
        first, *frames = client.notes
    assert first["params"]["notifications"] == {"taskIds": [id_]}
    assert {frame["method"] for frame in frames} == {"notifications/tasks"}
    assert {frame["params"]["taskId"] for frame in frames} == {id_}
    assert frames[-1]["params"]["result"]["content"][0]["text"] == "Ada and Ada"
    assert "io.modelcontextprotocol/subscriptionId" in frames[-1]["params"]["_meta"]
    assert [note["params"]["notifications"] for note in other.notes] == [{}]


async def test_a_client_that_cannot_be_written_to_does_not_keep_news_from_others(tmp_path: Path) -> None:
    def fail(data: bytes) -> None:
        if b"notifications/tasks" in data:
            raise RuntimeError("the handler is closed")

    async with serving(tmp_path) as (shop, client):
        id_ = await client.start("work", label="a")
        listening = {"notifications": {"taskIds": [id_]}}
        gone = [Pipe(shop.server.transports.engine, fail, ANA) for _ in range(8)]
        for pipe in gone:
            message = {"method": "subscriptions/listen", "params": make_params(listening)}
            pipe.feed(json.dumps({"jsonrpc": "2.0", "id": 1, **message}).encode())
        client.send("subscriptions/listen", **listening)
        shop.gate.set()
        async with asyncio.timeout(5):
            while not client.notes or client.notes[-1]["params"].get("status") != "completed":
                await asyncio.sleep(0.01)
        for pipe in gone:
            await pipe.aclose()


@pytest.mark.parametrize("ids", ["x", [1], {}, ["x"] * 101])
async def test_anything_that_is_not_a_list_of_tasks_cannot_be_listened_to(tmp_path: Path, ids: Any) -> None:
    async with serving(tmp_path) as (_, client):
        with pytest.raises(RefusedError, match="taskIds must be a list") as refused:
            await client.request("subscriptions/listen", notifications={"taskIds": ids})
    assert refused.value.code == -32602


async def test_a_subscription_to_tasks_is_refused_where_the_file_cannot_be_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as (shop, client):
        shop.file.write_text("not a database")
        with pytest.raises(RefusedError, match="cannot be read now") as refused:
            await client.request("subscriptions/listen", notifications={"taskIds": ["0" * 22]})
        assert refused.value.code == -32603
        assert not shop.server.transports.engine.subscriptions


async def test_the_policy_is_asked_again_when_a_task_is_read(tmp_path: Path) -> None:
    rules = [Rule(deny=["work"], who=["role:guest"])]
    guest = Principal("key:ana", roles=frozenset({"guest"}))
    policy = Policy(rules=rules, roles={"guest": []}, scopes={"work": ["work"]})
    strong = Principal("key:ana", scopes=frozenset({"work"}))
    async with serving(tmp_path, strong, policy=policy) as (shop, client):
        id_ = await client.start("work", label="a")
        shop.gate.set()
        await client.until(id_)
        for who, words in ((guest, "unknown or expired"), (ANA, "a scope that you do not have: work")):
            async with TaskClient(shop.server, who) as other:
                with pytest.raises(RefusedError, match=words):
                    await other.get(id_)
                other.send("subscriptions/listen", notifications={"taskIds": [id_]})
                async with asyncio.timeout(5):
                    while not other.notes:
                        await asyncio.sleep(0.01)
                assert other.notes[0]["params"]["notifications"] == {}
    other_server = MCPServer("without the tool", state=shop.server.settings.state, policy=Policy())
    other_server.tool(name="other", task="always")(lambda: 1)
    async with other_server, TaskClient(other_server, strong) as client:
        with pytest.raises(RefusedError, match="unknown or expired"):
            await client.get(id_)  # nobody can say any more who may read it


# --- whose task it is --------------------------------------------------------------------------------


async def test_tasks_of_others_are_unknown(tmp_path: Path) -> None:
    async with serving(tmp_path) as (shop, client), TaskClient(shop.server, BEN) as other:
        id_ = await client.start("ask_later")
        await client.until(id_, "input_required")
        said = []
        for asked in (id_, "0" * 22, "", "x" * 10_000, "\u00e9"):
            for method, more in (("get", {}), ("cancel", {}), ("update", {"inputResponses": {"who": YES}})):
                with pytest.raises(RefusedError) as refused:
                    await other.request(f"tasks/{method}", taskId=asked, **more)
                said.append((refused.value.code, str(refused.value)))
        assert set(said) == {(-32602, "Invalid params: unknown or expired task")}
        assert (await client.get(id_))["status"] == "input_required"


@pytest.mark.parametrize("params", [{}, {"taskId": None}, {"taskId": 5}, {"taskId": ["x"]}])
async def test_a_request_without_a_task_id_is_refused(tmp_path: Path, params: dict[str, Any]) -> None:
    async with serving(tmp_path) as (_, client):
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(RefusedError, match="taskId is required") as refused:
                await client.request(method, **params)
            assert refused.value.code == -32602


@pytest.mark.parametrize("given", [None, 5, [], "x", {"who": "x" * 300_000}])
async def test_answers_that_are_not_an_object_or_too_long_are_refused(tmp_path: Path, given: Any) -> None:
    async with serving(tmp_path) as (_, client):
        id_ = await client.start("ask_later")
        with pytest.raises(RefusedError, match="inputResponses must be") as refused:
            await client.request("tasks/update", taskId=id_, inputResponses=given)
    assert refused.value.code == -32602


# --- policy ------------------------------------------------------------------------------------------


async def test_a_task_is_recorded_when_it_is_created_and_when_it_ends(tmp_path: Path) -> None:
    policy = Policy(audit=Audit(tmp_path / "audit.db"))
    async with serving(tmp_path, policy=policy) as (shop, client):
        id_ = await client.start("work", label="a")
        assert [record["outcome"] for record in _records(tmp_path)] == ["task"]
        shop.gate.set()
        await client.until(id_)
        cancelled = await client.start("ask_later")
        await client.cancel(cancelled)
        await asyncio.sleep(0.2)
    records = _records(tmp_path)
    assert [record["outcome"] for record in records] == ["task", "ok", "task", "cancelled"]
    assert records[0]["id"] == records[1]["id"]
    assert records[0]["arguments_digest"] == records[1]["arguments_digest"]
    assert records[0]["duration_ms"] <= records[1]["duration_ms"]


def _records(folder: Path) -> list[dict[str, Any]]:
    return [record for record in open_log(folder / "audit.db").records() if record["kind"] == "call"]


async def test_middleware_sees_the_real_end_of_a_task(tmp_path: Path) -> None:
    shop, seen = Shop(tmp_path), []

    class Watch:
        async def __call__(self, call: Any, next: Any) -> Any:
            result = await next(call)
            seen.append(result.text)
            return result

        def on_task(self, call: Any) -> None:
            seen.append(f"task {call.tool.name}")

    shop.server.middleware(Watch())
    async with shop.server, TaskClient(shop.server) as client:
        id_ = await client.start("work", label="a")
        assert seen == ["task work"]
        shop.gate.set()
        await client.until(id_)
    assert seen == ["task work", "worked on a"]


async def test_a_call_that_is_refused_is_not_a_task(tmp_path: Path) -> None:
    policy = Policy(limits=[Limit(tools=["work"], concurrency=1)])
    async with serving(tmp_path, policy=policy) as (shop, client):
        id_ = await client.start("work", label="a")
        refused = await client.call("work", label="b")
        assert (refused["resultType"], refused["isError"]) == ("complete", True)
        shop.gate.set()
        await client.until(id_)
        assert (await client.call("work", label="c"))["isError"] is False
    assert shop.runs == ["a", "c"]


async def test_a_slot_is_free_while_a_person_thinks(tmp_path: Path) -> None:
    policy = Policy(limits=[Limit(tools=["ask_later"], concurrency=1)])
    async with serving(tmp_path, policy=policy) as (_, client):
        first = await client.start("ask_later")
        await client.until(first, "input_required")
        second = await client.start("ask_later")
        assert (await client.until(second, "input_required"))["status"] == "input_required"


async def test_a_confirmation_is_asked_for_before_the_task(tmp_path: Path) -> None:
    policy = Policy(rules=[Rule(confirm=["work"])])
    async with serving(tmp_path, policy=policy) as (shop, client):
        asked = await client.call("work", label="a")
        assert asked["resultType"] == "input_required"
        created = await client.request(
            "tools/call",
            name="work",
            arguments={"label": "a"},
            inputResponses=dict.fromkeys(asked["inputRequests"], YES),
            requestState=asked["requestState"],
        )
        assert created["resultType"] == "task"
    assert shop.runs == ["a", "a cancelled"]


# --- where there can be no task ----------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["max_open", "max_open_per_principal"])
async def test_a_call_beyond_the_number_of_tasks_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, limit: str
) -> None:
    async with serving(tmp_path, **{limit: 1}) as (shop, client):
        id_ = await client.start("work", label="a")
        _, reply = client.send("tools/call", name="work", arguments={"label": "b"})
        await asyncio.sleep(0.1)
        assert not reply.done()
        async with TaskClient(shop.server, BEN) as other:
            if limit == "max_open_per_principal":
                assert (await other.call("work", label="c"))["resultType"] == "task"
        shop.gate.set()
        assert (await reply)["result"]["content"][0]["text"] == "worked on b"
        assert (await client.until(id_))["status"] == "completed"
    assert "a call of 'work' does not become a task: too many tasks are open" in caplog.text


async def test_results_beyond_max_kept_bytes_expire_the_oldest_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = MCPServer("shop", tasks=Tasks(max_kept_bytes=2**20), state=f"sqlite:///{tmp_path}/tasks.db")

    @server.tool(task="always")
    async def fill(letter: str) -> str:
        await asyncio.sleep(0.01)
        return letter * 400_000

    async with TaskClient(server) as client, server:
        ids = [await client.start("fill", letter="a")]
        for letter in "bcd":
            await client.until(ids[-1])
            ids.append(await client.start("fill", letter=letter))
        last = await client.until(ids[-1])
        assert last["result"]["content"][0]["text"] == "d" * 400_000
        assert (await client.get(ids[-2]))["status"] == "completed"
        for id_ in ids[:2]:
            with pytest.raises(RefusedError, match="unknown or expired task"):
                await client.get(id_)
    assert "1 ended tasks expired early: max_kept_bytes is reached" in caplog.text


@pytest.mark.parametrize("kind", ["a folder", "another file", "no folder"])
async def test_without_a_file_the_call_waits_and_a_question_is_a_round_trip(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    if kind == "a folder":
        (tmp_path / "tasks.db").mkdir()
    elif kind == "another file":
        (tmp_path / "tasks.db").write_text("precious")
    else:
        (tmp_path / "file").touch()
    file = tmp_path / "file" / "tasks.db" if kind == "no folder" else tmp_path / "tasks.db"
    with caplog.at_level(logging.WARNING, "toolcrib"):
        async with serving(tmp_path, file=file) as (shop, client):
            _, reply = client.send("tools/call", name="work", arguments={"label": "a"})
            await asyncio.sleep(0.1)
            assert not reply.done()
            shop.gate.set()
            assert (await reply)["result"]["content"][0]["text"] == "worked on a"
            assert (await client.call("ask_later"))["resultType"] == "input_required"
            with pytest.raises(RefusedError, match="cannot be read now") as refused:
                await client.get("x")
    assert refused.value.code == -32603
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert kind != "another file" or file.read_text() == "precious"


async def test_an_end_that_cannot_be_written_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks_module, "RETRY_S", 0.05)
    async with serving(tmp_path) as (shop, client):
        id_ = await client.start("work", label="a")
        monkeypatch.setattr(shop.server.storage.engine.tasks, "finish", _fail)
        shop.gate.set()
        await asyncio.sleep(0.2)
        assert (await client.get(id_))["status"] == "working"
        monkeypatch.undo()
        assert (await client.until(id_))["status"] == "completed"


async def _fail(*_: object, **__: object) -> None:
    raise OSError("disk full")


# --- our own client ----------------------------------------------------------------------------------


async def test_our_client_waits_for_a_task_answers_its_questions_and_finds_it_again(tmp_path: Path) -> None:
    async def answer(question: Any) -> Answer:
        return Answer("accept", {"name": question.message})

    shop = Shop(tmp_path, poll_s=0.05)
    async with shop.server:
        async with shop.server.connect(on_ask=answer) as client:
            assert (await client.call("ask_later")).text == "Who are you? and And who else?"
            started = await client.start("work", {"label": "a"})
            assert started.id is not None
            assert (await started.status()).state == "working"
        shop.gate.set()
        async with shop.server.connect() as client:
            assert (await client.task(started.id).result()).text == "worked on a"


# --- the plain path and the options ------------------------------------------------------------------


async def test_a_server_without_such_tools_never_looks_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(threading.enumerate())
    server = MCPServer("plain")
    server.tool(name="plain")(lambda: "x")
    monkeypatch.setattr(tasks_module.TaskManager, "choose", None)
    async with server, TaskClient(server) as client:
        assert (await client.call("plain"))["content"][0]["text"] == "x"
    assert "toolcrib-state" not in {thread.name for thread in set(threading.enumerate()) - before}


def test_the_option_has_three_values() -> None:
    server = MCPServer("shop")
    with pytest.raises(InvalidToolError, match="must be 'never', 'when-long' or 'always', got True"):
        server.tool(name="x", task=True)(lambda: "x")  # type: ignore[call-overload]


def test_settings_have_bounds() -> None:
    with pytest.raises(ConfigurationError, match="ttl_s"):
        Tasks(ttl_s=0)
