"""The event loop of a server: uvloop where it is installed, else asyncio's own.

Unhandled errors of tasks, callbacks and threads are logged by the logger `toolcrib`, which redacts them. A
watchdog reports tools that block a loop, and `waker_of` returns the cheapest way to wake a loop from another
thread. The only module that imports uvloop.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.dispatch.runners import ToolSlots

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


_DETAILS = ("future", "task", "handle", "protocol", "transport", "socket", "asyncgen")
"""What asyncio may add about the origin of an error."""


def _log_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an unhandled error as asyncio does, but redacted."""
    message = context.get("message") or "Unhandled exception in event loop"
    details = [f"{key}: {context[key]!r}" for key in _DETAILS if key in context]
    logger.error("%s", "\n".join([message, *details]), exc_info=context.get("exception"))


def make_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop for a server."""
    try:
        import uvloop  # delayed: only what serves needs it
    except ImportError:  # not available on every system
        loop = asyncio.new_event_loop()
    else:
        loop = uvloop.new_event_loop()
    loop.set_exception_handler(_log_error)
    return loop


# --- tools that block a loop -------------------------------------------------------------------------
#
# Code that enters a tool on an event loop sets a marker: which tool is on this thread, and a number that
# changes with every step. One daemon thread per process checks the markers ten times a second; a step that
# takes longer than a quarter of a second is reported once. The marker is all that calls pay for: it reads no
# clock.

SAMPLE_S = 0.1
BLOCKED_S = 0.25
REST_AFTER_S = 5.0


class Marker:
    """The tool that runs on one thread now. Written by that thread, except for what the watchdog has seen."""

    __slots__ = ("__weakref__", "is_reported", "seen_at", "seen_step", "slots", "step", "thread", "watched")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.slots: ToolSlots | None = None
        self.step = 0
        self.watched = False
        self.seen_step = 0
        self.seen_at = 0.0
        self.is_reported = False

    def enter(self, slots: ToolSlots) -> ToolSlots | None:
        """Mark a tool as running. Returns what `leave` must be given."""
        before = self.slots
        self.slots = slots
        if before is None:
            # Only the outermost step has a number: a tool that calls others in a row blocks the loop too.
            self.step += 1
        if not self.watched:
            WATCHDOG.watch(self)
        return before

    def leave(self, before: ToolSlots | None) -> None:
        self.slots = before


class _Here(threading.local):
    marker: Marker

    def __init__(self) -> None:
        self.marker = Marker()


HERE = _Here()
"""`HERE.marker` is the marker of the current thread."""


class Watchdog:
    """The thread that checks the markers. It starts with the first step and ends when none was seen for
    a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._markers: weakref.WeakSet[Marker] = weakref.WeakSet()
        self.is_running = False
        if hasattr(os, "register_at_fork"):
            # A forked child inherits the flags but not the thread, and perhaps a lock that is held.
            os.register_at_fork(after_in_child=self._reset)

    def watch(self, marker: Marker) -> None:
        with self._lock:
            self._markers.add(marker)
            marker.watched = True
            if self.is_running:
                return
            self.is_running = True
        try:
            threading.Thread(target=self._run, name="toolcrib-watchdog", daemon=True).start()
        except RuntimeError:
            self._reset()  # no thread available: the call goes on unwatched, and the next step tries again

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self.is_running = False
        for marker in list(self._markers):
            marker.watched = False

    def _run(self) -> None:
        active_at = time.monotonic()
        while True:
            time.sleep(SAMPLE_S)
            now = time.monotonic()
            with self._lock:
                markers = list(self._markers)
            active = [marker for marker in markers if _is_active(marker, now)]
            if active:
                active_at = now
            elif now - active_at > REST_AFTER_S:
                with self._lock:
                    self.is_running = False
                    for marker in markers:
                        marker.watched = False
                return
            del markers, active


def _is_active(marker: Marker, now: float) -> bool:
    """Return whether anything runs on a thread, and report it if it runs for too long."""
    if marker.seen_step != marker.step:
        marker.seen_step, marker.seen_at, marker.is_reported = marker.step, now, False
        return True
    slots = marker.slots
    if slots is not None and not marker.is_reported and now - marker.seen_at >= BLOCKED_S:
        marker.is_reported = True
        frame = sys._current_frames().get(marker.thread)
        location = "an unknown place" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
        _report_blocking(slots, now - marker.seen_at, location)
    return slots is not None


def _report_blocking(slots: ToolSlots, blocked_s: float, location: str) -> None:
    with slots.lock:
        if not slots.blocked.take(time.monotonic()):
            return
        more = slots.blocked.take_missed()
    try:
        logger.warning(
            "tool '%s' blocks the event loop (for %.1f s, at %s); run it on a thread: "
            'def instead of async def, or run="thread"%s',
            slots.name,
            blocked_s,
            location,
            more,
            extra={"tool_name": slots.name, "blocked_s": blocked_s, "blocked_at": location},
        )
    except Exception:  # a log handler that raises must not end the watchdog  # noqa: S110
        pass


WATCHDOG = Watchdog()


# --- waking a loop -----------------------------------------------------------------------------------


class CallbackWaker:
    """Completes futures of an event loop from any thread. Works with every event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak, because the loop refers to its waker: both are freed at once, without the garbage collector.
        self._loop = weakref.proxy(loop)

    def wake(self, future: asyncio.Future[None]) -> bool:
        """Complete a future of the loop, which the future refers to. False: the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(complete, future)
        except RuntimeError:
            return False
        return True


class EventfdWaker(CallbackWaker):
    """Uses one event counter per loop, which lives as long as the loop.

    `call_soon_threadsafe` costs the loop a handle, two reads of its own pipe and an exception. An event
    counter does the same with one write and one read, which several futures share.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._futures: deque[asyncio.Future[None]] = deque()
        self._is_signalled = False
        self._process = os.getpid()
        self._counter = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        loop.add_reader(self._counter, self._deliver)

    def __del__(self) -> None:
        # A forked process may have closed all descriptors, and opened others with the same numbers.
        if hasattr(self, "_counter") and self._process == os.getpid():
            os.close(self._counter)

    def wake(self, future: asyncio.Future[None]) -> bool:
        if self._loop.is_closed():
            return False
        self._futures.append(future)
        if not self._is_signalled:
            self._is_signalled = True
            os.eventfd_write(self._counter, 1)
        return True

    def _deliver(self) -> None:
        try:
            os.eventfd_read(self._counter)
        except BlockingIOError:
            pass  # another turn has emptied it already
        self._is_signalled = False  # before the futures are read: one that is added now signals again
        while self._futures:
            complete(self._futures.popleft())


def waker_of(loop: asyncio.AbstractEventLoop) -> CallbackWaker:
    """Return the waker of the running loop, which is kept in an attribute of the loop."""
    waker: CallbackWaker | None = vars(loop).get("_toolcrib_waker")
    if waker is None:
        waker = vars(loop)["_toolcrib_waker"] = _make_waker(loop)
    return waker


def _make_waker(loop: asyncio.AbstractEventLoop) -> CallbackWaker:
    if hasattr(os, "eventfd"):
        try:
            return EventfdWaker(loop)
        except (NotImplementedError, OSError):
            pass  # the loop watches no file descriptors, or there is none left
    return CallbackWaker(loop)


def complete(future: asyncio.Future[None]) -> None:
    """Complete a future, unless it is done already."""
    if not future.done():
        future.set_result(None)
