"""Prompts on the wire: every revision's fields, errors, paging, and what happens while messages are made."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from tests.support.clients.raw_pipe import MODERN, PREFIX, raw_pipe
from toolcrib import Audio, Context, Image, Link, MCPServer, Message, ToolError
from toolcrib.protocol.revisions import LEGACY

VERSIONS = [*LEGACY, MODERN]
OLD = ["2024-11-05", "2025-03-26"]


def make_server(**settings: Any) -> MCPServer:
    server = MCPServer("shop", **settings)

    @server.prompt(
        title="Greeting", icons=[{"src": "https://shop.example/i.png"}], meta={"shop.example/a": 1}
    )
    def greet(name: str, count: int = 1) -> list[Any]:
        """Greet somebody.

        Args:
            name: Whom to greet
            count: How often
        """
        return [Message(f"Hello {name}" * count), Message("Hi", role="assistant")]

    @server.prompt
    def media(kind: str) -> Any:
        return {"image": Image(b"x"), "audio": Audio(b"x"), "link": Link("shop://tea", "tea")}[kind]

    return server


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_revision_lists_the_fields_that_it_knows(version: str) -> None:
    async with raw_pipe(make_server(), version) as pipe:
        result = await pipe.result("prompts/list")
    expected: dict[str, Any] = {
        "name": "greet",
        "title": "Greeting",
        "description": "Greet somebody",
        "arguments": [
            {"name": "name", "description": "Whom to greet", "required": True},
            {"name": "count", "description": "How often (integer)"},
        ],
        "icons": [{"src": "https://shop.example/i.png"}],
        "_meta": {"shop.example/a": 1},
    }
    if version not in ("2025-11-25", MODERN):
        del expected["icons"]
    if version in OLD:
        del expected["title"], expected["_meta"]
    assert result["prompts"][0] == expected
    assert (result.get("ttlMs"), result.get("cacheScope")) == (
        (3_600_000, "public") if version == MODERN else (None, None)
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_prompt_gives_messages_with_one_content_each(version: str) -> None:
    async with raw_pipe(make_server(), version) as pipe:
        result = await pipe.result(
            "prompts/get", {"name": "greet", "arguments": {"name": "Ada", "count": "2"}}
        )
    meta = result.pop("_meta", None)
    assert (meta is not None and PREFIX + "serverInfo" in meta) == (version == MODERN)
    assert result == {
        "description": "Greet somebody",
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "Hello AdaHello Ada"}},
            {"role": "assistant", "content": {"type": "text", "text": "Hi"}},
        ],
        **({"resultType": "complete"} if version == MODERN else {}),
    }


@pytest.mark.parametrize("version", VERSIONS)
async def test_content_that_a_revision_does_not_know_is_text(version: str) -> None:
    async def content_of(kind: str) -> Any:
        result = await pipe.result("prompts/get", {"name": "media", "arguments": {"kind": kind}})
        return result["messages"][0]["content"]

    data = base64.b64encode(b"x").decode()
    async with raw_pipe(make_server(), version) as pipe:
        assert await content_of("image") == {"type": "image", "data": data, "mimeType": "image/png"}
        audio, link = await content_of("audio"), await content_of("link")
    assert audio["type"] == ("text" if version == "2024-11-05" else "audio")
    if version in OLD:
        assert link == {"type": "text", "text": "tea: shop://tea"}
    else:
        assert link == {"type": "resource_link", "uri": "shop://tea", "name": "tea"}


async def test_a_description_may_come_with_the_messages() -> None:
    server = MCPServer("shop")

    @server.prompt
    def greet() -> dict[str, Any]:
        """In the list."""
        return {"messages": ["Hello"], "description": "For this time"}

    async with raw_pipe(server) as pipe:
        assert (await pipe.result("prompts/get", {"name": "greet"}))["description"] == "For this time"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "name is required"),
        ({"name": 5}, "name is required"),
        ({"name": "nothing"}, "Unknown prompt: nothing"),
        ({"name": "greet", "arguments": []}, "arguments must be an object"),
        ({"name": "greet", "arguments": {"name": 5}}, "the argument 'name' must be a string"),
        ({"name": "greet", "arguments": {"name": None}}, "the argument 'name' must be a string"),
        ({"name": "greet"}, "'name'"),
        ({"name": "greet", "arguments": {"name": "a", "count": "x"}}, "'count': expected integer"),
        ({"name": "greet", "arguments": {"name": "a", "other": "x"}}, "'other'"),
    ],
)
async def test_wrong_parameters_are_refused_by_name(version: str, params: dict[str, Any], words: str) -> None:
    async with raw_pipe(make_server(), version) as pipe:
        error = await pipe.error("prompts/get", params)
    assert error["code"] == -32602
    assert words in error["message"]


@pytest.mark.parametrize("version", ["2025-03-26", MODERN])
async def test_a_failing_prompt_is_a_jsonrpc_error(version: str) -> None:
    server = MCPServer("shop")

    @server.prompt
    def refused() -> str:
        raise ToolError("Not on Sundays.")

    @server.prompt
    def crash() -> str:
        raise RuntimeError("hunter2")

    @server.prompt
    def nothing() -> None:
        return None

    async with raw_pipe(server, version) as pipe:
        found = {
            name: await pipe.error("prompts/get", {"name": name}) for name in ("refused", "crash", "nothing")
        }
    assert {error["code"] for error in found.values()} == {-32603}
    assert found["refused"]["message"] == "Not on Sundays."
    assert "hunter2" not in str(found["crash"])
    assert "it is None; return text or messages" in found["nothing"]["message"]


async def test_pages_and_capabilities() -> None:
    server = MCPServer("shop", page_size=2, dynamic=True)
    for number in range(3):
        server.prompt(f"p{number}")(lambda: "x")
    async with raw_pipe(server) as pipe:
        assert pipe.offered["prompts"] == {"listChanged": True}
        first = await pipe.result("prompts/list")
        rest = await pipe.result("prompts/list", {"cursor": first["nextCursor"]})
        assert [prompt["name"] for prompt in first["prompts"] + rest["prompts"]] == ["p0", "p1", "p2"]
        assert "nextCursor" not in rest


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_server_without_prompts_lists_none_and_has_no_completions(version: str) -> None:
    async with raw_pipe(MCPServer("shop"), version) as pipe:
        assert pipe.offered["prompts"] == {}
        assert (await pipe.result("prompts/list"))["prompts"] == []
        assert (await pipe.error("prompts/get", {"name": "x"}))["code"] == -32602
        assert "completions" not in pipe.offered
        assert (await pipe.error("completion/complete", {"name": "x"}))["code"] == -32601


async def test_progress_of_a_prompt_reaches_its_client() -> None:
    server = MCPServer("shop")

    @server.prompt
    async def long(ctx: Context) -> str:
        await ctx.progress(1, 2)
        await asyncio.sleep(0)
        return "done"

    async with raw_pipe(server) as pipe:
        await pipe.result("prompts/get", {"name": "long", "_meta": {"progressToken": 3}})
        assert (await pipe.notice("notifications/progress"))["params"]["progressToken"] == 3
