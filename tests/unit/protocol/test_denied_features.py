"""Resources, prompts and skills that a rule denies: no other way leads to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.raw_pipe import raw_pipe
from toolcrib import MCPServer, Tool
from toolcrib.config.settings import Policy, Rule
from toolcrib.context import LOCAL
from toolcrib.policy.access import Access
from toolcrib.policy.access.explain import explain


async def test_an_older_prompt_is_unknown_where_the_newest_is_denied() -> None:
    server = MCPServer("shop", policy=Policy(rules=[Rule(deny=["tag:admin"])]))
    server.prompt("greet", version="1")(lambda: "old")
    server.prompt("greet", version="2", tags=["admin"])(lambda: "new")
    async with server, raw_pipe(server) as pipe:
        for name in ("greet", "greet@1", "greet@2"):
            error = await pipe.error("prompts/get", {"name": name})
            assert (error["code"], error["message"]) == (-32602, f"Unknown prompt: {name}")


async def test_anything_that_a_policy_may_keep_from_others_is_not_cached_for_all() -> None:
    for policy, scope in ((None, "public"), (Policy(scopes={"admin": ["resource:shop://*"]}), "private")):
        server = MCPServer("shop", policy=policy)
        server.add_resource("shop://hours", "9 to 5")
        async with server, raw_pipe(server) as pipe:
            read = await pipe.result("resources/read", {"uri": "shop://hours"})
            assert read["cacheScope"] == scope


async def test_a_uri_that_a_condition_denies_without_a_reason_is_not_found() -> None:
    rule = Rule(deny=["resource:shop://*"], when={"number": {"above": 100}})
    server = MCPServer("shop", policy=Policy(rules=[rule]))

    @server.resource("shop://{number}")
    def order(number: int) -> str:
        return f"order {number}"

    async with server, raw_pipe(server) as pipe:
        assert (await pipe.result("resources/read", {"uri": "shop://7"}))["contents"]
        error = await pipe.error("resources/read", {"uri": "shop://101"})
        assert (error["code"], error["data"]) == (-32602, {"uri": "shop://101"})


async def test_a_skill_with_a_denied_file_is_not_listed(tmp_path: Path) -> None:
    for name in ("tea", "mail"):
        (tmp_path / name / "notes").mkdir(parents=True)
        (tmp_path / name / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: How to {name}\n---\n\n# {name}\n"
        )
        (tmp_path / name / "notes" / "secret.md").write_text("secret")
    server = MCPServer("shop", policy=Policy(rules=[Rule(deny=["resource:skill://tea/notes/*"])]))
    server.add_skills(tmp_path)
    async with server, raw_pipe(server) as pipe:
        listed = await pipe.result("skills/list", {})
        assert [skill["uri"] for skill in listed["skills"]] == ["skill://mail/SKILL.md"]
        assert (await pipe.error("skills/get", {"uri": "skill://tea/SKILL.md"}))["code"] == -32602
        assert (await pipe.result("skills/get", {"uri": "skill://mail/SKILL.md"}))["skill"]


LEGACY = "2025-11-25"
ON_THE_FILE = Rule(deny=["resource:docs://secret/*"])
ON_THE_TEMPLATE = Rule(deny=["docs://{+path}"], when={"path": {"prefix": "secret/"}})


@pytest.mark.parametrize("rule", [ON_THE_FILE, ON_THE_TEMPLATE], ids=["file", "template"])
@pytest.mark.parametrize("is_new", [False, True], ids=["listed", "new"])
async def test_a_rule_about_a_file_of_a_folder_covers_every_way_to_it(
    tmp_path: Path, rule: Rule, is_new: bool
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "open.txt").write_text("open")
    before, after = ("other", "plan") if is_new else ("plan", "other")
    (tmp_path / "secret" / f"{before}.txt").write_text("secret")
    server = MCPServer("docs", policy=Policy(rules=[rule]))
    server.add_resource("docs://", tmp_path)
    (tmp_path / "secret" / f"{after}.txt").write_text("secret")
    async with server, raw_pipe(server, version=LEGACY) as pipe:
        listed = await pipe.result("resources/list", {})
        assert [entry["uri"] for entry in listed["resources"]] == ["docs://open.txt"]
        for uri in ("docs://secret/plan.txt", "docs://secret%2Fplan.txt", "docs://s%65cret/plan.txt"):
            for method in ("resources/read", "resources/subscribe"):
                assert (await pipe.error(method, {"uri": uri}))["message"] == f"Resource not found: {uri}"
            assert explain(access_of(server), LOCAL, *found(server, uri)).verdict == "hidden"
        assert await pipe.result("resources/subscribe", {"uri": "docs://open.txt"}) == {}
        ref = {"type": "ref/resource", "uri": "docs://{+path}"}
        params = {"ref": ref, "argument": {"name": "path", "value": ""}}
        completed = await pipe.result("completion/complete", params)
        assert completed["completion"]["values"] == ["open.txt"]


def access_of(server: MCPServer) -> Access:
    assert server.enforcer is not None
    return server.enforcer.access


def found(server: MCPServer, uri: str) -> tuple[Tool, dict[str, Any]]:
    resource, values = server.dispatcher.find_resource(uri)
    assert resource is not None and values is not None  # noqa: PT018
    return resource, values
