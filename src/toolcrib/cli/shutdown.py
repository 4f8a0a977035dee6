"""How a process that serves comes to its end: asked politely once, at once the second time, in bounded time.

The first SIGTERM or SIGINT is passed on to what serves; from then on they have the effect that the system
gives them. A thread sees to it that the process ends however a tool clings to it. Knows signals and threads;
refuses to know servers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LIMIT_S = 15.0
"""From being told to end: ten seconds for calls, the rest for applications to close."""
LAST_S = 0.5
"""What is left after that is threads of tools that nobody waits for."""


class Ending:
    """`with` it on the main thread, in a running loop, while something serves. `told` is called once, in the
    signal's own time: whatever else the main thread does, it does nothing else meanwhile. `is_over` says when
    the server is closed. `cut` is called when the second signal comes, where there is something to cut off.
    """

    def __init__(
        self,
        told: Callable[[], None],
        is_over: Callable[[], bool],
        limit_s: float = LIMIT_S,
        cut: Callable[[], None] | None = None,
    ) -> None:
        self.is_told = False
        self._told = told
        self._cut = cut
        self._is_over = is_over
        self._limit_s = limit_s
        self._begun = threading.Event()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        # Started now: the signal may come while the main thread is about to start another.
        threading.Thread(target=self._see_to_it, name="toolcrib-ending", daemon=True).start()
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            before = signal.getsignal(number)
            try:
                # The loop's own handler wakes it; Python's, in its place, runs even while it is blocked.
                loop.add_signal_handler(number, _wake)
                signal.signal(number, self._hear)
            except (NotImplementedError, RuntimeError, ValueError):
                continue  # not the main thread, or a system without: whoever runs us ends us
            self._before[number] = before
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_told:
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def hurry(self) -> None:
        """It ends by itself; from now on the time is limited as well."""
        self._begun.set()

    def _hear(self, number: int, _: FrameType | None) -> None:
        is_second, self.is_told = self.is_told, True
        if is_second and self._cut is not None:
            self._cut()
        if is_second or self._cut is None:
            # The system's own effect needs no turn of Python's to come about.
            signal.signal(number, signal.SIG_DFL)
        if is_second:
            signal.raise_signal(number)
        self._begun.set()
        self._told()

    def _see_to_it(self) -> None:
        self._begun.wait()
        until = time.monotonic() + self._limit_s
        while time.monotonic() < until and not self._is_over():
            time.sleep(0.02)
        time.sleep(LAST_S)
        try:
            sys.stderr.flush()
        except (OSError, ValueError):
            pass  # nobody reads it any more
        os._exit(0 if self._is_over() else 1)


def _wake() -> None:
    """What the loop has to do when a signal comes, besides waking up."""


async def run_until_told(
    work: Coroutine[Any, Any, None], say: Callable[[], None], is_over: Callable[[], bool]
) -> None:
    """Run something until it ends, or until a signal asks for the end: then it is cancelled, and may take
    its time. `say` is called first."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)

    def end() -> None:
        task.cancel()
        say()

    with Ending(lambda: _post(loop, end), is_over) as ending:
        try:
            await task
        except asyncio.CancelledError:
            if not ending.is_told:
                raise
        ending.hurry()


def _post(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(act)
    except RuntimeError:
        pass  # the loop has ended on its own


def end_with(descriptor: int) -> None:
    """End this process when the other end of a descriptor is closed, as when its holder is killed."""

    def watch() -> None:
        try:
            while os.read(descriptor, 4096):
                pass
        except OSError:
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="toolcrib-lifeline", daemon=True).start()
