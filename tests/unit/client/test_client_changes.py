"""Changes of resources and prompts, announced by a scripted server of either era."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .scripted_http import Answer
from .scripted_http import legacy as legacy_stage
from .scripted_server import DISCOVERED, INITIALIZED, Reply, ScriptedServer, silence, text

ALL = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def grant(scripted: ScriptedServer, message: dict[str, Any], granted: Any = None) -> None:
    wanted = message["params"]["notifications"] if granted is None else granted
    tag = {SUBSCRIPTION: message["id"]}
    scripted.notify("notifications/subscriptions/acknowledged", notifications=wanted, _meta=tag)


def modern(listen: Reply = grant, **more: Reply) -> ScriptedServer:
    found = {**DISCOVERED, "capabilities": ALL}
    return ScriptedServer(
        {"server/discover": found, "subscriptions/listen": listen, "tools/call": text("x"), **more}
    )


def legacy(**more: Reply) -> ScriptedServer:
    found = {**INITIALIZED, "capabilities": ALL}
    return ScriptedServer(
        {
            "initialize": found,
            "resources/subscribe": {},
            "resources/unsubscribe": {},
            "tools/call": text("x"),
            **more,
        }
    )


def filters(scripted: ScriptedServer) -> list[dict[str, Any]]:
    return [message["params"]["notifications"] for message in scripted.named("subscriptions/listen")]


@pytest.mark.parametrize("make", [modern, legacy])
async def test_each_list_has_its_own_listeners(make: Any) -> None:
    scripted, heard = make(), []
    async with scripted.client() as client:
        agreed = await asyncio.gather(
            client.on_tools_changed(lambda: heard.append("tools")),
            client.on_prompts_changed(lambda: heard.append("prompts")),
            client.on_resources_changed(lambda: heard.append("resources")),
        )
        assert agreed == [True, True, True]
        for kind in ("prompts", "resources", "tools", "unknown"):
            scripted.notify(f"notifications/{kind}/list_changed")
        await client.call("t")
    assert heard == ["prompts", "resources", "tools"]
    if make is modern:
        together = dict.fromkeys(("toolsListChanged", "promptsListChanged", "resourcesListChanged"), True)
        assert filters(scripted) == [together]


@pytest.mark.parametrize("make", [modern, legacy])
async def test_a_resource_and_those_below_it_are_watched(make: Any) -> None:
    scripted, heard = make(), []
    async with scripted.client() as client:
        assert await client.subscribe("a://1", heard.append) is True
        for uri in ("a://1", "a://1/x", "a://12", "b://1", 5):
            scripted.notify("notifications/resources/updated", uri=uri)
        await client.call("t")
        assert heard == ["a://1", "a://1/x"]
        await client.unsubscribe("a://1")
        await client.unsubscribe("a://never")
        scripted.notify("notifications/resources/updated", uri="a://1")
        await client.call("t")
    assert heard == ["a://1", "a://1/x"]
    if make is legacy:
        (sent,) = scripted.named("resources/unsubscribe")
        assert sent["params"] == {"uri": "a://1"}


async def test_one_stream_is_replaced_by_one_that_asks_for_more() -> None:
    scripted = modern()
    async with scripted.client() as client:
        assert await client.on_tools_changed(lambda: None)
        for uri in ("a://1", "a://2"):
            assert await client.subscribe(uri, lambda uri: None)
        await client.call("t")
        listens = scripted.named("subscriptions/listen")
        assert filters(scripted) == [
            {"toolsListChanged": True},
            {"toolsListChanged": True, "resourceSubscriptions": ["a://1"]},
            {"toolsListChanged": True, "resourceSubscriptions": ["a://1", "a://2"]},
        ]
        ended = [message["params"]["requestId"] for message in scripted.named("notifications/cancelled")]
        assert ended == [message["id"] for message in listens[:2]]
        await client.unsubscribe("a://1")
        assert filters(scripted)[-1] == {"toolsListChanged": True, "resourceSubscriptions": ["a://2"]}
        assert await client.subscribe("a://2", lambda uri: None)  # is watched already
        assert len(filters(scripted)) == 4


async def test_the_stream_that_was_replaced_is_no_longer_heard() -> None:
    def listen(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        grant(scripted, message)
        for listen in scripted.named("subscriptions/listen"):  # both send what they were asked for
            tag = {SUBSCRIPTION: listen["id"]}
            scripted.notify("notifications/resources/updated", uri="a://1", _meta=tag)

    scripted, heard = modern(listen), []
    async with scripted.client() as client:
        for uri in ("a://1", "a://2"):
            assert await client.subscribe(uri, heard.append)
        await client.call("t")
    assert heard == ["a://1", "a://1"]


async def test_the_last_unsubscribe_ends_the_stream() -> None:
    scripted = modern()
    async with scripted.client() as client:
        assert await client.subscribe("a://1", lambda uri: None)
        await client.unsubscribe("a://1")
        await client.call("t")
        assert len(filters(scripted)) == len(scripted.named("notifications/cancelled")) == 1


async def test_only_what_the_server_grants_is_agreed() -> None:
    def partly(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        grant(scripted, message, {"promptsListChanged": True, "resourceSubscriptions": ["a://1"]})

    async with modern(partly).client() as client:
        agreed = await asyncio.gather(
            client.on_tools_changed(lambda: None),
            client.on_prompts_changed(lambda: None),
            client.subscribe("a://1", lambda uri: None),
            client.subscribe("a://2", lambda uri: None),
        )
        assert agreed == [False, True, True, False]


async def test_a_stream_that_is_refused_leaves_the_older_one_open() -> None:
    def listen(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        if len(scripted.named("subscriptions/listen")) == 2:
            scripted.refuse(message, -32602, "too many")
        else:
            grant(scripted, message)

    scripted, heard = modern(listen), []
    async with scripted.client() as client:
        assert await client.subscribe("a://1", heard.append)
        assert await client.subscribe("a://2", heard.append) is False
        for uri in ("a://1", "a://2"):
            scripted.notify("notifications/resources/updated", uri=uri)
        await client.call("t")
        assert heard == ["a://1"]
        assert not scripted.named("notifications/cancelled")
        assert await client.subscribe("a://3", heard.append)
        assert filters(scripted)[-1] == {"resourceSubscriptions": ["a://1", "a://3"]}


async def test_anything_that_was_missed_while_a_stream_was_broken_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def listen(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        grant(scripted, message)
        if len(scripted.named("subscriptions/listen")) == 1:
            scripted.answer(message, {"resultType": "complete"})

    monkeypatch.setattr("toolcrib.client.changes._FIRST_PAUSE_S", 0.01)
    heard: asyncio.Queue[str] = asyncio.Queue()
    async with modern(listen).client() as client:
        await client.subscribe("a://1", heard.put_nowait)
        assert await asyncio.wait_for(heard.get(), 5) == "a://1"


async def test_a_server_that_grants_nothing_and_ends_the_stream_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def listen(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        grant(scripted, message, {})
        scripted.answer(message, {"resultType": "complete"})

    monkeypatch.setattr("toolcrib.client.changes._FIRST_PAUSE_S", 0.001)
    scripted = modern(listen)
    async with scripted.client() as client:
        assert await client.on_tools_changed(lambda: None) is False
        for _ in range(3):
            await asyncio.sleep(0.005)
            await client.call("t")
    assert len(filters(scripted)) == 1


async def test_streams_that_end_at_once_are_opened_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def listen(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        grant(scripted, message)
        scripted.answer(message, {"resultType": "complete"})

    monkeypatch.setattr("toolcrib.client.changes._FIRST_PAUSE_S", 0.01)
    scripted = modern(listen)
    async with scripted.client() as client:
        assert await client.on_tools_changed(lambda: None)
        await asyncio.sleep(0.3)
    assert 2 <= len(filters(scripted)) <= 6  # after 10, 30, 70, 150 and 310 ms


@pytest.mark.parametrize("make", [modern, legacy])
async def test_a_server_that_announces_nothing_is_not_asked(make: Any) -> None:
    scripted = make()
    key = "server/discover" if make is modern else "initialize"
    scripted.replies[key] = {**scripted.replies[key], "capabilities": {"resources": {}}}
    async with scripted.client() as client:
        assert await client.on_resources_changed(lambda: None) is False
        assert await client.subscribe("a://1", lambda uri: None) is False
    assert not scripted.named("subscriptions/listen") + scripted.named("resources/subscribe")


async def test_a_refusal_of_a_legacy_server_is_not_an_error() -> None:
    def refuse(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        scripted.refuse(message, -32002, "unknown")

    scripted, heard = legacy(**{"resources/subscribe": refuse}), []
    async with scripted.client() as client:
        assert await client.subscribe("a://1", heard.append) is False
        scripted.notify("notifications/resources/updated", uri="a://1")
        await client.call("t")
    assert heard == []


async def test_a_server_that_never_acknowledges_is_given_up() -> None:
    async with modern(silence).client(timeout_s=0.05) as client:
        assert await client.subscribe("a://1", lambda uri: None) is False


async def test_a_busy_listener_hears_every_uri_once() -> None:
    heard: list[str] = []
    release = asyncio.Event()

    async def slow(uri: str) -> None:
        heard.append(uri)
        await release.wait()

    scripted = legacy()
    async with scripted.client() as client:
        await client.subscribe("a://1", slow)
        for uri in ("a://1", "a://1/x", "a://1/y", "a://1/x"):
            scripted.notify("notifications/resources/updated", uri=uri)
        await client.call("t")
        release.set()
        async with asyncio.timeout(5):
            while len(heard) < 3:
                await asyncio.sleep(0)
        await client.call("t")
    assert heard == ["a://1", "a://1/x", "a://1/y"]


async def test_subscriptions_are_made_again_in_a_new_session() -> None:
    sessions = 0

    def greet(answer: Answer) -> None:
        nonlocal sessions
        sessions += 1
        answer.result({**INITIALIZED, "capabilities": ALL}, Mcp_Session_Id=f"session-{sessions}")

    def call(answer: Answer) -> None:
        if answer.request.headers["mcp-session-id"] == "session-1":
            answer.send(404)
        else:
            answer.result(text("x"))

    async def stream(answer: Answer) -> None:
        answer.start_events()
        await answer.writer.drain()
        await answer.gone()

    scripted = legacy_stage(initialize=greet, tools_call=call, GET=stream, resources_subscribe={})
    async with scripted, scripted.client() as client:
        heard: asyncio.Queue[str] = asyncio.Queue()
        assert await client.subscribe("a://1", heard.put_nowait)
        await client.call("t")
        assert await asyncio.wait_for(heard.get(), 5) == "a://1"  # it may have changed meanwhile
        sent = [request.headers["mcp-session-id"] for request in scripted.named("resources/subscribe")]
    assert sent == ["session-1", "session-2"]
