"""Opens and closes the applications behind tools: each once, whoever asks, on whatever loop or thread.

An application is opened when its server starts, or before the first call of one of its tools. It is closed
when it has no tools any more and its last call has ended, or when the server stops, in reverse order. One
that cannot be opened or closed is reported and is in nobody's way. Knows applications by their `open` and
`close`; refuses to know what calls come to.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from toolcrib.dispatch.crash_log import CrashReporter
from toolcrib.errors import CallError, ToolCrashedError, ToolTimeoutError
from toolcrib.registry.registry import ToolRegistry
from toolcrib.tool import Tool

logger = logging.getLogger("toolcrib")

CLOSE_S = 10.0
"""How long an application may take to close."""


@dataclass(slots=True, eq=False)
class _Owner:
    application: Any
    is_open: bool = False
    closes: bool = False  # found out when it opens: later its tools may be gone
    turn: Future[None] | None = None  # there while somebody opens it; done when that has ended
    calls: int = 0
    idle: Future[None] | None = None  # there while somebody waits for the last call to end


class Owners:
    """The applications that the tools of one registry belong to."""

    def __init__(self, registry: ToolRegistry, crashes: CrashReporter) -> None:
        self._registry = registry
        self._crashes = crashes
        self._lock = threading.Lock()
        self._owners: dict[int, _Owner] = {}
        self._opened: list[_Owner] = []

    def is_open(self, application: Any) -> bool:
        owner = self._owners.get(id(application))
        return owner is not None and owner.is_open

    async def open_for(self, tool: Tool, limit_s: float | None, call_id: str | None = None) -> None:
        """Open the application a tool belongs to. Raises CallError where it does not open, or not in time."""
        try:
            async with asyncio.timeout(limit_s):
                await self._open(tool.owner)
        except CallError:
            raise
        except TimeoutError:
            raise ToolTimeoutError(f"Tool '{tool.name}' was not ready within {limit_s:g} s.") from None
        except (Exception, SystemExit) as error:
            reference = call_id or secrets.token_hex(4)
            self._crashes.report(tool.name, error, reference)
            text = f"Tool '{tool.name}' is not available: its application does not open"
            raise ToolCrashedError(f"{text} (reference {reference}).") from None

    def enter(self, application: Any) -> None:
        """A call of one of its tools begins: until `leave`, it is not closed for want of tools."""
        with self._lock:
            self._find(application).calls += 1

    def leave(self, application: Any) -> None:
        with self._lock:
            owner = self._find(application)
            owner.calls -= 1
            if owner.calls or owner.idle is None:
                return
            idle, owner.idle = owner.idle, None
        idle.set_result(None)

    async def open_all(self) -> None:
        """Open every application there is, in the order of registration."""
        owners = [entry.tool.owner for entry in self._registry.entries()]
        for application in [owner for owner in owners if owner is not None]:
            try:
                await self._open(application)
            except (Exception, SystemExit):
                name = type(application).__name__
                logger.exception("opening %s failed; a call of one of its tools will try again", name)

    async def close_all(self) -> None:
        """Close what is open, the last opened first."""
        while True:
            with self._lock:
                if not self._opened:
                    return
                owner = self._opened.pop()
            await self._close(owner)

    async def close_unused(self) -> None:
        """Close the applications that have no tools any more, each when its last call has ended."""
        used = {id(entry.tool.owner) for entry in self._registry.entries()}
        with self._lock:
            unused = [owner for key, owner in self._owners.items() if key not in used]
        await asyncio.gather(*(self._retire(owner) for owner in unused))

    async def _retire(self, owner: _Owner) -> None:
        while True:
            with self._lock:
                if owner.calls and owner.idle is None:
                    owner.idle = Future()
                busy = owner.turn or owner.idle
            if busy is None:
                break
            await asyncio.shield(asyncio.wrap_future(busy))
        if any(entry.tool.owner is owner.application for entry in self._registry.entries()):
            return  # it has come back in the meantime
        with self._lock:
            if owner.calls or self._owners.pop(id(owner.application), None) is None:
                return  # it is called again, or somebody else has seen to it
            was_open = owner in self._opened
            if was_open:
                self._opened.remove(owner)
        if was_open:
            await self._close(owner)

    async def _close(self, owner: _Owner) -> None:
        owner.is_open = False
        try:
            async with asyncio.timeout(CLOSE_S):
                if owner.closes:
                    await _call(owner.application.close)
        except (Exception, SystemExit):
            logger.exception("closing %s failed", type(owner.application).__name__)

    def _find(self, application: Any) -> _Owner:
        owner = self._owners.get(id(application))
        if owner is None:
            owner = self._owners[id(application)] = _Owner(application)
        return owner

    async def _open(self, application: Any) -> None:
        """Who comes while another opens it waits; who comes after a failure tries."""
        with self._lock:
            owner = self._find(application)
        while not owner.is_open:
            mine: Future[None] = Future()
            with self._lock:
                turn = owner.turn
                owner.turn = turn or mine
            if turn is not None:
                await asyncio.shield(asyncio.wrap_future(turn))
                continue
            try:
                if self._is_hook(application, "open"):
                    await _call(application.open)
                owner.closes = self._is_hook(application, "close")
                with self._lock:
                    owner.is_open = True
                    self._opened.append(owner)
            finally:
                owner.turn = None
                mine.set_result(None)

    def _is_hook(self, application: Any, name: str) -> bool:
        """Whether there is such a hook. A method that is a tool, or that needs arguments, is none."""
        hook = getattr(application, name, None)
        if not callable(hook) or any(entry.tool.handler == hook for entry in self._registry.entries()):
            return False
        try:
            inspect.signature(hook).bind()
        except (TypeError, ValueError):
            return False
        return True


async def _call(hook: Callable[[], Any]) -> None:
    outcome = hook()
    if inspect.isawaitable(outcome):
        await outcome
