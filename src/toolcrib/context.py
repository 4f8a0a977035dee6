"""What a running tool may know of its call, and say while it runs.

A function asks for it by annotating a parameter with `Context`; the parameter is never published. The
other end is a `Channel`: a client on the wire, or nobody. Knows nothing of transports, loops excepted.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolcrib.errors import CannotAskError

logger = logging.getLogger("toolcrib")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls."""

    name: str = "local"
    scopes: frozenset[str] = frozenset()


LOCAL = Principal()


class Channel(Protocol):
    """The caller's end: hears of progress and log lines, and may be asked."""

    def progress(self, progress: float, total: float | None, message: str | None) -> None: ...

    def log(self, level: str, data: Any) -> None: ...

    async def ask(self, key: str, message: str, schema: Mapping[str, Any] | None) -> Any: ...


class Nobody:
    """The channel of a call that no client waits for: log lines go to the log, questions fail."""

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        pass

    def log(self, level: str, data: Any) -> None:
        logger.log(logging.getLevelNamesMapping().get(level.upper(), logging.INFO), "%s", data)

    async def ask(self, key: str, message: str, schema: Mapping[str, Any] | None) -> Any:  # noqa: ARG002
        raise CannotAskError("This call has nobody to ask: it was not made by an interactive client.")


NOBODY = Nobody()


class _Told:
    """Lets `await ctx.progress(...)` and plain `ctx.progress(...)` both be right."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield  # pragma: no cover - makes this a generator


_TOLD = _Told()


@dataclass(slots=True, eq=False)
class Context:
    """The running call, for the tool that asks for it."""

    tool: str
    arguments: Mapping[str, Any]
    principal: Principal = LOCAL
    channel: Channel = NOBODY
    server: Any = None
    deadline: float | None = None
    loop: asyncio.AbstractEventLoop | None = None
    _cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def cancelled(self) -> bool:
        """True once nobody waits any more. Code on a thread cannot be stopped: it looks here."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        self._cancelled.set()

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the deadline, never below zero; None where there is none."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> _Told:
        """Tell the caller how far the work is. Works with and without `await`."""
        self._tell(self.channel.progress, progress, total, message)
        return _TOLD

    def log(self, level: str, data: Any) -> _Told:
        """Send a log line to the caller. Works with and without `await`."""
        self._tell(self.channel.log, level, data)
        return _TOLD

    def ask(self, key: str, message: str, schema: Mapping[str, Any] | None = None) -> Any:
        """Ask the person behind the call: awaited in async code, blocking in code on a thread."""
        question = self.channel.ask(key, message, schema)
        if self.loop is None or self._is_on_loop():
            return question
        return asyncio.run_coroutine_threadsafe(question, self.loop).result()

    def _tell(self, method: Any, *words: Any) -> None:
        if self.loop is None or self._is_on_loop():
            method(*words)
        else:
            self.loop.call_soon_threadsafe(method, *words)

    def _is_on_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False
