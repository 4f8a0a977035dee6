"""JSON-RPC batches, which only 2025-03-26 has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from toolcrib.protocol import modern
from toolcrib.protocol.calls import Peer, PendingRequest
from toolcrib.protocol.messages import ACCEPTED, INVALID_REQUEST, Reply, RPCError
from toolcrib.protocol.revisions import ASSUMED, LEGACY

MAX_BATCH = 100
MAX_CALLS = 20
"""Calls in one batch: a small request must not cause an unbounded amount of work."""


def check_batch(items: list[Any], peer: Peer) -> None:
    """Raise RPCError unless this peer may send these messages as a batch."""
    if not _supports_batches(peer) or any(modern.is_marked(item) for item in items):
        raise RPCError(
            INVALID_REQUEST, "Invalid request: batches belong to 2025-03-26, send one message at a time"
        )
    if not items:
        raise RPCError(INVALID_REQUEST, "Invalid request: an empty batch")
    if len(items) > MAX_BATCH:
        raise RPCError(INVALID_REQUEST, f"Invalid request: a batch of more than {MAX_BATCH} messages")
    methods = [item.get("method") for item in items if isinstance(item, dict)]
    if methods.count("tools/call") > MAX_CALLS:
        raise RPCError(INVALID_REQUEST, f"Invalid request: a batch of more than {MAX_CALLS} calls")
    if "initialize" in methods:
        raise RPCError(INVALID_REQUEST, "Invalid request: initialize must not be in a batch")


def _supports_batches(peer: Peer) -> bool:
    if peer.session is not None:
        return peer.session.is_open and peer.session.revision.batches
    if peer.headers is None:
        return False
    version = peer.headers.get(b"mcp-protocol-version", ASSUMED.name.encode()).decode("latin-1")
    return version in LEGACY and LEGACY[version].batches


class Batch(PendingRequest):
    """Messages that came together; their replies are sent together, in the same order."""

    def __init__(self, peer: Peer, parts: Sequence[Reply | PendingRequest]) -> None:
        no_id: Any = None  # an error about the batch as a whole belongs to none of its messages
        super().__init__(peer, no_id)
        self.parts = parts

    async def run(self) -> Reply:
        return join(await asyncio.gather(*(_finish(part) for part in self.parts)))

    def close(self) -> None:
        for part in self.parts:
            if isinstance(part, PendingRequest):
                part.close()

    def refuse(self) -> None:
        for part in self.parts:
            if isinstance(part, PendingRequest):
                part.refuse()

    def cancel(self) -> None:
        super().cancel()
        for part in self.parts:
            if isinstance(part, PendingRequest):
                part.is_gone = self.is_gone
                part.cancel()


def join(replies: Iterable[Reply | None]) -> Reply:
    """Return one reply made of many; messages without a reply are left out."""
    bodies = [reply.body for reply in replies if reply is not None and reply.body is not None]
    return Reply(b"[" + b",".join(bodies) + b"]") if bodies else ACCEPTED


def make_batch(peer: Peer, parts: Sequence[Reply | PendingRequest]) -> Reply | PendingRequest:
    """Return a reply if all parts have theirs, or else a Batch to run."""
    replies = [part for part in parts if isinstance(part, Reply)]
    return join(replies) if len(replies) == len(parts) else Batch(peer, parts)


async def _finish(part: Reply | PendingRequest) -> Reply | None:
    if isinstance(part, Reply):
        return part
    if part.is_cancelled:  # by another message of the batch
        part.close()
        return None
    part.task = asyncio.current_task()
    try:
        return await part.run()
    except asyncio.CancelledError:
        if part.is_cancelled:
            return None  # cancelled by its own id; the other messages still get their replies
        raise
