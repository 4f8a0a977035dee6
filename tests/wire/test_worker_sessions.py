"""Legacy sessions with `toolcrib serve --workers`: the kernel chooses the worker of each connection."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import mcp_types as types
import pytest
from mcp.client import Client as OfficialClient
from mcp.client.context import ClientRequestContext
from pydantic import FileUrl

from tests.support.clients.legacy_client import Answer, Event, Older
from tests.support.servers.serve_process import Serving, children_of, wait_until
from toolcrib.client import Client
from toolcrib.context import Answer as Reply
from toolcrib.context import Elicitation, URLElicitation

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs sockets to inherit, and /proc")

WORKERS = 4
TOOLS = '''
import asyncio, os
from toolcrib import Context, MCPServer

server = MCPServer("shop")
server.resource("shop://{name}")(lambda name: name)
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

@server.tool(run="inline")
def pid() -> str:
    """The number of the process."""
    return str(os.getpid())

@server.tool
async def greet(ctx: Context) -> str:
    """Ask for a name."""
    return f"Hello, {(await ctx.ask('who', 'Who?', NAME))['name']}!"

@server.tool
async def write(ctx: Context) -> str:
    """Ask the model."""
    return (await ctx.sample("poem", "Write a poem", max_tokens=50)).text

@server.tool
async def where(ctx: Context) -> str:
    """Ask for the folders."""
    return (await ctx.roots())[0].uri

@server.tool
async def wait(ctx: Context, file: str) -> str:
    """Wait until it is cancelled."""
    await ctx.progress(1)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        open(file, "w").close()
        raise
    return "waited"

@server.tool(run="inline")
def chat(ctx: Context, level: str) -> str:
    """Send a log line."""
    ctx.log(level, "hello")
    return "said"

@server.tool
async def sell(item: str) -> str:
    """Sell something."""
    await server.resource_changed(f"shop://{item}")
    return "sold"
'''
ADA = {"action": "accept", "content": {"name": "Ada"}}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("sessions")
    (folder / "tools.py").write_text(TOOLS)
    with Serving("tools.py", "--workers", str(WORKERS), cwd=folder) as server:
        yield server
        Answer.leave_all()
    assert "Traceback" not in server.errors


def open_one(serving: Serving, **capabilities: Any) -> Older:
    client = Older(urlsplit(serving.address).port or 0, **capabilities)
    client.initialize()
    return client


def text_of(answer: Answer) -> str:
    return str(answer.result["content"][0]["text"])


def question(answer: Answer) -> Event:
    return next(event for event in answer.events() if event.data and "method" in event.message)


def visit_all(client: Older) -> set[str]:
    """Call until every worker has served the session, and return their pids."""
    seen: set[str] = set()
    wait_until(lambda: bool(seen.add(text_of(client.call("pid"))) or len(seen) == WORKERS))
    return seen


def test_a_session_is_served_asked_and_cancelled_through_every_worker(
    serving: Serving, tmp_path: Path
) -> None:
    client = open_one(serving, elicitation={}, sampling={}, roots={})
    assert visit_all(client) == {str(pid) for pid in children_of(serving.process.pid)}
    for _ in range(8):  # the answer goes to the same worker once in four times
        call = client.call("greet")
        assert client.reply(question(call).message["id"], ADA).status == 202
        assert text_of(call) == "Hello, Ada!"
    for number in range(4):
        file = tmp_path / str(number)
        call = client.call("wait", {"file": str(file)}, token="t", id_=f"wait {number}")
        assert call.event() is not None
        client.cancel(f"wait {number}")
        assert list(call.events()) == []
        wait_until(file.exists)
    assert client.end() == 200
    assert client.ask("ping").status in (200, 404)
    wait_until(lambda: {client.ask("ping").status for _ in range(12)} == {404})


def test_levels_and_subscriptions_follow_to_every_worker(serving: Serving) -> None:
    client = open_one(serving)
    visit_all(client)
    assert client.ask("logging/setLevel", level="error").result == {}
    wait_until(lambda: not any(client.call("chat", {"level": "info"}).is_stream for _ in range(12)))
    assert client.call("chat", {"level": "error"}).is_stream
    own = client.listen()
    for number in range(6):
        uri = f"shop://{number}"
        assert client.ask("resources/subscribe", uri=uri).result == {}
        assert text_of(client.call("sell", {"item": str(number)})) == "sold"
        found = next(event for event in own.events() if event.data)
        assert found.message["params"]["uri"] == uri


def test_a_session_survives_the_worker_that_opened_it(serving: Serving) -> None:
    client = open_one(serving, elicitation={})
    client.ask("logging/setLevel", level="error")
    call = client.call("greet")
    asked = question(call).message["id"]
    victims = children_of(serving.process.pid)
    for victim in victims:  # one of them has opened it, and one asks
        os.kill(victim, signal.SIGKILL)
    wait_until(lambda: len(set(children_of(serving.process.pid)) - set(victims)) == WORKERS)

    def is_back() -> bool:
        try:
            return bool(client.ask("ping").status == 200)
        except OSError:
            return False

    wait_until(is_back)
    for _ in range(8):
        assert text_of(client.call("pid")) not in {str(pid) for pid in victims}
        assert not client.call("chat", {"level": "info"}).is_stream
    late = client.reply(asked, ADA)
    assert late.status == 404
    assert "make the call again" in late.json["error"]["message"]
    again = client.call("greet")
    assert client.reply(question(again).message["id"], ADA).status == 202
    assert text_of(again) == "Hello, Ada!"


def test_sixty_four_calls_of_one_client_are_asked_at_once(serving: Serving) -> None:
    client = open_one(serving, elicitation={})
    calls = [client.call("greet") for _ in range(64)]
    for call in calls:
        assert client.reply(question(call).message["id"], ADA).status == 202
    assert [text_of(call) for call in calls] == ["Hello, Ada!"] * 64


async def answer(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def complete(
    context: ClientRequestContext, params: types.CreateMessageRequestParams
) -> types.CreateMessageResult:
    said = types.TextContent(type="text", text="a poem")
    return types.CreateMessageResult(role="assistant", content=said, model="m")


async def list_roots(context: ClientRequestContext) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///work"), name="Work")])


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_the_official_client_is_asked_through_every_worker(serving: Serving) -> None:
    updated: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            updated.put_nowait(str(message.params.uri))

    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                OfficialClient(
                    serving.address,
                    mode="legacy",
                    elicitation_callback=answer,
                    sampling_callback=complete,
                    list_roots_callback=list_roots,
                    message_handler=hear,
                )
            )
            for _ in range(4)
        ]
        for client in clients:
            for name, expected in (("greet", "Hello, Ada!"), ("write", "a poem"), ("where", "file:///work")):
                done = await asyncio.gather(*(client.call_tool(name) for _ in range(6)))
                assert [each.content[0].text for each in done] == [expected] * 6  # type: ignore[union-attr]
        await clients[0].subscribe_resource("shop://tea")
        await clients[1].call_tool("sell", {"item": "tea"})
        assert await asyncio.wait_for(updated.get(), 5) == "shop://tea"


async def test_our_client_is_asked_through_every_worker(serving: Serving) -> None:
    async def ask(question: Elicitation | URLElicitation) -> Reply:
        assert question.message == "Who?"
        return Reply("accept", {"name": "Ada"})

    async with Client(serving.address, protocol="2025-11-25", on_ask=ask) as client:
        done = await asyncio.gather(*(client.call("greet") for _ in range(8)))
        assert [each.text for each in done] == ["Hello, Ada!"] * 8
