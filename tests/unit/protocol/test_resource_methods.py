"""Resources on the wire: every revision's fields, errors, paging, hints, and what happens during a read."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.support.clients.raw_pipe import MODERN, PREFIX, raw_pipe
from toolcrib import Context, MCPServer, ToolError
from toolcrib.protocol.revisions import LEGACY

VERSIONS = [*LEGACY, MODERN]
OLD = ["2024-11-05", "2025-03-26"]
NOT_FOUND = dict.fromkeys(LEGACY, -32002) | {MODERN: -32602}


def make_server(**settings: Any) -> MCPServer:
    server = MCPServer("shop", **settings)

    @server.resource(
        "shop://stock",
        title="Stock",
        mime_type="text/csv",
        size=7,
        annotations={"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-31T10:00:00Z"},
        icons=[{"src": "https://shop.example/i.png"}],
        meta={"shop.example/rank": 1},
    )
    def stock() -> str:
        """What is left."""
        return "tea,2\n"

    @server.resource("shop://orders/{id}", title="Order", icons=[{"src": "https://shop.example/o.png"}])
    def order(id: int) -> dict[str, Any]:
        """One order."""
        return {"id": id}

    @server.resource("shop://both")
    def both() -> dict[str, Any]:
        return {"contents": [{"uri": "shop://1", "text": "one", "_meta": {"a": 1}}]}

    server.add_resource("shop://hours", "9 to 5")
    return server


# --- the lists -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_revision_lists_the_fields_that_it_knows(version: str) -> None:
    async with raw_pipe(make_server(), version) as pipe:
        listed = (await pipe.result("resources/list"))["resources"]
        templates = (await pipe.result("resources/templates/list"))["resourceTemplates"]
    expected: dict[str, Any] = {
        "uri": "shop://stock",
        "name": "stock",
        "title": "Stock",
        "description": "What is left",
        "mimeType": "text/csv",
        "size": 7,
        "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-31T10:00:00Z"},
        "icons": [{"src": "https://shop.example/i.png"}],
        "_meta": {"shop.example/rank": 1},
    }
    template = {
        "uriTemplate": "shop://orders/{id}",
        "name": "order",
        "title": "Order",
        "description": "One order",
        "icons": [{"src": "https://shop.example/o.png"}],
    }
    if version not in ("2025-11-25", MODERN):
        del expected["icons"], template["icons"]
    if version in OLD:
        del expected["title"], expected["_meta"], expected["annotations"]["lastModified"], template["title"]
    assert listed[0] == expected
    assert [entry["uri"] for entry in listed] == ["shop://stock", "shop://both", "shop://hours"]
    assert templates == [template]


@pytest.mark.parametrize("version", VERSIONS)
async def test_only_the_newest_revision_has_hints_about_keeping_results(version: str) -> None:
    async with raw_pipe(make_server(), version) as pipe:
        for method in ("resources/list", "resources/templates/list"):
            result = await pipe.result(method)
            hints = {key: result.get(key) for key in ("resultType", "ttlMs", "cacheScope")}
            is_modern = version == MODERN
            assert hints == {
                "resultType": "complete" if is_modern else None,
                "ttlMs": 3_600_000 if is_modern else None,
                "cacheScope": "public" if is_modern else None,
            }


async def test_a_read_may_be_kept_if_it_is_fixed_or_its_author_says_so() -> None:
    server = make_server()
    server.resource("shop://minute", ttl_ms=60_000)(lambda: "x")
    server.add_resource("shop://never", "x", ttl_ms=0)
    expected = {
        "shop://stock": (0, "private"),
        "shop://hours": (3_600_000, "public"),
        "shop://minute": (60_000, "private"),
        "shop://never": (0, "private"),
    }
    async with raw_pipe(server) as pipe:
        for uri, hints in expected.items():
            result = await pipe.result("resources/read", {"uri": uri})
            assert (result["ttlMs"], result["cacheScope"]) == hints, uri


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
async def test_lists_come_in_pages_whose_cursors_belong_to_one_list(version: str) -> None:
    server = MCPServer("shop", page_size=2)
    for number in range(5):
        server.add_resource(f"shop://{number}", "x")
        server.resource(f"shop://{number}/{{id}}")(lambda id: id)
    async with raw_pipe(server, version) as pipe:
        for method, key in (
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ):
            sizes, params = [], {}
            while True:
                page = await pipe.result(method, params)
                sizes.append(len(page[key]))
                if "nextCursor" not in page:
                    break
                params = {"cursor": page["nextCursor"]}
            assert sizes == [2, 2, 1]
            other = "resources/list" if key == "resourceTemplates" else "resources/templates/list"
            assert (await pipe.error(other, params))["code"] == -32602
        for wrong in ("x", 5, None):
            assert (await pipe.error("resources/list", {"cursor": wrong}))["code"] == -32602


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_server_without_resources_lists_none_and_has_no_subscriptions(version: str) -> None:
    server = MCPServer("shop")
    async with server, raw_pipe(server, version) as pipe:
        assert pipe.offered["resources"] == {}
        assert (await pipe.result("resources/list"))["resources"] == []
        assert (await pipe.result("resources/templates/list"))["resourceTemplates"] == []
        assert (await pipe.error("resources/read", {"uri": "a:b"}))["code"] in (-32602, -32002)
        assert (await pipe.error("resources/subscribe", {"uri": "a:b"}))["code"] == -32601


@pytest.mark.parametrize("version", VERSIONS)
async def test_capabilities_say_what_the_server_can_do(version: str) -> None:
    for settings, expected in (
        ({}, {"subscribe": True}),
        ({"dynamic": True}, {"subscribe": True, "listChanged": True}),
    ):
        server = make_server(**settings)
        async with server, raw_pipe(server, version) as pipe:
            assert pipe.offered["resources"] == expected


async def test_lists_are_served_when_the_last_resource_has_gone() -> None:
    server = MCPServer("shop", dynamic=True)
    server.add_resource("shop://x", "x")
    server.prompt("p")(lambda: "x")
    async with server, raw_pipe(server, "2025-11-25") as pipe:
        server.resources.remove("shop://x")
        server.prompts.disable("p")
        assert (await pipe.result("resources/list"))["resources"] == []
        assert (await pipe.result("resources/templates/list"))["resourceTemplates"] == []
        assert (await pipe.result("prompts/list"))["prompts"] == []
        assert (await pipe.error("resources/read", {"uri": "shop://x"}))["code"] == -32002


# --- reading -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_read_echoes_the_uri_and_has_the_fields_of_its_revision(version: str) -> None:
    async with raw_pipe(make_server(), version) as pipe:
        read = await pipe.result("resources/read", {"uri": "shop://orders/7"})
        assert read["contents"] == [
            {"uri": "shop://orders/7", "mimeType": "application/json", "text": '{"id":7}'}
        ]
        both = await pipe.result("resources/read", {"uri": "shop://both"})
        meta = {} if version in OLD else {"_meta": {"a": 1}}
        assert both["contents"] == [{"uri": "shop://1", "text": "one", **meta}]
        if version == MODERN:
            assert read["resultType"] == "complete"
            assert PREFIX + "serverInfo" in read["_meta"]
        else:
            assert read.keys() == {"contents"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("uri", ["shop://nothing", "", "x", "shop://orders/7/8", "shop://orders/../x", "é"])
async def test_an_unknown_uri_is_not_found(version: str, uri: str) -> None:
    async with raw_pipe(make_server(), version) as pipe:
        error = await pipe.error("resources/read", {"uri": uri})
    assert (error["code"], error["data"]) == (NOT_FOUND[version], {"uri": uri})
    assert error["message"] == f"Resource not found: {uri}"


@pytest.mark.parametrize("version", VERSIONS)
async def test_parameters_of_a_read_are_checked(version: str) -> None:
    async with raw_pipe(make_server(), version) as pipe:
        for params in ({}, {"uri": 5}, {"uri": None}, {"uri": ["shop://stock"]}):
            assert (await pipe.error("resources/read", params))["code"] == -32602
        wrong = await pipe.error("resources/read", {"uri": "shop://orders/x"})
        assert (wrong["code"], wrong["data"]["problems"][0]["field"]) == (-32602, "id")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", MODERN])
async def test_a_failing_read_is_a_jsonrpc_error_with_the_words_for_the_reader_only(version: str) -> None:
    server = MCPServer("shop")

    @server.resource("shop://refused")
    def refused() -> str:
        raise ToolError("No tea.")

    @server.resource("shop://crash")
    async def crash() -> str:
        raise OSError("/etc/secret")

    @server.resource("shop://slow", timeout_s=0.05)
    async def slow() -> str:
        await asyncio.sleep(30)
        return ""

    async with raw_pipe(server, version) as pipe:
        found = [
            await pipe.error("resources/read", {"uri": f"shop://{name}"})
            for name in ("refused", "crash", "slow")
        ]
    assert [error["code"] for error in found] == [-32603] * 3
    assert found[0]["message"] == "No tea."
    assert found[1]["message"].startswith("Resource 'shop://crash' failed unexpectedly (reference ")
    assert found[2]["message"] == "Resource 'shop://slow' did not finish within 0.05 s."


@pytest.mark.parametrize("run", ["auto", "thread", "inline"])
async def test_sync_code_runs_where_its_author_wants(run: Any) -> None:
    server = MCPServer("shop")
    server.resource("shop://thread", run=run)(
        lambda: str(threading.current_thread() is threading.main_thread())
    )
    async with raw_pipe(server) as pipe:
        read = await pipe.result("resources/read", {"uri": "shop://thread"})
    assert read["contents"][0]["text"] == str(run == "inline")


@pytest.mark.parametrize("version", VERSIONS)
async def test_progress_and_log_messages_of_a_read_reach_its_client(version: str) -> None:
    server = MCPServer("shop")

    @server.resource("shop://long/{id}")
    async def long(id: str, ctx: Context) -> str:
        await ctx.progress(1, 2, "half")
        await ctx.log("warning", f"reading {id}")
        return "done"

    async with raw_pipe(server, version) as pipe:
        meta: dict[str, Any] = {"progressToken": "p"}
        if version == MODERN:
            meta[PREFIX + "logLevel"] = "info"
        await pipe.result("resources/read", {"uri": "shop://long/7", "_meta": meta})
        progress = (await pipe.notice("notifications/progress"))["params"]
        words = {} if version == "2024-11-05" else {"message": "half"}
        assert progress == {"progressToken": "p", "progress": 1, "total": 2, **words}
        assert (await pipe.notice("notifications/message"))["params"] == {
            "level": "warning",
            "logger": "shop://long/7",
            "data": "reading 7",
        }


async def test_a_read_can_be_cancelled() -> None:
    server = MCPServer("shop")
    ended = asyncio.Event()
    began = asyncio.Event()

    @server.resource("shop://long")
    async def long() -> str:
        began.set()
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()
        return ""

    async with raw_pipe(server) as pipe:
        id_ = pipe.begin("resources/read", {"uri": "shop://long"})
        await began.wait()
        pipe.send({"method": "notifications/cancelled", "params": {"requestId": id_}})
        async with asyncio.timeout(5):
            await ended.wait()
        await pipe.result("server/discover")
        assert not [message for message in pipe.messages if message.get("id") == id_]


# --- questions -----------------------------------------------------------------------------------------

FORM = {"type": "object", "properties": {"reason": {"type": "string"}}, "required": ["reason"]}
ANSWER = {"action": "accept", "content": {"reason": "curious"}}


@pytest.fixture
def asking() -> MCPServer:
    server = MCPServer("shop")

    @server.resource("shop://why/{id}")
    async def why(id: str, ctx: Context) -> str:
        answer = await ctx.ask("reason", "Why?", FORM)
        return f"{id}: {answer['reason'] if answer else 'no answer'}"

    @server.prompt
    async def ask(name: str, ctx: Context) -> str:
        answer = await ctx.ask("reason", "Why?", FORM)
        return f"{name}: {answer['reason'] if answer else 'no answer'}"

    return server


READ = ("resources/read", {"uri": "shop://why/7"})
GET = ("prompts/get", {"name": "ask", "arguments": {"name": "7"}})


def words_of(result: dict[str, Any]) -> str:
    if "contents" in result:
        return str(result["contents"][0]["text"])
    return str(result["messages"][0]["content"]["text"])


@pytest.mark.parametrize(("method", "params"), [READ, GET])
async def test_a_read_or_get_may_ask_and_is_repeated_with_the_answer(
    asking: MCPServer, method: str, params: dict[str, Any]
) -> None:
    async with raw_pipe(asking, capabilities={"elicitation": {}}) as pipe:
        first = await pipe.result(method, params)
        assert first["resultType"] == "input_required"
        assert first["inputRequests"]["reason"]["method"] == "elicitation/create"
        again = {**params, "requestState": first["requestState"], "inputResponses": {"reason": ANSWER}}
        assert words_of(await pipe.result(method, again)) == "7: curious"


async def test_an_answer_counts_for_what_was_asked_and_nothing_else(asking: MCPServer) -> None:
    async with raw_pipe(asking, capabilities={"elicitation": {}}) as pipe:
        first = await pipe.result(*READ)
        answered = {"requestState": first["requestState"], "inputResponses": {"reason": ANSWER}}
        other = await pipe.error("resources/read", {"uri": "shop://why/8", **answered})
        assert other["code"] == -32602
        assert (await pipe.error("prompts/get", {**GET[1], **answered}))["code"] == -32602


@pytest.mark.parametrize(("method", "params"), [READ, GET])
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_a_legacy_client_is_asked_during_the_request(
    asking: MCPServer, version: str, method: str, params: dict[str, Any]
) -> None:
    async with raw_pipe(asking, version, capabilities={"elicitation": {}}) as pipe:
        waiting = asyncio.ensure_future(pipe.result(method, params))
        question = await pipe.notice("elicitation/create")
        pipe.send({"id": question["id"], "result": ANSWER})
        assert words_of(await waiting) == "7: curious"


@pytest.mark.parametrize(("method", "params"), [READ, GET])
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_that_cannot_be_asked_gets_an_error(
    asking: MCPServer, version: str, method: str, params: dict[str, Any]
) -> None:
    async with raw_pipe(asking, version) as pipe:
        error = await pipe.error(method, params)
    assert error["code"] == (-32021 if version == MODERN else -32603)


async def test_a_stopped_server_reads_nothing() -> None:
    server = make_server()
    async with server:
        pass
    with pytest.raises(Exception, match="the server has stopped"):
        await server.read("shop://stock")
