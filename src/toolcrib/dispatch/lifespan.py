"""State behind tools: the lifespan of a server, its applications, and what tools keep for their callers.

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
import weakref
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from toolcrib.component import Component
from toolcrib.context import ANONYMOUS, Context
from toolcrib.dispatch.failures import CrashReporter
from toolcrib.dispatch.middleware import call_hook
from toolcrib.errors import CallError, ConfigurationError, ToolCrashedError, ToolTimeoutError
from toolcrib.registry.index import Entry
from toolcrib.registry.registry import ToolRegistry
from toolcrib.state import StateHandle
from toolcrib.state.base import Space, Write
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

CLOSE_S = 10.0
"""How long an application may take to close."""
"""How often an application without tools is checked for running calls."""


MAX_STATE_BYTES = 65_536
SESSION_S = 86_400.0
PRINCIPAL_S = 30 * 86_400.0
"""How long a value is kept after it was last written."""
_CAPS = (100_000, 64 * 2**20, MAX_STATE_BYTES, 1_000)
STATES = {
    "session": (Space("session", *_CAPS, when_full="evict", durable=False), SESSION_S),
    "principal": (Space("caller", *_CAPS, when_full="evict", durable=True), PRINCIPAL_S),
}


# --- the lifespan of a server ------------------------------------------------------------------------


class Lifespan:
    """Runs the `lifespan` function of a server from start to stop, in a task of its own: libraries with
    cancel scopes must be left in the task that entered them."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        if not callable(function):
            raise ConfigurationError(
                f"must be a function that takes the server, got {function!r}",
                key="lifespan",
                hint="write it with contextlib.asynccontextmanager",
            )
        try:
            inspect.signature(function).bind(None)
        except TypeError:
            raise ConfigurationError("must take one argument, the server", key="lifespan") from None
        except ValueError:
            pass  # a function without a known signature
        self.function = function
        self.state: Any = None
        self.is_open = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._ended: Future[None] = Future()

    async def open(self, server: Any) -> None:
        """Enter it. Raises what it raises."""
        self._loop = asyncio.get_running_loop()
        self._ending, self._ended = asyncio.Event(), Future()
        entered: asyncio.Future[None] = self._loop.create_future()
        task = self._task = asyncio.create_task(self._run(server, entered), name="lifespan")
        try:
            await asyncio.shield(entered)
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def close(self) -> None:
        """Leave it, from any event loop or thread. A failure is logged."""
        if not self.is_open or self._loop is None:
            return
        self.is_open = False
        try:
            self._loop.call_soon_threadsafe(self._ending.set)
            async with asyncio.timeout(CLOSE_S):
                await asyncio.shield(asyncio.wrap_future(self._ended))
        except Exception:  # it failed, took too long, or its loop was closed
            logger.exception("closing the lifespan failed")
            if self._task is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._task.cancel)

    async def _run(self, server: Any, entered: asyncio.Future[None]) -> None:
        try:
            async with self._manager(server) as self.state:
                self.is_open = True
                entered.set_result(None)
                await self._ending.wait()
            self._ended.set_result(None)
        except asyncio.CancelledError as error:
            entered.cancel()
            self._ended.set_exception(error)
            raise
        except BaseException as error:
            if entered.done():
                self._ended.set_exception(error)
            else:
                entered.set_exception(error)
        finally:
            self.is_open, self.state = False, None

    def _manager(self, server: Any) -> Any:
        if inspect.isasyncgenfunction(self.function):
            return asynccontextmanager(self.function)(server)
        manager = self.function(server)
        if not hasattr(manager, "__aenter__"):
            raise ConfigurationError(
                f"must return an async context manager, got {type(manager).__name__}",
                key="lifespan",
                hint="write it with contextlib.asynccontextmanager",
            )
        return manager


# --- what tools keep for their callers ---------------------------------------------------------------


class CallerStates:
    """JSON values of sessions and principals, in the state of the server."""

    def __init__(self, storage: StateHandle) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self.max_bytes = MAX_STATE_BYTES
        self._sessions: weakref.WeakKeyDictionary[object, str] = weakref.WeakKeyDictionary()

    def find_owner(self, context: Context, of: str) -> str | None:
        """Return whose state a call uses: its session, or its credentials if it has none. None: it has
        neither."""
        if of == "principal":
            return None if context.principal is ANONYMOUS else context.principal.binding
        session = context.channel.session
        if session is None:
            return context.principal.binding if context.is_identified else None
        if (id_ := getattr(session, "id", None)) is not None:  # over HTTP: other processes know it, too
            return str(id_)
        with self._lock:
            return self._sessions.setdefault(session, secrets.token_hex(16))

    async def get(self, of: str, owner: str, key: str) -> Any:
        space, _ = STATES[of]
        item = await self._storage.engine.values.get(space, _key_of(owner, key))
        return None if item is None else codec.decode(item.value)

    async def set(self, of: str, owner: str, key: str, value: bytes | None) -> None:
        space, ttl_s = STATES[of]
        await self._storage.engine.values.commit([Write(space, _key_of(owner, key), value, ttl_s, owner)])


def _key_of(owner: str, key: str) -> str:
    return codec.write([owner, key]).decode()


# --- applications ------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _State:
    application: Any
    is_open: bool = False
    has_close: bool = False  # determined when it opens: later its tools may be gone
    opening: Future[None] | None = None  # set while it is being opened


class Applications:
    """The applications that the tools of some registries belong to."""

    def __init__(self, registries: Collection[ToolRegistry], crashes: CrashReporter) -> None:
        self._registries = registries
        self._crashes = crashes
        self._lock = threading.Lock()
        self._states: dict[int, _State] = {}
        self._opened: list[_State] = []

    def is_open(self, application: Any) -> bool:
        state = self._states.get(id(application))
        return state is not None and state.is_open

    async def open_for(self, tool: Component, limit_s: float | None, call_id: str | None = None) -> None:
        """Open the application of a tool. Raises CallError where that fails or takes too long."""
        try:
            async with asyncio.timeout(limit_s):
                await self._open(tool.owner)
        except CallError:
            raise
        except TimeoutError:
            raise ToolTimeoutError(f"{tool.label} was not ready within {limit_s:g} s.") from None
        except (Exception, SystemExit) as error:
            reference = call_id or secrets.token_hex(4)
            self._crashes.report(tool.name, error, reference)
            problem = f"{tool.label} is not available: its application cannot be opened"
            raise ToolCrashedError(f"{problem} (reference {reference}).") from None

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

    async def _close(self, state: _State) -> None:
        state.is_open = False
        try:
            async with asyncio.timeout(CLOSE_S):
                if state.has_close:
                    await call_hook(state.application.close)
        except (Exception, SystemExit):
            logger.exception("closing %s failed", type(state.application).__name__)

    def _owners(self) -> list[Any]:
        owners = [entry.tool.owner for entry in self._entries()]
        return [owner for owner in owners if owner is not None]

    def _entries(self) -> Iterator[Entry]:
        return (entry for registry in self._registries for entry in registry.entries())

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
        if not callable(hook) or any(entry.tool.handler == hook for entry in self._entries()):
            return False
        try:
            inspect.signature(hook).bind()
        except (TypeError, ValueError):
            return False
        return True
