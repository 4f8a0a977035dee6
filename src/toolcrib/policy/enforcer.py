"""A policy at work: what it decides about a call, and what it records of it (docs/decisions/policy.md).

`Guard` is the policy around the calls of one tool. It runs outside the middleware of the server, in this
order: the arguments are digested for the record; access; quota; a record that has to come before the call;
the call, in which the arguments are judged when they are checked; the record.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolcrib.component import Component
from toolcrib.config.settings import Policy
from toolcrib.content import Result
from toolcrib.context import Principal
from toolcrib.dispatch.calls import Call, CallRegistry
from toolcrib.dispatch.middleware import (
    Admission,
    Middleware,
    Next,
    Pipeline,
    call_hook,
    link,
    refusal_result,
)
from toolcrib.errors import (
    AuditUnavailableError,
    ConfigurationError,
    ErrorCollector,
    PolicyError,
    ThrottledError,
)
from toolcrib.policy.access import Access
from toolcrib.policy.access.middleware import ArgumentCheck, find_admission, refuse
from toolcrib.policy.quota import Quota, QuotaMiddleware
from toolcrib.state import StateHandle

if TYPE_CHECKING:
    from toolcrib.policy.audit import AuditLog
    from toolcrib.policy.telemetry.telemetry import TelemetryMiddleware

logger = logging.getLogger("toolcrib")


class PolicyEnforcer:
    """Makes the parts of a policy: `access`, `quota`, `audit` and `telemetry`. One for each server,
    whose `storage` counts calls and keeps used confirmations.

    Raises ConfigurationError for everything in the policy that makes no sense.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        server: str = "toolcrib",
        version: str = "0",
        storage: StateHandle | None = None,
    ) -> None:
        self.policy = policy
        self.storage = StateHandle() if storage is None else storage
        problems = ErrorCollector()
        with problems.collecting():
            self.access = Access(policy)
        with problems.collecting():
            self.quota = Quota(policy)
        self.audit: AuditLog | None = None
        self.telemetry: TelemetryMiddleware | None = None
        if policy.audit is not None:
            from toolcrib.policy.audit import AuditLog  # delayed: loads SQLite

            with problems.collecting(), _located(policy, "audit"):
                self.audit = AuditLog(policy.audit, server=server)
        if policy.telemetry is not None:
            from toolcrib.policy.telemetry.telemetry import TelemetryMiddleware

            with problems.collecting(), _located(policy, "telemetry"):
                self.telemetry = TelemetryMiddleware(policy.telemetry, server=server, version=version)
        problems.raise_errors()
        if self.telemetry is not None and (audit := self.audit) is not None:
            self.telemetry.gauge("audit_gaps_total", lambda: audit.gaps)
            self.telemetry.gauge("audit_queue", lambda: audit.waiting)
        self._warned: set[str] = set()

    def is_healthy(self) -> bool:
        """Whether calls that require a record can be recorded, or could be soon."""
        return self.audit is None or not self.audit.is_damaged

    def pipeline(self, added: Iterable[Middleware] = ()) -> Pipeline:
        """Return what is around the calls of a server with this policy. `added` runs innermost."""
        return Pipeline(added, self)

    # --- for the pipeline ---

    @property
    def depends_on_principal(self) -> bool:
        return self.access.depends_on_principal

    async def open(self) -> None:
        if self.audit is not None:
            try:
                await self.audit.open()
            except ConfigurationError as error:
                raise self.policy.error_from("audit.file", error) from None

    async def close(self) -> None:
        for part in (self.telemetry, self.audit):
            try:
                if part is not None:
                    await call_hook(part.close)
            except Exception:
                logger.exception("closing %s failed", type(part).__name__)

    def is_visible(self, principal: Principal, tool: Component) -> bool:
        return self.access.is_visible(principal, tool)

    def view(self, principal: Principal, tools: tuple[Component, ...]) -> tuple[Component, ...]:
        return self.access.view(principal, tools)

    def missing_scopes(self, principal: Principal, tool: Component) -> tuple[str, ...]:
        return self.access.decide(principal, tool).missing

    def admission(self, principal: Principal, tool: Component, unknown: Collection[str]) -> Admission | None:
        return find_admission(self.access, principal, tool, unknown)

    def guard(self, tool: Component | None, run: Next, calls: CallRegistry) -> Next:
        if tool is not None and self.quota.limits_tool(tool):
            run = link(QuotaMiddleware(self.quota, self.storage), run)
        guard = Guard(self, tool, run, calls)
        return guard if self.telemetry is None else link(self.telemetry, guard)

    async def note_task(self, call: Call) -> None:
        if self.audit is not None:
            await self.audit.record_task(call)

    # --- checks ---

    def check(self, tools: Sequence[Component]) -> list[ConfigurationError]:
        """Return what in the policy matches none of these tools."""
        return [*self.access.check(tools), *self.quota.check(tools)]

    def warn_unmatched(self, tools: Sequence[Component]) -> None:
        """Warn once of each thing in the policy that matches no tool, after the tools have changed."""
        unmatched = {str(error) for error in self.check(tools)}
        for problem in sorted(unmatched - self._warned):
            logger.warning("%s", problem)
        self._warned = unmatched


class Guard:
    """The policy around the calls of one tool, or of tools that do not exist."""

    __slots__ = ("_access", "_audit", "_calls", "_must_record", "_run", "_storage", "_tool")

    def __init__(
        self, enforcer: PolicyEnforcer, tool: Component | None, run: Next, calls: CallRegistry
    ) -> None:
        self._access = enforcer.access
        self._audit = enforcer.audit
        self._storage = enforcer.storage
        self._tool = tool
        self._run = run
        self._calls = calls
        options = None if tool is None else tool.options
        self._must_record = options is not None and (options.destructive or options.audit == "required")

    async def __call__(self, call: Call) -> Result:
        audit, tool, record, channel = self._audit, self._tool, call.record, call.channel
        arguments = call.arguments  # as they were received, whatever middleware makes of them
        result = _NO_RESULT
        error: BaseException | None = None
        if audit is not None:
            record.arguments_digest, record.arguments_bytes = audit.digest(arguments)
        try:
            if tool is not None and not call.is_built_in:
                decision = self._access.decide_call(call.principal, tool, arguments)
                if decision.constant is not None:  # else it depends on the arguments
                    record.rule = decision.rule
                if decision.missing or not decision.is_visible:
                    record.rule = decision.deciding_rule
                    record.decision = "denied"
                    raise refuse(call, tool, decision)
                if not decision.is_final:
                    call.sees_converted = decision.rules.compares_received
                    call.checks = (ArgumentCheck(tool, decision, self._storage), *call.checks)
            if self._must_record and audit is not None:
                await audit.require(call)
            result = await self._run(call)
        except PolicyError as refused:
            result = _note_refusal(call, refused)
        except BaseException as raised:
            error = raised
        self._calls.end(call, result if error is None else error)
        if audit is not None:
            committed = audit.record(call, arguments, error)
            if committed is not None:
                if channel.sends_reply:
                    channel.committed = committed
                else:
                    await committed
        try:
            if error is not None:
                raise error
        finally:
            error = None  # its traceback refers to this frame
        return result


_NO_RESULT = Result()


def _note_refusal(call: Call, error: PolicyError) -> Result:
    """Return the result of a call that the policy refused."""
    call.record.decision = "denied"
    if isinstance(error, ThrottledError):
        call.record.rule = f"limit {error.details['limit']}"
    elif isinstance(error, AuditUnavailableError):
        call.record.rule = "audit"
    return refusal_result(error)


def find_unmatched(policy: Policy, tools: Sequence[Component]) -> list[ConfigurationError]:
    """Return what matches none of these tools in those rules, scopes and limits that are valid."""
    parts = Access(policy, ErrorCollector()), Quota(policy, ErrorCollector())
    return [error for part in parts for error in part.check(tools)]


@contextmanager
def _located(policy: Policy, section: str) -> Iterator[None]:
    """Add file and line of a section of the policy to errors raised about it."""
    try:
        yield
    except ConfigurationError as error:
        first, *others = (policy.error_from(section, each) for each in (error, *error.others))
        first.others = tuple(others)
        raise first from None
