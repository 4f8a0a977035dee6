"""The event loop that serves: uvloop where it is installed, else asyncio's own.

The only module that imports uvloop.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

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
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(main)
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # delayed: only what serves needs it
    except ImportError:  # not made for every system
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
