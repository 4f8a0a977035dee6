"""What the guard of calls tells to those who watch: figures, and warnings when tools change."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.support.guarded import ANA, Bench, open_bench
from toolcrib import Application, Tool, tool
from toolcrib.errors import ToolNotFoundError
from toolcrib.policy import Limit, Policy, Rule, Telemetry
from toolcrib.policy.enforcer import PolicyEnforcer


def figures_of(bench: Bench) -> list[str]:
    text: str = bench.enforcer.telemetry.exposition()[1].decode()
    return text.splitlines()


async def test_figures_count_every_end_by_tool_and_name_nobody(tmp_path: Path) -> None:
    rules = [Rule(deny=["pay"])]
    limits = [Limit(tools=["wait"], timeout_s=5, concurrency=3)]
    async with open_bench(
        tmp_path, rules=rules, limits=limits, telemetry=Telemetry(prometheus=True)
    ) as bench:
        await bench.server.call("add", {"a": 1}, principal=ANA)
        await bench.server.call("refuse", principal=ANA)
        await bench.server.call("wait", {"seconds": 0}, principal=ANA)
        for name in ("pay", "nothing", "nothing else"):
            with pytest.raises(ToolNotFoundError):
                await bench.server.call(name, {"amount": 1}, principal=ANA)
        lines = figures_of(bench)
    assert sorted(line for line in lines if line.startswith("toolcrib_calls_total{")) == [
        'toolcrib_calls_total{tool="",outcome="denied",code="unknown-tool"} 2',
        'toolcrib_calls_total{tool="add",outcome="ok",code=""} 1',
        'toolcrib_calls_total{tool="pay",outcome="denied",code="unknown-tool"} 1',
        'toolcrib_calls_total{tool="refuse",outcome="error",code="tool-error"} 1',
        'toolcrib_calls_total{tool="wait",outcome="ok",code=""} 1',
    ]
    assert "key:ana" not in "".join(lines)


async def test_figures_tell_of_gaps_in_the_record(tmp_path: Path) -> None:
    async with open_bench(tmp_path, telemetry=Telemetry(prometheus=True)) as bench:
        await bench.server.call("add", {"a": 1})
        assert "toolcrib_audit_gaps_total 0" in figures_of(bench)
    assert bench.outcomes() == ["ok"]


def test_what_means_nothing_is_said_once_and_again_when_it_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    enforcer = PolicyEnforcer(Policy(rules=[Rule(deny=["secret"])]))
    secret = Tool.from_function(lambda: "", name="secret", description="Tell.")
    for tools, said in (([], 1), ([], 1), ([secret], 1), ([], 2)):
        enforcer.warn_unmatched(tools)
        assert caplog.text.count("'secret' matches no tool") == said


@pytest.mark.parametrize("limits", [[], [Limit(concurrency=3)]], ids=["free", "limited"])
async def test_a_crash_has_one_id_for_its_caller_the_record_the_log_and_its_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, limits: list[Limit]
) -> None:
    caplog.set_level(logging.INFO, "toolcrib")
    async with open_bench(tmp_path, limits=limits) as bench:
        told = (await bench.server.call("crash", principal=ANA)).text
        assert bench.server.dispatcher.crashes.flush()
    [record] = bench.records()
    assert f"(reference {record['id']})" in told
    ids = [each.call_id for each in caplog.records if hasattr(each, "call_id")]
    assert ids == [record["id"]] * 2  # that it ended, and the report


class Shop(Application):
    """Never opens."""

    async def open(self) -> None:
        raise RuntimeError("no door")

    @tool
    def sell(self) -> str:
        """Sell something."""
        return "sold"


async def test_an_application_that_does_not_open_is_told_by_the_id_of_the_call(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.server.add(Shop("shop"))
    async with bench.server:
        told = (await bench.server.call("sell")).text
    assert f"(reference {bench.records()[-1]['id']})" in told
