"""Calls that come again, and calls that never come in: what they cost, and what is on the record."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.guarded import CONFIRM, YES, Voice, open_bench
from toolcrib.policy import Limit, Rule

ADA = {"who": {"action": "accept", "content": {"name": "Ada"}}}
ONCE = [Limit(tools=["greet"], rate="1/h", per="all")]


async def test_a_call_that_comes_back_with_its_answer_is_not_counted_again(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=ONCE) as bench, Voice(bench.server, elicitation={}) as client:
        state = await client.state("greet")
        assert await client.text("greet", requestState=state, inputResponses=ADA) == "Hello, Ada!"
        assert (await client.text("greet")).startswith("Too many calls of 'greet'")


async def test_coming_back_without_an_answer_is_a_call_like_others(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=ONCE) as bench, Voice(bench.server, elicitation={}) as client:
        state = await client.state("greet")
        again = await client.state("greet", requestState=state)  # the question was new when it was put
        for more in ({}, {"inputResponses": {"who": "nonsense"}}, {"inputResponses": ADA}):
            assert (await client.text("greet", requestState=again, **more)).startswith("Too many calls")
        assert (await client.text("greet", requestState=state)).startswith("Too many calls")
        assert bench.runs["greet"] == 2


async def test_one_yes_is_not_for_every_run_of_a_tool_that_asks(tmp_path: Path) -> None:
    rules = [Rule(confirm=["greet"])]
    async with open_bench(tmp_path, rules=rules) as bench, Voice(bench.server, elicitation={}) as client:
        state = await client.state("greet")
        state = await client.state("greet", requestState=state, inputResponses={CONFIRM: YES})
        for _ in range(20):
            reply = await client.call("greet", requestState=state, inputResponses={})
            state = reply["result"]["requestState"]
        assert bench.runs["greet"] <= 2
        assert list(reply["result"]["inputRequests"]) == [CONFIRM]


async def test_a_call_that_gives_up_before_there_is_room_is_on_the_record(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench, Voice(bench.server) as client:
        gate = bench.server.wiring.engine.gate
        gate.max_running, gate.max_waiting = 1, 1
        running = client.begin_call("wait", {"seconds": 30})
        await asyncio.to_thread(bench.entered.wait, 5)
        client.begin_call("add", {"a": 1}, id_="queued")
        await asyncio.sleep(0)
        refused = await client.call("add", {"a": 2})
        assert refused["error"]["message"] == "Too many calls: try again later"
        client.cancel("queued")
        client.cancel(1)
        await asyncio.wait([running], timeout=0.1)
    found = [(item["tool"], item["outcome"], item["code"], item["decision"]) for item in bench.records()]
    assert ("add", "throttled", "busy", "unheard") in found
    assert ("add", "cancelled", None, "unheard") in found
    assert ("wait", "cancelled", None, "allowed") in found
    assert len(found) == 3
