"""What a plain function leaves to be awaited, and what becomes of it.

Knows coroutines, futures and async generators; refuses to know where they run.
"""

from __future__ import annotations

import inspect
from typing import Any

from toolcrib.content import BUILT_IN, Result
from toolcrib.plan import Plan


def is_unfinished(value: Any) -> bool:
    """Whether something is still to be awaited: a coroutine, a future, an async generator."""
    return type(value) not in BUILT_IN and (inspect.isawaitable(value) or hasattr(value, "__anext__"))


async def settle(plan: Plan, value: Any) -> Result:
    """The result of what had to be awaited."""
    if not hasattr(value, "__anext__"):
        value = await value
    if hasattr(value, "__anext__"):
        value = await plan.results.gather(value)
    return plan.results.finish(value)
