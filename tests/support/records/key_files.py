"""Key files for tests, used without an event loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from toolcrib.policy.auth.api_keys import KeyFile, create_key
from toolcrib.state.base import Key, run_now


class Keys:
    """The keys in a file, created and revoked as `toolcrib keys` does it."""

    def __init__(
        self, path: Path | str, *, wall: Callable[[], float] = time.time, lock_s: float = 10.0
    ) -> None:
        self.store = KeyFile(path, wall=wall, lock_s=lock_s)
        self.path = self.store.path
        self._wall = wall

    def create(
        self,
        name: str,
        scopes: Sequence[str] = (),
        roles: Sequence[str] = (),
        expires: float | None = None,
    ) -> tuple[str, Key]:
        return run_now(create_key(self.store, name, scopes, roles, expires, wall=self._wall))

    def revoke(self, word: str) -> tuple[Key, ...]:
        return tuple(run_now(self.store.revoke(word))[1])

    def entries(self) -> tuple[Key, ...]:
        found = run_now(self.store.read())
        assert found is not None
        return tuple(found[1])
