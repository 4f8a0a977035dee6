"""What a store of counts promises, and what it keeps its counts in.

Two stores, one set of tests: memory for one process, SQLite for several. Both leave every decision to the
ledger and differ in where the figures are. Knows the shape of that; refuses to know any figure.

The leave that one call has to run, from its entering to its end.

Knows where the call stands and which store counts it; refuses to know why it was let in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from toolcrib.policy.quota.limits import Demand

RUNNING = -(2**63)
"""The rank of whoever has a place: before all who wait."""


class Slot:
    """One call that was let in. `leave` it exactly when the call is answered; twice does no harm.

    `demand` is what the limits say about it. The other attributes are the ledger's: `rank` is None without a
    place, RUNNING with one, else its turn in line; `is_charged` says that rate and budget were taken, on the
    day `serial`, and `has_burned` that its `mark` was, because it is a call that comes again.
    """

    __slots__ = (
        "_asking",
        "_outliving",
        "demand",
        "has_burned",
        "is_charged",
        "is_left",
        "mark",
        "number",
        "rank",
        "serial",
        "store",
    )

    def __init__(self, demand: Demand, store: Store | None, mark: str | None = None) -> None:
        self.demand = demand
        self.store = store
        self.mark = mark
        self.is_left = False
        self.is_charged = False
        self.has_burned = False
        self.rank: int | None = None
        self.serial = 0
        self.number = 0
        self._asking = 0
        self._outliving = 0

    @property
    def is_over(self) -> bool:
        """The call is answered, and none of its code runs on: such code needs a place as any other."""
        return self.is_left and not self._outliving

    def forget(self) -> None:
        """It has neither a place nor a turn, and nothing was taken for it."""
        self.rank, self.serial = None, 0
        self.is_charged = self.has_burned = False

    def leave(self, *, ran: bool) -> None:
        """The call is answered: its place is free, and so is its share of the budget where the tool never
        ran. A call that ended with a question counts as run: made again, it is not counted again."""
        store = self.store
        if store is None:
            return
        with store.lock:
            if not self.is_left:
                self.is_left = True
                store.release(self, ran=ran, has_ended=not self._outliving)

    def pause(self) -> None:
        """A person is asked: the place is free until `resume`. Pauses add up."""
        store = self.store
        if store is None:
            return
        with store.lock:
            self._asking += 1
            store.pause(self)  # whoever has no place frees none

    async def resume(self) -> None:
        """Wait for a place, ahead of all who have none yet. Never refused."""
        store = self.store
        if store is None:
            return
        with store.lock:
            self._asking -= 1
            if self._asking or self.is_over:
                return
        await store.resume(self)

    def outlive(self) -> Callable[[], None]:
        """The call will be answered while its code still runs: the place is taken until that ends.

        Returns what is to be called then, once, from any thread.
        """
        store = self.store
        if store is None:
            return _nothing
        with store.lock:
            if self.is_left:
                return _nothing
            self._outliving += 1
        return _Once(self)

    def _end_one(self) -> None:
        store = self.store
        assert store is not None  # nosec B101  # only such a slot is outlived
        with store.lock:
            self._outliving -= 1
            if self.is_over:
                store.vacate(self)


class _Once:
    """The end of code that outlived its call."""

    __slots__ = ("_slot",)

    def __init__(self, slot: Slot) -> None:
        self._slot: Slot | None = slot

    def __call__(self) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            slot._end_one()


def _nothing() -> None:
    pass


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
