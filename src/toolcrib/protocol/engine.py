"""The protocol engine: one message in, a reply or something to run out. Serves both eras, message by message.

A message is of 2026-07-28 when it says so itself, and legacy when not; one peer may send both. Holds what all
peers share: the identity of the server, encoded lists, sessions, subscriptions, the seal. Knows the registry
through the dispatcher alone; refuses to know sockets, and any clock it was not given.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from toolcrib.dispatch.dispatcher import Dispatcher
from toolcrib.protocol import legacy, messages, modern
from toolcrib.protocol.batch import batch_of, check_batch
from toolcrib.protocol.calls import Exchange, Link
from toolcrib.protocol.gate import Gate
from toolcrib.protocol.lists import Listings
from toolcrib.protocol.messages import INVALID_REQUEST, PARSE_ERROR, Fault, Reply, refusal
from toolcrib.protocol.questions import Sealer
from toolcrib.protocol.sessions import Session, Sessions
from toolcrib.protocol.subscriptions import Subscriptions
from toolcrib.validation import codec

SEALED_TTL_MS = 3_600_000
DYNAMIC_TTL_MS = 60_000


class Engine:
    """One server's protocol. Serves any number of peers, from one thread."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        name: str,
        version: str,
        title: str | None = None,
        instructions: str | None = None,
        dynamic: bool = False,
        page_size: int | None = None,
        unknown_tool_code: int = messages.INVALID_PARAMS,
        key: bytes | None = None,
        keeps_sessions: bool = True,
        log_arguments: bool = False,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.dispatcher = dispatcher
        self.info = {"name": name, "version": version} | ({"title": title} if title else {})
        self.instructions = instructions
        self.dynamic = dynamic
        self.ttl_ms = DYNAMIC_TTL_MS if dynamic else SEALED_TTL_MS
        self.unknown_tool_code = unknown_tool_code
        self.keeps_sessions = keeps_sessions
        self.log_arguments = log_arguments
        self.now = now
        self.listings = Listings(page_size)
        self.sealer = Sealer(key, now=wall)
        self.sessions = Sessions(now)
        self.pipes: set[Session] = set()
        self.subscriptions = Subscriptions()
        self.gate = Gate()
        self.server_meta = {messages.SERVER_INFO: self.info}
        self.meta = codec.written(self.server_meta)
        self._noticed: set[str] = set()

    # --- in ---

    def receive(self, data: bytes, link: Link) -> Reply | Exchange:
        """Read one message. A Reply goes back as it is; an Exchange has to be run."""
        try:
            message = codec.parse(data)
        except ValueError as error:
            return refusal(None, Fault(PARSE_ERROR, f"Parse error: {error}"))
        if type(message) is list:
            return self._receive_batch(message, link)
        return self.take(message, link)

    def take(self, message: Any, link: Link) -> Reply | Exchange:
        """Serve one message that has been read."""
        id_ = None
        try:
            if type(message) is dict and "id" in message:
                id_ = messages.check_id(message["id"])  # first, so that every error can name it
            if type(message) is not dict or message.get("jsonrpc") != "2.0":
                raise Fault(INVALID_REQUEST, 'Invalid request: not an object with "jsonrpc": "2.0"')
            if "method" not in message:
                return self._take_response(message, link)
            method, params = message["method"], message.get("params")
            if type(method) is not str:
                raise Fault(INVALID_REQUEST, "Invalid request: the method must be a string")
            if params is None and "params" not in message:
                params = {}
            elif type(params) is not dict:
                if type(params) is list or method.startswith("notifications/"):
                    raise Fault(INVALID_REQUEST, "Invalid request: params must be an object")
                raise Fault(messages.INVALID_PARAMS, "Invalid params: they must be an object")
            if modern.is_modern(params, link):
                return modern.serve(self, link, id_, method, params)
            return legacy.serve(self, link, id_, method, params)
        except Fault as fault:
            is_modern = modern.is_marked(message) or modern.is_modern({}, link)
            is_legacy = link.headers is not None and not is_modern
            return refusal(id_, fault, status=legacy.status_of(fault) if is_legacy else None)

    def _take_response(self, message: dict[str, Any], link: Link) -> Reply:
        """An answer to something we asked: only legacy clients are asked."""
        if ("result" not in message) == ("error" not in message):
            raise Fault(INVALID_REQUEST, "Invalid request: neither a method nor one of result and error")
        if modern.is_modern({}, link) or link.session is None:
            raise Fault(INVALID_REQUEST, "Invalid request: nothing was asked")
        link.session.take_reply(message)
        return messages.ACCEPTED

    def _receive_batch(self, items: list[Any], link: Link) -> Reply | Exchange:
        try:
            check_batch(items, link)
        except Fault as fault:
            return refusal(None, fault)
        return batch_of(link, [self.take(item, link) for item in items])

    # --- out ---

    @property
    def capabilities(self) -> dict[str, Any]:
        """What is promised: exactly what is served."""
        return {"logging": {}, "tools": {"listChanged": True} if self.dynamic else {}}

    @property
    def cache_scope(self) -> str:
        return "private" if self.dispatcher.depends_on_principal else "public"

    def announce_change(self) -> None:
        """The tools have changed: tell everybody who listens, in the way their revision has for it."""
        self.listings.forget()
        if not self.dispatcher.has_list_changed():
            return  # other tools can be found now, but what is listed is what it was
        self.subscriptions.announce("notifications/tools/list_changed", "toolsListChanged")
        message = messages.notification_bytes("notifications/tools/list_changed")
        for session in (*self.pipes, *self.sessions):
            if session.is_open and session.notify is not None:
                session.notify(message)

    def is_first_notice(self, tool: str) -> bool:
        if tool in self._noticed:
            return False
        self._noticed.add(tool)
        return True

    def close(self) -> None:
        """End every subscription and session; calls under way are the transports' to end."""
        self.subscriptions.close()
        self.sessions.close()
