"""A yes of a person whose client speaks an older revision: asked while the call waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.guarded import LIVE, NO, YES, Voice, open_bench
from toolcrib.policy import Limit, Rule

WIPE = {"what": "disk"}
RULES = [Rule(confirm=["wipe"])]
UNASKED = "Tool 'wipe' was not run: the person did not agree."


@pytest.mark.parametrize("version", LIVE)
async def test_an_older_client_is_asked_while_the_call_waits(tmp_path: Path, version: str) -> None:
    async with (
        open_bench(tmp_path, rules=RULES) as bench,
        Voice(bench.server, version, elicitation={}) as client,
    ):
        for answer, text in ((YES, "local wiped disk"), (NO, UNASKED), ({"action": "cancel"}, UNASKED)):
            reply = client.begin_call("wipe", WIPE)
            asked = await client.asked.get()
            assert asked["method"] == "elicitation/create"
            assert asked["params"]["message"] == "Run 'wipe' with these arguments?\n  what: disk"
            client.reply(asked["id"], answer)
            result = (await reply)["result"]
            assert result["content"][0]["text"] == text
            assert result["isError"] is (answer is not YES)
        client.reply(asked["id"], YES)  # nobody waits for it any more
        assert bench.runs["wipe"] == 1
    assert bench.outcomes() == ["ok", "denied", "denied"]


@pytest.mark.parametrize(
    ("version", "capabilities"), [("2025-11-25", {}), ("2025-03-26", {"elicitation": {}}), ("2024-11-05", {})]
)
async def test_an_older_client_that_cannot_be_asked_gets_no_run(
    tmp_path: Path, version: str, capabilities: Any
) -> None:
    async with (
        open_bench(tmp_path, rules=RULES) as bench,
        Voice(bench.server, version, **capabilities) as client,
    ):
        result = (await client.call("wipe", WIPE))["result"]
        assert result["isError"] is True
        assert "nobody can be asked" in result["content"][0]["text"]
        assert result["_meta"]["toolcrib/refusal"]["code"] == "not-confirmed"
        assert bench.runs["wipe"] == 0
    assert bench.outcomes() == ["denied"]


async def test_an_answer_that_is_none_is_no_yes(tmp_path: Path) -> None:
    async with (
        open_bench(tmp_path, rules=RULES) as bench,
        Voice(bench.server, "2025-11-25", elicitation={}) as client,
    ):
        for answer in ({"action": "maybe"}, [], None, {"action": "accept", "content": []}):
            reply = client.begin_call("wipe", WIPE)
            client.reply((await client.asked.get())["id"], answer)
            assert (await reply)["result"]["_meta"]["toolcrib/refusal"]["code"] == "not-confirmed"
        assert bench.runs["wipe"] == 0


@pytest.mark.parametrize("version", LIVE)
async def test_the_place_is_free_while_a_person_thinks(tmp_path: Path, version: str) -> None:
    limits = [Limit(concurrency=1, per="all")]
    async with (
        open_bench(tmp_path, rules=RULES, limits=limits) as bench,
        Voice(bench.server, version, elicitation={}) as client,
    ):
        thinking = client.begin_call("wipe", WIPE)
        asked = await client.asked.get()
        assert await client.text("add", {"a": 1}) == "2"
        waiting = client.begin_call("wait", {"seconds": 0.01})
        client.reply(asked["id"], YES)
        assert (await thinking)["result"]["content"][0]["text"] == "local wiped disk"
        assert (await waiting)["result"]["content"][0]["text"] == "waited"
        assert await client.text("add", {"a": 2}) == "3"


async def test_who_leaves_while_asked_leaves_nothing_behind(tmp_path: Path) -> None:
    limits = [Limit(concurrency=1, per="all"), Limit(daily=2, tools=["wipe"], per="all")]
    async with open_bench(tmp_path, rules=RULES, limits=limits) as bench:
        for _ in range(5):  # a budget is given back where the tool never ran
            async with Voice(bench.server, "2025-11-25", elicitation={}) as client:
                client.begin_call("wipe", WIPE)
                await client.asked.get()
        async with Voice(bench.server) as other:
            assert await other.text("add", {"a": 1}) == "2"
        assert bench.runs["wipe"] == 0
    assert bench.outcomes() == ["disconnected"] * 5 + ["ok"]


async def test_a_cancelled_confirmation_ends_the_call(tmp_path: Path) -> None:
    async with (
        open_bench(tmp_path, rules=RULES) as bench,
        Voice(bench.server, "2025-11-25", elicitation={}) as client,
    ):
        client.begin_call("wipe", WIPE, id_="doubt")
        asked = await client.asked.get()
        client.cancel("doubt")
        client.reply(asked["id"], YES)
        assert await client.text("add", {"a": 1}) == "2"
        assert bench.runs["wipe"] == 0
    assert sorted(bench.outcomes()) == ["cancelled", "ok"]
