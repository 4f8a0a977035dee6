"""Says no: in words that a model can act on, and in figures for machines.

Knows the tool's own name and how long to wait; refuses to name anything else that somebody counts.
"""

from __future__ import annotations

from toolcrib.errors import ThrottledError
from toolcrib.policies.quota.terms import NS, Demand, Term

BUSY_NS = NS
"""When to try again where a place must become free: nobody knows, and a second costs little."""


def refuse(
    tool: str, term: Term, kind: str, wait_ns: int, *, within_s: float | None = None
) -> ThrottledError:
    """A call that came too often ("rate"), beside too many others ("concurrency"), or too late in a day
    whose "budget" is spent. `within_s` is how long it has waited for a place."""
    retry_s = -(-wait_ns // 1_000_000) / 1000  # up, so that whoever obeys is let in
    if kind == "budget":
        problem = f"The daily budget for calls of '{tool}' is used up"
    elif kind == "rate":
        problem = f"Too many calls of '{tool}'"
    elif within_s is None:
        problem = f"Too many calls of '{tool}' at once"
    else:
        problem = f"No place for a call of '{tool}' became free within {within_s:g} s"
    details = {"limit": term.label, "kind": kind, "retryAfterS": retry_s}
    return ThrottledError(f"{problem}: try again in {say_wait(retry_s)}.", details=details)


def refuse_late(demand: Demand, waited_s: float) -> ThrottledError:
    """A call that has waited in line for as long as one of its limits lets it."""
    need = min(demand.places, key=lambda need: abs(need.queue_s - waited_s))
    return refuse(demand.tool_name, need.term, "concurrency", BUSY_NS, within_s=waited_s)


def refuse_size(tool: str, term: Term, size: int, most: int) -> ThrottledError:
    """Arguments that are too large, for which no waiting helps."""
    words = f"The arguments of '{tool}' are too large: {size} bytes, and at most {most} are allowed."
    return ThrottledError(words, details={"limit": term.label, "kind": "size", "maxBytes": most})


def say_wait(wait_s: float) -> str:
    """`0.25 s`, `3 s`, `12 min`, `5 h 13 min`: never less than it is."""
    if wait_s < 10:
        return f"{wait_s:g} s"
    whole_s = -int(-wait_s // 1)
    if whole_s < 120:
        return f"{whole_s} s"
    minutes = -(-whole_s // 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"
