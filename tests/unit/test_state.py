"""The state behind tools: the lifespan of a server, and what tools keep for sessions and principals."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Context, MCPServer, Principal
from toolcrib.context import ANONYMOUS, NullChannel
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


async def test_anything_that_is_not_a_lifespan_is_refused() -> None:
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


def counting(**settings: Any) -> MCPServer:
    server = MCPServer("counting", **settings)

    @server.tool
    async def count(ctx: Context) -> str:
        counts = []
        for of in ("session", "principal"):
            counts.append((await ctx.get_state("calls", of=of) or 0) + 1)  # type: ignore[arg-type]
            await ctx.set_state("calls", counts[-1], of=of)  # type: ignore[arg-type]
        return "{} {}".format(*counts)

    @server.tool
    def count_on_a_thread(ctx: Context) -> int:
        calls: int = (ctx.get_state("calls") or 0) + 1
        ctx.set_state("calls", calls)
        return calls

    @server.tool
    async def keep(value: Any, ctx: Context) -> Any:
        await ctx.set_state("kept", value)
        return await ctx.get_state("kept")

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
    ada, bob = Principal("key:ada"), Principal("key:bob")
    async with counting() as server:
        for who, expected in (ada, "1 1"), (bob, "1 1"), (ada, "2 2"):
            result = await server.call("count", principal=who, channel=Remote())
            assert result.text == expected


async def test_strangers_share_nothing() -> None:
    async with counting() as server:
        result = await server.call("count", channel=Remote())
        assert "ctx.get_state(of='session') needs a caller with a session or credentials" in result.text
        remote = Remote(session=NullChannel())
        result = await server.call("count", principal=ANONYMOUS, channel=remote)
        assert "ctx.get_state(of='principal') needs a caller with credentials" in result.text


async def test_sync_tools_get_values_without_await() -> None:
    async with counting() as server, server.connect() as client:
        assert [(await client.call("count_on_a_thread")).text for _ in range(3)] == ["1", "2", "3"]


async def test_the_state_of_a_principal_outlives_the_server(tmp_path: Path) -> None:
    for expected in ("1 1", "1 2"):
        async with counting(state=f"sqlite:///{tmp_path}/state.db") as server, server.connect() as client:
            assert (await client.call("count")).text == expected


async def test_a_caller_learns_that_the_state_is_away(tmp_path: Path) -> None:
    async with counting(state=f"sqlite:///{tmp_path}/state.db") as server, server.connect() as client:
        assert (await client.call("count")).text == "1 1"
        for file in tmp_path.glob("state.db*"):
            file.unlink()
        (tmp_path / "state.db").write_text("of another program" * 1000)
        for tool in ("count", "count_on_a_thread"):
            result = await client.call(tool)
            assert result.is_error
            assert "failed: its state is not available now, try again later (reference" in result.text


async def test_json_values_are_kept_and_others_are_refused() -> None:
    async with counting() as server, server.connect() as client:
        for value in ({"a": [1, 2.5, None]}, ["text"], 0, False):
            assert json.loads((await client.call("keep", {"value": value})).text) == value
        refused = await client.call("keep", {"value": "x" * 70_000})
        assert "ctx.set_state('kept') takes at most 65536 bytes of JSON" in refused.text

    server = MCPServer("other")

    @server.tool
    async def keep_object(ctx: Context) -> None:
        await ctx.set_state("kept", object())

    assert "ctx.set_state('kept') takes a JSON value" in (await server.call("keep_object")).text


async def test_the_former_dicts_name_what_to_do() -> None:
    with pytest.raises(AttributeError, match="use await ctx"):
        _ = Context("count", {}).session_state  # type: ignore[attr-defined]
