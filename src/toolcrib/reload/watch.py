"""Watches folders and gives a hint when something in them may matter.

The only module that imports watchfiles. A hint is no more than that: whoever gets it looks for itself. Where
nothing can be watched, hints come by the clock. Knows folders and names; refuses to know what changes mean.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable

logger = logging.getLogger("toolcrib")

QUIET_MS = 50
"""A burst of changes is over when nothing has come for this long."""
BURST_MS = 200
"""A burst that goes on is told of all the same."""
LOOK_EVERY_S = 1.0
"""How often to look where nothing can be watched."""


class Watch:
    """Watches folders, not what is below them, on a thread of its own. `names` are files that matter whatever
    they are called. `hint` is called on that thread, the first time when the watch stands."""

    def __init__(self, folders: Iterable[str], names: Iterable[str], hint: Callable[[], None]) -> None:
        self.folders = frozenset(folders)
        self.is_stale = False
        self._names = frozenset(names)
        self._hint = hint
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._live, name="toolcrib-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns at once; the thread ends within a tenth of a second."""
        self._stopped.set()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _live(self) -> None:
        try:
            self._watch()
        except FileNotFoundError:
            self.is_stale = True  # a folder has gone: whoever looks next knows which folders are left
        except Exception as error:  # no watcher is installed, or no more can be had
            reason = f"{type(error).__name__}: {error}"
            logger.info("Files cannot be watched (%s): looking every %g s", reason, LOOK_EVERY_S)
        while not self._stopped.wait(LOOK_EVERY_S):
            self._hint()

    def _watch(self) -> None:
        import watchfiles  # delayed: few servers reload, and it brings an event library along

        changes = watchfiles.watch(
            *self.folders,
            watch_filter=lambda _, path: self._matters(path),
            step=QUIET_MS,
            debounce=BURST_MS,
            stop_event=self._stopped,
            rust_timeout=BURST_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            recursive=False,
            ignore_permission_denied=True,
        )
        is_new = True
        for burst in changes:
            gone = {path for change, path in burst if change is watchfiles.Change.deleted}
            self.is_stale = self.is_stale or not gone.isdisjoint(self.folders)
            if burst or is_new:
                self._hint()
            is_new = False

    def _matters(self, path: str) -> bool:
        """Whether a change of this path may be one of sources: log files are written in such folders too."""
        name = os.path.basename(path)
        return name.endswith(".py") or "." not in name or path in self._names or path in self.folders
