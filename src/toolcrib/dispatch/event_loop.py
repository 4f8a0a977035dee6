"""The event loop of a server: uvloop where it is installed, else asyncio's own.

Tools run on it and must not end it, so `loop.stop()` has no effect while the server runs. Unhandled errors
of tasks, callbacks and threads are logged by the logger `toolcrib`, which redacts them. The only module
that imports uvloop.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import signal
import sys
import threading
import time
import traceback
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from toolcrib.dispatch.rate_limit import LogLimiter
from toolcrib.dispatch.watchdog import HERE

logger = logging.getLogger("toolcrib")

GC_THRESHOLD = 20_000
"""New objects between two runs of the garbage collector: a server makes many short-lived ones."""


def is_in_loop() -> bool:
    """Whether a loop runs on this thread. A function of its own, so that code that follows does not run
    inside an `except` block, with this RuntimeError as the context of its own errors."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run_loop(main: Coroutine[Any, Any, Any]) -> Any:
    """Run the main coroutine of a server on a loop of its own."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()  # what exists now stays: the collector need not look at it again
    gc.set_threshold(GC_THRESHOLD, *before[1:])
    try:
        with _logged_threads(), asyncio.Runner(loop_factory=make_loop) as runner:
            return runner.run(main)
    except asyncio.CancelledError:  # not by Ctrl-C, which the runner turns into KeyboardInterrupt
        logger.error(
            "the server ended because its main task was cancelled from inside: code on its event loop "
            "cancels tasks that are not its own, such as all of asyncio.all_tasks()"
        )
        raise SystemExit(1) from None
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def _logged_threads() -> Iterator[None]:
    """Log the errors of threads, unless the program has a hook of its own for them."""
    if threading.excepthook is not threading.__excepthook__:
        yield
        return
    threading.excepthook = _log_thread_error
    try:
        yield
    finally:
        if threading.excepthook is _log_thread_error:
            threading.excepthook = threading.__excepthook__


def _log_thread_error(error: threading.ExceptHookArgs) -> None:
    if error.exc_value is None or isinstance(error.exc_value, SystemExit):
        return  # as Python's own hook: a thread may end itself
    name = "(unknown)" if error.thread is None else error.thread.name
    logger.error(
        "Exception in thread %s", name, exc_info=(error.exc_type, error.exc_value, error.exc_traceback)
    )


class ServingLoop(asyncio.AbstractEventLoop):
    """A mixin for loop classes: while `run_until_complete` runs, `stop` is ignored with a warning, and
    so are SystemExit and KeyboardInterrupt raised by tasks and callbacks. The server ends when it is
    cancelled, gets a signal or returns, never because its loop was stopped."""

    _awaited: asyncio.Future[Any] | None = None

    def run_until_complete(self, future: Any) -> Any:
        if self.is_running():
            return super().run_until_complete(future)  # raises
        self._awaited = asyncio.ensure_future(future, loop=self)
        try:
            while True:
                try:
                    return super().run_until_complete(self._awaited)
                except (SystemExit, KeyboardInterrupt) as error:
                    # Raised by a task or callback, unless a signal or the main coroutine did.
                    if self._awaited.done() or _is_from_signal(error):
                        raise
                    _log_exit(error)
        finally:
            self._awaited = None

    def stop(self) -> None:
        if self._awaited is None or self._awaited.done():
            super().stop()
        else:
            _log_stop()

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Log an unhandled error as asyncio does, but redacted."""
        message = context.get("message") or "Unhandled exception in event loop"
        details = [f"{key}: {context[key]!r}" for key in _DETAILS if key in context]
        logger.error("%s", "\n".join([message, *details]), exc_info=context.get("exception"))


_DETAILS = ("future", "task", "handle", "protocol", "transport", "socket", "asyncgen")
"""What asyncio may add about the origin of an error."""


def _is_from_signal(error: BaseException) -> bool:
    """Whether a signal handler raised this: one of the program, that of `asyncio.Runner`, or Python's
    own for Ctrl-C, which leaves no trace in the traceback."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    if isinstance(error, KeyboardInterrupt) and signal.default_int_handler in handlers:
        return True
    codes = {_code_of(handler) for handler in handlers if callable(handler)} - {None}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def _code_of(handler: object) -> object:
    while isinstance(handler, functools.partial):
        handler = handler.func
    own = getattr(handler, "__code__", None)
    return own or getattr(type(handler).__call__, "__code__", None)


def _log_exit(error: BaseException) -> None:
    if not _EXITS.take(time.monotonic()):
        return
    more = _EXITS.take_missed()
    logger.error(
        "a task or callback on the event loop of the server raised %r: ignored%s",
        error,
        more,
        exc_info=error,
    )


_EXITS = LogLimiter(10, 60.0)
_STOPS = LogLimiter(10, 60.0)
_STOPS_LOCK = threading.Lock()


def _log_stop() -> None:
    with _STOPS_LOCK:
        if not _STOPS.take(time.monotonic()):
            return
        more = _STOPS.take_missed()
    slots = HERE.marker.slots  # None in a callback or on another thread
    who = "something" if slots is None else f"tool '{slots.name}'"
    logger.warning(
        "%s called stop() on the event loop of the server: ignored%s",
        who,
        more,
        extra={} if slots is None else {"tool_name": slots.name},
    )


def make_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop for a server."""
    made: asyncio.AbstractEventLoop = type("ServingLoop", (ServingLoop, _base()), {})()
    return made


def _base() -> type[asyncio.AbstractEventLoop]:
    try:
        import uvloop  # delayed: only what serves needs it
    except ImportError:  # not available on every system
        if sys.platform == "win32":
            return asyncio.ProactorEventLoop
        return asyncio.SelectorEventLoop
    base: type[asyncio.AbstractEventLoop] = uvloop.Loop
    return base
