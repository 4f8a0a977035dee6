"""The door: lets calls in as the limits of a policy say.

Knows the policy's limits, which of them concern whom, and the store that counts; refuses to know rules,
results and the wire.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from toolcrib.config.settings import Policy
from toolcrib.context import Principal
from toolcrib.dispatch.rate_limit import NS
from toolcrib.errors import ConfigurationError, ErrorCollector
from toolcrib.policy.quota.limits import Demand, Term, refuse_size
from toolcrib.policy.quota.memory_store import MemoryStore
from toolcrib.policy.quota.store import Slot, Store
from toolcrib.tool import Tool

KNOWN = 10_000
"""So many pairs of caller and tool are remembered with what the limits say about them."""


class Quota:
    """How much callers may call. The clocks are for tests; `now` never goes back, `wall` may. `problems`
    keeps what cannot be understood, as for `Access`."""

    def __init__(
        self,
        policy: Policy,
        problems: ErrorCollector | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._policy = policy
        found = ErrorCollector() if problems is None else problems
        self._terms: list[Term] = []
        for number, limit in enumerate(policy.limits, start=1):
            with found.collecting():
                self._terms.append(Term(policy, number, limit))
        if problems is None:
            found.raise_errors()
        self._known: dict[tuple[Principal, Tool], Demand | None] = {}
        now_ns = time.monotonic_ns if now is time.monotonic else lambda: round(now() * NS)
        self._memory = MemoryStore(now_ns, wall)
        self._store: Store = self._memory
        if policy.store is not None:
            # Delayed: loads SQLite, which few servers need.
            from toolcrib.policy.quota.sqlite_store import SqliteStore

            self._store = SqliteStore(policy, now_ns, wall, self._memory)

    def check(self, tools: Sequence[Tool]) -> list[ConfigurationError]:
        """The limits that mean none of these tools. Forgets those that were there before."""
        self._known = {}
        return [
            self._policy.error_at(
                f"limits[{term.number}].tools",
                f"{selector!r} matches no tool",
                "see `toolcrib list` for what there is",
            )
            for term in self._terms
            for selector in term.unmatched(tools)
            if selector != "*"  # what holds for every tool holds for none yet
        ]

    def limits_tool(self, tool: Tool) -> bool:
        """Whether any limit is about this tool, whoever calls it."""
        return any(term.tools.matches(tool) for term in self._terms)

    def enter(
        self, principal: Principal, tool: Tool, size: Callable[[], int], *, resumes: str | None = None
    ) -> Slot | Awaitable[Slot] | None:
        """Let a call in: at once where nothing has to be waited for, else when it is awaited. None: no limit
        concerns this caller and this tool.

        `size` gives the bytes of the arguments where a limit asks for them. `resumes` is the mark of a state
        that the call comes back with: the first time, it is no second hit on rates and budgets. Raises
        ThrottledError, here or when awaited; a refused call costs nothing.
        """
        demand = self._find(principal, tool) if self._terms else None
        if demand is None:
            return None
        if demand.max_arguments_bytes is not None and demand.size_term is not None:
            measured = size()
            if measured > demand.max_arguments_bytes:
                raise refuse_size(tool.name, demand.size_term, measured, demand.max_arguments_bytes)
        if not demand.is_stateful:
            return Slot(demand, None)
        mark = None if resumes is None else f"again {resumes}"
        return self._store.enter(Slot(demand, self._store, mark))

    async def burn(self, mark: str, ttl_s: float) -> bool:
        """True the first time a mark is used, in all processes that share the store.

        A store that is out cannot tell, and says False: what is allowed once is then not allowed.
        """
        burned = self._store.burn(f"once {mark}", ttl_s)
        return await burned if inspect.isawaitable(burned) else burned

    async def open(self) -> None:
        """Raises ConfigurationError where the policy's store is a file that cannot be one."""
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    def describe_store(self) -> dict[str, Any]:
        """Where it is counted, how much is held, and whether that works."""
        return self._store.describe()

    def _find(self, principal: Principal, tool: Tool) -> Demand | None:
        pair = (principal, tool)
        try:
            return self._known[pair]
        except KeyError:
            pass
        terms = [term for term in self._terms if term.matches(principal, tool)]
        demand = Demand(terms, principal, tool) if terms else None
        known = self._known
        if len(known) >= KNOWN:  # many come and go: begin anew, it is quickly found again
            known = self._known = {}
        known[pair] = demand
        return demand
