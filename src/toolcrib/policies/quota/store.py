"""What a store of counts promises, and what it keeps its counts in.

Two stores, one set of tests: memory for one process, SQLite for several. Both leave every decision to the
ledger and differ in where the figures are. Knows the shape of that; refuses to know any figure.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from toolcrib.policies.quota.slot import Slot


class Store(Protocol):
    """Where calls are counted. `lock` is held while a slot changes hands."""

    @property
    def lock(self) -> AbstractContextManager[Any]: ...

    def enter(self, slot: Slot) -> Slot | Awaitable[Slot]:
        """Let a call in, now or when awaited. Raises ThrottledError, in either case."""
        ...

    def release(self, slot: Slot, *, ran: bool, has_ended: bool) -> None:
        """The call is answered; its place is kept where its code has not ended."""
        ...

    def vacate(self, slot: Slot) -> None:
        """The code of a call that was answered has ended."""
        ...

    def pause(self, slot: Slot) -> None: ...

    async def resume(self, slot: Slot) -> None: ...

    def burn(self, mark: str, ttl_s: float) -> bool | Awaitable[bool]:
        """True the first time, False from then on until `ttl_s` have passed."""
        ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def describe(self) -> dict[str, Any]: ...


class Rates(Protocol):
    """Per key: when the next call is due at an even pace, in 1/scale ns, and the scale."""

    def get(self, key: str, /) -> tuple[int, int] | None: ...

    def __setitem__(self, key: str, value: tuple[int, int], /) -> None: ...

    def __len__(self) -> int: ...

    def sweep(self, now_ns: int) -> None:
        """Drop those that are due: they are as good as new."""
        ...


class Spent(Protocol):
    """Per key: how many calls were made on this day."""

    def get(self, key: str, /) -> int | None: ...

    def __setitem__(self, key: str, value: int, /) -> None: ...

    def __delitem__(self, key: str, /) -> None: ...

    def __len__(self) -> int: ...

    def clear(self) -> None: ...


class Marks(Protocol):
    """What was used once, until it is too old to be used anyway."""

    def is_free(self, mark: str, now_ns: int) -> bool:
        """Whether it was not used, and can be noted as used."""
        ...

    def add(self, mark: str, until_ns: int) -> None: ...

    def remove(self, mark: str) -> None: ...


class Places(Protocol):
    """Per key: who runs, and who waits, by rank."""

    def total(self, key: str) -> int: ...

    def ahead(self, key: str, rank: int) -> int:
        """How many run, or wait with a lower rank."""
        ...

    def add(self, key: str, rank: int, slot: Slot) -> None: ...

    def remove(self, key: str, rank: int, slot: Slot) -> None: ...

    def run(self, slot: Slot) -> None:
        """A call has all the places that it needs."""
        ...

    def end(self, slot: Slot) -> None:
        """Those are free."""
        ...
