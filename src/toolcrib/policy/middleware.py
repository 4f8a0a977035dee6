"""The order of everything that stands around one call: access, quota, audit, telemetry.

Knows what the parts promise and in which order they are asked (docs/decisions/0022); refuses to know how
any of them does it, and the wire.

How a call ended, in one word: for the record, for figures and for logs.

Knows results and exceptions; refuses to know where the word is written.

One call on its way through a policy, and what is said of it: on the record, in figures, in the log.

Knows what those who keep record want to know; refuses to know how anything was decided.

A channel that gives its call's place free while a person is asked, and takes one again after.

Knows channels and slots; refuses to know what is asked.

A person has to agree before a tool runs: asked through the call's own channel, for these very arguments.

On 2026-07-28 the answer comes back with a sealed state that is bound to the caller, the tool and the exact
arguments; its mark is burned when it is used, so that one yes is one call. Older clients are asked while the
call waits, which leaves nothing to use twice. Knows questions and marks; refuses to know which tools need
this.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args

from toolcrib.config.settings import Policy
from toolcrib.content import Result, text_block
from toolcrib.context import CONFIRMATION, Answer, Channel, Form, InputNeeded, Principal, Question, Reply
from toolcrib.definition import find_hidden
from toolcrib.dispatch.middleware import Admit, Attempt, Convert, Parting, Perform, refused
from toolcrib.errors import (
    AuditUnavailableError,
    CannotAskError,
    ConfigurationError,
    DeniedError,
    ErrorCollector,
    InsufficientScopeError,
    InvalidResultError,
    NotConfirmedError,
    PolicyError,
    ThrottledError,
    ToolBusyError,
    ToolCrashedError,
    ToolcribError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from toolcrib.policy.access import Access, Decision, Judgement
from toolcrib.policy.quota import Quota, Slot
from toolcrib.schema.received import Received
from toolcrib.tool import Tool
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.policy.audit import AuditLog
    from toolcrib.policy.telemetry.telemetry import Watch

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
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_OF_ERROR: tuple[tuple[type[BaseException], Outcome], ...] = (
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


def outcome_of(ended: Result | BaseException, *, is_gone: bool = False) -> tuple[Outcome, str | None]:
    """The word, and the code of the error behind it. `is_gone` says that the caller had gone."""
    error = ended.error if isinstance(ended, Result) else ended
    if error is None:
        return ("error", None) if isinstance(ended, Result) and ended.is_error else ("ok", None)
    code = error.code if isinstance(error, ToolcribError) else None
    for kind, outcome in _OF_ERROR:
        if isinstance(error, kind):
            return ("disconnected", code) if outcome == "cancelled" and is_gone else (outcome, code)
    return ("error", code) if isinstance(error, ToolcribError) else ("crashed", code)


logger = logging.getLogger("toolcrib")

_UNHEARD = (asyncio.CancelledError, GeneratorExit)
"""Who ends like this waits for nothing any more."""


class Case:
    """One call on its way, and what will be said of it."""

    __slots__ = (
        "_attempt",
        "_audit",
        "_digest",
        "_size",
        "_started",
        "_tool",
        "_watch",
        "decision",
        "id",
        "ran",
        "rule",
        "span",
    )

    def __init__(
        self, audit: AuditLog | None, watch: Watch | None, id_: str, attempt: Attempt, tool: Tool | None
    ) -> None:
        self._audit = audit
        self._watch = watch
        self._started = time.perf_counter()
        self._attempt = attempt
        self._tool = tool
        self._digest: str | None = None
        self._size: int | None = None
        self.id = id_
        self.decision = "allowed"
        self.rule: str | None = None
        self.ran = False
        self.span: Any = None
        if watch is not None:
            self.span = watch.begin(None if tool is None else tool.name, attempt.channel, id_)
        if audit is not None:
            self._digest, self._size = audit.digest(attempt.arguments)

    def measure(self) -> int:
        """The size of the arguments."""
        if self._size is None:
            self._size = len(codec.encode(self._attempt.arguments or {}))
        return self._size

    async def begin(self, tool: Tool) -> None:
        """Before a call that may only happen where it can be recorded. Raises AuditUnavailableError."""
        audit = self._audit
        if audit is None:
            return
        if tool.options.audit == "required":
            is_there = await audit.commit({"kind": "intent", **self._facts()})
        else:
            is_there = await audit.prove()
        if not is_there:
            words = f"Tool '{tool.name}' cannot run now: its calls must be recorded, and cannot be."
            raise AuditUnavailableError(words)

    def admit(self, _: dict[str, Any], _convert: Convert | None) -> None:
        """Nothing about its arguments keeps the tool from running."""
        self.ran = True

    def end(self, ended: Result | BaseException) -> Awaitable[Any] | None:
        """The call is over. Gives what to wait for before it is answered, where somebody waits."""
        entry = self._sum_up(ended)
        if self._audit is None or entry is None:
            return None
        if isinstance(ended, _UNHEARD):
            self._audit.note(entry)
            return None
        # Of a call that somebody makes amid another one, more than the reply comes behind the record.
        is_last = entry["request"] is not None
        return self._audit.commit(entry, Parting if is_last else asyncio.Future)

    def drop(self, error: BaseException) -> None:
        """The call is over before it began, and nobody waits for the record."""
        entry = self._sum_up(error)
        if self._audit is not None and entry is not None:
            self._audit.note(entry)

    def _sum_up(self, ended: Result | BaseException) -> dict[str, Any] | None:
        """Tell everybody who watches; gives what is to be recorded, where there is a record."""
        duration_s = time.perf_counter() - self._started
        outcome, code = outcome_of(ended, is_gone=self._attempt.channel.is_gone)
        result_bytes = size_of(ended) if isinstance(ended, Result) else None
        if self._watch is not None:
            self._watch.end(
                self.span,
                tool=None if self._tool is None else self._tool.name,
                outcome=outcome,
                code=code,
                duration_s=duration_s,
                arguments_bytes=self._size,
                result_bytes=result_bytes,
            )
        if logger.isEnabledFor(logging.INFO):
            self._log(outcome, code, duration_s)
        if self._audit is None:
            return None
        entry = self._facts()
        entry["rule"] = self.rule
        entry["decision"] = self.decision
        entry["outcome"] = outcome
        entry["code"] = code
        entry["duration_ms"] = int(duration_s * 1_000_000) / 1000
        entry["result_bytes"] = result_bytes
        return entry

    def _facts(self) -> dict[str, Any]:
        audit, attempt, tool = self._audit, self._attempt, self._tool
        facts: dict[str, Any] = {
            "id": self.id,
            "request": attempt.channel.request,
            "principal": attempt.principal.name,
            "tool": attempt.name if tool is None else tool.name,
            "version": None if tool is None else tool.version,
            "definition": None if tool is None else tool.definition.fingerprint,
            "arguments_bytes": self._size,
            "arguments_digest": self._digest,
        }
        if audit is not None and audit.keeps_values:
            values = audit.values_of(attempt.arguments)
            if values is not None:
                facts["values"] = values
        return facts

    def _log(self, outcome: str, code: str | None, duration_s: float) -> None:
        fields = {
            "call_id": self.id,
            "tool_name": self._attempt.name if self._tool is None else self._tool.name,
            "principal": self._attempt.principal.name,
            "outcome": outcome,
            "error_code": code,
            "duration_ms": round(duration_s * 1000, 3),
        }
        logger.info("call ended: %s", outcome, extra=fields)


def is_longer(result: Result, most: int) -> bool:
    """Whether a result is more than so many bytes, as content or as structured content: one alone may be."""
    if size_of(result) > most:
        return True
    structured = result.structured_content
    return structured is not None and len(codec.write(structured)) > most


def size_of(result: Result) -> int:
    """The bytes of what a result's content holds, near enough: what stands around it is not counted."""
    return sum(map(_size_of, result.content))


def _size_of(block: Mapping[str, Any]) -> int:
    held = block.get("resource") or block  # an embedded file
    text: str | None = held.get("text") or held.get("data") or held.get("blob")
    if text is None:
        return len(codec.write(block))  # a link, with whatever it says of itself
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


class Resting:
    """Another channel, with a slot that rests while it asks."""

    __slots__ = ("_channel", "_slot")

    def __init__(self, channel: Channel, slot: Slot) -> None:
        self._channel = channel
        self._slot = slot

    @property
    def resumes(self) -> str | None:
        return self._channel.resumes

    @property
    def is_prompted(self) -> bool:
        return self._channel.is_prompted

    @property
    def is_gone(self) -> bool:
        return self._channel.is_gone

    @property
    def request(self) -> str | int | None:
        return self._channel.request

    @property
    def trace(self) -> str | None:
        return self._channel.trace

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._channel.progress(progress, total, message)

    def log(self, level: str, data: Any) -> None:
        self._channel.log(level, data)

    def close_stream(self) -> None:
        self._channel.close_stream()

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:
        self._slot.pause()
        try:
            replies = await self._channel.ask(questions)
        except CannotAskError:
            await self._slot.resume()  # the tool may go on without an answer; after all else it does not
            raise
        await self._slot.resume()
        return replies


MAX_SHOWN = 200
MAX_NAMED = 20
STATE_S = 900.0
"""How long a burned mark is remembered: longer than any state lives."""

Burn = Callable[[str, float], Awaitable[bool]]


async def confirm(
    tool: str,
    arguments: dict[str, Any],
    words: str | None,
    channel: Channel,
    burn: Burn,
    *,
    sent: dict[str, Any] | None = None,
) -> None:
    """Have a person agree to arguments as the tool gets them. Raises NotConfirmedError, or InputNeeded where
    the client has to come again.

    It comes again with a state that is bound to the arguments as they were `sent`. Where others are shown,
    the key of the question holds a digest of them: a yes counts only for the values that were shown.
    """
    key = CONFIRMATION
    if sent is not None and sent is not arguments:
        shown = codec.digest(arguments)
        key = key if shown == codec.digest(sent) else f"{key}.{shown}"
    question = Form(_message(tool, arguments, words))
    try:
        replies = await channel.ask({key: question})
    except CannotAskError as error:
        message = f"Tool '{tool}' runs only when a person agrees, and none can be asked here: {error}"
        raise NotConfirmedError(message, details=error.details) from None
    mark = channel.resumes
    if mark is not None and not await burn(mark, STATE_S):
        raise InputNeeded({key: question})  # this yes was for a call that was made already
    answer = replies[key]
    if not isinstance(answer, Answer) or not answer:
        raise NotConfirmedError(f"Tool '{tool}' was not run: the person did not agree.")


def _message(tool: str, arguments: dict[str, Any], words: str | None) -> str:
    """What is asked, with the arguments as they will be used, so that it is clear what a yes means."""
    lines = [f"Run '{tool}'" + (" with these arguments?" if arguments else "?")]
    lines += [f"  {_shown(name)}: {_shown(value)}" for name, value in list(arguments.items())[:MAX_NAMED]]
    if len(arguments) > MAX_NAMED:
        lines.append(f"  and {len(arguments) - MAX_NAMED} more")
    return "\n".join(([words] if words else []) + lines)


def _shown(value: Any) -> str:
    """A value as it can be shown to a person: nothing in it hides, or passes for something else."""
    text = value if isinstance(value, str) else codec.encode(value).decode()
    if find_hidden(text) is not None or "\n" in text:
        text = text.encode("unicode_escape").decode()
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}... ({len(text)} characters)"


class Guard:
    """What a policy demands, done. One for each server."""

    def __init__(self, policy: Policy, *, server: str = "toolcrib", version: str = "0") -> None:
        self.policy = policy
        problems = ErrorCollector()
        with problems.collecting():
            self.access = Access(policy)
        with problems.collecting():
            self.quota = Quota(policy)
        self.audit: AuditLog | None = None
        self.watch: Watch | None = None
        if policy.audit is not None:
            from toolcrib.policy.audit import AuditLog  # loads SQLite, which not everybody wants

            with problems.collecting(), _placing(policy, "audit"):
                self.audit = AuditLog(policy.audit, server=server)
        if policy.telemetry is not None:
            from toolcrib.policy.telemetry.telemetry import Watch  # loads what it reports to

            with problems.collecting(), _placing(policy, "telemetry"):
                self.watch = Watch(policy.telemetry, server=server, version=version)
        problems.raise_errors()
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
                raise self.policy.error_from("audit.file", error) from None
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
    problems = ErrorCollector()  # told by whoever tried to make the guard
    return [*Access(policy, problems).check(tools), *Quota(policy, problems).check(tools)]


@contextmanager
def _placing(policy: Policy, section: str) -> Iterator[None]:
    """Say of what is wrong with a part where it was written."""
    try:
        yield
    except ConfigurationError as error:
        first, *others = (policy.error_from(section, each) for each in (error, *error.others))
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
