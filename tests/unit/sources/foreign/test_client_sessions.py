"""Each client of toolcrib has a session of its own with a server of another library."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastmcp import Context, FastMCP
from fastmcp.server.middleware import Middleware

from toolcrib import MCPServer
from toolcrib.context import ANONYMOUS, NullChannel, Principal
from toolcrib.sources.foreign import bridge

ANA, BOB, EVE = Principal("key:ana"), Principal("key:bob"), Principal("key:eve")


class Remote(NullChannel):
    """A client over HTTP that has no session."""

    request = 1


class Diary(Middleware):
    """Notes the handshakes."""

    def __init__(self) -> None:
        self.handshakes = 0

    async def on_initialize(self, context: Any, call_next: Any) -> Any:
        self.handshakes += 1
        return await call_next(context)


@pytest.fixture(params=["direct", "streams"], autouse=True)
def _session_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "streams":
        monkeypatch.setattr(bridge, "is_direct", lambda _: False)


def make(events: list[str], *middleware: Middleware) -> MCPServer:
    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        events.append("begin")
        yield
        events.append("end")

    theirs = FastMCP("notes", lifespan=lifespan, middleware=list(middleware))

    @theirs.tool
    async def keep(word: str, ctx: Context) -> str:
        await ctx.set_state("word", word)
        return word

    @theirs.tool
    async def recall(ctx: Context) -> str:
        return str(await ctx.get_state("word"))

    @theirs.tool
    async def session(ctx: Context) -> str:
        return ctx.session_id

    ours = MCPServer("ours")
    ours.add(theirs)
    events.clear()
    return ours


async def test_anything_that_a_server_keeps_for_a_caller_is_not_shown_to_another() -> None:
    events: list[str] = []
    async with make(events) as server:
        await server.call("keep", {"word": "tea"}, principal=ANA)
        await server.call("keep", {"word": "jam"}, principal=BOB)

        assert (await server.call("recall", principal=ANA)).text == "tea"
        assert (await server.call("recall", principal=BOB)).text == "jam"
        assert (await server.call("recall", principal=EVE)).text == "None"
        assert (await server.call("recall")).text == "None"
    assert events == ["begin", "end"]  # one lifespan for all sessions


async def test_clients_with_sessions_of_their_own_have_them_there_too() -> None:
    async with make([]) as server, server.connect() as first, server.connect() as second:
        await first.call("keep", {"word": "tea"})

        assert (await first.call("recall")).text == "tea"
        assert (await second.call("recall")).text == "None"


@pytest.mark.parametrize("principal", [None, ANONYMOUS])
async def test_clients_that_nobody_can_tell_apart_share_nothing(principal: Principal | None) -> None:
    given = {} if principal is None else {"principal": principal}
    async with make([]) as server:
        await server.call("keep", {"word": "tea"}, channel=Remote(), **given)

        assert (await server.call("recall", channel=Remote(), **given)).text == "None"


async def test_calls_at_the_same_time_open_one_session() -> None:
    diary = Diary()
    async with make([], diary) as server:
        diary.handshakes = 0  # of listing
        calls = (server.call("session", principal=ANA) for _ in range(5))
        found = {result.text for result in await asyncio.gather(*calls)}
    assert len(found) == 1
    assert diary.handshakes == 1


async def test_the_oldest_session_is_closed_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "MAX_SESSIONS", 2)
    async with make([]) as server:
        for principal in (ANA, BOB, EVE):
            await server.call("keep", {"word": principal.name}, principal=principal)

        assert (await server.call("recall", principal=EVE)).text == EVE.name
        assert (await server.call("recall", principal=BOB)).text == BOB.name
        assert (await server.call("recall", principal=ANA)).text == "None"


async def test_a_session_ends_with_the_one_of_its_client() -> None:
    server = make([])
    async with server:
        for _ in range(5):
            async with server.connect() as client:
                await client.call("keep", {"word": "tea"})
            gc.collect()
        await server.call("recall", principal=ANA)
        owner: Any = server.registry.get("recall").owner
        assert len(owner.lifespan.value._open) <= 2
