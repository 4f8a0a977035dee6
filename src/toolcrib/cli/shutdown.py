"""Graceful shutdown of a serving process: on the first signal, at once on the second, in bounded time.

The first SIGTERM or SIGINT asks the server to stop; after that the signals have their default effect. A
thread makes sure that the process exits even if a tool blocks it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LIMIT_S = 15.0
"""From the first signal: ten seconds for calls, the rest for applications to close."""
GRACE_S = 0.5
"""After the server has stopped, only abandoned threads of tools are left."""


class ShutdownHandler:
    """Handles signals on the main thread while a server runs in the current event loop.

    `on_signal` is called once, from the signal handler. `is_stopped` tells when the server has stopped.
    `on_second_signal` is called when a second signal arrives.
    """

    def __init__(
        self,
        on_signal: Callable[[], None],
        is_stopped: Callable[[], bool],
        limit_s: float = LIMIT_S,
        on_second_signal: Callable[[], None] | None = None,
    ) -> None:
        self.is_signalled = False
        self._on_signal = on_signal
        self._on_second_signal = on_second_signal
        self._is_stopped = is_stopped
        self._limit_s = limit_s
        self._stopping = threading.Event()
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        # Started now: a signal may arrive while the main thread is starting another thread.
        threading.Thread(target=self._enforce_limit, name="toolcrib-shutdown", daemon=True).start()
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            previous = signal.getsignal(number)
            try:
                # The loop's handler only wakes the loop; Python's own runs even while the loop is blocked.
                loop.add_signal_handler(number, _wake)
                signal.signal(number, self._handle)
            except (NotImplementedError, RuntimeError, ValueError):
                continue  # not the main thread, or not supported: the caller stops the server
            self._previous[number] = previous
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_signalled:
            for number, handler in self._previous.items():
                signal.signal(number, handler)

    def start_limit(self) -> None:
        """Limit the time from now on: the server stops without a signal."""
        self._stopping.set()

    def _handle(self, number: int, _: FrameType | None) -> None:
        is_second, self.is_signalled = self.is_signalled, True
        if is_second and self._on_second_signal is not None:
            self._on_second_signal()
        if is_second or self._on_second_signal is None:
            # The default effect does not depend on the interpreter.
            signal.signal(number, signal.SIG_DFL)
        if is_second:
            signal.raise_signal(number)
        self._stopping.set()
        self._on_signal()

    def _enforce_limit(self) -> None:
        self._stopping.wait()
        deadline = time.monotonic() + self._limit_s
        while time.monotonic() < deadline and not self._is_stopped():
            time.sleep(0.02)
        time.sleep(GRACE_S)
        with suppress(OSError, ValueError):  # the reader of stderr may have gone
            sys.stderr.flush()
        os._exit(0 if self._is_stopped() else 1)


def _wake() -> None:
    """Do nothing: the loop only has to wake up."""


async def run_until_signal(
    work: Coroutine[Any, Any, None], on_signal: Callable[[], None], is_stopped: Callable[[], bool]
) -> None:
    """Run something until it ends, or until a signal cancels it; `on_signal` is called in the loop then."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)

    def stop() -> None:
        task.cancel()
        on_signal()

    def post_stop() -> None:
        with suppress(RuntimeError):  # the loop may have ended
            loop.call_soon_threadsafe(stop)

    with ShutdownHandler(post_stop, is_stopped) as handler:
        try:
            await task
        except asyncio.CancelledError:
            if not handler.is_signalled:
                raise
        handler.start_limit()


def terminate_when_closed(descriptor: int) -> None:
    """Send this process SIGTERM when the other end of a descriptor closes, as when its owner is killed."""

    def watch() -> None:
        with suppress(OSError):
            while os.read(descriptor, 4096):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="toolcrib-parent-watch", daemon=True).start()
