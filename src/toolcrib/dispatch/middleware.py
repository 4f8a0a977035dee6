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

The policy runs around all of it (see `toolcrib.policy.enforcer`). So added middleware sees only calls that
the policy admits, and what it does is part of the audit record.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

from toolcrib.component import Component
from toolcrib.content import Result, text_block
from toolcrib.context import InputNeeded, Principal
from toolcrib.dispatch.calls import Call, CallRegistry
from toolcrib.errors import ConfigurationError, PolicyError, ToolNotFoundError

__all__ = ["Call", "CallPolicy", "Middleware", "Next", "Pipeline"]

logger = logging.getLogger("toolcrib")

REFUSAL = "toolcrib/refusal"
"""The key of a result's `_meta` that tells programs why a call was refused."""
MAX_VIEWS = 1_000

Next = Callable[[Call], Awaitable[Result]]
Middleware = Callable[[Call, Next], Awaitable[Result]]
Fail = Callable[[Call, BaseException], Result]
Admission = Callable[[Mapping[str, Any]], bool]
"""Returns whether access rules let a principal run something with these arguments."""


class CallPolicy(Protocol):
    """The policy of a server, as calls need it: `toolcrib.policy.enforcer.PolicyEnforcer`."""

    @property
    def depends_on_principal(self) -> bool:
        """Whether two principals may see different tools."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def is_visible(self, principal: Principal, tool: Component) -> bool: ...

    def view(self, principal: Principal, tools: tuple[Component, ...]) -> tuple[Component, ...]:
        """Return the tools that a principal may see: the same object as long as they stay the same."""

    def missing_scopes(self, principal: Principal, tool: Component) -> tuple[str, ...]:
        """Return the scopes that a principal lacks to use a tool that it sees."""

    def admission(self, principal: Principal, tool: Component, unknown: Collection[str]) -> Admission | None:
        """Return the test that access rules are for arguments, None if they do not look at any. `unknown` are
        arguments that will be known later."""

    def guard(self, tool: Component | None, run: Next, calls: CallRegistry) -> Next:
        """Return `run` with the policy around it: it decides about calls of a tool, and records all. None
        stands for tools that do not exist."""

    async def note_task(self, call: Call) -> None:
        """Note that a call has become a task."""


class Pipeline:
    """What is around the calls of one server: its `policy`, and the middleware that its author `added`."""

    def __init__(self, added: Iterable[Middleware] = (), policy: CallPolicy | None = None) -> None:
        self.policy = policy
        self._added = tuple(added)
        self.has_middleware = bool(self._added)
        self._opened: list[Middleware] = []
        self._filters: list[Any] = [part for part in self._added if hasattr(part, "visible")]
        self._views: dict[tuple[Component, ...], tuple[Component, ...]] = {}
        self.depends_on_principal = (policy is not None and policy.depends_on_principal) or any(
            getattr(part, "depends_on_principal", True) for part in self._filters
        )
        """Whether two principals may see different tools."""

    # --- life cycle ---

    async def open(self) -> None:
        """Open the policy and every middleware, outermost first."""
        if self.policy is not None:
            await self.policy.open()
        for part in self._added:
            self._opened.append(part)  # before it is opened: one that fails is closed as well
            if hasattr(part, "open"):
                await call_hook(part.open)

    async def close(self) -> None:
        """Close every middleware that was opened, innermost first, and the policy."""
        opened, self._opened = self._opened, []
        for part in reversed(opened):
            try:
                if hasattr(part, "close"):
                    await call_hook(part.close)
            except Exception:
                logger.exception("closing middleware %s failed", type(part).__name__)
        if self.policy is not None:
            await self.policy.close()

    # --- visibility ---

    def view(self, principal: Principal, tools: tuple[Component, ...]) -> tuple[Component, ...]:
        """Return the tools that a principal may see: the same object as long as they stay the same."""
        if self.policy is not None:
            tools = self.policy.view(principal, tools)
        for part in self._filters:
            seen = tuple(tool for tool in tools if part.visible(principal, tool))
            if len(seen) < len(tools):
                if len(self._views) >= MAX_VIEWS:
                    self._views = {}
                tools = self._views.setdefault(seen, seen)
        return tools

    def is_visible(self, principal: Principal, tool: Component) -> bool:
        if self.policy is not None and not self.policy.is_visible(principal, tool):
            return False
        return all(part.visible(principal, tool) for part in self._filters)

    # --- calls ---

    def compose(self, tool: Component, run: Next, fail: Fail, calls: CallRegistry) -> Next:
        """Return the whole way of a call of one tool, ending in `run`. `fail` makes a result of an
        exception that added middleware raised."""
        if self._added:
            run = self._contain(tool, run, fail)
        return record_calls(run, calls) if self.policy is None else self.policy.guard(tool, run, calls)

    def _contain(self, tool: Component, run: Next, fail: Fail) -> Next:
        """Return the way through added middleware: refuse hidden tools, and turn whatever it raises, or
        returns by mistake, into a result."""
        added = [part for part in self._added if not hasattr(part, "applies_to") or part.applies_to(tool)]
        chain, filters = run, self._filters
        for part in reversed(added):
            chain = link(part, chain)
        checks = tuple(part.check_arguments for part in added if hasattr(part, "check_arguments"))

        async def run_added(call: Call) -> Result:
            call.checks += checks
            call.prepare_questions()
            try:
                if not call.is_built_in and not all(part.visible(call.principal, tool) for part in filters):
                    call.record.decision = "denied"
                    raise ToolNotFoundError(call.name)
                result = await chain(call)
            except (InputNeeded, ToolNotFoundError, asyncio.CancelledError, GeneratorExit):
                raise
            except PolicyError as error:
                call.record.decision = "denied"
                return refusal_result(error)
            except BaseException as error:
                return fail(call, error)
            if not isinstance(result, Result):
                return fail(call, TypeError(f"middleware returned {type(result).__name__}, expected Result"))
            return result

        return run_added

    async def announce_task(self, call: Call) -> None:
        """Let the policy and middleware know that a call has become a task."""
        hooks = [part.on_task for part in self._added if hasattr(part, "on_task")]
        if self.policy is not None:
            hooks.insert(0, self.policy.note_task)
        for hook in hooks:
            try:
                await call_hook(functools.partial(hook, call))
            except Exception:
                logger.exception("middleware %s failed in on_task", type(hook.__self__).__name__)


def record_calls(run: Next, calls: CallRegistry) -> Next:
    """Return `run`, and as long as somebody reads the records of calls, with a record for each."""
    if not calls.readers:
        return run

    async def run_recorded(call: Call) -> Result:
        try:
            result = await run(call)
        except BaseException as error:
            calls.end(call, error)
            raise
        calls.end(call, result)
        return result

    return run_recorded


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


def link(part: Middleware, following: Next) -> Next:
    """Return the way through one middleware and what follows."""

    def run(call: Call) -> Awaitable[Result]:
        return part(call, following)

    return run


async def call_hook(hook: Callable[[], Any]) -> None:
    """Call a method of middleware that may be async."""
    outcome = hook()
    if inspect.isawaitable(outcome):
        await outcome
