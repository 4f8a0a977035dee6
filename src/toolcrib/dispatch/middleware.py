"""Middleware: code that runs around every call of a tool.

    class Timing:
        async def __call__(self, call, next):
            started = time.perf_counter()
            result = await next(call)
            print(call.tool.name, time.perf_counter() - started)
            return result

    server = MCPServer(middleware=[Timing()])

A middleware is an async callable that takes a `Call` and `next`. It returns what `next(call)` returns,
changes it, or returns a `Result` of its own without calling `next`. To refuse a call it raises a
`CallError`, such as `DeniedError`. An object may have more methods, all optional:

- `visible(principal, tool) -> bool`: a tool that is not visible is neither listed nor known to that
  principal;
- `check_arguments(call, arguments)`: look at validated arguments before the tool runs, raise `CallError` to
  refuse; may be async;
- `applies_to(tool) -> bool`: asked once per tool; where it is False, the middleware does not run around calls
  of that tool and does not check their arguments;
- `on_task(call)`: called where a call becomes a task, which is answered before it ends; may be async;
- `open()` and `close()`, sync or async: called when the server starts and stops.

Access control, quotas, audit and telemetry are middleware too. The order is fixed, outermost first: audit,
telemetry, outcome, access, quota, required audit records, then the middleware of the server in the order it
was added. So added middleware sees only calls that the policy admits, and what it does is part of the audit
record.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolcrib.component import Component
from toolcrib.content import Result, text_block
from toolcrib.context import Channel, InputNeeded, Principal
from toolcrib.dispatch.runners import Outlive
from toolcrib.errors import ConfigurationError, PolicyError, ToolNotFoundError
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.schema.received import Received

logger = logging.getLogger("toolcrib")

REFUSAL = "toolcrib/refusal"
"""The key of a result's `_meta` that tells programs why a call was refused."""
MAX_VIEWS = 1_000

Next = Callable[["Call"], Awaitable[Result]]
Middleware = Callable[["Call", Next], Awaitable[Result]]
Check = Callable[["Call", dict[str, Any]], Awaitable[None] | None]
"""Looks at validated arguments before the tool runs. Raises CallError to refuse, InputNeeded to ask first."""
Convert = Callable[[], Awaitable["Received"]]
"""Converts the arguments of a call and returns them as the tool gets them. The tool is called with these."""
Fail = Callable[["Call", BaseException], Result]
Admission = Callable[[Mapping[str, Any]], bool]
"""Returns whether access rules let a principal run something with these arguments."""


@dataclass(slots=True, eq=False)
class Call:
    """One call of a tool on its way through the middleware, and the record of how it ended.

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
    """Where `sees_converted` is set and conversion can change the arguments: converts them."""
    outlive: Outlive | None = None
    """Called where the call is answered while its code still runs."""
    has_run: bool = False
    """Whether the arguments passed all checks, so that the tool was called."""
    is_cached: bool = False
    """Whether the result is one that was kept: see the option `cache_s` of tools."""
    on_start: Callable[[Call], None] | None = None
    """Called when the arguments have passed all checks, right before the tool is called."""
    decision: str = "allowed"
    rule: str | None = None
    arguments_bytes: int | None = None
    arguments_digest: str | None = None
    outcome: str = ""
    code: str | None = None
    duration_s: float = 0.0
    result_bytes: int | None = None

    def begin(self) -> None:
        """Note that the arguments have passed all checks: the tool is called next."""
        self.has_run = True
        if self.on_start is not None:
            self.on_start(self)

    def shorten(self, timeout_s: float) -> None:
        """Give the tool at most this many seconds; a limit that is shorter already stays."""
        if self.timeout_s is None or timeout_s < self.timeout_s:
            self.timeout_s = timeout_s

    def measure_arguments(self) -> int:
        """Return the size of the arguments as JSON, in bytes."""
        if self.arguments_bytes is None:
            self.arguments_bytes = len(codec.encode(self.arguments or {}))
        return self.arguments_bytes


@dataclass(frozen=True, slots=True)
class LongCall:
    """A call that may become a task. `timeout_s` is the limit of a tool without its own; `on_start` is called
    right before the tool is."""

    timeout_s: float
    on_start: Callable[[Call], None]


class RecordWritten(asyncio.Future[bool]):
    """Awaited by a call that has ended, until its audit record is written.

    Nothing of the tool runs after it, so the transport that sends the reply may wait for it without a task.
    """


class Pipeline:
    """The middleware of one server.

    `observers` see every call, also of unknown tools; `policy` decides about calls of tools that exist;
    `added` is the middleware of the server's author.
    """

    def __init__(
        self,
        observers: Iterable[Middleware] = (),
        policy: Iterable[Middleware] = (),
        added: Iterable[Middleware] = (),
    ) -> None:
        self._observers = tuple(observers)
        self._policy = tuple(policy)
        self._added = tuple(added)
        self._opened: list[Middleware] = []
        self._filters = [part for part in (*self._policy, *self._added) if hasattr(part, "visible")]
        self._views: dict[tuple[Component, ...], tuple[Component, ...]] = {}
        self.depends_on_principal = any(getattr(part, "depends_on_principal", True) for part in self._filters)
        """Whether two principals may see different tools."""
        self._id_prefix = secrets.token_hex(5)
        self._numbers = itertools.count(1)
        self._unknown = _chain(self._observers, _raise_unknown)

    # --- life cycle ---

    async def open(self) -> None:
        """Open every middleware, outermost first."""
        for part in (*self._observers, *self._policy, *self._added):
            if part in self._added:
                self._opened.append(part)  # before it is opened: one that fails is closed as well
            if hasattr(part, "open"):
                await call_hook(part.open)

    async def close(self) -> None:
        """Close every middleware, innermost first; added ones only if they were opened."""
        opened, self._opened = self._opened, []
        for part in reversed((*self._observers, *self._policy, *opened)):
            try:
                if hasattr(part, "close"):
                    await call_hook(part.close)
            except Exception:
                logger.exception("closing middleware %s failed", type(part).__name__)

    # --- visibility ---

    def view(self, principal: Principal, tools: tuple[Component, ...]) -> tuple[Component, ...]:
        """Return the tools that a principal may see: the same object as long as they stay the same."""
        for part in self._filters:
            if hasattr(part, "view"):  # it remembers what it decided
                tools = part.view(principal, tools)
                continue
            seen = tuple(tool for tool in tools if part.visible(principal, tool))
            if len(seen) < len(tools):
                if len(self._views) >= MAX_VIEWS:
                    self._views = {}
                tools = self._views.setdefault(seen, seen)
        return tools

    def missing_scopes(self, principal: Principal, tool: Component) -> tuple[str, ...]:
        """Return the scopes that a principal lacks to use a tool that it sees."""
        parts = (part for part in self._policy if hasattr(part, "missing_scopes"))
        return tuple(scope for part in parts for scope in part.missing_scopes(principal, tool))

    def admission(self, principal: Principal, tool: Component, unknown: Collection[str]) -> Admission | None:
        """Return the test that access rules are for arguments, None if they do not look at any. `unknown` are
        arguments that will be known later."""
        parts = (part for part in self._policy if hasattr(part, "admission"))
        return next((part.admission(principal, tool, unknown) for part in parts), None)

    def is_visible(self, principal: Principal, tool: Component) -> bool:
        return all(part.visible(principal, tool) for part in self._filters)

    # --- calls ---

    def next_id(self) -> str:
        """Return the id of the next call."""
        return f"{self._id_prefix}{next(self._numbers):x}"

    def compose(self, tool: Component, run: Next, fail: Fail) -> Next:
        """Return the whole way of a call of one tool, ending in `run`. `fail` makes a result of an
        exception that added middleware raised."""
        if self._added:
            run = self._contain(tool, run, fail)
        return _chain((*self._observers, *_select(self._policy, tool)), run)

    def _contain(self, tool: Component, run: Next, fail: Fail) -> Next:
        """Return the way through added middleware: refuse hidden tools, and turn whatever it raises, or
        returns by mistake, into a result."""
        added = _select(self._added, tool)
        chain = _chain(added, run)
        filters = [part for part in self._added if hasattr(part, "visible")]
        checks = tuple(part.check_arguments for part in added if hasattr(part, "check_arguments"))

        async def run_added(call: Call) -> Result:
            call.checks += checks
            try:
                if not call.is_built_in and not all(part.visible(call.principal, tool) for part in filters):
                    call.decision = "denied"
                    raise ToolNotFoundError(call.name)
                result = await chain(call)
            except (InputNeeded, ToolNotFoundError, asyncio.CancelledError, GeneratorExit):
                raise
            except PolicyError as error:
                call.decision = "denied"
                return refusal_result(error)
            except BaseException as error:
                return fail(call, error)
            if not isinstance(result, Result):
                return fail(call, TypeError(f"middleware returned {type(result).__name__}, expected Result"))
            return result

        return run_added

    async def reject_unknown(self, call: Call) -> None:
        """Let audit and telemetry see a call of a tool that does not exist. Raises ToolNotFoundError."""
        call.decision = "unknown"
        await self._unknown(call)

    async def announce_task(self, call: Call) -> None:
        """Let middleware know that a call has become a task."""
        for part in (*self._observers, *self._policy, *self._added):
            if hasattr(part, "on_task"):
                try:
                    await call_hook(functools.partial(part.on_task, call))
                except Exception:
                    logger.exception("middleware %s failed in on_task", type(part).__name__)

    def reject(self, call: Call, error: BaseException) -> None:
        """Let audit and telemetry see a call that ended before its tool was looked up, for want of room."""
        call.decision = "unheard"

        async def run(_: Call) -> Result:
            raise error

        try:
            _chain(self._observers, run)(call).__await__().send(None)  # it has nothing to wait for
        except BaseException as raised:
            if raised is not error and not isinstance(raised, StopIteration):
                raise


def check_middleware(part: Any) -> Middleware:
    """Raise ConfigurationError for what cannot be a middleware."""
    if inspect.isclass(part):
        raise ConfigurationError(
            f"middleware must be an object, got the class {part.__name__}",
            key="middleware",
            hint=f"pass an instance: {part.__name__}()",
        )
    hint = "write `async def my_middleware(call, next): return await next(call)`"
    if not callable(part):
        raise ConfigurationError(
            f"middleware must be callable, got {type(part).__name__}", key="middleware", hint=hint
        )
    try:
        inspect.signature(part).bind(None, None)
    except TypeError:
        name = getattr(part, "__name__", type(part).__name__)
        raise ConfigurationError(
            f"middleware must take two arguments, call and next: {name} does not", key="middleware", hint=hint
        ) from None
    except ValueError:
        pass  # a callable without a signature
    return part  # type: ignore[no-any-return]


def refusal_result(error: PolicyError) -> Result:
    """Return the result of a call that was refused, with the reason for people and for programs."""
    error.__traceback__ = None  # it refers to the whole call, arguments included, and would keep it alive
    meta = {REFUSAL: {"code": error.code, **(error.details or {})}}
    return Result([text_block(str(error))], is_error=True, error=error, meta=meta)


def _select(parts: Iterable[Middleware], tool: Component) -> list[Middleware]:
    return [part for part in parts if not hasattr(part, "applies_to") or part.applies_to(tool)]


def _chain(parts: Iterable[Middleware], run: Next) -> Next:
    for part in reversed(tuple(parts)):
        run = _link(part, run)
    return run


def _link(part: Middleware, following: Next) -> Next:
    def run(call: Call) -> Awaitable[Result]:
        return part(call, following)

    return run


def _raise_unknown(call: Call) -> Awaitable[Result]:
    raise ToolNotFoundError(call.name)


async def call_hook(hook: Callable[[], Any]) -> None:
    """Call a method of middleware that may be async."""
    outcome = hook()
    if inspect.isawaitable(outcome):
        await outcome
