"""Kept results: what is kept, for whom and for how long, and what is done on every call all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.audit_logs import records
from toolcrib import Context, MCPServer, Principal, ToolError, ToolNotFoundError, testing, tool
from toolcrib.content import Image, Result
from toolcrib.dispatch.result_cache import RESULTS, ResultCache
from toolcrib.errors import InvalidToolError
from toolcrib.policy import Audit, Limit, Policy, Rule

ANA, BO = Principal("key:ana"), Principal("key:bo")


class Counter:
    """Counts the calls of its tools that have run."""

    def __init__(self) -> None:
        self.runs = 0

    def count(self, value: Any = None) -> int:
        self.runs += 1
        return self.runs


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    """Begin with nothing that tests in other files have kept, and leave nothing for others."""
    _forget_all()
    yield
    _forget_all()


def _forget_all() -> None:
    for key in list(RESULTS._kept):
        RESULTS.forget(key[0])
    assert (len(RESULTS), RESULTS.bytes) == (0, 0)


async def call(server: MCPServer, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
    return (await server.call("count", arguments or {}, **options)).structured_content


@pytest.mark.parametrize("run", ["inline", "thread"])
async def test_the_same_arguments_run_once(run: Any) -> None:
    counter, server = Counter(), MCPServer()
    server.add(counter.count, cache_s=60, run=run)
    assert [await call(server, {"value": value}) for value in (1, 1, 2, 1, 2)] == [1, 1, 2, 1, 2]
    assert counter.runs == 2


async def test_the_key_is_what_the_tool_gets_and_not_how_it_was_sent() -> None:
    counter, server = Counter(), MCPServer()

    @server.tool(cache_s=60)
    async def count(number: int, text: str = "") -> int:
        return counter.count()

    sent: list[dict[str, Any]] = [{"number": 5, "text": "a"}, {"text": "a", "number": "5"}]
    assert [await call(server, item) for item in sent] == [1, 1]


async def test_each_principal_has_its_own_results_unless_they_are_shared() -> None:
    own, shared = Counter(), Counter()
    server, other = MCPServer(), MCPServer()
    server.add(own.count, cache_s=60)
    other.add(shared.count, cache_s=60, cache="shared")
    callers = (ANA, BO, ANA, Principal("key:ana", scopes=frozenset({"admin"})))
    assert [await call(server, principal=each) for each in callers] == [1, 2, 1, 3]
    assert [await call(other, principal=each) for each in callers] == [1, 1, 1, 1]


async def test_no_caller_can_change_the_result_of_others() -> None:
    server = MCPServer()

    @server.tool(cache_s=60)
    async def report() -> dict[str, list[int]]:
        return {"items": [1]}

    for _ in range(3):
        result = await server.call("report")
        assert result.structured_content == {"items": [1]}
        result.structured_content["items"].append(2)
        result.content.clear()


async def test_media_and_meta_are_kept_as_well() -> None:
    server = MCPServer()

    @server.tool(cache_s=60)
    async def chart() -> Result:
        return Result([Image(b"png").to_block()], meta={"a": 1})

    assert await server.call("chart") == await server.call("chart")


async def test_errors_are_not_kept() -> None:
    counter, server = Counter(), MCPServer()

    @server.tool(cache_s=60)
    async def count(kind: str) -> Any:
        number = counter.count()
        if kind == "error":
            raise ToolError("No.")
        return Result([], is_error=True) if kind == "result" else number

    for kind in ("error", "error", "result", "result"):
        assert (await server.call("count", {"kind": kind})).is_error
    assert counter.runs == 4


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_call_that_asked_is_not_kept(is_async: bool) -> None:
    server = MCPServer()

    if is_async:

        @server.tool(name="sure", cache_s=60)
        async def ask(ctx: Context) -> bool:
            return bool(await ctx.ask("sure", "Sure?"))
    else:

        @server.tool(name="sure", cache_s=60)
        def ask_on_a_thread(ctx: Context) -> bool:
            return bool(ctx.ask("sure", "Sure?"))

    for version in ("2026-07-28", "2025-06-18"):
        async with testing.connect(server, answers=[True, False], protocol=version) as client:
            answers = [(await client.call("sure")).text for _ in range(2)]
        assert answers == ["true", "false"]


async def test_results_are_dropped_by_name_by_function_and_all() -> None:
    counter, server = Counter(), MCPServer()

    @server.tool(cache_s=60, aliases=["number"])
    async def count() -> int:
        return counter.count()

    seen = []
    for named in ("count", "number", count, server.registry.get("count"), None):
        seen += [await call(server), await call(server)]
        server.forget(named)
        assert (len(RESULTS), RESULTS.bytes) == (0, 0)
    assert seen == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    with pytest.raises(ToolNotFoundError):
        server.forget("cuont")


async def test_forgetting_one_tool_keeps_those_of_others() -> None:
    server, other = MCPServer(), MCPServer()
    for each in (server, other):
        each.add(Counter().count, cache_s=60)
        assert await call(each) == 1
    server.forget("count")
    assert [await call(server), await call(other)] == [2, 1]


async def test_a_run_that_began_before_its_results_were_dropped_is_not_kept() -> None:
    server, gate = MCPServer(), asyncio.Event()
    stock = {"tea": 3}

    @server.tool(cache_s=60)
    async def count() -> int:
        found = stock["tea"]
        await gate.wait()
        return found

    reading = asyncio.create_task(call(server))
    await asyncio.sleep(0)
    stock["tea"] = 2
    server.forget("count")
    gate.set()
    assert [await reading, await call(server)] == [3, 2]


async def test_a_hit_is_judged_charged_and_recorded(tmp_path: Path) -> None:
    file = tmp_path / "audit.db"
    rules = [Rule(allow=["count"], who=["key:ana"])]
    policy = Policy(rules=rules, limits=[Limit(tools=["count"], rate="3/h")], audit=Audit(file=file))
    counter, server = Counter(), MCPServer(policy=policy)
    server.add(counter.count, cache_s=60, cache="shared")
    async with server:
        results = [await server.call("count", {}, principal=ANA) for _ in range(4)]
        with pytest.raises(ToolNotFoundError):
            await server.call("count", {}, principal=BO)
    assert [result.is_error for result in results] == [False, False, False, True]
    assert counter.runs == 1
    calls = [record for record in records(file) if record["kind"] == "call"]
    assert [(item["outcome"], item.get("cached")) for item in calls] == [
        ("ok", None),
        ("ok", True),
        ("ok", True),
        ("throttled", None),
        ("denied", None),
    ]


# --- the store ---------------------------------------------------------------------------------------


def test_a_result_is_kept_for_its_time_only() -> None:
    now = 0.0
    cache = ResultCache(now=lambda: now)
    key = ("tool", None, "1")
    cache.put(key, Result.of("1", 1), 60)
    now = 59.9
    assert cache.get(key) == Result.of("1", 1)
    now = 60.0
    assert cache.get(key) is None
    assert (len(cache), cache.bytes) == (0, 0)


def test_the_least_recently_used_results_go_first() -> None:
    cache = ResultCache(max_entries=3)
    for name in "abcad":
        key = (name, None, "")
        if cache.get(key) is None:
            cache.put(key, Result.of(name, name), 60)
    assert [name for name in "abcd" if cache.get((name, None, "")) is not None] == ["a", "c", "d"]


def test_all_results_together_stay_within_their_bytes() -> None:
    cache = ResultCache(max_bytes=1_000)
    for number in range(100):
        cache.put((number, None, ""), Result.of("x" * 200, None), 60)
        assert cache.bytes <= 1_000
    assert 1 <= len(cache) <= 4
    kept = len(cache)
    cache.put(("large", None, ""), Result.of("x" * 2_000, None), 60)
    assert (len(cache), cache.get(("large", None, ""))) == (kept, None)


# --- the options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"cache_s": 0}, "must be above 0"),
        ({"cache_s": "60"}, "must be a number"),
        ({"cache_s": 60, "cache": "all"}, "must be 'principal' or 'shared'"),
        ({"cache": "shared"}, "needs cache_s"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidToolError, match=problem):
        tool(**options)
