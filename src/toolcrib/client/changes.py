"""Changes that a server announces: of its lists of tools, prompts and resources, and of single resources.

A legacy server notifies of its lists by itself, and of resources after `resources/subscribe`. A 2026-07-28
server is asked with one `subscriptions/listen` for everything. When more is to be watched, a second one is
opened and the first ends once the second is acknowledged, so that no change is missed.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.client.session import Listeners, Peer, Session
from toolcrib.errors import ClientError, RemoteError

logger = logging.getLogger("toolcrib")

OnChange = Callable[[], object]
OnUpdate = Callable[[str], object]
SendRequest = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]

_FILTERS = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}
_RESOURCES = "resourceSubscriptions"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
_MAX_DUE = 100


class ChangeWatcher:
    """Calls listeners when something changes at the server."""

    def __init__(self, session: Session, peer: Peer, request: SendRequest, timeout_s: float) -> None:
        self._session = session
        self._peer = peer
        self._request = request
        self._timeout_s = timeout_s
        self._lists: dict[str, list[_Listener]] = {}
        self._resources: dict[str, list[_Listener]] = {}
        self._stream: _ListenStream | None = None
        self._is_due = False  # it is opened at the end of this turn of the event loop

    # --- lists ---

    def watch_list(self, kind: str, callback: OnChange) -> asyncio.Future[bool]:
        """Add a callback for "tools", "prompts" or "resources". The future tells whether the server will
        announce changes."""
        is_new = kind not in self._lists
        self._lists.setdefault(kind, []).append(_Listener(callback, self._session))
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self._session.spawn(self._agree(kind, is_new, answer)) is None:
            answer.set_result(False)
        return answer

    async def _agree(self, kind: str, is_new: bool, answer: asyncio.Future[bool]) -> None:
        agreed = False
        try:
            if not self._peer.supports(kind, "listChanged"):
                pass
            elif self._peer.is_modern:
                agreed = (await self._ask(is_new)).get(_FILTERS[kind]) is True
            else:
                agreed = await self._session.transport.listen()
        finally:
            if not answer.done():
                answer.set_result(agreed)

    # --- single resources ---

    async def subscribe(self, uri: str, callback: OnUpdate) -> bool:
        """Add a callback for one resource; return whether the server will announce its changes."""
        is_new = uri not in self._resources
        listener = _Listener(callback, self._session)
        self._resources.setdefault(uri, []).append(listener)
        agreed = False
        try:
            if not self._peer.supports("resources", "subscribe"):
                pass
            elif self._peer.is_modern:
                granted = (await self._ask(is_new)).get(_RESOURCES)
                agreed = isinstance(granted, list) and uri in granted
            else:
                agreed = await self._subscribe_session(uri)
        finally:
            if not agreed:
                self._forget(uri, listener)
        return agreed

    async def _subscribe_session(self, uri: str) -> bool:
        if not await self._session.transport.listen():
            return False
        try:
            await self._request("resources/subscribe", {"uri": uri})
        except RemoteError as error:
            logger.debug(
                "%s does not announce changes of %.200s: %s", self._session.transport.label, uri, error
            )
            return False
        return True

    def _forget(self, uri: str, listener: _Listener) -> None:
        listeners = self._resources.get(uri, [])
        if listener in listeners:
            listeners.remove(listener)
        if not listeners:
            self._resources.pop(uri, None)

    async def unsubscribe(self, uri: str) -> None:
        """Remove all callbacks for a resource."""
        if self._resources.pop(uri, None) is None:
            return
        if self._peer.is_modern:
            await self._ask(True)
            return
        try:
            await self._request("resources/unsubscribe", {"uri": uri})
        except RemoteError as error:
            logger.debug("%s did not unsubscribe: %s", self._session.transport.label, error)

    def session_renewed(self) -> None:
        """Subscribe again: a legacy server has forgotten the subscriptions with the session."""
        for uri in self._resources:
            self._session.spawn(self._subscribe_again(uri))

    async def _subscribe_again(self, uri: str) -> None:
        try:
            if await self._subscribe_session(uri):
                self.changed("resource", uri)
        except ClientError as error:
            logger.debug("%s: could not subscribe again: %s", self._session.transport.label, error)

    # --- notifications ---

    def changed(self, kind: str, uri: str | None) -> None:
        """Call the listeners of a list, or of the resource with this URI or above it."""
        if uri is None:
            for listener in self._lists.get(kind, ()):
                listener.notify()
            return
        for watched, listeners in list(self._resources.items()):
            if uri == watched or uri.startswith(watched.rstrip("/") + "/"):
                for listener in listeners:
                    listener.notify(uri)

    def _changed_all(self) -> None:
        """Changes during an interruption were not announced."""
        for kind in self._lists:
            self.changed(kind, None)
        for uri, listeners in self._resources.items():
            for listener in listeners:
                listener.notify(uri)

    # --- subscriptions/listen ---

    async def _ask(self, is_new: bool) -> Mapping[str, Any]:
        """Return the notifications that the server agrees to send, asking for more if something is new."""
        if is_new and not self._is_due:
            loop, self._is_due = asyncio.get_running_loop(), True
            self._stream = _ListenStream(loop.create_future(), self._stream)
            loop.call_soon(self._open, self._stream)  # what is added together shares one request
        granted: Mapping[str, Any] = {}
        while (stream := self._stream) is not None:
            granted = await asyncio.shield(stream.granted)
            if stream is self._stream:
                break  # else another one has taken its place
        return granted

    def _open(self, stream: _ListenStream) -> None:
        self._is_due = False
        wanted: dict[str, Any] = {_FILTERS[kind]: True for kind in self._lists}
        if self._resources:
            wanted[_RESOURCES] = list(self._resources)
        stream.task = self._session.spawn(self._listen(stream, wanted)) if wanted else None
        if stream.task is None:
            self._stream = None
            stream.end()

    async def _listen(self, stream: _ListenStream, wanted: Mapping[str, Any]) -> None:
        """Listen until the server refuses, again when the stream breaks off."""
        acknowledged = 0

        def acknowledge(granted: Any) -> None:
            nonlocal acknowledged
            acknowledged += 1
            stream.resolve(wanted if granted is None else granted if isinstance(granted, Mapping) else {})
            stream.end_older()
            if acknowledged > 1:
                self._changed_all()

        listeners = Listeners(on_acknowledged=acknowledge)
        params = {"notifications": wanted}
        label = self._session.transport.label
        pause_s = _FIRST_PAUSE_S
        timer = asyncio.get_running_loop().call_later(self._timeout_s, stream.resolve, {})
        try:
            while not self._session.is_closed:
                started = time.monotonic()
                try:
                    await self._session.request(
                        "subscriptions/listen", params, timeout_s=None, listeners=listeners
                    )
                    if stream.granted.done() and not stream.granted.result():
                        return  # the server announces nothing
                except RemoteError as error:
                    logger.debug("%s does not announce changes: %s", label, error)
                    return
                except ClientError as error:
                    logger.debug("%s: subscription interrupted: %s", label, error)
                if time.monotonic() - started > _LONGEST_PAUSE_S:
                    pause_s = _FIRST_PAUSE_S
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        finally:
            timer.cancel()
            if self._stream is stream:
                self._stream = stream.older  # the server did not open another
            stream.resolve({})


@dataclass(slots=True, eq=False)
class _ListenStream:
    """One `subscriptions/listen`, and the one before, which ends once this one is acknowledged."""

    granted: asyncio.Future[Mapping[str, Any]]
    older: _ListenStream | None
    task: asyncio.Task[None] | None = None

    def resolve(self, granted: Mapping[str, Any]) -> None:
        if not self.granted.done():
            self.granted.set_result(granted)

    def end(self) -> None:
        self.resolve({})
        self.end_older()
        if self.task is not None:
            self.task.cancel()

    def end_older(self) -> None:
        older, self.older = self.older, None
        if older is not None:
            older.end()


class _Listener:
    """Calls a callback. A coroutine function runs once at a time; changes meanwhile cause one more run."""

    def __init__(self, callback: Callable[..., object], session: Session) -> None:
        self._callback = callback
        self._session = session
        self._is_running = False
        self._due: dict[tuple[str, ...], None] = {}

    def notify(self, *arguments: str) -> None:
        if self._is_running:
            if len(self._due) < _MAX_DUE:
                self._due[arguments] = None
            return
        work = self._session.call_back(self._callback, *arguments)
        if inspect.iscoroutine(work):
            self._is_running = self._session.spawn(self._finish(work)) is not None
            if not self._is_running:
                work.close()  # the session is closed or overloaded

    async def _finish(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except Exception as error:
            self._session.report_callback(error)
        finally:
            self._is_running = False
        due, self._due = self._due, {}
        for arguments in due:
            self.notify(*arguments)
