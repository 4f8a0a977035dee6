"""The leave that one call has to run, from its entering to its end.

Knows where the call stands and which store counts it; refuses to know why it was let in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from toolcrib.policies.quota.terms import Demand

if TYPE_CHECKING:
    from toolcrib.policies.quota.store import Store

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
