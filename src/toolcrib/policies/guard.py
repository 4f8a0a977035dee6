"""The order of everything that stands around one call: access, quota, audit, telemetry.

Knows what the parts promise and in which order they are asked (docs/decisions/0022); refuses to know how
any of them does it, and the wire.
"""

from __future__ import annotations

import itertools
import logging
import secrets
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolcrib.admission import Admit, Attempt, Convert, Perform, refused
from toolcrib.content import Result, text_block
from toolcrib.context import Channel, Principal
from toolcrib.errors import (
    ConfigurationError,
    DeniedError,
    Faults,
    InsufficientScopeError,
    InvalidResultError,
    NotConfirmedError,
    PolicyError,
    ToolNotFoundError,
)
from toolcrib.policies.access import Access, Decision, Judgement
from toolcrib.policies.case import Case, is_longer
from toolcrib.policies.confirm import Burn, confirm
from toolcrib.policies.quota import Quota, Slot
from toolcrib.policies.resting import Resting
from toolcrib.policy import Policy
from toolcrib.question import InputNeeded
from toolcrib.schema.received import Received
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.policies.audit import AuditLog
    from toolcrib.policies.telemetry import Watch

logger = logging.getLogger("toolcrib")


class Guard:
    """What a policy demands, done. One for each server."""

    def __init__(self, policy: Policy, *, server: str = "toolcrib", version: str = "0") -> None:
        self.policy = policy
        faults = Faults()
        with faults.gathering():
            self.access = Access(policy)
        with faults.gathering():
            self.quota = Quota(policy)
        self.audit: AuditLog | None = None
        self.watch: Watch | None = None
        if policy.audit is not None:
            from toolcrib.policies.audit import AuditLog  # loads SQLite, which not everybody wants

            with faults.gathering(), _placing(policy, "audit"):
                self.audit = AuditLog(policy.audit, server=server)
        if policy.telemetry is not None:
            from toolcrib.policies.telemetry import Watch  # loads what it reports to

            with faults.gathering(), _placing(policy, "telemetry"):
                self.watch = Watch(policy.telemetry, server=server, version=version)
        faults.tell()
        if self.watch is not None and (audit := self.audit) is not None:
            self.watch.gauge("audit_gaps_total", lambda: audit.gaps)
            self.watch.gauge("audit_queue", lambda: audit.waiting)
        self._said: set[str] = set()
        self._prefix = secrets.token_hex(5)
        self._numbers = itertools.count(1)

    # --- living ---

    def check(self, tools: Sequence[Tool]) -> list[ConfigurationError]:
        """What of the policy means none of these tools."""
        return [*self.access.check(tools), *self.quota.check(tools)]

    def look_again(self, tools: Sequence[Tool]) -> None:
        """Other tools are there than before: forget those that are gone, say once what means none."""
        wrong = {str(error) for error in self.check(tools)}
        for words in sorted(wrong - self._said):
            logger.warning("%s", words)
        self._said = wrong

    async def open(self) -> None:
        if self.audit is not None:
            try:
                await self.audit.open()
            except ConfigurationError as error:
                raise self.policy.place_error("audit.file", error) from None
        await self.quota.open()

    async def close(self) -> None:
        await self.quota.close()
        if self.audit is not None:
            await self.audit.close()
        if self.watch is not None:
            self.watch.close()

    # --- what dispatch asks ---

    @property
    def depends_on_principal(self) -> bool:
        return self.access.depends_on_principal

    def view(self, principal: Principal, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        return self.access.view(principal, tools)

    def is_visible(self, principal: Principal, tool: Tool) -> bool:
        return self.access.is_visible(principal, tool)

    def drop(self, attempt: Attempt, error: BaseException) -> None:
        case = self._open_case(attempt, None)
        case.decision = "unheard"
        case.drop(error)

    async def miss(self, attempt: Attempt) -> None:
        case = self._open_case(attempt, None)
        case.decision = "unknown"
        if (recording := case.end(ToolNotFoundError(attempt.name))) is not None:
            await recording

    async def conduct(
        self, attempt: Attempt, tool: Tool, perform: Perform, *, is_front: bool = False
    ) -> Result:
        case = self._open_case(attempt, tool)
        principal, channel = attempt.principal, attempt.channel
        slot: Slot | None = None
        timeout_s = most = outlive = None
        try:
            try:
                decision = None if is_front else self.access.decide(principal, tool)
                if decision is not None:
                    case.rule = decision.rule
                    if decision.missing or not decision.is_visible:
                        case.decision = "denied"
                        raise _turn_away(attempt, tool, decision)
                again = channel.resumes if channel.is_prompted else None
                entered = self.quota.enter(principal, tool, case.measure, resumes=again)
                if entered is not None:
                    slot = entered if isinstance(entered, Slot) else await entered
                    timeout_s, most = slot.demand.timeout_s, slot.demand.max_result_bytes
                    if slot.demand.is_counted:
                        channel, outlive = Resting(channel, slot), slot.outlive
                if self.audit is not None and (tool.options.destructive or tool.options.audit == "required"):
                    await case.begin(tool)
                admit: Admit = case.admit
                converts = False
                if decision is not None and not decision.is_final:
                    admit = _Gate(tool.name, decision, case, channel, self.quota.burn)
                    converts = decision.case.compares_received
                work = perform(channel, admit, timeout_s, outlive, case.id, converts)
                result = await (work if self.watch is None else self.watch.within(case.span, work))
                if most is not None and result.error is None and is_longer(result, most):
                    result = _too_long(tool.name, most)
            except PolicyError as error:
                case.decision = "denied"
                result = refused(error)
            except InputNeeded:
                case.ran = True  # made again with the answer, the call is not counted again
                raise
            finally:
                if slot is not None:
                    slot.leave(ran=case.ran)
        except BaseException as error:
            if (recording := case.end(error)) is not None:
                await recording
            raise
        if (recording := case.end(result)) is not None:
            await recording
        return result

    # --- inside ---

    def _open_case(self, attempt: Attempt, tool: Tool | None) -> Case:
        return Case(self.audit, self.watch, f"{self._prefix}{next(self._numbers):x}", attempt, tool)


class _Gate:
    """Admits a call that rules have a say in: judged as it came, judged as the tool gets it, confirmed.

    In that order, so that no validator of the tool sees arguments that are refused as they came, and a person
    is asked about the values that the tool is called with.
    """

    __slots__ = ("_burn", "_case", "_channel", "_decision", "_tool")

    def __init__(self, tool: str, decision: Decision, case: Case, channel: Channel, burn: Burn) -> None:
        self._tool = tool
        self._decision = decision
        self._case = case
        self._channel = channel
        self._burn = burn

    def __call__(self, checked: dict[str, Any], convert: Convert | None) -> Awaitable[None] | None:
        judgement = self._judge(checked)
        if convert is None and judgement.confirm is None:
            self._case.ran = True
            return None
        return self._look_closer(checked, convert, judgement)

    async def _look_closer(
        self, checked: dict[str, Any], convert: Convert | None, judgement: Judgement
    ) -> None:
        received = None if convert is None else await convert()
        if received is not None:
            judgement = self._judge(checked, received)
        if judgement.confirm is not None:
            shown = checked if received is None else received.shown()
            try:
                words = judgement.confirm.words
                await confirm(self._tool, shown, words, self._channel, self._burn, sent=checked)
            except NotConfirmedError:
                self._case.decision = "denied"
                raise
        self._case.ran = True

    def _judge(self, checked: dict[str, Any], received: Received | None = None) -> Judgement:
        judgement = self._decision.judge(checked, received)
        self._case.rule = judgement.rule
        if not judgement.is_allowed:
            self._case.decision = "denied"
            raise _denied(self._tool, judgement.because)
        return judgement


def check_rest(policy: Policy, tools: Sequence[Tool]) -> list[ConfigurationError]:
    """What of a policy that no guard can be made of means none of these tools, as far as it is understood."""
    faults = Faults()  # told by whoever tried to make the guard
    return [*Access(policy, faults).check(tools), *Quota(policy, faults).check(tools)]


@contextmanager
def _placing(policy: Policy, section: str) -> Iterator[None]:
    """Say of what is wrong with a part where it was written."""
    try:
        yield
    except ConfigurationError as error:
        first, *others = (policy.place_error(section, each) for each in (error, *error.others))
        first.others = tuple(others)
        raise first from None


def _turn_away(attempt: Attempt, tool: Tool, decision: Decision) -> Exception:
    """Who may not call a tool whatever the arguments: for them it is not there, unless all they
    lack is a scope."""
    if not decision.is_visible:
        return ToolNotFoundError(attempt.name)
    words = f"Tool '{tool.name}' needs a scope that you were not given: {' '.join(decision.missing)}"
    return InsufficientScopeError(words, details={"scopes": list(decision.missing)})


def _denied(tool: str, because: str | None) -> DeniedError:
    words = f"Tool '{tool}' may not be called with these arguments"
    return DeniedError(f"{words}: {because}" if because else f"{words}.")


def _too_long(tool: str, most: int) -> Result:
    error = InvalidResultError(
        f"The result of tool '{tool}' is longer than the {most} bytes that are allowed."
    )

    return Result([text_block(str(error))], is_error=True, error=error)
