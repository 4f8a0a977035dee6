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
from typing import Any, TypeVar

from toolcrib.dispatch.deadline import Started, is_amid
from toolcrib.dispatch.middleware import RecordWritten
from toolcrib.protocol import Exchange, Reply
from toolcrib.protocol.calls import Call
from toolcrib.protocol.messages import INTERNAL_ERROR, Fault, refusal

logger = logging.getLogger("toolcrib")

Work = asyncio.Task[Reply]


class Late:
    """A call that has run, and whose reply goes out when it is on the record: that takes no task. Who sends
    it says how in `finish`."""

    __slots__ = ("_record", "_work", "exchange")

    def __init__(self, exchange: Exchange, work: Coroutine[Any, Any, Reply], record: RecordWritten) -> None:
        self.exchange = exchange
        self._work = work
        self._record = record

    def finish(self, reply: Reply) -> None:
        """Here is the reply, be the exchange cancelled or not."""
        raise NotImplementedError

    def listen(self) -> None:
        """Have `finish` called when it is time."""
        self._record._asyncio_future_blocking = False  # as a task does with what a coroutine waits for
        self._record.add_done_callback(self._go_on)

    def _go_on(self, _: object) -> None:
        try:
            yielded = self._work.send(None)
        except StopIteration as stop:
            self.finish(stop.value)
        except Exception as error:
            self.finish(_failed(self.exchange, error))
        else:  # it has more to wait for
            follow(self.exchange, _go_on_in_task(self._work, yielded), self.finish)

    def as_task(self) -> Work:
        """The same as a task, where more may come of it than the reply."""
        return _go_on_in_task(self._work, self._record)


AnyLate = TypeVar("AnyLate", bound=Late)


def begin(exchange: Exchange) -> Reply | Work:
    """The reply of an exchange that need not wait, or the task that goes on with it."""
    outcome = start(exchange, Late)
    if isinstance(outcome, Late):
        outcome = exchange.task = outcome.as_task()
    return outcome


def start(exchange: Exchange, late: type[AnyLate]) -> Reply | Work | AnyLate:
    """As `begin`, for those who need no task where only the record is waited for: they get a `late`."""
    is_inline = isinstance(exchange, Call) and exchange.is_immediate and not exchange.engine.gate.is_full
    try:
        outcome = (_run_inline if is_inline else _run_eagerly)(exchange, late)
    except Exception as error:
        return _failed(exchange, error)
    if isinstance(outcome, asyncio.Task):
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


def _run_inline(exchange: Exchange, late: type[AnyLate]) -> Reply | Work | AnyLate:
    """Without a task, which a tool that runs inline needs only if it waits after all."""
    work = exchange.run()
    loop, host = asyncio.get_running_loop(), asyncio.current_task()
    if host is not None:  # whoever serves us: no deadline of a tool is to cancel that
        asyncio.tasks._leave_task(loop, host)
    try:
        yielded = work.send(None)
    except StopIteration as stop:
        reply: Reply = stop.value
        return reply
    finally:
        if host is not None:
            asyncio.tasks._enter_task(loop, host)
    return late(exchange, work, yielded) if type(yielded) is RecordWritten else _go_on_in_task(work, yielded)


def _run_eagerly(exchange: Exchange, late: type[AnyLate]) -> Reply | Work | AnyLate:
    """In a task that makes its first step now."""
    loop = asyncio.get_running_loop()
    work = exchange.run()
    shell = _Shell(work)
    task: Work
    if sys.version_info >= (3, 12):
        task = asyncio.Task(shell, loop=loop, eager_start=True)
    else:
        # What `eager_start` does from 3.12 on: to its first step, this task is the current one.
        context = contextvars.copy_context()
        task = loop.create_task(shell, context=context)
        host = asyncio.current_task()
        if host is not None:
            asyncio.tasks._leave_task(loop, host)
        asyncio.tasks._enter_task(loop, task)
        try:
            context.run(shell.begin, task)
        finally:
            asyncio.tasks._leave_task(loop, task)
            if host is not None:
                asyncio.tasks._enter_task(loop, host)
    if shell.error is not None:
        raise shell.error
    if shell.record is not None:
        return late(exchange, work, shell.record)
    reply, shell.reply = shell.reply, None  # the task lives on for a turn of the loop, and may be one of many
    return task if reply is None else reply


def _go_on_in_task(work: Coroutine[Any, Any, Reply], yielded: Any) -> Work:
    return asyncio.get_running_loop().create_task(Started(work, yielded))


class _Shell(Started):
    """A coroutine that makes its first step before its task does, or with it. Where nothing is left to do
    that needs a task, this one ends."""

    def __init__(self, work: Coroutine[Any, Any, Reply]) -> None:
        super().__init__(work, None)
        self.reply: Reply | None = None
        self.error: BaseException | None = None
        self.record: RecordWritten | None = None
        self._has_begun = False
        self._is_over = False

    def begin(self, task: asyncio.Task[Any] | None) -> None:
        self._has_begun = self._is_over = True
        try:
            yielded = self._coroutine.send(None)
        except StopIteration as stop:
            self.reply = stop.value
        except BaseException as error:
            self.error = error
        else:
            if type(yielded) is RecordWritten and (task is None or not is_amid(task)):
                self.record = yielded
            else:
                self._yielded, self._is_over = yielded, False

    def send(self, value: Any) -> Any:
        if not self._has_begun:
            self.begin(asyncio.current_task())
        if self._is_over:
            raise StopIteration(self.reply)
        return super().send(value)

    def throw(self, *error: Any) -> Any:
        if self._is_over:
            raise StopIteration(self.reply)
        return super().throw(*error)
