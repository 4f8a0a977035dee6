"""Messages that come together: who may send them, how many, and how their replies are put together."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from toolcrib.context import LOCAL
from toolcrib.protocol.calls import Peer, PendingRequest
from toolcrib.protocol.engine import MAX_BATCH, Batch
from toolcrib.protocol.engine import MAX_BATCH_CALLS as MAX_CALLS
from toolcrib.protocol.engine import _check_batch as check_batch
from toolcrib.protocol.messages import ACCEPTED, Reply, RPCError
from toolcrib.protocol.revisions import LEGACY
from toolcrib.protocol.sessions import Session, Sessions
from toolcrib.transports.eager import EagerStarter, follow

OLD = "2025-03-26"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
MARKED = {**PING, "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}}
KNOWS = Peer(headers={})
NOT_TODAY = "Invalid request: batches belong to 2025-03-26, send one message at a time"


def in_session(version: str | None) -> Peer:
    session: Session = Sessions(time.monotonic).new(LOCAL)
    if version is not None:
        session.open(LEGACY[version], {})
    return Peer(session=session)


@pytest.mark.parametrize(
    "link", [KNOWS, Peer(headers={b"mcp-protocol-version": OLD.encode()}), in_session(OLD)]
)
def test_who_speaks_2025_03_26_may_send_a_batch(link: Peer) -> None:
    check_batch([PING, CALL, 5], link)


@pytest.mark.parametrize(
    "link",
    [
        Peer(),
        Peer(headers={b"mcp-protocol-version": b"2025-11-25"}),
        Peer(headers={b"mcp-protocol-version": b"\xff"}),
        in_session("2025-11-25"),
        in_session(None),
    ],
)
def test_nobody_else_may(link: Peer) -> None:
    with pytest.raises(RPCError, match=f"^{NOT_TODAY}$"):
        check_batch([PING], link)


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([], "Invalid request: an empty batch"),
        ([PING, MARKED], NOT_TODAY),
        ([PING] * (MAX_BATCH + 1), f"Invalid request: a batch of more than {MAX_BATCH} messages"),
        ([CALL] * (MAX_CALLS + 1), f"Invalid request: a batch of more than {MAX_CALLS} calls"),
        ([PING, {"method": "initialize"}], "Invalid request: initialize must not be in a batch"),
    ],
)
def test_some_batches_are_refused_as_a_whole(items: list[Any], words: str) -> None:
    with pytest.raises(RPCError, match=f"^{words}$"):
        check_batch(items, KNOWS)


def test_as_many_as_are_allowed_are_taken() -> None:
    check_batch([PING] * (MAX_BATCH - MAX_CALLS) + [CALL] * MAX_CALLS, KNOWS)


class Work(PendingRequest):
    """Replies with its id, once it is let; says what became of it."""

    def __init__(self, link: Peer, id_: int) -> None:
        super().__init__(link, id_)
        self.is_let = asyncio.Event()
        self.seen: list[str] = []

    async def run(self) -> Reply:
        await self.is_let.wait()
        return Reply(b"%d" % int(self.id))

    def close(self) -> None:
        self.seen.append("closed")

    def refuse(self) -> None:
        self.seen.append("refused")


def test_replies_are_joined_and_silence_is_none() -> None:
    assert Batch.join([Reply(b"1"), ACCEPTED, None, Reply(b"2")]).body == b"[1,2]"
    assert Batch.join([ACCEPTED, ACCEPTED]) is ACCEPTED


async def test_replies_keep_the_order_of_the_messages() -> None:
    first, second = Work(KNOWS, 1), Work(KNOWS, 3)
    batch = Batch(KNOWS, [first, Reply(b"2"), second])
    running = asyncio.ensure_future(batch.run())
    second.is_let.set()
    await asyncio.sleep(0)
    first.is_let.set()
    assert (await running).body == b"[1,2,3]"


async def test_what_another_message_of_the_batch_cancels_has_no_reply() -> None:
    before, later, kept = Work(KNOWS, 1), Work(KNOWS, 2), Work(KNOWS, 3)
    before.cancel()
    running = asyncio.ensure_future(Batch(KNOWS, [before, later, kept]).run())
    while later.task is None:
        await asyncio.sleep(0)
    later.cancel()
    kept.is_let.set()
    assert (await running).body == b"[3]"
    assert before.seen == ["closed"]


async def test_a_batch_that_is_ended_from_outside_ends() -> None:
    work = Work(KNOWS, 1)
    running = asyncio.ensure_future(Batch(KNOWS, [work]).run())
    while work.task is None:
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_call_that_nobody_cancelled_but_that_is_ended_ends_the_batch() -> None:
    """Half of the replies would look like all of them."""
    ended, kept = Work(KNOWS, 1), Work(KNOWS, 2)
    running = asyncio.ensure_future(Batch(KNOWS, [ended, kept]).run())
    while ended.task is None:
        await asyncio.sleep(0)
    ended.task.cancel()
    kept.is_let.set()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_what_is_said_of_a_whole_batch_has_the_id_of_none_of_its_messages() -> None:
    work = Work(KNOWS, 0)
    batch = Batch(KNOWS, [work])
    replies: list[Reply | None] = []
    running = EagerStarter().start_in_task(batch)
    assert isinstance(running, asyncio.Task)
    follow(batch, running, replies.append)
    while work.task is None:
        await asyncio.sleep(0)
    work.task.cancel()
    await asyncio.wait([running])
    while not replies:
        await asyncio.sleep(0)
    assert replies[0] is not None
    assert replies[0].body == b'{"jsonrpc":"2.0","error":{"code":-32603,"message":"The call was cut off"}}'


@pytest.mark.parametrize(("act", "seen"), [("close", ["closed"]), ("refuse", ["refused"])])
def test_what_becomes_of_a_batch_becomes_of_its_calls(act: str, seen: list[str]) -> None:
    work = Work(KNOWS, 1)
    getattr(Batch(KNOWS, [Reply(b"0"), work]), act)()
    assert work.seen == seen


@pytest.mark.parametrize("is_gone", [False, True])
def test_who_cancels_a_batch_or_goes_away_cancels_its_calls(is_gone: bool) -> None:
    work = Work(KNOWS, 1)
    batch = Batch(KNOWS, [Reply(b"0"), work])
    batch.abandon() if is_gone else batch.cancel()
    assert (batch.is_cancelled, work.is_cancelled, work.is_gone) == (True, True, is_gone)
