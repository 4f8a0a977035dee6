"""Outcomes of calls: one word each for the audit log, metrics and log lines.

`OutcomeMiddleware` stands inside audit and telemetry and outside the checks of a policy: it turns refusals
into results and fills in `outcome`, `code`, `duration_s` and `result_bytes` of the call for both.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any, Literal, get_args

from toolcrib.content import Result
from toolcrib.context import InputNeeded
from toolcrib.dispatch.middleware import Call, Next, refusal_result
from toolcrib.errors import (
    AuditUnavailableError,
    DeniedError,
    InsufficientScopeError,
    NotConfirmedError,
    PolicyError,
    ThrottledError,
    ToolBusyError,
    ToolCrashedError,
    ToolcribError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

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
    "task",
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_OUTCOME_OF_ERROR: tuple[tuple[type[BaseException], Outcome], ...] = (
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


class OutcomeMiddleware:
    """Notes how each call ended, and logs it at INFO."""

    async def __call__(self, call: Call, next: Next) -> Result:
        try:
            result = await next(call)
        except PolicyError as error:
            call.decision = "denied"
            if isinstance(error, ThrottledError):
                call.rule = f"limit {error.details['limit']}"
            elif isinstance(error, AuditUnavailableError):
                call.rule = "audit"
            result = refusal_result(error)
        except BaseException as error:
            self._end(call, error)
            raise
        call.result_bytes = result_size(result)
        self._end(call, result)
        return result

    def _end(self, call: Call, ended: Result | BaseException) -> None:
        call.duration_s = time.perf_counter() - call.started
        call.outcome, call.code = outcome_of(ended, is_gone=call.channel.is_gone)
        if logger.isEnabledFor(logging.INFO):
            fields = {
                "call_id": call.id,
                "tool_name": call.name if call.tool is None else call.tool.reference,
                "principal": call.principal.name,
                "outcome": call.outcome,
                "error_code": call.code,
                "duration_ms": round(call.duration_s * 1000, 3),
            }
            logger.info("call ended: %s", call.outcome, extra=fields)


def outcome_of(ended: Result | BaseException, *, is_gone: bool = False) -> tuple[Outcome, str | None]:
    """Return the outcome, and the code of the error behind it. `is_gone`: the caller had disconnected."""
    error = ended.error if isinstance(ended, Result) else ended
    if error is None:
        return ("error", None) if isinstance(ended, Result) and ended.is_error else ("ok", None)
    code = error.code if isinstance(error, ToolcribError) else None
    for kind, outcome in _OUTCOME_OF_ERROR:
        if isinstance(error, kind):
            return ("disconnected", code) if outcome == "cancelled" and is_gone else (outcome, code)
    return ("error", code) if isinstance(error, ToolcribError) else ("crashed", code)


def exceeds_size(result: Result, max_bytes: int) -> bool:
    """Whether the content or the structured content of a result is longer than allowed."""
    if result_size(result) > max_bytes:
        return True
    structured = result.structured_content
    return structured is not None and len(codec.write(structured)) > max_bytes


def result_size(result: Result) -> int:
    """Return the approximate size of a result's content in bytes: texts and data, without what is around
    them."""
    return sum(map(_block_size, result.content))


def _block_size(block: Mapping[str, Any]) -> int:
    held = block.get("resource") or block  # an embedded file
    text: str | None = held.get("text") or held.get("data") or held.get("blob")
    if text is None:
        return len(codec.write(block))  # a link
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
