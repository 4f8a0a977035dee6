"""Access, limits and audit: the requirements of all documents."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.http_servers import HTTP_STACKS, serving
from tests.support.servers.key_server import Ring, ask_modern, call_modern, make_shop
from tests.support.servers.policy_server import ANA, BEN, CONFIRM, YES, Bench, Voice, open_bench, until
from toolcrib.errors import ToolNotFoundError
from toolcrib.policy import Audit, Limit, Rule
from toolcrib.policy.audit import open_log


def code_of(result: Any) -> Any:
    return (result.meta or {}).get("toolcrib/refusal", {}).get("code")


@pytest.mark.requirement("A-18")
async def test_a_call_can_be_cancelled_and_has_a_time_limit_and_the_record_says_which(
    tmp_path: Path,
) -> None:
    limits = [Limit(tools=["wait"], who=["key:ben"], timeout_s=0.02)]
    async with open_bench(tmp_path, limits=limits) as bench:
        result = await bench.server.call("wait", principal=BEN)
        assert "did not finish within 0.02 s" in result.text
        bench.entered.clear()
        async with Voice(bench.server, principal=ANA) as client:
            client.begin_call("wait", id_="w")
            await until(bench.entered.is_set)
            assert await client.text("add", {"a": 1}) == "2"  # nobody else is held up
            client.cancel("w")
            await until(lambda: not bench.server.transports.engine.running)
    assert [(item["tool"], item["outcome"]) for item in bench.records()] == [
        ("wait", "timeout"),
        ("add", "ok"),
        ("wait", "cancelled"),
    ]


@pytest.mark.requirement("A-21")
async def test_sensitive_tools_need_permission_and_leave_a_trail(tmp_path: Path) -> None:
    rules = [
        Rule(allow=["add"]),
        Rule(allow=["pay"], who=["role:cashier"], when={"amount": {"at_most": 100}}, because="No more."),
        Rule(allow=["wipe"], who=["key:ana"]),
        Rule(confirm=["hint:destructive"]),
    ]
    async with open_bench(tmp_path, rules=rules, roles={"cashier": ["key:ana"]}) as bench:
        with pytest.raises(ToolNotFoundError):
            await bench.server.call("pay", {"amount": 5}, principal=BEN)
        assert (await bench.server.call("pay", {"amount": 5}, principal=ANA)).text == "paid 5"
        assert code_of(await bench.server.call("pay", {"amount": 500}, principal=ANA)) == "denied"
        async with Voice(bench.server, principal=ANA, elicitation={}) as client:
            state = await client.state("wipe", {"what": "disk"})
            text = await client.text(
                "wipe", {"what": "disk"}, requestState=state, inputResponses={CONFIRM: YES}
            )
            assert text == "key:ana wiped disk"
    trail = [(item["principal"], item["tool"], item["decision"], item["outcome"]) for item in bench.records()]
    assert trail == [
        ("key:ben", "pay", "denied", "denied"),
        ("key:ana", "pay", "allowed", "ok"),
        ("key:ana", "pay", "denied", "denied"),
        ("key:ana", "wipe", "allowed", "input_required"),
        ("key:ana", "wipe", "allowed", "ok"),
    ]
    assert len(bench.records("intent")) == 2  # of a tool whose record is required, before it runs
    assert open_log(bench.file).verify().is_sound
    written = bench.file.read_bytes()
    bench.file.write_bytes(written.replace(b"key:ben", b"key:eve"))
    assert not open_log(bench.file).verify().is_sound


@pytest.mark.requirement("A-22")
async def test_rates_places_and_budgets_hold_for_each_tool(tmp_path: Path) -> None:
    limits = [
        Limit(tools=["add"], per="tool", rate="2/h"),
        Limit(tools=["pay"], per="tool", daily=1),
        Limit(tools=["block"], per="tool", concurrency=1),
    ]
    async with open_bench(tmp_path, limits=limits) as bench:
        call = bench.server.call
        assert [code_of(await call("add", {"a": 1}, principal=who)) for who in (ANA, BEN, ANA, BEN)] == [
            None,
            None,
            "throttled",
            "throttled",
        ]
        assert [code_of(await call("pay", {"amount": 1})) for _ in range(2)] == [None, "throttled"]
        blocked = asyncio.ensure_future(call("block"))
        await until(bench.entered.is_set)
        refused = await call("block")
        assert code_of(refused) == "throttled"
        bench.release.set()
        assert (await blocked).text == "blocked"
        again = await call("add", {"a": 1})
        assert again.meta is not None
        assert again.meta["toolcrib/refusal"]["retryAfterS"] > 0


@pytest.mark.requirement("T-27")
@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_callers_over_http_show_who_they_are(http_stack: str, tmp_path: Path) -> None:
    ring = Ring(tmp_path)
    ring.make("ana")
    with serving(http_stack, make_shop(ring)) as shop:
        assert call_modern(shop, None, "whoami").status == 401
        wrong = call_modern(shop, "wrong", "whoami")
        assert (wrong.status, "invalid_token" in wrong.headers["www-authenticate"]) == (401, True)
        assert call_modern(shop, ring["ana"], "whoami").result["content"][0]["text"] == "key:ana"
    assert ring["ana"] not in ring.file.read_text()


@pytest.mark.requirement("Z-28", "X-27")
async def test_errors_name_no_other_tool_and_nothing_of_the_inside(tmp_path: Path) -> None:
    rules = [Rule(deny=["pay"]), Rule(deny=["wipe"], when={"what": {"prefix": "/"}})]
    limits = [Limit(tools=["add"], rate="1/h")]
    bench = Bench(tmp_path, rules=rules, limits=limits)
    names = {tool.name for tool in bench.server.registry}
    async with bench.server, Voice(bench.server, principal=ANA, elicitation={}) as client:
        calls: tuple[tuple[str, Any], ...] = (
            ("pay", {"amount": 1}),
            ("nothing", {}),
            ("order", {"item": "x"}),
            ("wipe", {"what": "/etc"}),
            ("wipe", {"whta": "x"}),
            ("add", {"a": 1}),
            ("add", {"a": 1}),
            ("crash", {}),
            ("late", {}),
        )
        for name, arguments in calls:
            await client.call(name, arguments)
            said = client.heard[-1].decode()
            others = {other for other in names - {name} if f"'{other}'" in said or f'"{other}"' in said}
            assert not others, said
            for inside in ("secret words", "Traceback", str(tmp_path), "rules[", "audit.db"):
                assert inside not in said


@pytest.mark.requirement("G-10")
async def test_every_tool_has_its_time_and_its_rate_sync_or_not(tmp_path: Path) -> None:
    limits = [
        Limit(tools=["block", "wait", "sleep_apart"], timeout_s=0.05),
        Limit(tools=["refuse"], rate="1/h", per="principal+tool"),
    ]
    async with open_bench(tmp_path, limits=limits) as bench:
        for tool, arguments in (("block", {}), ("wait", {}), ("sleep_apart", {"seconds": 30})):
            began = asyncio.get_running_loop().time()
            result = await bench.server.call(tool, arguments)
            assert "did not finish within 0.05 s" in result.text
            assert asyncio.get_running_loop().time() - began < 2
        bench.release.set()
        codes = [code_of(await bench.server.call("refuse", principal=who)) for who in (ANA, BEN, ANA)]
        assert codes == [None, None, "throttled"]
    assert bench.outcomes() == ["timeout"] * 3 + ["error", "error", "throttled"]


@pytest.mark.requirement("G-11")
@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_anything_that_a_caller_sees_is_what_it_may_call(http_stack: str, tmp_path: Path) -> None:
    ring = Ring(tmp_path)
    ring.make("ana", roles=("auditor",))
    ring.make("ben")
    rules = [Rule(allow=["whoami", "steps"]), Rule(allow=["audit_log"], who=["role:auditor"])]
    server = make_shop(ring, rules=rules, audit=Audit(tmp_path / "audit.db"))
    with serving(http_stack, server) as shop:
        everything = [tool.name for tool in server.registry]
        for name, expected in (("ana", ["whoami", "audit_log", "steps"]), ("ben", ["whoami", "steps"])):
            listed = ask_modern(shop, ring[name], "tools/list").result
            assert [tool["name"] for tool in listed["tools"]] == expected
            assert listed["cacheScope"] == "private"
            callable_ = [
                tool
                for tool in everything
                if call_modern(shop, ring[name], tool).json.get("error", {}).get("message")
                != f"Unknown tool: {tool}"
            ]
            assert callable_ == expected
