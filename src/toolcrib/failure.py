"""What the caller of a tool is told when it fails: the author's words, or a reference and nothing else.

Knows the kinds of failure; refuses to know how calls run.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from toolcrib.admission import refused
from toolcrib.content import Result, text_block
from toolcrib.errors import (
    CallError,
    DefinitionError,
    InvalidResultError,
    PolicyError,
    ToolCrashedError,
)
from toolcrib.execution import CrashReporter, Raised
from toolcrib.plan import Plan
from toolcrib.question import InputNeeded


def failed(
    plan: Plan,
    error: CallError | DefinitionError | Raised,
    crashes: CrashReporter,
    given: Any = None,
    call_id: str | None = None,
) -> Result:
    """The result of a call that failed. What nobody foresaw is reported with the reference it is told by (the
    id of the call, where it has one), and without the values that the tool was `given`."""
    plan.stats.errors += 1
    if isinstance(error, PolicyError):
        return refused(error)
    told = _explain(plan, error.error if isinstance(error, Raised) else error, crashes, given, call_id)
    text = _words_of(told)
    if text is None or len(text) > plan.results.max_bytes:
        told = InvalidResultError(f"Tool '{plan.tool.name}' failed, and its words cannot be sent.")
        text = str(told)
    return Result([text_block(text)], is_error=True, error=told)


def _explain(
    plan: Plan, error: BaseException, crashes: CrashReporter, given: Any, call_id: str | None
) -> CallError:
    """What the caller is told of an exception: the author's words, or a reference and nothing else."""
    cause = error
    while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:
        cause = cause.exceptions[0]  # a task group wraps the one error there was
    if isinstance(cause, CallError):
        return cause
    reference = call_id or secrets.token_hex(4)
    crashes.report(plan.tool.name, error, reference, given)
    if isinstance(error, DefinitionError):
        hint = (error.hint if error.tool == plan.tool.name else None) or "see the log of the server"
        text = f"Tool '{plan.tool.name}' cannot run as it is defined: {hint} (reference {reference})."
        return ToolCrashedError(text)
    return ToolCrashedError(f"Tool '{plan.tool.name}' failed unexpectedly (reference {reference}).")


def raise_questions(error: BaseException) -> None:
    """A tool that needs answers has not failed. Tasks of the tool's own may have asked at the same time."""
    if isinstance(error, InputNeeded):
        raise error
    if isinstance(error, BaseExceptionGroup):
        asked, rest = error.split(InputNeeded)
        if asked is not None and rest is None:
            questions: dict[str, Any] = {}
            for part in _leaves(asked):
                questions |= part.questions
            raise InputNeeded(questions)


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[Any]:
    for part in group.exceptions:
        if isinstance(part, BaseExceptionGroup):
            yield from _leaves(part)
        else:
            yield part


def _words_of(error: CallError) -> str | None:
    """The text of an error as it can be sent; None where there is none to be had."""
    try:
        text = str(error) or type(error).__name__
    except Exception:
        return None  # an error class of the author's that cannot show itself
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
