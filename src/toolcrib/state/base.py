"""Contracts for state that outlives a call or is shared between processes.

Rules that hold for every engine:

1. Durations go in, never deadlines: each engine uses its own clock. On one machine leases and rates count on
   the monotonic clock; wall clock is for what outlives a boot.
2. A method commits as a whole or raises StateUnavailable. Every write names its id, so that it may be
   repeated if it is in doubt.
3. On the path of every call there is only `Counters.acquire`. Its result is awaited only if it is awaitable:
   counters in memory answer at once. `release` and `publish` may be called from any thread; they never wait
   and never raise. Everything else is async, on any event loop.
4. Values are bytes. They are sealed above the engine, with (space, key) as associated data. The engine
   enforces the caps.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

T = TypeVar("T")
Soon: TypeAlias = T | Awaitable[T]


class StateUnavailable(OSError):  # noqa: N818 - a condition, like OSError's own subclasses
    """The engine cannot be used now. With `in_doubt`, the write may have been committed."""

    def __init__(self, message: str, *, in_doubt: bool = False) -> None:
        super().__init__(message)
        self.in_doubt = in_doubt


class StateDamaged(StateUnavailable):
    """What was stored is gone, or was changed by somebody else: trying again does not help."""


def run_now(method: Coroutine[Any, Any, T]) -> T:
    """Return the result of a method of an engine that never waits for an event loop."""
    try:
        method.send(None)
    except StopIteration as ended:
        return cast("T", ended.value)
    raise RuntimeError("the engine waits for an event loop")


# --- rates, budgets and concurrency ---


class Limit(NamedTuple):
    """One limit: `maximum` calls per `period_ms` after a first `burst` (`rate`), per day (`budget`), or at
    once (`concurrency`). Limits of one kind with the same key are one count."""

    kind: Literal["rate", "budget", "concurrency"]
    key: str
    maximum: int
    period_ms: int
    burst: int


class Limits(NamedTuple):
    """All limits of one principal and one tool, prepared once. `per` names the pair. While the engine is
    unavailable, calls are refused, counted in this process alone, or allowed."""

    each: tuple[Limit, ...]
    per: str
    when_down: Literal["deny", "local", "allow"]


class Lease(NamedTuple):
    """An admitted call. `day` is the budget that a refund goes to, 0 for none."""

    id: str
    limits: Limits
    day: int


class Refused(NamedTuple):
    """A call that exceeds `limit`. `retry_ms` is the longest wait of all limits. Without a limit, the engine
    is unavailable."""

    limit: Limit | None
    retry_ms: int


class Counters(Protocol):
    """Counts of calls, shared by all processes of a server."""

    def acquire(
        self, limits: Limits, *, mark: str | None = None, resumed: bool = False
    ) -> Soon[Lease | Refused]:
        """Count a call against all limits or none.

        A `mark` names the question that the call answers. The call was counted when it asked, so rates and
        budgets do not count it again: the first time that a mark is used, in 15 minutes. `resumed` takes a
        slot again after a question, even above the maximum, counts nothing else and is never refused. The
        slots of a process that died are free within 10 seconds.
        """

    def release(self, lease: Lease, *, ran: bool) -> None:
        """Free the slots of a call that is answered and whose code has ended, or that asks; the second time
        changes nothing. One that never `ran` gets its share of budgets back: say so once."""

    async def usage(self, limits: Limits) -> Sequence[int]:
        """Return how much of each limit is used: of a rate, calls of its burst."""
        ...


# --- the audit log ---


class Head(NamedTuple):
    """The last record of a stream: its number and hash."""

    seq: int
    hash: bytes


class Record(NamedTuple):
    """An audit record: its line, of at most 64 KiB, and the fields that are searched. A line is a JSON object
    that has these fields, too, and ends with its hash."""

    seq: int
    at_ms: int
    id: str
    principal: str
    tool: str
    outcome: str
    line: bytes

    @property
    def head(self) -> Head:
        """Number and hash of the record."""
        return Head(self.seq, self.line[-66:-2])


class Query(NamedTuple):
    """Which records to find. An empty text or tuple matches all."""

    since_ms: int = 0
    until_ms: int = 2**62
    principal: str = ""
    tool: str = ""
    outcome: tuple[str, ...] = ()
    id: str = ""


class Page(NamedTuple):
    """Records, newest first, and the cursor of those before them."""

    records: Sequence[Record]
    older: str | None


class AuditStore(Protocol):
    """Audit records in streams. A stream is one run of a writer: it numbers and chains its records."""

    async def append(self, stream: str, records: Sequence[Record]) -> None:
        """Commit records. The same (stream, seq) again changes nothing."""

    async def heads(self, before_ms: int | None = None) -> Mapping[str, Head]:
        """Return the last record of each stream; with a time, the last before the first that is as young."""
        ...

    def lines(self, stream: str, after: int) -> AsyncGenerator[Record, None]:
        """Yield the records of a stream after a number, over a read connection of its own."""
        ...

    async def find(self, query: Query, *, before: str | None = None, limit: int = 100) -> Page:
        """Return matching records, newest first."""
        ...

    async def remove_through(self, ends: Mapping[str, int]) -> int:
        """Remove the oldest records of streams, but never a last record. Return how many."""
        ...


# --- tasks ---

Status: TypeAlias = Literal["queued", "working", "completed", "failed", "cancelled"]
"""A task that waits for answers is `working` and has open questions."""


class NewTask(NamedTuple):
    """A task to be created. `binding` names the caller, `payload` is what a queue needs to run it."""

    id: str
    binding: str
    tool: str
    fingerprint: str
    digest: str
    ttl_ms: int
    payload: bytes | None


class Task(NamedTuple):
    """A task as stored. `outcome` and questions are JSON; `new.tool` lets policy be asked again when a result
    is read."""

    new: NewTask
    status: Status
    message: str | None
    created_ms: int
    updated_ms: int
    version: int
    attempt: int
    owner: str | None
    outcome: bytes | None
    questions: Mapping[str, bytes]


class Changes(NamedTuple):
    """Changes since a version. `ended` are tasks of this process that ended elsewhere, `answers` those to
    questions of its tasks, `seen` the watched tasks that changed."""

    version: int
    ended: frozenset[str]
    answers: Mapping[str, Mapping[str, bytes]]
    seen: Sequence[Task]


class TaskStore(Protocol):
    """Long-running calls. Transitions are conditional: False means that the task has ended, or belongs to
    another process."""

    async def create(
        self, task: NewTask, *, queue: str | None, most: int, most_own: int | None
    ) -> Task | None:
        """Add a task: without `queue`, one that this process runs. Return None if there are too many."""
        ...

    async def claim(self, queues: Collection[str]) -> Task | None:
        """Make this process the owner of a queued task, if there is one."""
        ...

    async def find(self, id_: str, binding: str) -> Task | None:
        """Return a task of this caller. Those of others are unknown."""
        ...

    async def note(self, id_: str, message: str) -> bool:
        """Set the status message."""
        ...

    async def ask(self, id_: str, questions: Mapping[str, bytes]) -> bool:
        """Add questions. A key is never used twice."""
        ...

    async def withdraw(self, id_: str, keys: Collection[str]) -> None:
        """Remove questions."""

    async def answer(self, id_: str, binding: str, answers: Mapping[str, bytes]) -> None:
        """Write answers. Those to questions that are not open are ignored."""

    async def finish(self, id_: str, status: Status, outcome: bytes | None, *, max_kept_bytes: int) -> bool:
        """End a task. If outcomes exceed `max_kept_bytes`, the oldest are dropped, the caller's own first."""
        ...

    async def cancel(self, id_: str, binding: str) -> bool:
        """End a task of this caller."""
        ...

    async def drop(self, id_: str) -> None:
        """Delete a task whose id no client knows."""

    async def renew(self) -> None:
        """Extend the lease of this process (every 2 s, a lease lasts 10 s), fail the tasks of processes whose
        lease ran out, and delete expired ones."""

    async def leave(self) -> None:
        """Fail what this process still runs: the server stops."""

    async def changes(self, after: int, watched: Collection[str]) -> Changes:
        """Return what changed after a version. Answers are returned once."""
        ...


# --- keys ---


class Key(NamedTuple):
    """An API key, without its secret."""

    id: str
    name: str
    hash: str
    prefix: str
    scopes: tuple[str, ...]
    roles: tuple[str, ...]
    created_ms: int
    expires_ms: int | None
    revoked_ms: int | None


class KeyStore(Protocol):
    """API keys, read as a snapshot and never per call. If they stay unreadable, no key is accepted."""

    async def read(self, known: int = 0) -> tuple[int, Sequence[Key]] | None:
        """Return the version and the keys; None if the version is still `known`."""
        ...

    async def add(self, key: Key) -> bool:
        """Add a key. Return False if an active key has this name."""
        ...

    async def revoke(self, word: str) -> tuple[int, Sequence[Key]]:
        """Revoke by name, id or hash. Return the version to wait for, and the revoked keys."""
        ...


# --- values ---


class Space(NamedTuple):
    """A kind of value with its caps: entries, bytes in all, bytes per value, entries per owner."""

    name: str
    max_entries: int
    max_bytes: int
    max_value: int
    max_own: int
    when_full: Literal["refuse", "evict"]
    durable: bool


class Item(NamedTuple):
    """A stored value. Its version changes with every write."""

    value: bytes
    version: int


class Write(NamedTuple):
    """A value to be stored, or deleted if it is None."""

    space: Space
    key: str
    value: bytes | None
    ttl_s: float | None
    owner: str = ""


class Check(NamedTuple):
    """A condition of a commit: the key has this version; with 0, it does not exist."""

    space: Space
    key: str
    version: int


class KeyValue(Protocol):
    """Values that expire. One commit covers every case: put (no check), add and use once (version 0), swap
    (the version that was read), and swap one key while creating another."""

    async def get(self, space: Space, key: str) -> Item | None:
        """Return a value that has not expired."""
        ...

    async def commit(self, writes: Sequence[Write], checks: Sequence[Check] = ()) -> bool:
        """Write all in one transaction. Return False if a check failed; nothing is written then."""
        ...

    async def scan(
        self, space: Space, *, owner: str = "", after: str = "", limit: int = 100
    ) -> Sequence[tuple[str, Item]]:
        """Return entries in the order of their keys."""
        ...


# --- changes ---


class ChangeBus(Protocol):
    """Notices between processes, delivered at most once. They carry a version; what changed is read again."""

    def publish(self, topic: str, data: bytes = b"") -> None:
        """Tell all subscribers, in this process and others."""

    def subscribe(self, topic: str, changed: Callable[[bytes | None], None]) -> Callable[[], None]:
        """Call `changed` with the data of each notice; with None if some may be lost: read everything again.
        Return a function that ends the subscription."""
        ...

    async def send(self, process: str, data: bytes, timeout_s: float = 0.1) -> bool:
        """Send to one process. Return whether it acknowledged in time."""
        ...


class State(Protocol):
    """An engine, opened. `process` owns its leases, tasks and streams."""

    process: str
    counters: Counters
    audit: AuditStore
    tasks: TaskStore
    keys: KeyStore
    values: KeyValue
    bus: ChangeBus

    async def open(self) -> None:
        """Connect, and prepare what is stored."""

    async def close(self) -> None:
        """Release everything this process holds."""
