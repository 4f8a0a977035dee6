"""The server that adopted tools belong to: its name and its lifespan.

One task enters and leaves the lifespan, since task groups and clients opened there must be closed by the
task that opened them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from toolcrib.errors import ToolError
from toolcrib.sources.foreign.recognition import Library


class Guest:
    """A server of theirs. `open` enters its lifespan, `close` leaves it."""

    def __init__(self, server: Any, library: Library) -> None:
        self.server = server
        self.library = library
        self.name: str = server.name
        self._value: Any = None
        self._life: _Life | None = None

    @property
    def lifespan_context(self) -> Any:
        """What the lifespan gave; an empty dict where there is none."""
        life = self._life
        if life is not None and life.task.done():
            raise ToolError(f"The lifespan of {self.name} ended before this call.")
        return {} if life is None else life.value

    async def open(self) -> None:
        manager = self._lifespan()
        if manager is None:
            return
        self._life = life = _Life(manager)
        try:
            await life.begin()
        except BaseException:
            self._life = None
            raise

    async def close(self) -> None:
        life, self._life = self._life, None
        if life is not None:
            await life.end()

    def _lifespan(self) -> AbstractAsyncContextManager[Any] | None:
        if self.library == "fastmcp":
            # Enters the lifespans of mounted servers and providers too.
            entered = getattr(self.server, "_lifespan_manager", None)
            return _entered(self.server) if entered is not None else self.server._lifespan(self.server)
        lifespan = self.server.settings.lifespan
        return None if lifespan is None else lifespan(self.server)


@contextlib.asynccontextmanager
async def _entered(server: Any) -> AsyncIterator[Any]:
    async with server._lifespan_manager():
        value = getattr(server, "_lifespan_result", None)
        yield {} if value is None else value


class _Life:
    """A context manager that is entered and left in one task."""

    def __init__(self, manager: AbstractAsyncContextManager[Any]) -> None:
        self.value: Any = None
        self._manager = manager
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._over = asyncio.Event()
        self.task = self._loop.create_task(self._live(), name="lifespan of a foreign server")

    async def _live(self) -> None:
        async with self._manager as value:
            self.value = value
            self._ready.set()
            await self._over.wait()

    async def begin(self) -> None:
        """Wait until it is entered. Raises what entering raises; who stops waiting stops it."""
        ready = self._loop.create_task(self._ready.wait())
        try:
            await asyncio.wait({ready, self.task}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.task.cancel()
            raise
        finally:
            ready.cancel()
        if self.task.done():
            await self.task
            raise RuntimeError("the lifespan ended at once")

    async def end(self) -> None:
        """Leave it, on the loop it lives on. Raises what leaving raises."""
        if self._loop is asyncio.get_running_loop():
            self._over.set()
            await self.task
        elif not self._loop.is_closed():
            ended = asyncio.run_coroutine_threadsafe(self.end(), self._loop)
            await asyncio.wrap_future(ended)
        # Where its loop is closed, the task was cancelled with it, and has left already.
