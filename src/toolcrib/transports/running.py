"""Runs exchanges: at once where nothing has to be waited for, else in a task of their own.

Knows tasks and how an exchange ends; refuses to know who sends the reply.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from toolcrib.execution.steps import Started
from toolcrib.protocol import Exchange, Reply
from toolcrib.protocol.exchange import Call
from toolcrib.protocol.messages import INTERNAL_ERROR, Fault, refusal

logger = logging.getLogger("toolcrib")


def begin(exchange: Exchange) -> Reply | Coroutine[Any, Any, Reply]:
    """The reply of an exchange that needs no waiting, or what is left to be run in a task.

    A task costs about as much as a small call, so a tool that runs inline gets none.
    """
    work = exchange.run()
    if not (isinstance(exchange, Call) and exchange.is_immediate and not exchange.engine.gate.is_full):
        return work
    try:
        yielded = work.send(None)
    except StopIteration as stop:
        reply: Reply = stop.value
        return reply
    except Exception:
        return _failed(exchange)
    return Started(work, yielded)


def start_task(
    exchange: Exchange, work: Coroutine[Any, Any, Reply], finish: Callable[[Reply], None]
) -> asyncio.Task[None]:
    """Run an exchange in a task; `finish` gets its reply, unless it was cancelled."""
    task = asyncio.get_running_loop().create_task(_run(exchange, work, finish))
    exchange.task = task
    if exchange.is_cancelled:
        exchange.cancel()
    return task


async def _run(exchange: Exchange, work: Coroutine[Any, Any, Reply], finish: Callable[[Reply], None]) -> None:
    try:
        reply = await work
    except asyncio.CancelledError:
        if exchange.is_cancelled:
            return
        raise
    except Exception:
        reply = _failed(exchange)
    if not exchange.is_cancelled:
        finish(reply)


def _failed(exchange: Exchange) -> Reply:
    """A flaw of ours: this call hears of it, the others do not."""
    logger.exception("a request failed inside toolcrib")
    return refusal(exchange.id, Fault(INTERNAL_ERROR, "Internal error", status=500))
