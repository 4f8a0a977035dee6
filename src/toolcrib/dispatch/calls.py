"""Calls: one call on its way, the record of how it ended, and the registry of those that run and have ended.

A server without policy, middleware and readers makes neither calls nor records: `CallRegistry.running` looks
at the requests that are pending, and records are kept only while somebody reads them.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

from toolcrib.component import Component
from toolcrib.content import Result
from toolcrib.context import Channel, InputNeeded, Principal
from toolcrib.errors import (
    DeniedError,
    InsufficientScopeError,
    NotConfirmedError,
    ThrottledError,
    ToolBusyError,
    ToolCrashedError,
    ToolcribError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.schema.received import Received

logger = logging.getLogger("toolcrib")

MAX_ENDED = 1_000
"""The records of ended calls that are kept while somebody reads them."""

Check = Callable[["Call", dict[str, Any]], Awaitable[None] | None]
"""Looks at validated arguments before the tool runs. Raises CallError to refuse, InputNeeded to ask first."""
Convert = Callable[[], Awaitable["Received"]]
"""Converts the arguments of a call and returns them as the tool gets them. The tool is called with these."""

Outcome = Literal[
    "ok",
    "error",
    "denied",
    "throttled",
    "timeout",
    "cancelled",
    "disconnected",
    "crashed",
    "input_required",
    "task",
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_OUTCOME_OF_ERROR: tuple[tuple[type[BaseException], Outcome], ...] = (
    (ToolNotFoundError, "denied"),
    (DeniedError, "denied"),
    (InsufficientScopeError, "denied"),
    (NotConfirmedError, "denied"),
    (ThrottledError, "throttled"),
    (ToolBusyError, "throttled"),
    (ToolTimeoutError, "timeout"),
    (ToolCrashedError, "crashed"),
    (InputNeeded, "input_required"),
    (asyncio.CancelledError, "cancelled"),
)


@dataclass(slots=True, eq=False)
class CallRecord:
    """How a call ended, for log lines, metrics, the audit log and readers of the registry.

    It refers to no arguments and no result, so that keeping it keeps nothing else alive.
    """

    id: str
    request: str | int | None
    """The id of the message that the call came in."""
    principal: str
    tool: str
    """The name in records and counts, see `Component.reference`; of an unknown tool, the name as it came."""
    version: str | None = None
    definition: str | None = None
    """The fingerprint of the definition."""
    arguments_bytes: int | None = None
    arguments_digest: str | None = None
    rule: str | None = None
    decision: str = "allowed"
    outcome: str = ""
    """One of OUTCOMES; empty while the call runs."""
    code: str | None = None
    duration_s: float = 0.0
    result_bytes: int | None = None
    is_cached: bool = False
    """Whether the result is one that was kept: see the option `cache_s` of tools."""


class CallSlot(Protocol):
    """What a call takes of a limit on calls at once."""

    def wrap_channel(self, channel: Channel) -> Channel:
        """Return a channel that frees the slot while the user is asked."""
        ...

    def outlive(self) -> Callable[[], None]: ...

    def leave(self, *, ran: bool) -> None:
        """Free the slot of a call that is answered, unless code of it still runs."""


def _nothing() -> None:
    pass


@dataclass(slots=True, eq=False)
class Call:
    """One call of a tool on its way through the middleware.

    Middleware may replace `arguments`, `channel` and `checks`, and `shorten` the time limit, before it
    calls `next`.
    """

    id: str
    """Names the call in the audit log, in log lines and in the report of a crash."""
    name: str
    """The name as the caller spelt it."""
    tool: Component | None
    """None for a call of a tool that does not exist, which only audit and telemetry see."""
    arguments: Mapping[str, Any] | None
    """The arguments as they were received, not validated yet."""
    principal: Principal
    channel: Channel
    record: CallRecord
    timeout_s: float | None = None
    is_built_in: bool = False
    """Whether toolcrib adds the tool or resource itself: a search tool, or the reader of kept results.

    No access rule names it. Rules apply to the tools that it calls, and only its caller reads a kept result.
    """
    started: float = field(default_factory=time.perf_counter)
    checks: tuple[Check, ...] = ()
    sees_converted: bool = False
    """Whether a check wants to see the arguments as the tool gets them."""
    convert: Convert | None = None
    """If `sees_converted` is set and conversion can change the arguments: converts them."""
    make_slot: Callable[[], CallSlot] | None = None
    """Makes the `slot` of a call that counts as running, when it may ask questions or outlive its answer."""
    slot: CallSlot | None = None
    has_run: bool = False
    """Whether the arguments passed all checks, so that the tool was called."""
    on_start: Callable[[Call], None] | None = None
    """Called when the arguments have passed all checks, right before the tool is called."""

    def shorten(self, timeout_s: float) -> None:
        """Give the tool at most this many seconds; a limit that is shorter already stays."""
        if self.timeout_s is None or timeout_s < self.timeout_s:
            self.timeout_s = timeout_s

    def prepare_questions(self) -> Channel:
        """Return the channel to ask questions through. Called only where something may ask."""
        if self.make_slot is not None:
            self.slot, self.make_slot = self.make_slot(), None
            self.channel = self.slot.wrap_channel(self.channel)
        return self.channel

    def outlive(self) -> Callable[[], None]:
        """Go on counting as running after the answer, because code of the call still runs. The returned
        function ends that; it may be called from any thread."""
        self.prepare_questions()
        return _nothing if self.slot is None else self.slot.outlive()

    def measure_arguments(self) -> int:
        """Return the size of the arguments as JSON, in bytes."""
        if self.record.arguments_bytes is None:
            self.record.arguments_bytes = len(codec.encode(self.arguments or {}))
        return self.record.arguments_bytes


class RunningCall(NamedTuple):
    """A call that has begun and not ended."""

    request: str | int | None
    principal: str
    tool: str
    running_s: float


class CallRegistry:
    """The calls of one server: those that run, and the last ones that ended.

    Each of the `sources` returns calls that run, as seen from the transports: it looks for requests that have
    begun and wait for something, so that registering them costs nothing. A call that never waits cannot be
    seen by anybody. `ended` is filled while somebody reads it.
    """

    def __init__(self) -> None:
        self.sources: list[Callable[[], Iterable[RunningCall]]] = []
        self.ended: deque[CallRecord] = deque(maxlen=MAX_ENDED)
        self.readers = 0
        self.on_readers: Callable[[], None] | None = None
        """Called when the first reader comes and when the last one has gone."""
        self.ids: Iterator[str] = map(secrets.token_hex(5).__add__, map(str, itertools.count(1)))

    def running(self) -> list[RunningCall]:
        """Return the calls that run or wait, in no particular order. Used on the event loop of the server."""
        return [call for source in self.sources for call in source()]

    @contextmanager
    def reading(self) -> Iterator[deque[CallRecord]]:
        """Keep the records of calls that end, as long as the block runs."""
        self._count_readers(1)
        try:
            yield self.ended
        finally:
            self._count_readers(-1)

    def _count_readers(self, change: int) -> None:
        self.readers += change
        if not self.readers:
            self.ended.clear()
        if self.on_readers is not None and self.readers == (change > 0):
            self.on_readers()

    def end(self, call: Call, ended: Result | BaseException) -> None:
        """Fill in the record of a call that has ended, log it at INFO, and keep it for readers."""
        record = call.record
        record.duration_s = time.perf_counter() - call.started
        if isinstance(ended, Result):
            record.result_bytes = result_size(ended)
        if isinstance(ended, Result) and ended.error is None and not ended.is_error:
            record.outcome = "ok"
        else:
            record.outcome, record.code = outcome_of(ended, is_gone=call.channel.is_gone)
        if self.readers:
            self.ended.append(record)
        if logger.isEnabledFor(logging.INFO):
            fields = {
                "call_id": record.id,
                "tool_name": record.tool,
                "principal": record.principal,
                "outcome": record.outcome,
                "error_code": record.code,
                "duration_ms": round(record.duration_s * 1000, 3),
            }
            logger.info("call ended: %s", record.outcome, extra=fields)


def outcome_of(ended: Result | BaseException, *, is_gone: bool = False) -> tuple[Outcome, str | None]:
    """Return the outcome, and the code of the error behind it. `is_gone`: the caller had disconnected."""
    error = ended.error if isinstance(ended, Result) else ended
    if error is None:
        return ("error", None) if isinstance(ended, Result) and ended.is_error else ("ok", None)
    code = error.code if isinstance(error, ToolcribError) else None
    for kind, outcome in _OUTCOME_OF_ERROR:
        if isinstance(error, kind):
            return ("disconnected", code) if outcome == "cancelled" and is_gone else (outcome, code)
    return ("error", code) if isinstance(error, ToolcribError) else ("crashed", code)


def exceeds_size(result: Result, max_bytes: int) -> bool:
    """Whether the content or the structured content of a result is longer than allowed."""
    if result_size(result) > max_bytes:
        return True
    structured = result.structured_content
    return structured is not None and len(codec.write(structured)) > max_bytes


def result_size(result: Result) -> int:
    """Return the approximate size of a result's content in bytes: texts and data, without what is around
    them."""
    size = 0
    for block in result.content:
        held = block.get("resource") or block  # an embedded file
        text: str | None = held.get("text") or held.get("data") or held.get("blob")
        if text is None:
            size += len(codec.write(block))  # a link
        else:
            size += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return size
