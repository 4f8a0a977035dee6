"""subscriptions/listen: clients of 2026-07-28 that want to be notified of changes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.context import ANONYMOUS, LOCAL
from toolcrib.protocol import messages
from toolcrib.protocol.calls import Peer, PendingRequest, read_options
from toolcrib.protocol.components import is_known
from toolcrib.protocol.messages import Id, Reply, RPCError, invalid_params
from toolcrib.protocol.revisions import Revision
from toolcrib.protocol.sessions import check_subscribed
from toolcrib.protocol.tasks import read_task_ids
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.engine import Engine

MAX_PER_PRINCIPAL = 16
MAX_LISTENERS = 1_000


class Subscription(PendingRequest):
    """One subscription: runs until the client disconnects or the server ends."""

    def __init__(
        self, engine: Engine, peer: Peer, id_: Id, wanted: Mapping[str, Any], task_ids: list[str]
    ) -> None:
        super().__init__(peer, id_)
        self.engine = engine
        self.granted = grant(engine, peer, wanted)
        self.uris = frozenset(self.granted.get("resourceSubscriptions", ()))
        self._task_ids = task_ids
        self._ended: asyncio.Event = asyncio.Event()
        self._is_acknowledged = False

    async def run(self) -> Reply:
        try:
            if self._task_ids:  # the client is told which of them it may read
                tasks, asked, self._task_ids = self.engine.tasks, self._task_ids, []
                if found := await tasks.resolve(asked, self.peer.principal):
                    tasks.follow(self, found)
                    self._task_ids = self.granted["taskIds"] = found
            self.notify("notifications/subscriptions/acknowledged", {"notifications": self.granted})
            self._is_acknowledged = True
            await self._ended.wait()
        except RPCError as error:
            return messages.error_reply(self.id, error)
        finally:
            self.close()
        meta = {**self.engine.server_meta, messages.SUBSCRIPTION: self.id}
        result = {"resultType": "complete", "_meta": meta}
        return Reply(messages.encode_result(self.id, codec.write(result)))

    def announce(self, method: str, kind: str, params: Mapping[str, Any] | None = None) -> None:
        """Notify the client of a change, if it wants to know of this kind."""
        if self._is_acknowledged and kind in self.granted:
            self.notify(method, params or {})

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        tagged = {**params, "_meta": {messages.SUBSCRIPTION: self.id}}
        self.peer.send(messages.encode_notification(method, tagged))

    def end(self) -> None:
        self._ended.set()

    def close(self) -> None:
        super().close()
        self.engine.subscriptions.discard(self)
        if self._task_ids:
            self.engine.tasks.unfollow(self, self._task_ids)


def grant(engine: Engine, peer: Peer, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a filter that can change, perhaps nothing.

    Raise RPCError for a filter of the wrong type.
    """
    granted: dict[str, Any] = {}
    for kind in ("tools", "prompts", "resources"):
        if wanted.get(f"{kind}ListChanged") is True and engine.settings.dynamic:
            granted[f"{kind}ListChanged"] = True
    uris = wanted.get("resourceSubscriptions", [])
    if type(uris) is not list or not all(type(uri) is str for uri in uris):
        raise invalid_params("resourceSubscriptions must be a list of strings")
    check_subscribed(uris)
    known = [uri for uri in dict.fromkeys(uris) if is_known(engine, peer, uri)]
    return granted | ({"resourceSubscriptions": known} if known else {})


def listen(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: dict[str, Any]) -> Subscription:  # noqa: ARG001
    read_options(params)
    wanted = params.get("notifications")
    if type(wanted) is not dict:
        raise invalid_params("notifications must be an object")
    if _is_full_for(peer, engine.subscriptions):
        raise RPCError(messages.INTERNAL_ERROR, "Too many subscriptions: end one first", status=429)
    task_ids = read_task_ids(engine, wanted, params["_meta"][messages.CAPABILITIES])
    subscription = Subscription(engine, peer, id_, wanted, task_ids)
    subscription.register()
    engine.subscriptions.add(subscription)  # at once: those that come together are all counted
    return subscription


def _is_full_for(peer: Peer, subscriptions: set[Subscription]) -> bool:
    if len(subscriptions) >= MAX_LISTENERS:
        return True
    if peer.principal is LOCAL:
        return False  # shared by all clients without credentials
    own = sum(item.peer.principal == peer.principal for item in subscriptions)
    return own >= (MAX_LISTENERS // 2 if peer.principal == ANONYMOUS else MAX_PER_PRINCIPAL)
