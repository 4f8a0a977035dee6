"""The protocol engine: takes one message as bytes, returns a reply or a request to run. Has no sockets.

A message is of 2026-07-28 if it says so itself, and legacy otherwise; one peer may send both. The engine
holds what all peers share: the identity of the server, encoded lists, sessions, subscriptions and signed
states.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolcrib.dispatch.dispatcher import Dispatcher
from toolcrib.protocol import completion, legacy, messages, modern
from toolcrib.protocol.calls import Peer, PendingRequest
from toolcrib.protocol.lists import ListCache
from toolcrib.protocol.messages import INVALID_REQUEST, PARSE_ERROR, VERSION, Reply, RPCError, error_reply
from toolcrib.protocol.methods import METHODS, Method, methods_of
from toolcrib.protocol.questions import StateSealer
from toolcrib.protocol.revisions import LEGACY, MODERN, Revision
from toolcrib.protocol.session_ids import SessionIds
from toolcrib.protocol.sessions import Session, Sessions, UnknownBytes
from toolcrib.protocol.subscriptions import Subscription
from toolcrib.protocol.tasks import TaskManager
from toolcrib.state import StateHandle
from toolcrib.state.rate_limit import RateLimiter
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.config.settings import Tasks

logger = logging.getLogger("toolcrib")

NO_BATCHES = "Invalid request: JSON-RPC batches are not supported, send one message at a time"
"""2025-03-26 had them, the next version removed them."""
SEALED_TTL_MS = 3_600_000
DYNAMIC_TTL_MS = 60_000


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The identity of a server, and its settings of the protocol.

    `dynamic` servers announce changes of their tools. `key` signs the state of calls that wait for an
    answer; workers of one server share it. `methods` come from other packages. `tasks` are the settings
    of tasks, None for the defaults; they are kept in `state`.
    """

    name: str
    version: str
    title: str | None = None
    instructions: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: Sequence[Mapping[str, Any]] = ()
    dynamic: bool = False
    page_size: int | None = None
    unknown_tool_code: int = messages.INVALID_PARAMS
    key: bytes | None = None
    keeps_sessions: bool = True
    log_arguments: bool = False
    methods: tuple[Method, ...] = ()
    tasks: Tasks | None = None
    state: StateHandle = field(default_factory=StateHandle)


class Engine:
    """The protocol of one server. Serves any number of peers, from one thread."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        settings: EngineSettings,
        *,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.dispatcher = dispatcher
        self.settings = settings
        named = {"name": settings.name, "version": settings.version, "title": settings.title}
        shown = {
            "description": settings.description,
            "websiteUrl": settings.website_url,
            "icons": list(settings.icons),
        }
        # Every result of 2026-07-28 names its server; icons may be long, so they are sent once.
        self.server_meta = {messages.SERVER_INFO: {key: value for key, value in named.items() if value}}
        self.server_info = {key: value for key, value in {**named, **shown}.items() if value}
        self.ttl_ms = DYNAMIC_TTL_MS if settings.dynamic else SEALED_TTL_MS
        self.lists = ListCache(settings.page_size)
        keys = settings.state.keys or (() if settings.key is None else (settings.key,))
        self.sealer = StateSealer(keys, now=wall)
        self.sessions = Sessions(now, SessionIds(keys, wall=wall))
        self.pipes: set[Session] = set()
        self.unknown_bytes = UnknownBytes()
        self.subscriptions: set[Subscription] = set()
        self.running = 0  # calls, at most MAX_RUNNING
        self.completion_limit = RateLimiter(completion.MAX_COMPLETIONS, completion.PERIOD_S)
        self.tasks = TaskManager(self, settings.tasks)
        self.encoded_meta = codec.preencode(self.server_meta)
        self.write = codec.encoder()
        self._methods: tuple[Method, ...] = METHODS
        self.modern_methods: dict[str, Method] = {}
        self.legacy_methods: dict[str, dict[str, Method]] = {}
        self.add_methods(settings.methods)

    def add_methods(self, rows: tuple[Method, ...]) -> None:
        """Add methods to the table; one of a name that is there replaces it."""
        self._methods += rows
        self.modern_methods = methods_of(self._methods, MODERN)
        self.legacy_methods = {name: methods_of(self._methods, revision) for name, revision in LEGACY.items()}

    # --- in ---

    def receive(self, data: bytes, peer: Peer) -> Reply | PendingRequest:
        """Read one message. A Reply is sent as it is; a PendingRequest has to be run."""
        try:
            message = codec.parse(data)
        except ValueError as error:
            return error_reply(None, RPCError(PARSE_ERROR, f"Parse error: {error}"))
        if type(message) is list:
            return error_reply(None, RPCError(INVALID_REQUEST, NO_BATCHES))
        return self.receive_message(message, peer)

    def receive_message(self, message: Any, peer: Peer) -> Reply | PendingRequest:
        """Serve one decoded message."""
        id_ = None
        try:
            if type(message) is dict and "id" in message:
                id_ = message["id"]  # checked first, so that every error can name it
                if type(id_) is not int:
                    id_ = None
                    id_ = messages.check_id(message["id"])
            if type(message) is not dict or message.get("jsonrpc") != "2.0":
                raise RPCError(INVALID_REQUEST, 'Invalid request: not an object with "jsonrpc": "2.0"')
            if "method" not in message:
                return self._receive_response(message, peer)
            method, params = message["method"], message.get("params")
            if type(method) is not str:
                raise RPCError(INVALID_REQUEST, "Invalid request: the method must be a string")
            if params is None and "params" not in message:
                params = {}
            elif type(params) is not dict:
                if type(params) is list or method.startswith("notifications/"):
                    raise RPCError(INVALID_REQUEST, "Invalid request: params must be an object")
                raise RPCError(messages.INVALID_PARAMS, "Invalid params: they must be an object")
            meta = params.get("_meta")
            if (type(meta) is dict and VERSION in meta) or modern.is_modern_header(peer.headers):
                return modern.receive(self, peer, id_, method, params)
            return legacy.receive(self, peer, id_, method, params)
        except RPCError as error:
            is_modern = modern.is_marked(message) or modern.is_modern_header(peer.headers)
            status = error.status
            if peer.headers is not None and not is_modern:  # 200 for a message that was understood
                status = status if error.code in (PARSE_ERROR, INVALID_REQUEST) or status >= 429 else 200
            return error_reply(id_, error, status=status)

    def _receive_response(self, message: dict[str, Any], peer: Peer) -> Reply | PendingRequest:
        """Take the answer to a question; only legacy clients are asked."""
        if ("result" not in message) == ("error" not in message):
            raise RPCError(INVALID_REQUEST, "Invalid request: neither a method nor one of result and error")
        if modern.is_modern_header(peer.headers) or peer.session is None:
            raise RPCError(INVALID_REQUEST, "Invalid request: nothing was asked")
        if (shared := self.sessions.shared) is not None and (work := shared.forward_answer(peer, message)):
            return work
        peer.session.receive_answer(message)
        return messages.ACCEPTED

    # --- out ---

    def capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return the capabilities that the methods of a revision announce."""
        found: dict[str, Any] = {}
        rows = self.modern_methods if revision.modern else self.legacy_methods[revision.name]
        for row in rows.values():
            capability = row.capability(self) if callable(row.capability) else row.capability
            for name, details in (capability or {}).items():
                before = found.get(name)
                merges = isinstance(before, Mapping) and isinstance(details, Mapping)
                found[name] = {**before, **details} if merges else details  # type: ignore[dict-item]
        if revision.name == "2024-11-05":
            found.pop("completions", None)  # any server may complete there
        return found

    @property
    def cache_scope(self) -> str:
        return "private" if self.dispatcher.depends_on_principal else "public"

    def announce_change(self, kind: str = "tools") -> None:
        """Notify all clients that listen that the list of tools, resources or prompts has changed."""
        self.lists.clear()
        if kind == "tools" and not self.dispatcher.has_list_changed():
            return  # other tools can be found by search now, but the list is the same
        self.announce_list(kind)

    def announce_list(self, kind: str) -> None:
        """Notify all clients that listen that a list differs, though not in this process."""
        self._announce(f"notifications/{kind}/list_changed", f"{kind}ListChanged")

    def announce_update(self, uri: str) -> None:
        """Notify the clients that have subscribed to a resource that its contents have changed."""
        self._announce("notifications/resources/updated", "resourceSubscriptions", uri)

    def _announce(self, method: str, kind: str, uri: str | None = None) -> None:
        params = None if uri is None else {"uri": uri}
        message = messages.encode_notification(method, params)
        for client in (*self.subscriptions, *self.pipes, *self.sessions):
            try:
                if isinstance(client, Subscription):
                    if uri is None or uri in client.uris:
                        client.announce(method, kind, params)
                elif client.is_open and client.notify and (uri is None or uri in client.subscribed):
                    client.notify(message)
            except Exception as error:  # one client that has gone must not keep it from the others
                logger.debug("a client was not notified of a change: %s", type(error).__name__)

    def drain(self, *, serves_rest: bool = False) -> None:
        """End every subscription. Calls may end, but get no more answers to questions, unless another process
        serves the rest and forwards them."""
        for subscription in self.subscriptions:
            subscription.end()
        self.sessions.drain(keeps_questions=serves_rest)

    def close(self) -> None:
        """End every subscription and session; the transports end calls that still run."""
        self.drain()
        self.sessions.close()
