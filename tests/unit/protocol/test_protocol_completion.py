"""completion/complete: what is completed, for whom, how fast and how often."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.clients.raw_pipe import MODERN, RawPipe, raw_pipe
from toolcrib import Context, MCPServer, Principal, ToolError
from toolcrib.config.settings import Policy, Rule
from toolcrib.protocol import completion
from toolcrib.protocol.revisions import LEGACY

VERSIONS = [*LEGACY, MODERN]
PROMPT = {"type": "ref/prompt", "name": "plan"}
CITIES = ["Oslo", "Paris", "Parma", "New York"]


def make_server(**settings: Any) -> MCPServer:
    server = MCPServer("shop", **settings)

    @server.prompt
    def plan(city: str, kind: Literal["walk", "ride"] = "walk", fast: bool = False, note: str = "") -> str:
        return city

    @plan.complete("city")
    async def cities(value: str, kind: str = "any") -> list[str]:
        return CITIES if kind != "ride" else ["Oslo"]

    @server.resource("shop://{shelf}/{article}")
    def article(shelf: str, article: str) -> str:
        return article

    @article.complete("article")
    def articles(value: str, shelf: str) -> list[str]:
        return [f"{shelf}-{value}"]

    return server


async def complete(
    pipe: RawPipe, name: str, value: str, ref: Any = None, known: dict[str, str] | None = None
) -> list[str]:
    params: dict[str, Any] = {"ref": ref or PROMPT, "argument": {"name": name, "value": value}}
    if known is not None:
        params["context"] = {"arguments": known}
    result = await pipe.result("completion/complete", params)
    found: list[str] = result["completion"]["values"]
    return found


@pytest.mark.parametrize("version", VERSIONS)
async def test_functions_and_hints_complete_in_every_revision(version: str) -> None:
    async with raw_pipe(make_server(), version) as pipe:
        assert ("completions" in pipe.offered) is (version != "2024-11-05")
        assert await complete(pipe, "city", "par") == ["Paris", "Parma"]
        assert await complete(pipe, "city", "yo") == ["New York"]
        assert await complete(pipe, "kind", "") == ["walk", "ride"]
        assert await complete(pipe, "kind", "r") == ["ride"]
        assert await complete(pipe, "kind", "zzz") == []
        assert await complete(pipe, "fast", "t") == ["true"]
        assert await complete(pipe, "note", "") == []


async def test_the_result_counts_all_values() -> None:
    server = MCPServer("shop")

    @server.prompt
    def pick(number: str) -> str:
        return number

    pick.complete("number")(lambda value: [str(number) for number in range(250)])
    async with raw_pipe(server) as pipe:
        ref = {"type": "ref/prompt", "name": "pick"}
        params = {"ref": ref, "argument": {"name": "number", "value": ""}}
        result = await pipe.result("completion/complete", params)
        assert result["resultType"] == "complete"
        found = result["completion"]
        assert (len(found["values"]), found["total"], found["hasMore"]) == (100, 250, True)


async def test_a_function_gets_the_other_arguments_as_far_as_they_are_known() -> None:
    async with raw_pipe(make_server()) as pipe:
        assert await complete(pipe, "city", "", known={"kind": "ride"}) == ["Oslo"]
        assert await complete(pipe, "city", "", known={}) == CITIES
        ref = {"type": "ref/resource", "uri": "shop://{shelf}/{article}"}
        assert await complete(pipe, "article", "tea", ref, {"shelf": "low"}) == ["low-tea"]
        assert await complete(pipe, "article", "tea", ref) == []
        concrete = {"type": "ref/resource", "uri": "shop://low/te"}
        assert await complete(pipe, "article", "te", concrete, {"shelf": "low"}) == ["low-te"]


@pytest.mark.parametrize("version", ["2025-06-18", MODERN])
@pytest.mark.parametrize(
    "change",
    [
        {"ref": None},
        {"ref": "plan"},
        {"ref": {"type": "ref/other", "name": "plan"}},
        {"ref": {"type": ["ref/prompt"], "name": "plan"}},
        {"ref": {"type": "ref/prompt"}},
        {"ref": {"type": "ref/prompt", "name": 5}},
        {"ref": {"type": "ref/prompt", "name": "nothing"}},
        {"argument": None},
        {"argument": {"name": "city"}},
        {"argument": {"name": "city", "value": 5}},
        {"argument": {"name": "nothing", "value": ""}},
        {"context": {"arguments": []}},
    ],
)
async def test_wrong_parameters_are_refused(version: str, change: dict[str, Any]) -> None:
    params = {"ref": PROMPT, "argument": {"name": "city", "value": ""}, **change}
    async with raw_pipe(make_server(), version) as pipe:
        assert (await pipe.error("completion/complete", params))["code"] == -32602


@pytest.mark.parametrize(("version", "code"), [("2025-11-25", -32002), (MODERN, -32602)])
async def test_an_unknown_resource_is_not_found(version: str, code: int) -> None:
    ref = {"type": "ref/resource", "uri": "shop://nothing"}
    async with raw_pipe(make_server(), version) as pipe:
        error = await pipe.error("completion/complete", {"ref": ref, "argument": {"name": "x", "value": ""}})
    assert (error["code"], error["data"]) == (code, {"uri": "shop://nothing"})


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_slow_function_ends_after_a_second(is_async: bool) -> None:
    server = MCPServer("shop")

    @server.prompt
    def pick(name: str) -> str:
        return name

    async def wait(value: str) -> list[str]:
        await asyncio.sleep(30)
        return []

    def block(value: str) -> list[str]:
        time.sleep(2)
        return []

    pick.complete("name")(wait if is_async else block)
    ref = {"type": "ref/prompt", "name": "pick"}
    async with raw_pipe(server) as pipe:
        began = time.monotonic()
        error = await pipe.error(
            "completion/complete", {"ref": ref, "argument": {"name": "name", "value": ""}}
        )
        assert error["code"] == -32603
        assert "did not finish within 1 s" in error["message"]
        assert time.monotonic() - began < 1.9


async def test_a_function_that_fails_is_an_error_without_its_words() -> None:
    server = MCPServer("shop")

    @server.prompt
    def pick(name: str, other: str = "") -> str:
        return name

    def crash(value: str) -> list[str]:
        raise RuntimeError("hunter2")

    def refuse(value: str) -> list[str]:
        raise ToolError("Type more.")

    pick.complete("name")(crash)
    pick.complete("other")(refuse)
    ref = {"type": "ref/prompt", "name": "pick"}
    async with raw_pipe(server) as pipe:
        failed = await pipe.error(
            "completion/complete", {"ref": ref, "argument": {"name": "name", "value": ""}}
        )
        refused = await pipe.error(
            "completion/complete", {"ref": ref, "argument": {"name": "other", "value": ""}}
        )
    assert (failed["code"], refused["code"], refused["message"]) == (-32603, -32603, "Type more.")
    assert "hunter2" not in str(failed)


@pytest.mark.parametrize(
    ("returned", "values"),
    [
        (["a"], ["a"]),
        (("a", "b"), ["a", "b"]),
        ({"x": 1}, []),
        (None, []),
        (5, []),
        ([1, None], ["1"]),
    ],
)
async def test_functions_without_hints_may_return_any_list(returned: Any, values: list[str]) -> None:
    server = MCPServer("shop")

    @server.prompt
    def pick(name: str) -> str:
        return name

    pick.complete("name")(lambda value: returned)
    async with raw_pipe(server) as pipe:
        assert await complete(pipe, "name", "", {"type": "ref/prompt", "name": "pick"}) == values


async def test_functions_may_yield_and_know_who_asks() -> None:
    server = MCPServer("shop")

    @server.prompt
    def pick(name: str, other: str = "", third: str = "") -> str:
        return name

    @pick.complete("name")
    def generate(value: str) -> Any:
        yield "one"
        yield "two"

    @pick.complete("other")
    def who(value: str, ctx: Context) -> list[str]:
        return [ctx.principal.name]

    @pick.complete("third")
    async def later(value: str) -> Any:
        yield "three"

    ref = {"type": "ref/prompt", "name": "pick"}
    async with raw_pipe(server) as pipe:
        assert await complete(pipe, "name", "", ref) == ["one", "two"]
        assert await complete(pipe, "other", "", ref) == ["local"]
        assert await complete(pipe, "third", "", ref) == ["three"]


async def test_a_client_that_asks_too_often_is_slowed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "MAX_COMPLETIONS", 3)
    server = make_server()
    async with server, raw_pipe(server, principal=Principal("key:ana")) as pipe:
        for _ in range(3):
            await complete(pipe, "kind", "")
        error = await pipe.error(
            "completion/complete", {"ref": PROMPT, "argument": {"name": "kind", "value": ""}}
        )
        assert "Too many completions" in error["message"]


async def test_anything_that_is_hidden_or_disabled_is_not_completed() -> None:
    rules = [Rule(deny=["prompt:plan"]), Rule(deny=["resource:shop://*"])]
    server = make_server(policy=Policy(rules=rules))
    refs = {
        "Unknown prompt: plan": PROMPT,
        "Resource not found": {"type": "ref/resource", "uri": "shop://{shelf}/{article}"},
    }
    async with raw_pipe(server) as pipe:
        for words, ref in refs.items():
            params = {"ref": ref, "argument": {"name": "city", "value": ""}}
            assert words in (await pipe.error("completion/complete", params))["message"]
    other = make_server(dynamic=True)
    async with raw_pipe(other) as pipe:
        other.prompts.disable("plan")
        params = {"ref": PROMPT, "argument": {"name": "city", "value": ""}}
        assert "Unknown prompt" in (await pipe.error("completion/complete", params))["message"]


async def test_paths_of_a_folder_are_completed_without_those_that_a_rule_hides(tmp_path: Path) -> None:
    for name in ("index.md", "secret/plan.md", "guide/start.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    policy = Policy(rules=[Rule(deny=["resource:docs://secret/*"])])
    server = MCPServer("shop", policy=policy)
    server.add_resource("docs://", tmp_path)
    ref = {"type": "ref/resource", "uri": "docs://{+path}"}
    async with raw_pipe(server) as pipe:
        assert await complete(pipe, "path", "", ref) == ["guide/start.md", "index.md"]
        assert await complete(pipe, "path", "start", ref) == ["guide/start.md"]
        for uri in ("docs://secret/plan.md", "docs://secret%2Fplan.md", "docs://%73ecret/plan.md"):
            error = await pipe.error("resources/read", {"uri": uri})
            assert error == {"code": -32602, "message": f"Resource not found: {uri}", "data": {"uri": uri}}
