"""Resources under attack: many of them, long URIs, hostile templates and files, many subscriptions."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.raw_pipe import MODERN, RawPipe, raw_pipe
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.wire.cases import encode, legacy, modern
from tests.wire.sending import post_modern
from toolcrib import MCPServer
from toolcrib.context import Principal
from toolcrib.policy import Policy, Rule

MANY = 10_000
# --- many resources ------------------------------------------------------------------------------------


def make_large() -> MCPServer:
    server = MCPServer("large")
    for number in range(MANY):
        server.add_resource(f"shop://articles/{number}", f"article {number}")
    for number in range(100):
        server.resource(f"shop://shelf{number}/{{name}}")(_show)
    return server


def _show(name: str) -> str:
    return name


async def test_ten_thousand_resources_are_listed_once_and_read_at_once() -> None:
    server = make_large()
    async with raw_pipe(server) as pipe:
        first = await pipe.result("resources/list")
        assert len(first["resources"]) == MANY
        engine, view = server.transports.engine, server.dispatcher.view
        entries = view(registry=server.resources)
        assert view(registry=server.resources) is entries
        assert (await pipe.result("resources/list"))["resources"] == first["resources"]
        assert len([key for key in engine.lists._lists if key[0] == "resources"]) == 1
        pipe.messages.clear()
        began = time.process_time()
        for number in range(0, MANY, 10):
            uri = f"shop://articles/{number}"
            found = await pipe.result("resources/read", {"uri": uri})
            assert found["contents"][0]["text"] == f"article {number}"
            pipe.messages.clear()
        assert (time.process_time() - began) / 1000 < 0.01
        found = await pipe.result("resources/read", {"uri": "shop://shelf99/tea"})
        assert found["contents"][0]["text"] == "tea"


async def test_a_rule_per_principal_keeps_ten_thousand_resources_apart() -> None:
    policy = Policy(rules=[Rule(deny=["resource:shop://articles/1*"], who=["key:ana"])])
    server = make_large()
    server.enforce(policy)
    async with server:
        async with raw_pipe(server, principal=Principal("key:ana")) as ana:
            hidden = MANY - len((await ana.result("resources/list"))["resources"])
            assert hidden == len([number for number in range(MANY) if str(number).startswith("1")])
            assert (await ana.error("resources/read", {"uri": "shop://articles/17"}))["code"] == -32602
        async with raw_pipe(server, principal=Principal("key:ben")) as ben:
            assert len((await ben.result("resources/list"))["resources"]) == MANY


# --- hostile URIs --------------------------------------------------------------------------------------


@pytest.fixture
def templated() -> MCPServer:
    server = MCPServer("shop")
    server.resource("shop://{a}-{b}-{c}-{d}-{e}/x")(lambda a, b, c, d, e: a)
    server.resource("deep://x/{+path}")(lambda path: str(len(path)))
    server.resource("query://x{?a,b}")(lambda a="", b="": a + b)
    server.resource("plus://{+path}/end")(lambda path: path)
    return server


BOMBS = [
    "shop://" + "-" * 60_000 + "/x",
    "shop://" + "a-" * 30_000,
    "shop://" + "a-" * 4 + "b" * 60_000,
    "deep://x" + "/a" * 32_000,
    "deep://x" + "/%2e%2e" * 8_000,
    "query://x?" + "a=1&" * 16_000,
    "query://x?" + "&" * 65_000,
    "plus://" + "/end" * 16_000,
    "plus://" + "%25" * 21_000 + "/end",
    "shop://" + "%" * 60_000,
    "shop://" + "é" * 20_000,
    "x" * 65_536,
    "x" * 65_537,
    "shop://" + "x" * 1_000_000,
]


@pytest.mark.parametrize("uri", BOMBS, ids=range(len(BOMBS)))
async def test_a_long_uri_costs_little_whatever_it_is_made_of(templated: MCPServer, uri: str) -> None:
    async with raw_pipe(templated) as pipe:
        await pipe.ask("resources/read", {"uri": "shop://a-b-c-d-e/x"})
        began = time.process_time()
        for _ in range(5):
            reply = await pipe.ask("resources/read", {"uri": uri})
            assert "result" in reply or reply["error"]["code"] == -32602
            assert len(json.dumps(reply)) < 600_000
        assert (time.process_time() - began) / 5 < 0.25


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_hostile_uris_over_http_leave_the_server_well(http_stack: str, templated: MCPServer) -> None:
    with serving(http_stack, templated) as shop:
        for uri in BOMBS:
            body = encode(legacy("resources/read", uri=uri))
            with shop.connect() as peer:
                assert peer.post(body).status == 200
        with shop.connect() as peer:
            uri = "shop://a-b-c-d-e/x"
            assert post_modern(peer, modern("resources/read", uri=uri), Mcp_Name=uri).status == 200
        assert not shop.complaints


# --- hostile files -------------------------------------------------------------------------------------


def read(shop: Served, uri: str) -> dict[str, Any]:
    with shop.connect() as peer:
        found: dict[str, Any] = peer.post(encode(legacy("resources/read", uri=uri))).json
        return found


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_a_folder_gives_files_and_nothing_that_blocks_grows_or_leads_out(
    http_stack: str, tmp_path: Path
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (tmp_path / "secret").write_text("hunter2")
    (folder / "plain.txt").write_text("plain")
    os.mkfifo(folder / "pipe.txt")
    (folder / "out.txt").symlink_to(tmp_path / "secret")
    (folder / "null.txt").symlink_to("/dev/zero")
    (folder / "large.bin").write_bytes(b"")
    os.truncate(folder / "large.bin", 17 * 2**20)
    growing = folder / "growing.txt"
    growing.write_text("x")
    server = MCPServer("docs")
    server.add_resource("docs://", folder)
    ended = threading.Event()

    def grow() -> None:
        with growing.open("ab") as file:
            while not ended.is_set() and file.tell() < 64 * 2**20:
                file.write(b"x" * 65_536)
                file.flush()

    with serving(http_stack, server) as shop:
        assert read(shop, "docs://plain.txt")["result"]["contents"][0]["text"] == "plain"
        for name in ("pipe.txt", "out.txt", "null.txt", "large.bin", "..%2fsecret", "%2e%2e/secret"):
            error = read(shop, f"docs://{name}")["error"]
            assert error["code"] in (-32002, -32603), name
            assert str(tmp_path) not in json.dumps(error)
        writer = threading.Thread(target=grow)
        writer.start()
        try:
            reply = read(shop, "docs://growing.txt")
            assert "error" in reply or len(reply["result"]["contents"][0]["text"]) <= 16 * 2**20
        finally:
            ended.set()
            writer.join()
        assert read(shop, "docs://plain.txt")["result"]["contents"][0]["text"] == "plain"
        assert not shop.complaints


# --- many subscriptions, many completions ----------------------------------------------------------------


async def test_subscriptions_come_and_go_without_a_trace() -> None:
    server = MCPServer("shop")
    server.add_resource("shop://x", "x")
    async with server:
        for _ in range(200):
            pipe = RawPipe(server, MODERN)
            pipe.begin("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["shop://x"]}})
            await pipe.notice("notifications/subscriptions/acknowledged")
            await pipe.close()
        engine = server.transports.engine
        assert (len(engine.subscriptions), len(engine.pipes)) == (0, 0)


async def test_blocked_completions_hold_a_limited_number_of_threads() -> None:
    server = MCPServer("shop")
    release = threading.Event()

    @server.prompt
    def pick(name: str) -> str:
        return name

    @pick.complete("name")
    def block(value: str) -> list[str]:
        release.wait(30)
        return []

    params = {"ref": {"type": "ref/prompt", "name": "pick"}, "argument": {"name": "name", "value": ""}}
    before = threading.active_count()
    async with raw_pipe(server) as pipe:
        try:
            replies = await asyncio.gather(*(pipe.ask("completion/complete", params) for _ in range(150)))
            assert all("error" in reply for reply in replies)
            assert threading.active_count() - before < 60
        finally:
            release.set()
