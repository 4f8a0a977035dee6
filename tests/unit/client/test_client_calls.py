"""Listing and calling: every page, every tool that can be used, results checked before they are used."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcrib.client import Client
from toolcrib.client import client as client_module
from toolcrib.client.entries import parse_tool, read_items
from toolcrib.errors import ConfigurationError, InvalidResponseError, RemoteError, ToolNotFoundError

from .scripted_server import DISCOVERED, ScriptedServer, both, legacy, modern, silence, text

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def entry(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": SCHEMA, **more}


def page(*tools: Any, cursor: Any = None) -> dict[str, Any]:
    result = {"resultType": "complete", "tools": list(tools), "ttlMs": 0, "cacheScope": "public"}
    return result if cursor is None else {**result, "nextCursor": cursor}


# --- listing ---


@pytest.mark.parametrize("scripted", both(), ids=["modern", "legacy"])
async def test_a_tool_keeps_all_its_server_says_of_it(scripted: ScriptedServer) -> None:
    said = entry(
        "find",
        title="Find it",
        description="Finds.",
        outputSchema={"type": "string"},
        annotations={"readOnlyHint": True},
        icons=[{"src": "https://x.example/i.png"}],
        _meta={"team": "a"},
        unheard={"of": 1},
    )
    scripted.replies["tools/list"] = page(said)
    async with scripted.client() as client:
        (tool,) = await client.list_tools()
    assert tool.wire == said
    assert (tool.name, tool.description) == ("find", "Finds.")
    assert (tool.input_schema, tool.output_schema) == (SCHEMA, {"type": "string"})
    assert (tool.definition.title, tool.definition.annotations) == ("Find it", {"readOnlyHint": True})
    assert tool.definition.meta == {"team": "a"}
    assert tool.definition.source.file == "scripted"


async def test_all_pages_are_read_even_after_an_empty_cursor() -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        pages = {None: page(entry("a"), cursor=""), "": page(entry("b"), cursor="x"), "x": page(entry("c"))}
        scripted.answer(message, pages[message["params"].get("cursor")])

    async with modern(tools_list=reply).client() as client:
        assert [tool.name for tool in await client.list_tools()] == ["a", "b", "c"]


@pytest.mark.parametrize("cursor", ["again", "", 5, ["x"], {}])
async def test_pages_in_a_circle_end(cursor: Any) -> None:
    scripted = modern(tools_list=page(entry("a"), cursor=cursor))
    async with scripted.client() as client:
        with pytest.raises(InvalidResponseError, match="scripted repeats a tools/list cursor"):
            await client.list_tools()
    assert len(scripted.named("tools/list")) <= 2


async def test_pages_and_tools_without_end_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        number = len(scripted.named("tools/list"))
        scripted.answer(message, page(entry(f"t{number}"), cursor=f"c{number}"))

    monkeypatch.setattr(client_module, "MAX_PAGES", 5)
    async with modern(tools_list=endless).client() as client:
        with pytest.raises(InvalidResponseError, match="more than 5 pages of tools/list"):
            await client.list_tools()
        monkeypatch.setattr(client_module, "MAX_ENTRIES", 3)
        with pytest.raises(InvalidResponseError, match="more than 3 tools"):
            await client.list_tools()


@pytest.mark.parametrize("tools", [None, {}, "x", 5])
async def test_a_list_that_is_none_is_an_error(tools: Any) -> None:
    async with modern(tools_list={"tools": tools}).client() as client:
        with pytest.raises(InvalidResponseError, match="scripted sent a list of tools without entries"):
            await client.list_tools()


async def test_anything_that_is_wrong_with_one_tool_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    odd = entry("odd", description=5, title=[], annotations="x", outputSchema=7, _meta="y")
    bad: list[Any] = [None, 5, {}, {"name": 5, "inputSchema": {}}, {"name": "bare"}, entry("good")]
    async with modern(tools_list=page(entry("good"), *bad, odd)).client() as client:
        tools = await client.list_tools()
    assert [tool.name for tool in tools] == ["good", "odd"]
    assert (tools[1].description, tools[1].definition.annotations) == ("", {})
    assert "scripted lists an invalid tool: 'bare' has no inputSchema" in caplog.text
    assert "scripted lists the tool 'good' twice; the second is ignored" in caplog.text


async def test_a_server_without_tools_has_none() -> None:
    scripted = ScriptedServer({"server/discover": {**DISCOVERED, "capabilities": {"prompts": {}}}})
    async with scripted.client() as client:
        assert await client.list_tools() == []


async def test_a_server_that_promises_tools_and_lists_none_is_an_error() -> None:
    async with modern().client() as client:
        with pytest.raises(RemoteError, match="Method not found"):
            await client.list_tools()


def test_marks_for_headers_matter_over_http_only(caplog: pytest.LogCaptureFixture) -> None:
    bad = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
    tools = [{"name": "t", "inputSchema": bad}]

    def read(over_http: bool) -> list[Any]:
        return list(read_items(tools, "x", "tool", lambda item: parse_tool(item, "x", over_http=over_http)))

    assert len(read(over_http=False)) == 1
    assert read(over_http=True) == []
    assert "needs a type that fits" in caplog.text


# --- results ---


async def test_a_result_keeps_its_content_its_data_and_its_notes() -> None:
    blocks = [
        {"type": "text", "text": "a"},
        {"type": "image", "data": "eA==", "mimeType": "image/png"},
        {"type": "unheard-of", "x": 1},
        {"type": "text", "text": "b", "annotations": {"priority": 1}},
    ]
    server = {"io.modelcontextprotocol/serverInfo": {"name": "scripted"}}
    reply = {"content": blocks, "structuredContent": None, "isError": True, "_meta": {"cost": 3, **server}}
    async with modern(tools_call=reply).client() as client:
        result = await client.call("t")
    assert (result.content, result.text) == (blocks, "a\nb")
    assert (result.is_structured, result.structured_content) == (True, None)
    assert (result.is_error, result.meta) == (True, {"cost": 3})


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"content": None},
        {"content": "text"},
        {"content": [5]},
        {"content": [{}]},
        {"content": [{"type": 5}]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "text", "text": 5}]},
    ],
)
async def test_content_that_is_none_is_an_error(result: dict[str, Any]) -> None:
    async with modern(tools_call=result).client() as client:
        with pytest.raises(InvalidResponseError, match="scripted returned "):
            await client.call("t")


async def test_a_kind_of_result_nobody_asked_for_is_an_error() -> None:
    async with modern(tools_call={"resultType": "job", "jobId": "1"}).client() as client:
        with pytest.raises(InvalidResponseError, match="the unknown resultType 'job'"):
            await client.call("t")


# --- errors of a call ---


@pytest.mark.parametrize("words", ["Unknown tool: nope", "Tool 'nope' not found", "no such tool (nope)"])
async def test_an_unknown_tool_is_told_from_other_errors(words: str) -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        scripted.refuse(message, -32602, words)

    async with modern(tools_call=reply).client() as client:
        with pytest.raises(ToolNotFoundError, match="Unknown tool: nope"):
            await client.call("nope")


@pytest.mark.parametrize(
    ("code", "words"),
    [(-32602, "Bad state"), (-32603, "Unknown tool: nope"), (-32602, "unknown parameter x")],
)
async def test_another_error_stays_what_it_is(code: int, words: str) -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        scripted.refuse(message, code, words)

    async with modern(tools_call=reply).client() as client:
        with pytest.raises(RemoteError) as caught:
            await client.call("nope")
    assert (caught.value.rpc_code, caught.value.message) == (code, words)


async def test_a_listed_tool_is_never_unknown() -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        scripted.refuse(message, -32602, "find: unknown city")

    async with modern(tools_call=reply, tools_list=page(entry("find"))).client() as client:
        await client.list_tools()
        with pytest.raises(RemoteError, match="unknown city"):
            await client.call("find")


# --- changes ---


def listening(scripted: ScriptedServer, message: dict[str, Any]) -> None:
    """Acknowledges a subscription, and tells of one change at once."""
    tag = {"io.modelcontextprotocol/subscriptionId": message["id"]}
    scripted.notify(
        "notifications/subscriptions/acknowledged", notifications={"toolsListChanged": True}, _meta=tag
    )
    scripted.notify("notifications/tools/list_changed", _meta=tag)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_changes_are_told_to_every_listener(era: str) -> None:
    scripted = modern(subscriptions_listen=listening) if era == "modern" else legacy()
    heard: list[str] = []
    came = asyncio.Event()

    async def late() -> None:
        heard.append("async")
        came.set()

    async with scripted.client() as client:
        agreed = [client.on_tools_changed(lambda: heard.append("plain")), client.on_tools_changed(late)]
        assert await asyncio.gather(*agreed) == [True, True]
        if era == "legacy":
            scripted.notify("notifications/tools/list_changed")
        await asyncio.wait_for(came.wait(), 5)
    assert heard == ["plain", "async"]
    assert len(scripted.named("subscriptions/listen")) == (1 if era == "modern" else 0)


async def test_a_server_that_cannot_tell_is_known_as_one() -> None:
    silent = {**DISCOVERED, "capabilities": {"tools": {"listChanged": False}}}
    scripted = ScriptedServer({"server/discover": silent, "subscriptions/listen": silence})
    async with scripted.client() as client:
        assert await client.on_tools_changed(lambda: None) is False
    assert not scripted.named("subscriptions/listen")
    async with modern().client() as client:  # promises it, and refuses
        assert await client.on_tools_changed(lambda: None) is False
    async with modern(subscriptions_listen=silence).client(timeout_s=0.05) as client:
        assert await client.on_tools_changed(lambda: None) is False


async def test_a_subscription_that_ends_is_made_again_and_what_was_missed_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        tag = {"io.modelcontextprotocol/subscriptionId": message["id"]}
        scripted.notify(
            "notifications/subscriptions/acknowledged", notifications={"toolsListChanged": True}, _meta=tag
        )
        if len(scripted.named("subscriptions/listen")) == 1:
            scripted.answer(message, {"resultType": "complete", "_meta": tag})

    monkeypatch.setattr("toolcrib.client.changes._FIRST_PAUSE_S", 0.01)
    scripted = modern(subscriptions_listen=reply)
    rung = asyncio.Event()
    async with scripted.client() as client:
        assert await client.on_tools_changed(rung.set)
        await asyncio.wait_for(rung.wait(), 5)
        assert len(scripted.named("subscriptions/listen")) == 2
    assert scripted.named("notifications/cancelled")


async def test_a_busy_listener_is_called_once_for_all_it_missed() -> None:
    calls = 0
    release = asyncio.Event()

    async def slow() -> None:
        nonlocal calls
        calls += 1
        await release.wait()

    scripted = legacy(tools_call=text("well"))
    async with scripted.client() as client:
        await client.on_tools_changed(slow)
        for _ in range(500):
            scripted.notify("notifications/tools/list_changed")
        await client.call("t")
        release.set()
        while calls < 2:
            await asyncio.sleep(0)
        await client.call("t")
    assert calls == 2


async def test_a_listener_to_changes_that_fails_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    async def fail_late() -> None:
        raise ZeroDivisionError("late")

    def fail() -> None:
        raise ZeroDivisionError("at once")

    scripted = legacy(tools_call=text("well"))
    async with scripted.client() as client:
        await client.on_tools_changed(fail)
        await client.on_tools_changed(fail_late)
        scripted.notify("notifications/tools/list_changed")
        await client.call("t")
    assert "ZeroDivisionError: at once" in caplog.text
    assert "ZeroDivisionError: late" in caplog.text


# --- targets ---


@pytest.mark.parametrize("target", ["server.py", "python server.py", "ftp://x", "", []])
def test_a_target_that_is_neither_address_nor_command_is_refused(target: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"not a URL|command must be a list"):
        Client(target)


def test_a_command_takes_no_headers() -> None:
    with pytest.raises(ConfigurationError, match="headers are only supported for URLs"):
        Client(["python"], headers={"A": "b"})
