"""The event loop that serves: uvloop where it is installed, else asyncio's own.

Code of tools runs on it and must not end it, so `loop.stop()` has no effect while the server runs.
The only module that imports uvloop.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import time
from collections.abc import Coroutine
from typing import Any

from toolcrib.execution.ration import Ration
from toolcrib.execution.watchdog import HERE

logger = logging.getLogger("toolcrib")

YOUNG = 20_000
"""New objects between two looks of the garbage collector: a server makes many that die at once."""


def is_in_loop() -> bool:
    """Whether a loop runs here. Asked aside: what is run by whoever handles the answer as an exception has
    that one in the context of all its errors."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run_loop(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a server's whole life."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()  # what is there now stays: there is no use in looking through it again and again
    gc.set_threshold(YOUNG, *before[1:])
    try:
        with asyncio.Runner(loop_factory=make_loop) as runner:
            return runner.run(main)
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class ServingLoop(asyncio.AbstractEventLoop):
    """Mixed into the class of a loop: while `run_until_complete` waits, `stop` is ignored, with a warning.
    The server ends by being cancelled or by returning, never by stopping its loop."""

    _awaited: asyncio.Future[Any] | None = None

    def run_until_complete(self, future: Any) -> Any:
        if self.is_running():
            return super().run_until_complete(future)  # raises
        self._awaited = asyncio.ensure_future(future, loop=self)
        try:
            return super().run_until_complete(self._awaited)
        finally:
            self._awaited = None

    def stop(self) -> None:
        if self._awaited is None or self._awaited.done():
            super().stop()
        else:
            _tell_of_stop()


_STOPS = Ration(10, 60.0)
_STOPS_LOCK = threading.Lock()


def _tell_of_stop() -> None:
    with _STOPS_LOCK:
        if not _STOPS.take(time.monotonic()):
            return
        missed = _STOPS.take_missed()
    lane = HERE.marker.lane  # None where a callback or a thread does it: nobody knows whose it is
    who = "something" if lane is None else f"tool '{lane.name}'"
    more = f" ({missed} more times since this was last said)" if missed else ""
    logger.warning(
        "%s called stop() on the event loop of the server: ignored%s",
        who,
        more,
        extra={} if lane is None else {"tool_name": lane.name},
    )


def make_loop() -> asyncio.AbstractEventLoop:
    """A loop for a server."""
    made: asyncio.AbstractEventLoop = type("ServingLoop", (ServingLoop, _base()), {})()
    return made


def _base() -> type[asyncio.AbstractEventLoop]:
    try:
        import uvloop  # delayed: only what serves needs it
    except ImportError:  # not made for every system
        if sys.platform == "win32":
            return asyncio.ProactorEventLoop
        return asyncio.SelectorEventLoop
    base: type[asyncio.AbstractEventLoop] = uvloop.Loop
    return base
