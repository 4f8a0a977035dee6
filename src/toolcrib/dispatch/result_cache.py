"""Kept results of tools with the option `cache_s`: one store for the process, bounded in entries and bytes.

A result is looked up where the tool would run, so that a call is judged, charged and recorded before. The
key is the owner (an object that stands for one tool until its results are dropped), the principal, and a
digest of the checked arguments.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from toolcrib.content import Result
from toolcrib.context import Principal
from toolcrib.validation import codec

MAX_ENTRIES = 1_000
MAX_BYTES = 64 * 1024 * 1024


Key = tuple[object, Principal | None, str]
"""The owner, the principal or None for a result that all share, and the digest of the arguments."""


class ResultCache:
    """Keeps results as JSON, so that no caller can change those of others. May be used on any thread."""

    def __init__(
        self,
        max_entries: int = MAX_ENTRIES,
        max_bytes: int = MAX_BYTES,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.bytes = 0
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._now = now
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[float, bytes]] = OrderedDict()  # the least recently used first

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> Result | None:
        """Return the result that was kept, None if there is none or its time is over."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            until, data = kept
            if until <= self._now():
                self._drop(key)
                return None
            self._kept.move_to_end(key)
        return Result(*codec.decode(data))

    def put(self, key: Key, result: Result, seconds: float) -> None:
        """Keep a result, unless it is larger than all together may be."""
        parts = (result.content, result.structured_content, False, result.is_structured, result.meta)
        data = codec.encode(parts)
        if len(data) > self._max_bytes:
            return
        with self._lock:
            self._drop(key)
            self._kept[key] = (self._now() + seconds, data)
            self.bytes += len(data)
            while self.bytes > self._max_bytes or len(self._kept) > self._max_entries:
                self._drop(next(iter(self._kept)))

    def forget(self, owner: object) -> None:
        """Drop all results of an owner."""
        with self._lock:
            for key in [key for key in self._kept if key[0] is owner]:
                self._drop(key)

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self.bytes -= len(kept[1])


RESULTS = ResultCache()
