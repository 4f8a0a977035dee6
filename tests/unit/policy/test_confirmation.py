"""Confirmations by a person: on every revision, for exact arguments, valid for one call."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.policy_server import (
    ANA,
    BEN,
    CONFIRM,
    LIVE,
    NO,
    YES,
    Bench,
    Voice,
    open_bench,
)
from toolcrib import Context, Tool
from toolcrib.context import Answer, Elicitation, InputNeeded, NullChannel, Question, Reply
from toolcrib.errors import NotConfirmedError
from toolcrib.policy import Limit, Rule
from toolcrib.policy.access.access import MAX_NAMED, MAX_SHOWN, confirm
from toolcrib.state import StateHandle

WIPE = {"what": "disk"}
RULES = [Rule(confirm=["wipe"])]
UNASKED = "Tool 'wipe' was not run: the person did not agree."

TOOL = Tool.from_function(lambda: None, name="wipe")


class Person(NullChannel):
    """Answers everything in one way, and keeps what was asked."""

    def __init__(self, answer: Reply, resumes: str | None = None) -> None:
        self.answer = answer
        self.resumes = resumes
        self.is_prompted = resumes is not None
        self.asked: list[Question] = []

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:
        assert list(questions) == [CONFIRM]
        self.asked += questions.values()
        return {CONFIRM: self.answer}


async def ask_about(arguments: dict[str, Any], words: str | None = None) -> str:
    person = Person(Answer("accept"))
    await confirm(TOOL, arguments, words, person, StateHandle())
    [question] = person.asked
    assert isinstance(question, Elicitation)
    assert question.schema == {"type": "object", "properties": {}}
    return question.message


# --- by itself ---------------------------------------------------------------------------------------


async def test_the_question_shows_the_tool_and_its_arguments() -> None:
    said = await ask_about({"what": "disk", "count": 3, "deep": {"a": [1]}}, "Cannot be undone.")
    assert said == (
        "Cannot be undone.\nRun 'wipe' with these arguments?\n  what: disk\n  count: 3\n  deep: {\"a\":[1]}"
    )
    assert await ask_about({}) == "Run 'wipe'?"


async def test_anything_that_would_hide_in_a_question_is_spelt_out() -> None:
    assert await ask_about({"what": "a\nRun 'add'?"}) == (
        "Run 'wipe' with these arguments?\n  what: a\\nRun 'add'?"
    )
    assert "\\u202e" in await ask_about({"what": "a\u202eb"})
    assert "\\u200b" in await ask_about({"wh\u200bat": "a"})


async def test_long_arguments_and_many_are_cut() -> None:
    exact = await ask_about({"what": "x" * MAX_SHOWN})
    assert exact.endswith("x" * MAX_SHOWN)
    said = await ask_about({"what": "x" * (MAX_SHOWN + 1)})
    assert said.endswith(f"  what: {'x' * MAX_SHOWN}... ({MAX_SHOWN + 1} characters)")
    for more in (1, 2):
        many = await ask_about({f"n{number}": number for number in range(MAX_NAMED + more)})
        assert many.splitlines()[-1] == f"  and {more} more"
        assert len(many.splitlines()) == MAX_NAMED + 2
    whole = await ask_about({f"n{number}": number for number in range(MAX_NAMED)})
    assert "more" not in whole


@pytest.mark.parametrize("answer", [Answer("decline"), Answer("cancel"), []])
async def test_only_a_yes_is_a_yes(answer: Any) -> None:
    with pytest.raises(NotConfirmedError) as caught:
        await confirm(TOOL, {}, None, Person(answer), StateHandle())
    assert str(caught.value) == UNASKED
    assert caught.value.details is None


async def test_a_yes_whose_mark_was_used_before_is_asked_for_again() -> None:
    storage = StateHandle()
    await confirm(TOOL, {}, None, Person(Answer("accept"), "mark"), storage)
    with pytest.raises(InputNeeded) as caught:
        await confirm(TOOL, {}, None, Person(Answer("accept"), "mark"), storage)
    assert list(caught.value.questions) == [CONFIRM]
    for _ in range(2):  # a call that has waited for its answer
        await confirm(TOOL, {}, None, Person(Answer("accept")), storage)
    await confirm(TOOL, {}, None, Person(Answer("accept"), "another"), storage)
    await storage.close()


async def test_a_yes_is_used_once_by_all_processes_and_never_if_that_cannot_be_known(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    processes = [StateHandle(url), StateHandle(url)]
    await confirm(TOOL, {}, None, Person(Answer("accept"), "mark"), processes[0])
    with pytest.raises(InputNeeded):
        await confirm(TOOL, {}, None, Person(Answer("accept"), "mark"), processes[1])
    for process in processes:
        await process.close()
    (tmp_path / "state.db").write_bytes(b"something else")
    with pytest.raises(InputNeeded):
        await confirm(TOOL, {}, None, Person(Answer("accept"), "new"), StateHandle(url))


async def test_where_nobody_can_be_asked_it_does_not_run() -> None:
    with pytest.raises(NotConfirmedError, match="requires confirmation by a person, and nobody can be asked"):
        await confirm(TOOL, {}, None, NullChannel(), StateHandle())


# --- 2026-07-28 --------------------------------------------------------------------------------------


async def test_a_modern_client_is_asked_and_comes_again_with_the_answer(tmp_path: Path) -> None:
    rules = [Rule(confirm=["wipe"], because="It is gone then.")]
    async with open_bench(tmp_path, rules=rules) as bench, Voice(bench.server, elicitation={}) as client:
        asked = (await client.call("wipe", WIPE))["result"]
        [request] = asked["inputRequests"].items()
        assert request[0] == CONFIRM
        assert request[1]["method"] == "elicitation/create"
        assert request[1]["params"]["message"] == (
            "It is gone then.\nRun 'wipe' with these arguments?\n  what: disk"
        )
        assert bench.runs["wipe"] == 0
        state = asked["requestState"]
        text = await client.text("wipe", WIPE, requestState=state, inputResponses={CONFIRM: YES})
        assert text == "local wiped disk"
        assert bench.runs["wipe"] == 1
    assert bench.outcomes() == ["input_required", "ok"]


async def test_one_yes_is_one_call_however_often_its_state_comes(tmp_path: Path) -> None:
    async with (
        open_bench(tmp_path, rules=RULES) as bench,
        Voice(bench.server, elicitation={}) as client,
    ):
        state = await client.state("wipe", WIPE)
        yes = {"requestState": state, "inputResponses": {CONFIRM: YES}}
        replies = await asyncio.gather(*(client.call("wipe", WIPE, **yes) for _ in range(10)))
        kinds = sorted(reply["result"]["resultType"] for reply in replies)
        assert kinds == ["complete"] + ["input_required"] * 9
        assert bench.runs["wipe"] == 1
        for reply in replies:  # what is asked anew does not remember the old yes
            if (again := reply["result"].get("requestState")) is not None:
                await client.state("wipe", WIPE, requestState=again)
                await client.state("wipe", WIPE, requestState=again, inputResponses={})
        assert bench.runs["wipe"] == 1
        fresh = await client.state("wipe", WIPE, **yes)
        await client.call("wipe", WIPE, requestState=fresh, inputResponses={CONFIRM: YES})
        assert bench.runs["wipe"] == 2


async def test_a_no_cannot_be_taken_back_with_the_same_state(tmp_path: Path) -> None:
    async with (
        open_bench(tmp_path, rules=RULES) as bench,
        Voice(bench.server, elicitation={}) as client,
    ):
        state = await client.state("wipe", WIPE)
        for answer in (NO, {"action": "cancel"}):
            said = await client.call("wipe", WIPE, requestState=state, inputResponses={CONFIRM: answer})
            assert said["result"]["isError"] is True
            assert said["result"]["content"][0]["text"] == UNASKED
            assert said["result"]["_meta"]["toolcrib/refusal"] == {"code": "not-confirmed"}
            await client.state("wipe", WIPE, requestState=state, inputResponses={CONFIRM: YES})
            state = await client.state("wipe", WIPE)
        assert bench.runs["wipe"] == 0
    denied = [record for record in bench.records() if record["outcome"] == "denied"]
    assert [(record["decision"], record["code"]) for record in denied] == [("denied", "not-confirmed")] * 2


async def test_the_record_names_the_rule_that_asked_until_a_person_agrees(tmp_path: Path) -> None:
    rules = [Rule(allow=["*"]), Rule(confirm=["wipe"], name="twice")]
    async with (
        open_bench(tmp_path, rules=rules) as bench,
        Voice(bench.server, elicitation={}) as client,
        Voice(bench.server) as deaf,
    ):
        state = await client.state("wipe", WIPE)
        await client.call("wipe", WIPE, requestState=state, inputResponses={CONFIRM: NO})
        await deaf.call("wipe", WIPE)
        state = await client.state("wipe", WIPE)
        await client.call("wipe", WIPE, requestState=state, inputResponses={CONFIRM: YES})
    asked, allowed = 'rule 2 "twice"', "rule 1"
    assert [(record["outcome"], record["code"], record["rule"]) for record in bench.records()] == [
        ("input_required", None, asked),
        ("denied", "not-confirmed", asked),
        ("denied", "not-confirmed", asked),
        ("input_required", None, asked),
        ("ok", None, allowed),
    ]


async def test_a_no_costs_nothing_of_the_budget(tmp_path: Path) -> None:
    limits = [Limit(daily=1, tools=["wipe"], per="all")]
    async with (
        open_bench(tmp_path, rules=RULES, limits=limits) as bench,
        Voice(bench.server, elicitation={}) as client,
    ):
        for _ in range(3):
            state = await client.state("wipe", WIPE)
            said = await client.call("wipe", WIPE, requestState=state, inputResponses={CONFIRM: NO})
            assert said["result"]["_meta"]["toolcrib/refusal"] == {"code": "not-confirmed"}
        yes = {"requestState": await client.state("wipe", WIPE), "inputResponses": {CONFIRM: YES}}
        assert await client.text("wipe", WIPE, **yes) == "local wiped disk"
        said = await client.call("wipe", WIPE)
        assert said["result"]["_meta"]["toolcrib/refusal"]["code"] == "throttled"
        assert bench.runs["wipe"] == 1


@pytest.mark.parametrize("other", [{"what": "tape"}, {"what": "disk "}])
async def test_a_yes_is_for_the_very_arguments(tmp_path: Path, other: Any) -> None:
    async with (
        open_bench(tmp_path, rules=RULES) as bench,
        Voice(bench.server, elicitation={}) as client,
    ):
        state = await client.state("wipe", WIPE)
        reply = await client.call("wipe", other, requestState=state, inputResponses={CONFIRM: YES})
        assert reply["error"]["message"] == "Invalid requestState: it does not belong to this call"
        assert bench.runs["wipe"] == 0


async def test_a_yes_is_for_its_caller_and_its_tool(tmp_path: Path) -> None:
    rules = [Rule(confirm=["wipe", "pay"])]
    async with (
        open_bench(tmp_path, rules=rules) as bench,
        Voice(bench.server, principal=ANA, elicitation={}) as ana,
        Voice(bench.server, principal=BEN, elicitation={}) as ben,
    ):
        state = await ana.state("wipe", WIPE)
        yes = {"requestState": state, "inputResponses": {CONFIRM: YES}}
        for client, tool in ((ben, "wipe"), (ana, "pay"), (ana, "wipe ")):
            assert "error" in await client.call(tool, WIPE, **yes)
        assert not bench.runs
        assert await ana.text("wipe", WIPE, **yes) == "key:ana wiped disk"


async def test_a_yes_does_not_keep(tmp_path: Path) -> None:
    async with (
        open_bench(tmp_path, rules=RULES) as bench,
        Voice(bench.server, elicitation={}) as client,
    ):
        state = await client.state("wipe", WIPE)
        sealer = bench.server.transports.engine.sealer
        now = sealer._now
        sealer._now = lambda: now() + 601
        reply = await client.call("wipe", WIPE, requestState=state, inputResponses={CONFIRM: YES})
        assert reply["error"]["message"] == "This requestState has expired: make the call again"
        assert bench.runs["wipe"] == 0


async def test_an_answer_that_was_not_asked_for_is_none(tmp_path: Path) -> None:
    async with (
        open_bench(tmp_path, rules=RULES) as bench,
        Voice(bench.server, elicitation={}) as client,
    ):
        await client.state("wipe", WIPE, inputResponses={CONFIRM: YES})
        await client.state("wipe", WIPE, inputResponses={CONFIRM: {"action": "yes"}, "who": YES})
        assert bench.runs["wipe"] == 0


async def test_a_modern_client_that_cannot_be_asked_is_told_what_it_lacks(tmp_path: Path) -> None:
    async with open_bench(tmp_path, rules=RULES) as bench, Voice(bench.server) as client:
        error = (await client.call("wipe", WIPE))["error"]
        assert error["data"] == {"requiredCapabilities": {"elicitation": {}}}
        assert error["message"].startswith("Tool 'wipe' requires confirmation by a person")
        assert bench.runs["wipe"] == 0
    assert [(item["outcome"], item["code"]) for item in bench.records()] == [("denied", "not-confirmed")]


async def test_a_tool_may_ask_after_the_confirmation_and_each_answer_counts_once(tmp_path: Path) -> None:
    async with (
        open_bench(tmp_path, rules=[Rule(confirm=["greet"])]) as bench,
        Voice(bench.server, elicitation={}) as client,
    ):
        first = await client.state("greet")
        asked = await client.call("greet", requestState=first, inputResponses={CONFIRM: YES})
        assert list(asked["result"]["inputRequests"]) == ["who"]
        second = asked["result"]["requestState"]
        told = {"who": {"action": "accept", "content": {"name": "Ada"}}}
        more = {"requestState": second, "inputResponses": told}
        assert await client.text("greet", **more) == "Hello, Ada!"
        assert bench.runs["greet"] == 2
        again = (await client.call("greet", **more))["result"]
        assert list(again["inputRequests"]) == [CONFIRM]
        kept = await client.call("greet", requestState=again["requestState"], inputResponses={})
        assert list(kept["result"]["inputRequests"]) == [CONFIRM]
        assert bench.runs["greet"] == 2


async def test_a_tool_cannot_ask_in_the_name_of_the_policy(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    @bench.server.tool
    async def pose(ctx: Context) -> str:
        """Ask what only a policy asks."""
        with pytest.raises(ValueError, match=r"must not begin with 'toolcrib\.'"):
            await ctx.ask(CONFIRM, "Really?")
        return "refused"

    async with bench.server, Voice(bench.server, elicitation={}) as client:
        assert await client.text("pose") == "refused"


async def test_only_the_arguments_that_a_rule_means_are_asked_about(tmp_path: Path) -> None:
    rules = [Rule(confirm=["pay"], when={"amount": {"above": 100}})]
    async with (
        open_bench(tmp_path, rules=rules) as bench,
        Voice(bench.server, elicitation={}) as client,
    ):
        assert await client.text("pay", {"amount": 100}) == "paid 100"
        state = await client.state("pay", {"amount": 101})
        assert bench.runs["pay"] == 1
        yes = {"requestState": state, "inputResponses": {CONFIRM: YES}}
        assert await client.text("pay", {"amount": 101}, **yes) == "paid 101"


@pytest.mark.parametrize("amount", [{"rate": "1/h"}, {"daily": 1}])
async def test_a_call_that_comes_again_is_not_a_second_hit(tmp_path: Path, amount: Any) -> None:
    async with (
        open_bench(tmp_path, rules=RULES, limits=[Limit(tools=["wipe"], **amount)]) as bench,
        Voice(bench.server, elicitation={}) as client,
    ):
        state = await client.state("wipe", WIPE)
        yes = {"requestState": state, "inputResponses": {CONFIRM: YES}}
        assert await client.text("wipe", WIPE, **yes) == "local wiped disk"
        for more in ({}, yes):
            refused = (await client.call("wipe", WIPE, **more))["result"]
            assert refused["_meta"]["toolcrib/refusal"]["code"] == "throttled"
        assert bench.runs["wipe"] == 1
    assert bench.outcomes() == ["input_required", "ok", "throttled", "throttled"]


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
        client.reply(asked["id"], YES)  # no caller waits for it any more
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


async def test_an_answer_that_is_none_is_not_a_yes(tmp_path: Path) -> None:
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


async def test_anyone_who_leaves_while_asked_leaves_nothing_behind(tmp_path: Path) -> None:
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
