"""JSON-RPC batches, which 2025-03-26 demands and no other revision knows.

Knows how replies are put together; refuses to know what is in them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from toolcrib.protocol import modern
from toolcrib.protocol.calls import Exchange, Link
from toolcrib.protocol.messages import ACCEPTED, INVALID_REQUEST, Fault, Reply
from toolcrib.protocol.revisions import ASSUMED, LEGACY

MAX_BATCH = 100
MAX_CALLS = 20
"""Calls in one batch: more of them would be more work than anybody should get for one small request."""


def check_batch(items: list[Any], link: Link) -> None:
    """Raise Fault unless this peer may send these messages in one."""
    if not _knows_batches(link) or any(modern.is_marked(item) for item in items):
        raise Fault(
            INVALID_REQUEST, "Invalid request: batches belong to 2025-03-26, send one message at a time"
        )
    if not items:
        raise Fault(INVALID_REQUEST, "Invalid request: an empty batch")
    if len(items) > MAX_BATCH:
        raise Fault(INVALID_REQUEST, f"Invalid request: a batch of more than {MAX_BATCH} messages")
    methods = [item.get("method") for item in items if isinstance(item, dict)]
    if methods.count("tools/call") > MAX_CALLS:
        raise Fault(INVALID_REQUEST, f"Invalid request: a batch of more than {MAX_CALLS} calls")
    if "initialize" in methods:
        raise Fault(INVALID_REQUEST, "Invalid request: initialize must not be in a batch")


def _knows_batches(link: Link) -> bool:
    if link.session is not None:
        return link.session.is_open and link.session.revision.batches
    if link.headers is None:
        return False
    said = link.headers.get(b"mcp-protocol-version", ASSUMED.name.encode())
    return said.decode("latin-1") in LEGACY and LEGACY[said.decode("latin-1")].batches


class Batch(Exchange):
    """Messages that came together; their replies go back together, in the same order."""

    def __init__(self, link: Link, parts: Sequence[Reply | Exchange]) -> None:
        nameless: Any = None  # what is said of all of them has no id: any other could be that of one of them
        super().__init__(link, nameless)
        self.parts = parts

    async def run(self) -> Reply:
        return join(await asyncio.gather(*(_finish(part) for part in self.parts)))

    def close(self) -> None:
        """It will not run: none of its calls is under way any more."""
        for part in self.parts:
            if isinstance(part, Exchange):
                part.close()

    def refuse(self) -> None:
        for part in self.parts:
            if isinstance(part, Exchange):
                part.refuse()

    def cancel(self) -> None:
        super().cancel()
        for part in self.parts:
            if isinstance(part, Exchange):
                part.is_gone = self.is_gone
                part.cancel()


def join(replies: Iterable[Reply | None]) -> Reply:
    """One reply out of many; of those who have none, nothing is said."""
    bodies = [reply.body for reply in replies if reply is not None and reply.body is not None]
    return Reply(b"[" + b",".join(bodies) + b"]") if bodies else ACCEPTED


def batch_of(link: Link, parts: Sequence[Reply | Exchange]) -> Reply | Exchange:
    """What a batch comes to: a reply where all of it could be answered at once."""
    replies = [part for part in parts if isinstance(part, Reply)]
    return join(replies) if len(replies) == len(parts) else Batch(link, parts)


async def _finish(part: Reply | Exchange) -> Reply | None:
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
            return None  # cancelled by its own id: it has no reply, the others have theirs
        raise
