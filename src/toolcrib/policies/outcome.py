"""How a call ended, in one word: for the record, for figures and for logs.

Knows results and exceptions; refuses to know where the word is written.
"""

from __future__ import annotations

import asyncio
from typing import Literal, get_args

from toolcrib.content import Result
from toolcrib.errors import (
    DeniedError,
    InsufficientScopeError,
    NotConfirmedError,
    ThrottledError,
    ToolBusyError,
    ToolCrashedError,
    ToolcribError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from toolcrib.question import InputNeeded

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
