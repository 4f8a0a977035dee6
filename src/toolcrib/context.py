"""What a running tool may know of its call, and say while it runs.

A function asks for it by annotating a parameter with `Context`; the parameter is never published. The
other end is a `Channel`: a client on the wire, or nobody. Knows nothing of transports, loops excepted.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
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
    """The caller's end: hears of progress and log lines, and may be asked. Always on the loop of the call."""

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
        yield from ()


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
    cancelled: bool = False
    """True once nobody waits any more. Code on a thread cannot be stopped: it looks here."""
    _question: concurrent.futures.Future[Any] | None = None

    def cancel(self) -> None:
        """Nobody waits any more. A thread that waits for an answer gets a CancelledError."""
        self.cancelled = True
        question = self._question
        if question is not None:
            question.cancel()

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
        running = _running_loop()
        if self.loop is None or running is self.loop:
            return self.channel.ask(key, message, schema)
        if self.cancelled:
            raise concurrent.futures.CancelledError
        future = asyncio.run_coroutine_threadsafe(self._ask(key, message, schema), self.loop)
        if running is not None:  # a thread with a loop of its own
            return asyncio.wrap_future(future)
        self._question = future
        if self.cancelled:  # by now: whoever cancelled did not see the question
            future.cancel()
        try:
            return future.result()
        finally:
            self._question = None

    async def _ask(self, key: str, message: str, schema: Mapping[str, Any] | None) -> Any:
        return await self.channel.ask(key, message, schema)

    def _tell(self, method: Any, *words: Any) -> None:
        if self.cancelled:
            return  # whoever is told now has been answered already
        if self.loop is None or _running_loop() is self.loop:
            self._pass_on(method, words)
            return
        try:
            self.loop.call_soon_threadsafe(self._pass_on, method, words)
        except RuntimeError:
            pass  # the loop was closed meanwhile: there is nobody left to tell

    def _pass_on(self, method: Any, words: tuple[Any, ...]) -> None:
        try:
            method(*words)
        except Exception as error:  # the caller's end is broken; the tool's work is not
            logger.warning(
                "tool '%s' could not reach its caller: %s",
                self.tool,
                type(error).__name__,
                extra={"tool_name": self.tool},
            )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
