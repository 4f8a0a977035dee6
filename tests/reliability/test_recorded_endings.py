"""Audit records of calls that end early: however client or server ends, every call is recorded."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.abusive_clients import HTTP_STACKS, SCRIPT, Served, Socket, call, post, served
from tests.support.clients.raw_http_client import Peer
from tests.support.servers.serve_process import COMMAND
from tests.support.system import fork_server
from toolcrib.policy.audit import open_log

pytestmark = [pytest.mark.row("B5", "E6", "G10"), pytest.mark.usefixtures("hangs_up")]

TOOLS = ("slow", "block", "child")


def calls_in(file: Path, tool: str = "*") -> list[dict[str, Any]]:
    return [record for record in open_log(file).records(tool=tool) if record["kind"] == "call"]


async def until(is_so: Callable[[], bool], limit_s: float = 5.0) -> float:
    """How long it took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < limit_s, "it never came about"
        await asyncio.sleep(0.01)
    return time.monotonic() - began


def legacy(name: str, arguments: dict[str, Any], **meta: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments, **({"_meta": meta} if meta else {})}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


# --- B5: a client that is gone ----------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS)
def test_b5_when_the_client_is_gone_what_ran_is_on_the_record(tool: str, tmp_path: Path) -> None:
    file = tmp_path / "audit.db"
    process = fork_server.launch(
        *(str(SCRIPT), "--stdio", "--audit", str(file)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def send(id_: int, method: str, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        assert process.stdin is not None
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()

    send(0, "initialize", protocolVersion="2025-11-25", capabilities={})
    send(1, "tools/call", name="add", arguments={"a": 1, "b": 2})
    for _ in range(2):
        assert process.stdout.readline()
    send(2, "tools/call", name=tool, arguments={"seconds": 30})
    send(3, "tools/call", name="add", arguments={"a": 1, "b": 2})
    assert json.loads(process.stdout.readline())["id"] == 3  # so the other one runs
    began = time.monotonic()
    process.stdout.close()  # nobody reads any more, so there is nothing to wait for
    process.stdin.close()
    assert process.wait(10) == 0
    assert time.monotonic() - began < 2
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()
    assert b"Traceback" not in errors
    found = [(record["tool"], record["outcome"]) for record in calls_in(file)]
    assert found == [("add", "ok"), ("add", "ok"), (tool, "disconnected")]
    assert open_log(file).verify().is_sound


# --- E6: a client that goes --------------------------------------------------------------------------


@pytest.fixture(scope="module", params=HTTP_STACKS)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Served, Path]]:
    file = tmp_path_factory.mktemp("audit") / "audit.db"
    with served(request.param, "--audit", str(file), "--places", "1") as server:
        with Peer(server.port) as peer:  # a log is there from the first call on
            peer.send(call("add", {"a": 1, "b": 2}))
            assert peer.read().status == 200
        yield server, file


REQUESTS = {
    "JSON": lambda tool, seconds: call(tool, {"seconds": seconds}),
    "SSE": lambda tool, seconds: call(tool, {"seconds": seconds}, progressToken=1),
    "2025": lambda tool, seconds: post(legacy(tool, {"seconds": seconds})),
}


@pytest.mark.parametrize("tool", [*TOOLS, "chatter"])
@pytest.mark.parametrize("way", REQUESTS)
async def test_e6_who_hangs_up_is_recorded_as_gone(place: tuple[Served, Path], way: str, tool: str) -> None:
    server, file = place
    sign = "child " if tool == "child" else f"{tool} begun"
    before, said = len(calls_in(file, tool)), server.log.count(sign)
    socket = await Socket.open(server.port)
    socket.writer.write(REQUESTS[way](tool, 20))
    if tool == "chatter" and way == "SSE":
        await socket.reader.readuntil(b"progressToken")
    else:
        await server.says(sign, said + 1)
    socket.abort()
    took = await until(lambda: len(calls_in(file, tool)) > before)
    assert took < 1
    record = calls_in(file, tool)[-1]
    assert (record["outcome"], record["code"]) == ("disconnected", None)
    assert record["duration_ms"] < 18_000


async def test_e6_the_place_of_a_thread_is_taken_until_it_ends(place: tuple[Served, Path]) -> None:
    server, file = place
    before = len(calls_in(file, "block"))
    seen = server.log.count("block saw that no caller waits")
    leaver = await Socket.open(server.port)
    leaver.writer.write(call("block", {"seconds": 20}))
    other = await Socket.open(server.port)

    async def ask_other() -> Any:
        return json.loads((await other.ask(call("block", {"seconds": 0.01})))[2])["result"]

    async with asyncio.timeout(5):
        while not (await ask_other())["isError"]:  # until the first has the one place there is
            pass
    leaver.abort()
    await until(lambda: server.log.count("block saw that no caller waits") > seen)
    async with asyncio.timeout(5):
        while (await ask_other())["isError"]:
            await asyncio.sleep(0.01)
    outcomes = Counter(record["outcome"] for record in calls_in(file, "block")[before:])
    assert outcomes["disconnected"] == 1
    assert outcomes["throttled"] >= 1
    assert outcomes["ok"] >= 1


async def test_e6_audit_query_finds_who_cancelled_and_who_left(place: tuple[Served, Path]) -> None:
    server, file = place
    socket = await Socket.open(server.port)
    begun = server.log.count("slow begun")
    socket.writer.write(call("slow", {"seconds": 20}))
    await server.says("slow begun", begun + 1)
    before = len(calls_in(file, "slow"))
    socket.abort()
    await until(lambda: len(calls_in(file, "slow")) > before)
    done = await asyncio.to_thread(
        fork_server.run,
        *(*COMMAND, "audit", "query", "--file", str(file), "--outcome", "cancelled", "--json"),
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert '"disconnected"' in done.stdout


# --- G10: a server that is told to end ---------------------------------------------------------------


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_g10_a_hundred_calls_under_way_end_and_are_on_the_record(
    http_stack: str, tmp_path: Path
) -> None:
    file = tmp_path / "audit.db"
    with served(http_stack, "--audit", str(file)) as server:
        sockets = [await Socket.open(server.port) for _ in range(100)]
        for socket in sockets:
            await socket.add()
        answers = [asyncio.ensure_future(socket.ask(call("slow", {"seconds": 1.0}))) for socket in sockets]
        await server.says("slow begun", 100)
        server.process.send_signal(signal.SIGTERM)
        for answer in answers:
            status, _, body = await answer
            assert (status, b"slept" in body) == (200, True)
        await asyncio.to_thread(server.process.wait, 10)
        assert "Traceback" not in server.log
    log = open_log(file)
    found = Counter((record["tool"], record["outcome"]) for record in calls_in(file))
    assert found == {("add", "ok"): 100, ("slow", "ok"): 100}
    kinds = [record["kind"] for record in log.records()]
    assert (kinds[0], kinds[-1]) == ("opened", "closed")
    verdict = log.verify()
    assert verdict.is_sound
    assert verdict.unsealed == 0


def test_g10_what_is_cut_off_in_the_end_is_on_the_record_too(tmp_path: Path) -> None:
    file = tmp_path / "audit.db"
    process = fork_server.launch(
        *(str(SCRIPT), "--stdio", "--audit", str(file)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}}
    lines = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}]
    lines += [{**legacy("slow", {"seconds": 30}), "id": number} for number in range(1, 51)]
    lines += [{**legacy("add", {"a": 1, "b": 2}), "id": 99}]
    process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    process.stdin.flush()
    for _ in range(2):
        assert process.stdout.readline()
    process.stdout.close()
    process.stdin.close()
    assert process.wait(10) == 0
    found = Counter((record["tool"], record["outcome"]) for record in calls_in(file))
    assert found == {("slow", "disconnected"): 50, ("add", "ok"): 1}
    assert open_log(file).verify().is_sound


@pytest.mark.parametrize("rounds", [3])
async def test_g10_who_was_answered_is_on_the_record_whatever_kills_the_server(
    rounds: int, tmp_path: Path
) -> None:
    file = tmp_path / "audit.db"
    answered = 0
    for _ in range(rounds):
        with served("own", "--audit", str(file)) as server:
            sockets = [await Socket.open(server.port) for _ in range(8)]
            counts = [0] * len(sockets)

            async def hammer(number: int, socket: Socket) -> None:
                try:
                    while True:
                        await socket.add()
                        counts[number] += 1  # noqa: B023
                except (OSError, asyncio.IncompleteReadError):
                    pass

            tasks = [asyncio.ensure_future(hammer(number, socket)) for number, socket in enumerate(sockets)]
            async with asyncio.timeout(10):
                while sum(counts) < 30:
                    await asyncio.sleep(0.005)
            server.process.kill()
            await asyncio.gather(*tasks)
            answered += sum(counts)
    with served("own", "--audit", str(file)) as server:  # puts right what the last kill has left
        await (await Socket.open(server.port)).add()
        answered += 1
    records = calls_in(file, "add")
    assert answered <= len(records) <= answered + 8 * rounds
    assert answered > 30 * rounds
    assert open_log(file).verify().is_sound
