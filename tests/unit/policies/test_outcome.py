"""How a call ended, in one word."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest

from toolcrib.content import Result, text_block
from toolcrib.context import InputNeeded
from toolcrib.errors import (
    APIError,
    AuditUnavailableError,
    CallError,
    CannotAskError,
    DeniedError,
    InsufficientScopeError,
    InvalidArgumentsError,
    InvalidResultError,
    NotConfirmedError,
    PolicyError,
    ThrottledError,
    ToolBusyError,
    ToolCrashedError,
    ToolError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from toolcrib.policy.outcome import OUTCOMES, Outcome, outcome_of

WORDS = [
    (ToolNotFoundError("x"), "denied", "unknown-tool"),
    (DeniedError("x"), "denied", "denied"),
    (InsufficientScopeError("x"), "denied", "insufficient-scope"),
    (NotConfirmedError("x"), "denied", "not-confirmed"),
    (ThrottledError("x"), "throttled", "throttled"),
    (ToolBusyError("x"), "throttled", "busy"),
    (ToolTimeoutError("x"), "timeout", "timeout"),
    (ToolCrashedError("x"), "crashed", "crashed"),
    (InputNeeded({}), "input_required", None),
    (asyncio.CancelledError(), "cancelled", None),
    (ToolError("x"), "error", "tool-error"),
    (APIError("x"), "error", "api-error"),
    (InvalidArgumentsError("x"), "error", "invalid-arguments"),
    (InvalidResultError("x"), "error", "invalid-result"),
    (CannotAskError("x"), "error", "cannot-ask"),
    (AuditUnavailableError("x"), "error", "audit-unavailable"),
    (PolicyError("x"), "error", "refused"),
    (RuntimeError("x"), "crashed", None),
    (KeyboardInterrupt(), "crashed", None),
]


@pytest.mark.parametrize(("error", "outcome", "code"), WORDS, ids=lambda item: type(item).__name__)
def test_every_end_has_one_word(error: BaseException, outcome: Outcome, code: str | None) -> None:
    assert outcome_of(error) == (outcome, code)
    if isinstance(error, CallError):  # the same, where a result carries it
        assert outcome_of(Result([text_block("x")], is_error=True, error=error)) == (outcome, code)


def test_a_result_without_an_error_is_well_unless_it_says_not() -> None:
    assert outcome_of(Result([])) == ("ok", None)
    assert outcome_of(Result([], is_error=True)) == ("error", None)


def test_whoever_is_gone_has_not_cancelled_and_nothing_else_changes() -> None:
    assert outcome_of(asyncio.CancelledError(), is_gone=True) == ("disconnected", None)
    for error, outcome, code in WORDS:
        if outcome != "cancelled":
            assert outcome_of(error, is_gone=True) == (outcome, code)
    assert outcome_of(Result([]), is_gone=True) == ("ok", None)


def test_all_words_are_listed_once() -> None:
    assert get_args(Outcome) == OUTCOMES
    assert {outcome for _, outcome, _ in WORDS} | {"ok", "disconnected"} == set(OUTCOMES)
