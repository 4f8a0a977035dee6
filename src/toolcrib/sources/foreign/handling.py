"""Handlers for adopted functions, with the other library's Context where the function asks for one.

A function that needs nothing injected is called directly, since every layer adds to the cost of a call.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.context import Context, Question
from toolcrib.errors import ToolError
from toolcrib.schema.parameters import is_async_callable
from toolcrib.sources.foreign.lending import Lender, give_answers
from toolcrib.sources.foreign.offer import Offer
from toolcrib.sources.foreign.returning import explain, input_required_of, to_own
from toolcrib.sources.foreign.session import answer_of, question_of, to_wire

CONTEXT = "toolcrib_context"
"""The parameter through which our Context comes in."""
MAX_ROUNDS = 16
"""How often a function may return questions instead of a result."""

Handler = Callable[..., Any]


def handler_of(offer: Offer, lender: Lender) -> tuple[Handler, bool]:
    """What runs the function of an offer, and whether it takes our Context."""
    function = offer.function
    assert function is not None  # nosec B101  # offers without one are run by `runner_of`
    if offer.injected:
        return _injecting(offer, lender), True
    if inspect.isasyncgenfunction(function):
        function = _gathering(function)
    is_async = is_async_callable(function)
    if not offer.contexts and not lender.is_ambient:
        return (_plain_async if is_async else _plain)(function), False
    return (_lending_async if is_async else _lending)(function, offer.contexts, lender), True


def runner_of(offer: Offer, lender: Lender) -> Handler:
    """What runs an offer in its own library's way, on JSON arguments."""

    async def run_theirs(arguments: dict[str, Any], toolcrib_context: Context) -> Any:
        with lender.lend(toolcrib_context) as theirs:
            value = await _until_answered(
                lambda: offer.run(dict(arguments), theirs), theirs, toolcrib_context
            )
            return offer.unwrap(value)

    return run_theirs


# --- functions ---------------------------------------------------------------------------------------


def _plain(function: Handler) -> Handler:
    def call(*args: Any, **values: Any) -> Any:
        try:
            value = function(*args, **values)
        except Exception as error:
            raise explain(error)
        return _finish_later(value) if inspect.isawaitable(value) else to_own(value)

    return call


async def _finish_later(value: Any) -> Any:
    """A plain function may hand back something to await."""
    try:
        return to_own(await value)
    except Exception as error:
        raise explain(error)


def _plain_async(function: Handler) -> Handler:
    async def call(*args: Any, **values: Any) -> Any:
        try:
            value = await function(*args, **values)
        except Exception as error:
            raise explain(error)
        return to_own(value)

    return call


def _gathering(function: Handler) -> Handler:
    async def call(*args: Any, **values: Any) -> list[Any]:
        return [item async for item in function(*args, **values)]

    return call


def _lending(function: Handler, contexts: tuple[str, ...], lender: Lender) -> Handler:
    def call(*args: Any, toolcrib_context: Context, **values: Any) -> Any:
        with lender.lend(toolcrib_context) as theirs:
            values.update(dict.fromkeys(contexts, theirs))
            for number in range(MAX_ROUNDS):
                try:
                    value = function(*args, **values)
                except Exception as error:
                    raise explain(error)
                if inspect.isawaitable(value):
                    return _finish_later(value)
                needed = input_required_of(value)
                if needed is None:
                    return to_own(value)
                questions = _questions_in(needed, number)
                replies = toolcrib_context.ask_all(questions) if questions else {}
                _hand_over(theirs, needed, questions, replies)
        raise _too_many_rounds()

    return call


def _lending_async(function: Handler, contexts: tuple[str, ...], lender: Lender) -> Handler:
    async def call(*args: Any, toolcrib_context: Context, **values: Any) -> Any:
        with lender.lend(toolcrib_context) as theirs:
            values.update(dict.fromkeys(contexts, theirs))
            return await _until_answered(lambda: function(*args, **values), theirs, toolcrib_context)

    return call


def converts_again(offer: Offer, lender: Lender) -> bool:
    """Whether the function gets arguments that their library converts once more."""
    return bool(offer.injected) and _find_resolver(lender) is None


def _find_resolver(lender: Lender) -> Any:
    """The function of their library that fills parameters without converting the others."""
    dependencies = sys.modules.get("fastmcp.server.dependencies")
    return getattr(dependencies, "resolve_dependencies", None) if lender.is_ambient else None


def _injecting(offer: Offer, lender: Lender) -> Handler:
    """For functions with parameters that only their library can fill: it does, and calls."""
    resolve = _find_resolver(lender)
    if resolve is not None:
        return _injecting_fast(offer.function, resolve, lender)
    run = runner_of(offer, lender)

    async def call(*_: Any, toolcrib_context: Context, **__: Any) -> Any:
        # Their resolvers want the arguments as their own validation makes them.
        return await run(dict(toolcrib_context.arguments), toolcrib_context)

    return call


def _injecting_fast(function: Any, resolve: Any, lender: Lender) -> Handler:
    is_async = is_async_callable(function) and not inspect.isasyncgenfunction(function)

    async def call(*_: Any, toolcrib_context: Context, **values: Any) -> Any:
        async def once() -> Any:
            async with theirs, resolve(function, values) as filled:
                if inspect.isasyncgenfunction(function):
                    return [item async for item in function(**filled)]
                # In a thread of asyncio's, because what was injected has to be closed on this loop after it.
                value = await (function(**filled) if is_async else asyncio.to_thread(function, **filled))
                return list(value) if inspect.isgenerator(value) else value

        with lender.lend(toolcrib_context) as theirs:
            return await _until_answered(once, theirs, toolcrib_context)

    return call


# --- asking by returning questions -------------------------------------------------------------------


async def _until_answered(call: Callable[[], Any], theirs: Any, context: Context) -> Any:
    """Call until there is a result. A function may return questions, and finds the answers in its Context
    when it is called again."""
    for number in range(MAX_ROUNDS):
        try:
            value = await call()
        except Exception as error:
            raise explain(error)
        needed = input_required_of(value)
        if needed is None:
            return to_own(value)
        questions = _questions_in(needed, number)
        replies = await context.ask_all(questions) if questions else {}
        _hand_over(theirs, needed, questions, replies)
    raise _too_many_rounds()


def _questions_in(needed: Any, number: int) -> dict[str, Question]:
    """The questions that were returned. Keys of later rounds are made different from those of the first."""
    asked = {key: to_wire(request) for key, request in (needed.input_requests or {}).items()}
    prefix = "" if number == 0 else f"{number + 1}:"
    return {
        f"{prefix}{key}": question_of(request["method"], request.get("params") or {})
        for key, request in asked.items()
    }


def _hand_over(
    theirs: Any, needed: Any, questions: Mapping[str, Question], replies: Mapping[str, Any]
) -> None:
    keys = list(needed.input_requests or ())
    answers = {
        key: answer_of(question, replies[own])
        for key, (own, question) in zip(keys, questions.items(), strict=True)
    }
    give_answers(theirs, answers or None, needed.request_state)


def _too_many_rounds() -> ToolError:
    return ToolError(f"This tool asked {MAX_ROUNDS} times without coming to a result.")
