"""`toolcrib serve --locked`: holds what is served to the lock file, at the start and whenever tools change.

The lock is read again with each reload, so that `toolcrib lock` lets through what was reviewed meanwhile.
Knows the lock and the registry; refuses to know wires.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from toolcrib.catalog.lock import Drift, Guard, Lock, OnDrift
from toolcrib.cli.diff import find_lock
from toolcrib.registry.registry import Change, ToolRegistry

logger = logging.getLogger("toolcrib")


@dataclass(slots=True)
class Holding:
    """A registry that is held to a lock file."""

    file: Path
    on_drift: OnDrift
    drift: Drift
    guard: Guard | None = None

    @property
    def is_refused(self) -> bool:
        return self.guard is None

    def read_again(self) -> None:
        """Hold to what the file says now. Raises ConfigurationError."""
        if self.guard is not None:
            self.guard.lock = replace(Lock.load(self.file), targets=self.guard.lock.targets)

    def _warn(self, registry: ToolRegistry, change: Change) -> None:
        if self.guard is None or change.kind not in ("removed", "changed"):
            return
        for name, version in self.guard.lock.pins:
            if name in change.names and registry.snapshot.group_of(name) is None:
                logger.warning("'%s' is locked but no longer here", f"{name}@{version}" if version else name)


def hold(
    registry: ToolRegistry, targets: Sequence[str], lock: str | None, on_drift: OnDrift | None
) -> Holding:
    """Hold a registry to the lock that the command line or the settings name. Raises ConfigurationError."""
    file, said = find_lock(targets, lock)
    held = replace(Lock.load(file), targets=tuple(targets))
    drift = held.check(entry.tool for entry in registry.entries())
    holding = Holding(file, on_drift or said.on_drift or "refuse", drift)
    if drift.ok or holding.on_drift == "quarantine":
        held.guard(registry, holding.on_drift)
        holding.guard = registry.guard if isinstance(registry.guard, Guard) else None
        registry.subscribe(lambda change: holding._warn(registry, change))
    return holding
