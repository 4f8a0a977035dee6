"""Opens and closes the applications behind tools: each once, whoever asks, on whatever loop or thread.

An application is opened when its server starts, or before the first call of one of its tools; applications
are closed in reverse order when the server stops. One that cannot be opened or closed is reported and is in
nobody's way. Knows applications by their `open` and `close`; refuses to know what calls come to.
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

from toolcrib.errors import CallError, ToolCrashedError, ToolTimeoutError
from toolcrib.execution import CrashReporter
from toolcrib.registry import ToolRegistry
from toolcrib.tool import Tool

logger = logging.getLogger("toolcrib")

CLOSE_S = 10.0
"""How long an application may take to close."""


@dataclass(slots=True, eq=False)
class _Owner:
    application: Any
    is_open: bool = False
    turn: Future[None] | None = None  # there while somebody opens it; done when that has ended


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

    async def open_for(self, tool: Tool, limit_s: float | None) -> None:
        """Open the application a tool belongs to. Raises CallError where it does not open, or not in time."""
        try:
            async with asyncio.timeout(limit_s):
                await self._open(tool.owner)
        except CallError:
            raise
        except TimeoutError:
            raise ToolTimeoutError(f"Tool '{tool.name}' was not ready within {limit_s:g} s.") from None
        except (Exception, SystemExit) as error:
            reference = secrets.token_hex(4)
            self._crashes.report(tool.name, error, reference)
            text = f"Tool '{tool.name}' is not available: its application does not open"
            raise ToolCrashedError(f"{text} (reference {reference}).") from None

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
        while self._opened:
            with self._lock:
                owner = self._opened.pop()
                owner.is_open = False
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self._call_hook(owner.application, "close")
            except (Exception, SystemExit):
                logger.exception("closing %s failed", type(owner.application).__name__)

    async def _open(self, application: Any) -> None:
        """Who comes while another opens it waits; who comes after a failure tries."""
        with self._lock:
            owner = self._owners.setdefault(id(application), _Owner(application))
        while not owner.is_open:
            mine: Future[None] = Future()
            with self._lock:
                turn = owner.turn
                owner.turn = turn or mine
            if turn is not None:
                await asyncio.shield(asyncio.wrap_future(turn))
                continue
            try:
                await self._call_hook(application, "open")
                with self._lock:
                    owner.is_open = True
                    self._opened.append(owner)
            finally:
                owner.turn = None
                mine.set_result(None)

    async def _call_hook(self, application: Any, name: str) -> None:
        """Call a hook, plain or async. A method that is a tool, or that needs arguments, is none."""
        hook = getattr(application, name, None)
        if not callable(hook) or any(entry.tool.handler == hook for entry in self._registry.entries()):
            return
        try:
            inspect.signature(hook).bind()
        except (TypeError, ValueError):
            return
        outcome = hook()
        if inspect.isawaitable(outcome):
            await outcome
