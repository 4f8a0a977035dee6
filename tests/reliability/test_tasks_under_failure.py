"""Tasks survive what happens to servers: kills, restarts, several workers, full disks, clients that leave.

An acknowledged task is always there, has one end, and its tool has run once. 120 tasks and 4 kills every day,
1,000 tasks and 20 kills in the long suites.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import signal
import socket
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.clients.task_client import ENDS, YES, HTTPTaskClient, RefusedError, TaskClient, make_params
from tests.support.servers.serve_process import Serving, wait_until
from toolcrib import Context, MCPServer, Principal
from toolcrib.policy import Tasks
from toolcrib.protocol import tasks as tasks_module
from toolcrib.state.sqlite.file import SQLiteFile

TOOLS = """\
import asyncio, os

from toolcrib import Context, tool
from toolcrib.state.sqlite import file

file.LEASE_NS, file.RENEW_NS = file.NS, file.NS // 5


def write(line):
    file = os.open(os.environ["JOURNAL"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(file, line.encode() + b"\\n")
    os.close(file)


@tool(task="when-long")
async def job(number: int, seconds: float) -> str:
    \"\"\"Do something once.\"\"\"
    write(f"begin {number}")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        write(f"cancel {number}")
        raise
    write(f"end {number}")
    return f"{number} by {os.getpid()}"


@tool(task="always")
async def confirmed(ctx: Context) -> str:
    \"\"\"Do something after a question.\"\"\"
    await asyncio.sleep(0.01)
    answer = await ctx.ask("sure", "Sure?")
    return f"{answer.action} in {os.getpid()}"


@tool(task="always")
async def where() -> str:
    \"\"\"Tell the process, when it is cancelled.\"\"\"
    write(f"at {os.getpid()}")
    await asyncio.sleep(60)
    return "late"
"""
STATE = '[state]\nurl = "sqlite:///tasks.db"'
BROKEN = (OSError, http.client.HTTPException, json.JSONDecodeError)


class Folder:
    """A folder with tools, settings, and a journal of what the tools did."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.path = path
        self.journal = path / "journal"
        (path / "tools.py").write_text(TOOLS)
        lines = [f"{key} = {json.dumps(value)}" for key, value in {"wait_s": 0.02, **settings}.items()]
        server = '[server]\ntargets = ["tools.py"]\n'
        (path / "toolcrib.toml").write_text("\n".join([server, STATE, "[tasks]", *lines, ""]))

    def serve(self, *arguments: str) -> Serving:
        return Serving("toolcrib.toml", *arguments, cwd=self.path, JOURNAL=str(self.journal))

    def count(self, word: str) -> Counter[str]:
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        return Counter(line for line in lines if line.startswith(f"{word} "))


# --- kill -9 -----------------------------------------------------------------------------------------


def start_until_killed(
    folder: Folder, numbers: range, kill_after: int, replies: dict[int, dict[str, Any]], dice: random.Random
) -> None:
    """Call the tool from several threads, and kill the server after some replies.

    A job of 0.03 s may be answered with its result: on a busy machine it ends before it is a task.
    """
    with folder.serve() as server:
        client, waiting, lock = HTTPTaskClient(server.address), iter(numbers), threading.Lock()
        delays = {number: dice.choice([0.03, 0.1, 60]) for number in numbers}
        replied = 0

        def run() -> None:
            nonlocal replied
            while True:
                with lock:
                    number = next(waiting, None)
                if number is None:
                    return
                arguments = {"number": number, "seconds": delays[number]}
                try:
                    reply = client.request("tools/call", name="job", arguments=arguments)
                except BROKEN:
                    return
                with lock:
                    replies[number] = reply
                    replied += 1
                    if replied == kill_after:
                        server.process.kill()

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if server.process.poll() is None:
            server.process.kill()


@pytest.mark.parametrize(
    ("tasks", "kills"), [(120, 4), pytest.param(1_000, 20, marks=pytest.mark.long)], ids=["daily", "long"]
)
def test_no_task_is_lost_or_run_twice_when_servers_are_killed(tmp_path: Path, tasks: int, kills: int) -> None:
    folder, dice = Folder(tmp_path, max_open=10_000), random.Random(7)
    replies: dict[int, dict[str, Any]] = {}
    share = tasks // kills
    for kill in range(kills):
        numbers = range(kill * share, (kill + 1) * share)
        start_until_killed(folder, numbers, dice.randrange(share // 2, share), replies, dice)
    with folder.serve() as server:
        client = HTTPTaskClient(server.address)
        ended = {
            number: client.until(reply["taskId"])
            if "taskId" in reply
            else {"status": "completed", "result": reply}
            for number, reply in replies.items()
        }
    begun, done = folder.count("begin"), folder.count("end")
    assert set(begun.values()) <= {1}
    assert set(done.values()) <= {1}
    for number, task in ended.items():
        assert begun[f"begin {number}"] == 1
        if task["status"] == "completed":
            assert task["result"]["content"][0]["text"].startswith(f"{number} by ")
            assert done[f"end {number}"] == 1
        else:
            assert task["status"] == "failed"
            assert task["error"]["code"] == -32603
            assert "the server process that ran it has ended" in task["error"]["message"]
    assert Counter(task["status"] for task in ended.values()).keys() == {"completed", "failed"}


# --- several workers ---------------------------------------------------------------------------------


def test_workers_share_their_tasks_and_a_dead_one_fails_its_own(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with folder.serve("--workers", "2") as server:
        client = HTTPTaskClient(server.address)
        for _ in range(8):  # a new connection each: any worker may get it
            id_ = client.start("confirmed")
            client.until(id_, "input_required")
            client.request("tasks/update", taskId=id_, inputResponses={"sure": YES})
            assert client.until(id_)["result"]["content"][0]["text"].startswith("accept in ")
        for number in range(8):
            id_ = client.start("job", number=number, seconds=30)
            assert client.request("tasks/cancel", taskId=id_) == {"resultType": "complete"}
            assert client.get(id_)["status"] == "cancelled"
        wait_until(lambda: len(folder.count("cancel")) == 8, lambda: folder.journal.read_text())

        owners: dict[str, str] = {}
        while len(set(owners.values())) < 2 or len(owners) < 6:
            before = folder.count("at")
            id_ = client.start("where")
            wait_until(lambda seen=before: folder.count("at") != seen, lambda: "it has begun")  # type: ignore[misc]
            [line] = folder.count("at") - before
            owners[id_] = line.removeprefix("at ")
        dead = owners[next(iter(owners))]
        os.kill(int(dead), signal.SIGKILL)
        for id_, owner in owners.items():
            status = client.until(id_, "failed" if owner == dead else "working")["status"]
            assert status == ("failed" if owner == dead else "working")


# --- clients that leave ------------------------------------------------------------------------------


def leave_after(address: str, delay_s: float, number: int) -> None:
    """Send a call, and close the connection without waiting for the reply."""
    url = urlsplit(address)
    params = make_params({"name": "job", "arguments": {"number": number, "seconds": 2.0}})
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    head = [
        f"POST {url.path} HTTP/1.1",
        f"host: {url.netloc}",
        "content-type: application/json",
        "accept: application/json, text/event-stream",
        "mcp-protocol-version: 2026-07-28",
        "mcp-method: tools/call",
        "mcp-name: job",
        f"content-length: {len(body)}",
    ]
    with socket.create_connection((url.hostname, url.port or 80)) as connection:
        connection.sendall("\r\n".join([*head, "", body]).encode())
        connection.settimeout(delay_s)
        try:
            connection.recv(1)
        except TimeoutError:
            pass


def test_a_client_that_disconnects_before_its_task_takes_the_call_with_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path, wait_s=1)
    with folder.serve() as server:
        leave_after(server.address, 0.2, 1)
        wait_until(lambda: folder.count("cancel") == {"cancel 1": 1}, lambda: "the call is cancelled")
        leave_after(server.address, 5, 2)  # until the reply with the task has come
        wait_until(lambda: folder.count("end") == {"end 2": 1}, lambda: "the task has ended")
    assert folder.count("begin") == {"begin 1": 1, "begin 2": 1}


# --- in this process ---------------------------------------------------------------------------------


def make_server(folder: Path, work: Callable[..., Any], **settings: Any) -> MCPServer:
    given = Tasks(**{"max_open": 10_000, "max_open_per_principal": 10_000, **settings})
    server = MCPServer("tasks", tasks=given, state=f"sqlite:///{folder}/tasks.db")
    server.tool(name="work", task="always")(work)
    return server


async def test_a_cancellation_and_an_end_at_the_same_time_leave_one_end(tmp_path: Path) -> None:
    dice, runs = random.Random(11), Counter[int]()

    async def work(number: int) -> str:
        runs[number] += 1
        await asyncio.sleep(0.05 + number % 7 / 1000)
        return str(number)

    async with TaskClient(server := make_server(tmp_path, work)) as client, server:
        ids = await asyncio.gather(*(client.start("work", number=number) for number in range(60)))
        await asyncio.sleep(0.02)

        async def cancel(id_: str) -> None:
            await asyncio.sleep(dice.random() / 20)
            await client.cancel(id_)

        await asyncio.gather(*(cancel(id_) for id_ in ids))
        first = [(await client.get(id_)) for id_ in ids]
        await asyncio.sleep(0.3)
        assert [(await client.get(id_)) for id_ in ids] == first
    assert {task["status"] for task in first} <= {"completed", "cancelled"}
    assert all(("result" in task) == (task["status"] == "completed") for task in first)
    assert set(runs.values()) == {1}


async def test_many_tasks_at_once_all_end(tmp_path: Path) -> None:
    async def work(number: int, ctx: Context) -> int:
        for step in range(5):
            await ctx.progress(step, 5)
            await asyncio.sleep(0.02)
        return number

    async with TaskClient(server := make_server(tmp_path, work)) as client, server:
        ids = await asyncio.gather(*(client.start("work", number=number) for number in range(300)))
        ended = [await client.until(id_) for id_ in ids]
    assert [task["result"]["structuredContent"] for task in ended] == list(range(300))


async def test_ids_of_others_are_unknown_however_many_are_tried(tmp_path: Path) -> None:
    async def work() -> str:
        await asyncio.sleep(30)
        return "secret"

    server = make_server(tmp_path, work)
    async with (
        server,
        TaskClient(server, Principal("key:ana")) as ana,
        TaskClient(server, Principal("key:eve")) as eve,
    ):
        ids = [await ana.start("work") for _ in range(5)]
        guesses = [
            *ids,
            *(id_[:-1] + "A" for id_ in ids),
            *(id_.lower() for id_ in ids),
            "%",
            "*",
            "' OR 1=1 --",
        ]
        for guess in guesses:
            for method in ("tasks/get", "tasks/cancel", "tasks/update"):
                with pytest.raises(RefusedError) as refused:
                    await eve.request(method, taskId=guess, inputResponses={})
                assert refused.value.code == -32602
        assert {(await ana.get(id_))["status"] for id_ in ids} == {"working"}


async def test_a_full_disk_keeps_calls_inline_and_delays_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tasks_module, "RETRY_S", 0.05)
    disk = Disk(monkeypatch)
    gate = asyncio.Event()

    async def work(size: int) -> str:
        await gate.wait()
        return "x" * size

    async with TaskClient(server := make_server(tmp_path, work)) as client, server:
        id_ = await client.start("work", size=200_000)
        disk.pages = 8
        gate.set()
        await asyncio.sleep(0.3)
        assert (await client.get(id_))["status"] == "working"  # its result does not fit
        gate.clear()
        replies = [client.send("tools/call", name="work", arguments={"size": 1})[1] for _ in range(200)]
        await asyncio.wait(replies, timeout=3, return_when=asyncio.ALL_COMPLETED)
        inline = [reply for reply in replies if not reply.done()]
        assert 0 < len(inline) < 200
        gate.set()
        for reply in inline:
            assert (await reply)["result"]["content"][0]["text"] == "x"
        disk.pages = 1_000_000
        ids = [reply.result()["result"]["taskId"] for reply in replies if reply not in inline]
        assert {(await client.until(each))["status"] for each in (id_, *ids)} == {"completed"}
    assert "disk is full" in caplog.text


class Disk:
    """Gives the file of tasks room for a number of pages."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pages = 1_000_000
        connect = SQLiteFile._connect

        def connect_with_limit(file: SQLiteFile) -> sqlite3.Connection:
            db = connect(file)
            db.execute(f"PRAGMA max_page_count = {self.pages}").fetchone()
            return db

        monkeypatch.setattr(SQLiteFile, "_connect", connect_with_limit)


async def test_ended_tasks_are_the_same_whenever_they_are_read(tmp_path: Path) -> None:
    async def work(number: int) -> int:
        await asyncio.sleep(0.01)
        return number

    async with TaskClient(server := make_server(tmp_path, work)) as client, server:
        id_ = await client.start("work", number=5)
        first = await client.until(id_, *ENDS)
        assert all([await client.get(id_) == first for _ in range(20)])
