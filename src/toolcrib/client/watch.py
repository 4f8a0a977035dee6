"""Hears that a server's tools have changed, and tells whoever wants to know.

A legacy session says so by itself; 2026-07-28 is asked to with `subscriptions/listen`, again and again where
that breaks off. Knows both ways; refuses to know what the change is.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from toolcrib.client.handshake import Peer
from toolcrib.client.session import Hearing, Session
from toolcrib.errors import ClientError, RemoteError

logger = logging.getLogger("toolcrib")

OnChange = Callable[[], object]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0


class Watch:
    """The listeners of one client, and the one subscription that serves them all."""

    def __init__(self, session: Session, peer: Peer, timeout_s: float) -> None:
        self._session = session
        self._peer = peer
        self._timeout_s = timeout_s
        self._bells: list[_Bell] = []
        self._is_heard: asyncio.Future[bool] | None = None

    def add(self, callback: OnChange) -> asyncio.Future[bool]:
        """From now on `callback` is called. The future says whether the server will tell anything."""
        self._bells.append(_Bell(callback, self._session))
        if self._is_heard is None:
            self._is_heard = asyncio.get_running_loop().create_future()
            if self._session.spawn(self._listen()) is None:
                self._settle(False)
        return asyncio.shield(self._is_heard)

    def ring(self) -> None:
        for bell in self._bells:
            bell.ring()

    def _settle(self, is_heard: bool) -> None:
        if self._is_heard is not None and not self._is_heard.done():
            self._is_heard.set_result(is_heard)

    async def _listen(self) -> None:
        timer = asyncio.get_running_loop().call_later(self._timeout_s, self._settle, False)
        try:
            if self._peer.tells_changes and self._peer.is_modern:
                await self._subscribe()
            elif self._peer.tells_changes:
                self._settle(await self._session.link.listen())
        finally:
            timer.cancel()
            self._settle(False)

    async def _subscribe(self) -> None:
        pause_s = _FIRST_PAUSE_S
        is_first = True

        def acknowledge() -> None:
            nonlocal pause_s, is_first
            pause_s = _FIRST_PAUSE_S
            self._settle(True)
            if not is_first:
                self.ring()  # what changed while nobody listened is not told again
            is_first = False

        wish = {"notifications": {"toolsListChanged": True}}
        hearing = Hearing(on_acknowledged=acknowledge)
        while True:
            try:
                await self._session.request("subscriptions/listen", wish, timeout_s=None, hearing=hearing)
            except RemoteError as error:
                logger.debug("%s does not tell what changes: %s", self._session.link.place, error)
                return
            except ClientError as error:
                logger.debug("%s: listening broke off: %s", self._session.link.place, error)
            if self._session.is_closed:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class _Bell:
    """Calls one listener, one call at a time: all that happens meanwhile is one more call."""

    def __init__(self, callback: OnChange, session: Session) -> None:
        self._callback = callback
        self._session = session
        self._is_busy = False
        self._is_due = False

    def ring(self) -> None:
        if self._is_busy:
            self._is_due = True
            return
        try:
            work = self._callback()
        except Exception as error:  # the listener is broken; the conversation is not
            logger.warning("a listener to changes failed: %s: %s", type(error).__name__, error)
            return
        if inspect.iscoroutine(work):
            self._is_busy = self._session.spawn(self._finish(work)) is not None
            if not self._is_busy:
                work.close()  # the session has ended, or is flooded: somebody else must look

    async def _finish(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except Exception as error:
            logger.warning("a listener to changes failed: %s: %s", type(error).__name__, error)
        finally:
            self._is_busy = False
        if self._is_due:
            self._is_due = False
            self.ring()
