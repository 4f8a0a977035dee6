"""The order of a call under a policy, tested with the real parts."""

from __future__ import annotations

import logging
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.policy_server import (
    ANA,
    BEN,
    CONFIRM,
    LIVE,
    MODERN,
    YES,
    Bench,
    Voice,
    open_bench,
    until,
)
from toolcrib import Application, MCPServer, Result, Tool, tool
from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError, InvalidResultError, ToolNotFoundError
from toolcrib.policy import Audit, Limit, Policy, Rule, Telemetry
from toolcrib.policy.audit import log
from toolcrib.policy.enforcer import PolicyEnforcer
from toolcrib.protocol.calls import MAX_RUNNING
from toolcrib.state.memory import MemoryCounters

WRITER = Principal("key:ana", frozenset({"orders:write"}))
REVISIONS = ("2024-11-05", "2025-03-26", *LIVE, MODERN)


def refusal_of(result: Result) -> Any:
    return (result.meta or {}).get("toolcrib/refusal")


# --- 1: access decides about caller and tool ---------------------------------------------------------


async def test_what_is_denied_is_unknown_and_costs_nothing(tmp_path: Path) -> None:
    rules = [Rule(deny=["add"], who=["key:ben"], name="no ben")]
    async with open_bench(tmp_path, rules=rules, limits=[Limit(daily=1, per="all")]) as bench:
        for _ in range(3):
            with pytest.raises(ToolNotFoundError, match=r"^Unknown tool: add$"):
                await bench.server.call("add", {"a": 1}, principal=BEN)
        assert (await bench.server.call("add", {"a": 1}, principal=ANA)).structured_content == 2
        assert bench.runs["add"] == 1
    *denied, allowed = bench.records()
    facts = ("principal", "tool", "decision", "outcome", "code", "rule")
    assert {tuple(record[fact] for fact in facts) for record in denied} == {
        ("key:ben", "add", "denied", "denied", "unknown-tool", 'rule 1 "no ben"')
    }
    assert len(denied) == 3
    assert tuple(allowed[fact] for fact in facts) == ("key:ana", "add", "allowed", "ok", None, "default")


async def test_a_tool_that_is_not_there_is_on_the_record_too(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        with pytest.raises(ToolNotFoundError):
            await bench.server.call("nothing", {"a": 1}, principal=ANA)
    [record] = bench.records()
    assert record["tool"] == "nothing"
    assert (record["decision"], record["outcome"], record["code"]) == ("unknown", "denied", "unknown-tool")
    assert record["definition"] is None
    assert record["version"] is None
    assert record["rule"] is None
    assert record["result_bytes"] is None
    assert record["arguments_bytes"] == len('{"a":1}')


@pytest.mark.parametrize("version", REVISIONS)
@pytest.mark.parametrize("spelling", ["add", "plus", "ADD", "Add", "add@1", "bench_add", "add "])
async def test_denied_and_absent_are_the_same_bytes(tmp_path: Path, version: str, spelling: str) -> None:
    """One server where the tool is denied, one where there is none: nobody can tell which is which."""
    denied = Bench(tmp_path, audit=False, rules=[Rule(deny=["add"])])
    absent = MCPServer("bench", version="1.0.0")

    @absent.tool
    def other() -> str:
        """Something else."""
        return ""

    heard = []
    async with denied.server, absent:
        for server in (denied.server, absent):
            async with Voice(server, version, principal=ANA) as client:
                for arguments in ({"a": 1}, {"a": "no number"}, {}):
                    await client.call(spelling, arguments)
            heard.append(client.heard)
    assert heard[0] == heard[1]
    assert b"Unknown tool: " + spelling.encode() in heard[0][-1]
    assert not denied.runs


async def test_the_list_and_the_call_agree(tmp_path: Path) -> None:
    rules = [Rule(allow=["add", "order"]), Rule(allow=["wipe"], who=["key:ana"])]
    async with open_bench(tmp_path, rules=rules) as bench:
        for who, expected in ((ANA, ["add", "wipe", "order"]), (BEN, ["add", "order"])):
            async with Voice(bench.server, principal=who) as client:
                assert await client.names() == expected
            assert [tool.name for tool in bench.server.list_tools(who)] == expected


async def test_the_search_pair_finds_and_calls_only_what_its_caller_may(tmp_path: Path) -> None:
    bench = Bench(tmp_path, rules=[Rule(deny=["wipe"], who=["key:ben"])])
    bench.server.publish_search("always")
    async with (
        bench.server,
        Voice(bench.server, principal=ANA) as ana,
        Voice(bench.server, principal=BEN) as ben,
    ):
        assert await ana.names() == await ben.names() == ["search_tools", "call_tool"]
        wipe = {"name": "wipe", "arguments": {"what": "disk"}}
        assert await ana.text("call_tool", wipe) == "key:ana wiped disk"
        denied = await ben.text("call_tool", wipe)
        absent = await ben.text("call_tool", {**wipe, "name": "wibe"})
        assert denied.replace("wipe", "wibe") == absent
        assert "'wipe'" in denied
        for query in ("wipe", "wipe something"):
            assert '"wipe"' in await ana.text("search_tools", {"query": query})
            assert '"name":"wipe"' not in await ben.text("search_tools", {"query": query})
        assert bench.runs["wipe"] == 1
    assert bench.outcomes().count("ok") == 5


async def test_the_search_pair_needs_no_rule_that_allows_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, audit=False, rules=[Rule(allow=["add"])])
    bench.server.publish_search("always")
    async with bench.server, Voice(bench.server, principal=ANA) as client:
        assert await client.text("call_tool", {"name": "add", "arguments": {"a": 1}}) == "2"
        assert '"add"' in await client.text("search_tools", {"query": "add numbers"})


async def test_whoever_lacks_a_scope_is_told_which_and_nothing_is_counted(tmp_path: Path) -> None:
    async with open_bench(
        tmp_path, scopes={"orders:admin": ["order"]}, limits=[Limit(daily=1, per="all")]
    ) as bench:
        result = await bench.server.call("order", {"item": "ink"}, principal=WRITER)
        assert result.is_error
        assert refusal_of(result) == {"code": "insufficient-scope", "scopes": ["orders:admin"]}
        assert result.content[0]["text"] == (
            "Tool 'order' requires a scope that you do not have: orders:admin"
        )
        both = Principal("key:ana", frozenset({"orders:write", "orders:admin"}))
        assert not (await bench.server.call("order", {"item": "ink"}, principal=both)).is_error
        assert bench.runs["order"] == 1
    lacking, granted = bench.records()
    assert (lacking["decision"], lacking["outcome"]) == ("denied", "denied")
    assert lacking["code"] == "insufficient-scope"
    assert (granted["decision"], granted["outcome"]) == ("allowed", "ok")


async def test_what_is_refused_keeps_nothing_of_the_call_alive(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=[Limit(daily=1, per="all")]) as bench:
        await bench.server.call("add", {"a": 1})
        result = await bench.server.call("add", {"a": 1})
        assert result.error is not None
        assert result.error.__traceback__ is None


async def test_over_a_pipe_a_missing_scope_is_a_result_that_machines_can_read(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        for version in (MODERN, *LIVE):
            async with Voice(bench.server, version, principal=ANA) as client:
                result = (await client.call("order", {"item": "ink"}))["result"]
            assert result["isError"] is True
            assert result["_meta"]["toolcrib/refusal"] == {
                "code": "insufficient-scope",
                "scopes": ["orders:write"],
            }


# --- 2: quota lets it in -----------------------------------------------------------------------------


async def test_an_attempt_with_bad_arguments_takes_part_in_the_rate_but_not_in_the_budget(
    tmp_path: Path,
) -> None:
    limits = [Limit(rate="3/h", per="all", name="rate"), Limit(daily=1, per="all", name="day")]
    async with open_bench(tmp_path, limits=limits) as bench:
        for _ in range(2):
            assert (await bench.server.call("add", {"a": "x"})).error.code == "invalid-arguments"  # type: ignore[union-attr]
        assert not (await bench.server.call("add", {"a": 1})).is_error
        result = await bench.server.call("add", {"a": 1})
        assert refusal_of(result)["code"] == "throttled"
        assert refusal_of(result)["retryAfterS"] > 0
    assert bench.outcomes() == ["error", "error", "ok", "throttled"]
    assert bench.records()[-1]["decision"] == "denied"


async def test_what_is_denied_for_its_arguments_gives_its_budget_back(tmp_path: Path) -> None:
    rules = [Rule(deny=["pay"], when={"amount": {"above": 100}}, because="Too much.", name="cap")]
    async with open_bench(tmp_path, rules=rules, limits=[Limit(daily=1, tools=["pay"])]) as bench:
        for _ in range(3):
            result = await bench.server.call("pay", {"amount": 101})
            assert result.content[0]["text"] == (
                "Tool 'pay' may not be called with these arguments: Too much."
            )
            assert refusal_of(result) == {"code": "denied"}
        assert (await bench.server.call("pay", {"amount": 100})).content[0]["text"] == "paid 100"
        assert refusal_of(await bench.server.call("pay", {"amount": 1}))["limit"] == "limits[1]"
    found = [(item["decision"], item["outcome"], item["rule"]) for item in bench.records()]
    assert found[:4] == [("denied", "denied", 'rule 1 "cap"')] * 3 + [("allowed", "ok", "default")]


async def test_a_record_names_the_limit_or_the_scope_that_refused_and_no_rule_that_was_not_asked(
    tmp_path: Path,
) -> None:
    rules = [Rule(allow=["*"], when={"amount": {"at_most": 100}}), Rule(allow=["add"])]
    limits = [Limit(daily=1, tools=["add"], name="once")]
    async with open_bench(
        tmp_path, rules=rules, limits=limits, scopes={"money": ["pay"]}, local_scopes=["money"]
    ) as bench:
        await bench.server.call("add", {"a": 1}, principal=ANA)
        await bench.server.call("add", {"a": 1}, principal=ANA)
        await bench.server.call("pay", {"amount": 1}, principal=ANA)
        await bench.server.call("pay", {"amount": "x"})
    assert [(record["code"], record["rule"]) for record in bench.records()] == [
        (None, "rule 2"),
        ("throttled", "limit once"),
        ("insufficient-scope", "scope money"),
        ("invalid-arguments", None),
    ]


async def test_a_rule_without_a_reason_says_none(tmp_path: Path) -> None:
    rules = [Rule(deny=["pay"], when={"amount": {"above": 100}})]
    async with open_bench(tmp_path, rules=rules) as bench:
        result = await bench.server.call("pay", {"amount": 101})
    assert result.content[0]["text"] == "Tool 'pay' may not be called with these arguments."


async def test_rules_judge_arguments_after_they_were_repaired(tmp_path: Path) -> None:
    rules = [Rule(deny=["pay"], when={"amount": {"above": 100}})]
    async with open_bench(tmp_path, rules=rules) as bench:
        assert (await bench.server.call("pay", {"amount": "101"})).is_error
        assert bench.runs["pay"] == 0


async def test_the_shortest_time_limit_holds(tmp_path: Path) -> None:
    limits = [Limit(timeout_s=0.02, tools=["wait"]), Limit(timeout_s=30)]
    async with open_bench(tmp_path, limits=limits) as bench:
        result = await bench.server.call("wait", timeout_s=20)
        assert "did not finish within 0.02 s" in result.content[0]["text"]
        assert (await bench.server.call("wait", {"seconds": 0})).content[0]["text"] == "waited"
    assert bench.outcomes() == ["timeout", "ok"]


async def test_a_result_may_be_as_long_as_is_allowed_and_no_longer(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=[Limit(max_result_bytes=1000, tools=["long"])]) as bench:
        assert not (await bench.server.call("long", {"size": 1000})).is_error
        result = await bench.server.call("long", {"size": 1001})
        assert isinstance(result.error, InvalidResultError)
        assert result.content == [
            {
                "type": "text",
                "text": "The result of tool 'long' exceeds the limit of 1000 bytes.",
            }
        ]
    assert [(item["outcome"], item["code"]) for item in bench.records()] == [
        ("ok", None),
        ("error", "invalid-result"),
    ]


async def test_what_toolcrib_says_of_a_failure_is_not_too_long(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=[Limit(max_result_bytes=5)]) as bench:
        result = await bench.server.call("add", {"a": []})
        assert result.error is not None
        assert result.error.code == "invalid-arguments"
        assert "a" in result.content[0]["text"]


# --- 3 and 7: on the record --------------------------------------------------------------------------


async def test_a_record_that_is_required_is_there_before_the_tool_runs(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        assert not (await bench.server.call("pay", {"amount": 5})).is_error
    intent, record = bench.records("intent", "call")
    assert (intent["kind"], record["kind"]) == ("intent", "call")
    assert intent["seq"] < record["seq"]
    same = ("id", "principal", "tool", "definition", "arguments_digest", "arguments_bytes", "request")
    assert [intent[fact] for fact in same] == [record[fact] for fact in same]
    assert "outcome" not in intent
    assert record["outcome"] == "ok"


async def test_a_record_says_how_long_and_how_large(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench, Voice(bench.server, principal=ANA) as client:
        await client.call("wait", {"seconds": 0.05}, id_=77)
    [record] = bench.records()
    assert 50 <= record["duration_ms"] < 5000
    assert record["result_bytes"] == len("waited")
    assert record["request"] == 77
    assert record["arguments_bytes"] == len('{"seconds":0.05}')
    assert record["definition"] == bench.server.registry.get("wait").definition.fingerprint


# --- a guard by itself -------------------------------------------------------------------------------


async def test_a_policy_that_demands_nothing_makes_no_file_and_no_record(tmp_path: Path) -> None:
    async with open_bench(tmp_path, audit=False) as bench:
        assert not (await bench.server.call("add", {"a": 1})).is_error
        assert bench.enforcer.audit is None
        assert bench.enforcer.telemetry is None
    assert os.listdir(tmp_path) == []


def test_what_means_no_tool_is_wrong_and_all_of_it_is_told() -> None:
    rules = [Rule(deny=["nothing"])]
    enforcer = PolicyEnforcer(Policy(rules=rules, limits=[Limit(rate="1/s", tools=["nobody"])]))
    assert [error.key for error in enforcer.check([])] == ["rules[1].deny", "limits[1].tools"]


def test_a_pattern_of_the_audit_that_cannot_be_read_is_told_with_its_place(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.db", redact=["re:("])
    with pytest.raises(ConfigurationError) as caught:
        PolicyEnforcer(Policy(audit=audit, file="toolcrib.toml", lines={"audit.redact": 7}))
    assert str(caught.value).startswith("toolcrib.toml:7: audit.redact: ")


async def test_a_server_with_a_rule_about_nothing_does_not_start(tmp_path: Path) -> None:
    bench = Bench(tmp_path, audit=False, rules=[Rule(deny=["nothing"])])
    with pytest.raises(ConfigurationError, match="'nothing' matches no tool"):
        await bench.server.start()


async def test_a_server_that_will_get_its_tools_later_starts_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = MCPServer("later", dynamic=True, policy=Policy(rules=[Rule(deny=["secret"])]))
    async with server:
        assert "'secret' matches no tool" in caplog.text

        @server.tool
        def secret() -> str:
            """Tell."""
            return "told"

        with pytest.raises(ToolNotFoundError):
            await server.call("secret")
        assert server.list_tools() == []


async def test_a_policy_comes_before_the_server_runs(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        with pytest.raises(ConfigurationError, match="before the server starts"):
            bench.server.enforce(Policy())


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


async def test_a_call_that_is_refused_for_want_of_room_is_recorded(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench, Voice(bench.server) as client:
        engine = bench.server.transports.engine
        engine.running += MAX_RUNNING
        refused = await client.call("add", {"a": 2})
        assert refused["error"]["message"] == "Too many calls: try again later"
        assert (await client.ask("resources/read", {"uri": "x://y"}))["error"]["code"] == -32603
        engine.running -= MAX_RUNNING
        await client.call("add", {"a": 1})
    found = [(item["tool"], item["outcome"], item["code"], item["decision"]) for item in bench.records()]
    assert found == [
        ("add", "throttled", "busy", "overloaded"),
        ("resource:x://y", "throttled", "busy", "overloaded"),
        ("add", "ok", None, "allowed"),
    ]


def metrics_lines(bench: Bench) -> list[str]:
    text: str = bench.enforcer.telemetry.exposition()[1].decode()
    return text.splitlines()


async def test_metrics_count_every_outcome_by_tool_without_principals(tmp_path: Path) -> None:
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
        lines = metrics_lines(bench)
    assert sorted(line for line in lines if line.startswith("toolcrib_calls_total{")) == [
        'toolcrib_calls_total{tool="",outcome="denied",code="unknown-tool"} 2',
        'toolcrib_calls_total{tool="add",outcome="ok",code=""} 1',
        'toolcrib_calls_total{tool="pay",outcome="denied",code="unknown-tool"} 1',
        'toolcrib_calls_total{tool="refuse",outcome="error",code="tool-error"} 1',
        'toolcrib_calls_total{tool="wait",outcome="ok",code=""} 1',
    ]
    assert "key:ana" not in "".join(lines)


async def test_metrics_show_gaps_in_the_audit_log(tmp_path: Path) -> None:
    async with open_bench(tmp_path, telemetry=Telemetry(prometheus=True)) as bench:
        await bench.server.call("add", {"a": 1})
        assert "toolcrib_audit_gaps_total 0" in metrics_lines(bench)
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


def break_store(bench: Bench) -> sqlite3.Connection:
    """Keep every writer out of the log until the returned connection is closed."""
    blocker = sqlite3.connect(bench.file, isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    return blocker


async def test_a_destructive_tool_does_not_run_before_an_outage_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench(tmp_path, audit=Audit(tmp_path / "audit.db", wait_s=0.05)) as bench:
        blocker = break_store(bench)
        result = await bench.server.call("wipe", {"what": "disk"})  # the first of all
        assert (result.meta or {}).get("toolcrib/refusal") == {"code": "audit-unavailable"}
        blocker.close()
        await until(lambda: not bench.enforcer.audit.is_failing)
        assert not (await bench.server.call("wipe", {"what": "disk"})).is_error
        monkeypatch.setattr(log, "FRESH_S", 0.0)  # a while later
        blocker = break_store(bench)
        assert (await bench.server.call("wipe", {"what": "disk"})).is_error
        assert bench.runs["wipe"] == 1
        blocker.close()


async def test_whether_it_can_be_recorded_is_tried_only_where_it_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "FRESH_S", 3600.0)
    async with open_bench(tmp_path) as bench:
        for _ in range(5):
            assert not (await bench.server.call("wipe", {"what": "disk"})).is_error
    assert len(bench.records("probe")) == 1
    assert len(bench.records()) == 5


async def test_where_nothing_can_be_recorded_what_must_be_does_not_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_bench(tmp_path, audit=Audit(tmp_path / "audit.db", wait_s=0.05)) as bench:
        assert not (await bench.server.call("add", {"a": 1})).is_error
        blocker = break_store(bench)
        assert not (await bench.server.call("add", {"a": 1})).is_error  # others go on
        await until(lambda: bench.enforcer.audit.is_failing)
        for tool, arguments in (("pay", {"amount": 5}), ("wipe", {"what": "disk"})):
            result = await bench.server.call(tool, arguments)
            assert result.is_error
            assert (result.meta or {}).get("toolcrib/refusal") == {"code": "audit-unavailable"}
            assert result.content[0]["text"] == (
                f"Tool '{tool}' cannot run now: its calls must be recorded, and the audit log is unavailable."
            )
        assert not bench.runs["pay"]
        assert not bench.runs["wipe"]
        assert not (await bench.server.call("add", {"a": 1})).is_error
        assert bench.runs["add"] == 3
        assert bench.enforcer.audit.gaps >= 3
        blocker.close()
        await until(lambda: not bench.enforcer.audit.is_failing)
        assert not (await bench.server.call("wipe", {"what": "disk"})).is_error
    assert any("audit" in record.message for record in caplog.records)
    outcomes = [(item["tool"], item["outcome"]) for item in bench.records()]
    assert outcomes == [
        ("add", "ok"),
        ("add", "ok"),
        ("pay", "error"),
        ("wipe", "error"),
        ("add", "ok"),
        ("wipe", "ok"),
    ]
    assert [item["kind"] for item in bench.records("gap")] != []


async def test_a_call_whose_slot_cannot_be_released_is_on_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    async with open_bench(tmp_path, limits=[Limit(concurrency=2)]) as bench:
        monkeypatch.setattr(MemoryCounters, "release", fail)
        with pytest.raises(RuntimeError):
            await bench.server.call("add", {"a": 1})
    assert [record["outcome"] for record in bench.records()] == ["crashed"]
