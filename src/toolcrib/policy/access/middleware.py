"""Access control around a call: who may call the tool, with which arguments, and whose confirmation it needs.

On 2026-07-28 the answer to a confirmation comes back with a sealed state that is bound to the caller, the
tool and the exact arguments. Its mark can be used once, so that one yes is one call. Older clients are
asked while the call waits, which leaves nothing to use twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping
from dataclasses import replace
from typing import Any

from toolcrib.component import Component
from toolcrib.context import CONFIRMATION, Answer, Channel, Elicitation, InputNeeded, Principal
from toolcrib.dispatch.calls import Call
from toolcrib.dispatch.middleware import Admission
from toolcrib.errors import (
    CannotAskError,
    DeniedError,
    InsufficientScopeError,
    NotConfirmedError,
    ToolNotFoundError,
)
from toolcrib.names import find_hidden
from toolcrib.policy.access.access import Access, Decision, Judgement
from toolcrib.state import StateHandle
from toolcrib.state.base import Check, Space, StateUnavailable, Write
from toolcrib.validation import codec

MAX_SHOWN = 200
MAX_NAMED = 20
STATE_S = 900.0
"""How long a used mark is remembered: longer than any state lives."""

_USED = Space("once", 100_000, 16 * 2**20, 0, 100_000, "refuse", durable=True)


def find_admission(
    access: Access, principal: Principal, tool: Component, unknown: Collection[str]
) -> Admission | None:
    """Return the test that access rules are for arguments, None if they do not look at any. `unknown` are
    arguments that will be known later."""
    if tool.is_folder and "path" not in unknown:

        def admits_file(given: Mapping[str, Any]) -> bool:
            decision = access.decide_call(principal, tool, given)
            return decision.is_visible and not decision.missing

        return admits_file
    decision, arguments = access.decide(principal, tool), tool.arguments
    if decision.constant is not None:
        return None
    rules = decision.rules.without(unknown)
    if unknown:
        schema = {key: value for key, value in arguments.schema.items() if key != "required"}
        arguments = replace(arguments, schema=schema)

    def admits(given: Mapping[str, Any]) -> bool:
        try:
            checked = arguments.check(given)
            is_allowed = rules.judge(checked).is_allowed
            if is_allowed and rules.compares_received:
                received = arguments.receive(checked, arguments.convert(checked))
                is_allowed = rules.judge(checked, received).is_allowed
            return is_allowed
        except Exception:  # arguments that are invalid, or fail in the author's code, pass no call either
            return False

    return admits


class ArgumentCheck:
    """Applies the rules that depend on arguments.

    The arguments are judged as they came, then as the tool gets them, then confirmed. So no validator of
    the tool sees arguments that are refused as they came, and a person is asked about the values that the
    tool is called with.
    """

    __slots__ = ("_judge", "_rule", "_storage", "_tests", "_tool")

    def __init__(self, tool: Component, decision: Decision, storage: StateHandle) -> None:
        self._tool = tool
        self._judge = decision.judge
        self._storage = storage
        self._tests, self._rule = decision.rules.compile() if decision.constant is None else ((), None)

    def __call__(self, call: Call, checked: dict[str, Any]) -> Awaitable[None] | None:
        if call.convert is None and self._rule is not None:  # nearly always
            for name, kinds, test in self._tests:
                value = checked.get(name)
                if type(value) not in kinds or test(value):
                    break
            else:
                call.record.rule = self._rule
                return None
        return self._check_further(call, checked, self._judge(checked))

    async def _check_further(self, call: Call, checked: dict[str, Any], judgement: Judgement) -> None:
        self._apply(call, judgement)
        received = None if call.convert is None else await call.convert()
        if received is not None:
            judgement = self._judge(checked, received)
            self._apply(call, judgement)
        if judgement.confirm is not None:
            shown = checked if received is None else received.shown()
            call.record.rule = judgement.confirm.rule  # it decides unless a person agrees
            try:
                words = judgement.confirm.words
                await confirm(self._tool, shown, words, call.prepare_questions(), self._storage, sent=checked)
            except NotConfirmedError:
                call.record.decision = "denied"
                raise
            call.record.rule = judgement.rule

    def _apply(self, call: Call, judgement: Judgement) -> None:
        """Note the rule that decides. Raise the error of a call that is denied."""
        call.record.rule = judgement.rule
        if not judgement.is_allowed:
            call.record.decision = "denied"
            if self._tool.kind == "resource" and not judgement.because:
                raise ToolNotFoundError(call.name)  # as if the whole resource were denied
            problem = f"{self._tool.label} may not be called with these arguments"
            raise DeniedError(f"{problem}: {judgement.because}" if judgement.because else f"{problem}.")


async def confirm(
    tool: Component,
    arguments: dict[str, Any],
    words: str | None,
    channel: Channel,
    storage: StateHandle,
    *,
    sent: dict[str, Any] | None = None,
) -> None:
    """Ask a person to agree to a call with these arguments, as the tool gets them. Raise NotConfirmedError,
    or InputNeeded where the client has to call again with the answer.

    The client calls again with a state that is bound to the arguments as they were `sent`. Where others are
    shown, the key of the question holds a digest of them: a yes counts only for the values that were shown.
    """
    key = CONFIRMATION
    if sent is not None and sent is not arguments:
        shown = codec.digest(arguments)
        key = key if shown == codec.digest(sent) else f"{key}.{shown}"
    question = Elicitation(_question(tool.name, arguments, words))
    try:
        replies = await channel.ask({key: question})
    except CannotAskError as error:
        reason = str(error).removeprefix("Cannot ask the user: ")
        message = f"{tool.label} requires confirmation by a person, and nobody can be asked: {reason}"
        raise NotConfirmedError(message, details=error.details) from None
    mark = channel.resumes
    if mark is not None and not await _use_once(mark, storage):
        raise InputNeeded({key: question})  # this yes was for a call that was made already
    answer = replies[key]
    if not isinstance(answer, Answer) or not answer:
        raise NotConfirmedError(f"{tool.label} was not run: the person did not agree.")


async def _use_once(mark: str, storage: StateHandle) -> bool:
    """Return whether a mark is used for the first time, in all processes. If that cannot be known, it is not:
    nothing is allowed twice."""
    try:
        use, unused = Write(_USED, mark, b"", STATE_S), Check(_USED, mark, 0)
        return await storage.engine.values.commit([use], [unused])
    except StateUnavailable:
        return False


def _question(tool: str, arguments: dict[str, Any], words: str | None) -> str:
    """Return the question, with the arguments as they will be used, so that it is clear what a yes means."""
    lines = [f"Run '{tool}'" + (" with these arguments?" if arguments else "?")]
    lines += [
        f"  {_printable(name)}: {_printable(value)}" for name, value in list(arguments.items())[:MAX_NAMED]
    ]
    if len(arguments) > MAX_NAMED:
        lines.append(f"  and {len(arguments) - MAX_NAMED} more")
    return "\n".join(([words] if words else []) + lines)


def _printable(value: Any) -> str:
    """Return a value as text in which nothing is invisible or looks like another line of the question."""
    text = value if isinstance(value, str) else codec.encode(value).decode()
    if find_hidden(text) is not None or "\n" in text:
        text = text.encode("unicode_escape").decode()
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}... ({len(text)} characters)"


def refuse(call: Call, decision: Decision) -> Exception:
    """Return the error of a call that no arguments can pass: a tool that a principal may never call does not
    exist for it; a missing scope is named."""
    if not decision.is_visible or call.tool is None:
        return ToolNotFoundError(call.name)
    problem = f"{call.tool.label} requires a scope that you do not have: {' '.join(decision.missing)}"
    return InsufficientScopeError(problem, details={"scopes": list(decision.missing)})
