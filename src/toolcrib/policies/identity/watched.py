"""The keys of a running server: read once, and again whenever the file changes.

A file that becomes unreadable while the server runs is no reason to lock everybody out at once, and no way
to keep a revoked key alive: the keys read last hold for a minute, then nobody gets in by key until the file
can be read again. Knows a file and a clock; refuses to know requests.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError
from toolcrib.policies.identity.keys import Key, KeyFile, Stamp
from toolcrib.policies.identity.secret import hash_secret

logger = logging.getLogger("toolcrib")

PATIENCE_S = 60.0


class WatchedKeys:
    """`is_open` says that keys can be told good from bad at all."""

    def __init__(self, file: KeyFile, *, now: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._now = now
        self._keys: dict[str, tuple[Key, Principal]] = {}
        self._stamp: Stamp | None = None
        self._is_settled = False
        self._broken_since_s: float | None = None
        self.is_open = False

    def __len__(self) -> int:
        return len(self._keys)

    def load(self) -> None:
        """Raises ConfigurationError."""
        self._take(*self._file.read())

    def look(self) -> bool:
        """See to it that the keys are those of the file. True where anything may be different now."""
        try:
            stamp = self._find_stamp()
            if stamp == self._stamp and self._is_settled and self._broken_since_s is None:
                return False
            # A file that changed twice within one tick of its clock looks unchanged: read it once more later.
            is_settled = stamp == self._stamp
            self._take(*self._file.read())
            self._is_settled = is_settled
            return True
        except ConfigurationError as error:
            return self._bear(error)

    def find(self, secret: str) -> tuple[Key, Principal] | None:
        """The key, whatever its state."""
        return self._keys.get(hash_secret(secret))

    def is_active(self, hashed: str, wall_s: float) -> bool:
        """Whether the key of this hash is good at that time."""
        found = self._keys.get(hashed)
        return found is not None and found[0].state(wall_s) == "active"

    def _find_stamp(self) -> Stamp | None:
        try:
            return self._file.stamp()
        except OSError:
            return None  # reading it says why

    def _take(self, keys: tuple[Key, ...], stamp: Stamp) -> None:
        if self._broken_since_s is not None:
            logger.warning("the keys in %s can be read again", self._file.path)
        known = {principal: principal for _, principal in self._keys.values()}
        # The same object where it is the same caller: it is looked up with every call.
        self._keys = {key.hash: (key, known.get(key.principal, key.principal)) for key in keys}
        self._stamp, self._is_settled = stamp, False
        self._broken_since_s = None
        self.is_open = True

    def _bear(self, error: ConfigurationError) -> bool:
        now_s = self._now()
        if self._broken_since_s is None:
            self._broken_since_s = now_s
            held = f"those read before hold for {PATIENCE_S:g} s" if self.is_open else "no key is good"
            logger.error("keys cannot be read: %s; %s", error, held)
        if not self.is_open or now_s - self._broken_since_s < PATIENCE_S:
            return False
        self.is_open = False
        self._keys = {}
        logger.error("keys still cannot be read: %s; from now on no key is good", error)
        return True
