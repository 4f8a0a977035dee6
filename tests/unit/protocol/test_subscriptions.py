"""Changes of lists and of resources, announced in both eras."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.support.clients.raw_pipe import MODERN, PREFIX, RawPipe, raw_pipe
from toolcrib import MCPServer
from toolcrib.config.settings import Policy, Rule
from toolcrib.context import Principal
from toolcrib.protocol import sessions
from toolcrib.protocol.revisions import LEGACY
from toolcrib.protocol.sessions import MAX_SUBSCRIBED
from toolcrib.protocol.subscriptions import MAX_PER_PRINCIPAL

UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
EVERY_LIST = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


def make_server(**settings: Any) -> MCPServer:
    server = MCPServer("shop", **settings)
    server.tool("count")(lambda: 1)
    server.add_resource("shop://stock", "2")
    server.resource("shop://orders/{id}")(lambda id: id)
    server.prompt("greet")(lambda: "Hello")
    return server


async def listen(pipe: RawPipe, **wanted: Any) -> tuple[int, dict[str, Any]]:
    """Open a subscription; return its id and what is granted."""
    id_ = pipe.begin("subscriptions/listen", {"notifications": wanted})
    params = (await pipe.notice(ACKNOWLEDGED))["params"]
    assert params["_meta"] == {PREFIX + "subscriptionId": id_}
    return id_, params["notifications"]


async def settle(pipe: RawPipe) -> None:
    """Wait until everything that was sent before has arrived."""
    await pipe.ask("tools/list")


# --- what is granted -----------------------------------------------------------------------------------


async def test_a_sealed_server_grants_no_list_but_its_resources() -> None:
    async with raw_pipe(make_server()) as pipe:
        uris = ["shop://stock", "shop://orders/7", "shop://nothing", "shop://stock"]
        _, granted = await listen(pipe, **EVERY_LIST, resourceSubscriptions=uris)
        assert granted == {"resourceSubscriptions": ["shop://stock", "shop://orders/7"]}


async def test_a_sealed_server_of_tools_acknowledges_nothing_and_keeps_the_subscription() -> None:
    async with raw_pipe(MCPServer("shop")) as pipe:
        id_, granted = await listen(pipe, **EVERY_LIST, resourceSubscriptions=["a:b"])
        assert granted == {}
        await settle(pipe)
        assert not [message for message in pipe.messages if message.get("id") == id_]


async def test_a_dynamic_server_grants_what_is_asked_for() -> None:
    async with raw_pipe(make_server(dynamic=True)) as pipe:
        assert (await listen(pipe, **EVERY_LIST))[1] == EVERY_LIST
        assert (await listen(pipe, promptsListChanged=True))[1] == {"promptsListChanged": True}
        assert (await listen(pipe, promptsListChanged="yes", other=True))[1] == {}


async def test_anything_that_a_principal_may_not_see_is_not_granted() -> None:
    policy = Policy(rules=[Rule(deny=["resource:shop://stock"], who=["key:ana"])])
    server = make_server(policy=policy)
    async with server:
        async with raw_pipe(server, principal=Principal("key:ana")) as ana:
            assert (await listen(ana, resourceSubscriptions=["shop://stock"]))[1] == {}
        async with raw_pipe(server, principal=Principal("key:bob")) as bob:
            granted = (await listen(bob, resourceSubscriptions=["shop://stock"]))[1]
            assert granted == {"resourceSubscriptions": ["shop://stock"]}
        async with raw_pipe(server, "2025-11-25", principal=Principal("key:ana")) as old:
            error = await old.error("resources/subscribe", {"uri": "shop://stock"})
            assert error == await old.error("resources/subscribe", {"uri": "shop://stock"})
            assert (error["code"], error["message"]) == (-32002, "Resource not found: shop://stock")


@pytest.mark.parametrize(
    "wanted",
    [
        None,
        [],
        "x",
        {"resourceSubscriptions": "a:b"},
        {"resourceSubscriptions": [5]},
        {"resourceSubscriptions": None},
    ],
)
async def test_a_filter_of_the_wrong_type_is_refused(wanted: Any) -> None:
    async with raw_pipe(make_server()) as pipe:
        assert (await pipe.error("subscriptions/listen", {"notifications": wanted}))["code"] == -32602


async def test_subscriptions_and_their_uris_are_limited() -> None:
    server = make_server()
    async with raw_pipe(server, principal=Principal("key:ana")) as pipe:
        many = [f"shop://orders/{number}" for number in range(MAX_SUBSCRIBED + 1)]
        refused = await pipe.error("subscriptions/listen", {"notifications": {"resourceSubscriptions": many}})
        assert (refused["code"], f"at most {MAX_SUBSCRIBED}" in refused["message"]) == (-32602, True)
        for _ in range(MAX_PER_PRINCIPAL):
            await listen(pipe, resourceSubscriptions=many[:-1])
        refused = await pipe.error("subscriptions/listen", {"notifications": {}})
        assert "Too many subscriptions" in refused["message"]


@pytest.mark.parametrize("version", list(LEGACY))
async def test_a_legacy_session_has_a_limited_number_of_subscriptions(version: str) -> None:
    async with raw_pipe(make_server(), version) as pipe:
        for number in range(100):
            assert await pipe.result("resources/subscribe", {"uri": f"shop://orders/{number}"}) == {}
        refused = await pipe.error("resources/subscribe", {"uri": "shop://stock"})
        assert "at most 100" in refused["message"]
        assert await pipe.result("resources/subscribe", {"uri": "shop://orders/0"}) == {}
        assert await pipe.result("resources/unsubscribe", {"uri": "shop://orders/0"}) == {}
        assert await pipe.result("resources/subscribe", {"uri": "shop://stock"}) == {}


async def test_the_uris_of_a_stream_have_bounds() -> None:
    async with raw_pipe(make_server()) as pipe:
        for uris in (["shop://orders/".ljust(5_000, "x")], [f"shop://{n:04000}" for n in range(9)]):
            wanted = {"resourceSubscriptions": uris}
            assert (await pipe.error("subscriptions/listen", {"notifications": wanted}))["code"] == -32602


async def test_pipes_without_credentials_share_a_bound_and_give_back_what_they_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "MAX_UNKNOWN_BYTES", 5_000)
    server, params = make_server(), {"uri": "shop://orders/".ljust(3_000, "x")}
    async with raw_pipe(server, "2024-11-05") as pipe:
        async with raw_pipe(server, "2024-11-05") as other:
            assert await other.result("resources/subscribe", params) == {}
            refused = await pipe.error("resources/subscribe", params)
            assert refused["message"] == "Too many subscriptions: try again later"
            async with raw_pipe(server, "2025-11-25", principal=Principal("key:ana")) as known:
                assert await known.result("resources/subscribe", params) == {}
        assert await pipe.result("resources/subscribe", params) == {}


async def test_the_methods_belong_to_their_eras() -> None:
    async with raw_pipe(make_server()) as pipe:
        for method in ("resources/subscribe", "resources/unsubscribe"):
            assert (await pipe.error(method, {"uri": "shop://stock"}))["code"] == -32601
    async with raw_pipe(make_server(), "2025-11-25") as pipe:
        assert (await pipe.error("subscriptions/listen", {"notifications": {}}))["code"] == -32601
        assert (await pipe.error("resources/subscribe", {"uri": "shop://nothing"}))["code"] == -32002
        assert (await pipe.error("resources/subscribe", {}))["code"] == -32602
        assert await pipe.result("resources/unsubscribe", {"uri": "shop://nothing"}) == {}


async def test_a_server_without_sessions_offers_no_legacy_subscriptions() -> None:
    server = make_server(keeps_sessions=False)
    async with server, raw_pipe(server, "2025-11-25") as old, raw_pipe(server) as new:
        assert old.offered["resources"] == {}
        assert new.offered["resources"] == {"subscribe": True}


# --- what is announced ---------------------------------------------------------------------------------


async def test_those_who_subscribed_hear_of_a_change_and_nobody_else() -> None:
    server = make_server()
    async with (
        server,
        raw_pipe(server) as new,
        raw_pipe(server) as other,
        raw_pipe(server, "2025-06-18") as old,
    ):
        id_, _ = await listen(new, resourceSubscriptions=["shop://stock", "shop://orders/7"])
        await listen(other, resourceSubscriptions=["shop://orders/8"])
        await old.result("resources/subscribe", {"uri": "shop://stock"})
        await server.resource_changed("shop://stock")
        changed = await new.notice(UPDATED)
        assert changed["params"] == {"uri": "shop://stock", "_meta": {PREFIX + "subscriptionId": id_}}
        assert (await old.notice(UPDATED))["params"] == {"uri": "shop://stock"}
        await settle(other)
        assert other.seen(UPDATED) == []
        await old.result("resources/unsubscribe", {"uri": "shop://stock"})
        await server.resource_changed("shop://orders/7")
        await server.resource_changed("shop://stock")
        assert (await new.notice(UPDATED))["params"]["uri"] == "shop://orders/7"
        await settle(old)
        assert old.seen(UPDATED) == []


async def test_a_change_may_be_announced_from_a_thread_and_without_clients() -> None:
    server = make_server()
    await server.resource_changed("shop://stock")
    async with raw_pipe(server) as pipe:
        await listen(pipe, resourceSubscriptions=["shop://stock"])
        thread = threading.Thread(target=lambda: asyncio.run(server.resource_changed("shop://stock")))
        thread.start()
        assert (await pipe.notice(UPDATED))["params"]["uri"] == "shop://stock"
        thread.join()
    await server.resource_changed("shop://stock")


@pytest.mark.parametrize("kind", ["tools", "resources", "prompts"])
@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", MODERN])
async def test_switching_at_run_time_announces_the_list_that_has_changed(kind: str, version: str) -> None:
    server = make_server(dynamic=True)
    registry = {"tools": server.registry, "resources": server.resources, "prompts": server.prompts}[kind]
    name = {"tools": "count", "resources": "shop://stock", "prompts": "greet"}[kind]
    async with raw_pipe(server, version) as pipe:
        if version == MODERN:
            await listen(pipe, **EVERY_LIST)
        before = (await pipe.result(f"{kind}/list"))[kind]
        registry.disable(name)
        await pipe.notice(f"notifications/{kind}/list_changed")
        assert (await pipe.result(f"{kind}/list"))[kind] == [
            entry for entry in before if name not in (entry.get("uri"), entry["name"])
        ]
        registry.enable(name)
        await pipe.notice(f"notifications/{kind}/list_changed")
        assert (await pipe.result(f"{kind}/list"))[kind] == before
        others = {"tools", "resources", "prompts"} - {kind}
        assert not [other for other in others if pipe.seen(f"notifications/{other}/list_changed")]


async def test_templates_that_come_and_go_change_the_list_of_resources() -> None:
    server = make_server(dynamic=True)
    async with raw_pipe(server) as pipe:
        await listen(pipe, resourcesListChanged=True)
        server.resource("shop://more/{id}")(lambda id: id)
        await pipe.notice("notifications/resources/list_changed")
        found = (await pipe.result("resources/templates/list"))["resourceTemplates"]
        assert [entry["uriTemplate"] for entry in found] == ["shop://orders/{id}", "shop://more/{id}"]


async def test_a_subscription_ends_with_the_server() -> None:
    server = make_server()
    await server.start()
    pipe = RawPipe(server)
    await pipe.open({})
    id_, _ = await listen(pipe, resourceSubscriptions=["shop://stock"])
    await server.stop()
    ended = await pipe.find(lambda message: message.get("id") == id_)
    assert ended["result"]["resultType"] == "complete"
    assert ended["result"]["_meta"][PREFIX + "subscriptionId"] == id_
    await pipe.close()
    assert server.transports.engine.subscriptions == set()


async def test_a_cancelled_subscription_hears_nothing_more() -> None:
    server = make_server()
    async with raw_pipe(server) as pipe:
        id_, _ = await listen(pipe, resourceSubscriptions=["shop://stock"])
        pipe.send({"method": "notifications/cancelled", "params": {"requestId": id_}})
        for _ in range(3):
            await settle(pipe)
        assert server.transports.engine.subscriptions == set()
        await server.resource_changed("shop://stock")
        await settle(pipe)
        assert pipe.seen(UPDATED) == []


async def test_clients_whose_event_loop_has_ended_do_not_keep_changes_from_others() -> None:
    server = make_server(dynamic=True)

    async def open_and_forget() -> None:
        await RawPipe(server, "2025-11-25").open({})

    async with raw_pipe(server, "2025-11-25") as pipe:
        for _ in range(8):
            await asyncio.to_thread(asyncio.run, open_and_forget())
        server.transports.engine.announce_change("prompts")
        assert await pipe.notice("notifications/prompts/list_changed")
        await pipe.result("resources/subscribe", {"uri": "shop://stock"})
        await server.resource_changed("shop://stock")
        assert await pipe.notice(UPDATED)
