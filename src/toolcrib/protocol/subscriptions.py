"""subscriptions/listen: who wants to hear of what, and how it is ended.

Knows frames and filters; refuses to know what has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.context import ANONYMOUS, LOCAL
from toolcrib.protocol import messages
from toolcrib.protocol.calls import Exchange, Link
from toolcrib.protocol.messages import Id, Reply
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.engine import Engine

MAX_PER_PRINCIPAL = 16
MAX_LISTENERS = 1_000


class Listen(Exchange):
    """One subscription: runs until the client goes or the server ends."""

    def __init__(self, engine: Engine, link: Link, id_: Id, wanted: Mapping[str, Any]) -> None:
        super().__init__(link, id_)
        self.engine = engine
        self.honoured = {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}
        self._ended: asyncio.Event = asyncio.Event()
        self._is_acknowledged = False

    async def run(self) -> Reply:
        try:
            self.tell("notifications/subscriptions/acknowledged", {"notifications": self.honoured})
            self._is_acknowledged = True
            await self._ended.wait()
        finally:
            self.close()
        result = {
            "resultType": "complete",
            "_meta": {**self.engine.server_meta, messages.SUBSCRIPTION: self.id},
        }
        return Reply(messages.result_bytes(self.id, codec.write(result)))

    def tell(self, method: str, params: dict[str, Any] | None = None) -> None:
        tagged = {**(params or {}), "_meta": {messages.SUBSCRIPTION: self.id}}
        self.link.send(messages.notification_bytes(method, tagged))

    def hears_of(self, kind: str) -> bool:
        return self._is_acknowledged and kind in self.honoured

    def end(self) -> None:
        self._ended.set()

    def close(self) -> None:
        super().close()
        self.engine.subscriptions.remove(self)


class Subscriptions:
    """All that listen."""

    def __init__(self) -> None:
        self._listeners: set[Listen] = set()

    def __len__(self) -> int:
        return len(self._listeners)

    def is_full_for(self, link: Link) -> bool:
        if len(self._listeners) >= MAX_LISTENERS:
            return True
        if link.principal is LOCAL:
            return False  # everybody who has not said who they are
        own = sum(item.link.principal == link.principal for item in self._listeners)
        return own >= (MAX_LISTENERS // 2 if link.principal == ANONYMOUS else MAX_PER_PRINCIPAL)

    def add(self, listener: Listen) -> None:
        self._listeners.add(listener)

    def remove(self, listener: Listen) -> None:
        self._listeners.discard(listener)

    def announce(self, method: str, kind: str) -> None:
        for listener in list(self._listeners):
            if listener.hears_of(kind):
                listener.tell(method)

    def close(self) -> None:
        for listener in list(self._listeners):
            listener.end()
