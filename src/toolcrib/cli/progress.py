"""Progress on a terminal: a bar with counts and the time left, on stderr, for work that takes over a second.

with Progress(terminal, "reading files") as progress:
    scan("servers/", progress=progress)

reading files  [=========>          ]  480/1000  0:07 left
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from types import TracebackType
from typing import Self, TypeVar

from toolcrib.cli.output import Terminal

T = TypeVar("T")
DELAY_S = 1.0
"""Shorter work shows no bar."""
INTERVAL_S = 0.1
_WIDTH = 20


class Progress:
    """The progress line of one piece of work; call it with what is done and the total."""

    def __init__(
        self, terminal: Terminal, label: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._terminal = terminal
        self._label = label
        self._clock = clock
        self._began_s = self._shown_s = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._terminal.status("")

    def __call__(self, done: float, total: float | None = None) -> None:
        """Show the progress, unless the work began, or was shown, just now."""
        now_s = self._clock()
        if now_s - self._began_s >= DELAY_S and now_s - self._shown_s >= INTERVAL_S:
            self._shown_s = now_s
            self.show(done, total)

    def show(self, done: float, total: float | None, message: str | None = None) -> None:
        """Show the progress at once."""
        spent_s = self._clock() - self._began_s
        parts = [self._label, *format_progress(done, total, spent_s), message or ""]
        self._terminal.status(" ".join(part for part in parts if part))

    def track(self, items: Collection[T]) -> Iterator[T]:
        """Yield the items and show how many are done."""
        for number, item in enumerate(items):
            self(number, len(items))
            yield item


def format_progress(done: float, total: float | None, spent_s: float) -> Iterator[str]:
    """Yield a bar, the counts and the time left; only the count where the total is unknown."""
    if not total or total < 0 or done < 0:
        yield f"{done:g}"
        return
    filled = min(int(done / total * _WIDTH), _WIDTH)
    arrow = ">" if 0 < filled < _WIDTH else ""
    yield f"[{('=' * (filled - len(arrow)) + arrow).ljust(_WIDTH, '-')}]"
    yield f"{done:g}/{total:g}"
    if 0 < done < total:
        yield f"{format_duration(spent_s / done * (total - done))} left"


def format_duration(duration_s: float) -> str:
    """Return `0:07`, `2:30` or `1:02:30`."""
    minutes, seconds = divmod(round(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
