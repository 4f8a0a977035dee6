"""One line on the terminal that says how far long work is, and goes away with it.

Knows the terminal and the clock; refuses to know the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from toolcrib.cli.terminal import Terminal

PATIENCE_S = 0.2
"""Whoever waits less wants no word."""
PAUSE_S = 0.1


@contextmanager
def telling(
    terminal: Terminal, patience_s: float = PATIENCE_S
) -> Iterator[Callable[[Callable[[], str]], None] | None]:
    """Takes words that are made when they are shown; None where nobody looks."""
    if not getattr(terminal.err, "isatty", lambda: False)():
        yield None
        return
    next_s = time.monotonic() + patience_s

    def tell(words: Callable[[], str]) -> None:
        nonlocal next_s
        now_s = time.monotonic()
        if now_s < next_s:
            return
        next_s = now_s + PAUSE_S
        terminal.show_status(words())

    try:
        yield tell
    finally:
        terminal.show_status("")
