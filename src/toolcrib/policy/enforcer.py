"""A policy at work: its parts as the middleware of a server, in a fixed order (docs/decisions/0022)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from toolcrib.component import Component
from toolcrib.config.settings import Policy
from toolcrib.dispatch.middleware import Middleware, Pipeline
from toolcrib.errors import ConfigurationError, ErrorCollector
from toolcrib.policy.access import Access
from toolcrib.policy.access.middleware import AccessMiddleware
from toolcrib.policy.outcome import OutcomeMiddleware
from toolcrib.policy.quota import Quota, QuotaMiddleware

if TYPE_CHECKING:
    from toolcrib.policy.audit import AuditLog
    from toolcrib.policy.telemetry.telemetry import TelemetryMiddleware

logger = logging.getLogger("toolcrib")


class PolicyEnforcer:
    """Makes the parts of a policy: `access`, `quota`, `audit` and `telemetry`. One for each server.

    Raises ConfigurationError for everything in the policy that makes no sense.
    """

    def __init__(self, policy: Policy, *, server: str = "toolcrib", version: str = "0") -> None:
        self.policy = policy
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
        """Return the middleware of a server with this policy. `added` runs innermost."""
        observers: list[Middleware] = []
        checks: list[Middleware] = [
            AccessMiddleware(self.access, self.quota.use_once),
            QuotaMiddleware(self.quota),
        ]
        if self.audit is not None:
            from toolcrib.policy.audit.log import AuditMiddleware, RequiredRecord  # delayed, as above

            observers.append(AuditMiddleware(self.audit, self.policy))
            checks.append(RequiredRecord(self.audit))
        if self.telemetry is not None:
            observers.append(self.telemetry)
        return Pipeline([*observers, OutcomeMiddleware()], checks, added)

    def check(self, tools: Sequence[Component]) -> list[ConfigurationError]:
        """Return what in the policy matches none of these tools."""
        return [*self.access.check(tools), *self.quota.check(tools)]

    def warn_unmatched(self, tools: Sequence[Component]) -> None:
        """Warn once of each thing in the policy that matches no tool, after the tools have changed."""
        unmatched = {str(error) for error in self.check(tools)}
        for problem in sorted(unmatched - self._warned):
            logger.warning("%s", problem)
        self._warned = unmatched


def find_unmatched(policy: Policy, tools: Sequence[Component]) -> list[ConfigurationError]:
    """Return what matches none of these tools in those rules, scopes and limits that are valid."""
    parts = Access(policy, ErrorCollector()), Quota(replace(policy, store=None), ErrorCollector())
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
