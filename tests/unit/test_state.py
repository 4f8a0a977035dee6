"""The state behind tools: the lifespan of a server, and what tools keep for sessions and principals."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from toolcrib import Context, MCPServer, Principal
from toolcrib.context import ANONYMOUS, NullChannel
from toolcrib.dispatch.lifespan import IDLE_S, MAX_KEYS, MAX_PRINCIPALS, CallerStates
from toolcrib.errors import ConfigurationError

# --- lifespan ----------------------------------------------------------------------------------------


def make(events: list[str], **options: Any) -> MCPServer:
    @asynccontextmanager
    async def lifespan(server: MCPServer) -> AsyncIterator[dict[str, str]]:
        events.append(f"open {server.name}")
        async with asyncio.timeout(60):  # to be left in the task that entered it
            yield {"db": "ready"}
        events.append("close")

    server = MCPServer("desk", **{"lifespan": lifespan, **options})

    @server.tool
    def look(ctx: Context) -> str:
        return str(ctx.state["db"])

    return server


async def test_a_lifespan_surrounds_the_calls_and_its_state_is_in_the_context() -> None:
    events: list[str] = []
    server = make(events)
    async with server:
        assert events == ["open desk"]
        assert (await server.call("look")).text == "ready"
    assert events == ["open desk", "close"]
    async with server.connect() as client:  # again
        assert (await client.call("look")).text == "ready"
    assert events == ["open desk", "close"] * 2


async def test_a_lifespan_may_be_a_plain_generator() -> None:
    async def lifespan(_: MCPServer) -> AsyncIterator[dict[str, str]]:
        yield {"db": "plain"}

    async with make([], lifespan=lifespan) as server:
        assert (await server.call("look")).text == "plain"


def test_a_lifespan_takes_the_server() -> None:
    with pytest.raises(ConfigurationError, match="lifespan: must take one argument, the server"):
        MCPServer("x", lifespan=lambda: None)  # type: ignore[arg-type, misc]


async def test_a_lifespan_is_left_in_its_own_task_wherever_the_server_is_stopped() -> None:
    events: list[str] = []
    server = make(events)
    await asyncio.create_task(server.start())
    await asyncio.to_thread(asyncio.run, server.stop())
    assert events == ["open desk", "close"]


async def test_a_lifespan_that_fails_to_open_stops_the_start() -> None:
    async def lifespan(_: MCPServer) -> AsyncIterator[None]:
        raise ConnectionError("no database")
        yield

    with pytest.raises(ConnectionError, match="no database"):
        await make([], lifespan=lifespan).start()


async def test_a_lifespan_that_fails_to_close_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def lifespan(_: MCPServer) -> AsyncIterator[None]:
        yield
        raise ConnectionError("lost")

    async with make([], lifespan=lifespan):
        pass
    assert "closing the lifespan failed" in caplog.text
    assert "lost" in caplog.text


def test_a_lifespan_is_left_when_its_event_loop_ends() -> None:
    closed: list[str] = []

    async def lifespan(_: MCPServer) -> AsyncIterator[None]:
        try:
            yield
        finally:
            closed.append("yes")

    asyncio.run(make([], lifespan=lifespan).start())
    assert closed == ["yes"]


async def test_what_is_no_lifespan_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must be a function that takes the server"):
        MCPServer(lifespan={"db": 1})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="must return an async context manager, got int"):
        await make([], lifespan=lambda _: 1).start()


async def test_state_that_is_not_there_names_what_to_do() -> None:
    result = await make([], lifespan=None).call("look")
    assert "ctx.state needs a server with a lifespan: MCPServer(lifespan=...)" in result.text
    result = await make([]).call("look")
    assert "ctx.state is there while the server runs: call it in `async with server`" in result.text


# --- sessions and principals -------------------------------------------------------------------------


def counting() -> MCPServer:
    server = MCPServer("counting")

    @server.tool
    def count(ctx: Context) -> str:
        for state in (ctx.session_state, ctx.principal_state):
            state["calls"] = state.get("calls", 0) + 1
        return f"{ctx.session_state['calls']} {ctx.principal_state['calls']}"

    return server


class Remote(NullChannel):
    """A client over HTTP, which sends requests with an id."""

    request: str | int | None = 1

    def __init__(self, session: object | None = None) -> None:
        self.session = session


@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
async def test_each_session_has_a_state_and_the_principal_has_one_for_all(protocol: str) -> None:
    async with counting() as server:
        for expected in ("1 1", "2 2"), ("1 3", "2 4"):
            async with server.connect(protocol=protocol) as client:
                for numbers in expected:
                    assert (await client.call("count")).text == numbers


async def test_clients_without_a_session_share_the_state_of_their_credentials() -> None:
    server, ada, bob = counting(), Principal("key:ada"), Principal("key:bob")
    for who, expected in (ada, "1 1"), (bob, "1 1"), (ada, "2 2"):
        result = await server.call("count", principal=who, channel=Remote())
        assert result.text == expected


async def test_strangers_share_nothing() -> None:
    result = await counting().call("count", channel=Remote())
    assert "ctx.session_state needs a caller with a session or credentials" in result.text
    result = await counting().call("count", principal=ANONYMOUS, channel=Remote(session=NullChannel()))
    assert "ctx.principal_state needs a caller with credentials" in result.text


def context_of(name: str, session: object | None = None) -> Context:
    return Context("count", {}, Principal(name), Remote(session))


def test_a_state_is_dropped_with_its_session() -> None:
    states, session = CallerStates(), NullChannel()
    state = states.of_session(context_of("local", session))
    assert state is states.of_session(context_of("local", session))
    del session
    gc.collect()
    assert not states._sessions


def test_a_state_expires_when_it_was_not_used() -> None:
    now = 0.0
    states = CallerStates(lambda: now)
    first = states.of_principal(context_of("key:ada"))
    now = IDLE_S - 1
    assert states.of_principal(context_of("key:ada")) is first
    now += IDLE_S
    assert states.of_principal(context_of("key:ada")) is not first


def test_states_are_bounded() -> None:
    states = CallerStates()
    first = states.of_principal(context_of("key:0"))
    for number in range(1, MAX_PRINCIPALS + 1):
        states.of_principal(context_of(f"key:{number}"))
    assert len(states._others) == MAX_PRINCIPALS
    assert states.of_principal(context_of("key:0")) is not first
    state = states.of_principal(context_of("key:0"))
    assert state is not None
    state.update({str(number): number for number in range(MAX_KEYS)})
    with pytest.raises(ValueError, match="at most 1000 keys"):
        state["more"] = 1
