"""A policy over resources and prompts: rules by kind, scopes, limits, confirmations and records."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.clients.raw_pipe import MODERN, RawPipe, raw_pipe
from toolcrib import MCPServer
from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError, ToolNotFoundError
from toolcrib.policy import Audit, Limit, Policy, Rule, Telemetry
from toolcrib.policy.audit import open_log

ANA = Principal("key:ana")
BEN = Principal("key:ben")


def make_server(**policy: Any) -> MCPServer:
    server = MCPServer("shop", policy=Policy(**policy))
    server.tool("report")(lambda: "tool")
    server.prompt("report", tags=["internal"])(lambda: "prompt")
    server.resource("shop://report", tags=["internal"])(lambda: "resource")
    server.resource("shop://orders/{number}")(_order)
    server.prompt("letter")(lambda to: f"Dear {to}")
    return server


def _order(number: int) -> str:
    return f"order {number}"


async def lists(pipe: RawPipe) -> dict[str, list[str]]:
    """Return everything that a client sees, by kind."""
    found = {}
    for method, key, name in (
        ("tools/list", "tools", "name"),
        ("resources/list", "resources", "uri"),
        ("resources/templates/list", "resourceTemplates", "uriTemplate"),
        ("prompts/list", "prompts", "name"),
    ):
        found[key] = [entry[name] for entry in (await pipe.result(method))[key]]
    return found


@pytest.mark.parametrize(
    ("rule", "hidden"),
    [
        (Rule(deny=["report"]), {"tools": ["report"], "prompts": ["report"]}),
        (Rule(deny=["tool:report"]), {"tools": ["report"]}),
        (Rule(deny=["prompt:report"]), {"prompts": ["report"]}),
        (Rule(deny=["resource:shop://report"]), {"resources": ["shop://report"]}),
        (
            Rule(deny=["resource:*"]),
            {"resources": ["shop://report"], "resourceTemplates": ["shop://orders/{number}"]},
        ),
        (Rule(deny=["resource:shop://orders/*"]), {"resourceTemplates": ["shop://orders/{number}"]}),
        (Rule(deny=["tag:internal"]), {"resources": ["shop://report"], "prompts": ["report"]}),
        (
            Rule(deny=["shop://*"], who=["key:ana"]),
            {"resources": ["shop://report"], "resourceTemplates": ["shop://orders/{number}"]},
        ),
        (
            Rule(allow=["tool:*"]),
            {
                "resources": ["shop://report"],
                "resourceTemplates": ["shop://orders/{number}"],
                "prompts": ["report", "letter"],
            },
        ),
    ],
)
async def test_a_rule_hides_the_kinds_that_it_names(rule: Rule, hidden: dict[str, list[str]]) -> None:
    everything = {
        "tools": ["report"],
        "resources": ["shop://report"],
        "resourceTemplates": ["shop://orders/{number}"],
        "prompts": ["report", "letter"],
    }
    async with raw_pipe(make_server(rules=[rule]), principal=ANA) as pipe:
        assert await lists(pipe) == {
            key: [name for name in names if name not in hidden.get(key, [])]
            for key, names in everything.items()
        }


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
async def test_anything_that_is_denied_gets_the_answer_of_what_is_unknown(version: str) -> None:
    server = make_server(rules=[Rule(deny=["prompt:report", "resource:*"], who=["key:ana"])])

    async def answers(pipe: RawPipe, uri: str, name: str) -> list[Any]:
        found = [
            await pipe.ask("resources/read", {"uri": uri}),
            await pipe.ask("prompts/get", {"name": name}),
            await pipe.ask(
                "completion/complete",
                {"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "a", "value": ""}},
            ),
            await pipe.ask(
                "completion/complete",
                {"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "a", "value": ""}},
            ),
        ]
        if version != MODERN:
            found.append(await pipe.ask("resources/subscribe", {"uri": uri}))
        return [json.dumps(reply["error"]).replace(uri, "URI").replace(name, "NAME") for reply in found]

    async with raw_pipe(server, version, principal=ANA) as pipe:
        assert await answers(pipe, "shop://report", "report") == await answers(
            pipe, "shop://absent", "absent"
        )
        for call in (server.read("shop://report", principal=ANA), server.get_prompt("report", principal=ANA)):
            with pytest.raises(ToolNotFoundError, match=r"^Unknown (resource|prompt): (shop://)?report$"):
                await call
        assert await server.read("shop://report", principal=BEN)


async def test_a_condition_is_about_a_variable_of_the_template() -> None:
    rules = [Rule(deny=["resource:shop://orders/*"], when={"number": {"above": 100}}, because="too new")]
    async with raw_pipe(make_server(rules=rules)) as pipe:
        assert (await pipe.result("resources/read", {"uri": "shop://orders/100"}))["contents"][0][
            "text"
        ] == "order 100"
        refused = await pipe.error("resources/read", {"uri": "shop://orders/101"})
        assert (refused["code"], "too new" in refused["message"]) == (-32603, True)


async def complete(pipe: RawPipe, ref: str, name: str, **known: str) -> list[str]:
    kind, key = ("ref/resource", "uri") if "://" in ref else ("ref/prompt", "name")
    params: dict[str, Any] = {
        "ref": {"type": kind, key: ref},
        "argument": {"name": name, "value": ""},
        "context": {"arguments": known},
    }
    found: list[str] = (await pipe.result("completion/complete", params))["completion"]["values"]
    return found


def make_library(*rules: Rule) -> MCPServer:
    server = MCPServer("library", policy=Policy(rules=list(rules)))

    @server.resource("library://{shelf}/{number}")
    def book(shelf: str, number: int, language: str = "en") -> str:
        return f"{shelf} {number} {language}"

    @book.complete("shelf")
    def complete_shelf(value: str) -> list[str]:
        return ["poems", "secret"]

    @book.complete("number")
    def complete_number(value: str) -> list[int]:
        return [1, 50, 101]

    @server.prompt
    def plan(city: Literal["Rome", "Oslo"], days: Literal[1, 2, 3] = 1) -> str:
        return f"{days} in {city}"

    return server


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
async def test_a_subscription_is_unknown_where_a_condition_denies_the_read(version: str) -> None:
    rules = [
        Rule(deny=["resource:*"], when={"number": {"above": 100}}, because="too new"),
        Rule(deny=["resource:*"], when={"shelf": "secret"}),
    ]
    uris = ["library://poems/1", "library://poems/101", "library://secret/1", "library://poems/x"]
    async with raw_pipe(make_library(*rules), version) as pipe:
        if version == MODERN:
            pipe.begin("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
            granted = await pipe.notice("notifications/subscriptions/acknowledged")
            assert granted["params"]["notifications"] == {"resourceSubscriptions": uris[:1]}
            return
        assert await pipe.result("resources/subscribe", {"uri": uris[0]}) == {}
        for uri in uris[1:]:
            error = await pipe.error("resources/subscribe", {"uri": uri})
            assert error == {"code": -32002, "message": f"Resource not found: {uri}", "data": {"uri": uri}}


async def test_values_that_a_condition_denies_are_not_suggested() -> None:
    rules = [
        Rule(deny=["resource:*"], when={"number": {"above": 100}}),
        Rule(deny=["resource:*"], when={"shelf": "secret"}),
        Rule(deny=["resource:*"], when={"shelf": "poems", "number": 50}),
        Rule(deny=["prompt:plan"], when={"city": "Oslo", "days": {"above": 1}}),
    ]
    template = "library://{shelf}/{number}"
    async with raw_pipe(make_library(*rules)) as pipe:
        assert await complete(pipe, template, "shelf") == ["poems"]
        assert await complete(pipe, template, "number") == ["1", "50"]
        assert await complete(pipe, template, "number", shelf="poems", other="x") == ["1"]
        assert await complete(pipe, template, "number", shelf="secret") == []
        assert await complete(pipe, template, "shelf", number="101") == []
        assert await complete(pipe, template, "shelf", number="x") == []
        assert await complete(pipe, "library://poems/1", "shelf") == ["poems"]
        assert await complete(pipe, "plan", "city", days="2") == ["Rome"]
        assert await complete(pipe, "plan", "days", city="Oslo") == ["1"]
        assert await complete(pipe, "plan", "days") == ["1", "2", "3"]
        params = {"argument": {"name": "shelf", "value": ""}}
        ref = {"type": "ref/resource", "uri": "library://secret/1"}
        assert (await pipe.error("completion/complete", {"ref": ref, **params}))["code"] == -32602


async def test_values_are_suggested_where_a_rule_may_still_allow() -> None:
    rules = [
        Rule(allow=["resource:*"], when={"shelf": "poems", "number": {"below": 100}, "language": "en"}),
        Rule(allow=["prompt:*"]),
    ]
    async with raw_pipe(make_library(*rules)) as pipe:
        template = "library://{shelf}/{number}"
        assert await complete(pipe, template, "shelf") == ["poems"]
        assert await complete(pipe, template, "number") == ["1", "50"]
        assert await complete(pipe, template, "number", shelf="secret") == []


async def test_conditions_see_the_values_that_a_resource_gets() -> None:
    server = MCPServer(
        "library", policy=Policy(rules=[Rule(deny=["resource:*"], when={"day": "2026-01-31"})])
    )

    @server.resource("diary://{day}")
    def entry(day: date) -> str:
        return day.isoformat()

    async with raw_pipe(server, "2025-11-25") as pipe:
        assert await pipe.result("resources/subscribe", {"uri": "diary://2026-01-30"}) == {}
        for day in ("2026-01-31", "20260131"):
            assert (await pipe.error("resources/read", {"uri": f"diary://{day}"}))["code"] != 0
            assert (await pipe.error("resources/subscribe", {"uri": f"diary://{day}"}))["code"] == -32002


async def test_files_of_a_folder_that_a_condition_denies_are_not_suggested(tmp_path: Path) -> None:
    for path in ("guide.md", "internal/plan.md"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("text")
    rule = Rule(deny=["resource:docs://*"], when={"path": {"below_path": "internal"}})
    server = MCPServer("docs", policy=Policy(rules=[rule]))
    server.add_resource("docs://", tmp_path)
    async with raw_pipe(server) as pipe:
        assert await complete(pipe, "docs://{+path}", "path") == ["guide.md"]


async def test_a_rule_about_no_resource_is_an_error_at_the_start() -> None:
    server = make_server(rules=[Rule(deny=["resource:shop://nothing"])])
    with pytest.raises(ConfigurationError, match="'resource:shop://nothing' matches no resource"):
        await server.start()


async def test_a_missing_scope_is_named() -> None:
    server = make_server(scopes={"orders:read": ["resource:shop://orders/*", "prompt:letter"]})
    async with server, raw_pipe(server, principal=ANA) as pipe:
        assert (await lists(pipe))["resourceTemplates"] == ["shop://orders/{number}"]
        for method, params in (
            ("resources/read", {"uri": "shop://orders/1"}),
            ("prompts/get", {"name": "letter", "arguments": {"to": "Ada"}}),
        ):
            error = await pipe.error(method, params)
            assert "requires a scope that you do not have: orders:read" in error["message"]
            assert error["data"] == {"code": "insufficient-scope", "scopes": ["orders:read"]}
        ref = {"type": "ref/prompt", "name": "letter"}
        error = await pipe.error("completion/complete", {"ref": ref, "argument": {"name": "to", "value": ""}})
        assert error["data"] == {"code": "insufficient-scope", "scopes": ["orders:read"]}
        pipe.begin("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["shop://orders/1"]}})
        granted = await pipe.notice("notifications/subscriptions/acknowledged")
        assert granted["params"]["notifications"] == {}
        holder = Principal("key:ana", frozenset({"orders:read"}))
        async with raw_pipe(server, principal=holder) as other:
            await other.result("resources/read", {"uri": "shop://orders/1"})


async def test_limits_count_resources_and_prompts_apart() -> None:
    limits = [
        Limit(tools=["resource:*"], daily=2, per="principal+tool"),
        Limit(tools=["prompt:letter"], daily=1),
    ]
    async with raw_pipe(make_server(limits=limits), principal=ANA) as pipe:
        for uri in ("shop://orders/1", "shop://orders/2", "shop://report", "shop://report"):
            await pipe.result("resources/read", {"uri": uri})
        for uri in ("shop://orders/3", "shop://report"):
            error = await pipe.error("resources/read", {"uri": uri})
            assert (error["code"], error["data"]["code"]) == (-32603, "throttled")
        letter = {"name": "letter", "arguments": {"to": "Ada"}}
        await pipe.result("prompts/get", letter)
        assert (await pipe.error("prompts/get", letter))["code"] == -32603
        await pipe.result("prompts/get", {"name": "report"})
        await pipe.result("tools/call", {"name": "report"})


@pytest.mark.parametrize(
    ("answer", "is_read"),
    [({"action": "accept", "content": {"confirmed": True}}, True), ({"action": "decline"}, False)],
)
async def test_a_read_may_need_a_confirmation(answer: dict[str, Any], is_read: bool) -> None:
    rules = [Rule(confirm=["resource:shop://orders/*"], because="Orders are private.")]
    async with raw_pipe(make_server(rules=rules), capabilities={"elicitation": {}}) as pipe:
        asked = await pipe.result("resources/read", {"uri": "shop://orders/7"})
        [(key, question)] = asked["inputRequests"].items()
        assert "Orders are private." in question["params"]["message"]
        assert "number: 7" in question["params"]["message"]
        schema = question["params"]["requestedSchema"]["properties"]
        if is_read:
            answer = {"action": "accept", "content": dict.fromkeys(schema, True)}
        again = {
            "uri": "shop://orders/7",
            "requestState": asked["requestState"],
            "inputResponses": {key: answer},
        }
        reply = await pipe.ask("resources/read", again)
        assert ("result" in reply) is is_read
        other = {**again, "uri": "shop://orders/8"}
        assert (await pipe.error("resources/read", other))["code"] == -32602
    async with raw_pipe(make_server(rules=rules)) as pipe:
        assert (await pipe.error("resources/read", {"uri": "shop://orders/7"}))["code"] == -32021


async def test_records_and_measurements_name_the_kind(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    server = make_server(
        audit=Audit(path), telemetry=Telemetry(prometheus=True), rules=[Rule(deny=["prompt:report"])]
    )
    async with raw_pipe(server, principal=ANA) as pipe:
        await pipe.result("resources/read", {"uri": "shop://orders/7"})
        await pipe.result("prompts/get", {"name": "letter", "arguments": {"to": "Ada"}})
        await pipe.error("prompts/get", {"name": "report"})
        await pipe.error("prompts/get", {"name": "absent"})
        await pipe.error("resources/read", {"uri": "shop://absent"})
        await pipe.error("resources/read", {"uri": "shop://orders/x"})
        assert server.enforcer is not None
        assert server.enforcer.telemetry is not None
        text = server.enforcer.telemetry.exposition()[1].decode()
    records = [record for record in open_log(path).records() if record["kind"] == "call"]
    assert [(record["tool"], record["decision"], record["outcome"]) for record in records] == [
        ("resource:shop://orders/{number}", "allowed", "ok"),
        ("prompt:letter", "allowed", "ok"),
        ("prompt:report", "denied", "denied"),
        ("prompt:absent", "unknown", "denied"),
        ("resource:shop://absent", "unknown", "denied"),
        ("resource:shop://orders/{number}", "allowed", "error"),
    ]
    assert server.describe()["statistics"]["resource:shop://orders/{number}"]["calls"] == 2
    assert 'tool="prompt:letter"' in text
    assert 'tool="resource:shop://orders/{number}"' in text
    assert "absent" not in text


async def test_a_record_that_is_required_comes_before_a_read(tmp_path: Path) -> None:
    server = MCPServer("shop", policy=Policy(audit=Audit(tmp_path / "audit.db")))
    server.resource("shop://secret", audit="required")(lambda: "secret")
    async with raw_pipe(server) as pipe:
        assert (await pipe.result("resources/read", {"uri": "shop://secret"}))["contents"][0][
            "text"
        ] == "secret"
