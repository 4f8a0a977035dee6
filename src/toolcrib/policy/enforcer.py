"""A policy at work: what it decides about a call, and what it records of it (docs/decisions/policy.md).

`Guard` is the policy around the calls of one tool. It runs outside the middleware of the server, in this
order: the arguments are digested for the record; access; quota; a record that has to come before the call;
the call, in which the arguments are judged when they are checked; the record.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from toolcrib.component import Component
from toolcrib.config.settings import Policy
from toolcrib.content import Result
from toolcrib.context import InputNeeded, Principal
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
from toolcrib.policy.access.access import ArgumentCheck, find_admission, refuse
from toolcrib.policy.quota import Quota, Slot
from toolcrib.state import StateHandle
from toolcrib.state.base import Lease

if TYPE_CHECKING:
    from toolcrib.dispatch.calls import Check
    from toolcrib.policy.access.access import Decision
    from toolcrib.policy.audit import AuditLog
    from toolcrib.policy.quota import CallLimits
    from toolcrib.policy.telemetry import TelemetryMiddleware

logger = logging.getLogger("toolcrib")

MAX_KNOWN = 1_000
"""The principals whose terms are remembered for each tool."""


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
                self.audit = AuditLog(policy.audit, server=server, store=self.storage.audit)
        if policy.telemetry is not None:
            from toolcrib.policy.telemetry import TelemetryMiddleware

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


class _Terms:
    """Everything that is known before a call of a principal, and is the same for all of its calls of a tool:
    the decision that refuses them, or the check of arguments, and the limits. There is no decision about what
    toolcrib adds itself."""

    __slots__ = ("checks", "limits", "principal", "refused_by", "rule", "sees_converted")

    def __init__(
        self,
        principal: Principal,
        tool: Component | None,
        decision: Decision | None,
        enforcer: PolicyEnforcer,
    ) -> None:
        self.principal = principal
        self.limits = None if tool is None else enforcer.quota.find(principal, tool)
        self.refused_by: Decision | None = None
        self.rule: str | None = None
        """The rule that decides, unless that depends on the arguments."""
        self.checks: tuple[Check, ...] = ()
        self.sees_converted = False
        if decision is None or tool is None:
            return
        if decision.missing or not decision.is_visible:
            self.refused_by, self.rule = decision, decision.deciding_rule
        elif decision.constant is not None:
            self.rule = decision.rule
        if not decision.is_final:
            self.checks = (ArgumentCheck(tool, decision, enforcer.storage),)
            self.sees_converted = decision.rules.compares_received


class Guard:
    """The policy around the calls of one tool, or of tools that do not exist."""

    __slots__ = (
        "_audit",
        "_calls",
        "_counters",
        "_enforcer",
        "_is_folder",
        "_known",
        "_last",
        "_must_record",
        "_run",
        "_tool",
    )

    def __init__(
        self, enforcer: PolicyEnforcer, tool: Component | None, run: Next, calls: CallRegistry
    ) -> None:
        self._enforcer = enforcer
        self._audit = enforcer.audit
        self._counters = enforcer.storage.counters
        self._tool = tool
        self._run = run
        self._calls = calls
        self._known: dict[Principal, _Terms] = {}
        self._last: _Terms | None = None
        self._is_folder = tool is not None and tool.is_folder
        options = None if tool is None else tool.options
        self._must_record = options is not None and (options.destructive or options.audit == "required")

    async def __call__(self, call: Call) -> Result:
        audit, channel = self._audit, call.channel
        arguments = call.arguments  # as they were received, whatever middleware makes of them
        result, lease = _NO_RESULT, None
        error: BaseException | None = None
        try:
            limits = self._decide(call)
            if limits is not None and limits.counted.each:
                mark = channel.resumes if channel.is_prompted else None
                admitted = self._counters.acquire(limits.counted, mark=mark)
                granted = admitted if isinstance(admitted, Lease) else await limits.admit(admitted)
                if limits.is_held:
                    lease, call.make_slot = granted, partial(Slot, self._counters, granted)
            try:
                if self._must_record and audit is not None:
                    await audit.require(call)
                result = await self._run(call)
            except InputNeeded:
                call.has_run = True  # made again with an answer, it is not counted again
                raise
            finally:
                if call.slot is not None:
                    call.slot.leave(ran=call.has_run)
                elif lease is not None:
                    call.make_slot = None
                    self._counters.release(lease, ran=call.has_run)
            if limits is not None and limits.max_result_bytes is not None:
                result = limits.check_result(result)
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

    def _decide(self, call: Call) -> CallLimits | None:
        """Decide whether the principal may call the tool, and return the limits that the call counts
        against. Raise ToolNotFoundError, or an error of the policy."""
        record = call.record
        if self._audit is not None:  # before the tool can change them
            record.arguments_digest, record.arguments_bytes = self._audit.digest(call.arguments)
        terms = self._last
        if terms is None or terms.principal is not call.principal or self._is_folder:
            terms = self._find_terms(call)
        record.rule = terms.rule
        if terms.refused_by is not None:
            record.decision = "denied"
            raise refuse(call, terms.refused_by)
        call.checks, call.sees_converted = terms.checks, terms.sees_converted
        limits = terms.limits
        if limits is not None:
            if limits.max_arguments_bytes is not None:
                limits.check_arguments(call.measure_arguments())
            if limits.timeout_s is not None:
                call.shorten(limits.timeout_s)
        return limits

    def _find_terms(self, call: Call) -> _Terms:
        principal, tool, enforcer = call.principal, self._tool, self._enforcer
        terms = self._known.get(principal)
        if terms is None or self._is_folder:
            decision = None
            if tool is not None and not call.is_built_in:
                decision = enforcer.access.decide_call(principal, tool, call.arguments)
            terms = _Terms(principal, tool, decision, enforcer)
            if len(self._known) >= MAX_KNOWN:
                self._known = {}
            self._known[principal] = terms
        self._last = terms
        return terms


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
