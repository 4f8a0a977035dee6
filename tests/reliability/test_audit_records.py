"""One record per call, whatever its end, on every transport; a seeded crowd of calls leaves none out.

The crowd is 5,000 calls every day and a million in the soak.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.http_servers import HTTP_STACKS, serving
from tests.support.servers.key_server import Keyed, Ring, call_modern, make_shop
from tests.support.servers.policy_server import (
    ANA,
    CONFIRM,
    LIVE,
    MODERN,
    YES,
    Bench,
    Voice,
    open_bench,
    until,
)
from toolcrib.context import LOCAL, Principal
from toolcrib.policy import Audit, Limit, Rule
from toolcrib.policy.audit import open_log

pytestmark = pytest.mark.row("H2")

IS_LONG = bool(os.environ.get("TOOLCRIB_SOAK"))
CALLS = 1_000_000 if IS_LONG else 5_000
SEED = int(os.environ.get("TOOLCRIB_SEED", "61"))
BOUNDS = [
    Limit(tools=["long"], max_result_bytes=1000),
    Limit(tools=["wipe"], max_arguments_bytes=200),
    Limit(tools=["greet"], who=["key:hasty"], rate="1/h"),
    Limit(tools=["greet"], who=["key:poor"], daily=1),
    Limit(tools=["block"], concurrency=1, per="all"),
]
RULES = [
    Rule(deny=["order"], who=["key:ben"]),
    Rule(deny=["pay"], when={"amount": {"above": 100}}),
    Rule(confirm=["wipe"]),
]


class Lines(logging.Filter):
    """The ids of calls that the log has told of, and how they ended. Nobody else gets the lines: anyone who
    kept millions of them would have the collector stop the world for seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[tuple[str, str]] = []

    def filter(self, record: logging.LogRecord) -> bool:
        if hasattr(record, "call_id"):
            self.ends.append((record.call_id, record.outcome))  # type: ignore[attr-defined]
        return record.levelno > logging.INFO


@pytest.fixture
def lines() -> Iterator[Lines]:
    logger = logging.getLogger("toolcrib")
    lines, level = Lines(), logger.level
    logger.addFilter(lines)
    logger.setLevel(logging.INFO)
    yield lines
    logger.setLevel(level)
    logger.removeFilter(lines)


ENDS: dict[str, tuple[Principal, str, dict[str, Any], str, str | None]] = {
    "ok, on the loop": (ANA, "add", {"a": 1}, "ok", None),
    "ok, in a task": (ANA, "wait", {"seconds": 0}, "ok", None),
    "ok, in a process": (ANA, "sleep_apart", {}, "ok", None),
    "an error of the tool": (ANA, "refuse", {}, "error", "tool-error"),
    "arguments that are wrong": (ANA, "add", {"a": "x"}, "error", "invalid-arguments"),
    "a crash": (ANA, "crash", {}, "crashed", "crashed"),
    "too late": (ANA, "late", {}, "timeout", "timeout"),
    "denied by a rule": (Principal("key:ben"), "order", {"item": "x"}, "denied", "unknown-tool"),
    "no such tool": (ANA, "nothing", {}, "denied", "unknown-tool"),
    "a scope is missing": (ANA, "order", {"item": "x"}, "denied", "insufficient-scope"),
    "denied for its arguments": (ANA, "pay", {"amount": 101}, "denied", "denied"),
    "arguments too long": (ANA, "wipe", {"what": "x" * 300}, "throttled", "throttled"),
    "a result too long": (ANA, "long", {"size": 1001}, "error", "invalid-result"),
    "a question": (ANA, "wipe", {"what": "x"}, "input_required", None),
    "a question of the tool": (ANA, "greet", {}, "input_required", None),
}


@pytest.mark.parametrize("end", ENDS)
async def test_every_end_is_one_record_and_one_line(tmp_path: Path, lines: Lines, end: str) -> None:
    principal, tool, arguments, outcome, code = ENDS[end]
    async with (
        open_bench(tmp_path, rules=RULES, limits=BOUNDS) as bench,
        Voice(bench.server, principal=principal, elicitation={}) as client,
    ):
        await client.call(tool, arguments, id_="the-call")
    [record] = bench.records()
    assert (record["outcome"], record["code"], record["request"]) == (outcome, code, "the-call")
    assert (record["principal"], record["tool"]) == (principal.name, tool)
    assert lines.ends == [(record["id"], outcome)]
    intents = [item["id"] for item in bench.records("intent")]
    assert intents == ([record["id"]] if tool == "pay" else [])


@pytest.mark.parametrize("who", ["hasty", "poor"])
async def test_every_refusal_of_a_limit_is_one_record(tmp_path: Path, who: str) -> None:
    principal = Principal(f"key:{who}")
    async with (
        open_bench(tmp_path, limits=BOUNDS) as bench,
        Voice(bench.server, principal=principal, elicitation={}) as client,
    ):
        state = await client.state("greet")
        for _ in range(3):
            assert "toolcrib/refusal" in (await client.call("greet"))["result"]["_meta"]
        told = {"who": {"action": "accept", "content": {"name": "Ada"}}}
        assert await client.text("greet", requestState=state, inputResponses=told) == "Hello, Ada!"
    assert bench.outcomes() == ["input_required", *["throttled"] * 3, "ok"]


async def test_places_that_are_taken_and_tools_that_are_busy(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=BOUNDS) as bench, Voice(bench.server) as client:
        first = client.begin_call("block")
        await until(bench.entered.is_set)
        assert (await client.call("block"))["result"]["isError"] is True
        slots = bench.server.dispatcher._plan("refuse", LOCAL).slots
        slots.max_threads, slots.max_queue = 0, 0
        assert "busy" in await client.text("refuse")
        bench.release.set()
        await first
    found = [(item["tool"], item["outcome"], item["code"]) for item in bench.records()]
    assert found == [
        ("block", "throttled", "throttled"),
        ("refuse", "throttled", "busy"),
        ("block", "ok", None),
    ]


@pytest.mark.parametrize("tool", ["wait", "block", "sleep_apart"])
@pytest.mark.parametrize("way", ["cancelled", "disconnected"])
@pytest.mark.parametrize("version", [MODERN, LIVE[-1]])
async def test_anyone_who_cancels_and_who_leaves_are_told_apart(
    tmp_path: Path, tool: str, way: str, version: str
) -> None:
    arguments = {} if tool == "block" else {"seconds": 30}
    async with open_bench(tmp_path) as bench:
        client = await Voice(bench.server, version).__aenter__()
        client.begin_call(tool, arguments, id_="gone")
        if tool == "sleep_apart":
            await until(lambda: bench.server.transports.engine.running == 1)
        else:
            await until(bench.entered.is_set)
        if way == "cancelled":
            client.cancel("gone")
            await until(lambda: not bench.server.transports.engine.running)
        await client.close()
        bench.release.set()
    [record] = bench.records()
    assert (record["outcome"], record["code"]) == (way, None)
    assert record["result_bytes"] is None
    log = open_log(bench.file)
    assert len(list(log.records(outcome={"cancelled", "disconnected"}))) == 1


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_over_http_every_answer_has_its_record(http_stack: str, tmp_path: Path) -> None:
    ring = Ring(tmp_path)
    ring.make("ana")
    rules = [Rule(deny=["audit_log"]), Rule(confirm=["steps"])]
    file = tmp_path / "audit.db"
    limits = [Limit(tools=["ask"], daily=1)]
    server = make_shop(ring, rules=rules, audit=Audit(file), limits=limits)
    expected: list[str] = []
    with serving(http_stack, server) as shop:
        key = ring["ana"]
        for name, arguments, outcome in (
            ("whoami", {}, "ok"),
            ("whoami", {"x": 1}, "error"),
            ("audit_log", {}, "denied"),
            ("nothing", {}, "denied"),
            ("refund", {"amount": 1}, "denied"),
            ("steps", {}, "input_required"),
            ("ask", {}, "input_required"),
            ("ask", {}, "throttled"),
        ):
            call_modern(shop, key, name, arguments)
            expected.append(outcome)
        for version in ("2025-11-25", "2025-03-26"):
            client = Keyed(shop.port, key, version)
            client.initialize()
            for name, outcome in (("whoami", "ok"), ("audit_log", "denied"), ("refund", "error")):
                client.call(name).messages()
                expected.append("denied" if name == "refund" else outcome)
            client.end()
        call_modern(shop, None, "whoami")  # who is not let in has called nothing
        call_modern(shop, "wrong", "whoami")
    records = [item for item in open_log(file).records() if item["kind"] == "call"]
    assert [item["outcome"] for item in records] == expected
    assert {item["principal"] for item in records} == {"key:ana"}
    assert open_log(file).verify().is_sound


# --- a crowd -----------------------------------------------------------------------------------------


class Crowd:
    """Clients that call at random, and what each call must have come to on the record."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.random = random.Random(seed)
        self.expected: dict[str, set[str]] = {}
        self.required: set[str] = set()
        self.number = 0

    async def run(self, calls: int, clients: int = 50) -> None:
        share = calls // clients
        await asyncio.gather(*(self._live(number, share) for number in range(clients)))

    async def _live(self, number: int, calls: int) -> None:
        version = self.random.choice((MODERN, *LIVE))
        names = ("key:ana", "key:ben", "key:hasty")
        client = Voice(self.bench.server, version, Principal(names[number % 3]), elicitation={})
        await client.__aenter__()
        for step in range(calls):
            self.number += 1
            await self._call(client, f"{number}-{step}", names[number % 3], version)
        if self.random.random() < 0.5:  # and some go without a word
            id_ = f"{number}-last"
            client.begin_call("wait", {"seconds": 60}, id_=id_)
            self.expected[id_] = {"disconnected"}
        await client.close()

    async def _call(self, client: Voice, id_: str, who: str, version: str) -> None:
        kind = self.random.choice(
            ("ok", "ok", "ok", "bad", "unknown", "scope", "rule", "intent", "cancel", "long", "ask", "refuse")
        )
        if kind == "cancel":
            reply = client.begin_call("wait", {"seconds": 60}, id_=id_)
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(0)
            client.cancel(id_)
            self.expected[id_] = {"cancelled"}
            assert not reply.done()
            return
        tool, arguments, outcome = {
            "ok": ("add", {"a": 1}, "ok"),
            "bad": ("add", {"a": []}, "error"),
            "unknown": ("nothing", {}, "denied"),
            "scope": ("order", {"item": "x"}, "denied"),
            "rule": ("pay", {"amount": 101}, "denied"),
            "intent": ("pay", {"amount": 1}, "ok"),
            "long": ("long", {"size": 1001}, "error"),
            "ask": ("wipe", {"what": "x"}, "input_required"),
            "refuse": ("refuse", {}, "error"),
        }[kind]
        reply = client.begin_call(tool, arguments, id_=id_)
        if kind == "ask" and version != MODERN:
            outcome = self.random.choice(("ok", "denied"))
            asked = await client.asked.get()
            client.reply(asked["id"], YES if outcome == "ok" else {"action": "decline"})
        if tool == "pay":
            self.required.add(id_)
        self.expected[id_] = {outcome}
        message = await reply
        if kind == "ask" and version == MODERN:
            self.number += 1
            state = message["result"]["requestState"]
            more = {"requestState": state, "inputResponses": {CONFIRM: YES}}
            await client.call("wipe", {"what": "x"}, id_=f"{id_}-again", **more)
            self.expected[f"{id_}-again"] = {"ok"}


async def test_of_a_crowd_of_calls_none_is_missing_and_none_is_there_twice(
    tmp_path: Path, lines: Lines
) -> None:
    # A disk that is slow for once is not the matter here.
    async with open_bench(tmp_path, rules=RULES, limits=BOUNDS, wait_s=60.0) as bench:
        crowd = Crowd(bench, SEED)
        await crowd.run(CALLS)
        assert bench.enforcer.audit.gaps == 0
    records, intents = bench.records(), bench.records("intent")
    found = Counter(item["request"] for item in records)
    assert not set(crowd.expected) - set(found), "missing"
    assert not set(found) - set(crowd.expected), "never made"
    assert not [id_ for id_, count in found.items() if count != 1], "twice"
    wrong = {
        item["request"]: item["outcome"]
        for item in records
        if item["outcome"] not in crowd.expected[item["request"]]
    }
    assert not wrong, f"seed {SEED}"
    assert Counter(item["request"] for item in intents) == dict.fromkeys(crowd.required, 1)
    assert sorted(lines.ends) == sorted((item["id"], item["outcome"]) for item in records)
    assert len({item["id"] for item in records}) == len(records)
    assert open_log(bench.file).verify().is_sound
    engine = bench.server.transports.engine
    assert (engine.running, bench.server.dispatcher.runner.abandoned) == (0, 0)
