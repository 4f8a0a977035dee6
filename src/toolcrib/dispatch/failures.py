"""Failed calls: what their callers learn, and what the log does."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from toolcrib.content import Result, text_block
from toolcrib.context import InputNeeded, find_misuse
from toolcrib.dispatch.crash_log import CrashReporter, Raised
from toolcrib.dispatch.middleware import refusal_result
from toolcrib.errors import (
    CallError,
    ContextError,
    DefinitionError,
    InvalidResultError,
    PolicyError,
    ToolCrashedError,
)

if TYPE_CHECKING:
    from toolcrib.dispatch.plans import Plan


def failed(
    plan: Plan,
    error: CallError | DefinitionError | Raised,
    crashes: CrashReporter,
    given: Any = None,
    call_id: str | None = None,
) -> Result:
    """Return the result of a call that failed. Raise InputNeeded for one that asks.

    An unexpected exception is logged under a reference, which the caller gets: the id of the call if it has
    one. The values that the tool was `given` are kept out of the log.
    """
    if isinstance(error, Raised):
        raise_questions(error.error)
    plan.stats.errors += 1
    if isinstance(error, PolicyError):
        return refusal_result(error)
    reported = _explain(plan, error.error if isinstance(error, Raised) else error, crashes, given, call_id)
    text = _message_of(reported)
    if text is None or len(text) > plan.results.max_bytes:
        reported = InvalidResultError(f"{plan.tool.label} failed, and its error message cannot be sent.")
        text = str(reported)
    return Result([text_block(text)], is_error=True, error=reported)


def _explain(
    plan: Plan, error: BaseException, crashes: CrashReporter, given: Any, call_id: str | None
) -> CallError:
    """Return what the caller learns of an exception: the author's message, or a reference and nothing
    else."""
    cause = error
    while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:
        cause = cause.exceptions[0]  # a task group wraps even a single error
    if isinstance(cause, CallError) and not (crashes.hides_adopted and getattr(cause, "is_crash", False)):
        return cause
    foreign = _explain_adopted(plan, cause)
    if foreign is not None and not isinstance(foreign, ToolCrashedError):
        return foreign  # its author meant it to be read
    reference = call_id or secrets.token_hex(4)
    crashes.report(plan.tool.name, error, reference, given)
    if foreign is not None and not crashes.hides_adopted:
        return foreign
    misuse = find_misuse(cause)
    if misuse is not None:
        return ContextError(f"{plan.tool.label} has an error: {misuse} (reference {reference}).")
    if isinstance(error, DefinitionError):
        hint = (error.hint if error.tool == plan.tool.name else None) or "see the log of the server"
        text = f"{plan.tool.label} cannot run as it is defined: {hint} (reference {reference})."
        return ToolCrashedError(text)
    return ToolCrashedError(f"{plan.tool.label} failed unexpectedly (reference {reference}).")


def _explain_adopted(plan: Plan, error: BaseException) -> CallError | None:
    """Return what another library would tell the caller of an exception of its function, or None."""
    adoption = plan.tool.adoption
    if adoption is None or not isinstance(error, Exception):
        return None
    try:
        return adoption.explain(error)
    except Exception:
        return None  # an error class whose __str__ fails


def hide_crash(plan: Plan, result: Result, crashes: CrashReporter, call_id: str | None) -> Result:
    """Return an error result. Those of other libraries' servers lose their text if that is hidden and a crash
    may be behind it: both libraries put the same words before the message of an exception."""
    is_hidden = crashes.hides_adopted and plan.tool.adoption is not None
    if not is_hidden or not result.text.startswith(("Error calling tool ", "Error executing tool ")):
        return result
    reference = call_id or secrets.token_hex(4)
    crashes.report(plan.tool.name, ToolCrashedError(result.text), reference)
    hidden = ToolCrashedError(f"{plan.tool.label} failed unexpectedly (reference {reference}).")
    return Result([text_block(str(hidden))], is_error=True, error=hidden)


def may_repeat(plan: Plan, error: Raised | ToolCrashedError) -> bool:
    """Return whether a tool may be run again: its process was lost, or it raised an exception that it did not
    mean for its caller."""
    if isinstance(error, ToolCrashedError):
        return True
    return all(
        isinstance(part, Exception)
        and not isinstance(part, CallError | DefinitionError)
        and isinstance(_explain_adopted(plan, part), ToolCrashedError | None)
        for part in _leaves(error.error)
    )


def raise_questions(error: BaseException) -> None:
    """Raise InputNeeded if the tool asks questions, possibly from several tasks of its own at the same
    time."""
    questions: dict[str, Any] = {}
    for part in _leaves(error):
        if not isinstance(part, InputNeeded):
            return
        questions |= part.questions
    raise InputNeeded(questions)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in a group, or the exception itself."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error


def _message_of(error: CallError) -> str | None:
    """Return the text of an error as it can be sent, or None if it has none."""
    try:
        text = str(error) or type(error).__name__
    except Exception:
        return None  # an error class whose __str__ fails
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
