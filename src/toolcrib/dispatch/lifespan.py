"""Open and close the applications behind tools: each once, from any event loop or thread.

An application is opened when its server starts, or before the first call of one of its tools. It is closed
when it has no tools any more and its last call has ended, or when the server stops, in reverse order. One
that cannot be opened or closed is reported and does not affect the others.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from toolcrib.dispatch.crash_log import CrashReporter
from toolcrib.dispatch.middleware import call_hook
from toolcrib.errors import CallError, ToolCrashedError, ToolTimeoutError
from toolcrib.registry.registry import ToolRegistry
from toolcrib.tool import Tool

logger = logging.getLogger("toolcrib")

CLOSE_S = 10.0
"""How long an application may take to close."""
IDLE_CHECK_S = 0.05
"""How often an application without tools is checked for running calls."""


@dataclass(slots=True, eq=False)
class _State:
    application: Any
    is_open: bool = False
    has_close: bool = False  # determined when it opens: later its tools may be gone
    opening: Future[None] | None = None  # set while it is being opened
    calls: int = 0

    def is_busy(self) -> bool:
        return self.calls > 0 or self.opening is not None


class Applications:
    """The applications that the tools of one registry belong to."""

    def __init__(self, registry: ToolRegistry, crashes: CrashReporter) -> None:
        self._registry = registry
        self._crashes = crashes
        self._lock = threading.Lock()
        self._states: dict[int, _State] = {}
        self._opened: list[_State] = []

    def is_open(self, application: Any) -> bool:
        state = self._states.get(id(application))
        return state is not None and state.is_open

    async def open_for(self, tool: Tool, limit_s: float | None, call_id: str | None = None) -> None:
        """Open the application of a tool. Raises CallError where that fails or takes too long."""
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
            problem = f"Tool '{tool.name}' is not available: its application cannot be opened"
            raise ToolCrashedError(f"{problem} (reference {reference}).") from None

    def enter(self, application: Any) -> None:
        """Begin a call of one of its tools: until `leave`, it is not closed for having no tools."""
        with self._lock:
            self._find(application).calls += 1

    def leave(self, application: Any) -> None:
        with self._lock:
            self._find(application).calls -= 1

    async def open_all(self) -> None:
        """Open every application, in order of registration."""
        for application in self._owners():
            try:
                await self._open(application)
            except (Exception, SystemExit):
                name = type(application).__name__
                logger.exception("opening %s failed; the next call of one of its tools tries again", name)

    async def close_all(self) -> None:
        """Close every open application, the last opened first."""
        while self._opened:
            await self._close(self._opened.pop())

    async def close_unused(self) -> None:
        """Close the applications that have no tools any more, each when its last call has ended."""
        used = set(map(id, self._owners()))
        with self._lock:
            unused = [state for key, state in self._states.items() if key not in used]
        await asyncio.gather(*map(self._close_unused, unused))

    async def _close_unused(self, state: _State) -> None:
        while state.is_busy():
            await asyncio.sleep(IDLE_CHECK_S)
        if any(owner is state.application for owner in self._owners()):
            return  # its tools were added again
        with self._lock:
            if state.is_busy() or self._states.pop(id(state.application), None) is None:
                return  # it is called again, or was closed by another task
            was_open = state in self._opened
            if was_open:
                self._opened.remove(state)
        if was_open:
            await self._close(state)

    async def _close(self, state: _State) -> None:
        state.is_open = False
        try:
            async with asyncio.timeout(CLOSE_S):
                if state.has_close:
                    await call_hook(state.application.close)
        except (Exception, SystemExit):
            logger.exception("closing %s failed", type(state.application).__name__)

    def _owners(self) -> list[Any]:
        owners = [entry.tool.owner for entry in self._registry.entries()]
        return [owner for owner in owners if owner is not None]

    def _find(self, application: Any) -> _State:
        state = self._states.get(id(application))
        if state is None:
            state = self._states[id(application)] = _State(application)
        return state

    async def _open(self, application: Any) -> None:
        """Open an application once: others wait meanwhile, and after a failure the next one tries."""
        with self._lock:
            state = self._find(application)
        while not state.is_open:
            mine: Future[None] = Future()
            with self._lock:
                opening = state.opening
                state.opening = opening or mine
            if opening is not None:
                await asyncio.shield(asyncio.wrap_future(opening))
                continue
            try:
                if self._has_hook(application, "open"):
                    await call_hook(application.open)
                state.has_close = self._has_hook(application, "close")
                with self._lock:
                    state.is_open = True
                    self._opened.append(state)
            finally:
                state.opening = None
                mine.set_result(None)

    def _has_hook(self, application: Any, name: str) -> bool:
        """Whether an application has this hook: a method that is not a tool and needs no arguments."""
        hook = getattr(application, name, None)
        if not callable(hook) or any(entry.tool.handler == hook for entry in self._registry.entries()):
            return False
        try:
            inspect.signature(hook).bind()
        except (TypeError, ValueError):
            return False
        return True
