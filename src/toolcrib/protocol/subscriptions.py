"""subscriptions/listen: clients of 2026-07-28 that want to be notified of changes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.context import ANONYMOUS, LOCAL
from toolcrib.protocol import messages
from toolcrib.protocol.calls import Peer, PendingRequest
from toolcrib.protocol.messages import Id, Reply
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.engine import Engine

MAX_PER_PRINCIPAL = 16
MAX_LISTENERS = 1_000


class Subscription(PendingRequest):
    """One subscription: runs until the client disconnects or the server ends."""

    def __init__(self, engine: Engine, peer: Peer, id_: Id, wanted: Mapping[str, Any]) -> None:
        super().__init__(peer, id_)
        self.engine = engine
        self.granted = {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}
        self._ended: asyncio.Event = asyncio.Event()
        self._is_acknowledged = False

    async def run(self) -> Reply:
        try:
            self.notify("notifications/subscriptions/acknowledged", {"notifications": self.granted})
            self._is_acknowledged = True
            await self._ended.wait()
        finally:
            self.close()
        result = {
            "resultType": "complete",
            "_meta": {**self.engine.server_meta, messages.SUBSCRIPTION: self.id},
        }
        return Reply(messages.encode_result(self.id, codec.write(result)))

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        tagged = {**(params or {}), "_meta": {messages.SUBSCRIPTION: self.id}}
        self.peer.send(messages.encode_notification(method, tagged))

    def wants(self, kind: str) -> bool:
        return self._is_acknowledged and kind in self.granted

    def end(self) -> None:
        self._ended.set()

    def close(self) -> None:
        super().close()
        self.engine.subscriptions.remove(self)


class Subscriptions:
    """All subscriptions of one server."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()

    def __len__(self) -> int:
        return len(self._subscriptions)

    def is_full_for(self, peer: Peer) -> bool:
        if len(self._subscriptions) >= MAX_LISTENERS:
            return True
        if peer.principal is LOCAL:
            return False  # stands for all clients without credentials
        own = sum(item.peer.principal == peer.principal for item in self._subscriptions)
        return own >= (MAX_LISTENERS // 2 if peer.principal == ANONYMOUS else MAX_PER_PRINCIPAL)

    def add(self, subscription: Subscription) -> None:
        self._subscriptions.add(subscription)

    def remove(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def announce(self, method: str, kind: str) -> None:
        for subscription in list(self._subscriptions):
            if subscription.wants(kind):
                subscription.notify(method)

    def close(self) -> None:
        for subscription in list(self._subscriptions):
            subscription.end()
