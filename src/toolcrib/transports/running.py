"""Runs exchanges: at once as far as nothing has to be waited for, from there on in a task of their own.

Most tools never wait, and a turn of the loop costs about as much as they do. Knows tasks and how an exchange
ends; refuses to know who sends the reply.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from toolcrib.execution.steps import Started
from toolcrib.protocol import Exchange, Reply
from toolcrib.protocol.exchange import Call
from toolcrib.protocol.messages import INTERNAL_ERROR, Fault, refusal

logger = logging.getLogger("toolcrib")

Work = asyncio.Task[Reply]


def begin(exchange: Exchange) -> Reply | Work:
    """The reply of an exchange that need not wait, or the task that goes on with it."""
    is_inline = isinstance(exchange, Call) and exchange.is_immediate and not exchange.engine.gate.is_full
    try:
        outcome = (_run_inline if is_inline else _run_eagerly)(exchange.run())
    except Exception as error:
        return _failed(exchange, error)
    if isinstance(outcome, Reply):
        return outcome
    exchange.task = outcome
    if exchange.is_cancelled:  # in its first step
        exchange.cancel()
    return outcome


def follow(exchange: Exchange, work: Work, finish: Callable[[Reply], None]) -> None:
    """Have `finish` called with the reply, unless the exchange is cancelled."""
    work.add_done_callback(functools.partial(_settle, exchange, finish))


def _settle(exchange: Exchange, finish: Callable[[Reply], None], task: Work) -> None:
    if task.cancelled():
        if not exchange.is_cancelled:  # by whoever stops the loop, or by the tool itself
            finish(refusal(exchange.id, Fault(INTERNAL_ERROR, "The call was cut off", status=503)))
        return
    error = task.exception()
    reply = task.result() if error is None else _failed(exchange, error)
    if not exchange.is_cancelled:
        finish(reply)


def _failed(exchange: Exchange, error: BaseException | None) -> Reply:
    """A flaw of ours: this call hears of it, the others do not."""
    logger.error("a request failed inside toolcrib", exc_info=error)
    return refusal(exchange.id, Fault(INTERNAL_ERROR, "Internal error", status=500))


# --- starting without a turn of the loop -------------------------------------------------------------


def _run_inline(work: Coroutine[Any, Any, Reply]) -> Reply | Work:
    """Without a task, which a tool that runs inline needs only if it waits after all."""
    try:
        yielded = work.send(None)
    except StopIteration as stop:
        reply: Reply = stop.value
        return reply
    return asyncio.get_running_loop().create_task(Started(work, yielded))


def _run_eagerly(work: Coroutine[Any, Any, Reply]) -> Reply | Work:
    """In a task that makes its first step now, where Python can do that."""
    loop = asyncio.get_running_loop()
    if sys.version_info >= (3, 12):
        eager: Work = asyncio.Task(work, loop=loop, eager_start=True)
        return eager.result() if eager.done() else eager
    if asyncio.current_task() is not None:
        return loop.create_task(work)
    context = contextvars.copy_context()
    shell = _Shell(work)
    task: Work = loop.create_task(shell, context=context)
    # What `eager_start` does from 3.12 on: to its first step, this task is the current one.
    asyncio.tasks._enter_task(loop, task)
    try:
        context.run(shell.begin)
    finally:
        asyncio.tasks._leave_task(loop, task)
    if shell.error is not None:
        raise shell.error
    return task if shell.reply is None else shell.reply


class _Shell(Started):
    """A coroutine that makes its first step before its task does. Where that was the last, the task that
    comes for the next one finds nothing to do."""

    def __init__(self, work: Coroutine[Any, Any, Reply]) -> None:
        super().__init__(work, None)
        self.reply: Reply | None = None
        self.error: BaseException | None = None

    def begin(self) -> None:
        try:
            self._yielded = self._coroutine.send(None)
        except StopIteration as stop:
            self.reply = stop.value
        except BaseException as error:
            self.error = error

    def send(self, value: Any) -> Any:
        if self.reply is not None or self.error is not None:
            raise StopIteration(self.reply)
        return super().send(value)

    def throw(self, *error: Any) -> Any:
        if self.reply is not None or self.error is not None:
            raise StopIteration(self.reply)
        return super().throw(*error)
